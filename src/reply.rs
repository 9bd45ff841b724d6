//! What the client sees: header fields of a response, and the whole answer of a refusal.

use tollgate_config::Millis;

use crate::plan::Plan;
use crate::request::Request;
use crate::rules::Rules;
use crate::verdict::{Invalid, KeyFault, Scope, Verdict};

pub mod fields;
pub mod problem;
pub mod wait;

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

/// What a kind of refusal always says.
struct Kind {
    status: u16,
    grpc: u8,
    name: &'static str,
    title: &'static str,
}

const RATE_LIMIT_EXCEEDED: Kind = Kind {
    status: 429,
    grpc: 8,
    name: "rate-limit-exceeded",
    title: "Too Many Requests",
};

const PENALTY_BOX_ACTIVE: Kind = Kind {
    name: "penalty-box-active",
    title: "Penalty Box Active",
    ..RATE_LIMIT_EXCEEDED
};

const INVALID_REQUEST: Kind = Kind {
    status: 400,
    grpc: 9,
    name: "invalid-request",
    title: "Invalid Request",
};

const IDEMPOTENCY_KEY_REQUIRED: Kind = Kind {
    name: "idempotency-key-required",
    title: "Idempotency Key Required",
    ..INVALID_REQUEST
};

const RATE_LIMITER_UNAVAILABLE: Kind = Kind {
    status: 503,
    grpc: 14,
    name: "rate-limiter-unavailable",
    title: "Rate Limiter Unavailable",
};

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
        Verdict::Boxed(boxed) => {
            fields.push(("x-penalty-box-status", "Active-Lockout".to_owned()));
            let retry = RetryAfter::spread(boxed.lockout.until.since(asker.now), asker.nonce);
            let whom = match boxed.scope {
                Scope::Key => "This API key is",
                Scope::Ip => "Anonymous requests from this address are",
            };
            (
                &PENALTY_BOX_ACTIVE,
                Some(retry),
                problem::boxed(whom, &boxed.lockout),
            )
        }
        Verdict::IdempotencyKey(fault) => (
            &IDEMPOTENCY_KEY_REQUIRED,
            None,
            Document::of(key_fault(*fault, asker)),
        ),
        Verdict::Taken(_) | Verdict::Invalid(Invalid::Resource(_)) => return None,
        Verdict::Invalid(Invalid::DoubledHeader(name)) => {
            let detail = format!("The header '{name}' was sent more than once; send it once.");
            (&INVALID_REQUEST, None, Document::of(detail))
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

fn key_fault(fault: KeyFault, asker: &Asker<'_>) -> String {
    let route = problem::route_name(asker);
    match fault {
        KeyFault::Missing => format!(
            "Requests to route '{route}' need an Idempotency-Key header: one key for each operation, the same on every retry of it."
        ),
        KeyFault::Doubled => {
            "The Idempotency-Key header was sent more than once; send it once.".to_owned()
        }
        KeyFault::Malformed => {
            "The Idempotency-Key header must be 1 to 255 printable ASCII characters, bare or in double quotes.".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
