//! What is wrong with a configuration, in words for its operator.

use std::{error::Error, fmt};

/// One error, or one warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The field it is about, such as `tiers.growth.key.burst` or `routes[2].match.path`; empty
    /// for the document as a whole. Names with other characters than `A-Za-z0-9_-` are quoted:
    /// `identity.tenants["t.900"]`.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl Error for ConfigError {}

/// Every error of a configuration, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// One line an error, none of them empty, no line break at the end.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for ConfigErrors {}
