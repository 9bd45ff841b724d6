//! However many guesses come at once, over whatever connections and gateways, no more than the limit reach the
//! endpoint.

use tollgate_e2e::{Ask, Gateway, Setup, Volley};

use crate::Outcome;
use crate::door::{
    Door, RIGHT, RULES, Store, WRONG, authorization, basic, by_subject, form, token,
};
use crate::refusals::{is_locked_out, lockout, tally, told};

const GUESSES: usize = 1_000;
const CONNECTIONS: usize = 50;

/// How they come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Http1,
    Http2,
}

/// The guesses, an equal share of them through each gateway, all at once.
async fn guess(door: &Door, by: By, ask: impl Fn(&Gateway, usize) -> Ask) -> Vec<Volley> {
    let each = GUESSES / door.gateways.len();
    let ask = &ask;
    let fire = async |gateway: &Gateway| {
        let asks = (0..each).map(|n| match by {
            By::Http1 => ask(gateway, n),
            By::Http2 => ask(gateway, n).http2(),
        });
        gateway.volley(CONNECTIONS, asks).await
    };
    match &door.gateways[..] {
        [one] => vec![fire(one).await],
        [one, other] => {
            let (one, other) = tokio::join!(fire(one), fire(other));
            vec![one, other]
        }
        _ => unreachable!("one gateway or two"),
    }
}

/// One subject's password is guessed, by Basic and by form: 5 guesses are heard.
async fn one_subject(store: Store, by: By) -> Outcome {
    let door = Door::with(store, RULES, |setup| setup.workers(2)).await?;
    let volleys = guess(&door, by, |gateway, n| match n % 2 {
        0 => basic(gateway, "acme", &format!("guess-{n}")),
        _ => form(gateway, "ACME", &format!("guess-{n}")),
    })
    .await;
    let tally = tally(&volleys);
    println!("{tally:?}");
    assert_eq!(
        (tally.right, tally.wrong, door.reached()),
        (0, 5, 5),
        "{tally:?}"
    );
    assert_eq!(door.failures("token-subject").await, 5.0);
    // From here on it is a lockout on every gateway, for the right secret too.
    for gateway in &door.gateways {
        let refused = told(basic(gateway, "acme", RIGHT)).await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
    }
    assert_eq!(door.reached(), 5);
    door.is_well().await;
    Ok(())
}

/// One address tries many subjects: 20 guesses are heard.
async fn many_subjects(store: Store, by: By) -> Outcome {
    let door = Door::with(store, RULES, |setup| setup.workers(2)).await?;
    let volleys = guess(&door, by, |gateway, n| {
        basic(gateway, &format!("client-{}", n % 400), WRONG)
    })
    .await;
    let tally = tally(&volleys);
    println!("{tally:?}");
    assert_eq!(
        (tally.right, tally.wrong, door.reached()),
        (0, 20, 20),
        "{tally:?}"
    );
    assert_eq!(door.failures("token-ip").await, 20.0);
    for gateway in &door.gateways {
        let refused = told(basic(gateway, "somebody-else", RIGHT)).await;
        assert!(lockout(&refused).is(1, 300), "{refused:?}");
        // It is the address that is locked out.
        let other = basic(gateway, "somebody-else", RIGHT).from([127, 0, 0, 77]);
        assert_eq!(other.send().await.status, 200);
    }
    door.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_at_one_subject() -> Outcome {
    one_subject(Store::Local, By::Http1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_by_http2() -> Outcome {
    one_subject(Store::Local, By::Http2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_through_two_gateways() -> Outcome {
    one_subject(Store::Redis(2), By::Http1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_through_two_gateways_by_http2() -> Outcome {
    one_subject(Store::Redis(2), By::Http2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_through_two_gateways_of_a_cluster() -> Outcome {
    one_subject(Store::Cluster(2), By::Http1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_guesses_from_one_address_through_two_gateways_of_a_cluster() -> Outcome {
    many_subjects(Store::Cluster(2), By::Http1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_guesses_from_one_address() -> Outcome {
    many_subjects(Store::Local, By::Http1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_guesses_from_one_address_by_http2() -> Outcome {
    many_subjects(Store::Local, By::Http2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_guesses_from_one_address_through_two_gateways() -> Outcome {
    many_subjects(Store::Redis(2), By::Http1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_guesses_from_one_address_through_two_gateways_by_http2() -> Outcome {
    many_subjects(Store::Redis(2), By::Http2).await
}

/// Twenty addresses guess at one subject: no more is heard than of one.
async fn many_addresses(store: Store) -> Outcome {
    let door = Door::open(store, RULES).await?;
    let fire = async |address: u8| {
        let gateway = &door.gateways[usize::from(address) % door.gateways.len()];
        let asks = (0..20).map(|_| basic(gateway, "acme", WRONG).from([127, 0, 1, address]));
        gateway.volley(4, asks).await
    };
    let mut volleys = Vec::new();
    for four in (1..=20).collect::<Vec<u8>>().chunks(4) {
        let (a, b, c, d) = tokio::join!(fire(four[0]), fire(four[1]), fire(four[2]), fire(four[3]));
        volleys.extend([a, b, c, d]);
    }
    let tally = tally(&volleys);
    assert_eq!(
        (tally.right, tally.wrong, door.reached()),
        (0, 5, 5),
        "{tally:?}"
    );
    door.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_from_twenty_addresses() -> Outcome {
    many_addresses(Store::Local).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_guesses_from_twenty_addresses_through_two_gateways() -> Outcome {
    many_addresses(Store::Redis(2)).await
}

/// While one subject is guessed at, others get their tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_in_nobody_elses_way() -> Outcome {
    let door = Door::open(Store::Redis(2), RULES).await?;
    let flood = guess(&door, By::Http1, |gateway, _| basic(gateway, "acme", WRONG));
    let others = async {
        for n in 0..30 {
            let gateway = &door.gateways[n % 2];
            let ask = basic(gateway, &format!("client-{n}"), RIGHT).from([127, 0, 0, 9]);
            assert_eq!(ask.send().await.status, 200, "client-{n}");
        }
    };
    let (volleys, ()) = tokio::join!(flood, others);
    assert_eq!(tally(&volleys).wrong, 5);
    assert_eq!(door.reached(), 35);
    door.is_well().await;
    Ok(())
}

/// The order in which credential and body arrive makes no difference, nor whether the body says more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_reach_the_endpoint_whole() -> Outcome {
    let rules = by_subject(5, "15m", "5m");
    for store in [Store::Local, Store::Redis(1)] {
        let door = Door::open(store, &rules).await?;
        let body = format!(
            "scope={}&client_id=acme&client_secret={RIGHT}",
            "ledgers%20".repeat(4_000)
        );
        let type_of = |ask: Ask| ask.header("content-type", "application/x-www-form-urlencoded");
        let pieces = || body.as_bytes().chunks(4_099).map(ToOwned::to_owned);
        for (form, ask) in [
            ("whole", token(door.gateway()).body(body.clone())),
            ("chunked", token(door.gateway()).pieces(pieces())),
            ("http/2", token(door.gateway()).http2().body(body.clone())),
            ("streamed", token(door.gateway()).http2().pieces(pieces())),
        ] {
            door.upstream.forget();
            let reply = type_of(ask).send().await;
            assert_eq!(reply.status, 200, "{form}: {reply:?}");
            assert!(
                door.upstream.requests()[0].body == body,
                "{form}: another body"
            );
        }
        // And with its credential in the head, after a body of no interest.
        let plain = token(door.gateway()).header("authorization", authorization("acme", RIGHT));
        let reply = plain.body("x".repeat(32 * 1024)).send().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        door.is_well().await;
    }
    Ok(())
}

/// Where nobody takes slots, failures count when they are answered: all that came before are heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_slots_the_answers_count() -> Outcome {
    let rules = by_subject(5, "15m", "5m").replace("failures:", "provisional: false\n  failures:");
    for store in [Store::Local, Store::Redis(1)] {
        let door = Door::with(store, &rules, |setup: Setup| setup).await?;
        let asks = (0..8).map(|_| door.basic("acme", WRONG));
        let volley = door.gateway().volley(8, asks).await;
        let tally = tally([&volley]);
        assert!(tally.wrong >= 5 && tally.busy == 0, "{tally:?}");
        let refused = door.basic("acme", RIGHT).send().await;
        assert!(is_locked_out(&refused), "{refused:?}");
        assert_eq!(door.reached(), tally.wrong);
        door.is_well().await;
    }
    Ok(())
}
