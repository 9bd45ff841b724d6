//! The throttles that a request is under, and what it is as attempts at credentials. Must not know how a subject is
//! read.

use std::rc::Rc;

use tollgate_config::{Limiter, SubjectSource, Throttle, ThrottleBy, ThrottleId};

use super::Fault;
use super::reading::Reading;
use crate::attempt::{Attempts, MOST_THROTTLES, Who};
use crate::body::Body;
use crate::client_ip::Address;
use crate::identity::Id;
use crate::request::Request;
use crate::rules::Rules;
use crate::subject;
use crate::verdict::SubjectFault;

/// The throttles that a request is under.
#[derive(Debug)]
pub(super) struct Throttles<'c> {
    rules: &'c Rules,
    list: Vec<Covering<'c>>,
}

/// A throttle that is for a route of the request.
#[derive(Debug)]
struct Covering<'c> {
    id: ThrottleId,
    throttle: &'c Throttle,
    provisional: bool,
}

impl<'c> Throttles<'c> {
    /// Those of all routes that some server finds.
    pub(super) fn of(rules: &'c Rules, reading: &Reading<'c>) -> Self {
        let all = rules.config.auth_throttles.iter().take(MOST_THROTTLES);
        let covering = |(place, throttle): (usize, &'c Throttle)| {
            let mut covered = reading
                .all()
                .filter(|found| throttle.covers(found.id))
                .peekable();
            covered.peek()?;
            let on_credentials = covered.any(|found| found.limiter() == Limiter::Credential);
            Some(Covering {
                id: ThrottleId(place),
                throttle,
                provisional: throttle.provisional.unwrap_or(on_credentials),
            })
        };
        Self {
            rules,
            list: all.enumerate().filter_map(covering).collect(),
        }
    }

    /// Whether the body has to be read for them.
    pub(super) fn read_the_body(&self) -> bool {
        let mut sources = self.list.iter().filter_map(|c| self.source(c));
        sources.any(subject::is_in_body)
    }

    /// What the request is as attempts; `None` where it is under no throttle.
    ///
    /// # Errors
    /// A subject cannot be read whose attempts are counted.
    pub(super) fn attempts(
        &self,
        request: &Request,
        body: &Body,
        address: impl FnOnce() -> Address,
    ) -> Result<Option<Rc<Attempts>>, Fault> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let mut subjects = Subjects::new(request, body);
        let mut list = Vec::with_capacity(self.list.len());
        for covering in &self.list {
            let source = self.source(covering);
            let subject = source.map_or(Err(SubjectFault::Missing), |of| subjects.read(of));
            let fault = |fault| Fault::Subject(covering.id, fault);
            let who = match covering.throttle.by {
                // Whoever cannot be read is counted by the address all the same.
                ThrottleBy::Ip => Who::Ip,
                ThrottleBy::Subject => Who::Subject(subject.map_err(fault)?),
                ThrottleBy::SubjectIp => Who::Pair(subject.map_err(fault)?),
            };
            list.extend(self.rules.attempt(covering.id, who, covering.provisional));
        }
        let [_, _, longest] = self.rules.config.penalty_box.levels;
        let attempts = Attempts {
            address: address(),
            subjects: subjects.distinct,
            list,
            stuffing: self
                .rules
                .config
                .stuffing
                .map(|stuffing| (stuffing, longest)),
        };
        Ok((!attempts.list.is_empty()).then(|| Rc::new(attempts)))
    }

    /// Where a throttle finds the subject, if that matters: by address only where distinct subjects are counted.
    fn source(&self, covering: &Covering<'c>) -> Option<&'c SubjectSource> {
        let counts = covering.throttle.by != ThrottleBy::Ip || self.rules.config.stuffing.is_some();
        covering.throttle.subject.as_ref().filter(|_| counts)
    }
}

/// The subjects of one request, each read once.
struct Subjects<'r> {
    request: &'r Request,
    body: &'r Body,
    read: Vec<(&'r SubjectSource, Result<u8, SubjectFault>)>,
    distinct: Vec<Id>,
}

impl<'r> Subjects<'r> {
    const fn new(request: &'r Request, body: &'r Body) -> Self {
        Self {
            request,
            body,
            read: Vec::new(),
            distinct: Vec::new(),
        }
    }

    /// Which of the distinct ones is read from there.
    fn read(&mut self, source: &'r SubjectSource) -> Result<u8, SubjectFault> {
        let known = self.read.iter().find(|(other, _)| *other == source);
        if let Some((_, place)) = known {
            return *place;
        }
        let subject = subject::of(source, self.request, self.body);
        let place = subject.map(|subject| self.place(subject));
        self.read.push((source, place));
        place
    }

    fn place(&mut self, subject: Id) -> u8 {
        let place = self.distinct.iter().position(|known| *known == subject);
        let place = place.unwrap_or_else(|| {
            self.distinct.push(subject);
            self.distinct.len().saturating_sub(1)
        });
        u8::try_from(place).unwrap_or(u8::MAX)
    }
}
