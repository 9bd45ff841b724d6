//! Any bytes as a request: one spelling of its path, one price, and nobody's own headers.

use std::sync::LazyLock;

use tollgate_config::{Cost, Millis, Points, WhenRange, path};
use tollgate_filter::idempotency;
use tollgate_filter::price;
use tollgate_filter::request::{OWN_PREFIX, Occurs, Request};

use super::head;

/// 2026-01-01T00:00:00Z.
const NOW: Millis = Millis(1_767_225_600_000);
const DAY: u64 = 86_400_000;

static COST: LazyLock<Cost> = LazyLock::new(|| Cost {
    base: Points(25),
    when_range: Some(WhenRange {
        from: "from".to_owned(),
        to: "to".to_owned(),
        longer_than: Millis(90 * DAY),
        cost: Points(50),
    }),
});

/// Reads the bytes as a request.
pub fn run(bytes: &[u8]) {
    let fields = head::fields(bytes);
    let request = Request::new(fields.clone());
    check_path(&request);
    // Nothing hides behind a fragment: servers differ on whether there is one.
    let mut parts = request.first(":path").splitn(2, |byte| *byte == b'?');
    let query = parts.nth(1).unwrap_or_default();
    assert_eq!(request.query(), query);
    check_price(query);
    check_own(&fields, &request);
    for (name, _) in &fields {
        let count = request.values(name).count();
        match request.occurs(name) {
            Occurs::Never => assert!(count <= 1),
            Occurs::Once(value) => assert!(count == 1 && !value.is_empty()),
            Occurs::Doubled => assert!(count > 1),
        }
    }
    if let Ok(key) = idempotency::key(&request) {
        assert!((1..=255).contains(&key.len()), "a key of {}", key.len());
        assert!(key.iter().all(|b| matches!(b, b' '..=b'~')), "{key:?}");
    }
    let _ = request.is_grpc();
}

/// No spelling of a path is another path.
fn check_path(request: &Request) {
    let path = request.path();
    assert!(path.starts_with(b"/"), "{}", path.escape_ascii());
    assert!(path.len() == 1 || !path.ends_with(b"/"));
    assert!(path.iter().all(u8::is_ascii_graphic));
    let mut segments = path.split(|b| *b == b'/').skip(1);
    assert!(path.len() == 1 || segments.all(|s| !matches!(s, b"" | b"." | b"..")));
    assert_eq!(path, path::normalize(&path), "it has two spellings");

    let raw = request.raw_path();
    assert!(!raw.contains(&b'?') && !raw.contains(&b'#'));
    if raw.starts_with(b"/") {
        let detour = [b"/x/./..//", raw].concat();
        assert_eq!(path, path::normalize(&detour), "after a detour");
    }
    assert_eq!(path, path::normalize(&escaped(raw)), "all escaped");
}

/// The path with every byte escaped that is not part of an escape already.
fn escaped(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        rest = match rest {
            [] => return out,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.extend([b'%', *high, *low]);
                rest
            }
            [byte @ (b'/' | b'%'), rest @ ..] => {
                out.push(*byte);
                rest
            }
            [byte, rest @ ..] => {
                out.extend(format!("%{byte:02x}").bytes());
                rest
            }
        };
    }
}

/// No spelling of a dear range gets the cheap price.
fn check_price(query: &[u8]) {
    let price = price::of(&COST, query, NOW);
    assert!(matches!(price, 25 | 50), "{price}");
    for more in ["&from=x", "&to=", "&%66rom=2025-01-01T00:00:00Z&from=0"] {
        let query = [query, more.as_bytes()].concat();
        assert_eq!(
            price::of(&COST, &query, NOW),
            50,
            "{}",
            query.escape_ascii()
        );
    }
    let _ = price::of(&COST, query, Millis(u64::MAX));
}

/// What only the filter may set is found, each name once, and nothing else.
fn check_own(fields: &[(String, Vec<u8>)], request: &Request) {
    let own = request.own_fields();
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let is_own = |name: &str| plain(name).starts_with(OWN_PREFIX);
    assert!(own.iter().all(|name| is_own(name)), "{own:?}");
    for (at, name) in own.iter().enumerate() {
        assert!(!own[..at].contains(name), "{name} is there twice");
    }
    let missed = fields.iter().find(|(n, _)| is_own(n) && !own.contains(n));
    assert_eq!(missed, None);
}
