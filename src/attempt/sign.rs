//! What the operator is told of a sign. Must never say whose credentials they are.

use super::{Attempts, SPREAD, Sign, Who};
use crate::limit::penalty::Lockout;
use crate::reply::wait::rfc3339;
use crate::verdict::Scope;

impl Sign {
    /// Whose box it is a trip of, if it is one.
    #[must_use]
    pub fn trip(&self, attempts: &Attempts) -> Option<(Scope, Lockout)> {
        match self {
            Self::Locked(place, lockout) => {
                let scope = attempts.list.get(*place)?.who.scope();
                Some((scope, *lockout))
            }
            Self::Stuffing(lockout) => Some((Scope::Ip, *lockout)),
            Self::Spread(_) => None,
        }
    }

    /// What is written to the log. `None` where it is about no attempt of these.
    #[must_use]
    pub fn text(&self, attempts: &Attempts, shadow: bool) -> Option<String> {
        let address = &attempts.address;
        let told = match self {
            Self::Locked(place, lockout) => {
                let attempt = attempts.list.get(*place)?;
                let whose = match attempt.who {
                    Who::Ip => format!("address {address}"),
                    Who::Subject(_) => "a subject".to_owned(),
                    Who::Pair(_) => format!("a subject, from address {address} alone,"),
                };
                format!(
                    "auth throttle {}: {whose} is locked out, level {} until {}",
                    attempt.name,
                    lockout.level,
                    rfc3339(lockout.until)
                )
            }
            Self::Stuffing(lockout) => format!(
                "credential stuffing: address {address} is banned until {}",
                rfc3339(lockout.until)
            ),
            Self::Spread(place) => {
                let throttle = &attempts.list.get(*place)?.name;
                format!("auth throttle {throttle}: one subject fails from {SPREAD} addresses")
            }
        };
        let shadow = if shadow {
            " (shadow: not carried out)"
        } else {
            ""
        };
        Some(told + shadow)
    }
}

#[cfg(test)]
mod tests;
