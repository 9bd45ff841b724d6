//! What is known so far of a request as attempts at credentials. Must not know stores.

use tollgate_config::{Millis, Throttle};

use super::End;
use crate::attempt::{Attempts, MOST_THROTTLES, Outcome};

/// What is known of the attempts of a request that was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    /// There are none, or what became of them was told.
    Nothing,
    /// They are under way since then, by the clock of whoever let it through.
    Pending(Millis),
    /// The same, but a response has begun whose trailers will tell.
    Answering(Millis),
}

impl Tried {
    /// Whether a response has begun whose trailers will tell.
    pub(super) const fn is_answering(self) -> bool {
        matches!(self, Self::Answering(_))
    }

    /// Whether it is not known yet what became of them.
    pub(super) const fn is_open(self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// A response began whose trailers will tell.
    pub(super) const fn answers(&mut self) {
        if let Self::Pending(started) = *self {
            *self = Self::Answering(started);
        }
    }

    /// The request was answered with a status: what is to be told of that, if anything is.
    pub(super) fn answered(
        &mut self,
        attempts: &Attempts,
        throttles: &[Throttle],
        status: u16,
    ) -> Option<Outcome> {
        let (Self::Pending(started) | Self::Answering(started)) = *self else {
            return None;
        };
        *self = Self::Nothing;
        let counts = |place: &usize| {
            let attempt = attempts.list.get(*place);
            let throttle = attempt.and_then(|attempt| throttles.get(attempt.throttle.0));
            throttle.is_some_and(|throttle| throttle.count.contains(&status))
        };
        let outcome = Outcome {
            started,
            failed: mask((0..attempts.list.len()).filter(counts)),
            succeeded: (200..300).contains(&status),
        };
        is_news(attempts, outcome).then_some(outcome)
    }

    /// The stream ended: what is to be told, if nothing was yet and anything is.
    pub(super) fn ended(self, attempts: &Attempts, end: End) -> Option<Outcome> {
        let (started, failed) = match (self, end) {
            (Self::Nothing, _) => return None,
            // Whoever gives up what it tried has tried it.
            (Self::Pending(started), End::Aborted) => (started, mask(0..attempts.list.len())),
            // A stream that was under way is no failure because its client had enough of it.
            (Self::Pending(started) | Self::Answering(started), _) => (started, 0),
        };
        let outcome = Outcome {
            started,
            failed,
            succeeded: false,
        };
        is_news(attempts, outcome).then_some(outcome)
    }
}

fn mask(places: impl Iterator<Item = usize>) -> u32 {
    let bits = places.filter(|place| *place < MOST_THROTTLES);
    bits.fold(0, |mask, place| mask | (1 << place))
}

/// Whether an outcome makes a difference to any store: there is a slot to give back, something to clear or an
/// address to know.
fn is_news(attempts: &Attempts, outcome: Outcome) -> bool {
    outcome.failed != 0
        || attempts.list.iter().any(|attempt| {
            attempt.provisional || (outcome.succeeded && (attempt.resets || attempt.spares))
        })
}
