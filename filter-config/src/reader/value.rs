//! What stands in a field once the environment is filled in.

use std::borrow::Cow;

use crate::{
    quote::{number, quoted},
    tree::Node,
};

/// A node after substitution.
#[derive(Debug)]
pub(crate) enum Value<'t> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Text<'t>),
    List(&'t [Node]),
    Map(&'t [(String, Node)]),
}

/// A string after substitution.
#[derive(Debug)]
pub(crate) struct Text<'t> {
    pub(crate) value: Cow<'t, str>,
    written: &'t str,
}

impl<'t> Text<'t> {
    pub(super) const fn new(value: Cow<'t, str>, written: &'t str) -> Self {
        Self { value, written }
    }

    /// The string, if it was filled from the environment: only then may it stand for a number or
    /// a boolean.
    pub(super) fn filled(&self) -> Option<&str> {
        match &self.value {
            Cow::Owned(value) => Some(value),
            Cow::Borrowed(_) => None,
        }
    }
}

impl Value<'_> {
    /// What a message says was found.
    pub(super) fn found(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(value) => number(*value),
            Self::Text(text) if text.filled().is_some() => {
                format!("{} (from {})", quoted(&text.value), quoted(text.written))
            }
            Self::Text(text) => quoted(&text.value),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "an object".to_owned(),
        }
    }
}
