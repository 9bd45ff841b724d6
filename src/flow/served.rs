//! A request that was let through, until its stream is over: what it holds is held on, handed over, told of and
//! ended.

use std::rc::Rc;

use tollgate_config::Millis;

use super::{Broke, Effect, Event, Flow, Told};
use crate::held::{End, Held};
use crate::hold::Keep;
use crate::metrics::Counter;
use crate::passes::{Parked, Pass};
use crate::response::Response;
use crate::rules::Rules;

impl Flow {
    /// What happens to a request that was let through.
    pub(super) fn served(&mut self, rules: &Rules, event: Event<'_>) -> Vec<Effect> {
        match (std::mem::take(self), event) {
            (Self::Passed(pass, held), Event::ResponseHeaders(response, now)) => {
                self.responded(rules, pass, held, &response, now)
            }
            (Self::Responded(Some(mut held), end), Event::ResponseTrailers(response, now)) => {
                let keep = held.trailed(&response, &rules.config.auth_throttles, now);
                let effects = told(Some(&*held), keep);
                *self = Self::Responded(unless_over(Some(held)), end);
                effects
            }
            (Self::Responded(held, _), Event::ResponseEnd) => {
                *self = Self::Responded(held, End::Complete);
                Vec::new()
            }
            (mut passed, Event::Tick(now)) => {
                let effects = passed.renew(now);
                *self = passed;
                effects
            }
            // No response came: the client left, or the proxy follows a redirect itself.
            (Self::Passed(pass, held), Event::Done(..)) if !pass.id.is_empty() => {
                *self = Self::Over;
                vec![Effect::Park(Parked { pass, held })]
            }
            (Self::Passed(_, Some(held)), Event::Done(_, now)) => {
                *self = Self::Over;
                given_up(&held, now)
            }
            (Self::Responded(Some(held), end), Event::Done(broke, now)) => {
                *self = Self::Over;
                let end = match broke {
                    Broke::Upstream => End::Complete,
                    Broke::Client => end,
                };
                last_word(&held, end, now)
            }
            (_, Event::Done(..)) => {
                *self = Self::Over;
                Vec::new()
            }
            // A second head, or what nobody waits for.
            (same, _) => {
                *self = same;
                Vec::new()
            }
        }
    }

    fn responded(
        &mut self,
        rules: &Rules,
        pass: Rc<Pass>,
        mut held: Option<Box<Held>>,
        response: &Response<'_>,
        now: Millis,
    ) -> Vec<Effect> {
        let throttles = &rules.config.auth_throttles;
        let keep = held
            .as_mut()
            .and_then(|held| held.answered(response, throttles, now));
        let mut effects = told(held.as_deref(), keep);
        *self = Self::Responded(unless_over(held), End::Aborted);
        if !pass.fields.is_empty() {
            effects.push(Effect::Respond(pass));
        }
        effects
    }

    fn renew(&mut self, now: Millis) -> Vec<Effect> {
        let (Self::Passed(_, Some(held)) | Self::Responded(Some(held), _)) = self else {
            return Vec::new();
        };
        let keep = held.renew(now);
        told(Some(&**held), keep)
    }
}

fn unless_over(held: Option<Box<Held>>) -> Option<Box<Held>> {
    held.filter(|held| !held.is_over())
}

/// What is to be told of something held, and counted with it.
fn told(held: Option<&Held>, keep: Option<Keep>) -> Vec<Effect> {
    let Some((held, keep)) = held.zip(keep) else {
        return Vec::new();
    };
    let told = Told::of(held, keep);
    let failures: Vec<Counter> = told.failures().collect();
    let failures = failures.into_iter().map(|of| Effect::Count(of, 1));
    [Effect::Tell(told)].into_iter().chain(failures).collect()
}

/// What is to be told of a request that was given up before it was answered.
pub(super) fn given_up(held: &Held, now: Millis) -> Vec<Effect> {
    last_word(held, End::Aborted, now)
}

/// What is to be told at the end. Of attempts alone there may be nothing.
fn last_word(held: &Held, end: End, now: Millis) -> Vec<Effect> {
    let keep = held.end(end, now);
    let is_news = held.lasts() || keep.outcome.is_some();
    told(Some(held), is_news.then_some(keep))
}
