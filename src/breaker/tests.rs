//! Tests of `breaker`.

use tollgate_config::Millis;

use super::{Breaker, Transition};

const T0: Millis = Millis(1_000_000);

fn at(ms: u64) -> Millis {
    T0.plus(Millis(ms))
}

fn breaker() -> Breaker {
    let terms = tollgate_config::Breaker {
        failures: 3,
        open_for: Millis(2000),
    };
    Breaker::new(terms, Millis(20))
}

fn open() -> Breaker {
    let mut breaker = breaker();
    assert_eq!(breaker.failed(T0), None);
    assert_eq!(breaker.failed(T0), None);
    assert_eq!(breaker.failed(T0), Some(Transition::Opened { failures: 3 }));
    breaker
}

#[test]
fn opens_after_failures_in_a_row() {
    let mut breaker = breaker();
    assert!(breaker.may_call(T0));
    for _ in 0..5 {
        assert_eq!(breaker.failed(T0), None);
        assert_eq!(breaker.failed(T0), None);
        assert_eq!(breaker.succeeded(), None, "a good answer starts anew");
    }
    assert!(breaker.may_call(T0));
    let mut breaker = open();
    assert!(!breaker.may_call(T0));
    assert!(!breaker.may_call(at(1999)));
}

#[test]
fn one_call_probes() {
    let mut breaker = open();
    assert!(breaker.admits(at(2000)));
    assert!(!breaker.is_probing(), "a look is no probe");
    assert!(breaker.may_call(at(2000)));
    assert!(breaker.is_probing());
    assert!(!breaker.may_call(at(2000)));
    assert!(!breaker.may_call(at(2010)));
}

#[test]
fn a_failed_probe_opens_it_again_and_says_nothing() {
    let mut breaker = open();
    assert!(breaker.may_call(at(2000)));
    assert_eq!(breaker.failed(at(2010)), None);
    assert!(!breaker.may_call(at(4009)));
    assert!(breaker.may_call(at(4010)));
}

#[test]
fn a_good_probe_closes_it() {
    let mut breaker = open();
    assert!(breaker.may_call(at(2000)));
    assert_eq!(breaker.succeeded(), Some(Transition::Recovered));
    assert!(breaker.may_call(at(2001)));
    assert_eq!(breaker.failed(at(2001)), None, "it counts from 0 again");
}

#[test]
fn an_undecided_probe_lets_the_next_call_probe() {
    let mut breaker = open();
    assert!(breaker.may_call(at(2000)));
    breaker.undecided();
    assert!(breaker.may_call(at(2001)));
    assert!(!breaker.may_call(at(2001)));

    let mut closed = self::breaker();
    closed.undecided();
    assert!(closed.may_call(T0));
}

#[test]
fn late_failures_do_not_keep_it_open() {
    let mut breaker = open();
    assert_eq!(breaker.failed(at(1500)), None);
    assert!(breaker.may_call(at(2000)));
}

#[test]
fn a_probe_that_nobody_reports_is_forgotten() {
    let mut breaker = open();
    assert!(breaker.may_call(at(2000)));
    assert!(!breaker.may_call(at(3999)));
    assert!(breaker.may_call(at(4000)));
}

#[test]
fn a_clock_that_was_set_back_does_not_keep_it_open() {
    let mut breaker = open();
    assert!(!breaker.may_call(Millis(T0.0 - 1000)), "only a late worker");
    assert!(breaker.may_call(Millis(T0.0 - 1001)));
}
