//! Tests of `price`: 25 points, 50 for a range of more than 90 days.

use proptest::prelude::*;
use tollgate_config::Points;

use super::*;
use crate::testing::NOW;

const DAY: i64 = 86_400_000;
const BASE: u64 = 25;
const DEAR: u64 = 50;

fn cost() -> Cost {
    Cost {
        base: Points(BASE),
        when_range: Some(WhenRange {
            from: "from".to_owned(),
            to: "to".to_owned(),
            longer_than: Millis((90 * DAY) as u64),
            cost: Points(DEAR),
        }),
    }
}

/// The price at [`NOW`], 90 days after 2025-01-01.
fn price(query: &str) -> u64 {
    of(&cost(), query.as_bytes(), NOW)
}

#[test]
fn a_range_up_to_the_limit_costs_the_base() {
    for query in [
        "from=2025-01-01&to=2025-04-01",
        "to=2025-04-01&from=2025-01-01",
        "page=2&from=2025-01-01&format=csv&to=2025-04-01&",
        "from=2025-03-31&to=2025-03-31",
        // The later one first is the same range.
        "from=2025-04-01&to=2025-01-01",
        // Open: until now.
        "from=2025-01-01",
        "from=2025-01-01T00:00:00Z",
        "from=2025-06-30",
        // Times, with and without seconds, fractions and offsets.
        "from=2025-01-01T00:00:00Z&to=2025-04-01T00:00:00Z",
        "from=2025-01-01t00:00:00z&to=2025-04-01t00:00:00z",
        "from=2025-01-01T00:00Z&to=2025-04-01T00:00Z",
        "from=2025-01-01T00:00:00&to=2025-04-01T00:00:00",
        "from=2025-01-01%2000:00:00&to=2025-04-01%2000:00:00",
        "from=2025-01-01T00:00:00.001Z&to=2025-04-01T00:00:00.001Z",
        "from=2025-01-01T00:00:00%2B02:00&to=2025-04-01T00:00:00%2B02:00",
        "from=2025-01-01T02:00:00%2B02:00&to=2025-04-01T00:00:00Z",
        "from=2025-01-01T02:00:00+02:00&to=2025-04-01T00:00:00Z",
        "from=2025-01-01T02:00:00.000+02:00&to=2025-04-01T05:30:00+05:30",
        "from=2025-01-01T00:00:00-02:00&to=2025-04-01T00:00:00Z",
        // Unix time.
        "from=1735689600&to=1743465600",
        "from=1735689600000&to=1743465600000",
        "from=1735689600",
        // Before 2001-09-09 it has 9 or 12 digits.
        "from=946684800&to=954460800",
        "from=946684800000&to=954460800000",
        // Mixed with a date.
        "from=2025-01-01&to=1743465600",
        // 29 + 31 + 30 days.
        "from=2024-02-01&to=2024-05-01",
        "from=2024-02-29&to=2024-05-29",
        // 28 + 31 + 30 days, and one.
        "from=2023-02-01&to=2023-05-02",
        // Escaped.
        "%66rom=2025-01-01&t%6F=2025%2D04%2d01",
        "from=+2025-01-01+&to=%202025-04-01",
    ] {
        assert_eq!(price(query), BASE, "{query}");
    }
}

#[test]
fn a_longer_range_costs_more() {
    for query in [
        "from=2025-01-01&to=2025-04-02",
        "from=2024-12-31&to=2025-04-01",
        "to=2025-04-02&from=2025-01-01",
        "from=2025-04-02&to=2025-01-01",
        "from=2024-12-31",
        "from=2024-12-31T23:59:59.999Z",
        "from=2025-06-30T00:00:00.001Z",
        "from=0001-01-01&to=2025-04-01",
        "from=2025-01-01&to=9999-12-31",
        "from=-009999-01-01T00:00:00Z&to=%2B009999-01-01T00:00:00Z",
        // By a thousandth of a second, and by less.
        "from=2025-01-01T00:00:00Z&to=2025-04-01T00:00:00.001Z",
        "from=2025-01-01T00:00:00Z&to=2025-04-01T00:00:00.000001Z",
        "from=2024-12-31T23:59:59.9999Z&to=2025-04-01T00:00:00Z",
        // By the offset.
        "from=2025-01-01T00:00:00%2B02:00&to=2025-04-01T00:00:00Z",
        "from=2025-01-01T00:00:00+02:00&to=2025-04-01T00:00:00Z",
        "from=2025-01-01T00:00:00Z&to=2025-04-01T00:00:00-00:01",
        "from=2025-01-01T00:00:00%2B00:01",
        "from=1735689600&to=1743465601",
        "from=1735689600000&to=1743465600001",
        "from=1735689599",
        "from=2025-01-01&to=1743465600001",
        "from=2024-02-01&to=2024-05-02",
        "from=2023-02-01&to=2023-05-03",
        // Escaped.
        "%66%72%6f%6D=2020-01-01&%74o=2025-04-01",
        "from=%32020-01-01&to=2025-04-01",
    ] {
        assert_eq!(price(query), DEAR, "{query}");
    }
}

#[test]
fn what_is_not_clear_costs_more() {
    for query in [
        // Without a start.
        "to=2025-04-01",
        "to=2025-04-01&page=2",
        // Empty.
        "from",
        "from=",
        "from=&to=",
        "from=2025-03-01&to=",
        "from=&to=2025-04-01",
        "from=%20&to=2025-04-01",
        // Given twice: the server might believe the other one.
        "from=2025-03-01&from=2025-03-02&to=2025-04-01",
        "from=2025-03-01&to=2025-04-01&to=2025-04-01",
        "from=2025-03-01&to=2025-04-01&from=",
        "from=&from=2025-03-01&to=2025-04-01",
        "from=2025-03-01&%66rom=2020-01-01&to=2025-04-01",
        "from=2025-03-01&from=2025-03-01&from=2025-03-01",
        // No dates, or none that exist.
        "from=yesterday&to=2025-04-01",
        "from=2025-03-01&to=now",
        "from=2025-02-30&to=2025-03-01",
        "from=2023-02-29&to=2023-03-01",
        "from=2025-13-01&to=2025-04-01",
        "from=2025-03-01T25:00:00Z&to=2025-04-01",
        "from=01/03/2025&to=04/01/2025",
        "from=1.735689e9&to=1743465600",
        "from=-1735689600&to=1743465600",
        "from=99999999999&to=1743465600",
        "from=1&to=1743465600",
        "from=99999999999999999999&to=1743465600",
        "from=%FF&to=2025-04-01",
        "from=2025-03-01%00&to=2025-04-01",
        "from=2025-03-01T00:00:00%2B99:00&to=2025-04-01",
        "from=2025-03-01,2020-01-01&to=2025-04-01",
    ] {
        assert_eq!(price(query), DEAR, "{query}");
    }
}

#[test]
fn numbers_that_servers_read_differently_cost_more() {
    for query in [
        // A date without dashes, or 1970-08-23 in seconds.
        "from=20250301&to=20250401",
        "from=20250301",
        // Who counts seconds reads the second as a moment in the far future.
        "from=1735689600&to=1735689600000",
        "from=1735689600000&to=1735689600",
    ] {
        assert_eq!(price(query), DEAR, "{query}");
    }
}

#[test]
fn without_a_range_it_costs_the_base() {
    for query in [
        "",
        "&&",
        "page=2",
        "fro=2020-01-01",
        "from2=2020-01-01&xto=2025-01-01",
        "q=from%3D2020-01-01%26to%3D2025-01-01",
        "%ff=%ff&=&==",
    ] {
        assert_eq!(price(query), BASE, "{query}");
    }
}

#[test]
fn other_parameters_may_hold_the_range() {
    let range = WhenRange {
        from: "start date".to_owned(),
        to: "fin[é]".to_owned(),
        longer_than: Millis::from_secs(3600),
        cost: Points(9),
    };
    let cost = Cost {
        base: Points(2),
        when_range: Some(range),
    };
    let price = |query: &str| of(&cost, query.as_bytes(), NOW);
    assert_eq!(price("from=2020-01-01&to=2025-01-01"), 2);
    assert_eq!(price("start+date=2025-03-31T23:00:00Z"), 2);
    assert_eq!(price("start%20date=2025-03-31T22:59:59Z"), 9);
    assert_eq!(price("start+date=1743460000&fin%5B%C3%A9%5D=1743463600"), 2);
    assert_eq!(price("start+date=1743460000&fin[é]=1743463601"), 9);
}

#[test]
fn a_fixed_price_and_a_cheaper_long_range() {
    let fixed = Cost {
        base: Points(10),
        when_range: None,
    };
    assert_eq!(of(&fixed, b"from=x&to=y", NOW), 10);
    let mut cheaper = cost();
    if let Some(range) = &mut cheaper.when_range {
        range.cost = Points(5);
    }
    // A long range never gets a rebate.
    assert_eq!(of(&cheaper, b"from=2020-01-01", NOW), BASE);
}

/// A moment as a server writes it; worked out without the library under test.
fn iso(ms: i64, offset_minutes: i64, separator: char) -> String {
    let local = ms + offset_minutes * 60_000;
    let (days, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    // Days to a civil date, by H. Hinnant's "chrono-Compatible Low-Level Date Algorithms".
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    let offset = match offset_minutes {
        0 => "Z".to_owned(),
        minutes => {
            let sign = if minutes < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
        }
    };
    format!(
        "{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}.{milli:03}{offset}"
    )
}

#[test]
fn the_spelling_of_this_test_is_right() {
    assert_eq!(iso(NOW.0 as i64, 0, 'T'), "2025-04-01T00:00:00.000Z");
    assert_eq!(
        iso(951_782_400_123, -90, 't'),
        "2000-02-28t22:30:00.123-01:30"
    );
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Seconds,
    Millis,
    Iso { offset: i64, separator: char },
}

fn form() -> impl Strategy<Value = Form> {
    let iso = (-14_i64 * 60..=14 * 60, prop::sample::select(vec!['T', 't']))
        .prop_map(|(offset, separator)| Form::Iso { offset, separator });
    prop_oneof![Just(Form::Seconds), Just(Form::Millis), iso]
}

fn spell(ms: i64, form: Form) -> String {
    match form {
        Form::Seconds => (ms / 1000).to_string(),
        Form::Millis => ms.to_string(),
        Form::Iso { offset, separator } => iso(ms, offset, separator),
    }
}

/// Escapes what must be, and more where `escape` says so. A `+` may stay as it is.
fn escaped(text: &str, escape: u64) -> String {
    let mut out = String::new();
    for (at, byte) in text.bytes().enumerate() {
        if escape >> (at % 64) & 1 == 1 {
            out.push_str(&format!("%{byte:02x}"));
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// From 1980 to 2030, in whole seconds so that every form can tell it.
fn moment() -> impl Strategy<Value = i64> {
    (315_532_800_i64..1_893_456_000).prop_map(|seconds| seconds * 1000)
}

/// Lengths around the limit, and any.
fn length() -> impl Strategy<Value = i64> {
    let limit = 90 * DAY / 1000;
    prop_oneof![limit - 3..limit + 4, 0..4 * limit, -4 * limit..0]
        .prop_map(|seconds| seconds * 1000)
}

fn is_dear(length: i64) -> bool {
    length.abs() > 90 * DAY
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_range_has_one_price_however_it_is_spelled(
        from in moment(),
        length in length(),
        forms in (form(), form()),
        escapes in any::<[u64; 4]>(),
        swapped in any::<bool>(),
        noise in "[a-z]{3,5}=[0-9]{0,4}",
    ) {
        let to = from + length;
        let [a, b, c, d] = escapes;
        let from_pair = format!("{}={}", escaped("from", a), escaped(&spell(from, forms.0), b));
        let to_pair = format!("{}={}", escaped("to", c), escaped(&spell(to, forms.1), d));
        prop_assume!(!noise.starts_with("from="));
        let query = if swapped {
            format!("{to_pair}&{noise}&{from_pair}")
        } else {
            format!("{from_pair}&{to_pair}&{noise}")
        };
        let mixed = matches!(
            forms,
            (Form::Seconds, Form::Millis) | (Form::Millis, Form::Seconds)
        );
        let expected = if is_dear(length) || mixed { DEAR } else { BASE };
        prop_assert_eq!(price(&query), expected, "{}", query);
    }

    #[test]
    fn an_open_end_is_now(back in length(), form in form(), escape in any::<u64>()) {
        let from = NOW.0 as i64 - back;
        let query = format!("from={}", escaped(&spell(from, form), escape));
        let expected = if is_dear(back) { DEAR } else { BASE };
        prop_assert_eq!(price(&query), expected, "{}", query);
    }

    #[test]
    fn nothing_added_to_a_long_range_makes_it_cheap(
        from in moment(),
        beyond in 1_i64..100_000_000,
        forms in (form(), form()),
        more in "(&(from|to|%66rom|t%6f|x)(=[0-9TZ:+-]{0,12})?){0,3}",
        before in any::<bool>(),
    ) {
        let to = from + 90 * DAY + beyond * 1000;
        let pair = format!("from={}&to={}", spell(from, forms.0), spell(to, forms.1));
        let query = if before { format!("{more}&{pair}") } else { format!("{pair}{more}") };
        prop_assert_eq!(price(&query), DEAR, "{}", query);
    }

    #[test]
    fn no_bytes_can_make_it_panic(
        query in prop::collection::vec(any::<u8>(), 0..60),
        from in "\\PC{0,30}",
        to in "[0-9TZtz:.+ \\[\\]/-]{0,40}",
        now in any::<u64>(),
    ) {
        let known = |price| price == BASE || price == DEAR;
        prop_assert!(known(of(&cost(), &query, Millis(now))));
        let query = format!("from={from}&to={to}");
        prop_assert!(known(of(&cost(), query.as_bytes(), Millis(now))));
    }
}
