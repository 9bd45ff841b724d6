//! Waiting for what another process will do. Owns the polling; must not be used where an event can be awaited.

use std::time::{Duration, Instant};

/// How long a machine that is busy with other tests may take for what normally is a matter of milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `probe` again and again until it finds something, and gives that back.
///
/// # Panics
///
/// When `within` has passed without; the message says `what` was awaited.
pub async fn eventually<T>(
    what: &str,
    within: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(start.elapsed() < within, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
