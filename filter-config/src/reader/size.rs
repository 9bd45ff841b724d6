//! Sizes of memory: `"512KiB" "16MiB" "1GiB"` or whole bytes.

use super::{
    At, Reader, Value,
    scalar::{digits, whole},
};
use crate::units::Bytes;

const FORMS: &str = "\"512KiB\", \"16MiB\", \"1GiB\" or whole bytes";

impl Reader<'_> {
    /// A size from 64 KiB to 4 GiB.
    pub(crate) fn size(&mut self, at: &At<'_>) -> Option<Bytes> {
        const LEAST: u64 = 64 << 10;
        const MOST: u64 = 4 << 30;
        let value = self.value(at)?;
        match bytes(&value) {
            Some(n) if n > MOST as f64 => self.mismatch(at, &value, "a size of at most 4GiB"),
            Some(n) if n < LEAST as f64 => self.mismatch(at, &value, "a size of at least 64KiB"),
            Some(n) => Some(Bytes(n as u64)),
            None => self.mismatch(at, &value, &format!("a size: {FORMS}")),
        }
    }
}

fn bytes(value: &Value<'_>) -> Option<f64> {
    if let Some(bytes) = whole(value) {
        return Some(bytes);
    }
    let Value::Text(text) = value else {
        return None;
    };
    // Envoy's reader of YAML hands over whole numbers of more than 31 bits as strings.
    if let Some(bytes) = digits(&text.value) {
        return Some(bytes);
    }
    let (count, unit) = text
        .value
        .split_at_checked(text.value.len().checked_sub(3)?)?;
    let unit = match unit {
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    Some(digits(count)? * unit)
}
