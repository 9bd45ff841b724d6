//! A configuration made ready for requests: what would otherwise be worked out for each of them.

use std::rc::Rc;

use tollgate_config::{Config, Penalty, StoreKind, Throttle, ThrottleBy, ThrottleId, TierId};

use crate::attempt::{Attempt, Who};
use crate::limit::{bucket::Meter, penalty::Terms};
use crate::store::Ask;
use crate::store::script::Script;

/// The highest level a key's box can reach.
const KEY_MAX_LEVEL: u8 = 3;

/// The highest level a subject's lockout can reach, from anywhere or from one address.
const SUBJECT_MAX_LEVEL: u8 = 2;

/// The highest level an address's lockout can reach.
const ADDRESS_MAX_LEVEL: u8 = 3;

/// The rules of one tier.
#[derive(Debug, Clone, Copy)]
pub struct TierRules {
    /// Limit of the tenant.
    pub tenant: Meter,
    /// Limit of each key.
    pub key: Meter,
    /// Terms of the box.
    pub terms: Terms,
}

/// Configuration and what follows from it.
#[derive(Debug)]
pub struct Rules {
    /// As the operator wrote it.
    pub config: Config,
    /// `ip_limit`.
    pub ip: Option<Meter>,
    /// The anonymous limit.
    pub anonymous: Meter,
    /// Terms of the box of anonymous requests.
    pub anonymous_terms: Terms,
    tiers: Vec<TierRules>,
    /// What a request is by each throttle, whoever sends it.
    attempts: Vec<Attempt>,
    /// How the keys of the store are named.
    script: Script,
}

impl Rules {
    /// The rules of a configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let terms = |penalty: &Penalty, max_level| Terms {
            strikes: penalty.strikes,
            within: penalty.within,
            offense_memory: config.penalty_box.offense_memory,
            levels: config.penalty_box.levels,
            max_level,
        };
        let of_tier = |tier: &tollgate_config::Tier| TierRules {
            tenant: Meter::new(tier.tenant),
            key: Meter::new(tier.key),
            terms: terms(&tier.penalty, KEY_MAX_LEVEL),
        };
        Self {
            ip: config.ip_limit.map(Meter::new),
            anonymous: Meter::new(config.anonymous),
            anonymous_terms: terms(
                &config.anonymous_penalty,
                config.penalty_box.anonymous_max_level,
            ),
            tiers: config.tiers.iter().map(of_tier).collect(),
            attempts: attempts(&config),
            script: match &config.store.kind {
                StoreKind::Local => Script::of(""),
                StoreKind::Redis(redis) => Script::of(&redis.key_prefix),
            },
            config,
        }
    }

    /// Under what name the store has what a request holds.
    #[must_use]
    pub fn member(&self, ask: &Ask) -> String {
        self.script.member(ask)
    }

    /// What a request is by a throttle that counts the attempts of whom; and whether it takes a slot while it is in
    /// flight.
    #[must_use]
    pub fn attempt(&self, id: ThrottleId, who: Who, provisional: bool) -> Option<Attempt> {
        let attempt = self.attempts.get(id.0)?.clone();
        Some(Attempt {
            who,
            provisional,
            ..attempt
        })
    }

    /// The rules of a tier.
    #[must_use]
    pub fn tier(&self, id: TierId) -> Option<&TierRules> {
        self.tiers.get(id.0)
    }
}

fn attempts(config: &Config) -> Vec<Attempt> {
    let [_, second, third] = config.penalty_box.levels;
    let attempt = |(place, throttle): (usize, &Throttle)| {
        // No level is shorter than the one below it.
        let second = second.max(throttle.lockout);
        Attempt {
            throttle: ThrottleId(place),
            name: Rc::from(throttle.name.as_str()),
            who: Who::Ip,
            failures: throttle.failures,
            within: throttle.within,
            levels: [throttle.lockout, second, third.max(second)],
            max_level: match throttle.by {
                ThrottleBy::Ip => ADDRESS_MAX_LEVEL,
                ThrottleBy::Subject | ThrottleBy::SubjectIp => SUBJECT_MAX_LEVEL,
            },
            offense_memory: config.penalty_box.offense_memory,
            provisional: false,
            spares: throttle.by == ThrottleBy::Subject && throttle.spare_known_ips,
            resets: throttle.reset_on_success,
        }
    };
    config
        .auth_throttles
        .iter()
        .enumerate()
        .map(attempt)
        .collect()
}
