//! `${NAME:-default}` in strings, filled from the environment.

use std::{borrow::Cow, fmt};

use crate::quote::quoted;

/// Why a text cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfilled<'t> {
    /// `${` to the end of the text, without a `}`.
    Open(&'t str),
    /// `${` and `}` around what names no variable.
    NoName(&'t str),
    /// Another `${` in the default of this variable.
    Nested(&'t str),
    /// No such variable and no default.
    Unset(&'t str),
}

impl Unfilled<'_> {
    /// The message without any of the text but the name of a variable: it may be part of a secret.
    pub(crate) fn discreet(&self) -> String {
        const FORMS: &str = "expected ${NAME} or ${NAME:-default}";
        match self {
            Self::Open(_) => format!("found ${{ without its closing brace, {FORMS}"),
            Self::NoName(_) => {
                format!("found ${{...}} without a name, {FORMS}, the name of letters, digits and _")
            }
            Self::Nested(_) | Self::Unset(_) => self.to_string(),
        }
    }
}

/// What was found and expected.
impl fmt::Display for Unfilled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(rest) => write!(
                f,
                "found {} without its closing brace, expected ${{NAME}} or ${{NAME:-default}}",
                quoted(&format!("${{{rest}"))
            ),
            Self::NoName(inside) => write!(
                f,
                "found {}, expected ${{NAME}} or ${{NAME:-default}}, the name of letters, digits \
                 and _",
                quoted(&format!("${{{inside}}}"))
            ),
            Self::Nested(name) => write!(
                f,
                "found another ${{ in the default of ${{{name}}}, expected plain text"
            ),
            Self::Unset(name) => write!(
                f,
                "found ${{{name}}}, but the proxy gives no environment variable {name}, expected \
                 it to be set, or a default: ${{{name}:-...}}"
            ),
        }
    }
}

/// The text with every `${NAME}` and `${NAME:-default}` filled in, as a shell does: the default
/// stands for a variable that is unset or empty. Borrowed if there was none. A `$` without `{`
/// stays, and what was filled in is not looked at again.
///
/// # Errors
/// An unset variable without a default, or a broken `${`.
pub(crate) fn substitute<'t>(
    text: &'t str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'t, str>, Unfilled<'t>> {
    let Some((mut before, mut rest)) = text.split_once("${") else {
        return Ok(Cow::Borrowed(text));
    };
    let mut out = String::new();
    loop {
        out.push_str(before);
        let Some((inside, after)) = rest.split_once('}') else {
            return Err(Unfilled::Open(rest));
        };
        out.push_str(&variable(inside, env)?);
        match after.split_once("${") {
            Some(next) => (before, rest) = next,
            None => {
                out.push_str(after);
                return Ok(Cow::Owned(out));
            }
        }
    }
}

fn variable<'t>(
    inside: &'t str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'t, str>, Unfilled<'t>> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_variable(name) {
        return Err(Unfilled::NoName(inside));
    }
    // A shell would go on inside the default; here the first brace ends it, which nobody means.
    if default.is_some_and(|default| default.contains("${")) {
        return Err(Unfilled::Nested(name));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(Cow::Owned(value)),
        (Some(value), Some(_)) if !value.is_empty() => Ok(Cow::Owned(value)),
        (_, Some(default)) => Ok(Cow::Borrowed(default)),
        (None, None) => Err(Unfilled::Unset(name)),
    }
}

fn is_variable(name: &str) -> bool {
    name.len() <= 128
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "SET" => Some("7".to_owned()),
            "EMPTY" => Some(String::new()),
            "DOLLAR" => Some("${SET}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn as_a_shell_fills_it() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$", "$"),
            ("$SET costs $5 {SET}", "$SET costs $5 {SET}"),
            ("${SET}", "7"),
            ("${SET:-1}", "7"),
            ("${EMPTY}", ""),
            ("${EMPTY:-1}", "1"),
            ("${UNSET:-1}", "1"),
            ("${UNSET:-}", ""),
            ("${UNSET:-a:-b}", "a:-b"),
            ("${UNSET:-{}", "{"),
            ("a${SET}b${UNSET:-c}d", "a7bcd"),
            ("${SET}${SET}", "77"),
            ("$${SET}", "$7"),
            ("${DOLLAR}", "${SET}"),
            ("${SET}}", "7}"),
        ] {
            assert_eq!(substitute(text, &env).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_filled_is_named() {
        for (text, expected) in [
            (
                "a ${UNSET} b",
                "found ${UNSET}, but the proxy gives no environment variable UNSET",
            ),
            ("${SET", "found \"${SET\" without its closing brace"),
            ("${SET} ${", "found \"${\" without its closing brace"),
            ("${}", "found \"${}\", expected ${NAME}"),
            ("${:-x}", "found \"${:-x}\", expected ${NAME}"),
            ("${1A}", "found \"${1A}\", expected ${NAME}"),
            ("${A-x}", "found \"${A-x}\", expected ${NAME}"),
            ("${A B}", "found \"${A B}\", expected ${NAME}"),
            ("${\u{1b}}", "found \"${\\u{1b}}\", expected ${NAME}"),
            (
                "${UNSET:-${SET}}",
                "found another ${ in the default of ${UNSET}",
            ),
        ] {
            let error = substitute(text, &env).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_may_be_part_of_a_secret_is_not_shown() {
        for text in [
            "Bearer s3cret${",
            "${s3cret",
            "${s3cret!}",
            "${}s3cret",
            "${UNSET:-s3cret${SET}}",
            "${UNSET}s3cret",
        ] {
            let message = substitute(text, &env).unwrap_err().discreet();
            assert!(!message.contains("s3cret"), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_filled_or_refused(text in r"(\$|\{|\}|:-|:|-|SET|UNSET|é|[^\x00]){0,20}") {
            match substitute(&text, &env) {
                Ok(Cow::Borrowed(same)) => prop_assert_eq!(same, &text),
                Ok(Cow::Owned(_)) => prop_assert!(text.contains("${"), "filled for nothing"),
                Err(unfilled) => {
                    prop_assert!(unfilled.to_string().starts_with("found "));
                    prop_assert!(unfilled.discreet().starts_with("found "));
                }
            }
        }
    }
}
