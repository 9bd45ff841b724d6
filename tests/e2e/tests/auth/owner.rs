//! Who has the right credentials is never refused for using them, and not for what strangers do with the name alone.

use tollgate_e2e::{Ask, Gateway, Reply, Setup};

use crate::Outcome;
use crate::door::{Door, RIGHT, RULES, Store, WRONG, basic};
use crate::refusals::{is_locked_out, lockout, told};

/// A client that refreshes its token all the time: one after the other, three at a time, and with a mistake between.
async fn refreshes(store: Store) -> Outcome {
    let door = Door::open(store, RULES).await?;
    for n in 0..100 {
        let reply = door.basic("acme", RIGHT).send().await;
        assert_eq!(reply.status, 200, "{n}: {reply:?}");
    }
    let volley = door
        .gateway()
        .volley(3, (0..100).map(|_| door.basic("acme", RIGHT)));
    let volley = volley.await;
    assert_eq!(volley.count(200), 100, "{:?}", volley.statuses());

    let asks = (0..100).map(|n| match n {
        50 => door.basic("acme", WRONG),
        _ => door.basic("acme", RIGHT),
    });
    let volley = door.gateway().volley(3, asks).await;
    assert_eq!(volley.count(200), 99, "{:?}", volley.statuses());
    assert_eq!(volley.shots[50].status, 401);
    assert_eq!(door.failures("token-subject").await, 1.0);
    door.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_credentials_are_never_refused() -> Outcome {
    refreshes(Store::Local).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_credentials_are_never_refused_by_redis() -> Outcome {
    refreshes(Store::Redis(1)).await
}

/// Where a request comes from, for one of the ways to say so.
type From = fn(Ask, Place) -> Ask;

/// Somewhere in the network.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Where the owner is.
    Home,
    /// Another machine in the same network.
    NextDoor,
    /// Where the guesses come from.
    Away,
    /// Where nobody has been yet.
    Elsewhere,
}

/// Of the connection.
fn by_connection(ask: Ask, place: Place) -> Ask {
    ask.from(match place {
        Place::Home | Place::NextDoor => [127, 0, 0, 1],
        Place::Away => [127, 0, 0, 2],
        Place::Elsewhere => [127, 0, 0, 3],
    })
}

/// Of a proxy that is trusted, and that Envoy has appended the connection's address to.
fn by_proxy(ask: Ask, place: Place) -> Ask {
    ask.header(
        "x-forwarded-for",
        match place {
            Place::Home => "2001:db8:1:1::5",
            // The same /64.
            Place::NextDoor => "2001:db8:1:1:ffff::9",
            Place::Away => "2001:db8:1:2::5",
            Place::Elsewhere => "198.51.100.7",
        },
    )
}

async fn strangers(store: Store, rules: &str, from: From) -> Outcome {
    let door = Door::open(store, rules).await?;
    let last = door.gateways.len() - 1;
    let (here, there) = (&door.gateways[0], &door.gateways[last]);
    let ask = |gateway: &Gateway, place, secret| from(basic(gateway, "acme", secret), place);
    assert_eq!(ask(here, Place::Home, RIGHT).send().await.status, 200);

    for _ in 0..5 {
        assert_eq!(ask(there, Place::Away, WRONG).send().await.status, 401);
    }
    let locked = |reply: &Reply| lockout(reply).is(1, 300);
    let reached = door.reached();
    for gateway in [here, there] {
        for secret in [WRONG, RIGHT] {
            assert!(locked(&told(ask(gateway, Place::Away, secret)).await));
            assert!(locked(&told(ask(gateway, Place::Elsewhere, secret)).await));
        }
    }
    assert_eq!(
        door.reached(),
        reached,
        "a refusal has reached the endpoint"
    );

    // The owner notices nothing, however long it goes on.
    for n in 0..100 {
        let gateway = [here, there][n % 2];
        let place = [Place::Home, Place::NextDoor][n / 2 % 2];
        let reply = ask(gateway, place, RIGHT).send().await;
        assert_eq!(reply.status, 200, "{n}: {reply:?}");
        if n % 10 == 0 {
            assert!(is_locked_out(
                &ask(gateway, Place::Away, WRONG).send().await
            ));
        }
    }
    // Nor does it let the others in.
    assert!(locked(&ask(here, Place::Elsewhere, RIGHT).send().await));
    door.is_well().await;
    Ok(())
}

/// With two proxies to count from the right: the one that is trusted, and Envoy itself.
fn behind_a_proxy() -> String {
    format!(
        "identity: {{client_ip: {{from: x-forwarded-for, trusted_hops: 2}}}}\n{}",
        RULES.trim()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_lock_the_owner_out() -> Outcome {
    strangers(Store::Local, RULES, by_connection).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_lock_the_owner_out_of_two_gateways() -> Outcome {
    strangers(Store::Redis(2), RULES, by_connection).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_behind_a_trusted_proxy_cannot_lock_it_out_of_two_gateways() -> Outcome {
    let rules = format!("\n{}", behind_a_proxy());
    strangers(Store::Redis(2), &rules, by_proxy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_cannot_lock_the_owner_out_of_a_cluster() -> Outcome {
    strangers(Store::Cluster(2), RULES, by_connection).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_credentials_are_never_refused_by_a_cluster() -> Outcome {
    refreshes(Store::Cluster(1)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_behind_a_trusted_proxy_cannot_either() -> Outcome {
    strangers(Store::Local, &behind_a_proxy(), by_proxy).await
}

/// What goes wrong in the owner's own network is counted there, and locks nobody out elsewhere.
async fn at_home(store: Store) -> Outcome {
    let door = Door::open(store, RULES).await?;
    let ask = |place, secret| by_connection(door.basic("acme", secret), place);
    assert_eq!(ask(Place::Home, RIGHT).send().await.status, 200);
    for _ in 0..5 {
        assert_eq!(ask(Place::Home, WRONG).send().await.status, 401);
    }
    let refused = ask(Place::Home, RIGHT).send().await;
    assert!(lockout(&refused).is(1, 300), "{refused:?}");
    assert_eq!(ask(Place::Elsewhere, RIGHT).send().await.status, 200);
    // Another subject is not touched.
    let other = door.basic("globex", RIGHT).from([127, 0, 0, 1]);
    assert_eq!(other.send().await.status, 200);
    door.is_well().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_address_has_a_window_of_its_own() -> Outcome {
    at_home(Store::Local).await?;
    at_home(Store::Redis(1)).await
}

/// Told not to spare anybody, it does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unless_known_addresses_are_not_spared() -> Outcome {
    let rules = RULES.replace("by: subject\n", "by: subject\n  spare_known_ips: false\n");
    for store in [Store::Local, Store::Redis(1)] {
        let door = Door::with(store, &rules, |setup: Setup| setup).await?;
        let ask = |place, secret| by_connection(door.basic("acme", secret), place);
        assert_eq!(ask(Place::Home, RIGHT).send().await.status, 200);
        for _ in 0..5 {
            assert_eq!(ask(Place::Away, WRONG).send().await.status, 401);
        }
        assert!(is_locked_out(&ask(Place::Home, RIGHT).send().await));
    }
    Ok(())
}
