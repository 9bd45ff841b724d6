//! What a question says of attempts at credentials: a section for each, after what else it says. Must not know
//! which of them a step is about, nor what is answered.

use std::fmt::Write as _;

use super::Batch;
use super::terms::{Terms, Throttle};
use crate::attempt::{Attempt, Attempts, Who};
use crate::client_ip::Address;
use crate::hold::Keep;
use crate::store::script::attempts::{Counted, Fate, Keys, attempts_of, of, stuffing};
use crate::store::script::{Item, Step, address_name, address_of};

/// Which of the keys of whomever attempts are counted for a step touches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touches {
    /// The window alone.
    Window,
    /// And what is held against whom.
    All,
}

impl Batch<'_> {
    /// Writes what a step says of attempts; nothing where it says nothing of them.
    pub(super) fn write_attempts(&mut self, text: &mut String, item: &Item) {
        let (Some(attempts), Some(address)) = (attempts_of(&item.ask), address_of(&item.ask))
        else {
            return;
        };
        let stuffing = stuffing(item);
        if of(item).next().is_none() && stuffing.is_none() {
            return;
        }
        let shadow = if item.ask.shadow { "sh:" } else { "" };
        let prefix = [self.prefix, shadow].concat();
        let _ = write!(text, ";{}", address_name(address));
        if let Step::Keep(_, Keep { outcome, .. }) = item.step {
            let started = outcome.map_or(0, |outcome| outcome.started.0);
            let _ = write!(text, " {started}");
        }
        // From where a subject failed is noted once.
        let failed = |(_, attempt, fate): &(usize, &Attempt, Fate)| {
            *fate == Fate::Failed && matches!(attempt.who, Who::Subject(_))
        };
        let noted = of(item).find(failed).map(|(place, ..)| place);
        for (place, attempt, fate) in of(item) {
            let notes = noted == Some(place);
            self.write_attempt(text, &prefix, (attempts, address), (attempt, fate, notes));
        }
        if let Some((stuffing, ban, memory)) = stuffing {
            let terms = self.place_of_terms(Terms::Stuffing(stuffing, ban, memory));
            let counted = Counted::of(attempts, address, Who::Ip);
            let count = self.place_of_key(counted.key(&prefix, "stuffing"));
            let subjects = self.place_of_key(counted.key(&prefix, "subjects"));
            let _ = write!(text, ";s {terms} {count} {subjects}");
            self.write_held_against(text, counted.keys(&prefix, ""), Touches::All);
            for subject in &attempts.subjects {
                let _ = write!(text, " {}", subject.as_str());
            }
        }
    }

    fn write_attempt(
        &mut self,
        text: &mut String,
        prefix: &str,
        (attempts, address): (&Attempts, &Address),
        (attempt, fate, notes): (&Attempt, Fate, bool),
    ) {
        let counted = Counted::of(attempts, address, attempt.who);
        let code = match fate {
            Fate::Asked | Fate::Revoked => None,
            Fate::Undone => Some(1),
            Fate::GivenBack => Some(2),
            Fate::Failed => Some(3),
            Fate::Succeeded => Some(4),
        };
        text.push(';');
        if let Some(code) = code {
            let from = self.place_if(notes, || counted.key(prefix, "from"));
            let _ = write!(text, "{code} {from} ");
        }
        let terms = self.place_of_terms(Terms::Throttle(Throttle::of(attempt)));
        let _ = write!(text, "{terms}");
        let touches = match fate {
            Fate::Asked | Fate::Failed => Touches::All,
            Fate::Revoked | Fate::Undone | Fate::GivenBack | Fate::Succeeded => Touches::Window,
        };
        self.write_counted(text, counted.keys(prefix, &attempt.name), touches);
        if let (Who::Subject(subject), true) = (attempt.who, attempt.spares) {
            let pair = Counted::of(attempts, address, Who::Pair(subject));
            self.write_counted(text, pair.keys(prefix, &attempt.name), touches);
            let is_known = touches == Touches::All || fate == Fate::Succeeded;
            let known = self.place_if(is_known, || counted.key(prefix, "known"));
            let _ = write!(text, " {known}");
        }
    }

    fn write_counted(&mut self, text: &mut String, mut keys: Keys, touches: Touches) {
        let window = self.place_of_key(std::mem::take(&mut keys.window));
        let _ = write!(text, " {window}");
        self.write_held_against(text, keys, touches);
    }

    fn write_held_against(&mut self, text: &mut String, keys: Keys, touches: Touches) {
        for key in [keys.lockout, keys.offenses, keys.times] {
            let place = self.place_if(touches == Touches::All, || key);
            let _ = write!(text, " {place}");
        }
    }

    fn place_if(&mut self, wanted: bool, key: impl FnOnce() -> String) -> usize {
        if wanted { self.place_of_key(key()) } else { 0 }
    }
}
