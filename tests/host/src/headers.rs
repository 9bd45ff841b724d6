//! Header maps: ordered, with duplicates, names and values as bytes.
//!
//! Names are compared without regard to ASCII case. Nothing here requires UTF-8.

use std::fmt;

/// An ordered list of header fields; pseudo-headers (`:path`) are ordinary entries.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Vec<u8>, Vec<u8>)>);

impl Headers {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The map with one more field at its end.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.push(name, value);
        self
    }

    /// Adds a field at the end, whether or not one of that name exists.
    pub fn push(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.0
            .push((name.as_ref().to_vec(), value.as_ref().to_vec()));
    }

    /// Replaces every field of that name by one, at the end.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.remove(&name);
        self.push(name, value);
    }

    /// Removes every field of that name.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        let name = name.as_ref();
        self.0.retain(|(have, _)| !have.eq_ignore_ascii_case(name));
    }

    /// The first value of that name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.0
            .iter()
            .find(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_slice())
    }

    /// The first value of that name as text; what is not UTF-8 is replaced by U+FFFD.
    pub fn text(&self, name: impl AsRef<[u8]>) -> Option<String> {
        self.get(name)
            .map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Every value of that name, in order.
    pub fn all(&self, name: impl AsRef<[u8]>) -> Vec<&[u8]> {
        let name = name.as_ref();
        self.iter()
            .filter(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// How many fields there are, duplicates included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `:status` as a number.
    pub fn status(&self) -> Option<u16> {
        std::str::from_utf8(self.get(":status")?).ok()?.parse().ok()
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Headers {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(fields: T) -> Self {
        let mut headers = Self::new();
        for (name, value) in fields {
            headers.push(name, value);
        }
        headers
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>, const LEN: usize> From<[(N, V); LEN]> for Headers {
    fn from(fields: [(N, V); LEN]) -> Self {
        fields.into_iter().collect()
    }
}

/// Bytes shown as text, escaped where they are not.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.iter().map(|(n, v)| (Escaped(n), Escaped(v)));
        f.debug_map().entries(fields).finish()
    }
}
