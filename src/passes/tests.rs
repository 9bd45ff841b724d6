//! Tests of `passes`.

use std::rc::Rc;

use super::{Parked, Pass, Passes, continues};
use crate::testing::request;

fn parked(id: &str) -> Parked {
    Parked {
        pass: Rc::new(Pass {
            id: id.as_bytes().to_vec(),
            note: "allowed",
            ..Pass::default()
        }),
        held: None,
    }
}

#[test]
fn what_is_parked_is_taken_once_and_by_its_own_id() {
    let mut passes = Passes::default();
    passes.park(parked("one"));
    assert_eq!(passes.resume(b"two"), None);
    assert_eq!(passes.resume(b"one"), Some(parked("one")));
    assert_eq!(passes.resume(b"one"), None);
}

#[test]
fn in_a_later_turn_nothing_is_continued() {
    let mut passes = Passes::default();
    passes.park(parked("one"));
    assert_eq!(passes.take_held().count(), 0, "it holds nothing");
    assert_eq!(passes.resume(b"one"), None);
}

#[test]
fn a_head_continues_another_if_it_names_path_and_id_once() {
    let original = ("x-envoy-original-url", "http://a/b");
    let id = ("x-request-id", "7");
    let continued =
        |fields: &[(&str, &str)]| continues(&request("GET", "/", fields)).map(<[u8]>::to_vec);
    assert_eq!(continued(&[original, id]), Some(b"7".to_vec()));
    for fields in [
        &[original][..],
        &[id],
        &[original, original, id],
        &[original, id, id],
        &[],
    ] {
        assert_eq!(continued(fields), None, "{fields:?}");
    }
}
