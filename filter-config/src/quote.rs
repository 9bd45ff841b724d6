//! How names and values of the document are shown in a message: on one line, short, and never
//! as something that a terminal or a log would act on.

/// Characters of a value that a message shows.
const SHOWN: usize = 64;

/// The text in double quotes; control and invisible characters escaped, a long text shortened.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => {
            let head = text.get(..end).unwrap_or_default();
            format!("{head:?}... ({} bytes)", text.len())
        }
    }
}

/// Whether the text is a plain name: 1 to 64 of `A-Z a-z 0-9 _ -`.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A number without a needless fraction.
pub(crate) fn number(value: f64) -> String {
    /// Above it not every whole number has a value of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        format!("{}", value as i64)
    } else {
        format!("{value:?}")
    }
}

/// `a, b or c`, each in quotes.
pub(crate) fn alternatives<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let last = names.len().saturating_sub(1);
    let mut out = String::new();
    for (index, name) in names.enumerate() {
        if index > 0 {
            out.push_str(if index == last { " or " } else { ", " });
        }
        out.push_str(&quoted(name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_shown_raw() {
        assert_eq!(
            quoted("a\u{1b}[31m\n\u{202e}\"\\"),
            r#""a\u{1b}[31m\n\u{202e}\"\\""#
        );
    }

    #[test]
    fn long_values_are_shortened_between_characters() {
        assert_eq!(
            quoted(&"é".repeat(65)),
            format!("\"{}\"... (130 bytes)", "é".repeat(64))
        );
        assert_eq!(quoted(&"é".repeat(64)), format!("\"{}\"", "é".repeat(64)));
    }

    #[test]
    fn numbers_are_shown_as_they_were_written() {
        for (value, shown) in [
            (5.0, "5"),
            (-0.0, "0"),
            (-3.0, "-3"),
            (0.25, "0.25"),
            (1e300, "1e300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(number(value), shown);
        }
    }

    #[test]
    fn alternatives_read_like_a_sentence() {
        assert_eq!(alternatives(["a"].into_iter()), "\"a\"");
        assert_eq!(
            alternatives(["a", "b", "c"].into_iter()),
            "\"a\", \"b\" or \"c\""
        );
    }
}
