//! `cost` of a route, and whether it can ever be paid.

use super::tier::Burst;
use crate::{
    reader::{At, Path, Reader, Value},
    route::{Cost, WhenRange},
    units::Points,
};

/// `cost` where it is not given.
pub(super) const ONE: Cost = Cost {
    base: Points(1),
    when_range: None,
};

const MOST: u64 = 1_000_000_000;

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, bursts: &[Burst]) -> Option<Cost> {
    let value = reader.value(at)?;
    if !matches!(value, Value::Map(_)) {
        let base = price(reader, at, bursts)?;
        return Some(Cost {
            base,
            when_range: None,
        });
    }
    let fields = reader.fields(at, &["base", "when_range"])?;
    let base = fields.optional(reader, "base", ONE.base, |reader, at| {
        price(reader, at, bursts)
    });
    let when_range = fields.optional(reader, "when_range", None, |reader, at| {
        when_range(reader, at, base, bursts).map(Some)
    });
    Some(Cost {
        base: base?,
        when_range: when_range?,
    })
}

fn when_range(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    base: Option<Points>,
    bursts: &[Burst],
) -> Option<WhenRange> {
    const PARAMETER: &str = "the name of a query parameter";
    let fields = reader.fields(at, &["from", "to", "longer_than", "cost"])?;
    let name = |reader: &mut Reader<'_>, at: &At<'_>| reader.text(at, PARAMETER);
    let from = fields.required(reader, "from", PARAMETER, name);
    let to = fields.required(reader, "to", PARAMETER, |reader, at| {
        let to = name(reader, at)?;
        if from.as_ref() == Some(&to) {
            let message = "found the parameter of from, expected another: a range has two ends";
            reader.error(&at.path, message.to_owned());
        }
        Some(to)
    });
    let longer_than = fields.required(reader, "longer_than", "a duration", Reader::duration);
    let cost = fields.required(reader, "cost", PRICE, |reader, at| {
        let cost = price(reader, at, bursts)?;
        if let Some(base) = base.filter(|base| *base >= cost) {
            let message = format!(
                "found {}, no more than the base of {}: a long range is no dearer than a short one",
                cost.0, base.0
            );
            reader.warn(&at.path, message);
        }
        Some(cost)
    });
    Some(WhenRange {
        from: from?,
        to: to?,
        longer_than: longer_than?,
        cost: cost?,
    })
}

const PRICE: &str = "a whole number of points";

fn price(reader: &mut Reader<'_>, at: &At<'_>, bursts: &[Burst]) -> Option<Points> {
    let value = reader.value(at)?;
    if matches!(value, Value::Number(0.0)) {
        let expected = "a whole number of points, at least 1 (list the path in exempt to let it \
                        pass without limits)";
        return reader.mismatch(at, &value, expected);
    }
    let cost = Points(reader.whole(at, PRICE, 1, MOST)?);
    payable(reader, &at.path, cost, bursts);
    Some(cost)
}

/// Buckets that an error names.
const NAMED: usize = 6;

/// A bucket never holds more than its burst, so a dearer request can never pass.
fn payable(reader: &mut Reader<'_>, path: &Path, cost: Points, bursts: &[Burst]) {
    let Some(smallest) = bursts.iter().map(|burst| burst.points).min() else {
        return;
    };
    if smallest < cost {
        let mut small = bursts.iter().filter(|burst| burst.points < cost);
        let named = small.by_ref().take(NAMED);
        let named = named.map(|burst| format!("{} ({})", burst.bucket, burst.points.0));
        let mut small_ones: Vec<String> = named.collect();
        let more = small.count();
        if more > 0 {
            small_ones.push(format!("buckets of {more} more"));
        }
        let message = format!(
            "found {}, expected at most {}: it can never pass with the burst of the {}",
            cost.0,
            smallest.0,
            small_ones.join(", the ")
        );
        reader.error(path, message);
    } else if cost > Points(1) && smallest.0 < cost.0.saturating_mul(2) {
        let message = format!(
            "found {}, more than half of the smallest burst, {}: it passes only after a quiet time",
            cost.0, smallest.0
        );
        reader.warn(path, message);
    }
}
