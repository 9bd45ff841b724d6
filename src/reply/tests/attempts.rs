//! Answers to attempts at credentials: nobody learns from them who there is, nor how many more are allowed.

use tollgate_config::{SubjectSource, Throttle, ThrottleBy, ThrottleId};

use super::*;
use crate::testing::throttles::{rules_with, throttle};
use crate::verdict::SubjectFault;

use SubjectFault::{Basic, Doubled, Encoded, Malformed, Missing, NoName, TooLarge};

const AT_TOKEN: &str = r#"{
    "ip_limit": "600/minute",
    "routes": [{"name": "token", "match": {"path": "/v1/token"}}],
    "problem": {"type_base": "https://api.example.com/errors/"}
}"#;

const PROBLEM: [(&str, &str); 2] = [
    ("cache-control", "no-store"),
    ("content-type", "application/problem+json"),
];

const fn lockout(seconds: u64) -> Lockout {
    Lockout {
        level: 2,
        until: NOW.plus(Millis::from_secs(seconds)),
    }
}

const fn locked_out(attempt: usize, tripped: bool) -> Verdict {
    Verdict::AuthLockout(AuthLockout {
        attempt,
        lockout: lockout(300),
        tripped,
    })
}

const fn fault(fault: SubjectFault) -> Verdict {
    Verdict::Invalid(Invalid::Subject(ThrottleId(0), fault))
}

/// Every verdict here that refuses, its status and its gRPC code.
pub(super) fn refusals() -> Vec<(Verdict, u16, u8)> {
    let mut all = vec![
        (locked_out(0, false), 429, 8),
        (locked_out(1, true), 429, 8),
        (Verdict::AuthBusy, 429, 8),
        (boxed(Scope::Subject, 1, 300), 429, 8),
        (fault(TooLarge), 413, 9),
    ];
    let faults = [Missing, Doubled, Basic, Encoded, Malformed, NoName];
    all.extend(faults.map(|of| (fault(of), 400, 9)));
    all
}

fn rules(by: ThrottleBy, subject: Option<SubjectSource>) -> Rules {
    let throttle = Throttle {
        subject,
        ..throttle("token-secret", by)
    };
    rules_with(AT_TOKEN, &[(throttle, &["token"])], &["token"])
}

fn answer_at_token(rules: &Rules, verdict: &Verdict, nonce: u64) -> Option<Reply> {
    answer_by(
        rules,
        &request("POST", "/v1/token", &ANONYMOUS),
        verdict,
        nonce,
    )
}

#[test]
fn whoever_is_locked_out_is_told_until_when() {
    // 300 s and up to 30 more; the end itself is exact.
    for (nonce, seconds) in [(0, 300), (30, 330), (31, 300)] {
        let rules = rules(ThrottleBy::Subject, None);
        assert_answer(
            answer_at_token(&rules, &locked_out(0, false), nonce),
            429,
            &[
                PROBLEM[0],
                PROBLEM[1],
                ("retry-after", &seconds.to_string()),
                ("x-penalty-box-status", "Active-Lockout"),
            ],
            &json!({
                "type": "https://api.example.com/errors/penalty-box-active",
                "title": "Penalty Box Active",
                "status": 429,
                "detail": "Too many attempts failed. Until 2025-04-01T00:05:00Z every attempt is refused, \
                           whatever credentials it presents.",
                "instance": "/v1/token",
                "request_id": "req-1",
                "retry_after_seconds": seconds,
                "recommended_backoff": "exponential_with_full_jitter",
                "penalty_level": 2,
                "lockout_ends_at": "2025-04-01T00:05:00Z",
            }),
        );
    }
}

#[test]
fn a_lockout_says_nothing_of_whom_it_is() {
    let of = |by, verdict| answer_at_token(&rules(by, None), &verdict, 3);
    let one = of(ThrottleBy::Subject, locked_out(0, false));
    for by in [ThrottleBy::Subject, ThrottleBy::Ip, ThrottleBy::SubjectIp] {
        for (attempt, tripped) in [(0, true), (7, false)] {
            assert_eq!(of(by, locked_out(attempt, tripped)), one, "{by:?}");
        }
    }
    // Nor do boxes of subjects, should any be met as such.
    let level = Verdict::Boxed(Boxed {
        scope: Scope::Subject,
        lockout: lockout(300),
        tripped: false,
    });
    assert_eq!(of(ThrottleBy::Subject, level), one);
}

#[test]
fn whoever_is_too_early_is_asked_to_come_back_in_a_second() {
    for nonce in [0, 1, u64::MAX] {
        let rules = rules(ThrottleBy::Subject, None);
        assert_answer(
            answer_at_token(&rules, &Verdict::AuthBusy, nonce),
            429,
            &[PROBLEM[0], PROBLEM[1], ("retry-after", "1")],
            &json!({
                "type": "https://api.example.com/errors/rate-limit-exceeded",
                "title": "Too Many Requests",
                "status": 429,
                "detail": "Other attempts are still being checked; retry in 1 second.",
                "instance": "/v1/token",
                "request_id": "req-1",
                "retry_after_seconds": 1,
                "recommended_backoff": "exponential_with_full_jitter",
            }),
        );
    }
}

#[test]
fn an_address_without_tokens_is_told_of_itself_alone() {
    let of = standings(&[standing(Policy::Ip, meter(600, 60, 600), 0, 60_000, 100)]);
    let rules = rules(ThrottleBy::Subject, None);
    let reply = answer_at_token(&rules, &throttled(of, 100, None), 0).unwrap();
    let said = said(&reply);
    assert!(
        said.contains("requests from this address exhausted"),
        "{said}"
    );
    for not in ["tier", "token-secret", "anonymous"] {
        assert!(!said.contains(not), "{said}");
    }
}

#[track_caller]
fn assert_detail(source: &SubjectSource, of: SubjectFault, status: u16, detail: &str) {
    let rules = rules(ThrottleBy::Subject, Some(source.clone()));
    assert_answer(
        answer_at_token(&rules, &fault(of), 3),
        status,
        &PROBLEM,
        &json!({
            "type": "https://api.example.com/errors/invalid-request",
            "title": "Invalid Request",
            "status": status,
            "detail": detail,
            "instance": "/v1/token",
            "request_id": "req-1",
        }),
    );
}

#[test]
fn a_subject_that_cannot_be_read() {
    let everywhere = SubjectSource {
        basic: true,
        form: Some("client_id".to_owned()),
        json: Some(vec!["a/b".to_owned(), "id".to_owned()]),
        ..SubjectSource::default()
    };
    let places = " Route 'token' reads the subject from the header Authorization: Basic, the form field \
                  'client_id' or the JSON value at '/a~1b/id'.";
    for (of, status, what) in [
        (
            Missing,
            400,
            "The subject of the credentials is missing or empty.",
        ),
        (
            Doubled,
            400,
            "More than one subject is named, or one that servers read in different ways; name one, once.",
        ),
        (
            Basic,
            400,
            "The Authorization header must be sent once: 'Basic' and the base64 of a user-id, a colon and \
             a password.",
        ),
        (
            Encoded,
            400,
            "The body must be sent without a Content-Encoding.",
        ),
        (
            Malformed,
            400,
            "The body is neither well-formed JSON in UTF-8 nor a form (application/x-www-form-urlencoded).",
        ),
        (
            NoName,
            400,
            "The subject of the credentials is neither a string nor an integer of 64 bits.",
        ),
        (
            TooLarge,
            413,
            "The body is too large: at most 65536 bytes are read.",
        ),
    ] {
        assert_detail(&everywhere, of, status, &format!("{what}{places}"));
    }
}

#[test]
fn the_places_of_a_subject_are_named() {
    let nowhere = SubjectSource::default;
    let basic = || SubjectSource {
        basic: true,
        ..nowhere()
    };
    let form = |name: &str| SubjectSource {
        form: Some(name.to_owned()),
        ..nowhere()
    };
    let json = || Some(vec!["id".to_owned()]);
    for (source, places) in [
        (basic(), "the header Authorization: Basic"),
        (form("user"), "the form field 'user'"),
        // What is no visible ASCII stays out of gRPC's messages.
        (form("b\u{e4}r\n"), r"the form field 'b\u{e4}r\n'"),
        (
            SubjectSource {
                json: json(),
                ..basic()
            },
            "the header Authorization: Basic or the JSON value at '/id'",
        ),
    ] {
        let detail = format!(
            "The subject of the credentials is missing or empty. Route 'token' reads the subject from {places}."
        );
        assert_detail(&source, Missing, 400, &detail);
    }
}
