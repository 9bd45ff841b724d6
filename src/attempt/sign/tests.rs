//! Tests of `attempt::sign`: what a log says, and what it must not.

use std::net::IpAddr;

use tollgate_config::Millis;

use crate::attempt::{Attempts, Sign, Who};
use crate::client_ip::Address;
use crate::identity::Id;
use crate::limit::penalty::Lockout;
use crate::testing::{NOW, an_attempt};
use crate::verdict::Scope;

const LOCKOUT: Lockout = Lockout {
    level: 2,
    until: NOW,
};

fn attempts() -> Attempts {
    let ip: IpAddr = "192.0.2.1".parse().unwrap();
    Attempts {
        address: Address::Ip(ip),
        subjects: vec![Id::of(b"alice")],
        list: vec![
            an_attempt("by-ip", Who::Ip),
            an_attempt("by-subject", Who::Subject(0)),
            an_attempt("by-pair", Who::Pair(0)),
        ],
        stuffing: None,
    }
}

#[test]
fn a_log_says_which_throttle_and_never_who() {
    let attempts = attempts();
    let text = |sign: Sign| sign.text(&attempts, false);
    let until = "2025-04-01T00:00:00Z";
    for (sign, expected) in [
        (
            Sign::Locked(0, LOCKOUT),
            format!("auth throttle by-ip: address 192.0.2.1 is locked out, level 2 until {until}"),
        ),
        (
            Sign::Locked(1, LOCKOUT),
            format!("auth throttle by-subject: a subject is locked out, level 2 until {until}"),
        ),
        (
            Sign::Locked(2, LOCKOUT),
            format!(
                "auth throttle by-pair: a subject, from address 192.0.2.1 alone, is locked out, level 2 until {until}"
            ),
        ),
        (
            Sign::Stuffing(LOCKOUT),
            format!("credential stuffing: address 192.0.2.1 is banned until {until}"),
        ),
        (
            Sign::Spread(1),
            "auth throttle by-subject: one subject fails from 10 addresses".to_owned(),
        ),
    ] {
        assert_eq!(text(sign), Some(expected.clone()));
        let shadow = format!("{expected} (shadow: not carried out)");
        assert_eq!(sign.text(&attempts, true), Some(shadow));
        assert!(!expected.contains("alice"));
    }
    assert_eq!(text(Sign::Locked(3, LOCKOUT)), None);
    assert_eq!(text(Sign::Spread(usize::MAX)), None);
}

#[test]
fn an_address_that_is_none_forges_no_log() {
    let mut attempts = attempts();
    attempts.address = Address::Other(b"x\n[warn] y".to_vec());
    let text = Sign::Stuffing(LOCKOUT).text(&attempts, false);
    assert!(!text.expect("a text").contains('\n'));
}

#[test]
fn lockouts_and_bans_are_trips() {
    let attempts = attempts();
    let trip = |sign: Sign| sign.trip(&attempts);
    assert_eq!(trip(Sign::Locked(0, LOCKOUT)), Some((Scope::Ip, LOCKOUT)));
    for place in [1, 2] {
        let locked = Sign::Locked(place, LOCKOUT);
        assert_eq!(trip(locked), Some((Scope::Subject, LOCKOUT)));
    }
    let ban = Lockout {
        level: 3,
        until: NOW.plus(Millis(86_400_000)),
    };
    assert_eq!(trip(Sign::Stuffing(ban)), Some((Scope::Ip, ban)));
    assert_eq!(trip(Sign::Spread(1)), None);
    assert_eq!(trip(Sign::Locked(3, LOCKOUT)), None);
}
