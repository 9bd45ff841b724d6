//! What servers may take a path for. Where they may read it in two ways, the request is asked for whatever either of
//! them is asked for, as far as both can be: no spelling escapes a limit.

use tollgate_config::{Config, Limiter, Mode, Route, RouteId, path};

/// A route, and which it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'c> {
    pub(super) id: RouteId,
    pub(super) route: Option<&'c Route>,
}

/// The routes of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'c> {
    /// The one that asks for most.
    pub(super) route: Found<'c>,
    /// The other one, where servers may read the path in two ways.
    pub(super) other: Option<Found<'c>>,
    /// Whether the verdict is carried out: if it is on either.
    pub(super) mode: Mode,
    /// Whether the path is exempt, in whichever way servers read it.
    pub(super) is_exempt: bool,
}

impl<'c> Reading<'c> {
    /// The routes of a normal path.
    pub(super) fn of(config: &'c Config, method: &[u8], path: &[u8]) -> Self {
        let read = |path: &[u8]| {
            let (id, route) = config.route(method, path);
            let is_exempt = config.exempt.find(method, path).is_some();
            (Found { id, route }, is_exempt)
        };
        let plain = read(path);
        let (route, other, is_exempt) = match path::other_reading(path).map(|path| read(&path)) {
            None => (plain.0, None, plain.1),
            Some((other, true)) => (plain.0, plain.1.then_some(other), plain.1),
            Some((other, false)) if plain.1 => (other, None, false),
            Some((other, false)) if other.demands() > plain.0.demands() => {
                (other, Some(plain.0), false)
            }
            Some((other, false)) => (plain.0, Some(other), false),
        };
        let mode = |found: Found<'_>| found.route.and_then(|r| r.mode).unwrap_or(config.mode);
        let is_enforced = [Some(route), other]
            .into_iter()
            .flatten()
            .any(|f| mode(f) == Mode::Enforce);
        Self {
            route,
            other,
            mode: if is_enforced {
                Mode::Enforce
            } else {
                Mode::Shadow
            },
            is_exempt,
        }
    }

    /// Every route that some server finds.
    pub(super) fn all(&self) -> impl Iterator<Item = Found<'c>> + use<'c> {
        [Some(self.route), self.other].into_iter().flatten()
    }
}

impl Found<'_> {
    pub(super) fn limiter(&self) -> Limiter {
        self.route.map_or(Limiter::default(), |r| r.limiter)
    }

    /// How much it asks for: a tier's limits before none, then by its price.
    fn demands(&self) -> (bool, u64) {
        let price = self.route.map_or(1, |r| {
            r.cost.when_range.as_ref().map_or(r.cost.base, |w| w.cost).0
        });
        (self.limiter() == Limiter::Tier, price)
    }
}
