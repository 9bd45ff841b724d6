//! Tests of `desk`: each rule, then random stories.

use tollgate_config::{Front as Dialect, Millis, Topology};

use super::line::{MOST_ITEMS, MOST_WAITING};
use super::{Answer, Asked, Desk, Notice, Outgoing};
use crate::store::front::{Raw, StoreFault};
use crate::verdict::{Policy, Taken, Throttled, Verdict};
use fake::{
    FAILURES, Fake, OPEN_FOR, THEN, TIMEOUT, allowed, anonymous, answer, boxed, commands, desk,
    key, key_standing, passed, throttled,
};

mod fake;
mod holds;
mod last;
mod legs;
mod letters;
mod random;
mod single;
mod words;

const T0: Millis = Millis(1_743_465_600_000);

const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

fn at(ms: u64) -> Millis {
    T0.plus(Millis(ms))
}

fn standalone() -> Desk<Fake> {
    desk(Dialect::Webdis, Topology::Standalone)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Reports what Webdis answered with 200.
fn reply(desk: &mut Desk<Fake>, out: &Outgoing, reply: Result<&str, &str>, now: Millis) {
    let reply = reply.map(words).map_err(str::to_owned);
    let body = answer(&out.call, &[reply]);
    status(desk, out, b"200", &body, now);
}

fn status(desk: &mut Desk<Fake>, out: &Outgoing, status: &[u8], body: &[u8], now: Millis) {
    let raw = Raw {
        status: Some(status),
        body,
    };
    desk.returned(out.id, raw, now);
}

/// The only command of a call.
fn command(out: &Outgoing) -> (String, Vec<String>) {
    let mut commands = commands(&out.call);
    assert_eq!(commands.len(), 1);
    commands.remove(0)
}

fn items(out: &Outgoing) -> Vec<String> {
    command(out).1
}

fn all_ready(desk: &mut Desk<Fake>) -> Vec<(u32, Answer)> {
    std::iter::from_fn(|| desk.ready()).collect()
}

fn failed(streams: impl IntoIterator<Item = u32>, fault: StoreFault) -> Vec<(u32, Answer)> {
    let failed = |stream| (stream, Answer::Failed(fault));
    streams.into_iter().map(failed).collect()
}

/// A desk whose breaker has just opened, at [`T0`].
fn open() -> Desk<Fake> {
    let mut desk = standalone();
    for stream in 0..FAILURES {
        desk.ask(stream, key("t", "k", None), T0);
        let out = desk.next_call(T0).expect("a call");
        desk.dispatch_failed(out.id, StoreFault::Unreachable, T0);
    }
    assert_eq!(all_ready(&mut desk).len(), FAILURES as usize);
    desk
}

#[test]
fn a_question_is_asked_and_answered() {
    let mut desk = standalone();
    assert_eq!(desk.next_call(T0), None, "nobody asks");
    let asked = desk.ask(7, key("t", "k", None), T0);
    assert_eq!(asked, Asked::Waiting { kick: true });
    let out = desk.next_call(T0).expect("a call");
    assert_eq!(out.timeout, TIMEOUT);
    let expected = ("EVALSHA".to_owned(), words("Whole|t=t|k"));
    assert_eq!(command(&out), expected);
    assert_eq!(desk.ready(), None);
    reply(&mut desk, &out, Ok("a"), at(3));
    assert!(desk.has_ready());
    assert_eq!(
        all_ready(&mut desk),
        [(7, Answer::Decided(allowed(), THEN))]
    );
    assert!(!desk.has_ready());
    assert_eq!(desk.next_call(at(3)), None);
    assert_eq!(desk.notices(), [Notice::Latency(Millis(3))]);
}

#[test]
fn whoever_asks_meanwhile_leaves_in_the_next_call() {
    let mut desk = standalone();
    assert_eq!(
        desk.ask(1, key("t", "a", None), T0),
        Asked::Waiting { kick: true }
    );
    assert_eq!(
        desk.ask(2, anonymous("i"), T0),
        Asked::Waiting { kick: false }
    );
    let out = desk.next_call(T0).expect("a call");
    assert_eq!(items(&out), words("Whole|t=t|a Whole|ip=i|-"));
    assert_eq!(
        desk.ask(3, key("u", "c", None), at(1)),
        Asked::Waiting { kick: false }
    );
    assert_eq!(
        desk.ask(4, key("t", "d", Some("i")), at(2)),
        Asked::Waiting { kick: false }
    );
    assert_eq!(
        desk.next_call(at(2)),
        None,
        "one call is in flight at a time"
    );
    reply(&mut desk, &out, Ok("t a"), at(5));
    let answers = all_ready(&mut desk);
    assert_eq!(
        answers,
        [
            (1, Answer::Decided(throttled(), THEN)),
            (2, Answer::Decided(allowed(), THEN))
        ]
    );
    let out = desk.next_call(at(5)).expect("a call");
    assert_eq!(items(&out), words("Whole|t=u|c Whole|t=t|d+ip"));
    assert_eq!(out.timeout, TIMEOUT, "whoever waited before it");
}

#[test]
fn a_call_carries_so_many_at_most() {
    let mut desk = standalone();
    for stream in 0..150 {
        desk.ask(stream, key("t", &format!("k{stream}"), None), T0);
    }
    let mut seen = Vec::new();
    for expected in [MOST_ITEMS, MOST_ITEMS, 150 - 2 * MOST_ITEMS] {
        let out = desk.next_call(T0).expect("a call");
        let items = items(&out);
        assert_eq!(items.len(), expected);
        let good = vec!["a"; expected].join(" ");
        reply(&mut desk, &out, Ok(&good), T0);
        seen.extend(all_ready(&mut desk).into_iter().map(|(stream, _)| stream));
    }
    assert_eq!(desk.next_call(T0), None);
    assert_eq!(seen, (0..150).collect::<Vec<_>>());
}

#[test]
fn who_waited_too_long_is_not_sent() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    desk.ask(2, key("t", "b", None), at(1));
    let out = desk.next_call(at(20)).expect("a call");
    assert_eq!(items(&out), words("Whole|t=t|b"));
    assert_eq!(out.timeout, TIMEOUT);
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Overload));
    assert_eq!(desk.notices(), [Notice::Fault(StoreFault::Overload)]);
}

#[test]
fn no_more_wait_than_can_be_served() {
    let mut desk = standalone();
    for stream in 0..MOST_WAITING as u32 {
        desk.ask(stream, key("t", "a", None), T0);
    }
    let asked = desk.ask(u32::MAX, key("t", "a", None), T0);
    assert_eq!(asked, Asked::Failed(StoreFault::Overload));
}

#[test]
fn a_fault_ends_everybody_who_waits() {
    let statuses: [(&[u8], StoreFault); 4] = [
        (b"503", StoreFault::Unreachable),
        (b"504", StoreFault::Timeout),
        (b"401", StoreFault::NoAuth),
        (b"500", StoreFault::Status),
    ];
    for (code, fault) in statuses {
        let mut desk = standalone();
        desk.ask(1, key("t", "a", None), T0);
        let out = desk.next_call(T0).expect("a call");
        desk.ask(2, key("t", "b", None), at(5));
        status(&mut desk, &out, code, b"upstream", at(20));
        assert_eq!(all_ready(&mut desk), failed([1, 2], fault));
        assert_eq!(
            desk.notices(),
            [Notice::Latency(TIMEOUT), Notice::Fault(fault)],
            "a call's fault counts once"
        );
        assert_eq!(desk.next_call(at(20)), None);
    }
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    desk.dispatch_failed(out.id, StoreFault::NoCluster, T0);
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::NoCluster));
}

#[test]
fn an_answer_to_something_else_is_malformed() {
    for body in ["", "a a", "d", "p", "x"] {
        let mut desk = standalone();
        desk.ask(1, key("t", "a", None), T0);
        let out = desk.next_call(T0).expect("a call");
        reply(&mut desk, &out, Ok(body), at(1));
        assert_eq!(
            all_ready(&mut desk),
            failed([1], StoreFault::Malformed),
            "{body}"
        );
    }
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    status(&mut desk, &out, b"200", b"{\"EVALSHA\":", at(1));
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Malformed));
}

#[test]
fn a_missing_script_is_loaded_once() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    desk.ask(2, key("t", "b", None), T0);
    reply(&mut desk, &out, Err(NOSCRIPT), at(2));
    assert!(!desk.has_ready(), "they are sent again, ahead of others");
    let out = desk.next_call(at(2)).expect("a call");
    let expected = ("EVAL".to_owned(), words("Whole|t=t|a Whole|t=t|b"));
    assert_eq!(command(&out), expected);
    assert_eq!(out.timeout, TIMEOUT);
    reply(&mut desk, &out, Ok("a b"), at(4));
    assert_eq!(all_ready(&mut desk).len(), 2);
    let noscript = Notice::Fault(StoreFault::NoScript);
    assert!(desk.notices().contains(&noscript));

    desk.ask(3, key("t", "c", None), at(5));
    let out = desk.next_call(at(5)).expect("a call");
    assert_eq!(command(&out).0, "EVALSHA");
}

#[test]
fn a_script_that_is_missing_after_loading_is_a_fault() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    reply(&mut desk, &out, Err(NOSCRIPT), at(1));
    let out = desk.next_call(at(1)).expect("a call");
    reply(&mut desk, &out, Err(NOSCRIPT), at(2));
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Script));
    assert_eq!(desk.next_call(at(2)), None);
}

#[test]
fn who_left_before_it_was_sent_is_not_sent() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    desk.ask(2, key("t", "b", None), T0);
    desk.left(1);
    let out = desk.next_call(T0).expect("a call");
    assert_eq!(items(&out), words("Whole|t=t|b"));
    desk.ask(3, key("t", "c", None), T0);
    desk.left(3);
    reply(&mut desk, &out, Ok("a"), at(1));
    assert_eq!(desk.next_call(at(1)), None, "nobody asks any more");
    desk.left(4711);
}

#[test]
fn what_somebody_who_left_was_granted_is_undone() {
    let mut desk = standalone();
    for (stream, k) in [(1, "a"), (2, "b"), (3, "c")] {
        desk.ask(stream, key("t", k, Some("i")), T0);
    }
    let out = desk.next_call(T0).expect("a call");
    desk.left(1);
    desk.left(2);
    reply(&mut desk, &out, Ok("a t a"), at(1));
    // The third leaves before its answer is taken.
    desk.left(3);
    assert_eq!(desk.ready(), None);
    desk.ask(4, key("t", "d", None), at(1));
    let out = desk.next_call(at(1)).expect("a call");
    let expected = words("Undo|t=t|a+ip Undo|t=t|c+ip Whole|t=t|d");
    assert_eq!(items(&out), expected, "ahead of the next question");
    reply(&mut desk, &out, Ok("d d a"), at(2));
    assert_eq!(all_ready(&mut desk).len(), 1);
    assert_eq!(desk.next_call(at(2)), None);
}

#[test]
fn an_undo_is_sent_alone_where_nobody_asks_and_dropped_if_it_fails() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    desk.left(1);
    reply(&mut desk, &out, Ok("a"), at(1));
    let out = desk.next_call(at(1)).expect("a call");
    assert_eq!(items(&out), words("Undo|t=t|a"));
    assert_eq!(out.timeout, TIMEOUT);
    status(&mut desk, &out, b"503", b"", at(2));
    let notices = desk.notices();
    assert!(notices.contains(&Notice::Fault(StoreFault::Unreachable)));
    assert!(
        notices.contains(&Notice::Dropped(1)),
        "it may have been undone: it is not told again"
    );
    assert_eq!(desk.next_call(at(5000)), None);
}

#[test]
fn asking_again_replaces_the_question() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    desk.ask(1, key("t", "b", None), at(1));
    reply(&mut desk, &out, Ok("a"), at(2));
    assert_eq!(desk.ready(), None);
    let out = desk.next_call(at(2)).expect("a call");
    assert_eq!(items(&out), words("Undo|t=t|a Whole|t=t|b"));
    reply(&mut desk, &out, Ok("d b"), at(3));
    assert_eq!(all_ready(&mut desk), [(1, Answer::Decided(boxed(), THEN))]);
}

#[test]
fn an_open_breaker_fails_questions_at_once() {
    let mut desk = open();
    let mut notices = desk.notices();
    assert_eq!(
        notices.pop(),
        Some(Notice::Opened {
            fault: StoreFault::Unreachable,
            failures: FAILURES
        })
    );
    let asked = desk.ask(100, key("t", "k", None), at(1999));
    assert_eq!(asked, Asked::Failed(StoreFault::Breaker));
    assert_eq!(desk.next_call(at(1999)), None);
    assert_eq!(desk.notices(), [Notice::Fault(StoreFault::Breaker)]);
}

#[test]
fn one_call_probes_and_nobody_waits_for_it() {
    let mut desk = open();
    for stream in 0..100 {
        desk.ask(stream, key("t", "k", None), T0.plus(OPEN_FOR));
    }
    let out = desk.next_call(T0.plus(OPEN_FOR)).expect("a probe");
    assert_eq!(items(&out).len(), MOST_ITEMS);
    assert_eq!(all_ready(&mut desk), failed(64..100, StoreFault::Breaker));
    let asked = desk.ask(100, key("t", "k", None), at(2001));
    assert_eq!(asked, Asked::Failed(StoreFault::Breaker));
    status(&mut desk, &out, b"503", b"", at(2002));
    assert_eq!(all_ready(&mut desk), failed(0..64, StoreFault::Unreachable));
    let asked = desk.ask(101, key("t", "k", None), at(4001));
    assert_eq!(asked, Asked::Failed(StoreFault::Breaker));

    desk.notices();
    desk.ask(102, key("t", "k", None), at(4002));
    let out = desk.next_call(at(4002)).expect("a probe");
    reply(&mut desk, &out, Ok("a"), at(4003));
    let recovered = Notice::Recovered;
    assert_eq!(desk.notices(), [Notice::Latency(Millis(1)), recovered]);
    assert_eq!(
        desk.ask(103, key("t", "k", None), at(4003)),
        Asked::Waiting { kick: true }
    );
}

#[test]
fn a_probe_that_misses_the_script_goes_on_as_its_load() {
    let mut desk = open();
    desk.ask(100, key("t", "k", None), at(2000));
    let out = desk.next_call(at(2000)).expect("a probe");
    reply(&mut desk, &out, Err(NOSCRIPT), at(2001));
    let out = desk.next_call(at(2001)).expect("a probe");
    assert_eq!(command(&out).0, "EVAL");
    reply(&mut desk, &out, Ok("a"), at(2002));
    assert_eq!(all_ready(&mut desk).len(), 1);
}

#[test]
fn desks_of_single_streams_share_the_breaker() {
    let desk = open();
    let mut single = desk.another();
    assert_eq!(
        single.ask(1, key("t", "k", None), at(1)),
        Asked::Failed(StoreFault::Breaker)
    );
    single.ask(1, key("t", "k", None), at(2000));
    let out = single.next_call(at(2000)).expect("a probe");
    let mut other = desk.another();
    assert_eq!(
        other.ask(2, key("t", "k", None), at(2001)),
        Asked::Failed(StoreFault::Breaker)
    );
    reply(&mut single, &out, Ok("a"), at(2002));
    assert_eq!(
        other.ask(2, key("t", "k", None), at(2002)),
        Asked::Waiting { kick: true }
    );
}

#[test]
fn a_call_that_never_comes_back_is_given_up() {
    let mut desk = standalone();
    desk.ask(1, key("t", "a", None), T0);
    let lost = desk.next_call(T0).expect("a call");
    desk.ask(2, key("t", "b", None), at(1));
    assert_eq!(desk.next_call(at(1019)), None);
    assert_eq!(desk.next_call(at(1020)), None);
    assert_eq!(all_ready(&mut desk), failed([1, 2], StoreFault::Timeout));
    desk.ask(3, key("t", "c", None), at(1021));
    let out = desk.next_call(at(1021)).expect("a call");
    reply(&mut desk, &lost, Ok("a"), at(1022));
    assert_eq!(desk.ready(), None, "its answer is nobody's");
    reply(&mut desk, &out, Ok("a"), at(1023));
    assert_eq!(all_ready(&mut desk).len(), 1);
}

#[test]
fn a_cluster_is_asked_for_the_address_then_for_the_tenant() {
    let mut desk = desk(Dialect::Webdis, Topology::Cluster);
    desk.ask(1, key("t", "a", Some("i")), T0);
    let out = desk.next_call(T0).expect("a call");
    assert_eq!(items(&out), words("Address|ip=i|a+ip"));
    desk.ask(2, key("u", "b", None), at(1));
    desk.ask(3, key("t", "c", None), at(1));
    reply(&mut desk, &out, Ok("p"), at(2));
    assert_eq!(desk.ready(), None);
    let out = desk.next_call(at(2)).expect("a call");
    assert_eq!(
        items(&out),
        words("Owner|t=t|a+ip Whole|t=t|c"),
        "one tag a call"
    );
    assert_eq!(out.timeout, TIMEOUT);
    reply(&mut desk, &out, Ok("a a"), at(4));
    let Verdict::Allowed(key_alone, _) = allowed() else {
        panic!("allowed");
    };
    let merged = Verdict::Allowed(key_alone.with(passed()), None);
    assert_eq!(all_ready(&mut desk)[0], (1, Answer::Decided(merged, THEN)));
    let out = desk.next_call(at(4)).expect("a call");
    assert_eq!(items(&out), words("Whole|t=u|b"));
    reply(&mut desk, &out, Ok("a"), at(5));
    assert_eq!(desk.next_call(at(5)), None);
}

#[test]
fn a_tenant_that_refuses_gives_the_address_its_point_back() {
    for word in ["t", "b", "o"] {
        let mut desk = desk(Dialect::Webdis, Topology::Cluster);
        desk.ask(1, key("t", "a", Some("i")), T0);
        let out = desk.next_call(T0).expect("a call");
        reply(&mut desk, &out, Ok("p"), at(1));
        let out = desk.next_call(at(1)).expect("a call");
        reply(&mut desk, &out, Ok(word), at(2));
        let answers = all_ready(&mut desk);
        let [(1, Answer::Decided(verdict, THEN))] = answers.as_slice() else {
            panic!("{answers:?}");
        };
        match verdict {
            Verdict::Throttled(Throttled { standings, .. })
            | Verdict::Taken(Taken { standings, .. }) => {
                let all: Vec<_> = standings.iter().copied().collect();
                let [first, ip] = all.as_slice() else {
                    panic!("{all:?}");
                };
                assert_eq!(*first, key_standing());
                assert_eq!(ip.policy, Policy::Ip);
                assert_eq!((ip.remaining, ip.reset), (599, Millis(100)));
            }
            other => assert_eq!(*other, boxed()),
        }
        let out = desk.next_call(at(2)).expect("a call");
        assert_eq!(items(&out), words("GiveBack|ip=i|a+ip"));
        reply(&mut desk, &out, Ok("d"), at(3));
        assert_eq!(desk.next_call(at(3)), None);
    }
}

#[test]
fn an_address_that_refuses_ends_it() {
    let mut desk = desk(Dialect::Webdis, Topology::Cluster);
    desk.ask(1, key("t", "a", Some("i")), T0);
    let out = desk.next_call(T0).expect("a call");
    reply(&mut desk, &out, Ok("t"), at(1));
    assert_eq!(
        all_ready(&mut desk),
        [(1, Answer::Decided(throttled(), THEN))]
    );
    assert_eq!(desk.next_call(at(1)), None);
}

#[test]
fn an_address_does_not_allow_and_a_tenant_does_not_let_pass() {
    let mut desk = desk(Dialect::Webdis, Topology::Cluster);
    desk.ask(1, key("t", "a", Some("i")), T0);
    let out = desk.next_call(T0).expect("a call");
    reply(&mut desk, &out, Ok("a"), at(1));
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Malformed));
}

#[test]
fn a_point_of_an_address_comes_back_whatever_ends_the_question() {
    let passed = || {
        let mut desk = desk(Dialect::Webdis, Topology::Cluster);
        desk.ask(1, key("t", "a", Some("i")), T0);
        let out = desk.next_call(T0).expect("a call");
        (desk, out)
    };
    let give_back = words("GiveBack|ip=i|a+ip");
    let owed = |desk: &mut Desk<Fake>, now| {
        let owed: Vec<_> = (0..3)
            .filter_map(|_| {
                let out = desk.next_call(now)?;
                let items = items(&out);
                reply(desk, &out, Ok(&vec!["d"; items.len()].join(" ")), now);
                Some(items)
            })
            .collect();
        owed.concat()
    };

    // It left while the address was asked.
    let (mut desk, out) = passed();
    desk.left(1);
    reply(&mut desk, &out, Ok("p"), at(1));
    assert_eq!(owed(&mut desk, at(1)), give_back);

    // It left before its tenant was asked.
    let (mut desk, out) = passed();
    reply(&mut desk, &out, Ok("p"), at(1));
    desk.left(1);
    assert_eq!(owed(&mut desk, at(1)), give_back);

    // Its tenant was asked too late.
    let (mut desk, out) = passed();
    reply(&mut desk, &out, Ok("p"), at(1));
    assert_eq!(owed(&mut desk, at(20)), give_back);
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Overload));

    // Its tenant could not be asked.
    let (mut desk, out) = passed();
    reply(&mut desk, &out, Ok("p"), at(1));
    let out = desk.next_call(at(1)).expect("a call");
    status(&mut desk, &out, b"503", b"", at(2));
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Unreachable));
    assert_eq!(owed(&mut desk, at(2)), give_back);

    // It left while its tenant was asked, which allowed it.
    let (mut desk, out) = passed();
    reply(&mut desk, &out, Ok("p"), at(1));
    let out = desk.next_call(at(1)).expect("a call");
    desk.left(1);
    reply(&mut desk, &out, Ok("a"), at(2));
    assert_eq!(
        owed(&mut desk, at(2)),
        words("Undo|t=t|a GiveBack|ip=i|a+ip"),
        "each under one hash tag"
    );
}

#[test]
fn a_tag_under_which_nobody_asks_has_its_turn() {
    let mut desk = desk(Dialect::Webdis, Topology::Cluster);
    desk.ask(1, key("t", "a", None), T0);
    let out = desk.next_call(T0).expect("a call");
    desk.left(1);
    desk.ask(2, key("u", "b", None), T0);
    desk.ask(3, key("v", "c", None), T0);
    reply(&mut desk, &out, Ok("a"), at(1));
    let first = desk.next_call(at(1)).expect("a call");
    assert_eq!(items(&first), words("Whole|t=u|b"));
    reply(&mut desk, &first, Ok("a"), at(2));
    let second = desk.next_call(at(2)).expect("a call");
    assert_eq!(items(&second), words("Undo|t=t|a"));
    assert_eq!(second.timeout, TIMEOUT);
    reply(&mut desk, &second, Ok("d"), at(3));
    let third = desk.next_call(at(3)).expect("a call");
    assert_eq!(items(&third), words("Whole|t=v|c"));
}

#[test]
fn a_pipeline_asks_all_tags_in_one_call() {
    let mut desk = desk(Dialect::Upstash, Topology::Cluster);
    desk.ask(1, key("t", "a", None), T0);
    desk.ask(2, key("u", "b", None), T0);
    desk.ask(3, key("t", "c", None), T0);
    desk.ask(4, key("v", "d", None), T0);
    let out = desk.next_call(T0).expect("a call");
    let evalsha = |items: &str| ("EVALSHA".to_owned(), words(items));
    assert_eq!(
        commands(&out.call),
        [
            evalsha("Whole|t=t|a Whole|t=t|c"),
            evalsha("Whole|t=u|b"),
            evalsha("Whole|t=v|d")
        ]
    );
    // One node answers, one misses the script, one is down.
    desk.ask(5, key("t", "e", None), at(1));
    let replies = [
        Ok(words("a b")),
        Err(NOSCRIPT.to_owned()),
        Err("CLUSTERDOWN The cluster is down".to_owned()),
    ];
    let body = answer(&out.call, &replies);
    status(&mut desk, &out, b"200", &body, at(2));
    let mut answers = all_ready(&mut desk);
    answers.sort_by_key(|(stream, _)| *stream);
    assert_eq!(
        answers,
        [
            (1, Answer::Decided(allowed(), THEN)),
            (3, Answer::Decided(boxed(), THEN)),
            (4, Answer::Failed(StoreFault::Script)),
        ]
    );
    let out = desk.next_call(at(2)).expect("a call");
    let eval = |items: &str| ("EVAL".to_owned(), words(items));
    assert_eq!(
        commands(&out.call),
        [eval("Whole|t=u|b"), eval("Whole|t=t|e")]
    );
}

#[test]
fn nobody_is_named_in_what_is_printed() {
    let mut desk = desk(Dialect::Webdis, Topology::Cluster);
    desk.ask(1, key("tenant-4711", "key-4711", None), T0);
    let out = desk.next_call(T0).expect("a call");
    desk.ask(2, key("tenant-4711", "key-4711", None), T0);
    let flying = format!("{desk:?} {out:?}");
    reply(&mut desk, &out, Err("ERR about key-4711"), T0);
    let failed = format!("{desk:?} {:?} {:?}", desk.ready(), desk.notices());
    for text in [flying, failed] {
        assert!(!text.contains("4711"), "{text}");
    }
}

#[test]
fn a_store_that_takes_most_of_the_timeout_is_still_asked() {
    let mut desk = standalone();
    let mut sent = desk.ask(0, key("t", "k0", None), T0);
    let mut decided = 0;
    // Always somebody behind: each has waited for 12 ms when it is sent, and is answered after 24.
    for turn in 0..50 {
        let now = at(12 * turn);
        assert!(matches!(sent, Asked::Waiting { .. }));
        let out = desk.next_call(now).expect("a call");
        assert_eq!(out.timeout, TIMEOUT);
        let stream = u32::try_from(turn).unwrap() + 1;
        sent = desk.ask(stream, key("t", &format!("k{stream}"), None), now);
        reply(&mut desk, &out, Ok("a"), at(12 * turn + 12));
        decided += all_ready(&mut desk).len();
    }
    assert_eq!(decided, 50);
    let faults = |n: &Notice| matches!(n, Notice::Fault(_) | Notice::Opened { .. });
    assert!(!desk.notices().iter().any(faults));
}

#[test]
fn a_slow_host_gets_more_time_and_gives_it_back() {
    let mut desk = standalone();
    let mut timeout_after = |lag: u64| {
        desk.lagged(Millis(lag));
        desk.ask(1, key("t", "a", None), T0);
        let out = desk.next_call(T0).expect("a call");
        reply(&mut desk, &out, Ok("a"), T0);
        all_ready(&mut desk);
        out.timeout.0
    };
    // Up to half the timeout is the ordinary course of things.
    assert_eq!(timeout_after(10), 20);
    assert_eq!(timeout_after(60), 70);
    assert_eq!(timeout_after(0), 20 + 45 - 10);
    assert_eq!(timeout_after(9_000_000), 20 * 6);
    for _ in 0..60 {
        timeout_after(0);
    }
    assert_eq!(timeout_after(0), 20);
}
