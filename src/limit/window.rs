//! A sliding window: at most so many grants in any stretch of time of a length.

use tollgate_config::Millis;

/// Whether a grant still takes a place. One from the future, made before the clock was set back, does.
#[must_use]
pub const fn counts(granted: Millis, per: Millis, now: Millis) -> bool {
    granted.plus(per).0 > now.0
}

/// How long until one more may be granted, where as many as may be or more were granted: until enough of
/// them, oldest first, are older than `per`. `None` where one may be granted now.
///
/// `granted` has only what still [counts](counts), in any order.
#[must_use]
pub fn wait(mut granted: Vec<Millis>, requests: u32, per: Millis, now: Millis) -> Option<Millis> {
    let beyond = granted.len().checked_sub(requests as usize)?;
    granted.sort_unstable();
    // Of more grants than may be (the limit was lowered), all that are too many have to go first.
    let goes = granted.get(beyond)?;
    Some(goes.plus(per).since(now).min(per).max(Millis(1)))
}

#[cfg(test)]
mod tests;
