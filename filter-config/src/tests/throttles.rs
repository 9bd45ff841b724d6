//! Auth throttles, stuffing, and routes where credentials are presented, value by value.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{no_env, parse};
use crate::{
    Config, ConfigErrors, Limit, Limiter, Millis, Points, RouteId, Seconds, Stuffing,
    SubjectSource, Throttle, ThrottleBy,
};

/// Redis and two routes, the first of which is closed, and one throttle with these fields.
fn document(fields: &Value) -> Value {
    let mut document = json!({
        "store": {"kind": "redis", "upstream": "front"},
        "ip_limit": "9/second",
        "routes": [
            {"name": "login", "match": {"path": "/login"}, "limiter": "credential", "on_store_failure": "closed"},
            {"name": "token", "match": {"path": "/token"}},
        ],
        "auth_throttles": [{"name": "n", "by": "ip", "failures": 5, "within": "1m"}],
    });
    for (name, value) in fields.as_object().unwrap() {
        document["auth_throttles"][0][name] = value.clone();
    }
    document
}

fn read(document: &Value) -> Result<Config, ConfigErrors> {
    parse(&document.to_string())
}

fn of(fields: Value) -> Throttle {
    let config = read(&document(&fields));
    config
        .unwrap_or_else(|errors| panic!("{fields}\n{errors}"))
        .auth_throttles
        .remove(0)
}

fn refused(fields: Value) -> String {
    read(&document(&fields)).unwrap_err().to_string()
}

/// Everything that is warned of in this document.
fn warnings(document: &Value) -> Vec<String> {
    let config = read(document).unwrap_or_else(|errors| panic!("{document}\n{errors}"));
    config.warnings.iter().map(ToString::to_string).collect()
}

fn ids(routes: &[usize]) -> Option<Vec<RouteId>> {
    Some(routes.iter().copied().map(RouteId).collect())
}

#[test]
fn nothing_is_throttled_unless_the_document_says_so() {
    for text in [
        "{}",
        r#"{"auth_throttles": null, "stuffing": null}"#,
        r#"{"auth_throttles": []}"#,
        r#"{"auth_throttles": {}}"#,
    ] {
        let config = parse(text).unwrap();
        assert!(config.auth_throttles.is_empty());
        assert_eq!(config.stuffing, None);
        assert!(config.routes.iter().all(|r| r.limiter == Limiter::Tier));
    }
}

#[test]
fn a_throttle_has_the_defaults_of_the_reference() {
    let by_address = Throttle {
        name: "n".to_owned(),
        routes: None,
        by: ThrottleBy::Ip,
        subject: None,
        count: vec![401, 403],
        failures: 5,
        within: Millis(60_000),
        lockout: Millis(300_000),
        reset_on_success: false,
        provisional: None,
        spare_known_ips: false,
    };
    assert_eq!(of(json!({})), by_address);
    let subject = SubjectSource {
        basic: true,
        ..SubjectSource::default()
    };
    for (by, read, spare_known_ips) in [
        ("subject", ThrottleBy::Subject, true),
        ("subject_ip", ThrottleBy::SubjectIp, false),
    ] {
        assert_eq!(
            of(json!({"by": by, "subject": {"basic": true}})),
            Throttle {
                by: read,
                subject: Some(subject.clone()),
                reset_on_success: true,
                spare_known_ips,
                ..by_address.clone()
            }
        );
    }
}

#[test]
fn the_first_lockout_is_the_boxs_unless_it_is_given() {
    let mut document = document(&json!({}));
    document["penalty_box"] = json!({"level_1": "7m"});
    let lockout = |document: &Value| read(document).unwrap().auth_throttles[0].lockout;
    assert_eq!(lockout(&document), Millis(420_000));
    document["auth_throttles"][0]["lockout"] = json!("2s");
    assert_eq!(lockout(&document), Millis(2000));
}

#[test]
fn every_field_is_read() {
    let read = of(json!({
        "name": "a_name-of-24-characters_",
        "routes": ["default", "login"],
        "by": "subject",
        "subject": {"basic": false, "form": "user[name]", "json": "/a~1b/0", "normalize": ["lowercase", "trim"]},
        "count": [422, 400, 499],
        "failures": 100,
        "within": "31d",
        "lockout": 1,
        "reset_on_success": false,
        "provisional": false,
        "spare_known_ips": false,
    }));
    let expected = Throttle {
        name: "a_name-of-24-characters_".to_owned(),
        routes: ids(&[0, 2]),
        by: ThrottleBy::Subject,
        subject: Some(SubjectSource {
            basic: false,
            form: Some("user[name]".to_owned()),
            json: Some(vec!["a/b".to_owned(), "0".to_owned()]),
            trim: true,
            lowercase: true,
        }),
        count: vec![400, 422, 499],
        failures: 100,
        within: Millis(2_678_400_000),
        lockout: Millis(1000),
        reset_on_success: false,
        provisional: Some(false),
        spare_known_ips: false,
    };
    assert_eq!(read, expected);
    let (login, token, default) = (RouteId(0), RouteId(1), RouteId(2));
    assert!(read.covers(login) && !read.covers(token) && read.covers(default));
}

#[test]
fn it_is_for_routes_by_their_names() {
    assert_eq!(of(json!({"routes": ["token"]})).routes, ids(&[1]));
    assert_eq!(
        of(json!({"routes": ["token", "${UNSET:-login}"]})).routes,
        ids(&[0, 1])
    );
    let everywhere = of(json!({"routes": null}));
    assert!((0..3).all(|route| everywhere.covers(RouteId(route))));
    for (routes, error) in [
        (json!([]), "routes: found an empty list, "),
        (json!({}), "routes: found an empty list, "),
        (json!("login"), "routes: found \"login\", expected a list "),
        (json!([null]), "routes[0]: found null, "),
        (
            json!(["login", "Login"]),
            "routes[1]: found \"Login\", expected a route: \"login\", \"token\" or \"default\" (did you mean \
             login?)",
        ),
        (
            json!(["login", "token", "login"]),
            "routes[2]: found \"login\" again, ",
        ),
    ] {
        let found = refused(json!({ "routes": routes }));
        let expected = format!("auth_throttles[0].{error}");
        assert!(found.starts_with(&expected), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

/// An operator's own route may be called `default` as well.
#[test]
fn two_routes_called_default_are_meant_both() {
    let mut document = document(&json!({"routes": ["default"]}));
    document["routes"][0]["name"] = "default".into();
    let config = read(&document).unwrap();
    assert_eq!(config.auth_throttles[0].routes, ids(&[0, 2]));
}

#[test]
fn a_route_that_cannot_be_read_makes_no_second_error() {
    for (routes, errors) in [
        (json!("login"), 1),
        (json!([5]), 1),
        (
            json!([{"match": {"path": "/login"}}, {"name": "token", "match": {"path": "/token"}}]),
            1,
        ),
        (
            json!([{"name": "two words", "match": {"path": "/login"}}]),
            1,
        ),
        // This name is known, though not the route.
        (
            json!([{"name": "login", "match": {"path": "login"}, "limiter": 5}]),
            2,
        ),
    ] {
        let mut document = document(&json!({"routes": ["login"]}));
        document["routes"] = routes;
        let error = read(&document).unwrap_err();
        assert_eq!(error.0.len(), errors, "{error}");
        assert!(error.0.iter().all(|e| e.path.starts_with("routes")));
    }
    // Nor does a throttle that cannot be read.
    let mut document = document(&json!({"by": "anybody"}));
    document["stuffing"] = json!({"failures": 5, "subjects": 5, "within": 60});
    let error = read(&document).unwrap_err();
    assert_eq!(error.0.len(), 1, "{error}");
}

#[test]
fn many_routes_are_not_all_told() {
    let mut document = document(&json!({"routes": ["rout7"], "failures": 101}));
    let routes = (0..30).map(|n| {
        json!({"name": format!("route{n}"), "match": {"path": format!("/{n}")}, "on_store_failure": "closed"})
    });
    document["routes"] = routes.collect();
    let found = read(&document).unwrap_err().to_string();
    let expected = "found \"rout7\", expected the name of a route (did you mean route7?)";
    assert_eq!(found, format!("auth_throttles[0].routes[0]: {expected}"));
    document["auth_throttles"][0]["routes"] = json!(["nothing like them"]);
    let found = read(&document).unwrap_err().to_string();
    assert!(found.ends_with("expected the name of a route"), "{found}");
    document["auth_throttles"][0]["routes"] = Value::Null;
    for route in document["routes"].as_array_mut().unwrap() {
        route["on_store_failure"] = "degraded".into();
    }
    let found = read(&document).unwrap_err().to_string();
    let named = "route0, route1, route2, route3, route4, route5, 25 more, which";
    assert!(found.contains(named), "{found}");
}

#[test]
fn a_name_is_short_and_given_once() {
    for name in [
        json!(""),
        json!("a b"),
        json!("a_name_of_25_characters_xx"),
        json!(5),
        json!(null),
    ] {
        let error = refused(json!({ "name": name }));
        assert!(
            error.starts_with("auth_throttles[0].name: found "),
            "{error}"
        );
    }
    let mut document = document(&json!({}));
    let same = document["auth_throttles"][0].clone();
    document["auth_throttles"]
        .as_array_mut()
        .unwrap()
        .push(same);
    let error = read(&document).unwrap_err().to_string();
    assert!(
        error.starts_with("auth_throttles[1].name: found \"n\", the name of an earlier throttle"),
        "{error}"
    );
}

#[test]
fn a_subject_is_named_somewhere() {
    let subject = |subject: Value| of(json!({"by": "subject", "subject": subject})).subject;
    for (written, basic, form, json) in [
        (json!({"basic": true}), true, None, None),
        (
            json!({"form": "u", "basic": "${UNSET:-false}"}),
            false,
            Some("u"),
            None,
        ),
        (json!({"json": "/u", "form": null}), false, None, Some("u")),
        (
            json!({"basic": true, "form": "f", "json": "/j"}),
            true,
            Some("f"),
            Some("j"),
        ),
    ] {
        let expected = SubjectSource {
            basic,
            form: form.map(str::to_owned),
            json: json.map(|name: &str| vec![name.to_owned()]),
            trim: false,
            lowercase: false,
        };
        assert_eq!(subject(written), Some(expected));
    }
    for by in ["subject", "subject_ip", "ip"] {
        for written in [
            json!({}),
            json!({"basic": false}),
            json!({"normalize": ["trim"]}),
        ] {
            let error = refused(json!({"by": by, "subject": written}));
            assert_eq!(
                error,
                "auth_throttles[0].subject: found none of basic, form, json, expected at least one of them"
            );
        }
        // One that cannot be read is there.
        for (written, path) in [
            (json!({"basic": 1}), "basic"),
            (json!({"form": ""}), "form"),
            (json!({"json": "u"}), "json"),
            (json!({"json": ""}), "json"),
            (json!({"basic": true, "normalize": "trim"}), "normalize"),
            (
                json!({"basic": true, "normalize": ["upper"]}),
                "normalize[0]",
            ),
            (
                json!({"basic": true, "normalize": ["trim", "trim"]}),
                "normalize[1]",
            ),
        ] {
            let error = refused(json!({"by": by, "subject": written}));
            let path = format!("auth_throttles[0].subject.{path}: found ");
            assert!(error.starts_with(&path), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn who_is_counted_by_subject_has_one() {
    for by in ["subject", "subject_ip"] {
        let error = refused(json!({ "by": by }));
        assert!(
            error.starts_with("auth_throttles[0].subject: found nothing, "),
            "{error}"
        );
    }
    assert_eq!(of(json!({"by": "ip"})).subject, None);
    // Unless it cannot be read who is counted.
    assert_eq!(refused(json!({"by": 5})).lines().count(), 1);
}

#[test]
fn only_who_is_counted_from_anywhere_has_addresses_to_spare() {
    let spared = |by: &str, spared: bool| json!({"by": by, "subject": {"basic": true}, "spare_known_ips": spared});
    assert!(of(spared("subject", true)).spare_known_ips);
    for by in ["subject", "ip", "subject_ip"] {
        assert!(!of(spared(by, false)).spare_known_ips);
    }
    for by in ["ip", "subject_ip"] {
        let error = refused(spared(by, true));
        let expected = format!("auth_throttles[0].spare_known_ips: found true with by: {by}, ");
        assert!(error.starts_with(&expected), "{error}");
    }
    assert_eq!(refused(spared("nobody", true)).lines().count(), 1);
}

#[test]
fn failures_are_statuses_of_the_clients() {
    for (count, expected) in [
        (json!([401]), vec![401]),
        (json!([499, "${UNSET:-400}"]), vec![400, 499]),
    ] {
        assert_eq!(of(json!({ "count": count })).count, expected);
    }
    for count in [
        json!([]),
        json!(401),
        json!([399]),
        json!([500]),
        json!([401, 401]),
        json!(["401"]),
        json!([200]),
    ] {
        let error = refused(json!({ "count": count }));
        assert!(error.starts_with("auth_throttles[0].count"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// While Redis fails, the local store judges the routes that are not closed.
#[test]
fn the_local_store_counts_a_hundred_failures() {
    let with = |store: &str, routes: Value, failures: u32| {
        let mut document = document(&json!({"routes": routes, "failures": failures}));
        if store == "local" {
            document["store"] = json!({"kind": "local"});
        }
        read(&document)
    };
    for (store, routes, most) in [
        ("redis", json!(["login"]), 1000),
        ("redis", json!(["login", "token"]), 100),
        ("redis", json!(["default"]), 100),
        ("redis", json!(null), 100),
        ("local", json!(["login"]), 100),
        ("local", json!(null), 100),
    ] {
        let least = with(store, routes.clone(), 1).unwrap();
        assert_eq!(least.auth_throttles[0].failures, 1);
        assert!(with(store, routes.clone(), most).is_ok(), "{store}");
        let error = with(store, routes.clone(), most + 1)
            .unwrap_err()
            .to_string();
        let expected = format!(
            "auth_throttles[0].failures: found {}, expected a whole number of failures, at most {most}",
            most + 1
        );
        assert!(error.starts_with(&expected), "{error}");
        assert!(with(store, routes, 0).is_err());
    }
    // Which store it is, and which routes, cannot be known.
    let mut document = document(&json!({"failures": 1000}));
    document["store"]["kind"] = "rdis".into();
    assert_eq!(read(&document).unwrap_err().0.len(), 1);
    let error = refused(json!({"failures": 1000, "routes": ["logn"]}));
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn windows_and_lockouts_are_a_second_to_a_month() {
    for field in ["within", "lockout"] {
        for (value, expected) in [
            (json!(1), 1000),
            (json!("1500ms"), 1500),
            (json!("31d"), 2_678_400_000),
            (json!("${UNSET:-20}"), 20_000),
        ] {
            let read = of(json!({ field: value }));
            let read = if field == "within" {
                read.within
            } else {
                read.lockout
            };
            assert_eq!(read, Millis(expected), "{field}");
        }
        for value in [
            json!(0),
            json!("999ms"),
            json!("2678400001ms"),
            json!("5"),
            json!(true),
        ] {
            let error = refused(json!({ field: value }));
            let expected = format!("auth_throttles[0].{field}: found ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}

#[test]
fn there_are_at_most_32() {
    let all = |count: usize| {
        let throttles = (0..count)
            .map(|n| json!({"name": format!("t{n}"), "by": "ip", "failures": 1, "within": 1}));
        json!({"auth_throttles": throttles.collect::<Value>()})
    };
    assert_eq!(read(&all(32)).unwrap().auth_throttles.len(), 32);
    let error = read(&all(33)).unwrap_err().to_string();
    assert_eq!(
        error,
        "auth_throttles: found 33 throttles, expected at most 32"
    );
}

/// A document with this stuffing, and a throttle that names subjects or does not.
fn stuffing(fields: &Value, has_subjects: bool) -> Result<Config, ConfigErrors> {
    let subject = has_subjects.then(|| json!({"basic": true}));
    let mut document = document(&json!({ "subject": subject }));
    document["stuffing"] = fields.clone();
    read(&document)
}

#[test]
fn stuffing_is_so_many_failures_of_so_many_subjects() {
    for (failures, subjects) in [(1, 1), (500, 50), (1_000_000, 1_000_000)] {
        let fields = json!({"failures": failures, "subjects": subjects, "within": "10m"});
        let expected = Stuffing {
            failures,
            subjects,
            within: Millis(600_000),
        };
        assert_eq!(stuffing(&fields, true).unwrap().stuffing, Some(expected));
    }
    for (fields, path) in [
        (json!({"subjects": 5, "within": 1}), "failures"),
        (json!({"failures": 5, "within": 1}), "subjects"),
        (json!({"failures": 5, "subjects": 5}), "within"),
        (
            json!({"failures": 0, "subjects": 5, "within": 1}),
            "failures",
        ),
        (
            json!({"failures": 1_000_001, "subjects": 5, "within": 1}),
            "failures",
        ),
        (
            json!({"failures": 5, "subjects": 0, "within": 1}),
            "subjects",
        ),
        (
            json!({"failures": 5, "subjects": 6, "within": 1}),
            "subjects",
        ),
        (
            json!({"failures": 5, "subjects": 5, "within": "32d"}),
            "within",
        ),
        (
            json!({"failures": 5, "subjects": 5, "within": 1, "lockout": 1}),
            "lockout",
        ),
    ] {
        let error = stuffing(&fields, true).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("stuffing.{path}: found ")),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn stuffing_needs_somebody_to_name_subjects() {
    let fields = json!({"failures": 500, "subjects": 50, "within": "10m"});
    let error = stuffing(&fields, false).unwrap_err().to_string();
    assert!(
        error.starts_with("stuffing: found stuffing but no auth throttle with a subject"),
        "{error}"
    );
}

/// The route `login` with these fields.
fn login(fields: &Value) -> Result<Config, ConfigErrors> {
    let mut document = document(&json!({"routes": ["login"]}));
    document["tiers"] = json!({"t": {
        "tenant": "9/minute", "key": "9/minute",
        "leases": {"k": 1}, "quotas": {"k": {"requests": 1, "per": 1}},
    }});
    document["routes"][0]["on_store_failure"] = Value::Null;
    for (name, value) in fields.as_object().unwrap() {
        document["routes"][0][name] = value.clone();
    }
    read(&document)
}

#[test]
fn a_route_says_which_limits_it_meets() {
    for (limiter, expected) in [
        (json!("credential"), Limiter::Credential),
        (json!("tier"), Limiter::Tier),
        (json!(null), Limiter::Tier),
        (json!("${UNSET:-credential}"), Limiter::Credential),
    ] {
        let config = login(&json!({ "limiter": limiter })).unwrap();
        assert_eq!(config.routes[0].limiter, expected);
        assert_eq!(config.routes[1].limiter, Limiter::Tier);
    }
    for limiter in [json!("none"), json!(false), json!(5)] {
        // Neither is told by its cost, nor by what it holds.
        let error = login(&json!({"limiter": limiter, "cost": 10, "quota": "k"})).unwrap_err();
        assert_eq!(error.0.len(), 1, "{error}");
        assert_eq!(error.0[0].path, "routes[0].limiter");
    }
}

#[test]
fn where_nobody_is_known_nobody_holds_anything() {
    for (field, value, what) in [
        ("lease", json!({"kind": "k"}), "a lease"),
        ("lock", json!({"by": {"query": "id"}}), "a lock"),
        ("quota", json!("k"), "a quota"),
    ] {
        let fields = json!({field: value, "hold_on": (field != "quota").then_some([202])});
        let error = login(&fields).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "routes[0].{field}: found {what} with limiter: credential, expected one or the other: nobody is \
                 known yet where credentials are presented"
            )
        );
    }
}

#[test]
fn a_cost_where_nobody_pays_is_probably_not_meant() {
    for (cost, is_warned) in [
        (json!(null), false),
        (json!(1), false),
        (json!({"base": 1}), false),
        (json!(2), true),
        // More than any bucket holds, and none is met.
        (json!(1000), true),
        (
            json!({"when_range": {"from": "a", "to": "b", "longer_than": 1, "cost": 10}}),
            true,
        ),
    ] {
        let config = login(&json!({ "cost": cost })).unwrap();
        let paths = config.warnings.iter().map(|warning| warning.path.as_str());
        let warned = paths.filter(|path| path.starts_with("routes[0].cost"));
        assert_eq!(warned.count(), usize::from(is_warned), "{cost}");
    }
}

#[test]
fn a_throttle_that_no_request_meets_is_probably_not_meant() {
    let warned = |exempt: Value, routes: Value| {
        let mut document = document(&json!({ "routes": routes }));
        document["exempt"] = exempt;
        // The first takes all that this one does.
        let taken = json!({"name": "taken", "match": {"path": "/login"}});
        document["routes"].as_array_mut().unwrap().push(taken);
        let warnings = warnings(&document);
        warnings.iter().any(|warning| {
            warning.starts_with("auth_throttles[0]: found a throttle that no request")
        })
    };
    for (exempt, routes, expected) in [
        (json!([]), json!(null), false),
        (json!([]), json!(["login"]), false),
        (json!([]), json!(["taken"]), true),
        (json!([]), json!(["taken", "default"]), false),
        (json!(["/login"]), json!(["login", "taken"]), true),
        (json!(["/login"]), json!(["login", "token"]), false),
        (json!(["/login/*"]), json!(["login"]), true),
        (json!(["/login/x"]), json!(["login"]), false),
        (json!(["/*"]), json!(["default"]), true),
        (json!(["/*"]), json!(null), true),
    ] {
        assert_eq!(
            warned(exempt.clone(), routes.clone()),
            expected,
            "{exempt} {routes}"
        );
    }
}

#[test]
fn a_route_of_credentials_that_nothing_limits_is_probably_not_meant() {
    let by = |by: &str| json!({"routes": ["login"], "by": by, "subject": {"basic": true}});
    let by_subject = by("subject");
    let by_both = by("subject_ip");
    let for_token = json!({"routes": ["token"]});
    let stuffing = json!({"failures": 5, "subjects": 5, "within": 1});
    for (fields, ip_limit, stuffing, warned) in [
        (json!({}), json!(null), json!(null), None),
        (
            for_token.clone(),
            json!(null),
            json!(null),
            Some("nothing limits it"),
        ),
        (for_token, json!("9/second"), json!(null), None),
        (
            by_subject.clone(),
            json!("9/second"),
            json!(null),
            Some("as many subjects as it likes"),
        ),
        (
            by_both,
            json!("9/second"),
            json!(null),
            Some("as many subjects as it likes"),
        ),
        (by_subject, json!("9/second"), stuffing, None),
    ] {
        let mut document = document(&fields);
        document["ip_limit"] = ip_limit;
        document["stuffing"] = stuffing;
        let warnings = warnings(&document);
        let of_login: Vec<&String> = warnings
            .iter()
            .filter(|warning| warning.starts_with("routes[0].limiter: found credential"))
            .collect();
        match warned {
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(what) => assert!(
                matches!(of_login.as_slice(), [one] if one.contains(what)),
                "{warnings:?}"
            ),
        }
    }
}

#[test]
fn settings_of_throttles_that_are_probably_not_meant() {
    let subject = json!({"basic": true});
    for (fields, path) in [
        (json!({"subject": subject}), Some("subject")),
        (json!({"lockout": "1h"}), None),
        (json!({"lockout": "3601s"}), Some("lockout")),
        (json!({"provisional": false}), None),
        (json!({"provisional": true}), Some("provisional")),
        (json!({"provisional": true, "routes": ["token"]}), None),
        (json!({"provisional": true, "routes": ["login"]}), None),
        (json!({"by": "subject", "subject": subject}), Some("routes")),
        (
            json!({"by": "subject_ip", "subject": subject}),
            Some("routes"),
        ),
        (
            json!({"by": "subject", "subject": subject, "routes": ["token"]}),
            None,
        ),
    ] {
        let mut document = document(&fields);
        // Of which none is by subject only.
        document["routes"][0]["limiter"] = "tier".into();
        let warnings = warnings(&document);
        match path {
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(path) => {
                let path = format!("auth_throttles[0].{path}: found ");
                assert!(
                    matches!(warnings.as_slice(), [one] if one.starts_with(&path)),
                    "{warnings:?}"
                );
            }
        }
    }
}

#[test]
fn the_environment_fills_every_number_and_rate() {
    const ADR: &str = include_str!("../../examples/valid/adr-018.yaml");
    let read = |env: &dyn Fn(&str) -> Option<String>| {
        let document = serde_yaml_ng::Deserializer::from_str(ADR);
        let config = Config::deserialize(document, env).unwrap();
        assert!(config.warnings.is_empty());
        let throttle = config.auth_throttles[0].clone();
        let [_, second, third] = config.penalty_box.levels;
        assert_eq!((second, third), (throttle.lockout, throttle.lockout));
        assert_eq!(config.ip_limit, Some(config.anonymous));
        (config.anonymous, throttle)
    };
    let limit = |points, per| Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(points),
    };
    let (rate, throttle) = read(&no_env);
    assert_eq!(rate, limit(60, 60));
    let adr = Throttle {
        name: "auth".to_owned(),
        routes: None,
        by: ThrottleBy::Ip,
        subject: None,
        count: vec![401],
        failures: 5,
        within: Millis(60_000),
        lockout: Millis(300_000),
        reset_on_success: true,
        provisional: None,
        spare_known_ips: false,
    };
    assert_eq!(throttle, adr);
    let (rate, throttle) = read(&|name| {
        let value = match name {
            "AGENTIC_RATE_LIMIT_DEFAULT" => "1000/hour",
            "AGENTIC_AUTH_LOCKOUT_WINDOW_SECONDS" => "30",
            "AGENTIC_AUTH_LOCKOUT_THRESHOLD" => "3",
            "AGENTIC_AUTH_LOCKOUT_DURATION_SECONDS" => "7200",
            name => panic!("{name} is no variable of the document it is named after"),
        };
        Some(value.to_owned())
    });
    assert_eq!(rate, limit(1000, 3600));
    let filled = Throttle {
        failures: 3,
        within: Millis(30_000),
        lockout: Millis(7_200_000),
        ..adr
    };
    assert_eq!(throttle, filled);
    let strings = json!({
        "by": "${UNSET:-subject}",
        "subject": {"basic": "${UNSET:-true}"},
        "count": ["${UNSET:-402}"],
        "provisional": "${UNSET:-true}",
        "reset_on_success": "${UNSET:-false}",
        "routes": ["${UNSET:-login}"],
    });
    let filled = of(strings);
    assert_eq!((filled.by, filled.count), (ThrottleBy::Subject, vec![402]));
    assert_eq!(
        (filled.provisional, filled.reset_on_success),
        (Some(true), false)
    );
}

/// What may stand in a field, and what may not.
fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1_i32..1200).prop_map(Value::from),
        prop::sample::select(vec![
            json!("ip"),
            json!("subject"),
            json!("subject_ip"),
            json!("1m"),
            json!("a"),
            json!(["login"]),
            json!(["default", "token"]),
            json!([]),
            json!([401]),
            json!([403, 200]),
            json!({"basic": true}),
            json!({"form": "u", "json": "/u", "normalize": ["trim"]}),
            json!({"basic": false}),
            json!({}),
        ]),
        any::<String>().prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn any_throttle_is_read_or_refused_by_its_path(
        fields in prop::collection::btree_map(
            prop::sample::select(vec![
                "name", "routes", "by", "subject", "count", "failures", "within", "lockout",
                "reset_on_success", "provisional", "spare_known_ips",
            ]),
            values(),
            0..5,
        ),
    ) {
        let fields = serde_json::to_value(&fields).unwrap();
        match read(&document(&fields)) {
            Ok(config) => {
                let throttle = &config.auth_throttles[0];
                prop_assert!((1..=1000).contains(&throttle.failures));
                prop_assert!(throttle.failures <= 100 || throttle.routes == ids(&[0]));
                prop_assert!(throttle.by == ThrottleBy::Ip || throttle.subject.is_some());
                prop_assert!(throttle.by == ThrottleBy::Subject || !throttle.spare_known_ips);
                prop_assert!(!throttle.count.is_empty());
            }
            Err(errors) => {
                for error in errors.0 {
                    prop_assert!(error.path.starts_with("auth_throttles[0]."), "{error}");
                }
            }
        }
    }
}
