//! Counters and log lines of what a store noticed when it was told of attempts, whichever store. No decisions.

use super::gauges::Gauges;
use crate::attempt::Sign;
use crate::metrics::Counter;
use crate::rules::Rules;
use crate::store::Ask;

/// Counts and logs a sign.
pub(super) fn tell(rules: &Rules, gauges: &Gauges, ask: &Ask, sign: &Sign) {
    let attempts = ask.wanted.as_ref().and_then(|w| w.attempts.as_ref());
    let Some(attempts) = attempts else {
        return;
    };
    if let Some((scope, lockout)) = sign.trip(attempts) {
        let level = lockout.level;
        gauges.count(&rules.config, Counter::BoxTrips { level, scope }, 1);
    }
    if let Some(text) = sign.text(attempts, ask.shadow) {
        log::warn!("{text}");
    }
}
