//! What a refusal says to the client, checked against itself. Owns reading it; must not know what was configured.

use std::time::Duration;

use jiff::Timestamp;
use tollgate_e2e::{Ask, Reply, Shot, Volley, eventually};

/// What a lockout told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lockout {
    /// 1 to 3.
    pub(crate) level: u64,
    /// The time until `lockout_ends_at`.
    pub(crate) left: Duration,
}

impl Lockout {
    /// Whether it is of this level and began, with this length, no longer than 20 seconds ago.
    pub(crate) fn is(&self, level: u64, seconds: u64) -> bool {
        let latest = Duration::from_secs(seconds);
        self.level == level
            && self.left <= latest
            && self.left >= latest.saturating_sub(Duration::from_secs(20))
    }
}

/// The last part of a problem's type; the problem must agree with its response.
pub(crate) fn kind(reply: &Reply) -> String {
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json"),
        "{reply:?}"
    );
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    let problem = reply.json();
    assert_eq!(problem["status"], reply.status, "{reply:?}");
    if reply.status == 429 {
        assert_eq!(problem["retry_after_seconds"], reply.number("retry-after"));
    }
    let kind = problem["type"].as_str().expect("a type");
    kind.rsplit('/').next().expect("its last part").to_owned()
}

/// The answer once all workers and gateways have told what became of their attempts: until then slots are taken, and
/// nobody is let in either.
pub(crate) async fn told(ask: Ask) -> Reply {
    let soon = Duration::from_secs(8);
    eventually("no attempt is under way", soon, async || {
        let reply = ask.clone().send().await;
        let is_busy = reply.status == 429 && !is_locked_out(&reply);
        (!is_busy).then_some(reply)
    })
    .await
}

/// Whether it is a lockout, by its headers.
pub(crate) fn is_locked_out(reply: &Reply) -> bool {
    reply.header("x-penalty-box-status") == Some("Active-Lockout")
}

/// Reads a lockout.
///
/// # Panics
///
/// When it is something else, or contradicts itself.
pub(crate) fn lockout(reply: &Reply) -> Lockout {
    assert_eq!(reply.status, 429, "{reply:?}");
    assert_eq!(kind(reply), "penalty-box-active", "{reply:?}");
    assert!(is_locked_out(reply), "{reply:?}");
    let problem = reply.json();
    let ends: Timestamp = problem["lockout_ends_at"]
        .as_str()
        .expect("its end")
        .parse()
        .expect("RFC 3339");
    let left = ends.as_millisecond() - Timestamp::now().as_millisecond();
    let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
    let wait = reply.number("retry-after");
    // Up to a tenth more is told, and the answer was under way for a while.
    let most = left.as_secs_f64() * 1.1 + 5.0;
    #[expect(clippy::cast_precision_loss)]
    let told = wait as f64;
    assert!(
        wait >= 1 && told >= left.as_secs_f64() && told <= most,
        "{reply:?}"
    );
    assert_eq!(
        problem["recommended_backoff"],
        "exponential_with_full_jitter"
    );
    // A count would tell a guesser how many guesses are left.
    assert!(problem.get("penalty_strikes_remaining").is_none());
    Lockout {
        level: problem["penalty_level"].as_u64().expect("a level"),
        left,
    }
}

/// Checks that all slots are taken by attempts under way, and no more than that.
pub(crate) fn is_busy(reply: &Reply) {
    assert_eq!(reply.status, 429, "{reply:?}");
    assert_eq!(kind(reply), "rate-limit-exceeded", "{reply:?}");
    assert_eq!(reply.number("retry-after"), 1, "{reply:?}");
    assert_eq!(reply.header("x-penalty-box-status"), None, "{reply:?}");
}

/// What became of many attempts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) right: usize,
    pub(crate) wrong: usize,
    pub(crate) busy: usize,
    pub(crate) locked: usize,
}

/// Counts the answers.
///
/// # Panics
///
/// When one is neither the upstream's nor a refusal of attempts.
pub(crate) fn tally<'a>(volleys: impl IntoIterator<Item = &'a Volley>) -> Tally {
    let mut tally = Tally::default();
    for shot in volleys.into_iter().flat_map(|volley| &volley.shots) {
        match shot.status {
            200 => tally.right += 1,
            401 => tally.wrong += 1,
            429 if says(shot, "x-penalty-box-status", "Active-Lockout") => tally.locked += 1,
            429 if says(shot, "retry-after", "1") => tally.busy += 1,
            _ => panic!("{shot:?}"),
        }
    }
    tally
}

fn says(shot: &Shot, header: &str, value: &str) -> bool {
    shot.headers.get(header).is_some_and(|found| found == value)
}
