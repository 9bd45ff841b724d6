//! `headers` and `problem`: what clients see.

use crate::{
    headers::{Dialect, Headers, Problem},
    reader::{At, Reader, Value},
};

/// `headers` where it is not given.
pub(super) const fn default() -> Headers {
    Headers {
        dialect: Dialect::Draft03,
        retry_after_date_from: None,
    }
}

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Headers> {
    let fields = reader.fields(at, &["dialect", "retry_after_date_from"])?;
    let dialect = fields.optional(reader, "dialect", Dialect::default(), |reader, at| {
        reader.choice(
            at,
            &[
                ("draft-03", Dialect::Draft03),
                ("draft-11", Dialect::Draft11),
                ("both", Dialect::Both),
                ("x-ratelimit", Dialect::XRateLimit),
                ("none", Dialect::None),
            ],
        )
    });
    let date_from = fields.optional(
        reader,
        "retry_after_date_from",
        None,
        Reader::duration_or_off,
    );
    Some(Headers {
        dialect: dialect?,
        retry_after_date_from: date_from?,
    })
}

/// `problem` where it is not given.
pub(super) fn problem_default() -> Problem {
    Problem {
        type_base: "https://api.yourdomain.com/errors/".to_owned(),
    }
}

pub(super) fn problem(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Problem> {
    let fields = reader.fields(at, &["type_base"])?;
    fields.optional(reader, "type_base", problem_default(), |reader, at| {
        let value = reader.value(at)?;
        match &value {
            Value::Text(text) if is_uri(&text.value) => {
                let mut type_base = text.value.clone().into_owned();
                if !type_base.ends_with('/') {
                    type_base.push('/');
                }
                Some(Problem { type_base })
            }
            _ => reader.mismatch(
                at,
                &value,
                "a URI such as \"https://api.example.com/errors/\", of the characters of RFC 3986, \
                 at most 2048",
            ),
        }
    })
}

/// Whether this is made of a URI's characters (RFC 3986, section 2), so that it can stand in JSON
/// and in a header as it is; if it says http it must name a host.
fn is_uri(text: &str) -> bool {
    let authority = match text.split_once(':') {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            rest.strip_prefix("//")
        }
        _ => Some("none needed"),
    };
    (1..=2048).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&b))
        && authority.is_some_and(|host| !host.is_empty() && !host.starts_with(['/', '?', '#']))
}
