//! Tests of `wait`.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::testing::NOW;

const HOUR: Millis = Millis::from_secs(3600);

#[test]
fn waits_are_whole_seconds_rounded_up_and_at_least_one() {
    for (wait, expected) in [
        (0, 1),
        (1, 1),
        (999, 1),
        (1000, 1),
        (1001, 2),
        (9000, 9),
        (9001, 10),
        (12_000, 12),
    ] {
        let told = RetryAfter::spread(Millis(wait), 0).seconds();
        assert_eq!(told, expected, "{wait} ms");
    }
    assert_eq!(RetryAfter::SOON.seconds(), 1);
}

#[test]
fn up_to_a_tenth_is_added_and_every_second_of_it_is_used() {
    for (wait, expected) in [
        (9_000, 9..=9),
        (10_000, 10..=11),
        (12_000, 12..=13),
        (99_001, 100..=110),
        (300_000, 300..=330),
    ] {
        let told: BTreeSet<u64> = (0..1000)
            .map(|nonce| RetryAfter::spread(Millis(wait), nonce).seconds())
            .collect();
        assert_eq!(told, expected.collect(), "{wait} ms");
    }
}

#[test]
fn long_waits_are_sent_as_a_date() {
    let day = RetryAfter::spread(Millis::from_secs(86_400), 0);
    let hour = RetryAfter::spread(HOUR, 0);
    let less = RetryAfter::spread(Millis::from_secs(3599), 0);
    for (retry, now, from, expected) in [
        (day, NOW, Some(HOUR), "Wed, 02 Apr 2025 00:00:00 GMT"),
        (hour, NOW, Some(HOUR), "Tue, 01 Apr 2025 01:00:00 GMT"),
        // A date is whole seconds: never before the wait is over.
        (
            hour,
            NOW.plus(Millis(1)),
            Some(HOUR),
            "Tue, 01 Apr 2025 01:00:01 GMT",
        ),
        (
            hour,
            NOW.plus(Millis(1000)),
            Some(HOUR),
            "Tue, 01 Apr 2025 01:00:01 GMT",
        ),
        (less, NOW, Some(HOUR), "3599"),
        (hour, NOW, Some(Millis(3_600_001)), "3600"),
        (
            RetryAfter::SOON,
            NOW,
            Some(Millis(1)),
            "Tue, 01 Apr 2025 00:00:01 GMT",
        ),
        (day, NOW, None, "86400"),
        (RetryAfter::SOON, NOW, None, "1"),
        // RFC 9110, section 5.6.7.
        (
            RetryAfter::SOON,
            Millis::from_secs(784_111_776),
            Some(Millis(1)),
            "Sun, 06 Nov 1994 08:49:37 GMT",
        ),
    ] {
        assert_eq!(retry.field(now, from), expected);
    }
}

#[test]
fn moments_are_rfc_3339() {
    for (at, expected) in [
        (NOW, "2025-04-01T00:00:00Z"),
        (Millis(0), "1970-01-01T00:00:00Z"),
        (Millis::from_secs(951_827_696), "2000-02-29T12:34:56Z"),
        // Exact.
        (NOW.plus(Millis(1)), "2025-04-01T00:00:00.001Z"),
        (NOW.plus(Millis(990)), "2025-04-01T00:00:00.99Z"),
    ] {
        assert_eq!(rfc3339(at), expected);
    }
}

proptest! {
    #[test]
    fn a_wait_is_never_shortened_and_at_most_a_tenth_longer(
        wait in prop_oneof![0..200_000_u64, 0..100_000_000_000_u64],
        nonce in any::<u64>(),
    ) {
        let told = RetryAfter::spread(Millis(wait), nonce).seconds();
        let least = wait.div_ceil(1000).max(1);
        prop_assert!(told * 1000 >= wait && told >= 1);
        prop_assert!(told >= least && (told - least) * 10 <= least, "{} for {} ms", told, wait);
    }

    #[test]
    fn a_date_is_never_before_the_wait_is_over(
        wait in 1..100_000_000_u64,
        now in 0..4_000_000_000_000_u64,
        nonce in any::<u64>(),
    ) {
        let retry = RetryAfter::spread(Millis(wait), nonce);
        let date = retry.field(Millis(now), Some(Millis(0)));
        let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date.as_bytes()).unwrap();
        let at = u64::try_from(at.as_millisecond()).unwrap();
        prop_assert!(at >= now + wait, "{}", date);
        prop_assert!(at < now + retry.seconds() * 1000 + 1000, "{}", date);
        // IMF-fixdate has one length.
        prop_assert!(date.len() == 29 && date.ends_with(" GMT"), "{}", date);
    }

    #[test]
    fn no_time_can_make_it_panic(wait in any::<u64>(), now in any::<u64>(), nonce in any::<u64>()) {
        let retry = RetryAfter::spread(Millis(wait), nonce);
        prop_assert!(!retry.field(Millis(now), Some(Millis(0))).is_empty());
        prop_assert!(!rfc3339(Millis(now)).is_empty());
    }
}

#[test]
fn a_date_that_does_not_exist_is_sent_as_seconds() {
    let retry = RetryAfter::spread(Millis(u64::MAX), 0);
    let field = retry.field(NOW, Some(HOUR));
    assert_eq!(field, retry.seconds().to_string());
}
