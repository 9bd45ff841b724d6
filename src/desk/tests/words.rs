//! Answers to other calls.

use std::collections::BTreeSet;

use tollgate_config::{Front as Dialect, Millis, Topology};

use super::fake::{self, FAILURES, key, with_lease};
use super::{T0, all_ready, at, failed, items, reply, standalone, status, words};
use crate::desk::{Answer, Asked, Notice};
use crate::store::front::StoreFault;

#[test]
fn an_answer_to_another_call_is_nobodys() {
    let mut desk = standalone();
    desk.ask(1, with_lease(&key("t", "a", None), 1), T0);
    let lost = desk.next_call(T0).expect("a call");
    status(&mut desk, &lost, b"504", b"", at(20));
    let fate = [
        Notice::Latency(Millis(20)),
        Notice::Fault(StoreFault::Timeout),
    ];
    assert_eq!(desk.notices(), fate);
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Timeout));
    let revoke = desk.next_call(at(20)).expect("a call");
    assert_eq!(items(&revoke), words("Revoke|t=t|a#1"));
    reply(&mut desk, &revoke, Ok("d"), at(21));

    // What the front owes to the first call it gives to a later one.
    desk.ask(2, with_lease(&key("t", "b", None), 2), at(22));
    let out = desk.next_call(at(22)).expect("a call");
    let others = fake::answer(&lost.call, &[Ok(words("a"))]);
    status(&mut desk, &out, b"200", &others, at(23));
    assert_eq!(all_ready(&mut desk), failed([2], StoreFault::Mismatched));
    let mismatched = Notice::Fault(StoreFault::Mismatched);
    assert!(desk.notices().contains(&mismatched));
    let out = desk.next_call(at(23)).expect("a call");
    assert_eq!(items(&out), words("Revoke|t=t|b#2"), "it may hold it");
}

#[test]
fn answers_to_other_calls_open_the_breaker() {
    let mut desk = standalone();
    let first = desk.words.next_call();
    let others = fake::said(
        Dialect::Webdis,
        &[desk.words.of(first, 0)],
        &[Ok(words("a"))],
    );
    for stream in 0..FAILURES {
        desk.ask(stream, key("t", "a", None), T0);
        let out = desk.next_call(T0).expect("a call");
        status(&mut desk, &out, b"200", &others, T0);
    }
    let opened = Notice::Opened {
        fault: StoreFault::Mismatched,
        failures: FAILURES,
    };
    assert!(desk.notices().contains(&opened));
    let asked = desk.ask(FAILURES, key("t", "a", None), T0);
    assert_eq!(asked, Asked::Failed(StoreFault::Breaker));
}

#[test]
fn answers_of_a_pipeline_that_changed_places_are_noticed() {
    let mut desk = fake::desk(Dialect::Upstash, Topology::Cluster);
    for (stream, tenant) in [(1, "t"), (2, "u"), (3, "v")] {
        desk.ask(stream, key(tenant, "a", None), T0);
    }
    let out = desk.next_call(T0).expect("a call");
    let mut own = fake::words_of(&out.call);
    own.swap(0, 2);
    let replies = ["a", "a", "a"].map(|word| Ok(words(word)));
    let body = fake::said(Dialect::Upstash, &own, &replies);
    status(&mut desk, &out, b"200", &body, at(1));
    let faults: Vec<u32> = all_ready(&mut desk)
        .into_iter()
        .filter_map(|(stream, answer)| {
            (answer == Answer::Failed(StoreFault::Mismatched)).then_some(stream)
        })
        .collect();
    assert_eq!(faults, [1, 3]);
}

#[test]
fn no_word_is_said_twice() {
    let mut desk = fake::desk(Dialect::Upstash, Topology::Cluster);
    let mut singles = [desk.another(), desk.another()];
    let mut said = BTreeSet::new();
    let mut count = 0;
    for turn in 0..5 {
        let [one, other] = &mut singles;
        for desk in [&mut desk, one, other] {
            desk.ask(1, key("t", "a", None), at(turn));
            desk.ask(2, key("u", "a", None), at(turn));
            let out = desk.next_call(at(turn)).expect("a call");
            let own = fake::words_of(&out.call);
            count += own.len();
            said.extend(own);
            let good = [Ok(words("a")), Ok(words("a"))];
            let body = fake::answer(&out.call, &good);
            status(desk, &out, b"200", &body, at(turn));
            assert_eq!(all_ready(desk).len(), 2);
        }
    }
    assert_eq!((said.len(), count), (30, 30));
    let short = |word: &String| word.len() < 40 && word.bytes().all(|b| b.is_ascii_graphic());
    assert!(said.iter().all(short), "{said:?}");
}
