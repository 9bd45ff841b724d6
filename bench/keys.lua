-- For wrk: every request with a key that was never seen, sixteen keys to a tenant, from the number FROM on.
--   wrk -t1 ... -s keys.lua URL -- FROM
-- Prints how many were answered, and how many of those refused, as one line of JSON.

local next_key = 0

function init(args)
    next_key = tonumber(args[1])
end

function request()
    local key = next_key
    next_key = next_key + 1
    return "GET /v1/ledgers HTTP/1.1\r\nhost: api.example.com\r\n"
        .. "x-tenant-id: tenant-" .. math.floor(key / 16) .. "\r\n"
        .. "x-api-key-id: key-" .. key .. "\r\nx-tenant-tier: growth\r\n\r\n"
end

function done(summary, _, _)
    local errors = summary.errors
    io.write(string.format('\n{"requests":%d,"refused":%d,"errors":%d}\n', summary.requests, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout))
end
