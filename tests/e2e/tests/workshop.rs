//! The harness' workshop proves itself, behind an Envoy without a filter: whoever leaves works no longer. Owns no story of
//! Tollgate.

use std::time::{Duration, Instant};

use tollgate_e2e::{Dice, Gateway, Setup, Work, Workshop, eventually};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn workshop() -> Workshop {
    Workshop::open(|received| {
        let (thing, millis) = received.path[1..].split_once('/').unwrap();
        Work::on(thing, Duration::from_millis(millis.parse().unwrap()))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_counts_who_works_and_who_has_left() -> Outcome {
    let workshop = workshop();
    let setup = || Setup::without_filter().upstream(workshop.address());
    let gateway = Gateway::start(setup()).await?;
    let other = Gateway::start(setup()).await?;

    let asks = (0..8).map(|_| gateway.get("/bench/20"));
    let volley = gateway.volley(4, asks).await;
    assert_eq!(volley.count(200), 8);
    let bench = workshop.worked("bench");
    assert_eq!((bench.now, bench.done, bench.begun.len()), (0, 8, 8));
    assert!((2..=4).contains(&bench.most), "{}", bench.most);
    assert_eq!(workshop.worked("nothing").begun.len(), 0);

    // Closed, reset, and one whose gateway crashes: none of them ends its minute.
    let start = Instant::now();
    let long = |gateway: &Gateway| gateway.get("/lathe/60000");
    long(&gateway)
        .leave_when(workshop.has_begun("lathe", 1))
        .await
        .unwrap();
    let left = long(&gateway)
        .reset_when(workshop.has_begun("lathe", 2))
        .await?;
    assert_eq!(left, None);
    let lost = tokio::spawn(long(&other).try_send());
    workshop.has_begun("lathe", 3).await;
    eventually("one is left", Duration::from_secs(5), async || {
        (workshop.worked("lathe").now == 1).then_some(())
    })
    .await;
    other.kill();
    assert!(!other.is_alive());
    assert!(lost.await?.is_err());
    workshop.is_still().await;
    assert_eq!(workshop.worked("lathe").done, 0);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(workshop.things(), ["bench", "lathe"]);

    // An answer that is faster than the moment.
    let never = std::future::pending();
    let answered = gateway.get("/bench/1").reset_when(never).await?;
    assert_eq!(answered, Some(200));
    Ok(())
}

#[test]
fn dice_stay_within_their_range() {
    let mut dice = Dice::new(7);
    let mut again = dice.clone();
    let mut hits = 0;
    for _ in 0..1_000 {
        assert!((3..9).contains(&dice.number(3..9)));
        let millis = dice.millis(1..4);
        assert!((Duration::from_millis(1)..Duration::from_millis(4)).contains(&millis));
        hits += u32::from(dice.percent(30));
    }
    assert!((250..350).contains(&hits), "{hits}");
    assert_ne!(again.number(0..u64::MAX), dice.number(0..u64::MAX));
}

#[tokio::test]
async fn bodies_in_pieces_and_trailers_reach_the_upstream() -> Outcome {
    let gateway = Gateway::start(Setup::without_filter()).await?;
    let pieces = || gateway.post("/").pieces(["one ", "two ", "three"]);
    pieces().send().await;
    pieces().http2().trailer("x-sum", "12").send().await;
    let [chunked, streamed] = &gateway.upstream().requests()[..] else {
        panic!("two requests")
    };
    assert_eq!(
        chunked.header("transfer-encoding").as_deref(),
        Some("chunked")
    );
    assert_eq!(chunked.body, "one two three");
    assert_eq!(streamed.body, "one two three");
    assert_eq!(streamed.trailers.as_ref().unwrap()["x-sum"], "12");
    Ok(())
}
