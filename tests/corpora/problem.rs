//! Any refusal of any request: a document that parses, and header fields that split nothing.

use serde_json::Value;
use tollgate_config::{Config, Limit, Millis, Points, Seconds, ThrottleId};
use tollgate_filter::body::Body;
use tollgate_filter::limit::{bucket::Meter, penalty::Lockout};
use tollgate_filter::plan::{Facts, Plan};
use tollgate_filter::reply::{Asker, Field, Form, Reply, fields, refusal};
use tollgate_filter::rules::Rules;
use tollgate_filter::verdict::{
    AuthLockout, Boxed, Invalid, KeyFault, Obstacle, Policy, ResourceFault, Scope, Standing,
    Standings, SubjectFault, Taken, Throttled, Verdict,
};

use super::draw::Draw;
use super::head;

/// 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

thread_local! {
    /// Every dialect.
    static RULES: [Rules; 5] = rules();
}

fn rules() -> [Rules; 5] {
    ["draft-03", "draft-11", "both", "x-ratelimit", "none"].map(|dialect| {
        let text = format!(
            r#"{{"identity":{{"tenant":{{"header":"x-tenant-id"}},"key":{{"header":"x-api-key-id"}},
                "default_tier":"growth"}},
              "ip_limit":"600/minute","exempt":["/healthz"],
              "tiers":{{"growth":{{"tenant":"60/minute","key":"30/minute"}}}},
              "routes":[{{"name":"mutations","match":{{"methods":["POST"],"path":"/v1/*"}},
                "cost":7,"idempotency_key":"required"}}],
              "headers":{{"dialect":"{dialect}","retry_after_date_from":"1h"}},
              "problem":{{"type_base":"https://e.example/a?b=%22&c="}}}}"#
        );
        Rules::new(Config::parse(text.as_bytes(), &|_| None).unwrap())
    })
}

/// The first line says what was decided, the rest is the request.
pub fn run(bytes: &[u8]) {
    RULES.with(|rules| answer(bytes, rules));
}

fn answer(bytes: &[u8], rules: &[Rules]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (first, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut draw = Draw::new(first);
    let request = head::request(rest);
    let rules = draw.pick(rules);
    let now = match draw.byte() % 4 {
        0 => Millis(draw.number()),
        _ => Millis(START + draw.below(1 << 40)),
    };
    let facts = Facts {
        now,
        properties: &|_| None,
        source: &|| head::source(&request),
        body: Some(&Body::NONE),
    };
    let plan = Plan::of(rules, &request, &facts, 7);
    let verdict = verdict(&mut draw, now);
    if let Some(standings) = verdict.standings() {
        check_fields(&fields::rate_limit(rules.config.headers.dialect, standings));
    }
    let asker = Asker {
        rules,
        request: &request,
        plan: &plan,
        now,
        nonce: draw.number(),
    };
    let reply = refusal(&verdict, &asker);
    let passes = matches!(
        verdict,
        Verdict::Allowed(..) | Verdict::Degraded(_) | Verdict::Exempt
    );
    assert_eq!(reply.is_none(), passes, "{verdict:?}");
    if let Some(reply) = reply {
        assert_eq!(matches!(reply.form, Form::Grpc { .. }), request.is_grpc());
        check(&reply, &verdict);
    }
}

fn check(reply: &Reply, verdict: &Verdict) {
    check_fields(&reply.fields);
    let field = |name: &str| {
        let found = reply.fields.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(field("cache-control"), Some("no-store"));
    let waits = !matches!(verdict, Verdict::IdempotencyKey(_) | Verdict::Invalid(_));
    let (code, expected) = codes(verdict);
    let retry = field("retry-after");
    assert_eq!(retry.is_some(), waits, "{verdict:?}");
    let (status, body) = match &reply.form {
        Form::Grpc { status, message } => {
            assert_eq!(*status, code, "{verdict:?}");
            check_visible(message);
            return;
        }
        Form::Http { status, body } => (*status, body),
    };
    assert_eq!(status, expected, "{verdict:?}");
    assert_eq!(field("content-type"), Some("application/problem+json"));
    let body: Value = serde_json::from_slice(body).expect("the body is JSON");
    let text = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(body["status"], status);
    for name in ["type", "title", "detail", "instance", "request_id"] {
        check_visible(text(name));
    }
    assert!(text("type").starts_with("https://e.example/a?b=%22&c=/"));
    let id = text("request_id");
    assert!((1..=128).contains(&id.len()) && !id.contains(' '), "{id}");
    check_instance(text("instance"));
    let seconds = body.get("retry_after_seconds").map(|s| s.as_u64().unwrap());
    assert_eq!(seconds.is_some(), waits);
    if let (Some(retry), Some(seconds)) = (retry, seconds) {
        assert!(seconds >= 1);
        match retry.parse::<u64>() {
            Ok(told) => assert_eq!(told, seconds),
            Err(_) => assert!(retry.ends_with(" GMT") && seconds >= 3600, "{retry}"),
        }
    }
    if let Verdict::Throttled(throttled) = verdict {
        assert!(seconds.unwrap() >= throttled.wait.ceil_secs());
    }
    if let Verdict::Taken(taken) = verdict {
        let least = match taken.by {
            Obstacle::Flight => 1,
            Obstacle::Lock | Obstacle::Lease => taken.wait.ceil_secs().min(30),
            Obstacle::Quota => taken.wait.ceil_secs(),
        };
        assert_eq!(seconds, Some(least.max(1)), "{taken:?}");
    }
    let lockout = match verdict {
        Verdict::Boxed(boxed) => Some(boxed.lockout),
        Verdict::AuthLockout(locked) => Some(locked.lockout),
        _ => None,
    };
    if let Some(lockout) = lockout {
        assert_eq!(body["penalty_level"], lockout.level);
        check_visible(text("lockout_ends_at"));
    }
}

/// The gRPC code and the status of a refusal.
fn codes(verdict: &Verdict) -> (u8, u16) {
    match verdict {
        Verdict::Unavailable => (14, 503),
        Verdict::Invalid(
            Invalid::Resource(ResourceFault::TooLarge)
            | Invalid::Subject(_, SubjectFault::TooLarge),
        ) => (9, 413),
        Verdict::IdempotencyKey(_) | Verdict::Invalid(_) => (9, 400),
        Verdict::Taken(taken) => match taken.by {
            Obstacle::Flight | Obstacle::Lock => (10, 409),
            Obstacle::Lease | Obstacle::Quota => (8, 429),
        },
        _ => (8, 429),
    }
}

/// A path or nothing, of a URI's characters, that names no host.
fn check_instance(instance: &str) {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&b);
    assert!(instance.bytes().all(allowed), "{instance}");
    assert!(!instance.starts_with("//"), "{instance}");
    let escapes = instance.split('%').skip(1);
    for escape in escapes {
        let digits = escape.bytes().take(2).filter(u8::is_ascii_hexdigit);
        assert_eq!(digits.count(), 2, "{instance}");
    }
}

fn check_fields(fields: &[Field]) {
    for (at, (name, value)) in fields.iter().enumerate() {
        let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(name.bytes().all(token), "{name}");
        assert!(!value.is_empty(), "{name} is empty");
        check_visible(value);
        let twice = fields[..at].iter().any(|(other, _)| other == name);
        assert!(!twice, "{name} is there twice");
    }
}

/// Visible ASCII and spaces: neither CR nor LF nor anything that is read in two ways.
fn check_visible(text: &str) {
    assert!(text.bytes().all(|b| matches!(b, b' '..=b'~')), "{text:?}");
}

fn verdict(draw: &mut Draw<'_>, now: Millis) -> Verdict {
    let scope = *draw.pick(&[Scope::Key, Scope::Ip, Scope::Subject]);
    let lockout = Lockout {
        level: draw.byte() % 3 + 1,
        until: now.plus(Millis(draw.number())),
    };
    match draw.byte() % 13 {
        0 => Verdict::Exempt,
        1 => Verdict::Allowed(standings(draw, false), None),
        2 => Verdict::Boxed(Boxed {
            scope,
            lockout,
            tripped: draw.once_in(2),
        }),
        3 => Verdict::IdempotencyKey(*draw.pick(&[
            KeyFault::Missing,
            KeyFault::Doubled,
            KeyFault::Malformed,
        ])),
        4 => Verdict::Invalid(Invalid::DoubledHeader("x-tenant-id".to_owned())),
        5 => Verdict::Contended,
        6 => match draw.byte() % 4 {
            0 => Verdict::AuthBusy,
            _ => Verdict::AuthLockout(AuthLockout {
                attempt: usize::from(draw.byte()),
                lockout,
                tripped: draw.once_in(2),
            }),
        },
        7 => {
            let faults = [
                SubjectFault::Missing,
                SubjectFault::Doubled,
                SubjectFault::Basic,
                SubjectFault::Encoded,
                SubjectFault::Malformed,
                SubjectFault::NoName,
                SubjectFault::TooLarge,
            ];
            let throttle = ThrottleId(usize::from(draw.byte()));
            Verdict::Invalid(Invalid::Subject(throttle, *draw.pick(&faults)))
        }
        9 => Verdict::Degraded(standings(draw, false)),
        10 => Verdict::Unavailable,
        11 => Verdict::Taken(Taken {
            by: *draw.pick(&[
                Obstacle::Flight,
                Obstacle::Lock,
                Obstacle::Lease,
                Obstacle::Quota,
            ]),
            standings: standings(draw, false),
            wait: Millis(draw.number()),
            strikes_left: draw.once_in(2).then(|| draw.number() as u32),
        }),
        12 => Verdict::Invalid(Invalid::Resource(*draw.pick(&[
            ResourceFault::Missing,
            ResourceFault::Doubled,
            ResourceFault::Encoded,
            ResourceFault::Malformed,
            ResourceFault::NoName,
            ResourceFault::TooLarge,
        ]))),
        _ => Verdict::Throttled(Throttled {
            standings: standings(draw, true),
            wait: Millis(draw.number()),
            strikes_left: draw.once_in(2).then(|| draw.number() as u32),
            would_box: draw.once_in(4).then_some((scope, lockout)),
        }),
    }
}

fn standings(draw: &mut Draw<'_>, refused: bool) -> Standings {
    let policies = [Policy::Key, Policy::Tenant, Policy::Ip, Policy::Anonymous];
    let from = draw.byte();
    Standings::new(std::array::from_fn(|at| {
        let policy = policies[(usize::from(from) + at) % 4];
        (!draw.once_in(4)).then(|| Standing {
            policy,
            meter: Meter::new(Limit {
                points: Points(draw.below(1_000_000_000) + 1),
                per: Seconds(draw.below(31 * 86_400) + 1),
                burst: Points(draw.below(1_000_000_000) + 1),
            }),
            remaining: draw.number(),
            reset: Millis(draw.number()),
            wait: Millis(if refused { draw.number() } else { 0 }),
        })
    }))
}
