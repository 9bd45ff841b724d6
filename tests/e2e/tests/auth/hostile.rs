//! Whoever presents credentials chooses every byte of the request, and is counted nevertheless: as who it is, for whom
//! it names, and for what came of it.

use http::HeaderMap;
use tollgate_e2e::{Answer, Ask, Gateway, Reply};

use crate::Outcome;
use crate::door::{
    Door, RIGHT, RULES, Store, WRONG, authorization, basic, by_subject, form, json, token,
};
use crate::refusals::{is_locked_out, kind, lockout};

const STORES: [Store; 2] = [Store::Local, Store::Redis(1)];

/// An address that an attacker claims to be, differently each time.
fn claims(ask: Ask, n: usize) -> Ask {
    let address = format!("203.0.113.{}", n % 250);
    ask.header("x-forwarded-for", format!("10.0.0.1, {address}"))
        .header("forwarded", format!("for={address}"))
        .header("x-real-ip", &address)
        .header("true-client-ip", &address)
        .header("x-envoy-external-address", &address)
}

/// Forged addresses get nobody past the limit.
async fn forged_addresses_do_not_help(identity: &str) -> Outcome {
    for store in STORES {
        let door = Door::open(store, &format!("{identity}{}", RULES)).await?;
        let asks = (0..60).map(|n| claims(door.basic(&format!("client-{n}"), WRONG), n));
        let volley = door.gateway().volley(6, asks).await;
        assert_eq!(volley.count(401), 20, "{:?}", volley.statuses());
        assert_eq!(door.reached(), 20);
        assert!(is_locked_out(&door.basic("client-99", RIGHT).send().await));
        // Those it claimed to be are not locked out, wherever they come from.
        let victim = door.basic("client-99", RIGHT).from([127, 0, 0, 8]);
        assert_eq!(victim.send().await.status, 200);
        door.is_well().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_says_who_it_is() -> Outcome {
    forged_addresses_do_not_help("").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trusted_hops_are_counted_from_the_right() -> Outcome {
    // What Envoy itself has appended is the first.
    let one = "\nidentity: {client_ip: {from: x-forwarded-for, trusted_hops: 1}}";
    forged_addresses_do_not_help(one).await
}

/// Behind a trusted proxy, what stands before its entry is the client's word: it neither escapes, nor locks out others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_left_of_the_proxy_is_not_believed() -> Outcome {
    let rules =
        format!("\nidentity: {{client_ip: {{from: x-forwarded-for, trusted_hops: 2}}}}{RULES}");
    for store in STORES {
        let door = Door::open(store, &rules).await?;
        let victim = "198.51.100.1";
        for n in 0..20 {
            let ask = door.basic(&format!("client-{n}"), WRONG);
            // First its own word, then what the proxy saw; in one header or two.
            let ask = match n % 2 {
                0 => ask.header("x-forwarded-for", format!("{victim}, 198.51.100.66")),
                _ => ask
                    .header("x-forwarded-for", victim)
                    .header("x-forwarded-for", "198.51.100.66"),
            };
            assert_eq!(ask.send().await.status, 401, "{n}");
        }
        let of = |address: &str| door.basic("acme", RIGHT).header("x-forwarded-for", address);
        let forged = of("198.51.100.2, 198.51.100.66").send().await;
        assert!(lockout(&forged).is(1, 300), "{forged:?}");
        assert_eq!(of(victim).send().await.status, 200);
        door.is_well().await;
    }
    Ok(())
}

/// Ways to write one subject.
fn spellings(gateway: &Gateway, of: char) -> Vec<Ask> {
    let name = format!("billing-{of}");
    let upper = name.to_uppercase();
    let scheme = |scheme: &str| {
        let value = authorization(&name, WRONG).replacen("Basic", scheme, 1);
        token(gateway).header("authorization", value)
    };
    vec![
        basic(gateway, &name, WRONG),
        basic(gateway, &upper, WRONG),
        basic(gateway, &format!("  {name} "), WRONG),
        basic(gateway, &format!("billing%2D{of}"), WRONG),
        basic(gateway, &format!("%42illing%2d{of}"), WRONG),
        scheme("basic"),
        scheme("BASIC"),
        form(gateway, &name, WRONG),
        form(gateway, &upper, WRONG),
        form(gateway, &format!("+%62illing-{of}+"), WRONG),
        json(gateway, &name, WRONG),
        json(gateway, &format!(r"\u0042illing\u002d{of}"), WRONG),
        json(gateway, &format!(r" {name}\t"), WRONG),
        // Twice the same.
        form(gateway, &name, WRONG).header("authorization", authorization(&upper, WRONG)),
    ]
}

/// However it is written, it is one subject, and has five guesses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_has_one_spelling() -> Outcome {
    for store in STORES {
        let door = Door::open(store, &by_subject(5, "15m", "5m")).await?;
        // Each of them is among the first five once.
        for (first, of) in [(0, 'a'), (5, 'b'), (10, 'c')] {
            door.upstream.forget();
            let mut asks = spellings(door.gateway(), of);
            asks.rotate_left(first);
            for (n, ask) in asks.into_iter().enumerate() {
                let reply = ask.clone().send().await;
                if n < 5 {
                    assert_eq!(reply.status, 401, "{first}+{n} {ask:?}: {reply:?}");
                } else {
                    assert!(is_locked_out(&reply), "{first}+{n} {ask:?}: {reply:?}");
                }
            }
            assert_eq!(door.reached(), 5);
        }
        // Another one is another one.
        assert_eq!(door.basic("billing_a", RIGHT).send().await.status, 200);
    }
    Ok(())
}

/// A subject that one server reads in one way and another in another is refused, and costs nobody an attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_that_cannot_be_read_is_refused() -> Outcome {
    let door = Door::open(Store::Redis(1), RULES).await?;
    let gateway = door.gateway();
    let head = |value: &str| token(gateway).header("authorization", value);
    let of_type = |kind: &str, body: &str| {
        token(gateway)
            .header("content-type", kind)
            .body(body.to_owned())
    };
    let in_form = |body: &str| of_type("application/x-www-form-urlencoded", body);
    let in_json = |body: &str| of_type("application/json", body);
    let large = format!("pad={}&client_id=mallory", "x".repeat(70 * 1024));
    let cases = [
        (
            "Basic and form differ",
            400,
            form(gateway, "mallory", RIGHT).header("authorization", authorization("acme", RIGHT)),
        ),
        (
            "Basic and JSON differ",
            400,
            json(gateway, "mallory", RIGHT).header("authorization", authorization("acme", RIGHT)),
        ),
        ("query and form differ", 400, {
            let ask = gateway.post("/v1/auth/token?client_id=acme");
            ask.header("content-type", "application/x-www-form-urlencoded")
                .body("client_id=mallory")
        }),
        ("no base64", 400, head("Basic !!!!")),
        ("no colon", 400, head("Basic bWFsbG9yeQ==")),
        ("nothing after Basic", 400, head("Basic")),
        (
            "two headers",
            400,
            head(&authorization("acme", RIGHT))
                .header("authorization", authorization("mallory", RIGHT)),
        ),
        (
            "two in one header",
            400,
            head(&format!("Bearer x, {}", authorization("mallory", RIGHT))),
        ),
        ("no subject at all", 400, token(gateway)),
        ("another scheme", 400, head("Bearer mallory")),
        ("an empty one", 400, in_form("client_id=&client_secret=x")),
        (
            "twice in the form",
            400,
            in_form("client_id=acme&client_id=mallory"),
        ),
        (
            "twice, in two cases",
            400,
            in_form("client_id=acme&Client_Id=mallory"),
        ),
        (
            "twice in JSON",
            400,
            in_json(r#"{"client_id": "acme", "client_id": "mallory"}"#),
        ),
        ("broken JSON", 400, in_json(r#"{"client_id": "mallory""#)),
        (
            "more after JSON",
            400,
            in_json(r#"{"client_id": "mallory"} x"#),
        ),
        ("not a name", 400, in_json(r#"{"client_id": ["mallory"]}"#)),
        (
            "compressed",
            400,
            in_form("client_id=mallory").header("content-encoding", "gzip"),
        ),
        ("too large", 413, in_form(&large)),
        (
            "too large, in pieces",
            413,
            in_form("").pieces(large.as_bytes().chunks(8_192).map(ToOwned::to_owned)),
        ),
        ("too large by HTTP/2", 413, in_form(&large).http2()),
    ];
    for (what, status, ask) in cases {
        let reply = ask.send().await;
        assert_eq!(reply.status, status, "{what}: {reply:?}");
        assert_eq!(kind(&reply), "invalid-request", "{what}");
        let text = reply.text().to_lowercase();
        assert!(
            !text.contains("mallory") && !text.contains("acme"),
            "{what}: {text}"
        );
    }
    assert_eq!(door.reached(), 0);
    let keys = door.redis().keys().await;
    assert!(
        keys.iter().all(|key| !key.name.starts_with("au:")),
        "{keys:?}"
    );
    assert_eq!(door.failures("token-subject").await, 0.0);
    let lines = gateway.access_log(21).await;
    assert!(
        lines
            .iter()
            .all(|line| line.verdict.as_deref() == Some("invalid")),
        "{lines:?}"
    );
    // One that only looks odd is read.
    assert_eq!(form(gateway, "%FF%FE", RIGHT).send().await.status, 200);
    door.is_well().await;
    Ok(())
}

/// To call a request gRPC does not make a failure a success, whichever way the refusal is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calling_it_grpc_changes_nothing() -> Outcome {
    let unauthenticated = [
        Answer::status(401),
        Answer::status(401)
            .header("content-type", "application/grpc")
            .header("grpc-status", "0"),
        // In the headers alone, and in the trailers.
        Answer::status(200)
            .header("content-type", "application/grpc")
            .header("grpc-status", "16"),
        Answer::grpc_status(16),
        Answer::grpc_status(7),
    ];
    for store in STORES {
        let door = Door::open(store, &by_subject(5, "15m", "5m")).await?;
        for (n, answer) in unauthenticated.iter().enumerate() {
            door.upstream.forget();
            door.upstream.always(answer.clone());
            let subject = format!("client-{n}");
            for _ in 0..5 {
                let reply = by_grpc(door.basic(&subject, WRONG)).send().await;
                assert!(!is_locked_out(&reply), "{n}: {reply:?}");
            }
            assert_eq!(door.reached(), 5, "{n}");
            let refused = by_grpc(door.basic(&subject, RIGHT)).send().await;
            assert!(is_locked_out(&refused), "{n}: {refused:?}");
            assert_eq!(
                (refused.status, refused.header("grpc-status")),
                (200, Some("8"))
            );
            assert!(refused.body.is_empty(), "{refused:?}");
            assert!(lockout(&door.basic(&subject, RIGHT).send().await).is(1, 300));
            assert_eq!(door.reached(), 5, "{n}");
        }
        door.is_well().await;
    }
    Ok(())
}

fn by_grpc(ask: Ask) -> Ask {
    let ask = ask.http2().header("te", "trailers");
    ask.header("content-type", "application/grpc")
}

/// Real successes by gRPC are successes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_by_grpc_is_success() -> Outcome {
    let door = Door::open(Store::Local, RULES).await?;
    for _ in 0..3 {
        for answer in [
            Answer::grpc_status(16),
            Answer::grpc_status(16),
            Answer::grpc(b"t"),
        ] {
            door.upstream.always(answer);
            assert!(!is_locked_out(
                &by_grpc(door.basic("acme", WRONG)).send().await
            ));
        }
    }
    // An error of the service is neither.
    door.upstream.always(Answer::grpc_status(14));
    for _ in 0..6 {
        assert!(!is_locked_out(
            &by_grpc(door.basic("acme", WRONG)).send().await
        ));
    }
    assert_eq!(door.failures("token-subject").await, 6.0);
    Ok(())
}

/// The whole answer but for what tells one request from another: its id, times, and the digits of waits.
fn face(reply: &Reply) -> String {
    let mut problem = reply.json();
    for own in ["request_id", "instance"] {
        problem.as_object_mut().expect("an object").remove(own);
    }
    let mut headers = HeaderMap::clone(&reply.headers);
    for own in ["date", "x-request-id", "x-envoy-upstream-service-time"] {
        headers.remove(own);
    }
    let length = headers.remove("content-length");
    assert!(length.is_some(), "{reply:?}");
    // A moment is written with as many decimals as it needs.
    let text = format!("{} {headers:?} {problem}", reply.status);
    let mut face = String::new();
    for c in text.chars() {
        match if c.is_ascii_digit() { '0' } else { c } {
            '0' if face.ends_with(".0") => {}
            c => face.push(c),
        }
    }
    face.replace(".0Z", "Z")
}

/// Nobody learns from refusals which subjects there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_and_unknown_subjects_look_the_same() -> Outcome {
    for store in STORES {
        let door = Door::open(store, RULES).await?;
        for _ in 0..3 {
            let owner = door.basic("known", RIGHT).from([127, 0, 0, 9]);
            assert_eq!(owner.send().await.status, 200);
        }
        let mut faces = Vec::new();
        for subject in ["known", "stray"] {
            for _ in 0..5 {
                let guess = door.basic(subject, WRONG).from([127, 0, 0, 2]);
                assert_eq!(guess.send().await.status, 401);
            }
            let mut seen = Vec::new();
            for secret in [WRONG, RIGHT] {
                for by in [2, 3] {
                    let reply = door
                        .basic(subject, secret)
                        .from([127, 0, 0, by])
                        .send()
                        .await;
                    assert!(lockout(&reply).is(1, 300), "{reply:?}");
                    assert!(!reply.text().contains(subject), "{reply:?}");
                    seen.push(face(&reply));
                }
            }
            faces.push(seen);
        }
        assert_eq!(faces[0], faces[1]);
    }
    Ok(())
}
