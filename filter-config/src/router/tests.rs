use proptest::prelude::*;

use super::*;

/// A router of `METHOD,METHOD /path` lines; `-` is any method.
fn router(routes: &[&str]) -> Router {
    let mut router = Router::default();
    for (index, (methods, pattern)) in routes.iter().map(|route| parse(route)).enumerate() {
        router.insert(RouteId(index), &methods, &pattern);
    }
    router
}

fn parse(route: &str) -> (Vec<Vec<u8>>, Pattern) {
    let (methods, path) = route.split_once(' ').unwrap();
    let methods = methods
        .split(',')
        .filter(|method| *method != "-")
        .map(|method| method.as_bytes().to_vec())
        .collect();
    (methods, Pattern::parse(path).unwrap())
}

fn found(router: &Router, request: &str) -> Option<usize> {
    let (method, path) = request.split_once(' ').unwrap();
    router
        .find(method.as_bytes(), path.as_bytes())
        .map(|id| id.0)
}

#[test]
fn the_first_route_wins_whatever_its_form() {
    let exact_first = router(&["- /v1/x", "- /v1/{id}", "- /v1/*"]);
    assert_eq!(found(&exact_first, "GET /v1/x"), Some(0));
    assert_eq!(found(&exact_first, "GET /v1/y"), Some(1));
    assert_eq!(found(&exact_first, "GET /v1/y/z"), Some(2));
    let tail_first = router(&["- /v1/*", "- /v1/{id}", "- /v1/x"]);
    assert_eq!(found(&tail_first, "GET /v1/x"), Some(0));
    let template_first = router(&["- /v1/{id}", "- /v1/x", "- /*"]);
    assert_eq!(found(&template_first, "GET /v1/x"), Some(0));
    assert_eq!(found(&template_first, "GET /"), Some(2));
}

#[test]
fn a_dead_end_does_not_hide_another_branch() {
    let router = router(&["- /a/b/c", "- /{x}/b/d", "- /{x}/{y}/e"]);
    assert_eq!(found(&router, "GET /a/b/c"), Some(0));
    assert_eq!(found(&router, "GET /a/b/d"), Some(1));
    assert_eq!(found(&router, "GET /a/b/e"), Some(2));
    assert_eq!(found(&router, "GET /a/b/f"), None);
}

#[test]
fn methods_are_compared_and_get_takes_head() {
    let router = router(&[
        "POST /v1/x",
        "GET /v1/x",
        "HEAD /v1/x",
        "- /v1/x",
        "HEAD /v1/y",
    ]);
    assert_eq!(found(&router, "POST /v1/x"), Some(0));
    assert_eq!(found(&router, "GET /v1/x"), Some(1));
    assert_eq!(found(&router, "HEAD /v1/x"), Some(1));
    assert_eq!(found(&router, "DELETE /v1/x"), Some(3));
    assert_eq!(found(&router, "get /v1/x"), Some(3));
    assert_eq!(found(&router, "HEAD /v1/y"), Some(4));
    assert_eq!(found(&router, "GET /v1/y"), None);
}

#[test]
fn a_tail_takes_its_prefix_and_all_below_but_no_longer_word() {
    let router = router(&["- /v1/*"]);
    assert_eq!(found(&router, "GET /v1"), Some(0));
    assert_eq!(found(&router, "GET /v1/a/b/c"), Some(0));
    assert_eq!(found(&router, "GET /v10"), None);
    assert_eq!(found(&router, "GET /"), None);
}

#[test]
fn a_template_takes_exactly_one_segment() {
    let router = router(&["- /v1/{id}/entries"]);
    assert_eq!(found(&router, "GET /v1/42/entries"), Some(0));
    assert_eq!(found(&router, "GET /v1/a%2Fb/entries"), Some(0));
    assert_eq!(found(&router, "GET /v1/entries"), None);
    assert_eq!(found(&router, "GET /v1//entries"), None);
    assert_eq!(found(&router, "GET /v1/42/7/entries"), None);
}

#[test]
fn exempt_paths_match_without_a_method() {
    let router = router(&["- /healthz", "- /docs/*", "- /"]);
    for path in ["/healthz", "/docs", "/docs/a/b", "/"] {
        assert!(router.matches(path.as_bytes()), "{path}");
    }
    for path in ["/healthz/x", "/docsx"] {
        assert!(!router.matches(path.as_bytes()), "{path}");
    }
    assert!(!Router::default().matches(b"/"));
}

#[test]
fn a_path_of_a_million_segments_is_no_more_work_than_the_deepest_route() {
    let deepest = "/{a}/{b}/{c}/{d}";
    let router = router(&[&format!("- {deepest}"), "- /a/{b}/c", "- /{a}/a/*"]);
    let hostile = "/b".repeat(1_000_000);
    // Descends four levels; a walk over all segments would recurse a million times.
    assert_eq!(found(&router, &format!("GET {hostile}")), None);
    assert_eq!(found(&router, &format!("GET /x/a{hostile}")), Some(2));
    assert_eq!(
        found(&router, &format!("GET {}", "/".repeat(1_000_000))),
        None
    );
}

#[test]
fn a_route_that_an_earlier_one_takes_whole_is_seen() {
    for (earlier, later, taken) in [
        (&["- /v1/*"][..], "- /v1/x", Some(0)),
        (&["- /v1/*"], "GET /v1/x/{id}/*", Some(0)),
        (&["- /v1/*"], "- /v1/*", Some(0)),
        (&["- /v1/*"], "- /v1", Some(0)),
        (&["- /{a}"], "- /v1", Some(0)),
        (&["- /{a}"], "- /{b}", Some(0)),
        (&["- /{a}/{b}"], "POST /v1/{b}", Some(0)),
        (&["GET /x"], "HEAD /x", Some(0)),
        (&["GET /x", "POST /x"], "GET,POST /x", Some(1)),
        // Something is left:
        (&["- /{a}/*"], "- /*", None),
        (&["- /v1/x"], "- /v1/{id}", None),
        (&["- /v1/{id}"], "- /v1/*", None),
        (&["- /v1"], "- /v1/*", None),
        (&["GET /x"], "- /x", None),
        (&["GET /x"], "GET,POST /x", None),
        (&["HEAD /x"], "GET /x", None),
    ] {
        let (methods, pattern) = parse(later);
        let found = router(earlier).takes_all(&methods, &pattern);
        assert_eq!(found.map(|id| id.0), taken, "{earlier:?} {later}");
    }
}

/// The rule, read aloud: the first route whose method and segments fit.
fn naive(routes: &[(Vec<Vec<u8>>, Pattern)], method: &[u8], path: &[u8]) -> Option<usize> {
    let segments: Vec<&[u8]> = path
        .split(|b| *b == b'/')
        .filter(|segment| !segment.is_empty())
        .collect();
    routes.iter().position(|(methods, pattern)| {
        let method_fits = methods.is_empty()
            || methods
                .iter()
                .any(|known| known == method || (known == b"GET" && method == b"HEAD"));
        let length_fits = if pattern.tail {
            segments.len() >= pattern.segments.len()
        } else {
            segments.len() == pattern.segments.len()
        };
        method_fits
            && length_fits
            && pattern
                .segments
                .iter()
                .zip(&segments)
                .all(|(wanted, found)| match wanted {
                    Segment::Literal(bytes) => bytes == found,
                    Segment::Template(_) => true,
                })
    })
}

fn methods() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let method = prop::sample::select(vec!["GET", "HEAD", "POST"]);
    prop::collection::vec(method.prop_map(|m| m.as_bytes().to_vec()), 0..3)
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let segment = prop_oneof![
        3 => prop::sample::select(vec!["a", "b", "c"])
            .prop_map(|name| Segment::Literal(name.as_bytes().to_vec())),
        1 => Just(Segment::Template("id".to_owned())),
    ];
    (prop::collection::vec(segment, 0..5), any::<bool>())
        .prop_map(|(segments, tail)| Pattern { segments, tail })
}

proptest! {
    #[test]
    fn finds_what_a_linear_search_finds(
        routes in prop::collection::vec((methods(), patterns()), 0..20),
        requests in prop::collection::vec(
            (prop::sample::select(vec!["GET", "HEAD", "POST", "PUT"]), "(/[abcd]){0,6}"),
            1..20,
        ),
    ) {
        let mut router = Router::default();
        for (index, (methods, pattern)) in routes.iter().enumerate() {
            router.insert(RouteId(index), methods, pattern);
        }
        for (method, path) in requests {
            let path = if path.is_empty() { "/" } else { &path };
            prop_assert_eq!(
                router.find(method.as_bytes(), path.as_bytes()).map(|id| id.0),
                naive(&routes, method.as_bytes(), path.as_bytes()),
                "{} {}", method, path
            );
        }
    }

    /// A route said to be out of reach is found by no request.
    #[test]
    fn a_route_taken_whole_is_never_found(
        routes in prop::collection::vec((methods(), patterns()), 1..8),
        paths in prop::collection::vec("(/[abc]){0,6}", 1..30),
    ) {
        let mut router = Router::default();
        let mut hidden = Vec::new();
        for (index, (methods, pattern)) in routes.iter().enumerate() {
            if router.takes_all(methods, pattern).is_some() {
                hidden.push(index);
            }
            router.insert(RouteId(index), methods, pattern);
        }
        for path in paths {
            for method in ["GET", "HEAD", "POST", "PUT"] {
                if let Some(id) = router.find(method.as_bytes(), path.as_bytes()) {
                    prop_assert!(!hidden.contains(&id.0));
                }
            }
        }
    }
}
