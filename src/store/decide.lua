-- Tollgate: decides a batch of requests in one atomic step.
--
-- KEYS  Every key that the batch touches, each once, in any order. A question names them by their place
--       (0: it has none). With Redis Cluster all of a call are under one hash tag; without, any.
--         rl:{t:T}:tb:K  rl:{ip:I}:an    hash    the bucket that promises, and the times of what is held against its owner
--         rl:{t:T}:tb    rl:{ip:I}:tb    hash    the bucket that must hold the cost as well
--         pb:{..}:box[:K]                string  the box in force, value = level; gone when an operator releases it
--         pb:{..}:strikes[:K]            string  strikes in the running window
--         pb:{..}:off[:K]                string  offenses
--         pb:{s:S}:at[:I]                hash    the times of a subject's box and offenses, and of those it has for one address
--         cc:{t:T}:KIND                  zset    leases: who holds one, scored by when that ends (ms)
--         lk:{..}:RESOURCE               hash    a lock: who holds it -> when that ends (ms); fence: the last one given
--         ik:{..}:ID                     hash    an idempotency key in flight: likewise, without a fence
--         qt:{t:T}:KIND                  zset    a quota: ids of requests, scored by when it was granted to them (ms)
--         au:{s:S}:N[:I]  au:{ip:I}:N    zset    attempts by throttle N: ids of requests, scored by when they failed (ms)
--         pb:{s:S}:known                 zset    addresses from which a subject succeeded, scored by when it last did (ms)
--         pb:{s:S}:from                  zset    addresses from which it failed, scored by when that is forgotten (ms)
--         pb:{ip:I}:stuffing             hash    n: failures from an address in the window that ends at e (ms)
--         pb:{ip:I}:subjects             string  the subjects that these were for (HyperLogLog)
-- ARGV  1        the version of this interface: 1
--       2        'store': decide by Redis' clock. 'given': by the next argument, whatever it is (tests, simulations)
--       3        the caller's time, in milliseconds since 1970
--       4        the caller's word for this call, which the reply says back: another call's answer is told by it
--       5        P, how many terms follow
--       6..5+P   terms, numbers apart by spaces; told apart by how many there are:
--                of a kind of subject   grace strikes within memory level_1 level_2 level_3 max_level   (times in ms)
--                and refill unit burst of the first bucket, of the second, and of ip_limit (0 0 0: there is none)
--                of a throttle          who failures within memory level_1 level_2 level_3 max_level provisional resets
--                (who: 0 the address, 1 a subject, 2 a subject from this address)
--                of stuffing            failures subjects within ban memory
--       then     questions, numbers apart by spaces:
--                step terms cost second_cost strictness first second ip held box strikes off
--                step: 0 whole, 1 an address or a subject before the owner, 2 owner, 3 give back, 4 undo, 5 keep, 6 revoke;
--                strictness: 0 off, 1 enforced, 2 watched; held: the hash with the times of box, strikes and offenses:
--                the first bucket's, or, where these are in shadow though the buckets are not, that of the first bucket
--                in shadow
--                and after them, where a request wants more than points (its id has 16 hex digits):
--                id lease slots lock flight quota requests per           of 0, 1 and 2
--                id lease for_lease lock for_lock flight for_flight      of 5: for how long it is kept (ms), 0: let go
--                id lease lock flight                                    of 6
--                (5 and 6 touch no points: they name a bucket only for what it knows of the time, and no terms)
--                and after these, where it is an attempt at credentials, sections that begin with a semicolon:
--                ;address                                  of 0, 1, 2 and 6;   ;address started   of 5: when let through
--                ;terms window box off times [window box off times known]   of 0, 1, 2 and 6, for each throttle: what
--                                         is held against whomever it counts, and against a subject from this address,
--                                         where it spares the addresses that the subject is known from
--                ;fate from terms window .. the same       of 5; fate: 1 the question is undone, 2 given back, 3 failed,
--                                                          4 succeeded
--                ;s terms stuffing subjects box off times [subject ..]      of 5: for whom the address failed
--                (where a step does not need a key of these, its place is 0)
-- Reply Strings: 'tollgate 1 WORD', then one for each question, in order, numbers apart by spaces, time first:
--         a now first second ip [fence]                       allowed: units spent after it (-1: not met); where more
--                                                             than points was wanted, the lock's fence (0: no lock)
--         t now first wait second wait ip wait left level until   throttled: units spent, the real waits, the wait to
--                                                             tell, strikes left, a watched box that it tripped (0 0: none)
--         b now level until tripped                           boxed
--         l now attempt level until tripped                   locked out by an attempt's throttle: which of the question's,
--                                                             from 0
--         y now                                               busy: as many attempts are in flight as may fail
--         i now ip wait told                                  the address has too few points
--         h now what first second ip wait left                taken: by a key in flight (1), lock (2), lease (3) or
--                                                             quota (4): units spent, how long yet, strikes left
--         p now ip                                            the address (-1: not met), or the subject, let it pass
--         k now all [sign attempt level until ..]             kept; all: 1, or 0 where something had run out. Signs: 1 a
--                                                             lockout, 2 the ban for stuffing (of attempt 0), 3 a subject
--                                                             that failed from many addresses (0 0)
--         d now                                               given back, revoked; or it had been revoked before it came
--
-- A bucket counts what is spent, in units in which both a point and a millisecond of refill are whole numbers, so
-- nothing is rounded; Lua's numbers are exact up to 2^53, and every step below stays within that. The same
-- arithmetic, with the reasons for it, is in src/limit/*.rs; a test compares the two on random sequences.
--
-- Whoever holds something is known in it by the keys of the lease and the lock, as far as there are any, and the
-- request's id, with spaces between: with that alone it can be let go, by ZREM and HDEL. A negative end, -E, is a mark:
-- a request that was revoked before it came gets nothing if it comes before E. What is past is as good as gone, and
-- swept on the next write.
--
-- Attempts are known by the request's id. One that failed is scored by when it did; one in flight, by when it will have
-- if nobody tells before: so an outcome that never comes is a failure without anybody doing anything. A mark in its
-- place, -E, is left where failures are forgotten: word of one of them that comes twice counts for nothing before E.
--
-- Every write sets a time to live: until the bucket is full and nothing is promised or held, and a minute (after a
-- lock an hour, so that its fences grow though a clock is set back).

local floor, ceil, fmod, max, min = math.floor, math.ceil, math.fmod, math.max, math.min
local format, gmatch, match, call = string.format, string.gmatch, string.match, redis.call
local QUESTION = '^' .. string.rep('(%d+) ', 11) .. '(%d+)(.*)$'

local MOST = 9007199254740992 -- 2^53: no more units are counted
local FAR = 2251799813685248 -- 2^51 us, 71 years: no promise goes further
local SET_BACK = 1000 -- a clock behind by more than this was set back (ms)
local LONGEST = 315360000000 -- ten years: nothing is kept for longer (ms)
local SLACK = 60000 -- buckets are kept beyond their use by this (ms)
local FENCED = 3600000 -- and locks by this (ms)
local HELD_FOR = 60000 -- who takes something has it for so long, unless it is kept (ms)
local MARKED_FOR = 60000 -- a mark is in force for so long (ms)
local TOLD_AGAIN = 120000 -- word of an attempt that failed longer ago comes no more (ms)
local KNOWN_FOR = 2592000000 -- an address is known for 30 days after its last success (ms)
local KNOWN_ANEW = 3600000 -- which is written down again after so long (ms)
local MOST_KNOWN = 16 -- addresses that a subject is known from
local SPREAD = 10 -- addresses from which a subject fails before that is noticed
local BANNED = 3 -- the level of a ban
local ENFORCED = 1
local WHOLE, BEFORE, OWNER, GIVE_BACK, UNDO, KEEP, REVOKE = 0, 1, 2, 3, 4, 5, 6
local FLIGHT, LOCK, LEASE, QUOTA = 1, 2, 3, 4
local BY_IP = 0
local UNDONE, GIVEN_BACK, FAILED, SUCCEEDED = 1, 2, 3, 4
local LOCKED, STUFFING, FROM_MANY = 1, 2, 3

if ARGV[1] ~= '1' then
  return redis.error_reply('ERR tollgate: this script speaks version 1, and was asked in version ' .. tostring(ARGV[1]))
end

local given = ARGV[2] == 'given'
-- Keys expire by Redis' clock: under another one they are to be there until that says otherwise.
local spare = given and 3600000 or 0
local now = tonumber(ARGV[3])
local micros = now * 1000
local borrowed = false -- the clock is the caller's, since Redis does not tell its own
if not given then
  local time = redis.pcall('TIME')
  if time.err then
    borrowed = true
  else
    now = time[1] * 1000 + floor(time[2] / 1000)
    micros = time[1] * 1000000 + time[2]
  end
end

-- Numbers ----------------------------------------------------------------------------------------------------------

local function numbers(text)
  local list = {}
  for number in gmatch(text, '%S+') do
    list[#list + 1] = tonumber(number)
  end
  return list
end

-- x / y, rounded down and up: x / y itself would round to the nearest.
local function down(x, y)
  return (x - fmod(x, y)) / y
end

local function up(x, y)
  local rest = fmod(x, y)
  local whole = (x - rest) / y
  if rest > 0 then
    return whole + 1
  end
  return whole
end

-- ceil(x * new / old), where x * new may be beyond 2^53: whole points first, then the rest in two halves.
local function in_units(x, old, new)
  local rest = fmod(x, old)
  local high, low = floor(new / 65536), fmod(new, 65536)
  local upper = rest * high
  local lower = fmod(upper, old) * 65536 + rest * low
  return min(MOST, (x - rest) / old * new + down(upper, old) * 65536 + up(lower, old))
end

-- Microseconds in which so many units refill, rounded down and up.
local function micros_down(units, refill)
  local rest = fmod(units, refill)
  return min(FAR, (units - rest) / refill * 1000 + down(rest * 1000, refill))
end

local function micros_up(units, refill)
  local rest = fmod(units, refill)
  return min(FAR, (units - rest) / refill * 1000 + up(rest * 1000, refill))
end

-- State: read once a call, written once at its end ----------------------------------------------------------------

local buckets, strings = {}, {}

-- s units spent, u units a point, r units refilled a millisecond, a as of when (ms), p last promise (us); and when a
-- box (b), the strikes' window (w) and the memory of offenses (m) end; and the box, if a throttle set it (l).
local FIELDS = { 's', 'u', 'r', 'a', 'p', 'b', 'w', 'm', 'l' }

-- What nobody here wrote counts as not there. (Comparisons are false for what is not a number.)
local function whole(text)
  local number = text and tonumber(text)
  if number and number >= 0 and number <= MOST then
    return floor(number)
  end
end

-- Reads a key; nil where it holds another type, which is then nothing of ours. Other errors end the call.
local function read(command, index, ...)
  local found = redis.pcall(command, KEYS[index], ...)
  if type(found) == 'table' and found.err then
    if not string.find(found.err, 'WRONGTYPE', 1, true) then
      return call(command, KEYS[index], ...)
    end
    return nil
  end
  return found
end

local function bucket(index)
  local held = buckets[index]
  if not held then
    local found = read('HMGET', index, unpack(FIELDS))
    held = { found = found or {}, foreign = not found }
    for place, name in ipairs(FIELDS) do
      held[name] = whole(held.found[place])
    end
    if not (held.s and held.u and held.r and held.a and held.u >= 1 and held.r >= 1) then
      held.s, held.u, held.r, held.a = nil, nil, nil, nil
    end
    held.p = held.p or 0
    buckets[index] = held
  end
  return held
end

-- What a full Redis would allow at any time. (It refuses what may take memory, but only until a script wrote something:
-- had this been written first, it would allow the rest.)
local later = {}

-- What nobody here wrote makes room; first by a command that a full Redis refuses.
local function replace(index)
  call('SET', KEYS[index], '')
  call('DEL', KEYS[index])
end

-- Lets a key expire; without the right to that nothing stays.
local function expire(index, left)
  if type(redis.pcall('PEXPIRE', KEYS[index], left)) == 'table' then
    redis.pcall('DEL', KEYS[index])
    call('PEXPIRE', KEYS[index], left)
  end
end

local function write(index, held)
  local useful = up(held.p, 1000)
  if held.s then
    useful = max(useful, held.a + up(held.s, held.r))
  end
  useful = max(useful, held.b or 0, held.w or 0, held.m or 0)
  local changed = {}
  for place, name in ipairs(FIELDS) do
    local to = held[name]
    if to and to ~= tonumber(held.found[place] or nil) then
      changed[#changed + 1] = name
      changed[#changed + 1] = to
    end
  end
  local left = min(max(0, useful - now), LONGEST) + SLACK + spare
  if #changed == 0 then
    later[#later + 1] = function()
      expire(index, left)
    end
    return
  end
  if held.foreign then
    replace(index)
  end
  call('HSET', KEYS[index], unpack(changed))
  expire(index, left)
end

-- A counter, or a level; false: there is none. A box that says no level of a box's is of the first.
local function value(index, is_level)
  local found = strings[index]
  if not found then
    local text = read('GET', index)
    found = { value = text and (whole(text) or 0) or false }
    if found.value and is_level then
      found.value = max(1, min(3, found.value))
    end
    strings[index] = found
  end
  return found.value
end

local function set(index, to, ends)
  strings[index] = { value = to, ends = ends, changed = true }
end

-- Buckets ----------------------------------------------------------------------------------------------------------

-- What is spent of a bucket under a meter, and as of when.
local function kept(held, meter, at)
  if not held.s then
    return 0, at
  end
  local since = held.a
  if since > at + SET_BACK then
    since = at
  end
  if held.u == meter.unit then
    return held.s, since
  end
  return in_units(held.s, held.u, meter.unit), since
end

-- What a client sees of it: refilled, and no emptier than empty.
local function seen(held, meter, at)
  local spent, since = kept(held, meter, at)
  return max(0, min(spent, meter.capacity) - max(0, at - since) * meter.refill)
end

-- How long until it holds a cost (ms).
local function wait_for(held, meter, at, cost)
  local short = cost * meter.unit - (meter.capacity - seen(held, meter, at))
  if short <= 0 then
    return 0
  end
  return up(short, meter.refill)
end

local function store(held, meter, spent, since)
  held.s, held.u, held.r, held.a, held.changed = spent, meter.unit, meter.refill, since, true
end

local function keep(held, meter, at)
  local spent, since = kept(held, meter, at)
  store(held, meter, spent, since)
end

local function pay(held, meter, at, cost)
  local spent, since = kept(held, meter, at)
  spent = max(0, spent - max(0, at - since) * meter.refill)
  store(held, meter, min(MOST, spent + cost * meter.unit), max(since, at))
end

local function give_back(held, meter, at, cost)
  local spent, since = kept(held, meter, at)
  store(held, meter, max(0, spent - cost * meter.unit), since)
end

-- Promises ---------------------------------------------------------------------------------------------------------

-- Promises a refused request its moment: the wait to tell (ms), and whether more than a bucket was promised already.
local function promise(held, meter, at, own, cost, grace)
  local at_us = at * 1000
  local whole = micros_down(meter.capacity, meter.refill)
  local beyond = whole + grace * 1000
  local outstanding = max(0, held.p - at_us)
  if outstanding > beyond + whole then
    -- Made under a slower limit, or before the clock was set back.
    held.p, outstanding = 0, 0
  end
  if outstanding > beyond then
    return up(outstanding, 1000), true
  end
  held.p = max(at_us + min(FAR, own * 1000), held.p + micros_up(cost * meter.unit, meter.refill))
  return up(held.p - at_us, 1000), false
end

-- The penalty box --------------------------------------------------------------------------------------------------

-- Level and end of the box in force; its times are in `held`.
local function lockout(index, held, at)
  local level = value(index, true)
  if not level then
    return nil
  end
  local ends = held.b
  if not given then
    -- Whoever set the key last says when it ends: an operator, perhaps. One without an end is told for a while.
    local left = call('PTTL', KEYS[index])
    local expires = at + (left >= 0 and left or 60000)
    if not strings[index].changed and (not ends or math.abs(expires - ends) > 1000) then
      ends = expires
    end
  end
  if ends and ends > at then
    return level, ends
  end
end

local function strikes_in_window(question, held, at)
  local ends = held.w
  if ends and (ends <= at or ends > at + question.terms.within) then
    return 0
  end
  return value(question.strikes) or 0
end

local function strikes_left(question, held, at)
  local strikes = question.terms.strikes
  return held and max(0, strikes - strikes_in_window(question, held, at)) or strikes
end

-- Puts somebody in a box, in place of any other, and forgets the strikes. `of` says where it is.
local function lock_up(of, held, at, offenses, level, time, memory)
  local ends = at + time
  set(of.off, offenses, at + memory)
  set(of.box, level, ends)
  held.w, held.m, held.b, held.l, held.changed = held.w and 0, at + memory, ends, held.l and 0, true
  return level, ends
end

-- Offenses that are remembered.
local function offenses_of(of, held, at)
  local remembered = held.m
  return (not remembered or remembered > at) and value(of.off) or 0
end

-- One offense more: level and end of the box that it leads to.
local function offend(of, held, terms, at)
  local offenses = offenses_of(of, held, at) + 1
  local level = max(1, min(offenses, 3, terms.max_level))
  return lock_up(of, held, at, offenses, level, terms.levels[level], terms.memory)
end

-- Counts a strike; level and end of the box that it trips.
local function strike(question, held, at)
  local terms = question.terms
  local strikes = strikes_in_window(question, held, at)
  if strikes == 0 then
    held.w = at + terms.within
  end
  strikes = strikes + 1
  held.changed = true
  if strikes < terms.strikes then
    set(question.strikes, strikes, held.w or at + terms.within)
    return nil
  end
  set(question.strikes, false)
  return offend(question, held, terms, at)
end

-- What is held -----------------------------------------------------------------------------------------------------

local holders = {}

-- When a hold ends, or, below 0, a mark. What is no number is no end.
local function ending(text)
  local number = text and tonumber(text)
  return number and number >= -MOST and number <= MOST and number or false
end

-- Who is in a key: `was` when the call came, `ends` now. A hash is read whole: one has it at a time, and marks are few.
-- Of a sorted set, which may be long, only those are read who are asked for.
local function holders_of(index, is_hash)
  local kept = holders[index]
  if not kept then
    kept = { index = index, is_hash = is_hash, was = {}, ends = {}, at = 0 }
    if is_hash then
      local found = read('HGETALL', index)
      kept.foreign = not found
      for place = 1, found and #found or 0, 2 do
        local name, value = found[place], found[place + 1]
        if name == 'fence' then
          kept.fence = whole(value)
        else
          kept.was[name] = ending(value)
          kept.ends[name] = kept.was[name]
        end
      end
    end
    holders[index] = kept
  end
  return kept
end

-- When somebody's hold or mark ends; false: there is none.
local function end_of(kept, member)
  if kept.ends[member] == nil and not kept.is_hash then
    local score = read('ZSCORE', kept.index, member)
    kept.foreign = score == nil
    kept.was[member] = ending(score)
    kept.ends[member] = kept.was[member]
  end
  return kept.ends[member] or false
end

local function put(kept, member, ends, at)
  end_of(kept, member)
  kept.ends[member], kept.at, kept.changed = ends, max(kept.at, at), true
end

-- How many of a sorted set are scored above a time, and up to another.
local function count_between(kept, low, high)
  local count = read('ZCOUNT', kept.index, format('(%.0f', low), format('%.0f', high)) or 0
  for member, ends in pairs(kept.ends) do
    local was = kept.was[member]
    count = count - (was and was > low and was <= high and 1 or 0) + (ends and ends > low and ends <= high and 1 or 0)
  end
  return count
end

local function count_after(kept, at)
  return count_between(kept, at, MOST)
end

-- Reads who of a sorted set is scored above a time, and up to another.
local function load_between(kept, low, high)
  local found = read('ZRANGEBYSCORE', kept.index, format('(%.0f', low), format('%.0f', high), 'WITHSCORES')
  kept.foreign = found == nil
  for place = 1, found and #found or 0, 2 do
    local member = found[place]
    if kept.ends[member] == nil then
      kept.was[member] = ending(found[place + 1])
      kept.ends[member] = kept.was[member]
    end
  end
end

-- The nth lowest score above a time: there are as many. (Leases may come and go in this call, but n is 1 for them; a
-- quota is only added to, as of now: whoever was in it before comes before that, or waits no longer.)
local function nth_after(kept, at, n)
  local known, nth = 0, MOST
  for _, ends in pairs(kept.ends) do
    known = known + 1
    if ends and ends > at then
      nth = min(nth, ends)
    end
  end
  local found = read('ZRANGEBYSCORE', kept.index, format('(%.0f', at), MOST, 'WITHSCORES', 'LIMIT', n - 1, known + 1)
  for place = 1, found and #found or 0, 2 do
    if kept.ends[found[place]] == nil then
      nth = min(nth, tonumber(found[place + 1]))
    end
  end
  return nth
end

-- The earliest end of those who hold a lock or a key in flight; nil: nobody does.
local function held_until(index, at)
  local earliest
  for _, ends in pairs(holders_of(index, true).ends) do
    if ends and ends > at then
      earliest = min(earliest or ends, ends)
    end
  end
  return earliest
end

-- What of all that a request wants is taken, and for how long yet.
local function obstacle(wish, at)
  for what, index in ipairs({ [FLIGHT] = wish.flight, [LOCK] = wish.lock }) do
    local ends = index > 0 and held_until(index, at)
    if ends then
      return what, ends - at
    end
  end
  if wish.lease > 0 then
    local kept = holders_of(wish.lease)
    if count_after(kept, at) >= wish.slots then
      return LEASE, nth_after(kept, at, 1) - at
    end
  end
  if wish.quota > 0 then
    local kept, past = holders_of(wish.quota), at - wish.per
    local count = count_after(kept, past)
    if count >= wish.requests then
      -- Granted later than now: before the clock was set back.
      return QUOTA, min(wish.per, nth_after(kept, past, count - wish.requests + 1) - past)
    end
  end
end

-- Takes all that a request wants; the lock's fence (0: no lock).
local function take(wish, at)
  for _, part in ipairs(wish.parts) do
    put(part.kept, wish.member, at + HELD_FOR, at)
  end
  for _, attempt in ipairs(wish.attempts) do
    if attempt.terms.provisional then
      put(attempt.whose.window, wish.id, at + HELD_FOR, at)
    end
  end
  if wish.quota > 0 then
    local kept = holders_of(wish.quota)
    put(kept, wish.id, at, at)
    kept.per = max(kept.per or 0, wish.per)
  end
  if wish.lock == 0 then
    return 0
  end
  local kept = holders_of(wish.lock, true)
  local last = kept.fence and kept.fence < MOST and kept.fence or 0
  kept.fence = min(MOST, max(last + 1, at > now and at * 1000 or micros))
  kept.fenced = true
  return kept.fence
end

-- Whether a request was revoked before it came, as far as it holds anything: each leg of it may say so.
local function is_marked(wish, at)
  local part = wish.parts[1]
  local ends = part and end_of(part.kept, wish.member)
  if ends and -ends > at then
    return true
  end
  for _, attempt in ipairs(wish.attempts) do
    ends = attempt.terms.provisional and end_of(attempt.own.window, wish.id)
    if ends and -ends > at then
      return true
    end
  end
  return false
end

-- Holds on for so long from now, or lets go; 0 where something had run out: that may be another's by now.
local function hold_on(wish, at)
  local all = 1
  for _, part in ipairs(wish.parts) do
    local ends = end_of(part.kept, wish.member)
    if part.lasts == 0 then
      if ends and ends >= 0 then
        put(part.kept, wish.member, false, at)
      end
    elseif ends and ends > at then
      local stays = at + min(part.lasts, LONGEST)
      -- Word that a stream lives, come late, takes nothing back of what was handed over since.
      put(part.kept, wish.member, part.lasts == HELD_FOR and max(ends, stays) or stays, at)
    else
      all = 0
    end
  end
  return all
end

-- Lets go of whatever is held; where nothing is, the request may come yet: it is marked.
local function revoke(wish, at)
  local has_come, first = false, nil
  local function let_go(kept, member, since)
    local ends = end_of(kept, member)
    if ends and ends >= 0 and ends > since then
      put(kept, member, false, at)
      has_come = true
    end
    first = first or { kept = kept, member = member }
  end
  for _, part in ipairs(wish.parts) do
    let_go(part.kept, wish.member, at)
  end
  for _, attempt in ipairs(wish.attempts) do
    if attempt.terms.provisional then
      -- One that ran out meanwhile was none: nobody was let through.
      let_go(attempt.own.window, wish.id, at - attempt.terms.within)
      if attempt.pair then
        let_go(attempt.pair.window, wish.id, at - attempt.terms.within)
      end
    end
  end
  if first and not has_come then
    put(first.kept, first.member, -(at + MARKED_FOR), at)
  end
end

-- Who comes into a key or stays for another time, and who goes.
local function changes_of(kept)
  local comes, goes = {}, {}
  for member, ends in pairs(kept.ends) do
    local was = kept.was[member]
    if ends and ends ~= was then
      comes[#comes + 1] = member
      comes[#comes + 1] = ends
    elseif was and not ends then
      goes[#goes + 1] = member
    end
  end
  if kept.fenced then
    comes[#comes + 1] = 'fence'
    comes[#comes + 1] = kept.fence
  end
  return comes, goes
end

local function write_set(kept, comes, goes)
  local key = KEYS[kept.index]
  if #comes > 0 then
    local scored = {}
    for place = 1, #comes, 2 do
      scored[place], scored[place + 1] = comes[place + 1], comes[place]
    end
    call('ZADD', key, unpack(scored))
  end
  if #goes > 0 then
    call('ZREM', key, unpack(goes))
  end
  if kept.per then
    call('ZREMRANGEBYSCORE', key, '-inf', kept.at - kept.per)
    return kept.per + SLACK
  end
  -- Of holds the score is the end; a failed attempt counts for a while from then on.
  local within = kept.within or 0
  call('ZREMRANGEBYSCORE', key, -kept.at, kept.at - within)
  -- The latest mark is first, the latest hold last.
  local marked, held = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2], call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  return max(0, -(tonumber(marked) or 0) - now, (tonumber(held) or 0) + within - now) + SLACK
end

local function write_hash(kept, comes)
  local key = KEYS[kept.index]
  if #comes > 0 then
    call('HSET', key, unpack(comes))
  end
  local useful = now
  for member, ends in pairs(kept.ends) do
    if ends and math.abs(ends) > kept.at then
      useful = max(useful, math.abs(ends))
    elseif kept.was[member] ~= nil then
      call('HDEL', key, member)
    end
  end
  return useful - now + (kept.is_lock and FENCED or SLACK)
end

local function write_holders(kept)
  local comes, goes = changes_of(kept)
  local function all()
    if kept.foreign then
      replace(kept.index)
    end
    local left = (kept.is_hash and write_hash or write_set)(kept, comes, goes)
    expire(kept.index, min(ceil(left), LONGEST) + spare)
  end
  if #comes > 0 then
    all()
  else
    later[#later + 1] = all
  end
end

-- Attempts ---------------------------------------------------------------------------------------------------------

-- Level and end of the lockout in force for whomever an attempt counts. An address has one box for all that it does:
-- strikes put it there too, or an operator, and then it may still try credentials.
local function locked(attempt, at)
  local held = bucket(attempt.whose.times)
  local level, ends = lockout(attempt.whose.box, held, at)
  if level and attempt.terms.who == BY_IP then
    ends = min(ends, held.l or 0)
  end
  if level and ends > at then
    return level, ends
  end
end

-- Whether a subject succeeded from this address lately.
local function is_known(attempt, address, at)
  local last = attempt.known and end_of(attempt.known, address)
  return last and last > at - KNOWN_FOR
end

-- Of all lockouts in force for a request the one that ends last: by which attempt, its level and end; and whether one
-- of them is the box whose times are in `held`.
local function locked_out(wish, held, at)
  local latest
  local is_held = false
  for place, attempt in ipairs(wish.attempts) do
    attempt.whose = is_known(attempt, wish.address, at) and attempt.pair or attempt.own
    local level, ends = locked(attempt, at)
    if level then
      is_held = is_held or attempt.whose.times == held
      if not latest or ends > latest.ends then
        latest = { place = place - 1, level = level, ends = ends }
      end
    end
  end
  return latest, is_held
end

-- Attempts that failed within a window. By a clock that was set back what failed since then did not.
local function failed_of(attempt, at)
  return count_between(attempt.whose.window, max(0, at - attempt.terms.within), at)
end

-- Forgets what failed in a window, and leaves marks in place of those of which word may come again: lately they were
-- told, or this moment.
local function forget(wish, attempt, at)
  local kept, low = attempt.whose.window, max(0, at - attempt.terms.within)
  load_between(kept, low, at)
  for member, score in pairs(kept.ends) do
    if score and score > low and score <= at then
      local again = score > at - TOLD_AGAIN or member == wish.id
      put(kept, member, again and -(at + MARKED_FOR), at)
    end
  end
end

-- So many attempts failed that whomever they count is locked out: the lockout's level and end.
local function trip(wish, attempt, at)
  local held = bucket(attempt.whose.times)
  local level, ends = offend(attempt.whose, held, attempt.terms, at)
  if attempt.terms.who == BY_IP then
    held.l = ends
  end
  forget(wish, attempt, at)
  return level, ends
end

-- The answer to a request one of whose windows has no room; nil: all have. Nobody tells when those in flight run out,
-- so it may be found out only now that enough of them failed.
local function crowded(wish, at)
  for place, attempt in ipairs(wish.attempts) do
    local failures, failed = attempt.terms.failures, failed_of(attempt, at)
    if failed >= failures then
      return format('l %.0f %d %d %.0f 1', at, place - 1, trip(wish, attempt, at))
    end
    -- None is in flight for longer: that was before the clock was set back.
    if attempt.terms.provisional and failed + count_between(attempt.whose.window, at, at + HELD_FOR) >= failures then
      return format('y %.0f', at)
    end
  end
end

-- What a window has of a request: when it failed or will have, or a mark.
local function score_in(kept, id, within, at)
  local score = end_of(kept, id)
  if score and (score < 0 and -score > at or score >= 0 and score > at - within) then
    return score
  end
end

-- Where an attempt counts whose outcome is told: where it was let through, whatever is known by now.
local function counts_at(wish, attempt, at)
  local own, pair, within = attempt.own, attempt.pair, attempt.terms.within
  if pair and score_in(pair.window, wish.id, within, at) then
    return pair
  end
  if pair and not score_in(own.window, wish.id, within, at) and is_known(attempt, wish.address, at) then
    return pair
  end
  return own
end

-- An attempt failed. Whether that is news; and level and end of the lockout that it leads to.
local function fail(wish, attempt, at)
  local window, id, within = attempt.whose.window, wish.id, attempt.terms.within
  local score, failed_at = score_in(window, id, within, at), min(wish.started, at)
  if score and score <= failed_at then
    return false -- marked, or told already
  end
  if attempt.is_locked then
    -- Those that were let through before the lockout do not count again.
    put(window, id, -(at + MARKED_FOR), at)
    return true
  end
  if failed_at > at - within then
    put(window, id, failed_at, at)
  elseif score then
    put(window, id, false, at)
  end
  -- Though this one was too long ago, enough may have failed with nobody telling.
  if failed_of(attempt, at) >= attempt.terms.failures then
    return true, trip(wish, attempt, at)
  end
  return true
end

-- An attempt is none any more.
local function end_attempt(wish, attempt, since, at)
  local score = end_of(attempt.whose.window, wish.id)
  if score and score >= 0 and score > since then
    put(attempt.whose.window, wish.id, false, at)
  end
end

-- Notes from where a subject succeeded; who was longest away makes room.
local function note_known(attempt, address, at)
  local kept = attempt.known
  local last = end_of(kept, address)
  if last and last >= at - KNOWN_ANEW then
    return
  end
  kept.per = KNOWN_FOR
  load_between(kept, max(0, at - KNOWN_FOR), MOST)
  local known, oldest = 0, nil
  for other, score in pairs(kept.ends) do
    if score and score > at - KNOWN_FOR and other ~= address then
      known = known + 1
      if not oldest or score < kept.ends[oldest] or score == kept.ends[oldest] and other < oldest then
        oldest = other
      end
    end
  end
  if known >= MOST_KNOWN then
    put(kept, oldest, false, at)
  end
  put(kept, address, at, at)
end

-- Notes from where a subject failed, in a window fixed from the first time: whether that makes them many.
local function is_from_many(attempt, address, at)
  local kept, latest = attempt.from, at + attempt.terms.within
  load_between(kept, at, latest)
  local known, ends = 0, latest
  for other, score in pairs(kept.ends) do
    if score and score > at and score <= latest then
      if other == address then
        return false
      end
      known, ends = known + 1, min(ends, score)
    end
  end
  if known >= SPREAD then
    return false
  end
  put(kept, address, ends, at)
  return known + 1 == SPREAD
end

-- Credential stuffing ----------------------------------------------------------------------------------------------

local stuffings = {}

-- Failures from an address, in a window fixed from the first.
local function count_of(stuffing, at)
  local count = stuffings[stuffing.count]
  if not count then
    local found = read('HMGET', stuffing.count, 'n', 'e')
    count = { foreign = not found, n = whole(found and found[1]), e = whole(found and found[2]) }
    stuffings[stuffing.count] = count
  end
  -- A window that ends further away was begun before the clock was set back, or it was shortened.
  if not (count.n and count.e and count.e > at and count.e <= at + stuffing.terms.within) then
    count.n, count.e = 0, at + stuffing.terms.within
    replace(stuffing.subjects)
  end
  return count
end

-- Counts subjects; about how many distinct ones there are. Written at once: Redis counts only what is there.
local function count_subjects(stuffing)
  local key = KEYS[stuffing.subjects]
  if type(redis.pcall('PFADD', key, unpack(stuffing.names))) == 'table' then
    -- It is nothing that counts.
    replace(stuffing.subjects)
    call('PFADD', key, unpack(stuffing.names))
  end
  return call('PFCOUNT', key)
end

-- One failure more from an address: the end of the ban that it leads to.
local function stuff(stuffing, at)
  local terms, count = stuffing.terms, count_of(stuffing, at)
  count.n, count.changed = min(MOST, count.n + 1), true
  local subjects = count_subjects(stuffing)
  expire(stuffing.subjects, ceil(count.e - now) + SLACK + spare)
  if count.n < terms.failures or subjects < terms.subjects then
    return nil
  end
  count.n, count.e = 0, 0
  call('DEL', KEYS[stuffing.subjects])
  local held = bucket(stuffing.whose.times)
  local offenses = max(BANNED, offenses_of(stuffing.whose, held, at))
  local _, ends = lock_up(stuffing.whose, held, at, offenses, BANNED, terms.ban, terms.memory)
  held.l = ends
  return ends
end

local function write_count(index, count)
  if count.n == 0 then
    later[#later + 1] = function()
      call('DEL', KEYS[index])
    end
    return
  end
  if count.foreign then
    replace(index)
  end
  call('HSET', KEYS[index], 'n', count.n, 'e', count.e)
  expire(index, ceil(count.e - now) + SLACK + spare)
end

-- What became of attempts ------------------------------------------------------------------------------------------

-- Takes note of what became of a request's attempts; the signs to tell.
local function conclude(wish, at)
  local signs = ''
  local function tell(sign, place, level, ends)
    signs = signs .. format(' %d %d %d %.0f', sign, place, level, ends)
  end
  -- A failure counts for stuffing once, as far as the address has a window of attempts that tells.
  local of_address, new_of_address = false, false
  for _, attempt in ipairs(wish.attempts) do
    attempt.whose = counts_at(wish, attempt, at)
    -- Several windows may be full at once, though they lead to the same box.
    attempt.is_locked = attempt.fate == FAILED and locked(attempt, at)
  end
  for place, attempt in ipairs(wish.attempts) do
    if attempt.fate == FAILED then
      local is_new, level, ends = fail(wish, attempt, at)
      if level then
        tell(LOCKED, place - 1, level, ends)
      end
      if attempt.terms.who == BY_IP then
        of_address, new_of_address = true, new_of_address or is_new
      end
      if attempt.from and is_from_many(attempt, wish.address, at) then
        tell(FROM_MANY, place - 1, 0, 0)
      end
    elseif attempt.fate == UNDONE then
      end_attempt(wish, attempt, at, at)
    else
      end_attempt(wish, attempt, at - attempt.terms.within, at)
      if attempt.fate == SUCCEEDED then
        if attempt.terms.resets then
          forget(wish, attempt, at)
        end
        if attempt.known then
          note_known(attempt, wish.address, at)
        end
      end
    end
  end
  if wish.stuffing and (new_of_address or not of_address) then
    local ends = stuff(wish.stuffing, at)
    if ends then
      tell(STUFFING, 0, BANNED, ends)
    end
  end
  return signs
end

-- One question -----------------------------------------------------------------------------------------------------

local function limits_of(n)
  local function meter(first)
    return n[first] > 0 and { refill = n[first], unit = n[first + 1], capacity = n[first + 1] * n[first + 2] }
  end
  return {
    grace = n[1], strikes = n[2], within = n[3], memory = n[4],
    levels = { n[5], n[6], n[7] }, max_level = n[8],
    first = meter(9), second = meter(12), ip = meter(15),
  }
end

local function throttle_of(n)
  return {
    who = n[1], failures = n[2], within = n[3], memory = n[4],
    levels = { n[5], n[6], n[7] }, max_level = n[8], provisional = n[9] == 1, resets = n[10] == 1,
  }
end

local function terms_of(text)
  local n = numbers(text)
  if #n == 17 then
    return limits_of(n)
  end
  if #n == 10 then
    return throttle_of(n)
  end
  return { failures = n[1], subjects = n[2], within = n[3], ban = n[4], memory = n[5] }
end

-- Where attempts by a throttle are counted, and what is held against whomever it counts.
local function place_of(window, box, off, times, terms)
  local kept = holders_of(window)
  kept.within = max(kept.within or 0, terms.within)
  return { window = kept, box = box, off = off, times = times }
end

local function attempt_of(n, terms, is_told)
  local attempt = { fate = is_told and n[1], from = is_told and n[2] > 0 and holders_of(n[2]) }
  local first = is_told and 3 or 1
  attempt.terms = terms[n[first]]
  attempt.own = place_of(n[first + 1], n[first + 2], n[first + 3], n[first + 4], attempt.terms)
  if n[first + 5] then
    attempt.pair = place_of(n[first + 5], n[first + 6], n[first + 7], n[first + 8], attempt.terms)
    attempt.known = n[first + 9] > 0 and holders_of(n[first + 9])
  end
  return attempt
end

local function stuffing_of(section, terms)
  local words = {}
  for word in gmatch(section, '%S+') do
    words[#words + 1] = word
  end
  local of, count, subjects, box, off, times = unpack(words, 2, 7)
  return {
    terms = terms[tonumber(of)], count = tonumber(count), subjects = tonumber(subjects),
    whose = { box = tonumber(box), off = tonumber(off), times = tonumber(times) }, names = { unpack(words, 8) },
  }
end

-- What a request wants, or holds, besides points.
local function wish_of(step, text, terms)
  local sections = gmatch(text, '[^;]+')
  local id, rest = match(sections(), '^ (%x+) (.+)$')
  local n = numbers(rest)
  local wish
  if step == KEEP then
    wish = { lease = n[1], lock = n[3], flight = n[5], lasts = { n[2], n[4], n[6] } }
  elseif step == REVOKE then
    wish = { lease = n[1], lock = n[2], flight = n[3] }
  else
    wish = { lease = n[1], slots = n[2], lock = n[3], flight = n[4], quota = n[5], requests = n[6], per = n[7] }
  end
  local words, parts = { id }, {}
  if wish.lock > 0 then
    table.insert(words, 1, KEYS[wish.lock])
  end
  if wish.lease > 0 then
    table.insert(words, 1, KEYS[wish.lease])
  end
  for place, index in ipairs({ wish.lease, wish.lock, wish.flight }) do
    if index > 0 then
      local kept = holders_of(index, place > 1)
      kept.is_lock = place == 2
      parts[#parts + 1] = { kept = kept, lasts = wish.lasts and wish.lasts[place] }
    end
  end
  wish.id, wish.member, wish.parts, wish.attempts = id, table.concat(words, ' '), parts, {}
  local address, started = match(sections() or '', '^(%S+) ?(%d*)$')
  wish.address, wish.started = address, tonumber(started)
  for section in sections do
    if match(section, '^s ') then
      wish.stuffing = stuffing_of(section, terms)
    else
      table.insert(wish.attempts, attempt_of(numbers(section), terms, step == KEEP))
    end
  end
  return wish
end

local function question_of(text, terms)
  local step, of, cost, second_cost, strictness, first, second, ip, held, box, strikes, off, more =
    match(text, QUESTION)
  return {
    wish = more ~= '' and wish_of(tonumber(step), more, terms),
    step = tonumber(step), terms = terms[tonumber(of)], cost = tonumber(cost), second_cost = tonumber(second_cost),
    strictness = tonumber(strictness), first = tonumber(first), second = tonumber(second), ip = tonumber(ip),
    held = tonumber(held), box = tonumber(box), strikes = tonumber(strikes), off = tonumber(off),
  }
end

-- Redis does not tell the time, so several callers' clocks meet: time never goes back behind what it was for anyone
-- this question is about.
local function time_for(question)
  local at = now
  if not borrowed then
    return at
  end
  for _, index in ipairs({ question.first, question.second, question.ip }) do
    if index > 0 then
      at = max(at, bucket(index).a or 0)
    end
  end
  for _, attempt in ipairs(question.wish and question.wish.attempts or {}) do
    for _, place in ipairs({ attempt.own, attempt.pair or nil }) do
      -- Nothing in a window is scored by more than this ahead of when it was written.
      local last = read('ZRANGE', place.window.index, -1, -1, 'WITHSCORES')
      at = max(at, place.window.at, (ending(last and last[2]) or 0) - HELD_FOR)
    end
  end
  return at
end

local function decide(question)
  local at, terms, cost, wish = time_for(question), question.terms, question.cost, question.wish
  if question.step == KEEP then
    return format('k %.0f %d', at, hold_on(wish, at)) .. conclude(wish, at)
  end
  if question.step == REVOKE then
    revoke(wish, at)
    return format('d %.0f', at)
  end
  if wish and is_marked(wish, at) then
    return format('d %.0f', at)
  end

  local ip = question.ip > 0 and bucket(question.ip)
  local first = question.first > 0 and bucket(question.first)
  local second = question.second > 0 and bucket(question.second)
  local held = question.held > 0 and bucket(question.held)

  if question.step > OWNER then
    if ip then
      give_back(ip, terms.ip, at, 1)
    end
    if first and question.step ~= GIVE_BACK then
      give_back(first, terms.first, at, cost)
      if second then
        give_back(second, terms.second, at, question.second_cost)
      end
    end
    return format('d %.0f', at)
  end

  local latest, is_held
  if wish then
    latest, is_held = locked_out(wish, question.held, at)
  end
  local level, ends
  if held then
    level, ends = lockout(question.box, held, at)
    -- Where a throttle put it there, that is the answer.
    if level and question.strictness == ENFORCED and not is_held then
      return format('b %.0f %d %.0f 0', at, level, ends)
    end
  end
  if latest then
    return format('l %.0f %d %d %.0f 0', at, latest.place, latest.level, latest.ends)
  end
  local refused = wish and crowded(wish, at)
  if refused then
    return refused
  end

  local own, other = 0, 0
  if first then
    own = wait_for(first, terms.first, at, cost)
    other = second and wait_for(second, terms.second, at, question.second_cost) or 0
  end
  local function left_of(held, meter)
    return held and seen(held, meter, at) or -1
  end

  if ip then
    local wait = wait_for(ip, terms.ip, at, 1)
    if wait > 0 then
      return format('i %.0f %.0f %.0f %.0f', at, seen(ip, terms.ip, at), wait, max(wait, own, other))
    end
    pay(ip, terms.ip, at, 1)
  end
  if question.step == BEFORE then
    if wish then
      take(wish, at)
    end
    return format('p %.0f %.0f', at, left_of(ip, terms and terms.ip))
  end

  if first and first.s and first.a > at + SET_BACK then
    first.p = 0
  end
  local real = max(own, other)
  if real == 0 then
    local what, wait
    if wish then
      what, wait = obstacle(wish, at)
    end
    -- What is taken costs a point, so that asking again and again is not free.
    if first then
      pay(first, terms.first, at, what and 1 or cost)
    end
    if second then
      pay(second, terms.second, at, what and 1 or question.second_cost)
    end
    if what then
      -- Who meets nothing but the address's bucket pays it there.
      if ip and first then
        give_back(ip, terms.ip, at, 1)
      end
      return format('h %.0f %d %.0f %.0f %.0f %.0f %d', at, what, left_of(first, terms.first),
        left_of(second, terms.second), left_of(ip, terms.ip), max(1, ceil(wait)),
        first and strikes_left(question, held, at) or -1)
    end
    local answer = format('a %.0f %.0f %.0f %.0f', at, left_of(first, terms.first), left_of(second, terms.second),
      left_of(ip, terms.ip))
    return wish and answer .. format(' %.0f', take(wish, at)) or answer
  end

  keep(first, terms.first, at)
  if second then
    keep(second, terms.second, at)
  end
  if ip then
    give_back(ip, terms.ip, at, 1)
  end
  local told, beyond = promise(first, terms.first, at, own, cost, terms.grace)
  local tripped, tripped_ends
  -- In a watched box nothing would have been decided, so nothing more is held.
  if beyond and held and not level then
    tripped, tripped_ends = strike(question, held, at)
  end
  if tripped and question.strictness == ENFORCED then
    first.p = 0
    return format('b %.0f %d %.0f 1', at, tripped, tripped_ends)
  end
  return format('t %.0f %.0f %.0f %.0f %.0f %.0f %.0f %d %d %.0f', at, seen(first, terms.first, at), own,
    left_of(second, terms.second), other, left_of(ip, terms.ip), max(told, real), strikes_left(question, held, at),
    tripped or 0, tripped_ends or 0)
end

-- The batch --------------------------------------------------------------------------------------------------------

local terms = {}
local count = tonumber(ARGV[5])
for i = 1, count do
  terms[i] = terms_of(ARGV[5 + i])
end
local answers = { 'tollgate 1 ' .. ARGV[4] }
for i = 6 + count, #ARGV do
  answers[#answers + 1] = decide(question_of(ARGV[i], terms))
end

for index, held in pairs(buckets) do
  if held.changed then
    write(index, held)
  end
end
for index, found in pairs(strings) do
  if found.changed then
    if found.value then
      call('SET', KEYS[index], found.value, 'PX', max(1, found.ends - now) + spare)
    else
      call('DEL', KEYS[index])
    end
  end
end
for _, kept in pairs(holders) do
  if kept.changed then
    write_holders(kept)
  end
end
for index, count in pairs(stuffings) do
  if count.changed then
    write_count(index, count)
  end
end
for _, rest in ipairs(later) do
  rest()
end
return answers
