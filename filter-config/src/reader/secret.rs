//! Strings that no message shows: not the value, and not what was written for it.

use super::{At, Reader};
use crate::{store::Secret, substitute::substitute, tree::Node};

impl Reader<'_> {
    /// A string that fits, whose value is kept out of every message; `expected` says what fits.
    pub(crate) fn secret(
        &mut self,
        at: &At<'_>,
        expected: &str,
        fits: impl FnOnce(&str) -> bool,
    ) -> Option<Secret> {
        let found = match at.node {
            Node::Text(written) => match substitute(written, self.env) {
                Ok(text) if fits(&text) => return Some(Secret(text.into_owned())),
                Ok(text) if text.is_empty() => "an empty string",
                Ok(_) => "a string that does not fit (it is not shown)",
                Err(unfilled) => {
                    self.error(&at.path, unfilled.discreet());
                    return None;
                }
            },
            Node::Null => "null",
            // Digits may be a password that somebody forgot to quote.
            Node::Bool(_) | Node::Number(_) => "a value that is no string (it is not shown)",
            Node::List(_) => "a list",
            Node::Map(_) => "an object",
        };
        self.error(&at.path, format!("found {found}, expected {expected}"));
        None
    }
}
