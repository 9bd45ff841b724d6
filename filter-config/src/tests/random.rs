//! Nothing an operator or a proxy can hand over panics, and every error names what it is about.

use proptest::prelude::*;

use super::{json, no_env, protobuf};
use crate::{Config, tree::Node};

/// Names that fields have, so that random trees get past the first level, and others.
fn names() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "mode",
        "store",
        "kind",
        "memory",
        "upstream",
        "dialect",
        "topology",
        "timeout",
        "authorization",
        "key_prefix",
        "breaker",
        "failures",
        "open_for",
        "identity",
        "tenant",
        "key",
        "tier",
        "tenants",
        "default_tier",
        "client_ip",
        "from",
        "to",
        "trusted_hops",
        "ipv6_prefix",
        "header",
        "property",
        "sha256",
        "ip_limit",
        "anonymous",
        "limit",
        "exempt",
        "tiers",
        "points",
        "per",
        "burst",
        "penalty",
        "strikes",
        "within",
        "leases",
        "quotas",
        "requests",
        "penalty_box",
        "grace",
        "level_1",
        "routes",
        "name",
        "match",
        "methods",
        "path",
        "cost",
        "base",
        "when_range",
        "longer_than",
        "idempotency_key",
        "lease",
        "lock",
        "ttl",
        "by",
        "query",
        "json",
        "hold_on",
        "on_abort",
        "quota",
        "on_store_failure",
        "limiter",
        "auth_throttles",
        "subject",
        "basic",
        "form",
        "normalize",
        "count",
        "lockout",
        "reset_on_success",
        "provisional",
        "spare_known_ips",
        "stuffing",
        "subjects",
        "degraded",
        "share",
        "headers",
        "retry_after_date_from",
        "problem",
        "type_base",
    ];
    prop_oneof![
        8 => prop::sample::select(KNOWN).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn scalars() -> impl Strategy<Value = Node> {
    const WORDS: &[&str] = &[
        "enforce",
        "shadow",
        "off",
        "local",
        "16MiB",
        "60/minute",
        "20s",
        "0s",
        "90d",
        "/v1/*",
        "/v1/{id}",
        "id",
        "/a~1b/~0",
        "/a~",
        "release",
        "hold",
        "GET",
        "x-tenant-id",
        "redis",
        "upstash",
        "cluster",
        "closed",
        "required",
        "${A:-5}",
        "${A}",
        "${",
        "draft-11",
        "growth",
        "connection",
        "x-forwarded-for",
        "forwarded",
        "credential",
        "subject_ip",
        "ip",
        "trim",
        "default",
    ];
    prop_oneof![
        1 => Just(Node::Null),
        1 => any::<bool>().prop_map(Node::Bool),
        2 => (-2_i32..200).prop_map(|n| Node::Number(f64::from(n))),
        // Fractions that JSON text gives back to the last bit.
        1 => any::<i32>().prop_map(|n| Node::Number(f64::from(n) / 8.0)),
        1 => Just(Node::Number(1e300)),
        4 => prop::sample::select(WORDS).prop_map(|word| Node::Text(word.to_owned())),
        1 => any::<String>().prop_map(Node::Text),
    ]
}

fn trees() -> impl Strategy<Value = Node> {
    let inner = scalars().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Node::List),
            3 => prop::collection::vec((names(), inner), 0..6).prop_map(Node::Map),
        ]
    });
    prop::collection::vec((names(), inner), 0..8).prop_map(Node::Map)
}

/// The parts of a Struct's encoding, so that random bytes get past its first one.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[b"\x0a", b"\x12", b"\x1a", b"\x2a", b"{", b"\"", b"mode"];
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in bytes()) {
        if let Err(errors) = Config::parse(&bytes, &no_env) {
            prop_assert!(!errors.0.is_empty());
        }
    }

    #[test]
    fn any_cut_of_a_document_is_read_or_refused(tree in trees(), cut in any::<prop::sample::Index>()) {
        if let Some(bytes) = protobuf(&tree)
            && !bytes.is_empty()
        {
            let _ = Config::parse(&bytes[..cut.index(bytes.len())], &no_env);
        }
        let text = json(&tree);
        let _ = Config::parse(&text.as_bytes()[..cut.index(text.len())], &no_env);
    }

    #[test]
    fn any_tree_is_read_alike_in_both_forms(tree in trees()) {
        let text = Config::parse(json(&tree).as_bytes(), &no_env);
        if let Some(bytes) = protobuf(&tree) {
            let message = Config::parse(&bytes, &no_env);
            prop_assert_eq!(format!("{text:?}"), format!("{message:?}"));
        }
        if let Err(errors) = text {
            prop_assert!(!errors.0.is_empty());
            for error in &errors.0 {
                prop_assert!(error.message.starts_with("found "), "{}", error);
                prop_assert!(!error.to_string().contains(char::is_control), "{}", error);
            }
        }
    }
}
