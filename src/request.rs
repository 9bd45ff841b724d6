//! A request as the proxy hands it over: bytes, in the order and number in which they came.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use tollgate_config::path;

/// Header fields, pseudo-headers among them.
pub type Fields = Vec<(String, Vec<u8>)>;

/// Prefix of the headers that only Tollgate may set.
pub const OWN_PREFIX: &str = "x-tollgate-";

/// How often a header is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurs<'a> {
    /// Not at all, or empty.
    Never,
    /// Once.
    Once(&'a [u8]),
    /// More than once.
    Doubled,
}

/// The head of a request: one piece of memory, and where in it names and values are.
#[derive(Debug, Clone, Default)]
pub struct Request {
    bytes: Vec<u8>,
    fields: Vec<(Range<usize>, Range<usize>)>,
}

impl Request {
    /// The request with these header fields.
    #[must_use]
    pub fn new(fields: Fields) -> Self {
        let mut request = Self::default();
        let mut keep = |part: &[u8]| {
            let start = request.bytes.len();
            request.bytes.extend(part);
            start..request.bytes.len()
        };
        let ranges = fields
            .iter()
            .map(|(name, value)| (keep(name.as_bytes()), keep(value)));
        let ranges = ranges.collect();
        request.fields = ranges;
        request
    }

    /// The request with the header fields of a map as proxies serialise it: the number of fields, the
    /// lengths of each one's name and value (all little-endian, 32 bits), then names and values, each
    /// followed by a zero byte. Of bytes that are no such map the fields that can be read.
    #[must_use]
    pub fn from_map(bytes: Vec<u8>) -> Self {
        const WORD: usize = size_of::<u32>();
        let word = |at: usize| {
            let word = bytes.get(at..)?.first_chunk::<WORD>()?;
            usize::try_from(u32::from_le_bytes(*word)).ok()
        };
        let fits = |count: &usize| *count <= bytes.len().saturating_sub(WORD) / (2 * WORD);
        let count = word(0).filter(fits).unwrap_or(0);
        let mut at = WORD + count * 2 * WORD;
        let mut keep = |length: usize| {
            let range = at..at.checked_add(length)?;
            at = range.end.checked_add(1)?;
            (range.end <= bytes.len()).then_some(range)
        };
        let mut fields = Vec::with_capacity(count);
        for lengths in (WORD..).step_by(2 * WORD).take(count) {
            let (Some(name), Some(value)) = (word(lengths), word(lengths + WORD)) else {
                break;
            };
            let (Some(name), Some(value)) = (keep(name), keep(value)) else {
                break;
            };
            fields.push((name, value));
        }
        Self { bytes, fields }
    }

    /// All fields, names and values.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.fields
            .iter()
            .map(move |(name, value)| (part(name), part(value)))
    }

    /// The first value of a field; empty where there is none.
    #[must_use]
    pub fn first(&self, name: &str) -> &[u8] {
        self.values(name).next().unwrap_or_default()
    }

    /// All values of a field.
    pub fn values<'a, 'n>(
        &'a self,
        name: &'n str,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a, 'n> {
        let part = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        let named = move |(n, _): &&(Range<usize>, Range<usize>)| {
            n.len() == name.len() && part(n).eq_ignore_ascii_case(name.as_bytes())
        };
        self.fields.iter().filter(named).map(move |(_, v)| part(v))
    }

    /// How often a field is there. An empty value is as good as none, unless there is another.
    #[must_use]
    pub fn occurs(&self, name: &str) -> Occurs<'_> {
        let mut values = self.values(name);
        match (values.next(), values.next()) {
            (None, _) => Occurs::Never,
            (Some(value), None) if value.trim_ascii().is_empty() => Occurs::Never,
            (Some(value), None) => Occurs::Once(value.trim_ascii()),
            (Some(_), Some(_)) => Occurs::Doubled,
        }
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.first(":method")
    }

    /// The path as it was sent, without query and fragment.
    #[must_use]
    pub fn raw_path(&self) -> &[u8] {
        split(self.first(":path")).0
    }

    /// The path as routes see it.
    #[must_use]
    pub fn path(&self) -> Cow<'_, [u8]> {
        path::normalize(self.raw_path())
    }

    /// What follows the first `?`.
    #[must_use]
    pub fn query(&self) -> &[u8] {
        split(self.first(":path")).1
    }

    /// Names of the fields that only Tollgate may set, each once.
    #[must_use]
    pub fn own_fields(&self) -> Vec<String> {
        // Many servers hand `_` and `-` to applications as the same.
        let own = |name: &&[u8]| {
            let start = name.iter().map(|b| {
                if *b == b'_' {
                    b'-'
                } else {
                    b.to_ascii_lowercase()
                }
            });
            start.take(OWN_PREFIX.len()).eq(OWN_PREFIX.bytes())
        };
        let names = self.fields().map(|(name, _)| name).filter(own);
        let names: BTreeSet<&[u8]> = names.collect();
        names
            .into_iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    /// Whether the body has a content coding. Coding names are case-insensitive, and a field may list several (RFC
    /// 9110, section 8.4).
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        let mut codings = self
            .values("content-encoding")
            .flat_map(|value| value.split(|b| *b == b','))
            .map(<[u8]>::trim_ascii);
        codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
    }

    /// Whether the client speaks gRPC, as Envoy sees it: `application/grpc`, with a `+` suffix or
    /// without. Anything else gets an HTTP answer, since Envoy would not give it a gRPC status.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        let after = self.first("content-type").strip_prefix(b"application/grpc");
        matches!(after, Some([] | [b'+', ..]))
    }
}

/// Path and query. A `#` ends a path, but not a query: what a server takes it for is not known, so a
/// parameter must not hide behind it.
fn split(target: &[u8]) -> (&[u8], &[u8]) {
    let path = target.split(|b| matches!(b, b'?' | b'#')).next();
    let query = target.splitn(2, |b| *b == b'?').nth(1);
    (path.unwrap_or_default(), query.unwrap_or_default())
}

#[cfg(test)]
mod tests;
