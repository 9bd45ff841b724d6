-- For wrk: sends the requests of a file in turn and prints what was seen as one line of JSON.
--   wrk ... -s load.lua URL -- REQUESTS-FILE

local requests, turn = {}, 0

function init(args)
    local file = assert(io.open(args[1], "rb"))
    for one in file:read("*a"):gmatch("(.-\r\n\r\n)") do
        requests[#requests + 1] = one
    end
    file:close()
end

function request()
    turn = turn % #requests + 1
    return requests[turn]
end

function done(summary, latency, _)
    local errors = summary.errors
    -- `status` counts answers of 400 and above.
    io.write(string.format(
        '\n{"requests":%d,"seconds":%.6f,"refused":%d,"errors":%d}\n',
        summary.requests, summary.duration / 1e6, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout))
end
