//! The attempts that Redis counts at the moment, by its own clock. A score above now is an attempt under way, and when it
//! fails unless its outcome is told; one above 0 is a failure; one below is a mark.

use std::time::Duration;

use tollgate_e2e::{Redis, eventually};

const SLOTS: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    local all = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 2, #all, 2 do
        if tonumber(all[i]) > 0 then found[#found + 1] = math.floor(tonumber(all[i]) - now) end
    end
end
return found";

/// What time does to attempts whose outcome nobody tells.
const AGE: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, now, '+inf')) do
        redis.call('ZADD', key, 'XX', now - 1, member)
    end
end";

/// The attempts of a throttle, in any of its windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots {
    /// When those under way fail, from now.
    pub(crate) pending: Vec<Duration>,
    /// How many have failed.
    pub(crate) failed: usize,
}

/// The attempts that this throttle counts.
pub(crate) async fn slots(redis: &Redis, throttle: &str) -> Slots {
    let found: Vec<i64> = redis
        .ask(&["EVAL", SLOTS, "0", &format!("au:*}}:{throttle}*")])
        .await
        .expect("the attempts");
    let pending: Vec<Duration> = found
        .iter()
        .filter(|&&left| left > 0)
        .map(|&left| Duration::from_millis(left.unsigned_abs()))
        .collect();
    Slots {
        failed: found.len() - pending.len(),
        pending,
    }
}

/// Waits until none is under way, and tells how many have failed.
pub(crate) async fn are_back(redis: &Redis, throttle: &str, within: Duration) -> usize {
    eventually(
        &format!("no attempt under {throttle} is under way"),
        within,
        async || {
            let slots = slots(redis, throttle).await;
            slots.pending.is_empty().then_some(slots.failed)
        },
    )
    .await
}

/// Lets a minute pass for those under way.
pub(crate) async fn age(redis: &Redis, throttle: &str) {
    let () = redis
        .ask(&["EVAL", AGE, "0", &format!("au:*}}:{throttle}*")])
        .await
        .expect("older attempts");
}
