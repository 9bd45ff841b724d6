//! What a request costs, where that depends on the range of dates it asks for.
//!
//! No spelling of a dear range gets the cheap price: a date that cannot be read, a parameter given
//! twice, a start that is left open, or numbers that servers read differently cost the dearer price.
//! An end that is left open is now.
//! A request that names neither date asks for the service's own default and pays the base.

use jiff::{Timestamp, civil, tz::TimeZone};
use tollgate_config::{Cost, Millis, WhenRange};

/// The cost of a request with this query, in points.
#[must_use]
pub fn of(cost: &Cost, query: &[u8], now: Millis) -> u64 {
    match &cost.when_range {
        None => cost.base.0,
        Some(range) if is_long(range, query, now) => cost.base.0.max(range.cost.0),
        Some(_) => cost.base.0,
    }
}

enum Date {
    Missing,
    Unclear,
    At(Timestamp, Spelling),
}

/// How a moment was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Text,
    Seconds,
    Millis,
}

fn is_long(range: &WhenRange, query: &[u8], now: Millis) -> bool {
    let (mut from, mut to) = (Date::Missing, Date::Missing);
    for (name, value) in form_urlencoded::parse(query) {
        for (wanted, date) in [(&range.from, &mut from), (&range.to, &mut to)] {
            if name == wanted.as_str() {
                *date = match date {
                    Date::Missing => read(&value),
                    _ => Date::Unclear,
                };
            }
        }
    }
    let (from, to) = match (from, to) {
        (Date::Missing, Date::Missing) => return false,
        // A server knows one of them, and reads the other as a moment in 1970 or far away.
        (Date::At(_, Spelling::Seconds), Date::At(_, Spelling::Millis))
        | (Date::At(_, Spelling::Millis), Date::At(_, Spelling::Seconds)) => return true,
        (Date::At(from, _), Date::At(to, _)) => (from, to),
        (Date::At(from, _), Date::Missing) => {
            let now = i64::try_from(now.0).ok();
            let now = now.and_then(|now| Timestamp::from_millisecond(now).ok());
            (from, now.unwrap_or(Timestamp::MAX))
        }
        _ => return true,
    };
    let length = from.as_nanosecond().abs_diff(to.as_nanosecond());
    length > u128::from(range.longer_than.0) * 1_000_000
}

/// A date, a date and time (UTC where it names no offset), or Unix seconds or milliseconds.
fn read(text: &str) -> Date {
    let text = text.trim();
    let read = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        read_number(text)
    } else {
        read_text(text).map(|at| (at, Spelling::Text))
    };
    read.map_or(Date::Unclear, |(at, spelling)| Date::At(at, spelling))
}

/// Any other number of digits is not clear: `20250301` is a day, or another in 1970.
fn read_number(text: &str) -> Option<(Timestamp, Spelling)> {
    let number = text.parse().ok()?;
    match text.len() {
        9..=10 => Some((Timestamp::from_second(number).ok()?, Spelling::Seconds)),
        12..=13 => Some((Timestamp::from_millisecond(number).ok()?, Spelling::Millis)),
        _ => None,
    }
}

fn read_text(text: &str) -> Option<Timestamp> {
    // A `+` of an offset that was not escaped has become a space.
    let unspaced = || match text.rsplit_once(' ') {
        Some((start, end)) if start.contains(['T', 't']) => format!("{start}+{end}"),
        _ => text.to_owned(),
    };
    let time = text.parse::<Timestamp>();
    if let Ok(time) = time.or_else(|_| unspaced().parse::<Timestamp>()) {
        return Some(time);
    }
    // A date with an offset but no time is read differently from server to server.
    let offset = text.contains(['+', 'Z', 'z', '[']) || text.matches('-').count() != 2;
    let civil = text.parse::<civil::DateTime>().ok().filter(|_| !offset)?;
    TimeZone::UTC.to_timestamp(civil).ok()
}

#[cfg(test)]
mod tests;
