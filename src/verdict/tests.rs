//! Tests of `verdict`.

use super::*;
use crate::testing::{meter, standing, standings};

/// A standing with a bucket of 100 points a minute.
fn of(policy: Policy, remaining: u64, wait: u64) -> Standing {
    standing(policy, meter(100, 60, 100), remaining, 1000, wait)
}

#[test]
fn one_bucket_is_described() {
    use Policy::{Anonymous, Ip, Key, Tenant};
    let rows: &[(&[Standing], Policy, &str)] = &[
        (
            &[of(Key, 5, 0), of(Tenant, 9, 0)],
            Key,
            "the smaller remaining",
        ),
        (
            &[of(Key, 9, 0), of(Tenant, 5, 0)],
            Tenant,
            "the smaller remaining",
        ),
        (
            &[of(Key, 5, 0), of(Tenant, 5, 0)],
            Key,
            "the key's on a tie",
        ),
        (&[of(Tenant, 5, 0), of(Key, 5, 0)], Key, "in any order"),
        (
            &[of(Key, 5, 0), of(Tenant, 9, 0), of(Ip, 3, 0)],
            Ip,
            "ip_limit counts as well",
        ),
        (
            &[of(Key, 5, 0), of(Tenant, 5, 0), of(Ip, 5, 0)],
            Key,
            "the key's on a tie of three",
        ),
        (
            &[of(Anonymous, 7, 0), of(Ip, 7, 0)],
            Anonymous,
            "its own on a tie",
        ),
        (
            &[of(Anonymous, 7, 0), of(Ip, 6, 0)],
            Ip,
            "the smaller remaining",
        ),
        (
            &[of(Key, 0, 10), of(Tenant, 0, 20)],
            Tenant,
            "on a refusal the longer wait",
        ),
        (
            &[of(Key, 0, 20), of(Tenant, 0, 10)],
            Key,
            "on a refusal the longer wait",
        ),
        (
            &[of(Key, 0, 20), of(Tenant, 0, 20)],
            Key,
            "the key's on a tie",
        ),
        (
            &[of(Key, 4, 1), of(Tenant, 0, 0)],
            Key,
            "the wait, however little remains elsewhere",
        ),
        (&[of(Key, 0, 0), of(Tenant, 4, 1)], Tenant, "the wait"),
        (
            &[of(Anonymous, 0, 5), of(Ip, 0, 5)],
            Anonymous,
            "its own on a tie",
        ),
        (&[of(Ip, 0, 5)], Ip, "the only one"),
    ];
    for (of, expected, what) in rows {
        let described = standings(of).described().map(|s| s.policy);
        assert_eq!(described, Some(*expected), "{what}");
    }
    assert_eq!(Standings::default().described(), None);
}

#[test]
fn standings_are_listed_key_tenant_ip_anonymous() {
    use Policy::{Anonymous, Ip, Key, Tenant};
    let order = |of: Standings| of.iter().map(|s| s.policy).collect::<Vec<_>>();
    let [key, tenant, ip, anonymous] = [Key, Tenant, Ip, Anonymous].map(|p| of(p, 1, 0));
    assert_eq!(order(standings(&[ip, tenant, key])), [Key, Tenant, Ip]);
    assert_eq!(order(standings(&[tenant, ip, key])), [Key, Tenant, Ip]);
    assert_eq!(order(standings(&[anonymous, ip])), [Ip, Anonymous]);
    assert_eq!(
        order(Standings::new([None, Some(tenant), Some(key)])),
        [Key, Tenant]
    );
    assert_eq!(order(standings(&[tenant, key]).with(ip)), [Key, Tenant, Ip]);
    assert_eq!(order(standings(&[ip]).with(key)), [Key, Ip]);
    assert_eq!(order(Standings::default().with(ip)), [Ip]);
    assert_eq!(
        order(standings(&[key, tenant, ip]).with(anonymous)),
        [Key, Tenant, Ip]
    );
}

#[test]
fn a_standing_tells_what_would_be_admitted_now() {
    // 60 a minute: a point a second. The burst is twice that.
    let meter = meter(60, 60, 120);
    let now = Millis(1_000_000);
    let full = Level::full(&meter, now);
    for (spent, remaining, reset) in [
        // Never above the limit, though the bucket holds 120.
        (0, 60, 0),
        (1, 60, 1000),
        (60, 60, 60_000),
        (61, 59, 61_000),
        (120, 0, 120_000),
    ] {
        let level = full.take(spent);
        let found = Standing::new(Policy::Key, meter, &level, Millis(7));
        let expected = standing(Policy::Key, meter, remaining, reset, 7);
        assert_eq!(found, expected, "{spent} spent");
    }
    // Half a point more than 59 is 59.
    let later = full.take(61).seen(&meter, now.plus(Millis(500)));
    let found = Standing::new(Policy::Ip, meter, &later, Millis(0));
    assert_eq!(found, standing(Policy::Ip, meter, 59, 60_500, 0));
}

#[test]
fn verdicts_have_the_names_of_the_contract() {
    let throttled = Throttled {
        standings: standings(&[of(Policy::Key, 0, 5)]),
        wait: Millis(5),
        strikes_left: Some(3),
        would_box: None,
    };
    let boxed = Boxed {
        scope: Scope::Ip,
        lockout: Lockout {
            level: 1,
            until: Millis(9),
        },
        tripped: true,
    };
    let locked_out = AuthLockout {
        attempt: 0,
        lockout: boxed.lockout,
        tripped: true,
    };
    let subject = Invalid::Subject(ThrottleId(0), SubjectFault::Missing);
    let invalid = Invalid::DoubledHeader("x-id".to_owned());
    let passed = standings(&[of(Policy::Key, 9, 0)]);
    let rows = [
        (Verdict::Exempt, "exempt", None),
        (Verdict::Allowed(passed, None), "allowed", Some(passed)),
        (Verdict::Degraded(passed), "degraded", Some(passed)),
        (
            Verdict::Throttled(throttled),
            "throttled",
            Some(throttled.standings),
        ),
        (Verdict::Boxed(boxed), "boxed", None),
        (Verdict::AuthLockout(locked_out), "auth_lockout", None),
        (Verdict::AuthBusy, "auth_busy", None),
        (Verdict::Invalid(subject), "invalid", None),
        (
            Verdict::IdempotencyKey(KeyFault::Missing),
            "idempotency",
            None,
        ),
        (Verdict::Invalid(invalid), "invalid", None),
        (Verdict::Contended, "throttled", None),
        (Verdict::Unavailable, "unavailable", None),
    ];
    for (verdict, name, standings) in rows {
        // Of the degraded limiter, only what passes is called otherwise.
        let degraded = match &verdict {
            Verdict::Allowed(passed, _) => Verdict::Degraded(*passed),
            other => other.clone(),
        };
        assert_eq!(verdict.clone().degraded(), degraded);
        assert_eq!(verdict.name(), name);
        assert_eq!(verdict.shadow_name(), format!("shadow_{name}"));
        assert_eq!(verdict.standings().copied(), standings, "{name}");
    }
}

#[test]
fn policies_and_scopes_have_the_names_of_the_contract() {
    let policies = [Policy::Key, Policy::Tenant, Policy::Ip, Policy::Anonymous];
    assert_eq!(
        policies.map(Policy::name),
        ["key", "tenant", "ip", "anonymous"]
    );
    let scopes = [Scope::Key, Scope::Ip, Scope::Subject];
    assert_eq!(scopes.map(Scope::name), ["key", "ip", "subject"]);
}
