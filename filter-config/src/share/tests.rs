use proptest::prelude::*;

use super::*;
use crate::units::Seconds;

fn limit(points: u64, per: u64, burst: u64) -> Limit {
    Limit {
        points: Points(points),
        per: Seconds(per),
        burst: Points(burst),
    }
}

#[test]
fn a_share_is_shown_as_it_is_written() {
    for (share, shown) in [
        (250_000, "0.25"),
        (333_333, "0.333333"),
        (500_000, "0.5"),
        (1, "0.000001"),
        (100_010, "0.10001"),
        (1_000_000, "1"),
    ] {
        assert_eq!(Share(share).to_string(), shown);
    }
}

#[test]
fn points_and_burst_are_rounded_down_and_something_is_left() {
    assert_eq!(
        Share(250_000).of(limit(150, 60, 151)),
        limit(37, 60, 37),
        "37.5 and 37.75"
    );
    assert_eq!(Share(333_333).of(limit(3, 60, 3)), limit(1, 60, 1));
    assert_eq!(Share(1).of(limit(3, 60, 3)), limit(1, 60, 1));
    assert_eq!(Share(1_000_000).of(limit(7, 60, 9)), limit(7, 60, 9));
}

#[test]
fn a_part_too_fine_to_count_is_a_coarser_number() {
    // Half of it is a prime, so a point would be 2,678,400,000 units.
    let whole = limit(1_999_999_874, 31 * 86_400, 3_000_000);
    let part = Share(500_000).of(whole);
    assert_eq!(part, limit(999_999_937, 31 * 86_400, 1_500_000), "it fits");
    let larger = limit(whole.points.0, 31 * 86_400, 6_800_000);
    assert_eq!(
        Share(500_000).of(larger),
        limit(999_999_936, 31 * 86_400, 3_400_000)
    );
}

#[test]
fn where_too_few_points_are_left_the_burst_is_cut() {
    let whole = limit(300, 31 * 86_400, 1_000_000_000);
    assert!(whole.is_exact());
    let part = Share(370_000).of(whole);
    // 111 points are 3 x 37 and would leave a burst of 10 million; 108 divide the 31 days.
    assert_eq!(part, limit(108, 31 * 86_400, (1 << 53) / 24_800_000));
}

proptest! {
    #[test]
    fn no_more_than_the_share_and_counted_exactly(
        points in 1_u64..=1_000_000_000,
        per in 1_u64..=31 * 86_400,
        burst in 1_u64..=1_000_000_000,
        share in 1_u32..=1_000_000,
    ) {
        let (_, unit) = limit(points, per, 1).unit();
        let burst = burst.min(Limit::MOST_UNITS / unit);
        let part = Share(share).of(limit(points, per, burst));
        let most = |whole: u64| (whole * u64::from(share) / 1_000_000).max(1);
        prop_assert!((1..=most(points)).contains(&part.points.0), "{:?}", part);
        prop_assert!((1..=most(burst)).contains(&part.burst.0), "{:?}", part);
        prop_assert_eq!(part.per, Seconds(per));
        prop_assert!(part.is_exact(), "{:?}", part);
    }
}
