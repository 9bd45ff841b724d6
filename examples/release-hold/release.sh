#!/bin/sh
# Lets go of the lease and the lock that a request held: release.sh "$X_TOLLGATE_LEASE"
# REDIS_URL is where Tollgate's Redis is, redis://127.0.0.1:6379 by default. Prints how many of them were still held;
# fails where Redis refuses.
set -eu
lease=${1-}
case $lease in
    *' '*) ;;
    *) echo 0; exit ;;   # nothing: this request held neither
esac
keys=${lease% *}         # all words but the last
set -f
# shellcheck disable=SC2086 # one argument for each key
set -- $keys
redis-cli -e --no-auth-warning -u "${REDIS_URL:-redis://127.0.0.1:6379}" EVAL \
    "local n = 0 for _, k in ipairs(KEYS) do n = n + redis.call(redis.call('TYPE', k).ok == 'zset' and 'ZREM' or 'HDEL', k, ARGV[1]) end return n" \
    $# "$@" "$lease"
