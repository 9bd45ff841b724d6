//! What a desk that goes still has told.

use tollgate_config::{Front as Dialect, Millis, Topology};

use super::fake::{self, Fake, OPEN_FOR, item, key, with_lease};
use super::{MOST_ITEMS, NOSCRIPT, T0, at, open, reply, standalone, words};
use crate::desk::{Desk, Notice};
use crate::hold::Keep;
use crate::store::Leg;
use crate::store::script::Step;

const LET_GO: Step = Step::Keep(Leg::Owner, Keep::NOTHING);

/// The verbs and items of the last calls, a list of commands each.
fn last(desk: &mut Desk<Fake>, now: Millis) -> Vec<Vec<(String, Vec<String>)>> {
    let calls = desk.last_calls(now);
    calls.iter().map(fake::commands).collect()
}

fn let_go(desk: &mut Desk<Fake>, tenant: &str, id: u64) {
    let ask = with_lease(&key(tenant, "k", None), id);
    desk.tell(item(&ask, LET_GO), T0);
}

#[test]
fn all_that_waits_is_told_in_as_many_calls_as_it_takes() {
    let mut desk = standalone();
    for id in 0..150 {
        let_go(&mut desk, ["t", "u"][id as usize % 2], id);
    }
    let calls = last(&mut desk, T0);
    let sizes: Vec<_> = calls.iter().map(|call| call[0].1.len()).collect();
    assert_eq!(sizes, [MOST_ITEMS, MOST_ITEMS, 150 - 2 * MOST_ITEMS]);
    let told: Vec<_> = calls.iter().flat_map(|call| call[0].1.clone()).collect();
    let expected = |id: u64| format!("LetGo|t={}|k#{id}", ["t", "u"][id as usize % 2]);
    assert_eq!(told, (0..150).map(expected).collect::<Vec<_>>());
    assert_eq!((desk.letters(), last(&mut desk, T0).len()), (0, 0));
}

#[test]
fn each_command_is_under_one_tag_of_a_cluster() {
    let evalsha = |items: &str| ("EVALSHA".to_owned(), words(items));
    for (dialect, calls) in [(Dialect::Webdis, 2), (Dialect::Upstash, 1)] {
        let mut desk = fake::desk(dialect, Topology::Cluster);
        for (tenant, id) in [("t", 1), ("u", 2), ("t", 3)] {
            let_go(&mut desk, tenant, id);
        }
        let last = last(&mut desk, T0);
        assert_eq!(last.len(), calls);
        assert_eq!(
            last.concat(),
            [
                evalsha("LetGo|t=t|k#1 LetGo|t=t|k#3"),
                evalsha("LetGo|t=u|k#2")
            ]
        );
    }
    // So many go together, and a tag goes on in the next call.
    let mut desk = fake::desk(Dialect::Upstash, Topology::Cluster);
    for id in 0..100 {
        let_go(&mut desk, ["t", "u"][id as usize % 2], id);
    }
    let sizes: Vec<Vec<usize>> = last(&mut desk, T0)
        .iter()
        .map(|call| call.iter().map(|command| command.1.len()).collect())
        .collect();
    assert_eq!(sizes, [vec![50, 14], vec![36]]);
}

#[test]
fn outcomes_are_told_on_each_leg() {
    let mut desk = fake::desk(Dialect::Webdis, Topology::Cluster);
    let keep = Keep {
        outcome: Some(fake::outcome(1, false)),
        ..Keep::NOTHING
    };
    for id in [1, 2] {
        let ask = fake::attempt(&fake::credential("i", true), id, Some("i"), Some("x"));
        desk.keep(&ask, keep, T0);
    }
    let told: Vec<_> = last(&mut desk, T0)
        .concat()
        .into_iter()
        .map(|c| c.1)
        .collect();
    let expected = [
        words("LetGo+bad1|ip=i|-#1 LetGo+bad1|ip=i|-#2"),
        words("LetGo+bad1|s=x|-#1 LetGo+bad1|s=x|-#2"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_in_flight_is_told_again_if_that_does_no_harm() {
    let mut desk = standalone();
    let_go(&mut desk, "t", 1);
    desk.tell(item(&key("t", "p", None), Step::Undo), T0);
    desk.ask(7, with_lease(&key("t", "q", None), 7), T0);
    let out = desk.next_call(T0).expect("a call");
    let_go(&mut desk, "t", 2);
    desk.left(7);
    let calls = last(&mut desk, at(1));
    let items = |(_, items): (String, Vec<String>)| items;
    let mut told: Vec<_> = calls.concat().into_iter().flat_map(items).collect();
    told.sort();
    let expected = words("LetGo|t=t|k#1 LetGo|t=t|k#2 Revoke|t=t|q#7");
    assert_eq!(told, expected);
    assert!(desk.notices().contains(&Notice::Dropped(1)), "the points");
    reply(&mut desk, &out, Ok("k d a"), at(2));
    assert_eq!((desk.ready(), desk.letters()), (None, 0));
}

#[test]
fn what_is_not_due_is_told_and_the_script_with_it_where_it_is_missing() {
    let mut desk = standalone();
    let_go(&mut desk, "t", 1);
    let out = desk.next_call(T0).expect("a call");
    reply(&mut desk, &out, Err(NOSCRIPT), T0);
    let expected = ("EVAL".to_owned(), words("LetGo|t=t|k#1"));
    assert_eq!(last(&mut desk, T0).concat(), [expected]);

    let mut desk = standalone();
    let_go(&mut desk, "t", 1);
    let out = desk.next_call(T0).expect("a call");
    reply(&mut desk, &out, Err("ERR"), T0);
    assert_eq!(desk.next_call(T0), None, "it pauses");
    assert_eq!(last(&mut desk, T0).len(), 1);
}

#[test]
fn a_store_that_is_given_up_is_told_nothing() {
    let mut desk = open();
    let_go(&mut desk, "t", 1);
    assert_eq!(last(&mut desk, at(1)).len(), 0);
    assert_eq!(last(&mut desk, T0.plus(OPEN_FOR)).len(), 1);
}
