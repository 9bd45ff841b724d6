//! A configuration made ready for requests: what would otherwise be worked out for each of them.

use tollgate_config::{Config, Penalty, StoreKind, TierId};

use crate::limit::{bucket::Meter, penalty::Terms};
use crate::store::Ask;
use crate::store::script::Script;

/// The highest level a key's box can reach.
const KEY_MAX_LEVEL: u8 = 3;

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

    /// The rules of a tier.
    #[must_use]
    pub fn tier(&self, id: TierId) -> Option<&TierRules> {
        self.tiers.get(id.0)
    }
}
