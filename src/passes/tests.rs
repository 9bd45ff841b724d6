//! Tests of `passes`.

use std::rc::Rc;

use super::{KEPT, Pass, Passes, continues};
use crate::testing::request;

fn pass(id: &str) -> Rc<Pass> {
    Rc::new(Pass {
        id: id.as_bytes().to_vec(),
        note: "allowed",
        ..Pass::default()
    })
}

#[test]
fn a_pass_is_taken_once_and_by_its_own_id() {
    let mut passes = Passes::default();
    passes.keep(&pass("one"));
    assert_eq!(passes.take(b"two"), None);
    assert_eq!(passes.take(b"one"), Some(pass("one")));
    assert_eq!(passes.take(b"one"), None);
}

#[test]
fn a_request_without_an_id_leaves_no_pass() {
    let mut passes = Passes::default();
    passes.keep(&pass(""));
    assert_eq!(passes.take(b""), None);
}

#[test]
fn however_many_are_kept_no_more_are_held() {
    let mut passes = Passes::default();
    for id in 0..10_000 {
        passes.keep(&pass(&id.to_string()));
    }
    assert_eq!(
        passes.take(b"9999"),
        Some(pass("9999")),
        "the last is there"
    );
    let held = passes.kept.iter().flatten().count();
    assert!(held < KEPT, "{held}");
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
