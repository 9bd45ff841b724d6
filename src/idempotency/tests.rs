//! Tests of `idempotency`.

use proptest::prelude::*;

use super::*;
use crate::testing::head;

#[test]
fn a_key_is_taken_bare_or_quoted() {
    let longest = "k".repeat(255);
    let quoted = format!("\"{longest}\"");
    for (value, expected) in [
        ("k1", "k1"),
        ("\"k1\"", "k1"),
        (" k1\t", "k1"),
        (" \"k1\" ", "k1"),
        (
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
        ),
        (
            "!#$%&'()*+,-./:;<=>?@[]^_`{|}~",
            "!#$%&'()*+,-./:;<=>?@[]^_`{|}~",
        ),
        (&longest, &longest),
        (&quoted, &longest),
    ] {
        let request = head(&[(HEADER, value.as_bytes())]);
        assert_eq!(key(&request), Ok(expected.as_bytes()), "{value}");
    }
    assert_eq!(
        key(&head(&[("Idempotency-Key", b"k1")])),
        Ok(b"k1".as_slice())
    );
}

#[test]
fn what_cannot_be_told_apart_is_refused() {
    let too_long = "k".repeat(256);
    let too_long_quoted = format!("\"{too_long}\"");
    let rows: &[(&[u8], &str)] = &[
        (b"", "empty"),
        (b"  ", "white space"),
        (b"\"\"", "empty in quotes"),
        (b"\"  \"", "white space in quotes"),
        (b"\"", "one quote"),
        (b"\"k1", "not closed"),
        (b"k1\"", "not opened"),
        (b"k\"1", "a quote inside"),
        (b"\"k\"1\"", "a quote inside quotes"),
        (b"\"k1\", \"k2\"", "two in one line"),
        (b"k\x001", "a control character"),
        (b"k\t1", "a tab"),
        (b"k\x7f", "DEL"),
        ("clé".as_bytes(), "not ASCII"),
        (b"\"\xff\"", "not UTF-8"),
        (too_long.as_bytes(), "256 bytes"),
        (too_long_quoted.as_bytes(), "256 bytes in quotes"),
    ];
    for (value, what) in rows {
        assert_eq!(
            key(&head(&[(HEADER, value)])),
            Err(KeyFault::Malformed),
            "{what}"
        );
    }
}

#[test]
fn none_and_two_are_faults_of_their_own() {
    assert_eq!(key(&head(&[])), Err(KeyFault::Missing));
    assert_eq!(
        key(&head(&[("x-idempotency-key", b"k1")])),
        Err(KeyFault::Missing)
    );
    for second in [b"k2".as_slice(), b"k1", b""] {
        let request = head(&[(HEADER, b"k1"), ("Idempotency-Key", second)]);
        assert_eq!(key(&request), Err(KeyFault::Doubled), "{second:?}");
    }
}

proptest! {
    #[test]
    fn quotes_make_no_difference(inner in "[!#-\\[\\]-~]{1,255}") {
        let quoted = format!("\"{inner}\"");
        let bare = head(&[(HEADER, inner.as_bytes())]);
        let quoted = head(&[(HEADER, quoted.as_bytes())]);
        prop_assert_eq!(key(&bare), Ok(inner.as_bytes()));
        prop_assert_eq!(key(&quoted), Ok(inner.as_bytes()));
    }

    #[test]
    fn whatever_is_taken_is_short_visible_ascii(value in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(key) = key(&head(&[(HEADER, &value)])) {
            prop_assert!((1..=255).contains(&key.len()));
            prop_assert!(key.iter().all(|b| (b' '..=b'~').contains(b)));
        }
    }
}
