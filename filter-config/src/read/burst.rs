//! The bursts of all tiers, which bound what a request can cost.

use crate::{
    limit::Limit,
    reader::{Path, Reader},
    route::OnStoreFailure,
    share::Share,
    units::Points,
};

/// The buckets of all tiers that could be read.
pub(super) struct Bursts {
    buckets: Vec<Bucket>,
    /// What is left of them while the store fails; `None` if it cannot, or if that is unknown.
    share: Option<Share>,
}

struct Bucket {
    /// `tenant bucket of tier growth`.
    name: String,
    limit: Limit,
}

/// Buckets that an error names.
const NAMED: usize = 6;

impl Bursts {
    pub(super) const fn new(share: Option<Share>) -> Self {
        Self {
            buckets: Vec::new(),
            share,
        }
    }

    /// A bucket of a tier, `scope` being `key` or `tenant`.
    pub(super) fn add(&mut self, scope: &str, tier: &str, limit: Limit) {
        self.buckets.push(Bucket {
            name: format!("{scope} bucket of tier {tier}"),
            limit,
        });
    }

    /// What the requests of a route meet.
    pub(super) fn met_by(&self, on_store_failure: Option<OnStoreFailure>) -> Met<'_> {
        Met {
            buckets: &self.buckets,
            share: self
                .share
                .filter(|_| on_store_failure == Some(OnStoreFailure::Degraded)),
        }
    }
}

/// The buckets that the requests of one route meet.
pub(super) struct Met<'b> {
    buckets: &'b [Bucket],
    /// What is left of them while the store fails, where they are met then too.
    share: Option<Share>,
}

impl Met<'_> {
    /// No bucket of a tier.
    pub(super) const NOTHING: Met<'static> = Met {
        buckets: &[],
        share: None,
    };

    /// A bucket never holds more than its burst, so a dearer request can never pass.
    pub(super) fn payable(&self, reader: &mut Reader<'_>, path: &Path, cost: Points) {
        let Some(smallest) = self.smallest(|limit| limit) else {
            return;
        };
        if smallest < cost {
            let small = self.too_small(cost, |limit| limit, |burst, _| format!("{}", burst.0));
            let message = format!(
                "found {}, expected at most {}: it can never pass with the burst of the {small}",
                cost.0, smallest.0
            );
            reader.error(path, message);
        } else if self.unpayable_while_the_store_fails(reader, path, cost) {
            // Said.
        } else if cost > Points(1) && smallest.0 < cost.0.saturating_mul(2) {
            let message = format!(
                "found {}, more than half of the smallest burst, {}: it passes only after a quiet \
                 time",
                cost.0, smallest.0
            );
            reader.warn(path, message);
        }
    }

    fn unpayable_while_the_store_fails(
        &self,
        reader: &mut Reader<'_>,
        path: &Path,
        cost: Points,
    ) -> bool {
        let Some(share) = self.share else {
            return false;
        };
        let left = |limit| share.of(limit);
        let Some(smallest) = self.smallest(left).filter(|smallest| *smallest < cost) else {
            return false;
        };
        let small = self.too_small(cost, left, |burst, whole| {
            format!("{} of {}", burst.0, whole.0)
        });
        let message = format!(
            "found {}, expected at most {}, or on_store_failure: closed, or a greater burst: while \
             the store fails it can never pass with a share of {share} (degraded.share) of the \
             burst of the {small}",
            cost.0, smallest.0
        );
        reader.error(path, message);
        true
    }

    fn smallest(&self, left: impl Fn(Limit) -> Limit) -> Option<Points> {
        let bursts = self.buckets.iter().map(|bucket| left(bucket.limit).burst);
        bursts.min()
    }

    /// The buckets that never hold the cost, each with what `show` makes of its burst (what is
    /// left of it, and the whole).
    fn too_small(
        &self,
        cost: Points,
        left: impl Fn(Limit) -> Limit,
        show: impl Fn(Points, Points) -> String,
    ) -> String {
        let mut small = self
            .buckets
            .iter()
            .map(|bucket| (bucket, left(bucket.limit).burst))
            .filter(|(_, burst)| *burst < cost);
        let named = small.by_ref().take(NAMED);
        let named = named.map(|(bucket, burst)| {
            format!("{} ({})", bucket.name, show(burst, bucket.limit.burst))
        });
        let mut all: Vec<String> = named.collect();
        let more = small.count();
        if more > 0 {
            all.push(format!("buckets of {more} more"));
        }
        all.join(", the ")
    }
}
