//! Lengths of time: `"250ms" "20s" "15m" "24h" "90d"` or whole seconds.

use super::{
    At, Reader, Value,
    scalar::{digits, whole},
};
use crate::units::{Millis, Seconds};

/// 10 years of 365 days; what is longer is a mistake.
const LONGEST: Millis = Millis::from_secs(3650 * 86_400);

const FORMS: &str = "\"250ms\", \"20s\", \"15m\", \"24h\", \"90d\" or whole seconds";

impl Reader<'_> {
    /// A duration of at least 1 ms, at most 10 years.
    pub(crate) fn duration(&mut self, at: &At<'_>) -> Option<Millis> {
        let value = self.value(at)?;
        match self.up_to_longest(at, &value, "")? {
            Millis(0) => self.mismatch(at, &value, "a duration above 0"),
            duration => Some(duration),
        }
    }

    /// A duration within bounds, each given with how it is written: `(Millis(1), "1ms")`.
    pub(crate) fn duration_between(
        &mut self,
        at: &At<'_>,
        (least, least_written): (Millis, &str),
        (most, most_written): (Millis, &str),
    ) -> Option<Millis> {
        let value = self.value(at)?;
        match millis(&value) {
            Some(ms) if ms > most.0 as f64 => {
                let expected = format!("a duration of at most {most_written}");
                self.mismatch(at, &value, &expected)
            }
            Some(ms) if ms < least.0 as f64 => {
                let expected = format!("a duration of at least {least_written}");
                self.mismatch(at, &value, &expected)
            }
            Some(ms) => Some(Millis(ms as u64)),
            None => self.mismatch(at, &value, &format!("a duration: {FORMS}")),
        }
    }

    /// How long a store keeps something: `1s` to `31d`.
    pub(crate) fn lifetime(&mut self, at: &At<'_>) -> Option<Millis> {
        let least = (Millis::from_secs(1), "1s");
        self.duration_between(at, least, (Millis::from_secs(31 * 86_400), "31d"))
    }

    /// A duration that may be 0.
    pub(crate) fn duration_or_zero(&mut self, at: &At<'_>) -> Option<Millis> {
        let value = self.value(at)?;
        self.up_to_longest(at, &value, "")
    }

    /// A duration of at least 1 ms, or `off`, which YAML may read as `false`.
    pub(crate) fn duration_or_off(&mut self, at: &At<'_>) -> Option<Option<Millis>> {
        let value = self.value(at)?;
        match &value {
            Value::Bool(false) => return Some(None),
            Value::Text(text) if text.value == "off" => return Some(None),
            Value::Text(text) if text.filled() == Some("false") => return Some(None),
            _ => {}
        }
        match self.up_to_longest(at, &value, "\"off\" or ")? {
            Millis(0) => self.mismatch(at, &value, "\"off\" or a duration above 0"),
            duration => Some(Some(duration)),
        }
    }

    fn up_to_longest(&mut self, at: &At<'_>, value: &Value<'_>, or: &str) -> Option<Millis> {
        match millis(value) {
            Some(ms) if ms > LONGEST.0 as f64 => {
                self.mismatch(at, value, &format!("{or}a duration of at most 3650d"))
            }
            Some(ms) if ms >= 0.0 => Some(Millis(ms as u64)),
            _ => self.mismatch(at, value, &format!("{or}a duration: {FORMS}")),
        }
    }

    /// A duration of whole seconds, at least one, at most `most` days.
    pub(crate) fn seconds(&mut self, at: &At<'_>, most_days: u64) -> Option<Seconds> {
        let value = self.value(at)?;
        match millis(&value) {
            Some(ms) if ms > (most_days * 86_400_000) as f64 => {
                self.mismatch(at, &value, &format!("a duration of at most {most_days}d"))
            }
            Some(ms) if ms >= 1000.0 && (ms as u64).is_multiple_of(1000) => {
                Some(Seconds(ms as u64 / 1000))
            }
            Some(_) => self.mismatch(at, &value, "a duration of whole seconds, at least 1s"),
            None => self.mismatch(at, &value, &format!("a duration: {FORMS}")),
        }
    }
}

/// Milliseconds, which may be out of bounds but are whole.
fn millis(value: &Value<'_>) -> Option<f64> {
    if let Some(seconds) = whole(value) {
        return Some(seconds * 1000.0);
    }
    let Value::Text(text) = value else {
        return None;
    };
    let unit_at = text.value.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.value.split_at_checked(unit_at)?;
    let unit = match unit {
        "ms" => 1.0,
        "s" => 1000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    Some(digits(count)? * unit)
}
