//! Tests of `outbox`.
