//! Rates: `{points, per, burst}` or `"60/minute"`.

use crate::{
    limit::Limit,
    reader::{At, Reader, Value},
    units::{Points, Seconds},
};

/// `anonymous.limit` where it is not given.
pub(super) const ANONYMOUS: Limit = Limit {
    points: Points(60),
    per: Seconds(60),
    burst: Points(60),
};

/// What to write.
pub(super) const EXPECTED: &str =
    "a rate: {points, per, burst} or \"60/minute\" (second, minute, hour or day)";

const POINTS: &str = "a whole number of points";
const MOST_POINTS: u64 = 1_000_000_000;
const MOST_DAYS: u64 = 31;

pub(super) fn anonymous(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Limit> {
    let fields = reader.fields(at, &["limit"])?;
    fields.optional(reader, "limit", ANONYMOUS, read)
}

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Limit> {
    let value = reader.value(at)?;
    let limit = match &value {
        Value::Map(_) => object(reader, at)?,
        Value::Text(text) => match short(&text.value) {
            Some(limit) if (1..=MOST_POINTS).contains(&limit.points.0) => limit,
            Some(_) => {
                let expected = format!("a rate of 1 to {MOST_POINTS} points");
                return reader.mismatch(at, &value, &expected);
            }
            None => return reader.mismatch(at, &value, EXPECTED),
        },
        _ => return reader.mismatch(at, &value, EXPECTED),
    };
    if !limit.is_exact() {
        reader.error(
            &at.path,
            format!(
                "found {} points per {}s with a burst of {}, expected a smaller burst or rounder \
                 numbers: so fine a rate cannot be counted exactly (burst x per in ms / their \
                 greatest common divisor with points is above 2^53)",
                limit.points.0, limit.per.0, limit.burst.0
            ),
        );
        return None;
    }
    Some(limit)
}

fn object(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Limit> {
    let fields = reader.fields(at, &["points", "per", "burst"])?;
    let whole =
        |reader: &mut Reader<'_>, at: &At<'_>| reader.whole(at, POINTS, 1, MOST_POINTS).map(Points);
    let points = fields.required(reader, "points", POINTS, whole);
    let per = fields.required(
        reader,
        "per",
        "a duration of whole seconds",
        |reader, at| reader.seconds(at, MOST_DAYS),
    );
    let burst = fields.optional(reader, "burst", points, |reader, at| {
        whole(reader, at).map(Some)
    });
    Some(Limit {
        points: points?,
        per: per?,
        burst: burst??,
    })
}

/// `60/minute`, its points not yet checked.
pub(super) fn short(text: &str) -> Option<Limit> {
    let (points, unit) = text.split_once('/')?;
    let per = match unit {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        _ => return None,
    };
    if !points.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let points = Points(match points.parse() {
        Ok(points) => points,
        Err(_) if points.is_empty() => return None,
        Err(_) => u64::MAX,
    });
    Some(Limit {
        points,
        per: Seconds(per),
        burst: points,
    })
}
