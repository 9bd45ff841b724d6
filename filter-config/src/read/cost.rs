//! `cost` of a route.

use super::burst::Met;
use crate::{
    reader::{At, Reader, Value},
    route::{Cost, WhenRange},
    units::Points,
};

/// `cost` where it is not given.
pub(super) const ONE: Cost = Cost {
    base: Points(1),
    when_range: None,
};

const MOST: u64 = 1_000_000_000;

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, met: &Met<'_>) -> Option<Cost> {
    let value = reader.value(at)?;
    if !matches!(value, Value::Map(_)) {
        let base = price(reader, at, met)?;
        return Some(Cost {
            base,
            when_range: None,
        });
    }
    let fields = reader.fields(at, &["base", "when_range"])?;
    let base = fields.optional(reader, "base", ONE.base, |reader, at| {
        price(reader, at, met)
    });
    let when_range = fields.optional(reader, "when_range", None, |reader, at| {
        when_range(reader, at, base, met).map(Some)
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
    met: &Met<'_>,
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
        let cost = price(reader, at, met)?;
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

fn price(reader: &mut Reader<'_>, at: &At<'_>, met: &Met<'_>) -> Option<Points> {
    let value = reader.value(at)?;
    if matches!(value, Value::Number(0.0)) {
        let expected = "a whole number of points, at least 1 (list the path in exempt to let it \
                        pass without limits)";
        return reader.mismatch(at, &value, expected);
    }
    let cost = Points(reader.whole(at, PRICE, 1, MOST)?);
    met.payable(reader, &at.path, cost);
    Some(cost)
}
