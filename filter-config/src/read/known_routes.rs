//! Which routes there are, for what names them further on.

use crate::{
    nearest::nearest,
    reader::one_of,
    route::{OnStoreFailure, RouteId},
};

/// The route of requests that no other takes.
pub(super) const DEFAULT: &str = "default";

/// What is known of a route, as far as it can be read.
#[derive(Debug)]
pub(super) struct KnownRoute {
    pub(super) name: Option<String>,
    pub(super) on_store_failure: Option<OnStoreFailure>,
}

impl KnownRoute {
    /// One that is no object.
    pub(super) const UNREAD: Self = Self {
        name: None,
        on_store_failure: None,
    };
}

/// All routes that are listed.
#[derive(Debug, Default)]
pub(super) struct KnownRoutes {
    listed: Vec<KnownRoute>,
    /// It is no list: there may be any.
    is_unread: bool,
}

/// Routes that an error names.
const NAMED: usize = 6;

impl KnownRoutes {
    pub(super) fn add(&mut self, route: KnownRoute) {
        self.listed.push(route);
    }

    /// That `routes` cannot be read: if there is not one route, it is no list.
    pub(super) const fn end_unread(&mut self) {
        self.is_unread = self.listed.is_empty();
    }

    /// Whether a route that is listed is called so.
    pub(super) fn has(&self, name: &str) -> bool {
        let mut listed = self.listed.iter();
        listed.any(|route| route.name.as_deref() == Some(name))
    }

    /// The routes of a name; none if there is none. Two can be called `default`.
    pub(super) fn ids(&self, name: &str) -> Vec<RouteId> {
        self.all()
            .filter(|(_, known, _)| *known == Some(name))
            .map(|(id, _, _)| id)
            .collect()
    }

    /// Whether there may be routes of other names.
    pub(super) fn is_partial(&self) -> bool {
        self.is_unread || self.listed.iter().any(|route| route.name.is_none())
    }

    /// What to write for `name`.
    pub(super) fn expected(&self, name: &str) -> String {
        let mut names: Vec<&str> = self.all().filter_map(|(_, name, _)| name).collect();
        names.dedup();
        if names.len() <= 2 * NAMED {
            return format!("a route: {}", one_of(name, names.iter().copied()));
        }
        match nearest(name, names) {
            Some(meant) => format!("the name of a route (did you mean {meant}?)"),
            None => "the name of a route".to_owned(),
        }
    }

    /// Names of those among `routes` (all: `None`) that the local store judges while another fails, and
    /// how many more there are; `None` if there are none.
    pub(super) fn degraded(&self, routes: Option<&[RouteId]>) -> Option<String> {
        let mut degraded = self
            .all()
            .filter(|(id, _, _)| routes.is_none_or(|routes| routes.contains(id)))
            .filter(|(_, _, failure)| *failure == Some(OnStoreFailure::Degraded))
            .filter_map(|(_, name, _)| name);
        let mut named: Vec<&str> = degraded.by_ref().take(NAMED).collect();
        let more = match degraded.count() {
            0 => String::new(),
            more => format!("{more} more"),
        };
        named.extend((!more.is_empty()).then_some(more.as_str()));
        (!named.is_empty()).then(|| named.join(", "))
    }

    fn all(&self) -> impl Iterator<Item = (RouteId, Option<&str>, Option<OnStoreFailure>)> {
        let listed = self.listed.iter();
        let listed = listed.map(|route| (route.name.as_deref(), route.on_store_failure));
        listed
            .chain([(Some(DEFAULT), Some(OnStoreFailure::default()))])
            .enumerate()
            .map(|(index, (name, failure))| (RouteId(index), name, failure))
    }
}
