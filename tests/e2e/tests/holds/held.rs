//! What is held in Redis at the moment, by its own clock, and whether that is told right.

use std::time::Duration;

use tollgate_e2e::{Redis, eventually};

/// Of a lease's sorted set, of a lock's or an idempotency key's hash: whoever holds it. A score or a value above now is
/// an expiry; one below 0 is the mark of an undo, and nobody's.
const HOLDERS: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kind = redis.call('TYPE', KEYS[1]).ok
local all = {}
if kind == 'zset' then all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') end
if kind == 'hash' then all = redis.call('HGETALL', KEYS[1]) end
local held = {}
for i = 1, #all, 2 do
    if all[i] ~= 'fence' and tonumber(all[i + 1]) > now then held[#held + 1] = all[i] end
end
return held";

/// Who holds what this key stands for.
pub(crate) async fn holders(redis: &Redis, key: &str) -> Vec<String> {
    redis.ask(&["EVAL", HOLDERS, "1", key]).await.unwrap()
}

/// Waits until nobody holds it.
pub(crate) async fn is_free(redis: &Redis, key: &str, within: Duration) {
    eventually(&format!("{key} is free"), within, async || {
        holders(redis, key).await.is_empty().then_some(())
    })
    .await;
}
