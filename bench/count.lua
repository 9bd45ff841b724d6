-- For wrk: sends the same request and prints what was seen as one line of JSON.

function done(summary, _, _)
    io.write(string.format('\n{"requests":%d,"seconds":%.6f}\n', summary.requests, summary.duration / 1e6))
end
