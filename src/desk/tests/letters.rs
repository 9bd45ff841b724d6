//! What the desk tells the store though nobody waits for it.

use std::rc::Rc;

use tollgate_config::{Front as Dialect, Millis, Topology};

use super::fake::{self, Fake, THEN, allowed, item, key, with_lease};
use super::{
    MOST_ITEMS, T0, all_ready, answer, at, failed, items, open, reply, standalone, status, words,
};
use crate::desk::{Answer, Asked, Desk, Notice, Outgoing};
use crate::hold::{HELD_FOR, Keep};
use crate::outbox::MOST_LETTERS;
use crate::store::Ask;
use crate::store::Leg;
use crate::store::front::StoreFault;
use crate::store::script::Step;

const LET_GO: Step = Step::Keep(Leg::Owner, Keep::NOTHING);
const HOLD_ON: Step = Step::Keep(Leg::Owner, Keep::ON);

fn cluster() -> Desk<Fake> {
    fake::desk(Dialect::Webdis, Topology::Cluster)
}

fn leased(tenant: &str, k: &str, id: u64) -> Rc<Ask> {
    with_lease(&key(tenant, k, None), id)
}

/// Asks, and is served.
fn served(desk: &mut Desk<Fake>, stream: u32, ask: &Rc<Ask>, now: Millis) {
    desk.ask(stream, Rc::clone(ask), now);
    let out = desk.next_call(now).expect("a call");
    reply(desk, &out, Ok("a"), now);
    let decided = Answer::Decided(allowed(), THEN);
    assert_eq!(all_ready(desk), [(stream, decided)]);
}

fn next_items(desk: &mut Desk<Fake>, now: Millis) -> (Outgoing, Vec<String>) {
    let out = desk.next_call(now).expect("a call");
    let items = items(&out);
    (out, items)
}

#[test]
fn what_is_told_leaves_at_once_and_ahead_of_the_next_question() {
    let mut desk = standalone();
    let ask = leased("t", "a", 1);
    served(&mut desk, 1, &ask, T0);
    assert!(!desk.wants_call(at(5)));
    assert!(
        desk.tell(item(&ask, LET_GO), at(5)),
        "somebody has to call the desk"
    );
    assert_eq!(desk.letters(), 1);
    assert!(desk.wants_call(at(5)));
    let asked = desk.ask(2, leased("t", "b", 2), at(5));
    assert_eq!(asked, Asked::Waiting { kick: true });
    assert!(
        !desk.tell(item(&leased("u", "x", 9), LET_GO), at(5)),
        "whoever waits has somebody call the desk"
    );
    let (out, sent) = next_items(&mut desk, at(5));
    assert_eq!(sent, words("LetGo|t=t|a#1 LetGo|t=u|x#9 Whole|t=t|b#2"));
    assert_eq!(desk.letters(), 0);
    assert!(
        !desk.tell(item(&leased("v", "y", 8), LET_GO), at(5)),
        "the call that comes back does"
    );
    reply(&mut desk, &out, Ok("k k a"), at(6));
    assert_eq!(all_ready(&mut desk).len(), 1);
    assert_eq!(next_items(&mut desk, at(6)).1, words("LetGo|t=v|y#8"));
}

#[test]
fn what_is_no_letter_is_not_told() {
    let mut desk = standalone();
    let ask = leased("t", "a", 1);
    for step in [
        Step::Whole,
        Step::Part(Leg::Owner),
        Step::Part(Leg::Address),
    ] {
        assert!(!desk.tell(item(&ask, step), T0));
    }
    assert!(!desk.tell(item(&key("t", "a", None), LET_GO), T0));
    assert_eq!(desk.next_call(T0), None);
}

#[test]
fn a_letter_is_told_again_with_a_growing_pause_until_its_time_is_over() {
    let mut desk = standalone();
    desk.tell(item(&leased("t", "a", 1), LET_GO), T0);
    let mut sent = Vec::new();
    for ms in 0..70_000 {
        // The breaker is closed again by others.
        if ms % 50 == 49 {
            let mut other = desk.another();
            other.ask(1, key("u", "b", None), at(ms));
            if let Some(out) = other.next_call(at(ms)) {
                reply(&mut other, &out, Ok("a"), at(ms));
            }
        }
        if let Some(out) = desk.next_call(at(ms)) {
            assert_eq!(items(&out), words("LetGo|t=t|a#1"));
            sent.push(ms);
            status(&mut desk, &out, b"504", b"", at(ms));
        }
    }
    assert_eq!(sent[..7], [0, 100, 300, 700, 1500, 3100, 5100]);
    assert_eq!(sent.last(), Some(&59_100));
    assert_eq!(desk.letters(), 0);
    assert!(desk.notices().contains(&Notice::Dropped(1)));
}

#[test]
fn a_letter_that_could_not_be_sent_waits_whatever_it_is() {
    let mut desk = standalone();
    let ask = leased("t", "a", 1);
    for step in [LET_GO, Step::Undo] {
        desk.tell(item(&ask, step), T0);
    }
    desk.ask(7, leased("t", "b", 2), T0);
    let (out, sent) = next_items(&mut desk, T0);
    assert_eq!(
        sent,
        words("LetGo|t=t|a#1 Undo|t=t|a#1 Whole|t=t|b#2"),
        "nothing is revoked that was not sent"
    );
    desk.dispatch_failed(out.id, StoreFault::NoCluster, T0);
    assert_eq!(all_ready(&mut desk), failed([7], StoreFault::NoCluster));
    assert_eq!(desk.next_call(T0), None, "the host is not asked for ever");
    assert_eq!(desk.next_call(at(99)), None);
    assert!(!desk.wants_call(at(99)) && desk.wants_call(at(100)));
    let (out, sent) = next_items(&mut desk, at(100));
    assert_eq!(sent, words("LetGo|t=t|a#1 Undo|t=t|a#1"));
    reply(&mut desk, &out, Ok("k d"), at(101));
    assert_eq!(desk.next_call(at(5000)), None);
    let dropped = |n: &Notice| matches!(n, Notice::Dropped(_));
    assert!(!desk.notices().iter().any(dropped));
}

#[test]
fn letters_that_wait_go_along_with_a_question_before_they_are_due() {
    let mut desk = standalone();
    desk.tell(item(&leased("t", "a", 1), LET_GO), T0);
    let (out, _) = next_items(&mut desk, T0);
    status(&mut desk, &out, b"504", b"", at(20));
    assert_eq!(desk.next_call(at(21)), None);
    desk.ask(1, key("u", "b", None), at(21));
    let (_, sent) = next_items(&mut desk, at(21));
    assert_eq!(sent, words("LetGo|t=t|a#1 Whole|t=u|b"));
}

#[test]
fn a_letter_that_misses_the_script_goes_along_with_it() {
    let mut desk = standalone();
    desk.tell(item(&leased("t", "a", 1), LET_GO), T0);
    desk.ask(1, leased("t", "b", 2), T0);
    let (out, sent) = next_items(&mut desk, T0);
    reply(&mut desk, &out, Err(super::NOSCRIPT), at(1));
    let (out, again) = next_items(&mut desk, at(1));
    assert_eq!(sent, again);
    reply(&mut desk, &out, Err(super::NOSCRIPT), at(2));
    assert_eq!(all_ready(&mut desk), failed([1], StoreFault::Script));
    let (_, sent) = next_items(&mut desk, at(200));
    assert_eq!(sent, words("LetGo|t=t|a#1"), "nothing to revoke");
}

#[test]
fn what_is_told_later_of_a_hold_takes_the_place_of_what_was_told_before() {
    let mut desk = standalone();
    let ask = leased("t", "a", 1);
    desk.tell(item(&ask, HOLD_ON), T0);
    let (out, sent) = next_items(&mut desk, T0);
    assert_eq!(sent, words("Keep:60000:60000:60000|t=t|a#1"));
    // While it is in flight, the stream ends.
    desk.tell(item(&ask, LET_GO), at(5));
    status(&mut desk, &out, b"504", b"", at(20));
    let (out, sent) = next_items(&mut desk, at(20));
    assert_eq!(sent, words("LetGo|t=t|a#1"), "it is not renewed again");
    reply(&mut desk, &out, Ok("k"), at(21));
    assert_eq!(desk.next_call(at(5000)), None);

    // What is let go is never held on by what is told later.
    let handed_over = Keep {
        flight: Millis(0),
        ..Keep::ON
    };
    desk.tell(item(&ask, Step::Keep(Leg::Owner, handed_over)), at(6000));
    desk.tell(item(&ask, HOLD_ON), at(6000));
    let (out, sent) = next_items(&mut desk, at(6000));
    assert_eq!(sent, words("Keep:60000:60000:0|t=t|a#1"));
    reply(&mut desk, &out, Ok("k"), at(6001));
    for order in [[LET_GO, HOLD_ON], [Step::Revoke(Leg::Owner), HOLD_ON]] {
        for step in order {
            desk.tell(item(&ask, step), at(7000));
        }
        let (out, sent) = next_items(&mut desk, at(7000));
        let (expected, word) = match order {
            [Step::Revoke(Leg::Owner), _] => ("Revoke|t=t|a#1", "d"),
            _ => ("LetGo|t=t|a#1", "k"),
        };
        assert_eq!(sent, [expected]);
        reply(&mut desk, &out, Ok(word), at(7001));
    }
}

#[test]
fn what_an_unknown_outcome_may_hold_is_revoked() {
    let faults: [&[u8]; 3] = [b"504", b"503", b"200"];
    for code in faults {
        let mut desk = standalone();
        desk.ask(1, leased("t", "a", 1), T0);
        desk.ask(2, key("t", "b", None), T0);
        desk.ask(3, leased("t", "c", 3), T0);
        let (out, _) = next_items(&mut desk, T0);
        desk.ask(4, leased("t", "d", 4), T0);
        desk.left(3);
        status(&mut desk, &out, code, b"no answer", at(20));
        assert_eq!(all_ready(&mut desk).len(), 3);
        let (out, sent) = next_items(&mut desk, at(20));
        assert_eq!(sent, words("Revoke|t=t|a#1 Revoke|t=t|c#3"));
        reply(&mut desk, &out, Ok("d d"), at(21));
        assert_eq!(desk.next_call(at(5000)), None);
    }
    // The host never told.
    let mut desk = standalone();
    desk.ask(1, leased("t", "a", 1), T0);
    desk.next_call(T0);
    let (_, sent) = next_items(&mut desk, at(1020));
    assert_eq!(sent, words("Revoke|t=t|a#1"));
}

#[test]
fn of_two_steps_only_the_one_that_takes_holds_is_revoked() {
    let ask = with_lease(&key("t", "a", Some("i")), 1);
    let mut desk = cluster();
    desk.ask(1, Rc::clone(&ask), T0);
    let (out, _) = next_items(&mut desk, T0);
    status(&mut desk, &out, b"504", b"", at(20));
    assert_eq!(desk.next_call(at(20)), None);

    desk.ask(2, Rc::clone(&ask), at(30));
    let (out, _) = next_items(&mut desk, at(30));
    reply(&mut desk, &out, Ok("p"), at(31));
    let (out, sent) = next_items(&mut desk, at(31));
    assert_eq!(sent, words("Owner|t=t|a+ip#1"));
    status(&mut desk, &out, b"504", b"", at(50));
    let mut told = Vec::new();
    while let Some(out) = desk.next_call(at(50)) {
        told.extend(items(&out));
        reply(&mut desk, &out, Ok("d"), at(50));
    }
    assert_eq!(told, words("Revoke|t=t|a+ip#1 GiveBack|ip=i|a+ip#1"));
}

#[test]
fn what_somebody_who_left_was_granted_is_let_go() {
    let mut desk = standalone();
    desk.ask(1, leased("t", "a", 1), T0);
    desk.ask(2, leased("t", "b", 2), T0);
    let (out, _) = next_items(&mut desk, T0);
    desk.left(1);
    reply(&mut desk, &out, Ok("a a"), at(1));
    desk.left(2);
    assert_eq!(desk.ready(), None);
    assert!(desk.wants_call(at(1)));
    let (out, sent) = next_items(&mut desk, at(1));
    let expected = "LetGo|t=t|a#1 Undo|t=t|a#1 LetGo|t=t|b#2 Undo|t=t|b#2";
    assert_eq!(sent, words(expected));
    reply(&mut desk, &out, Ok("k d k d"), at(2));
    assert_eq!(desk.next_call(at(5000)), None);
}

#[test]
fn who_was_revoked_before_it_came_has_no_answer_and_others_have() {
    let mut desk = standalone();
    desk.ask(1, leased("t", "a", 1), T0);
    desk.ask(2, leased("t", "b", 2), T0);
    let (out, _) = next_items(&mut desk, T0);
    reply(&mut desk, &out, Ok("d a"), at(1));
    let answers = all_ready(&mut desk);
    assert_eq!(answers[..1], failed([1], StoreFault::Malformed));
    assert_eq!(answers[1..], [(2, Answer::Decided(allowed(), THEN))]);
    assert_eq!(desk.next_call(at(5000)), None, "it took nothing");
}

#[test]
fn a_letter_is_answered_by_what_it_says() {
    for (step, word) in [
        (LET_GO, "d"),
        (Step::Revoke(Leg::Owner), "k"),
        (HOLD_ON, "a"),
    ] {
        let mut desk = standalone();
        desk.tell(item(&leased("t", "a", 1), step), T0);
        let (out, sent) = next_items(&mut desk, T0);
        reply(&mut desk, &out, Ok(word), at(1));
        let malformed = Notice::Fault(StoreFault::Malformed);
        assert!(desk.notices().contains(&malformed), "{step:?}");
        assert_eq!(next_items(&mut desk, at(101)).1, sent);
    }
}

#[test]
fn a_hold_that_was_lost_is_noticed() {
    let mut desk = standalone();
    desk.tell(item(&leased("t", "a", 1), HOLD_ON), T0);
    let (out, _) = next_items(&mut desk, T0);
    reply(&mut desk, &out, Ok("l"), at(1));
    assert_eq!(desk.notices(), [Notice::Latency(Millis(1)), Notice::Lost]);
    assert_eq!(desk.next_call(at(5000)), None);
}

#[test]
fn what_was_handed_over_may_be_gone_already() {
    let mut desk = standalone();
    let handed_over = Keep {
        lease: Millis(5000),
        ..Keep::ON
    };
    desk.tell(
        item(&leased("t", "a", 1), Step::Keep(Leg::Owner, handed_over)),
        T0,
    );
    let (out, _) = next_items(&mut desk, T0);
    reply(&mut desk, &out, Ok("l"), at(1));
    assert_eq!(desk.notices(), [Notice::Latency(Millis(1))]);
}

#[test]
fn letters_are_bounded_and_leave_room_for_questions() {
    let mut desk = standalone();
    for id in 0..=MOST_LETTERS as u64 {
        desk.tell(item(&leased("u", "a", id), LET_GO), T0);
    }
    assert_eq!(desk.letters(), MOST_LETTERS);
    assert_eq!(desk.notices(), [Notice::Dropped(1)]);
    for stream in 0..40 {
        desk.ask(stream, key("t", "b", None), T0);
    }
    let mut calls = Vec::new();
    for _ in 0..4 {
        let (out, sent) = next_items(&mut desk, T0);
        let is_letter = |i: &&String| i.starts_with("LetGo");
        let letters = sent.iter().filter(is_letter).count();
        calls.push((letters, sent.len() - letters));
        let word = |i: &String| if is_letter(&i) { "k" } else { "a" };
        let good: Vec<_> = sent.iter().map(word).collect();
        reply(&mut desk, &out, Ok(&good.join(" ")), T0);
    }
    let half = MOST_ITEMS / 2;
    assert_eq!(calls, [(half, half), (half, 8), (64, 0), (64, 0)]);
}

#[test]
fn who_wants_something_held_does_not_overtake_letters_of_its_tag() {
    let mut desk = standalone();
    for id in 0..10 {
        desk.tell(item(&leased("u", "x", id), LET_GO), T0);
    }
    let half = MOST_ITEMS as u64 / 2;
    for id in 100..100 + half + 5 {
        desk.tell(item(&leased("t", "x", id), LET_GO), T0);
    }
    desk.ask(1, leased("t", "a", 1000), T0);
    desk.ask(2, key("t", "b", None), T0);
    desk.ask(3, leased("v", "c", 1002), T0);
    let (out, sent) = next_items(&mut desk, T0);
    assert!(sent[..32].iter().all(|i| i.starts_with("LetGo|t=t|")));
    assert_eq!(sent[32..], words("Whole|t=t|b Whole|t=v|c#1002"));
    let good = [vec!["k"; 32], vec!["a"; 2]].concat();
    reply(&mut desk, &out, Ok(&good.join(" ")), at(1));
    let (_, sent) = next_items(&mut desk, at(1));
    assert!(sent[..5].iter().all(|i| i.starts_with("LetGo|t=t|")));
    assert!(sent[5..15].iter().all(|i| i.starts_with("LetGo|t=u|")));
    assert_eq!(sent[15..], words("Whole|t=t|a#1000"));
}

#[test]
fn letters_wait_for_the_breaker_and_may_probe() {
    let mut desk = open();
    let kick = desk.tell(item(&leased("t", "a", 1), LET_GO), at(1));
    assert!(!kick && !desk.wants_call(at(1999)));
    assert_eq!(desk.next_call(at(1999)), None);
    assert!(desk.wants_call(at(2000)));
    let (out, sent) = next_items(&mut desk, at(2000));
    assert_eq!(sent, words("LetGo|t=t|a#1"));
    desk.notices();
    reply(&mut desk, &out, Ok("k"), at(2001));
    assert!(desk.notices().contains(&Notice::Recovered));
}

#[test]
fn a_desk_of_one_stream_takes_letters_along_and_brings_them_back() {
    let mut desk = standalone();
    for id in 0..40 {
        let tenant = if id % 2 == 0 { "t" } else { "u" };
        desk.tell(item(&leased(tenant, "x", id), LET_GO), T0);
    }
    let ask = leased("t", "a", 100);
    let mut own = desk.another();
    desk.lend(&mut own);
    assert_eq!(own.letters(), 0, "it asks nothing");
    own.ask(1, Rc::clone(&ask), T0);
    desk.lend(&mut own);
    desk.lend(&mut own);
    assert_eq!((desk.letters(), own.letters()), (8, 32));
    let (out, sent) = next_items(&mut own, T0);
    assert!(sent[..20].iter().all(|i| i.starts_with("LetGo|t=t|")));
    assert!(sent[20..32].iter().all(|i| i.starts_with("LetGo|t=u|")));
    assert_eq!(sent[32..], words("Whole|t=t|a#100"));
    status(&mut own, &out, b"504", b"", at(20));
    assert_eq!(own.next_call(at(5000)), None, "not for letters alone");
    assert_eq!(all_ready(&mut own), failed([1], StoreFault::Timeout));
    desk.inherit(&mut own);
    assert_eq!(desk.letters(), 41, "one to revoke");
    let (_, sent) = next_items(&mut desk, at(5000));
    assert!(sent.contains(&"Revoke|t=t|a#100".to_owned()));
    assert_eq!(sent.len(), 41);
}

#[test]
fn what_is_lent_is_not_told_by_others_meanwhile() {
    let mut desk = standalone();
    let ask = leased("t", "x", 1);
    desk.tell(item(&ask, HOLD_ON), T0);
    let mut own = desk.another();
    own.ask(1, leased("t", "a", 2), T0);
    desk.lend(&mut own);
    let (out, sent) = next_items(&mut own, T0);
    assert_eq!(sent, words("Keep:60000:60000:60000|t=t|x#1 Whole|t=t|a#2"));
    // On another connection, this would overtake it.
    desk.tell(item(&ask, LET_GO), T0);
    assert_eq!(desk.next_call(T0), None);
    assert!(!desk.wants_call(T0));
    reply(&mut own, &out, Ok("k a"), at(1));
    assert_eq!(all_ready(&mut own).len(), 1);
    desk.inherit(&mut own);
    assert_eq!(next_items(&mut desk, at(1)).1, words("LetGo|t=t|x#1"));
}

#[test]
fn a_stream_that_ends_while_its_own_call_is_in_flight_is_revoked() {
    let mut desk = cluster();
    desk.tell(item(&leased("t", "x", 1), LET_GO), T0);
    desk.tell(item(&leased("t", "x", 2), Step::Undo), T0);
    desk.tell(item(&leased("u", "x", 3), LET_GO), T0);
    let ask = leased("t", "a", 4);
    let mut own = desk.another();
    own.ask(1, ask, T0);
    desk.lend(&mut own);
    assert_eq!((desk.letters(), own.letters()), (1, 2));
    let (_, sent) = next_items(&mut own, T0);
    assert_eq!(sent, words("LetGo|t=t|x#1 Undo|t=t|x#2 Whole|t=t|a#4"));
    own.left(1);
    desk.inherit(&mut own);
    assert_eq!(desk.notices(), [Notice::Dropped(1)], "the undo");
    let mut told = Vec::new();
    while let Some(out) = desk.next_call(at(200)) {
        let sent = items(&out);
        let word = |i: &String| if i.starts_with("LetGo") { "k" } else { "d" };
        let good: Vec<_> = sent.iter().map(word).collect();
        reply(&mut desk, &out, Ok(&good.join(" ")), at(200));
        told.extend(sent);
    }
    told.sort();
    assert_eq!(told, words("LetGo|t=t|x#1 LetGo|t=u|x#3 Revoke|t=t|a#4"));
}

#[test]
fn an_answer_that_a_stream_did_not_take_is_undone_by_the_common_desk() {
    let mut desk = standalone();
    let mut own = desk.another();
    own.ask(1, leased("t", "a", 1), T0);
    let (out, _) = next_items(&mut own, T0);
    reply(&mut own, &out, Ok("a"), at(1));
    desk.inherit(&mut own);
    let (_, sent) = next_items(&mut desk, at(1));
    assert_eq!(sent, words("LetGo|t=t|a#1 Undo|t=t|a#1"));
}

#[test]
fn letters_of_another_node_are_not_held_up_nor_hold_up() {
    let mut desk = fake::desk(Dialect::Upstash, Topology::Cluster);
    desk.tell(item(&leased("u", "x", 1), LET_GO), T0);
    desk.tell(item(&leased("t", "x", 2), HOLD_ON), T0);
    desk.ask(1, leased("t", "a", 3), T0);
    let out = desk.next_call(T0).expect("a call");
    let evalsha = |items: &str| ("EVALSHA".to_owned(), words(items));
    let keep = format!("Keep:{0}:{0}:{0}|t=t|x#2 Whole|t=t|a#3", HELD_FOR.0);
    assert_eq!(
        fake::commands(&out.call),
        [evalsha(&keep), evalsha("LetGo|t=u|x#1")]
    );
    // One node is down.
    let down = Err("CLUSTERDOWN The cluster is down".to_owned());
    let body = answer(&out.call, &[Ok(words("k a")), down]);
    status(&mut desk, &out, b"200", &body, at(1));
    desk.ask(2, key("t", "b", None), at(2));
    let out = desk.next_call(at(2)).expect("a call");
    assert_eq!(fake::commands(&out.call), [evalsha("Whole|t=t|b")]);
    let body = answer(&out.call, &[Ok(words("a"))]);
    status(&mut desk, &out, b"200", &body, at(3));
    let out = desk.next_call(at(101)).expect("a call");
    assert_eq!(fake::commands(&out.call), [evalsha("LetGo|t=u|x#1")]);
}
