//! The kinds of refusals: what each of them always says.

/// What a kind of refusal always says.
#[derive(Debug)]
pub(super) struct Kind {
    /// The HTTP status.
    pub(super) status: u16,
    /// The canonical gRPC status code.
    pub(super) grpc: u8,
    /// The last part of the problem's type.
    pub(super) name: &'static str,
    /// The problem's title.
    pub(super) title: &'static str,
}

/// `RESOURCE_EXHAUSTED`.
const EXHAUSTED: u8 = 8;
/// `FAILED_PRECONDITION`: the client has to change something first.
const PRECONDITION: u8 = 9;
/// `ABORTED`: another one was first.
const ABORTED: u8 = 10;
/// `UNAVAILABLE`.
const UNAVAILABLE: u8 = 14;

pub(super) const RATE_LIMIT_EXCEEDED: Kind = Kind {
    status: 429,
    grpc: EXHAUSTED,
    name: "rate-limit-exceeded",
    title: "Too Many Requests",
};

pub(super) const PENALTY_BOX_ACTIVE: Kind = Kind {
    name: "penalty-box-active",
    title: "Penalty Box Active",
    ..RATE_LIMIT_EXCEEDED
};

pub(super) const CONCURRENCY_LIMIT_EXCEEDED: Kind = Kind {
    name: "concurrency-limit-exceeded",
    title: "Concurrency Limit Exceeded",
    ..RATE_LIMIT_EXCEEDED
};

pub(super) const QUOTA_EXCEEDED: Kind = Kind {
    name: "quota-exceeded",
    title: "Quota Exceeded",
    ..RATE_LIMIT_EXCEEDED
};

pub(super) const RESOURCE_LOCKED: Kind = Kind {
    status: 409,
    grpc: ABORTED,
    name: "resource-locked",
    title: "Resource Locked",
};

pub(super) const IDEMPOTENCY_KEY_IN_USE: Kind = Kind {
    name: "idempotency-key-in-use",
    title: "Idempotency Key In Use",
    ..RESOURCE_LOCKED
};

pub(super) const INVALID_REQUEST: Kind = Kind {
    status: 400,
    grpc: PRECONDITION,
    name: "invalid-request",
    title: "Invalid Request",
};

pub(super) const BODY_TOO_LARGE: Kind = Kind {
    status: 413,
    ..INVALID_REQUEST
};

pub(super) const IDEMPOTENCY_KEY_REQUIRED: Kind = Kind {
    name: "idempotency-key-required",
    title: "Idempotency Key Required",
    ..INVALID_REQUEST
};

pub(super) const RATE_LIMITER_UNAVAILABLE: Kind = Kind {
    status: 503,
    grpc: UNAVAILABLE,
    name: "rate-limiter-unavailable",
    title: "Rate Limiter Unavailable",
};
