//! Of auth throttles, and of the routes where credentials are presented.

use std::collections::BTreeSet;

use crate::{
    Config, Limiter, RouteId, Throttle, ThrottleBy,
    reader::{Fields, Path, Reader},
};

pub(super) fn warn(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    config: &Config,
    met: &BTreeSet<RouteId>,
) {
    for (index, route) in config.routes.iter().enumerate() {
        if route.limiter == Limiter::Credential
            && met.contains(&RouteId(index))
            && let Some(message) = of_credentials(config, RouteId(index))
        {
            let path = fields.path.field("routes").index(index).field("limiter");
            reader.warn(&path, message.to_owned());
        }
    }
    for (index, throttle) in config.auth_throttles.iter().enumerate() {
        let path = fields.path.field("auth_throttles").index(index);
        if !met.iter().any(|route| throttle.covers(*route)) {
            let message = "found a throttle that no request meets: its routes are exempt, or earlier ones \
                           take all that they match";
            reader.warn(&path, message.to_owned());
            continue;
        }
        if throttle.by == ThrottleBy::Ip && throttle.subject.is_some() && config.stuffing.is_none()
        {
            let message = "found a subject with by: ip and no stuffing: nothing counts it";
            reader.warn(&path.field("subject"), message.to_owned());
        }
        let [_, second, _] = config.penalty_box.levels;
        if throttle.lockout > second {
            let message = format!(
                "found {}s, more than the {}s of penalty_box.level_2: later lockouts are shorter than the \
                 first",
                throttle.lockout.ceil_secs(),
                second.ceil_secs()
            );
            reader.warn(&path.field("lockout"), message);
        }
        if throttle.routes.is_none() && meets_ordinary_requests(config, met) {
            of_every_route(reader, &path, throttle);
        }
    }
}

/// What is not meant about one that is for every route.
fn of_every_route(reader: &mut Reader<'_>, path: &Path, throttle: &Throttle) {
    if throttle.by != ThrottleBy::Ip {
        let message = "found no routes, so that it is for every one: a request that names no subject is a 400";
        reader.warn(&path.field("routes"), message.to_owned());
    }
    if throttle.provisional == Some(true) {
        let message = format!(
            "found true for every route: a request takes a slot while it is under way, so no more than {} \
             of one {} pass at a time",
            throttle.failures,
            match throttle.by {
                ThrottleBy::Ip => "address",
                ThrottleBy::Subject => "subject",
                ThrottleBy::SubjectIp => "subject from one address",
            }
        );
        reader.warn(&path.field("provisional"), message);
    }
}

/// What is not meant about a route where credentials are presented.
fn of_credentials(config: &Config, route: RouteId) -> Option<&'static str> {
    let throttles = config.auth_throttles.iter();
    let by: Vec<ThrottleBy> = throttles
        .filter(|throttle| throttle.covers(route))
        .map(|throttle| throttle.by)
        .collect();
    if by.is_empty() {
        return config.ip_limit.is_none().then_some(
            "found credential, but neither ip_limit nor an auth throttle for the route: nothing limits it",
        );
    }
    let is_by_subject_only = !by.contains(&ThrottleBy::Ip) && config.stuffing.is_none();
    is_by_subject_only.then_some(
        "found credential with auth throttles by subject only: one address may try as many subjects as it \
         likes, unless there is one by ip as well, or stuffing",
    )
}

/// Whether there are requests that need not present a credential.
fn meets_ordinary_requests(config: &Config, met: &BTreeSet<RouteId>) -> bool {
    let mut routes = met.iter().filter_map(|id| config.routes.get(id.0));
    routes.any(|route| route.limiter == Limiter::Tier)
}
