//! Numbers, booleans, choices and names.

use super::{At, Reader, Value};
use crate::{
    nearest::nearest,
    quote::{alternatives, is_name},
    share::Share,
};

impl Reader<'_> {
    /// A whole number from `least` to `most`; `noun` names its kind: `a whole number of points`.
    pub(crate) fn whole(&mut self, at: &At<'_>, noun: &str, least: u64, most: u64) -> Option<u64> {
        self.whole_up_to(at, noun, least, (most, &most.to_string()))
    }

    /// A whole number whose upper bound has a reason: `(64, "64 with the local store")`.
    pub(crate) fn whole_up_to(
        &mut self,
        at: &At<'_>,
        noun: &str,
        least: u64,
        (most, most_written): (u64, &str),
    ) -> Option<u64> {
        let value = self.value(at)?;
        match whole(&value) {
            Some(n) if n > most as f64 => {
                self.mismatch(at, &value, &format!("{noun}, at most {most_written}"))
            }
            Some(n) if n >= least as f64 => Some(n as u64),
            _ => self.mismatch(at, &value, &format!("{noun}, at least {least}")),
        }
    }

    /// A whole number from `least` to `most`, which `expected` names both.
    pub(crate) fn whole_between(
        &mut self,
        at: &At<'_>,
        (least, most): (u16, u16),
        expected: &str,
    ) -> Option<u16> {
        let value = self.value(at)?;
        match whole(&value) {
            Some(n) if (f64::from(least)..=f64::from(most)).contains(&n) => Some(n as u16),
            _ => self.mismatch(at, &value, expected),
        }
    }

    /// A number of at least a millionth and at most 1, rounded to millionths. Envoy's reader of
    /// YAML knows no fractions: it hands over `0.25` as the string "0.25".
    pub(crate) fn share(&mut self, at: &At<'_>) -> Option<Share> {
        let value = self.value(at)?;
        let share = match &value {
            Value::Number(n) => Some(*n),
            Value::Text(text) => text.value.parse().ok(),
            _ => None,
        };
        match share {
            Some(share) if (1e-6..=1.0).contains(&share) => {
                // At most a whole, which fits.
                Some(Share((share * f64::from(Share::WHOLE)).round() as u32))
            }
            _ => self.mismatch(at, &value, "a number of at least 0.000001, at most 1"),
        }
    }

    pub(crate) fn boolean(&mut self, at: &At<'_>) -> Option<bool> {
        let value = self.value(at)?;
        let boolean = match &value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) => text.filled().and_then(|filled| filled.parse().ok()),
            _ => None,
        };
        match boolean {
            Some(boolean) => Some(boolean),
            None => self.mismatch(at, &value, "true or false"),
        }
    }

    /// One of a few words. `false` is the word `off`: YAML reads `off` so.
    pub(crate) fn choice<T: Copy>(&mut self, at: &At<'_>, choices: &[(&str, T)]) -> Option<T> {
        let value = self.value(at)?;
        let word = match &value {
            Value::Text(text) if text.filled() == Some("false") => "off",
            Value::Text(text) => text.value.as_ref(),
            Value::Bool(false) => "off",
            _ => "",
        };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == word) {
            return Some(*choice);
        }
        let names = choices.iter().map(|(name, _)| *name);
        self.mismatch(at, &value, &one_of(word, names))
    }

    /// A string that is not empty.
    pub(crate) fn text(&mut self, at: &At<'_>, expected: &str) -> Option<String> {
        let value = self.value(at)?;
        match value {
            Value::Text(text) if !text.value.is_empty() => Some(text.value.into_owned()),
            _ => self.mismatch(at, &value, expected),
        }
    }

    /// A name that labels metrics: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub(crate) fn name(&mut self, at: &At<'_>) -> Option<String> {
        let value = self.value(at)?;
        match value {
            Value::Text(text) if is_name(&text.value) => Some(text.value.into_owned()),
            _ => self.mismatch(at, &value, NAME),
        }
    }
}

/// `"a", "b" or "c" (did you mean b?)`: the names that could stand where `word` does.
pub(crate) fn one_of<'n>(
    word: &str,
    names: impl ExactSizeIterator<Item = &'n str> + Clone,
) -> String {
    let meant = match nearest(word, names.clone()) {
        Some(meant) if names.len() > 1 => format!(" (did you mean {meant}?)"),
        _ => String::new(),
    };
    format!("{}{meant}", alternatives(names))
}

/// What a name must be.
pub(crate) const NAME: &str = "a name of 1 to 64 of A-Z a-z 0-9 _ -";

/// The value as a whole number, which may be out of bounds. A Struct has no integers: 60 arrives
/// as 60.0, and so 60.0 is whole wherever it is written.
pub(super) fn whole(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Number(n) => (n.fract() == 0.0).then_some(*n),
        Value::Text(text) => text.filled().and_then(digits),
        _ => None,
    }
}

/// Digits only, as a number.
pub(super) fn digits(text: &str) -> Option<f64> {
    let only_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    only_digits.then(|| text.parse().ok()).flatten()
}
