//! What a desk that is done with has told the store before it goes. Must not wait for answers.

use tollgate_config::{Millis, Topology};

use super::line::MOST_ITEMS;
use super::pick::{Group, Part};
use super::{Desk, Protocol};
use crate::store::front::Call;

impl<P: Protocol> Desk<P> {
    /// All that the store must still be told, in calls whose answers nobody will hear: for a desk that goes
    /// when its last stream is over. Whoever waits nevertheless gets no answer. What is in flight and may be
    /// told again is; every letter is told whether it is due or not. None while the breaker is open.
    pub fn last_calls(&mut self, now: Millis) -> Vec<Call> {
        if !self.breaker.get().admits(now) {
            return Vec::new();
        }
        self.seen = now;
        self.close(now);
        self.outbox.expire(now);
        let mut letters = self.outbox.take(usize::MAX, |_| true);
        if self.topology == Topology::Cluster {
            // Those under one tag stay in the order of their telling.
            letters.sort_by(|one, other| one.tag().cmp(other.tag()));
        }
        let most = self.most_commands();
        let mut calls = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut items: usize = 0;
        for letter in letters {
            let tag = match self.topology {
                Topology::Standalone => "",
                Topology::Cluster => letter.tag(),
            };
            let opens = groups.last().is_none_or(|group| group.tag != tag);
            if items >= MOST_ITEMS || (opens && groups.len() >= most) {
                calls.extend(self.last_call(std::mem::take(&mut groups), now));
                items = 0;
            }
            match groups.last_mut().filter(|group| group.tag == tag) {
                Some(group) => group.letter(letter),
                None => {
                    let mut group = Group::of(tag);
                    group.letter(letter);
                    groups.push(group);
                }
            }
            items = items.saturating_add(1);
        }
        calls.extend(self.last_call(groups, now));
        calls
    }

    /// The call of these groups, if there are any. They are as good as delivered.
    fn last_call(&mut self, groups: Vec<Group>, now: Millis) -> Option<Call> {
        let id = self.words.next_call();
        let commands = self.commands(id, &groups, self.load, now);
        for part in groups.into_iter().flat_map(Group::into_parts) {
            if let Part::Letter(letter) = part {
                self.outbox.delivered(letter);
            }
        }
        self.front.call(&commands).into_iter().next()
    }
}
