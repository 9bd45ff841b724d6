//! Questions that are asked leg by leg, and what is told of each leg.

use std::rc::Rc;

use tollgate_config::{Front as Dialect, Millis, Topology};

use super::fake::{
    self, Fake, THEN, allowed, anonymous, attempt, credential, item, key, locked_out, outcome,
    passed, sign, with_lease,
};
use super::{MOST_ITEMS, T0, all_ready, at, failed, items, reply, standalone, status, words};
use crate::desk::{Answer, Desk, Notice, Outgoing};
use crate::hold::Keep;
use crate::store::front::StoreFault;
use crate::store::script::Step;
use crate::store::{Ask, Leg};
use crate::verdict::Verdict;

fn cluster() -> Desk<Fake> {
    fake::desk(Dialect::Webdis, Topology::Cluster)
}

/// An attempt by a tenant's key, which wants a lease: it meets its address, then its subject, then the tenant.
fn tenants() -> Rc<Ask> {
    let leased = with_lease(&key("t", "a", Some("i")), 1);
    attempt(&leased, 1, Some("i"), Some("x"))
}

/// An attempt of nobody's, which meets its address, then its subject.
fn nobodys(meets_ip_limit: bool) -> Rc<Ask> {
    attempt(&credential("i", meets_ip_limit), 1, Some("i"), Some("x"))
}

fn next_items(desk: &mut Desk<Fake>, now: Millis) -> (Outgoing, Vec<String>) {
    let out = desk.next_call(now).expect("a call");
    let items = items(&out);
    (out, items)
}

/// All that is told from now on, in an order of its own.
fn owed(desk: &mut Desk<Fake>, now: Millis) -> Vec<String> {
    let mut owed = Vec::new();
    while let Some(out) = desk.next_call(now) {
        let items = items(&out);
        let word = |item: &String| match item.split('|').next() {
            Some(step) if step.starts_with("LetGo") || step.starts_with("Keep") => "k",
            _ => "d",
        };
        let good: Vec<_> = items.iter().map(word).collect();
        reply(desk, &out, Ok(&good.join(" ")), now);
        owed.extend(items);
    }
    owed.sort();
    owed
}

/// How the last call of a question ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Answered(&'static str),
    TimedOut,
    NotSent,
    /// The stream leaves while the call is in flight, which is answered so.
    LeftBehind(&'static str),
    /// It waited too long for the call.
    TooLate,
}

/// Asks; each call is answered with a word, and the last one ends so. The answer, and what is told then.
fn course(ask: &Rc<Ask>, passes: &[&str], end: End) -> (Option<Answer>, Vec<String>) {
    let mut desk = cluster();
    desk.ask(1, Rc::clone(ask), T0);
    for word in passes {
        let (out, _) = next_items(&mut desk, T0);
        reply(&mut desk, &out, Ok(word), T0);
        assert!(!desk.has_ready(), "{word} is not the last word");
    }
    if let End::TooLate = end {
        let mut owed = owed(&mut desk, at(20));
        owed.sort();
        return (desk.ready().map(|(_, answer)| answer), owed);
    }
    let (out, _) = next_items(&mut desk, T0);
    match end {
        End::Answered(word) => reply(&mut desk, &out, Ok(word), T0),
        End::TimedOut => status(&mut desk, &out, b"504", b"", at(20)),
        End::NotSent => desk.dispatch_failed(out.id, StoreFault::NoCluster, T0),
        End::LeftBehind(word) => {
            desk.left(1);
            reply(&mut desk, &out, Ok(word), T0);
        }
        End::TooLate => {}
    }
    let answer = desk.ready().map(|(_, answer)| answer);
    // Whoever left has it undone when the desk is called next.
    (answer, owed(&mut desk, at(200)))
}

fn sorted(texts: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    all.sort();
    all
}

#[test]
fn a_cluster_is_asked_leg_by_leg() {
    let mut desk = cluster();
    desk.ask(1, tenants(), T0);
    for (expected, word) in [
        ("Address|ip=i|a+ip#1", "p"),
        ("Subject0|s=x|a+ip#1", "p"),
        ("Owner|t=t|a+ip#1", "a"),
    ] {
        let (out, sent) = next_items(&mut desk, T0);
        assert_eq!(sent, [expected]);
        reply(&mut desk, &out, Ok(word), T0);
    }
    let Verdict::Allowed(key_alone, _) = allowed() else {
        panic!("allowed");
    };
    let merged = Verdict::Allowed(key_alone.with(passed()), None);
    assert_eq!(all_ready(&mut desk), [(1, Answer::Decided(merged, THEN))]);

    // The address is the owner, and is asked first: the verdict is its own.
    for meets_ip_limit in [true, false] {
        desk.ask(2, nobodys(meets_ip_limit), T0);
        for (expected, word) in [("Owner|ip=i|-#1", "a"), ("Subject0|s=x|-#1", "p")] {
            let (out, sent) = next_items(&mut desk, T0);
            assert_eq!(sent, [expected]);
            reply(&mut desk, &out, Ok(word), T0);
        }
        let decided = Answer::Decided(allowed(), THEN);
        assert_eq!(all_ready(&mut desk), [(2, decided)]);
    }
    // A tenant that meets no ip_limit has its address asked for its attempts alone.
    desk.ask(
        3,
        attempt(&key("t", "a", None), 1, Some("i"), Some("x")),
        T0,
    );
    for (expected, word) in [
        ("Address|ip=i|a#1", "p"),
        ("Subject0|s=x|a#1", "p"),
        ("Owner|t=t|a#1", "a"),
    ] {
        let (out, sent) = next_items(&mut desk, T0);
        assert_eq!(sent, [expected]);
        reply(&mut desk, &out, Ok(word), T0);
    }
    let decided = Answer::Decided(allowed(), THEN);
    assert_eq!(all_ready(&mut desk), [(3, decided)]);
    assert_eq!(desk.next_call(at(5000)), None);
}

#[test]
fn a_question_of_one_leg_is_asked_whole() {
    let by_ip = attempt(&credential("i", true), 1, Some("i"), None);
    for (ask, expected) in [
        (by_ip, "Whole|ip=i|-#1"),
        (anonymous("i"), "Whole|ip=i|-"),
        (key("t", "a", None), "Whole|t=t|a"),
    ] {
        let mut desk = cluster();
        desk.ask(1, ask, T0);
        assert_eq!(next_items(&mut desk, T0).1, [expected]);
    }
    let mut desk = standalone();
    desk.ask(1, tenants(), T0);
    assert_eq!(next_items(&mut desk, T0).1, ["Whole|t=t|a+ip#1"]);
}

/// What gives back what the legs gave that let it pass: none, the address, and the subject as well.
const TENANTS: [&[&str]; 3] = [
    &[],
    &["GiveBack|ip=i|a+ip#1", "LetGo|ip=i|a+ip#1"],
    &[
        "GiveBack|ip=i|a+ip#1",
        "LetGo|ip=i|a+ip#1",
        "LetGo|s=x|a+ip#1",
    ],
];
const PASSES: [&str; 2] = ["p", "p"];

#[test]
fn a_refusal_undoes_the_legs_before_it() {
    for (place, refusals) in [
        (0, ["t", "q", "n"]),
        (1, ["q", "n", "b"]),
        (2, ["t", "b", "o"]),
    ] {
        for word in refusals {
            let (answer, owed) = course(&tenants(), &PASSES[..place], End::Answered(word));
            assert_eq!(owed, sorted(TENANTS[place]), "{word} of {place}");
            let Some(Answer::Decided(verdict, THEN)) = answer else {
                panic!("{answer:?}");
            };
            assert!(!matches!(verdict, Verdict::Allowed(..)));
        }
    }
    let (answer, _) = course(&tenants(), &PASSES[..1], End::Answered("q"));
    assert_eq!(answer, Some(Answer::Decided(locked_out(), THEN)));
}

#[test]
fn a_fault_revokes_the_leg_that_was_asked_and_undoes_those_before_it() {
    let revokes = [
        "Revoke|ip=i|a+ip#1",
        "Revoke|s=x|a+ip#1",
        "Revoke|t=t|a+ip#1",
    ];
    for (place, revoke) in revokes.into_iter().enumerate() {
        let undone = sorted(TENANTS[place]);
        let revoked = sorted(&[TENANTS[place], &[revoke]].concat());
        for (end, fault, expected) in [
            (End::TimedOut, StoreFault::Timeout, &revoked),
            // Nothing was asked, or it was revoked before it came.
            (End::NotSent, StoreFault::NoCluster, &undone),
            (End::Answered("d"), StoreFault::Malformed, &undone),
            (End::TooLate, StoreFault::Overload, &undone),
            (End::Answered("x"), StoreFault::Malformed, &revoked),
        ] {
            let (answer, owed) = course(&tenants(), &PASSES[..place], end);
            assert_eq!(owed, *expected, "{end:?} at {place}");
            assert_eq!(answer, Some(Answer::Failed(fault)), "{end:?} at {place}");
        }
    }
}

#[test]
fn what_somebody_who_left_was_granted_is_undone_on_every_leg() {
    let before = |place: usize, last| course(&tenants(), &PASSES[..place], End::LeftBehind(last)).1;
    for place in 0..2 {
        assert_eq!(before(place, "p"), sorted(TENANTS[place + 1]));
        assert_eq!(before(place, "q"), sorted(TENANTS[place]));
    }
    let all = ["LetGo|t=t|a+ip#1", "Undo|t=t|a#1"];
    assert_eq!(before(2, "a"), sorted(&[TENANTS[2], &all].concat()));
    assert_eq!(before(2, "b"), sorted(TENANTS[2]));
}

#[test]
fn an_owner_that_was_asked_first_gets_back_what_it_gave() {
    let end = |meets, passes, end| course(&nobodys(meets), passes, end);
    let (let_go, undo) = ("LetGo|ip=i|-#1", "Undo|ip=i|-#1");
    for word in ["q", "n"] {
        assert_eq!(end(true, &[], End::Answered(word)).1, sorted(&[]));
        let (answer, owed) = end(true, &["a"], End::Answered(word));
        assert_eq!(owed, sorted(&[let_go, undo]));
        assert!(matches!(answer, Some(Answer::Decided(..))));
        // Where it pays nothing, nothing is given back.
        let (_, owed) = end(false, &["a"], End::Answered(word));
        assert_eq!(owed, sorted(&[let_go]));
    }
    let (_, owed) = end(true, &[], End::TimedOut);
    assert_eq!(owed, sorted(&["Revoke|ip=i|-#1"]));
    let (_, owed) = end(true, &["a"], End::TimedOut);
    assert_eq!(owed, sorted(&["Revoke|s=x|-#1", let_go, undo]));
    let (_, owed) = end(true, &[], End::LeftBehind("a"));
    assert_eq!(owed, sorted(&[let_go, undo]));
    let (_, owed) = end(true, &["a"], End::LeftBehind("p"));
    assert_eq!(owed, sorted(&["LetGo|s=x|-#1", let_go, undo]));
}

#[test]
fn a_leg_does_not_say_what_another_one_would() {
    for (ask, passes, word) in [
        (tenants(), &[][..], "a"),
        (tenants(), &["p"], "a"),
        (tenants(), &["p", "p"], "p"),
        (nobodys(true), &[], "p"),
        (nobodys(true), &["a"], "a"),
        (nobodys(true), &["a"], "k"),
    ] {
        let (answer, _) = course(&ask, passes, End::Answered(word));
        let malformed = Answer::Failed(StoreFault::Malformed);
        assert_eq!(answer, Some(malformed), "{word} after {passes:?}");
    }
}

#[test]
fn a_question_that_was_asked_whole_is_revoked_and_undone_leg_by_leg() {
    let mut desk = standalone();
    desk.ask(1, tenants(), T0);
    let (out, _) = next_items(&mut desk, T0);
    status(&mut desk, &out, b"504", b"", at(20));
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Timeout));
    let (_, sent) = next_items(&mut desk, at(20));
    let revoked = "Revoke|ip=i|a+ip#1 Revoke|s=x|a+ip#1 Revoke|t=t|a+ip#1";
    assert_eq!(sent, words(revoked));

    let mut desk = standalone();
    desk.ask(1, tenants(), T0);
    let (out, _) = next_items(&mut desk, T0);
    desk.left(1);
    reply(&mut desk, &out, Ok("a"), T0);
    let (_, sent) = next_items(&mut desk, T0);
    let undone = "LetGo|t=t|a+ip#1 LetGo|s=x|a+ip#1 LetGo|ip=i|a+ip#1 Undo|t=t|a+ip#1";
    assert_eq!(sent, words(undone));
}

fn telling(failed: u32, keep: Keep) -> Keep {
    Keep {
        outcome: Some(outcome(failed, false)),
        ..keep
    }
}

#[test]
fn what_is_told_is_told_on_each_leg_that_it_concerns() {
    let mut desk = standalone();
    let ask = tenants();
    assert!(desk.keep(&ask, telling(1, Keep::ON), T0));
    let (out, sent) = next_items(&mut desk, T0);
    let told = "LetGo+bad1|ip=i|a+ip#1 LetGo+bad1|s=x|a+ip#1 Keep:60000:60000:60000|t=t|a+ip#1";
    assert_eq!(sent, words(told));
    // The stream goes on, and ends, before anybody knows whether that was heard.
    desk.keep(&ask, Keep::ON, at(1));
    desk.keep(&ask, Keep::NOTHING, at(2));
    status(&mut desk, &out, b"504", b"", at(20));
    let (out, sent) = next_items(&mut desk, at(200));
    let told = "LetGo|t=t|a+ip#1 LetGo+bad1|ip=i|a+ip#1 LetGo+bad1|s=x|a+ip#1";
    let mut sent = sent;
    sent.sort();
    assert_eq!(
        sent,
        sorted(&words(told).iter().map(String::as_str).collect::<Vec<_>>())
    );
    reply(&mut desk, &out, Ok("k k k"), at(201));

    // While it lives only the lease is held on.
    assert!(desk.keep(&ask, Keep::ON, at(300)));
    let told = ["Keep:60000:60000:60000|t=t|a+ip#1"];
    assert_eq!(owed(&mut desk, at(300)), told);
    assert!(
        !desk.keep(&nobodys(true), Keep::ON, at(300)),
        "it holds no such thing"
    );
    assert_eq!(desk.next_call(at(5000)), None);
}

#[test]
fn signs_are_noticed_with_whom_they_are_about() {
    let mut desk = standalone();
    let ask = nobodys(true);
    desk.keep(&ask, telling(3, Keep::NOTHING), T0);
    let (out, sent) = next_items(&mut desk, T0);
    assert_eq!(sent, words("LetGo+bad3|ip=i|-#1 LetGo+bad3|s=x|-#1"));
    reply(&mut desk, &out, Ok("s k"), at(1));
    let noticed = Notice::Sign(Rc::clone(&ask), sign());
    assert_eq!(
        desk.notices(),
        [Notice::Latency(Millis(1)), noticed.clone()]
    );
    // A stream's own desk hands them on.
    let mut own = desk.another();
    desk.keep(&ask, telling(3, Keep::NOTHING), at(2));
    own.ask(1, key("t", "a", None), at(2));
    desk.lend(&mut own);
    let (out, _) = next_items(&mut own, at(2));
    reply(&mut own, &out, Ok("k s a"), at(3));
    desk.inherit(&mut own);
    assert!(desk.notices().contains(&noticed));
}

#[test]
fn a_lease_that_was_lost_is_noticed_though_an_outcome_was_told_with_it() {
    let leased = with_lease(&credential("i", true), 1);
    let ask = attempt(&leased, 1, Some("i"), None);
    let mut desk = standalone();
    for (keep, lost) in [
        (telling(1, Keep::ON), true),
        (telling(1, Keep::NOTHING), false),
        (Keep::NOTHING, false),
    ] {
        desk.keep(&ask, keep, T0);
        let (out, sent) = next_items(&mut desk, T0);
        assert_eq!(sent.len(), 1);
        reply(&mut desk, &out, Ok("l"), T0);
        assert_eq!(desk.notices().contains(&Notice::Lost), lost, "{keep:?}");
    }
}

#[test]
fn an_attempt_does_not_overtake_what_is_told_under_any_of_its_tags() {
    for tag in ["s=x", "ip=i", "t=t"] {
        let mut desk = standalone();
        let half = MOST_ITEMS as u64 / 2;
        for id in 100..100 + half + 8 {
            let other = match tag {
                "s=x" => attempt(&credential("j", true), id, None, Some("x")),
                "ip=i" => attempt(&credential("i", true), id, Some("i"), None),
                _ => with_lease(&key("t", "b", None), id),
            };
            desk.keep(&other, telling(1, Keep::NOTHING), T0);
        }
        desk.ask(1, tenants(), T0);
        desk.ask(2, key("u", "c", None), T0);
        let (out, sent) = next_items(&mut desk, T0);
        let tagged = |item: &String| item.contains(tag);
        assert!(sent[..32].iter().all(tagged), "{sent:?}");
        assert_eq!(sent[32..], words("Whole|t=u|c"));
        let good = [vec!["k"; 32], vec!["a"]].concat();
        reply(&mut desk, &out, Ok(&good.join(" ")), T0);
        let (_, sent) = next_items(&mut desk, T0);
        assert!(sent[..8].iter().all(tagged), "{sent:?}");
        assert_eq!(sent[8..], words("Whole|t=t|a+ip#1"));
    }
}

#[test]
fn whoever_is_nobody_does_not_overtake_what_is_told_of_its_address() {
    let mut desk = standalone();
    let half = MOST_ITEMS as u64 / 2;
    for id in 0..half + 1 {
        let other = attempt(&credential("i", true), id, Some("i"), None);
        desk.keep(&other, telling(1, Keep::NOTHING), T0);
    }
    desk.ask(1, anonymous("i"), T0);
    desk.ask(2, anonymous("j"), T0);
    let (_, sent) = next_items(&mut desk, T0);
    assert_eq!(
        sent[32..],
        words("Whole|ip=j|-"),
        "it may be locked out now"
    );
}

#[test]
fn what_is_told_while_a_leg_is_asked_goes_ahead_of_the_next_one() {
    let other = attempt(&credential("j", true), 2, None, Some("x"));
    let told = telling(1, Keep::NOTHING);
    let expected = words("LetGo+bad1|s=x|-#2 Subject0|s=x|a+ip#1");

    let mut desk = cluster();
    desk.ask(1, tenants(), T0);
    let (out, _) = next_items(&mut desk, T0);
    desk.keep(&other, told, at(1));
    reply(&mut desk, &out, Ok("p"), at(2));
    assert_eq!(next_items(&mut desk, at(2)).1, expected);

    let mut desk = cluster();
    let mut own = desk.another();
    own.ask(1, tenants(), T0);
    desk.lend(&mut own);
    let (out, _) = next_items(&mut own, T0);
    desk.keep(&other, told, at(1));
    desk.keep(&with_lease(&key("u", "b", None), 3), Keep::NOTHING, at(1));
    reply(&mut own, &out, Ok("p"), at(2));
    desk.lend(&mut own);
    assert_eq!(next_items(&mut own, at(2)).1, expected);
    assert_eq!(desk.letters(), 1, "what is under another tag stays");
}

#[test]
fn an_outcome_that_was_lent_is_not_overtaken_by_what_ends_it() {
    let mut desk = standalone();
    let ask = nobodys(true);
    desk.keep(&ask, telling(1, Keep::NOTHING), T0);
    let mut own = desk.another();
    own.ask(7, key("t", "a", None), T0);
    desk.lend(&mut own);
    let (out, _) = next_items(&mut own, T0);
    desk.keep(&ask, Keep::NOTHING, at(1));
    assert_eq!(desk.next_call(at(1)), None);
    status(&mut own, &out, b"504", b"", at(20));
    desk.inherit(&mut own);
    let told = ["LetGo+bad1|ip=i|-#1", "LetGo+bad1|s=x|-#1"];
    assert_eq!(owed(&mut desk, at(200)), told);
}

#[test]
fn what_is_told_by_items_of_one_leg_stays_there() {
    let mut desk = cluster();
    let ask = tenants();
    for leg in [Leg::Owner, Leg::Subject(0)] {
        desk.tell(item(&ask, Step::Revoke(leg)), T0);
    }
    desk.keep(&ask, telling(1, Keep::NOTHING), T0);
    let told = [
        "LetGo+bad1|ip=i|a+ip#1",
        "LetGo+bad1|s=x|a+ip#1",
        "Revoke|t=t|a+ip#1",
    ];
    assert_eq!(owed(&mut desk, T0), told);
}
