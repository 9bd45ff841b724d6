//! When requests are due: random arrivals that are the same in every run.

use std::time::Duration;

/// Any number but 0.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Arrivals of independent clients, `rate` a second in the mean, for `seconds`.
pub(crate) fn arrivals(rate: f64, seconds: f64) -> Vec<Duration> {
    let mut state = SEED;
    let mut at = 0.0;
    let mut due = Vec::new();
    if !(rate > 0.0 && seconds.is_finite()) {
        return due;
    }
    loop {
        // xorshift64*, its upper 53 bits as a fraction in (0, 1].
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        let fraction = (bits + 1) as f64 / (1u64 << 53) as f64;
        at -= fraction.ln() / rate;
        if at >= seconds {
            return due;
        }
        due.push(Duration::from_secs_f64(at));
    }
}
