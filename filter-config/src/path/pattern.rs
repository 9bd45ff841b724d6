//! The paths an operator writes: `/v1/ledgers/{ledger_id}/entries`, and with a tail `/v1/*`.

use super::normalize;
use crate::quote::is_name;

/// Matching descends one level a segment; this bounds its depth.
const MOST_SEGMENTS: usize = 64;

/// A path with templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) segments: Vec<Segment>,
    /// Ends in `/*`: also matches the path before it, and all below.
    pub(crate) tail: bool,
}

/// What a segment of a path must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// These bytes, normalised.
    Literal(Vec<u8>),
    /// Any, but not none; its name.
    Template(String),
}

impl Pattern {
    /// `/*`: every path.
    pub(crate) const ANY: Self = Self {
        segments: Vec::new(),
        tail: true,
    };

    /// Reads a path, its literal segments normalised as those of a request are.
    ///
    /// # Errors
    /// What was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(path) = text.strip_prefix('/') else {
            return Err("a path that starts with /");
        };
        if path.contains(['?', '#']) {
            return Err("a path without query and fragment");
        }
        let (path, tail) = match path.strip_suffix('*') {
            Some("") => ("", true),
            Some(before) if before.ends_with('/') => (before, true),
            _ => (path, false),
        };
        let mut segments = Vec::new();
        let mut names = Vec::new();
        // Empty segments are slashes to merge.
        for text in path.split('/').filter(|text| !text.is_empty()) {
            let template = text
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            segments.push(match template {
                Some(name) if !is_name(name) => {
                    return Err("templates named with 1 to 64 of A-Z a-z 0-9 _ -");
                }
                Some(name) if names.contains(&name) => return Err("each template's name once"),
                Some(name) => {
                    names.push(name);
                    Segment::Template(name.to_owned())
                }
                None => literal(text)?,
            });
        }
        if segments.len() > MOST_SEGMENTS {
            return Err("a path of at most 64 segments");
        }
        Ok(Self { segments, tail })
    }

    /// The templates' names, each with which segment it is, from 0: in `/v1/{id}` it is 1.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (usize, &str)> {
        let segments = self.segments.iter().enumerate();
        segments.filter_map(|(index, segment)| match segment {
            Segment::Template(name) => Some((index, name.as_str())),
            Segment::Literal(_) => None,
        })
    }
}

fn literal(text: &str) -> Result<Segment, &'static str> {
    if text.contains(['{', '}']) {
        return Err("templates such as {id} as a whole segment");
    }
    if text.contains('*') {
        return Err("* only as the whole last segment, such as /v1/* (the character is %2A)");
    }
    let path = [b"/", text.as_bytes()].concat();
    match normalize(&path).strip_prefix(b"/") {
        Some([]) | None => Err("a path without . and .. segments"),
        Some(bytes) => Ok(Segment::Literal(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Segment {
        Segment::Literal(text.as_bytes().to_vec())
    }

    #[test]
    fn paths_are_read() {
        let template = |name: &str| Segment::Template(name.to_owned());
        for (text, segments, tail) in [
            ("/", vec![], false),
            ("/*", vec![], true),
            ("/v1", vec![literal("v1")], false),
            ("//v1/", vec![literal("v1")], false),
            ("/v1/*", vec![literal("v1")], true),
            ("/v1//*", vec![literal("v1")], true),
            (
                "/%76%31/a%2fb/é",
                vec![literal("v1"), literal("a%2Fb"), literal("%C3%A9")],
                false,
            ),
            ("/v1/%2A", vec![literal("v1"), literal("*")], false),
            (
                "/v1/%7Bid%7D",
                vec![literal("v1"), literal("%7Bid%7D")],
                false,
            ),
            (
                "/v1/{id}/x/{other-id}/*",
                vec![
                    literal("v1"),
                    template("id"),
                    literal("x"),
                    template("other-id"),
                ],
                true,
            ),
        ] {
            assert_eq!(
                Pattern::parse(text),
                Ok(Pattern { segments, tail }),
                "{text}"
            );
        }
    }

    /// A request's path is split at its slashes after the first one.
    #[test]
    fn a_template_is_found_where_a_request_has_its_segment() {
        for (text, request, found) in [
            ("/{a}", "/7", vec![("a", "7")]),
            (
                "//v1/%61/{a}/x/{b-c}/",
                "/v1/a/7/x/8",
                vec![("a", "7"), ("b-c", "8")],
            ),
            ("/v1/{a}/*", "/v1/7/x/y", vec![("a", "7")]),
            ("/v1/*", "/v1/7", vec![]),
        ] {
            let pattern = Pattern::parse(text).unwrap();
            let segment = |index| request[1..].split('/').nth(index).unwrap();
            let templates = pattern.templates();
            let templates: Vec<_> = templates
                .map(|(index, name)| (name, segment(index)))
                .collect();
            assert_eq!(templates, found, "{text}");
        }
    }

    #[test]
    fn paths_that_cannot_match_are_refused() {
        for (text, expected) in [
            ("", "starts with /"),
            ("*", "starts with /"),
            ("v1", "starts with /"),
            ("/v1?x", "query"),
            ("/v1#x", "fragment"),
            ("/v1/./x", "segments"),
            ("/v1/../x", "segments"),
            ("/v1/%2e%2E/x", "segments"),
            ("/v1/*/x", "whole last segment"),
            ("/v1/x*", "whole last segment"),
            ("/v1/**", "whole last segment"),
            ("/v1/a{b}", "whole segment"),
            ("/v1/{b}a", "whole segment"),
            ("/v1/{a}{b}", "named with"),
            ("/v1/{a", "whole segment"),
            ("/v1/{}", "named with"),
            ("/v1/{a b}", "named with"),
            ("/v1/{*}", "named with"),
            ("/v1/{a}/{a}", "once"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(Pattern::parse(&"/a".repeat(64)).is_ok());
        assert!(Pattern::parse(&"/a".repeat(65)).is_err());
    }
}
