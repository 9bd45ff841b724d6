//! Walks the tree and collects every error with its path: reading one field never stops the next.
//!
//! A reading function returns `None` when it has reported why. It must not know which fields exist.

mod duration;
mod scalar;
mod secret;
mod size;
mod value;

use crate::{
    error::{ConfigError, ConfigErrors},
    nearest::nearest,
    quote::{is_name, quoted},
    substitute::substitute,
    tree::Node,
};

pub(crate) use scalar::{NAME, one_of};
pub(crate) use value::{Text, Value};

/// The path of a field, as messages show it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn field(&self, name: &str) -> Self {
        let mut path = self.0.clone();
        if !is_name(name) {
            path.push('[');
            path.push_str(&quoted(name));
            path.push(']');
        } else if path.is_empty() {
            path.push_str(name);
        } else {
            path.push('.');
            path.push_str(name);
        }
        Self(path)
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

/// A node and where it is.
#[derive(Debug, Clone)]
pub(crate) struct At<'t> {
    pub(crate) path: Path,
    node: &'t Node,
}

impl<'t> At<'t> {
    pub(crate) fn root(node: &'t Node) -> Self {
        Self {
            path: Path::default(),
            node,
        }
    }

    /// The names of an object, unchecked; `None` if it is none.
    pub(crate) fn peek_names(&self) -> Option<Vec<&'t str>> {
        match self.node {
            Node::Map(pairs) => Some(pairs.iter().map(|(name, _)| name.as_str()).collect()),
            _ => None,
        }
    }
}

/// Reads one document.
pub(crate) struct Reader<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    errors: Vec<ConfigError>,
    warnings: Vec<ConfigError>,
}

impl<'e> Reader<'e> {
    pub(crate) fn new(env: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            env,
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The warnings, if there was no error.
    pub(crate) fn finish(self) -> Result<Vec<ConfigError>, ConfigErrors> {
        if self.errors.is_empty() {
            Ok(self.warnings)
        } else {
            Err(ConfigErrors(self.errors))
        }
    }

    /// Reads what stands further on, for a rule that needs it already. Reports nothing: whoever
    /// reads it in its place does.
    pub(crate) fn ahead<T>(&self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        read(&mut Self::new(self.env))
    }

    pub(crate) fn error(&mut self, path: &Path, message: String) {
        self.errors.push(ConfigError {
            path: path.0.clone(),
            message,
        });
    }

    pub(crate) fn warn(&mut self, path: &Path, message: String) {
        self.warnings.push(ConfigError {
            path: path.0.clone(),
            message,
        });
    }

    /// Reports what was found in place of what was expected.
    pub(crate) fn mismatch<T>(
        &mut self,
        at: &At<'_>,
        value: &Value<'_>,
        expected: &str,
    ) -> Option<T> {
        self.error(
            &at.path,
            format!("found {}, expected {expected}", value.found()),
        );
        None
    }

    /// The node with its environment filled in.
    pub(crate) fn value<'t>(&mut self, at: &At<'t>) -> Option<Value<'t>> {
        Some(match at.node {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Number(value) => Value::Number(*value),
            Node::List(items) => Value::List(items),
            Node::Map(pairs) => Value::Map(pairs),
            Node::Text(written) => match substitute(written, self.env) {
                Ok(value) => Value::Text(Text::new(value, written)),
                Err(unfilled) => {
                    self.error(&at.path, unfilled.to_string());
                    return None;
                }
            },
        })
    }

    /// An object whose fields are all known. Reports the others, and those given twice.
    pub(crate) fn fields<'t>(
        &mut self,
        at: &At<'t>,
        known: &'static [&'static str],
    ) -> Option<Fields<'t>> {
        let value = self.value(at)?;
        let Value::Map(pairs) = value else {
            return self.mismatch(at, &value, &format!("an object of {}", known.join(", ")));
        };
        for name in self.names(at, pairs) {
            if !known.contains(&name) {
                let meant = match nearest(name, known.iter().copied()) {
                    Some(meant) => format!(" (did you mean {meant}?)"),
                    None => String::new(),
                };
                self.error(
                    &at.path.field(name),
                    format!(
                        "found an unknown field{meant}, expected one of {}",
                        known.join(", ")
                    ),
                );
            }
        }
        Some(Fields {
            path: at.path.clone(),
            pairs,
        })
    }

    /// An object whose names the operator chooses.
    pub(crate) fn entries<'t>(
        &mut self,
        at: &At<'t>,
        expected: &str,
    ) -> Option<Vec<(&'t str, At<'t>)>> {
        let value = self.value(at)?;
        let Value::Map(pairs) = value else {
            return self.mismatch(at, &value, expected);
        };
        self.names(at, pairs);
        Some(
            pairs
                .iter()
                .map(|(name, node)| {
                    let path = at.path.field(name);
                    (name.as_str(), At { path, node })
                })
                .collect(),
        )
    }

    /// The names of an object, each once. The pairs are sorted, so duplicates are neighbours.
    fn names<'t>(&mut self, at: &At<'_>, pairs: &'t [(String, Node)]) -> Vec<&'t str> {
        pairs
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|same| {
                let (name, _) = same.first()?;
                if same.len() > 1 {
                    self.error(
                        &at.path.field(name),
                        format!(
                            "found the same field {} times, expected it once",
                            same.len()
                        ),
                    );
                }
                Some(name.as_str())
            })
            .collect()
    }

    /// A list, each of its items read. An empty object is an empty list too: that is how Kong's
    /// Lua writes one.
    pub(crate) fn list<'t, T>(
        &mut self,
        at: &At<'t>,
        expected: &str,
        mut read: impl FnMut(&mut Self, &At<'t>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.value(at)?;
        let items = match value {
            Value::List(items) => items,
            Value::Map([]) => &[],
            _ => return self.mismatch(at, &value, expected),
        };
        // Every item is read, and only then is the list given up.
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let path = at.path.index(index);
                read(self, &At { path, node })
            })
            .collect();
        read.into_iter().collect()
    }
}

/// The fields of an object. `null` counts as absent.
#[derive(Debug)]
pub(crate) struct Fields<'t> {
    pub(crate) path: Path,
    pairs: &'t [(String, Node)],
}

impl<'t> Fields<'t> {
    pub(crate) fn get(&self, name: &str) -> Option<At<'t>> {
        let (_, node) = self.pairs.iter().find(|(key, _)| key == name)?;
        (*node != Node::Null).then(|| At {
            path: self.path.field(name),
            node,
        })
    }

    /// A field that may be absent, and what it is then.
    pub(crate) fn optional<'e, T>(
        &self,
        reader: &mut Reader<'e>,
        name: &str,
        absent: T,
        read: impl FnOnce(&mut Reader<'e>, &At<'t>) -> Option<T>,
    ) -> Option<T> {
        match self.get(name) {
            Some(at) => read(reader, &at),
            None => Some(absent),
        }
    }

    /// A field that must be there; `expected` says what to write.
    pub(crate) fn required<'e, T>(
        &self,
        reader: &mut Reader<'e>,
        name: &str,
        expected: &str,
        read: impl FnOnce(&mut Reader<'e>, &At<'t>) -> Option<T>,
    ) -> Option<T> {
        match self.get(name) {
            Some(at) => read(reader, &at),
            None => {
                reader.error(
                    &self.path.field(name),
                    format!("found nothing, expected {expected}"),
                );
                None
            }
        }
    }
}
