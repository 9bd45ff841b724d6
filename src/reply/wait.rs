//! `Retry-After`: never less than the real wait, at least 1 s, spread by up to 10 % where many may wait for
//! the same. Only a wait for somebody who may be done any time is cut.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tollgate_config::Millis;

/// A wait as clients are told: whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter(u64);

impl RetryAfter {
    /// The shortest wait there is.
    pub const SOON: Self = Self(1);
    /// The wait while nobody can tell how long it will be.
    pub const OUTAGE: Self = Self(15);

    /// The longest wait for somebody who may be done any time.
    const HALF_A_MINUTE: Self = Self(30);

    /// A wait rounded up to whole seconds, at least one.
    #[must_use]
    pub const fn exactly(wait: Millis) -> Self {
        match wait.ceil_secs() {
            0 => Self::SOON,
            seconds => Self(seconds),
        }
    }

    /// No longer than half a minute.
    #[must_use]
    pub const fn at_most_half_a_minute(self) -> Self {
        if self.0 > Self::HALF_A_MINUTE.0 {
            Self::HALF_A_MINUTE
        } else {
            self
        }
    }

    /// A wait rounded up to whole seconds, and 0-10 % of those added, so that clients refused
    /// together do not come back together.
    #[must_use]
    pub const fn spread(wait: Millis, nonce: u64) -> Self {
        let Self(seconds) = Self::exactly(wait);
        let choices = (seconds / 10).saturating_add(1);
        Self(seconds.saturating_add(nonce % choices))
    }

    /// Whole seconds.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0
    }

    /// The field's value: seconds, or an HTTP-date (RFC 9110, section 5.6.7) for waits of at least
    /// `date_from`.
    #[must_use]
    pub fn field(self, now: Millis, date_from: Option<Millis>) -> String {
        let as_date = date_from.filter(|from| Millis::from_secs(self.0) >= *from);
        // A date has whole seconds: rounded up, so that it is never too early.
        let at = now.plus(Millis::from_secs(self.0)).ceil_secs();
        let date = as_date.and_then(|_| {
            let at = Timestamp::from_second(i64::try_from(at).ok()?).ok()?;
            DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok()
        });
        date.unwrap_or_else(|| self.0.to_string())
    }
}

/// A moment as RFC 3339, to the millisecond.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    let at = i64::try_from(at.0)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok());
    at.unwrap_or(Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests;
