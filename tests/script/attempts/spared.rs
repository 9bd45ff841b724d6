//! Addresses from which a subject succeeded before: they have windows and lockouts of their own.

use super::*;

fn tries() -> Tries {
    Tries::under([Attempt {
        spares: true,
        ..by_subject()
    }])
}

/// The key of the addresses that Alice is known from.
fn known() -> String {
    of_alice("pb", "known")
}

impl Remote {
    fn succeeds(&mut self, tries: &Tries, id: u64, now: u64) {
        self.passes(tries, id, now);
        assert_eq!(self.tell(tries, id, End::Succeeded, now, now), []);
    }
}

#[test]
fn a_stranger_locks_nobody_out_of_a_known_address() {
    let mut remote = remote();
    let home = tries();
    let stranger = home.from(address(66));
    let other = home.from(address(8));
    remote.succeeds(&home, 1, T);
    assert_eq!(remote.locks_out(&stranger, 2, T + 1), (1, 5 * MINUTE));
    remote.locked(&stranger, 3, T + 1);
    remote.locked(&other, 4, T + 1);
    // At home all the room there is.
    for id in 10..13 {
        remote.passes(&home, id, T + 1);
    }
    remote.is_busy(&home, 13, T + 1);
    // And there failures lock out too, there alone.
    remote.tell(&home, 10, End::Failed, T + 1, T + 1);
    remote.tell(&home, 11, End::Failed, T + 1, T + 1);
    let locked = Sign::Locked(0, lockout(1, T + 1 + 5 * MINUTE));
    assert_eq!(remote.tell(&home, 12, End::Failed, T + 1, T + 1), [locked]);
    assert_eq!(remote.locked(&home, 14, T + 2), (1, 5 * MINUTE - 1));
    let at = T + 1 + 5 * MINUTE;
    remote.passes(&other, 15, at);
    remote.tell(&other, 15, End::GivenBack, at, at);
    // Each escalates for itself.
    assert_eq!(remote.locks_out(&home, 16, at), (2, HOUR));
    assert_eq!(remote.locks_out(&stranger, 17, at).0, 2);
    remote.all_expire();
}

#[test]
fn what_happens_at_a_known_address_touches_no_other() {
    let mut remote = remote();
    let home = tries();
    let stranger = home.from(address(66));
    remote.succeeds(&home, 1, T);
    remote.fails(&stranger, 2, T);
    remote.fails(&stranger, 3, T);
    // A success at home clears nothing of strangers' failures.
    remote.succeeds(&home, 4, T);
    remote.passes(&stranger, 5, T);
    remote.is_busy(&stranger, 6, T);
    remote.tell(&stranger, 5, End::GivenBack, T, T);
    // Failures at home take no room of theirs.
    remote.fails(&home, 7, T);
    remote.fails(&home, 8, T);
    remote.passes(&stranger, 9, T);
    // A stranger's success clears strangers' failures, and makes it known.
    remote.tell(&stranger, 9, End::Succeeded, T, T);
    remote.passes(&home, 10, T);
    remote.is_busy(&home, 11, T);
    for id in 12..15 {
        remote.passes(&stranger, id, T);
    }
    let other = home.from(address(8));
    for id in 15..18 {
        remote.passes(&other, id, T);
    }
}

#[test]
fn an_outcome_counts_where_its_request_was_let_through() {
    let mut remote = remote();
    let home = tries();
    // Let through as a stranger, known meanwhile.
    for id in 1..4 {
        remote.passes(&home, id, T);
    }
    remote.tell(&home, 1, End::Succeeded, T, T);
    remote.tell(&home, 2, End::Failed, T, T);
    remote.tell(&home, 3, End::Failed, T, T);
    let stranger = home.from(address(66));
    remote.passes(&stranger, 4, T);
    remote.is_busy(&stranger, 5, T);
    for id in 6..9 {
        remote.passes(&home, id, T);
    }
    // And the other way round: let through at home, told when that is not known any more.
    remote.tell(&home, 6, End::GivenBack, T, T);
    assert_eq!(remote.server.say::<i64>(&format!("DEL {}", known())), 1);
    assert_eq!(remote.tell(&home, 7, End::Failed, T, T), []);
    assert_eq!(remote.tell(&home, 8, End::Failed, T, T), []);
    remote.is_busy(&stranger, 9, T);
}

#[test]
fn of_one_that_took_no_room_it_counts_where_the_address_belongs_by_now() {
    let mut remote = remote();
    let home = Tries::under([Attempt {
        spares: true,
        provisional: false,
        ..by_subject()
    }]);
    let stranger = home.from(address(66));
    for id in 0..9 {
        remote.passes(&home, id, T);
    }
    remote.tell(&home, 0, End::Failed, T, T);
    remote.tell(&home, 1, End::Succeeded, T, T);
    remote.tell(&home, 2, End::Failed, T, T);
    remote.tell(&home, 3, End::Failed, T, T);
    let signs = remote.tell(&home, 4, End::Failed, T, T);
    assert_eq!(signs, [Sign::Locked(0, lockout(1, T + 5 * MINUTE))]);
    remote.locked(&home, 10, T);
    remote.passes(&stranger, 11, T);
}

#[test]
fn revoking_finds_it_in_either_window() {
    let mut remote = remote();
    let home = tries();
    remote.passes(&home, 1, T);
    remote.succeeds(&home, 2, T);
    remote.passes(&home, 3, T);
    for id in [1, 3] {
        remote.one(home.item(id, Step::Revoke(Leg::Subject(0))), T);
    }
    assert_eq!(remote.keys(), [known()]);
    // And a mark counts for both.
    remote.one(home.item(4, Step::Revoke(Leg::Subject(0))), T);
    assert_eq!(remote.one(home.item(4, Step::Whole), T + 1), Decision::Done);
}

#[test]
fn sixteen_addresses_are_known_and_the_one_that_was_longest_away_makes_room() {
    let mut remote = remote();
    let home = tries();
    for n in 0..16 {
        remote.succeeds(&home.from(address(n)), u64::from(n), T + u64::from(n));
    }
    assert_eq!(remote.zset(&known()).len(), 16);
    // Seen again within the hour: not written down.
    remote.succeeds(&home.from(address(0)), 20, T + HOUR);
    assert_eq!(
        remote.zset(&known())[0],
        ("192.0.2.0".to_owned(), i64::try_from(T).unwrap())
    );
    // After that it is.
    remote.succeeds(&home.from(address(0)), 21, T + HOUR + 1);
    let there = remote.zset(&known());
    assert_eq!(there[0].0, "192.0.2.1");
    assert_eq!(there.len(), 16);
    // The 17th and the 18th, in one call.
    let mut items = Vec::new();
    for n in [16, 17] {
        let tries = home.from(address(n));
        let ask = Rc::new(tries.ask(u64::from(n)));
        items.push(tries.item(u64::from(n), Step::Whole));
        items.extend(telling(&ask, End::Succeeded.of(T + HOUR)));
    }
    remote.call(&items, T + HOUR);
    let there = remote.zset(&known());
    assert_eq!(there.len(), 16);
    assert_eq!(there[0].0, "192.0.2.3");
    remote.all_expire();
}

#[test]
fn an_address_is_known_for_thirty_days() {
    let mut remote = remote();
    let home = tries();
    let stranger = home.from(address(66));
    let days = 30 * DAY;
    remote.succeeds(&home, 1, T);
    let ttl = u64::try_from(remote.ttl(&known())).unwrap();
    assert!((days..days + 2 * HOUR).contains(&ttl), "{ttl}");
    let late = T + days - 1;
    remote.locks_out(&stranger, 2, late);
    remote.passes(&home, 3, late);
    remote.tell(&home, 3, End::GivenBack, late, late);
    remote.locked(&home, 4, late + 1);
    // Who failed is not known by that.
    let mut fresh = super::remote();
    fresh.fails(&home, 1, T);
    fresh.passes(&home, 2, T);
    fresh.tell(&home, 2, End::GivenBack, T, T);
    let there: i64 = fresh.server.say(&format!("EXISTS {}", known()));
    assert_eq!(there, 0);
}

#[test]
fn a_throttle_that_does_not_spare_knows_nobody() {
    let mut remote = remote();
    let home = Tries::under([by_subject()]);
    let stranger = home.from(address(66));
    remote.succeeds(&home, 1, T);
    assert!(remote.keys().is_empty(), "{:?}", remote.keys());
    remote.locks_out(&stranger, 2, T);
    remote.locked(&home, 3, T);
}

#[test]
fn a_pair_and_a_spared_address_have_one_box() {
    let mut remote = remote();
    let home = tries();
    remote.succeeds(&home, 1, T);
    let pair = Tries::under([by_pair()]);
    remote.locks_out(&pair, 2, T);
    remote.locked(&home, 3, T);
    remote.passes(&home.from(address(66)), 4, T);
    assert_eq!(remote.locks_out(&home, 5, T + 5 * MINUTE), (2, HOUR));
}
