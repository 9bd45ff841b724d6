//! The store's circuit breaker: a store that keeps failing is left alone for a while, then probed by
//! one call. Must not know what a call is.

use tollgate_config::Millis;

/// A clock that is behind by more than this was set back: what it began is over.
const CLOCK_SET_BACK: Millis = Millis(1000);

/// Whether the store may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    open_for: Millis,
    probe_for: Millis,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The store is called; so many calls in a row have failed.
    Closed { failures: u32 },
    /// It is not called.
    Open { since: Millis },
    /// The next call finds out.
    HalfOpen,
    /// One call is finding out.
    Probing { since: Millis },
}

/// What is worth a log line and a gauge: each `Opened` is followed by one `Recovered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The store is given up for now, after so many failures in a row.
    Opened {
        /// How many.
        failures: u32,
    },
    /// The store answers again.
    Recovered,
}

impl Breaker {
    /// A closed breaker for calls that take at most `timeout`.
    #[must_use]
    pub fn new(terms: tollgate_config::Breaker, timeout: Millis) -> Self {
        Self {
            failures: terms.failures.max(1),
            open_for: terms.open_for,
            probe_for: terms.open_for.max(timeout),
            state: State::Closed { failures: 0 },
        }
    }

    /// Whether a call could be made; takes nothing.
    #[must_use]
    pub fn admits(&self, now: Millis) -> bool {
        match self.state {
            State::Closed { .. } | State::HalfOpen => true,
            State::Open { since } => over(since, self.open_for, now),
            // A probe whose outcome nobody reported must not keep the store away for ever.
            State::Probing { since } => over(since, self.probe_for, now),
        }
    }

    /// Whether a call may be made; one that may after a while of none is the probe.
    pub fn may_call(&mut self, now: Millis) -> bool {
        let admits = self.admits(now);
        if admits && !matches!(self.state, State::Closed { .. }) {
            self.state = State::Probing { since: now };
        }
        admits
    }

    /// Whether the outcome of a probe is awaited.
    #[must_use]
    pub const fn is_probing(&self) -> bool {
        matches!(self.state, State::Probing { .. })
    }

    /// A call failed. Calls that were made before it opened extend nothing.
    pub fn failed(&mut self, now: Millis) -> Option<Transition> {
        match self.state {
            State::Closed { failures } => {
                let failures = failures.saturating_add(1);
                if failures < self.failures {
                    self.state = State::Closed { failures };
                    return None;
                }
                self.state = State::Open { since: now };
                Some(Transition::Opened { failures })
            }
            State::Open { .. } => None,
            State::HalfOpen | State::Probing { .. } => {
                self.state = State::Open { since: now };
                None
            }
        }
    }

    /// A call got a good answer.
    pub fn succeeded(&mut self) -> Option<Transition> {
        let was_closed = matches!(self.state, State::Closed { .. });
        self.state = State::Closed { failures: 0 };
        (!was_closed).then_some(Transition::Recovered)
    }

    /// The probe neither failed nor succeeded: the next call is the probe.
    pub const fn undecided(&mut self) {
        if self.is_probing() {
            self.state = State::HalfOpen;
        }
    }
}

/// Whether `length` has passed since a moment.
fn over(since: Millis, length: Millis, now: Millis) -> bool {
    now >= since.plus(length) || now.plus(CLOCK_SET_BACK) < since
}

#[cfg(test)]
mod tests;
