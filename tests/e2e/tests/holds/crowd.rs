//! Many clients at once, each of which tries again when it is refused, and some of which crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_e2e::{Ask, Dice, Reply};

/// How they behave.
pub(crate) struct Habits {
    /// How often each tries at most.
    pub(crate) attempts: usize,
    /// How many of a hundred, the first ones, reset their connection at a random moment of some attempt.
    pub(crate) crash: u64,
    /// The time within which they do, in milliseconds.
    pub(crate) crash_within: u64,
}

/// What became of them.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Those who were served.
    pub(crate) served: usize,
    /// Answers other than 200, by status and the last part of the problem's type.
    pub(crate) refused: BTreeMap<(u16, String), usize>,
    /// Those who crashed.
    pub(crate) crashed: usize,
    /// Those whose connection the other side has cut.
    pub(crate) cut: usize,
}

impl Crowd {
    /// How many refusals were of this kind.
    pub(crate) fn refusals(&self, status: u16, kind: &str) -> usize {
        let of = (status, kind.to_owned());
        self.refused.get(&of).copied().unwrap_or(0)
    }
}

enum End {
    Served,
    GaveUp,
    Crashed,
    Cut,
}

/// The last part of a refusal's type. Its wait must be one that clients are told.
pub(crate) fn refusal(reply: &Reply) -> String {
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json"),
        "{reply:?}"
    );
    let wait = reply.number("retry-after");
    assert!((1..=30).contains(&wait), "{reply:?}");
    let problem = reply.json();
    assert_eq!(problem["status"], reply.status);
    assert_eq!(problem["retry_after_seconds"], wait);
    let kind = problem["type"].as_str().unwrap();
    kind.rsplit('/').next().unwrap().to_owned()
}

/// Sends all these requests at once, from a client each.
pub(crate) async fn crowd(asks: Vec<Ask>, habits: Habits) -> Crowd {
    let together = Arc::new(Barrier::new(asks.len()));
    let mut clients = JoinSet::new();
    let Habits {
        attempts,
        crash,
        crash_within,
    } = habits;
    for (seed, ask) in (0..).zip(asks) {
        let together = Arc::clone(&together);
        clients.spawn(async move {
            let mut dice = Dice::new(seed);
            let crashes = seed % 100 < crash;
            let mut refused = Vec::new();
            together.wait().await;
            for _ in 0..attempts {
                if crashes && dice.percent(50) {
                    let moment = tokio::time::sleep(dice.millis(0..crash_within));
                    match ask.clone().reset_when(moment).await {
                        // Refused before it could crash.
                        Ok(Some(429 | 409)) => {}
                        Ok(Some(200)) => return (End::Served, refused),
                        Ok(Some(status)) => panic!("{status}"),
                        Ok(None) => return (End::Crashed, refused),
                        Err(_) => return (End::Cut, refused),
                    }
                } else {
                    match ask.clone().try_send().await {
                        Ok(reply) if reply.status == 200 => return (End::Served, refused),
                        Ok(reply) => refused.push((reply.status, refusal(&reply))),
                        Err(_) => return (End::Cut, refused),
                    }
                }
                // Sooner than it is told: this is about who gets in, not about manners.
                tokio::time::sleep(dice.millis(20..600)).await;
            }
            (End::GaveUp, refused)
        });
    }
    let mut crowd = Crowd::default();
    // As it would for whoever awaits: a client that panics fails the story.
    for (end, refused) in clients.join_all().await {
        match end {
            End::Served => crowd.served += 1,
            End::Crashed => crowd.crashed += 1,
            End::Cut => crowd.cut += 1,
            End::GaveUp => {}
        }
        for refusal in refused {
            *crowd.refused.entry(refusal).or_default() += 1;
        }
    }
    crowd
}
