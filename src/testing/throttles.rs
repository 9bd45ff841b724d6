//! Throttles of failed credentials, for tests.

use tollgate_config::{Limiter, Millis, RouteId, SubjectSource, Throttle, ThrottleBy};

use super::config;
use crate::rules::Rules;

/// A subject that may be anywhere, in any spelling.
pub(crate) fn anywhere() -> SubjectSource {
    SubjectSource {
        basic: true,
        form: Some("client_id".to_owned()),
        json: Some(vec!["client_id".to_owned()]),
        trim: true,
        lowercase: true,
    }
}

/// A throttle of every route, as it is by default: five failures within a quarter of an hour.
pub(crate) fn throttle(name: &str, by: ThrottleBy) -> Throttle {
    Throttle {
        name: name.to_owned(),
        routes: None,
        by,
        subject: (by != ThrottleBy::Ip).then(anywhere),
        count: vec![401, 403],
        failures: 5,
        within: Millis(900_000),
        lockout: Millis(300_000),
        reset_on_success: by != ThrottleBy::Ip,
        provisional: None,
        spare_known_ips: by == ThrottleBy::Subject,
    }
}

/// The rules of a configuration with throttles, each for the routes of these names (every route where there are
/// none), and with routes where credentials are presented.
pub(crate) fn rules_with(
    json: &str,
    throttles: &[(Throttle, &[&str])],
    credential: &[&str],
) -> Rules {
    let mut config = config(json);
    let names: Vec<String> = config.routes.iter().map(|r| r.name.clone()).collect();
    let id = |name: &&str| {
        let place = names.iter().position(|known| known == name);
        RouteId(place.expect("a route of this name"))
    };
    let throttles = throttles.iter().map(|(throttle, routes)| Throttle {
        routes: (!routes.is_empty()).then(|| routes.iter().map(id).collect()),
        ..throttle.clone()
    });
    config.auth_throttles = throttles.collect();
    for name in credential {
        let RouteId(place) = id(name);
        config.routes[place].limiter = Limiter::Credential;
    }
    Rules::new(config)
}
