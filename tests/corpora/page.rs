//! Any bytes as a page of shared memory, and any requests on it: it never outgrows its size, and what
//! was kept is what is read back.

use tollgate_config::{Limit, Millis, Points, Seconds};
use tollgate_filter::limit::{
    bucket::{Level, Meter},
    penalty,
    promise::Promise,
};
use tollgate_filter::store::local::page::Page;
use tollgate_filter::store::local::record::{Bucket, Kind, Name, SIZE};

use super::draw::Draw;

/// 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;
const HEAD: usize = 16;

/// Reads the bytes as the size of a page, its bytes, and what happens to it.
pub fn run(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    // The least page that holds what one request keeps, its overflow bucket included, and more.
    let size = HEAD + SIZE * (4 + usize::from(draw.byte() % 16)) + usize::from(draw.byte() % 48);
    let mut bytes = Vec::new();
    if draw.byte() % 2 == 1 {
        let length = usize::from(draw.byte()) * 4;
        bytes = draw.take(length).to_vec();
    }
    let mut now = Millis(START);
    while !draw.is_empty() {
        now = match draw.byte() % 4 {
            0 => now.plus(Millis(draw.number())),
            1 => Millis(now.0.saturating_sub(draw.below(5000))),
            _ => now.plus(Millis(draw.below(100))),
        };
        let Some(written) = decide(&bytes, size, now, &mut draw) else {
            continue;
        };
        assert!(written.len() <= size, "{} bytes of {size}", written.len());
        let again = Page::read(written.clone(), size);
        assert_eq!(again.into_bytes(), written, "it is read back as another");
        bytes = written;
    }
}

/// What a request does to a page: it takes two seats, and keeps both and what is held, or nothing.
fn decide(bytes: &[u8], size: usize, now: Millis, draw: &mut Draw<'_>) -> Option<Vec<u8>> {
    let mut page = Page::read(bytes.to_vec(), size);
    let first = name(draw, &[Kind::Key, Kind::Anonymous, Kind::Ip]);
    let second = draw
        .once_in(2)
        .then(|| name(draw, &[Kind::Tenant, Kind::Ip]));
    let held = name(draw, &[Kind::Penalty]);
    let second = second.filter(|second| *second != first);
    let meters = [meter(draw), meter(draw)];
    let others: Vec<Name> = [Some(first), second, Some(held)]
        .into_iter()
        .flatten()
        .collect();

    let seats: Vec<Name> = [Some(first), second]
        .into_iter()
        .flatten()
        .map(|name| page.seat(name, &others, now))
        .collect();
    let kept: Vec<Bucket> = seats
        .iter()
        .zip(&meters)
        .map(|(seat, meter)| {
            let bucket = page.bucket(*seat, meter, now);
            let level = bucket.level.seen(meter, now).take(draw.below(50));
            let promise = Promise(now.0.saturating_mul(1000).saturating_add(draw.number()));
            Bucket { level, promise }
        })
        .collect();
    if draw.once_in(4) {
        return None;
    }
    for (seat, bucket) in seats.iter().zip(&kept) {
        page.keep_bucket(*seat, bucket);
    }
    for ((seat, bucket), meter) in seats.iter().zip(&kept).zip(&meters) {
        if *seat != Name::OVERFLOW {
            let read = page.bucket(*seat, meter, now);
            assert_eq!(read, stored(bucket), "{seat:?} is not what was kept");
        }
    }
    if draw.once_in(2) {
        let record = record(draw, now);
        let evicted = page.evictions();
        page.keep_penalty(held, &record, &others, now);
        let read = page.penalty(held);
        let dropped = page.evictions() > evicted && read == penalty::Record::default();
        assert!(read == record || dropped, "{record:?} is read as {read:?}");
        // Making room for it took no seat of this request.
        for ((seat, bucket), meter) in seats.iter().zip(&kept).zip(&meters) {
            if *seat != Name::OVERFLOW {
                assert_eq!(page.bucket(*seat, meter, now), stored(bucket));
            }
        }
    }
    Some(page.into_bytes())
}

/// Few enough names that they meet again.
fn name(draw: &mut Draw<'_>, kinds: &[Kind]) -> Name {
    Name {
        id: u128::from(draw.byte() % 24) + 1,
        kind: *draw.pick(kinds),
    }
}

/// A limit as the configuration allows it.
fn meter(draw: &mut Draw<'_>) -> Meter {
    Meter::new(Limit {
        points: Points(draw.below(1_000_000_000) + 1),
        per: Seconds(draw.below(31 * 86_400) + 1),
        burst: Points(draw.below(1000) + 1),
    })
}

fn record(draw: &mut Draw<'_>, now: Millis) -> penalty::Record {
    let mut until = || time(now.plus(Millis(draw.below(1 << 40))));
    let (window_ends, remembered_until, boxed_until) = (until(), until(), until());
    penalty::Record {
        strikes: draw.below(1 << 20) as u32,
        window_ends,
        offenses: draw.below(1 << 20) as u32,
        remembered_until,
        level: draw.byte() % 4,
        boxed_until,
        by_throttle: draw.once_in(4),
    }
}

/// What memory holds of a bucket: times have 56 bits, 2,283,000 years.
fn stored(bucket: &Bucket) -> Bucket {
    Bucket {
        level: Level {
            at: time(bucket.level.at),
            ..bucket.level
        },
        ..*bucket
    }
}

fn time(at: Millis) -> Millis {
    at.min(Millis((1 << 56) - 1))
}
