//! Leases, locks and quotas: what tiers grant and routes ask for, value by value.

use serde_json::{Value, json};

use super::{no_env, parse};
use crate::{
    Config, ConfigErrors, Lease, Lock, LockBy, Millis, OnAbort, OnStoreFailure, Quota, Route, Slots,
};

/// Two tiers, the second of which is less, and one route with these fields.
fn document(route: &Value) -> Value {
    let mut document = json!({
        "tiers": {
            "a": {"tenant": "9/second", "key": "9/second",
                  "leases": {"export": 2, "import": 1}, "quotas": {"export": {"requests": 3, "per": 60}}},
            "b": {"tenant": "9/second", "key": "9/second", "leases": {"export": 1}},
        },
        "routes": [{"name": "r", "match": {"path": "/v1/{ledger}/x/{entry}/*"}, "on_store_failure": "closed"}],
    });
    for (name, value) in route.as_object().unwrap() {
        document["routes"][0][name] = value.clone();
    }
    document
}

fn read(document: &Value) -> Result<Config, ConfigErrors> {
    parse(&document.to_string())
}

fn route(fields: Value) -> Route {
    let config = read(&document(&fields));
    config
        .unwrap_or_else(|errors| panic!("{fields}\n{errors}"))
        .routes
        .remove(0)
}

fn refused(fields: Value) -> String {
    read(&document(&fields)).unwrap_err().to_string()
}

/// A tier of this store with these leases and quotas.
fn tier(store: &str, leases: Value, quotas: Value) -> Result<Config, ConfigErrors> {
    let tier = json!({"tenant": "9/second", "key": "9/second", "leases": leases, "quotas": quotas});
    let mut document = json!({"store": {"kind": store}, "tiers": {"t": tier}});
    if store == "redis" {
        document["store"]["upstream"] = "front".into();
    }
    read(&document)
}

#[test]
fn a_route_holds_nothing_unless_it_says_so() {
    let config = read(&document(
        &json!({"lease": null, "lock": null, "quota": null, "hold_on": null}),
    ))
    .unwrap();
    for route in &config.routes {
        assert_eq!(
            (&route.lease, &route.lock, &route.quota),
            (&None, &None, &None)
        );
        assert!(route.hold_on.is_empty());
    }
    assert_eq!(config.routes.len(), 2);
}

#[test]
fn tiers_keep_their_kinds_in_order() {
    let config = read(&document(&json!({}))).unwrap();
    let leases = vec![
        ("export".to_owned(), Slots(2)),
        ("import".to_owned(), Slots(1)),
    ];
    assert_eq!(config.tiers[0].leases, leases);
    let quota = Quota {
        requests: 3,
        per: Millis(60_000),
    };
    assert_eq!(config.tiers[0].quotas, [("export".to_owned(), quota)]);
    assert!(config.tiers[1].quotas.is_empty());
}

#[test]
fn what_a_route_holds_has_the_defaults_of_the_reference() {
    let read = route(json!({"lease": {"kind": "export"}, "lock": {"by": {"query": "id"}}}));
    let ttl = Millis(900_000);
    assert_eq!(
        read.lease,
        Some(Lease {
            kind: "export".to_owned(),
            ttl,
            on_abort: OnAbort::Release,
        })
    );
    assert_eq!(
        read.lock,
        Some(Lock {
            by: LockBy::Query("id".to_owned()),
            ttl,
            on_abort: OnAbort::Hold,
        })
    );
}

#[test]
fn the_nearest_on_abort_wins() {
    use OnAbort::{Hold, Release};
    for (of_route, of_lease, of_lock, lease, lock) in [
        (None, None, None, Release, Hold),
        (Some("hold"), None, None, Hold, Hold),
        (Some("release"), None, None, Release, Release),
        (Some("hold"), Some("release"), None, Release, Hold),
        (Some("release"), None, Some("hold"), Release, Hold),
        (None, Some("hold"), Some("release"), Hold, Release),
    ] {
        let read = route(json!({
            "on_abort": of_route,
            "lease": {"kind": "export", "on_abort": of_lease},
            "lock": {"by": {"query": "id"}, "on_abort": of_lock},
        }));
        let found = (
            read.lease.map(|l| l.on_abort),
            read.lock.map(|l| l.on_abort),
        );
        assert_eq!(
            found,
            (Some(lease), Some(lock)),
            "{of_route:?} {of_lease:?} {of_lock:?}"
        );
    }
}

#[test]
fn a_resource_is_named_in_one_of_four_ways() {
    for (by, expected) in [
        (
            json!({"header": "X-Ledger-Id"}),
            LockBy::Header("x-ledger-id".to_owned()),
        ),
        (
            json!({"query": "ledger[id]"}),
            LockBy::Query("ledger[id]".to_owned()),
        ),
        (
            json!({"path": "entry"}),
            LockBy::Path {
                name: "entry".to_owned(),
                segment: 3,
            },
        ),
        (
            json!({"json": "/id", "path": null}),
            LockBy::Json(vec!["id".to_owned()]),
        ),
    ] {
        let lock = route(json!({ "lock": {"by": by} })).lock;
        assert_eq!(lock.map(|lock| lock.by), Some(expected));
    }
    for (by, error) in [
        (
            json!({}),
            "routes[0].lock.by: found none of header, query, path, json, ",
        ),
        (
            json!({"header": "x", "path": "ledger", "json": "/a"}),
            "routes[0].lock.by: found header and path and json, expected one of them",
        ),
        (
            json!({"header": "x-tollgate-fence"}),
            "routes[0].lock.by.header: found ",
        ),
        (json!({"path": "{entry}"}), "routes[0].lock.by.path: found "),
        (json!({"path": "Entry"}), "routes[0].lock.by.path: found "),
        (json!({"path": 3}), "routes[0].lock.by.path: found 3, "),
        (
            json!({"json": ["id"]}),
            "routes[0].lock.by.json: found a list, ",
        ),
    ] {
        let found = refused(json!({ "lock": {"by": by} }));
        assert!(found.starts_with(error), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

/// RFC 6901, section 5; `""`, the whole document, is no name of a resource.
#[test]
fn a_json_pointer_is_read_as_its_specification_says() {
    for (pointer, tokens) in [
        ("/foo", vec!["foo"]),
        ("/foo/0", vec!["foo", "0"]),
        ("/", vec![""]),
        ("/a~1b", vec!["a/b"]),
        ("/c%d", vec!["c%d"]),
        ("/k\"l", vec!["k\"l"]),
        ("/ ", vec![" "]),
        ("/m~0n", vec!["m~n"]),
        ("/~01", vec!["~1"]),
        ("/~10", vec!["/0"]),
        ("/a//é~0/", vec!["a", "", "é~", ""]),
        ("${UNSET:-/id}", vec!["id"]),
    ] {
        let lock = route(json!({ "lock": {"by": {"json": pointer}} })).lock;
        let tokens = tokens.into_iter().map(str::to_owned).collect();
        assert_eq!(
            lock.map(|lock| lock.by),
            Some(LockBy::Json(tokens)),
            "{pointer}"
        );
    }
    for pointer in [
        "", "id", "#/id", "$.id", "/~", "/a~", "/~2", "/~~0", "/~é", "/a/~/b",
    ] {
        let error = refused(json!({ "lock": {"by": {"json": pointer}} }));
        assert!(
            error.starts_with("routes[0].lock.by.json: found "),
            "{pointer}: {error}"
        );
    }
}

#[test]
fn a_ttl_is_a_second_to_a_month() {
    for (ttl, expected) in [
        (json!(1), 1000),
        (json!("1500ms"), 1500),
        (json!("31d"), 2_678_400_000),
        (json!("${UNSET:-20}"), 20_000),
    ] {
        let read = route(json!({
            "lease": {"kind": "export", "ttl": ttl}, "lock": {"by": {"query": "id"}, "ttl": ttl},
        }));
        assert_eq!(read.lease.map(|lease| lease.ttl), Some(Millis(expected)));
        assert_eq!(read.lock.map(|lock| lock.ttl), Some(Millis(expected)));
    }
    for ttl in [
        json!(0),
        json!("999ms"),
        json!("2678400001ms"),
        json!(-1),
        json!("15"),
        json!(true),
    ] {
        let error = refused(json!({"lease": {"kind": "export", "ttl": ttl}}));
        assert!(
            error.starts_with("routes[0].lease.ttl: found "),
            "{ttl}: {error}"
        );
    }
}

#[test]
fn statuses_are_kept_in_order_and_each_once() {
    let held = |hold_on: Value| json!({"lease": {"kind": "export"}, "hold_on": hold_on});
    let statuses = json!([599, 202.0, 200, "${UNSET:-201}"]);
    assert_eq!(route(held(statuses)).hold_on, [200, 201, 202, 599]);
    assert!(route(held(json!([]))).hold_on.is_empty());
    assert!(route(held(json!({}))).hold_on.is_empty());
    for statuses in [
        json!([199]),
        json!([600]),
        json!([202.5]),
        json!(["202"]),
        json!([null]),
        json!(202),
    ] {
        let error = refused(held(statuses.clone()));
        assert!(
            error.starts_with("routes[0].hold_on"),
            "{statuses}: {error}"
        );
    }
    assert_eq!(
        refused(held(json!([202, 201, 202, 202]))),
        "routes[0].hold_on[2]: found 202 again, expected each status once\n\
         routes[0].hold_on[3]: found 202 again, expected each status once"
    );
}

#[test]
fn what_says_how_long_something_is_held_needs_something_that_is_held() {
    for fields in [
        json!({"hold_on": [202]}),
        json!({"hold_on": []}),
        json!({"on_abort": "hold"}),
        json!({"on_abort": "hold", "quota": "export"}),
    ] {
        let error = refused(fields.clone());
        assert!(
            error.contains("belongs to lease and lock"),
            "{fields}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{fields}: {error}");
    }
    // Even where it cannot be read.
    let error = refused(json!({"lease": 5, "hold_on": [202], "on_abort": "hold"}));
    assert_eq!(
        error,
        "routes[0].lease: found 5, expected an object of kind, ttl, on_abort"
    );
}

#[test]
fn a_route_that_needs_the_store_is_closed_when_it_fails() {
    let lock = json!({"by": {"query": "id"}});
    for (field, value) in [
        ("lease", json!({"kind": "export"})),
        ("lock", lock),
        ("quota", json!("export")),
    ] {
        let said = |failure: Value| json!({ field: value, "on_store_failure": failure });
        assert_eq!(
            route(said(json!("closed"))).on_store_failure,
            OnStoreFailure::Closed
        );
        let after = format!("expected \"closed\": {field} cannot be checked while the store fails");
        for (failure, found) in [
            (json!(null), "nothing"),
            (json!("degraded"), "\"degraded\""),
            (json!("open"), "\"open\""),
            (json!(false), "false"),
        ] {
            assert_eq!(
                refused(said(failure)),
                format!("routes[0].on_store_failure: found {found}, {after}")
            );
        }
    }
}

#[test]
fn a_route_that_must_be_closed_is_not_told_so_by_its_cost() {
    let mut document =
        document(&json!({"lease": {"kind": "export"}, "cost": 9, "on_store_failure": null}));
    document["store"] = json!({"kind": "redis", "upstream": "front"});
    let error = read(&document).unwrap_err().to_string();
    assert!(
        error.starts_with("routes[0].on_store_failure: found nothing, "),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_kind_that_no_tier_has_is_an_error_and_one_that_some_have_a_warning() {
    assert_eq!(
        refused(json!({"lease": {"kind": "imprt"}, "quota": "import"})),
        "routes[0].lease.kind: found \"imprt\", expected a kind of a tier's leases: \"export\" or \
         \"import\" (did you mean import?)\n\
         routes[0].quota: found \"import\", expected a kind of a tier's quotas: \"export\""
    );
    let warnings = |fields: Value| -> Vec<String> {
        let config = read(&document(&fields)).unwrap();
        let warnings = config.warnings.iter().map(ToString::to_string);
        warnings
            .filter(|warning| warning.starts_with("routes"))
            .collect()
    };
    assert!(warnings(json!({"lease": {"kind": "export"}})).is_empty());
    assert_eq!(
        warnings(json!({"lease": {"kind": "import"}, "quota": "export"})),
        [
            "routes[0].lease.kind: found \"import\", which these tiers have no leases for: b. Their \
             tenants have no limit of that kind",
            "routes[0].quota: found \"export\", which these tiers have no quotas for: b. Their tenants \
             have no limit of that kind",
        ]
    );
}

#[test]
fn a_warning_names_a_few_tiers() {
    let mut document = document(&json!({"lease": {"kind": "import"}}));
    for tier in 0..9 {
        document["tiers"][format!("t{tier}")] = document["tiers"]["b"].clone();
    }
    let config = read(&document).unwrap();
    let path = "routes[0].lease.kind";
    let warning = config
        .warnings
        .iter()
        .find(|warning| warning.path == path)
        .unwrap();
    assert!(
        warning
            .message
            .contains(": b, t0, t1, t2, t3, t4, 4 more. "),
        "{warning}"
    );
}

#[test]
fn a_kind_that_no_route_asks_for_limits_nothing() {
    let config = read(&document(&json!({"lease": {"kind": "export"}}))).unwrap();
    let paths: Vec<&str> = config
        .warnings
        .iter()
        .map(|warning| warning.path.as_str())
        .collect();
    assert!(paths.contains(&"tiers.a.leases.import"), "{paths:?}");
    assert!(paths.contains(&"tiers.a.quotas.export"), "{paths:?}");
    assert!(!paths.contains(&"tiers.b.leases.export"), "{paths:?}");
}

#[test]
fn kinds_that_cannot_be_read_make_no_second_error() {
    for (path, value) in [
        ("/tiers", json!([])),
        ("/tiers/b", json!(5)),
        ("/tiers/b/leases", json!(["other"])),
        ("/tiers/a/leases/export", json!("two")),
    ] {
        let mut document = document(&json!({"lease": {"kind": "other"}}));
        *document.pointer_mut("/tiers/b/leases").unwrap() = json!({"other": 1});
        assert!(read(&document).is_ok());
        *document.pointer_mut(path).unwrap() = value;
        let error = read(&document).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_kind_is_short() {
    let kind = |text: &str| tier("local", json!({ text: 1 }), json!({}));
    assert!(kind(&"k".repeat(24)).is_ok());
    for text in ["", "a b", "a.b", "é", "a{b}", &"k".repeat(25)] {
        let error = kind(text).unwrap_err().to_string();
        assert!(error.starts_with("tiers.t.leases"), "{error}");
        assert!(error.contains("a kind of 1 to 24 of"), "{error}");
    }
}

#[test]
fn the_local_store_keeps_less() {
    for (store, slots, requests) in [("local", 64, 200), ("redis", 1000, 10_000)] {
        let quota = |requests: u32| json!({"k": {"requests": requests, "per": "1s"}});
        assert!(tier(store, json!({"k": slots}), quota(requests)).is_ok());
        let errors = tier(store, json!({"k": slots + 1}), quota(requests + 1))
            .unwrap_err()
            .to_string();
        let lines: Vec<&str> = errors.lines().collect();
        let with = if store == "local" {
            " with the local store"
        } else {
            ""
        };
        assert!(
            lines[0].ends_with(&format!("a whole number of slots, at most {slots}{with}")),
            "{errors}"
        );
        assert!(
            lines[1].ends_with(&format!("requests, at most {requests}{with}")),
            "{errors}"
        );
    }
    // Which store it is cannot be known: only what neither keeps is an error.
    let error = tier("rediss", json!({"k": 1000}), json!({}))
        .unwrap_err()
        .to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_quota_says_how_many_and_in_how_long() {
    for (quota, field) in [
        (json!({"requests": 1}), "per"),
        (json!({"per": 1}), "requests"),
        (json!({"requests": 0, "per": 1}), "requests"),
        (json!({"requests": 1.5, "per": 1}), "requests"),
        (json!({"requests": 1, "per": 0}), "per"),
        (json!({"requests": 1, "per": "999ms"}), "per"),
        (json!({"requests": 1, "per": "2678400001ms"}), "per"),
    ] {
        let error = tier("redis", json!({}), json!({ "k": quota }))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(&format!("tiers.t.quotas.k.{field}: found ")),
            "{error}"
        );
    }
    for quota in [json!(10), json!(null)] {
        let error = tier("redis", json!({}), json!({ "k": quota }))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("tiers.t.quotas.k: found "), "{error}");
    }
}

/// What a message tells to write must be accepted.
#[test]
fn a_rate_is_told_as_a_quota_that_the_store_can_keep() {
    const ANY: &str = "{requests: 10, per: 1h}";
    for (store, rate, example) in [
        ("local", "3/minute", "{requests: 3, per: 60s}"),
        ("local", "200/day", "{requests: 200, per: 86400s}"),
        ("local", "201/day", ANY),
        ("redis", "201/day", "{requests: 201, per: 86400s}"),
        ("redis", "10000/second", "{requests: 10000, per: 1s}"),
        ("redis", "10001/second", ANY),
        ("redis", "0/minute", ANY),
        ("redis", "3/week", ANY),
    ] {
        let error = tier(store, json!({}), json!({ "k": rate })).unwrap_err();
        let expected = format!("expected an object of requests, per, such as {example}");
        assert_eq!(
            error.to_string(),
            format!("tiers.t.quotas.k: found \"{rate}\", {expected}")
        );
        let quota: Value = serde_yaml_ng::from_str(example).unwrap();
        assert!(tier(store, json!({}), json!({ "k": quota })).is_ok());
    }
}

#[test]
fn a_kind_one_level_off_is_told_where_it_belongs() {
    let expected = |quota: Value| {
        let error = refused(json!({ "quota": quota }));
        error.split_once(" as text, such as ").unwrap().1.to_owned()
    };
    assert_eq!(expected(json!({"kind": "export"})), "export");
    // Written plainly, as an example is, this would be a number.
    assert_eq!(expected(json!({"kind": "5"})), "bulk");
    assert_eq!(expected(json!({"kind": "two words"})), "bulk");
    assert_eq!(expected(json!({"per": 5})), "bulk");
    assert_eq!(expected(json!(5)), "bulk");
    for (lease, example) in [
        ("export", ", such as {kind: export}"),
        ("${UNSET:-export}", ", such as {kind: export}"),
        ("5", ""),
        ("two words", ""),
        ("", ""),
    ] {
        let error = refused(json!({ "lease": lease }));
        let end = format!("expected an object of kind, ttl, on_abort{example}");
        assert!(error.ends_with(&end), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn the_environment_fills_them() {
    let env = |name: &str| (name == "SLOTS").then(|| "7".to_owned());
    let mut document = document(&json!({"lease": {"kind": "${UNSET:-export}"}}));
    document["tiers"]["a"]["leases"]["export"] = "${SLOTS}".into();
    let config = Config::parse(document.to_string().as_bytes(), &env).unwrap();
    assert_eq!(config.tiers[0].leases[0].1, Slots(7));
    assert_eq!(
        config.routes[0]
            .lease
            .as_ref()
            .map(|lease| lease.kind.as_str()),
        Some("export")
    );
    assert!(Config::parse(document.to_string().as_bytes(), &no_env).is_err());
}
