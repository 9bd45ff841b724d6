//! What the client sees: header fields of a response, and the whole answer of a refusal.

use tollgate_config::Millis;

use crate::limit::penalty::Lockout;
use crate::plan::Plan;
use crate::request::Request;
use crate::rules::Rules;
use crate::verdict::{AuthLockout, Boxed, Obstacle, Verdict};

mod fault;
pub mod fields;
mod kind;
pub mod problem;
mod taken;
pub mod wait;

use self::kind::{
    IDEMPOTENCY_KEY_REQUIRED, Kind, PENALTY_BOX_ACTIVE, RATE_LIMIT_EXCEEDED,
    RATE_LIMITER_UNAVAILABLE,
};
use self::problem::{Document, instance};
use self::wait::RetryAfter;

/// A header field of an answer.
pub type Field = (&'static str, String);

/// What a refusal is made of, besides its verdict.
#[derive(Debug)]
pub struct Asker<'a> {
    /// The rules in force.
    pub rules: &'a Rules,
    /// The request.
    pub request: &'a Request,
    /// What it was taken for.
    pub plan: &'a Plan,
    /// The time of the decision.
    pub now: Millis,
    /// Randomness, for the spread of retries.
    pub nonce: u64,
}

/// The answer of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Header fields.
    pub fields: Vec<Field>,
    /// The rest.
    pub form: Form,
}

/// The form of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// An HTTP response.
    Http {
        /// Its status.
        status: u16,
        /// Its body. The proxy keeps it back where the method is HEAD, and tells its length.
        body: Vec<u8>,
    },
    /// A gRPC response of trailers only.
    Grpc {
        /// A canonical gRPC status code.
        status: u8,
        /// A message for developers.
        message: String,
    },
}

/// The answer to a refused request; `None` if the verdict lets it pass.
#[must_use]
pub fn refusal(verdict: &Verdict, asker: &Asker<'_>) -> Option<Reply> {
    let config = &asker.rules.config;
    let date_from = config.headers.retry_after_date_from;
    let mut fields: Vec<Field> = Vec::new();
    let (kind, retry, document) = match verdict {
        Verdict::Exempt | Verdict::Allowed(..) | Verdict::Degraded(_) => return None,
        Verdict::Throttled(throttled) => {
            fields.extend(fields::rate_limit(
                config.headers.dialect,
                &throttled.standings,
            ));
            fields.push(("x-penalty-box-status", "Warning".to_owned()));
            let retry = RetryAfter::spread(throttled.wait, asker.nonce);
            let document = problem::throttled(asker, throttled, retry);
            (&RATE_LIMIT_EXCEEDED, Some(retry), document)
        }
        Verdict::Contended => {
            fields.push(("x-penalty-box-status", "Warning".to_owned()));
            let detail = "The rate limiter is busy; retry in 1 second.".to_owned();
            (
                &RATE_LIMIT_EXCEEDED,
                Some(RetryAfter::SOON),
                Document::of(detail),
            )
        }
        Verdict::AuthBusy => {
            let detail = "Other attempts are still being checked; retry in 1 second.".to_owned();
            (
                &RATE_LIMIT_EXCEEDED,
                Some(RetryAfter::SOON),
                Document::of(detail),
            )
        }
        Verdict::Boxed(Boxed { scope, lockout, .. }) => {
            let (field, retry) = locked_out(asker, lockout);
            fields.push(field);
            let document = problem::boxed(*scope, lockout);
            (&PENALTY_BOX_ACTIVE, Some(retry), document)
        }
        Verdict::AuthLockout(AuthLockout { lockout, .. }) => {
            let (field, retry) = locked_out(asker, lockout);
            fields.push(field);
            let document = problem::auth_lockout(lockout);
            (&PENALTY_BOX_ACTIVE, Some(retry), document)
        }
        Verdict::IdempotencyKey(fault) => (
            &IDEMPOTENCY_KEY_REQUIRED,
            None,
            Document::of(fault::key(asker, *fault)),
        ),
        Verdict::Taken(taken) => {
            // What is in flight is no matter of quotas.
            if taken.by != Obstacle::Flight {
                let dialect = config.headers.dialect;
                fields.extend(fields::rate_limit(dialect, &taken.standings));
            }
            let retry = taken::retry(taken);
            let document = taken::document(asker, taken, retry);
            (taken::kind(taken.by), Some(retry), document)
        }
        Verdict::Invalid(invalid) => {
            let detail = fault::invalid(asker, invalid);
            (fault::kind(invalid), None, Document::of(detail))
        }
        Verdict::Unavailable => {
            let retry = RetryAfter::OUTAGE;
            let detail = problem::unavailable(asker, retry);
            (&RATE_LIMITER_UNAVAILABLE, Some(retry), Document::of(detail))
        }
    };
    if let Some(retry) = retry {
        fields.push(("retry-after", retry.field(asker.now, date_from)));
    }
    fields.push(("cache-control", "no-store".to_owned()));
    Some(Reply {
        form: form(kind, retry, document, asker, &mut fields),
        fields,
    })
}

/// What whoever is locked out is told in the head: that it is, and until when.
fn locked_out(asker: &Asker<'_>, lockout: &Lockout) -> (Field, RetryAfter) {
    let left = lockout.until.since(asker.now);
    let field = ("x-penalty-box-status", "Active-Lockout".to_owned());
    (field, RetryAfter::spread(left, asker.nonce))
}

fn form(
    kind: &Kind,
    retry: Option<RetryAfter>,
    document: Document,
    asker: &Asker<'_>,
    fields: &mut Vec<Field>,
) -> Form {
    if asker.request.is_grpc() {
        return Form::Grpc {
            status: kind.grpc,
            message: document.detail,
        };
    }
    fields.push(("content-type", "application/problem+json".to_owned()));
    let base = &asker.rules.config.problem.type_base;
    let document = Document {
        r#type: format!("{base}{}", kind.name),
        title: kind.title,
        status: kind.status,
        instance: instance(asker.request.raw_path()),
        request_id: problem::request_id(asker.request, asker.nonce),
        ..document
    };
    let body = document.with_retry(retry).bytes();
    Form::Http {
        status: kind.status,
        body,
    }
}

#[cfg(test)]
mod tests;
