//! Tests of `fields`.

use proptest::prelude::*;
use sfv::{List, ListEntry, Parser};

use super::*;
use crate::testing::{meter, standing, standings};
use crate::verdict::Policy;

/// The contract's own example: 900 of the key's 1500 and 2412 of the tenant's 3000 are left.
fn example() -> Standings {
    standings(&[
        standing(Policy::Key, meter(1500, 60, 1500), 900, 11_001, 0),
        standing(Policy::Tenant, meter(3000, 60, 3000), 2412, 12_000, 0),
    ])
}

fn sent(dialect: Dialect, standings: &Standings) -> Vec<(&'static str, String)> {
    let mut fields = rate_limit(dialect, standings);
    fields.sort();
    fields
}

#[track_caller]
fn assert_sent(dialect: Dialect, standings: &Standings, expected: &[(&str, &str)]) {
    let fields = sent(dialect, standings);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert_eq!(fields, expected, "{dialect:?}");
}

const POLICY_11: (&str, &str) = (
    "ratelimit-policy",
    r#""key";q=1500;w=60, "tenant";q=3000;w=60"#,
);
const STATE_11: (&str, &str) = ("ratelimit", r#""key";r=900;t=12, "tenant";r=2412;t=12"#);

#[test]
fn every_dialect_has_its_fields() {
    let of = example();
    assert_sent(
        Dialect::Draft03,
        &of,
        &[
            ("ratelimit-limit", "1500"),
            ("ratelimit-policy", "1500;w=60"),
            ("ratelimit-remaining", "900"),
            ("ratelimit-reset", "12"),
        ],
    );
    assert_sent(Dialect::Draft11, &of, &[STATE_11, POLICY_11]);
    assert_sent(
        Dialect::Both,
        &of,
        &[
            STATE_11,
            ("ratelimit-limit", "1500"),
            POLICY_11,
            ("ratelimit-remaining", "900"),
            ("ratelimit-reset", "12"),
        ],
    );
    assert_sent(
        Dialect::XRateLimit,
        &of,
        &[
            ("x-ratelimit-limit", "1500"),
            ("x-ratelimit-remaining", "900"),
            ("x-ratelimit-reset", "12"),
        ],
    );
    assert_sent(Dialect::None, &of, &[]);
}

const ALL: [Dialect; 5] = [
    Dialect::Draft03,
    Dialect::Draft11,
    Dialect::Both,
    Dialect::XRateLimit,
    Dialect::None,
];

#[test]
fn a_request_that_met_no_bucket_gets_none() {
    for dialect in ALL {
        assert_sent(dialect, &Standings::default(), &[]);
    }
}

#[test]
fn limit_and_window_are_as_configured_whatever_the_burst() {
    let of = standings(&[standing(Policy::Key, meter(100, 3600, 5000), 100, 0, 0)]);
    assert_sent(
        Dialect::Draft03,
        &of,
        &[
            ("ratelimit-limit", "100"),
            ("ratelimit-policy", "100;w=3600"),
            ("ratelimit-remaining", "100"),
            ("ratelimit-reset", "0"),
        ],
    );
}

#[test]
fn one_bucket_is_described_and_all_are_listed() {
    // Refused by the tenant's: its wait is the longer one, though the key has less left.
    let of = standings(&[
        standing(Policy::Ip, meter(600, 60, 600), 400, 20_000, 0),
        standing(Policy::Tenant, meter(3000, 60, 3000), 3, 59_940, 140),
        standing(Policy::Key, meter(1500, 60, 1500), 2, 59_920, 120),
    ]);
    assert_sent(
        Dialect::Both,
        &of,
        &[
            (
                "ratelimit",
                r#""key";r=2;t=60, "tenant";r=3;t=60, "ip";r=400;t=20"#,
            ),
            ("ratelimit-limit", "3000"),
            (
                "ratelimit-policy",
                r#""key";q=1500;w=60, "tenant";q=3000;w=60, "ip";q=600;w=60"#,
            ),
            ("ratelimit-remaining", "3"),
            ("ratelimit-reset", "60"),
        ],
    );
    let of = standings(&[standing(Policy::Anonymous, meter(60, 60, 60), 59, 1, 0)]);
    assert_sent(
        Dialect::Draft11,
        &of,
        &[
            ("ratelimit", r#""anonymous";r=59;t=1"#),
            ("ratelimit-policy", r#""anonymous";q=60;w=60"#),
        ],
    );
}

fn value(fields: &[Field], name: &str) -> String {
    let mut named = fields.iter().filter(|(n, _)| *n == name);
    let (_, value) = named.next().unwrap();
    assert!(named.next().is_none(), "{name} twice");
    value.clone()
}

/// What a List of Strings with two integer parameters says.
fn parsed(value: &str, first: &str, second: &str) -> Vec<(String, i64, i64)> {
    let list: List = Parser::new(value).parse().unwrap();
    let one = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else {
            panic!("an inner list: {value}")
        };
        let names: Vec<&str> = item.params.keys().map(|key| key.as_str()).collect();
        assert_eq!(names, [first, second], "{value}");
        let numbers: Vec<i64> = item
            .params
            .values()
            .map(|value| i64::from(value.as_integer().unwrap()))
            .collect();
        let name = item.bare_item.as_string().unwrap().as_str().to_owned();
        (name, numbers[0], numbers[1])
    };
    list.iter().map(one).collect()
}

proptest! {
    #[test]
    fn structured_fields_are_what_rfc_9651_says(
        points in prop::array::uniform3(1..=1_000_000_000_u64),
        per in prop::array::uniform3(1..=2_678_400_u64),
        remaining in prop::array::uniform3(0..=1_000_000_000_u64),
        reset in prop::array::uniform3(0..=1_000_000_000_000_u64),
    ) {
        let policies = [Policy::Key, Policy::Tenant, Policy::Ip];
        let of: Vec<Standing> = (0..3)
            .map(|i| standing(policies[i], meter(points[i], per[i], 1), remaining[i], reset[i], 0))
            .collect();
        for dialect in [Dialect::Draft11, Dialect::Both] {
            let fields = rate_limit(dialect, &standings(&of));
            let policy = parsed(&value(&fields, "ratelimit-policy"), "q", "w");
            let state = parsed(&value(&fields, "ratelimit"), "r", "t");
            for i in 0..3 {
                let name = policies[i].name().to_owned();
                prop_assert_eq!(&policy[i], &(name.clone(), points[i] as i64, per[i] as i64));
                let seconds = reset[i].div_ceil(1000) as i64;
                prop_assert_eq!(&state[i], &(name, remaining[i] as i64, seconds));
            }
        }
    }

    #[test]
    fn no_dialect_sends_a_field_twice(remaining in 0..100_u64, wait in 0..2000_u64) {
        let of = standings(&[
            standing(Policy::Key, meter(100, 60, 100), remaining, 1, wait),
            standing(Policy::Tenant, meter(100, 60, 100), 50, 1, 1000),
        ]);
        for dialect in ALL {
            let mut names: Vec<&str> = rate_limit(dialect, &of).iter().map(|(n, _)| *n).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), all);
        }
    }
}
