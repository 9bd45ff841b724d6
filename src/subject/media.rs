//! What a request says its body is, and what it looks like.

use crate::request::Request;

/// What the type of a body says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    /// JSON.
    Json,
    /// What some servers read a subject from that is not read here: of several parts, such as `multipart/form-data`,
    /// XML, `MessagePack`, gRPC, or text in an encoding that may spell ASCII in other bytes.
    Foreign,
    /// A form, text, bytes, nothing, or more than one of those.
    Other,
}

impl Media {
    /// By `Content-Type` (RFC 9110, section 8.3).
    pub(super) fn of(request: &Request) -> Self {
        let values = request.values("content-type");
        // A proxy may have joined what was sent more than once.
        let values = values.flat_map(|value| value.split(|b| *b == b','));
        let kinds = values.map(|value| {
            let value = value.to_ascii_lowercase();
            let mut parts = value.split(|b| *b == b';').map(<[u8]>::trim_ascii);
            let essence = parts.next().unwrap_or_default();
            match parts.all(is_plain) {
                true => Self::named(essence),
                false => Self::Foreign,
            }
        });
        match kinds.collect::<Vec<Self>>().as_slice() {
            [one] => *one,
            several if several.contains(&Self::Foreign) => Self::Foreign,
            _ => Self::Other,
        }
    }

    fn named(essence: &[u8]) -> Self {
        match essence {
            b"application/json" | b"text/json" => Self::Json,
            _ if essence.ends_with(b"+json") => Self::Json,
            b""
            | b"application/x-www-form-urlencoded"
            | b"application/octet-stream"
            | b"text/plain" => Self::Other,
            _ => Self::Foreign,
        }
    }
}

/// Whether a parameter of a type leaves every byte of ASCII what it is: any but a `charset`, and those in which no
/// other bytes are a letter of ASCII. (In UTF-7 `+AGE-` is an `a`; in code page 37 none is where it was.)
fn is_plain(parameter: &[u8]) -> bool {
    const PLAIN: [&[u8]; 6] = [
        b"utf-8",
        b"utf8",
        b"us-ascii",
        b"iso-8859-1",
        b"latin1",
        b"windows-1252",
    ];
    let end = parameter.iter().position(|b| *b == b'=');
    let (name, value) = parameter.split_at(end.unwrap_or(parameter.len()));
    let value = value.strip_prefix(b"=").unwrap_or(value).trim_ascii();
    let inside = value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""));
    // `charset*` is one as well (RFC 2231), and so is what some server finds in a parameter that is none.
    let names = name.windows(7).any(|part| part == b"charset");
    !names || (name.trim_ascii() == b"charset" && PLAIN.contains(&inside.unwrap_or(value)))
}

/// Whether a body begins as a JSON document does that holds other values, in whichever encoding of Unicode: some
/// servers find out. A form never does.
pub(super) fn looks_like_json(body: &[u8]) -> bool {
    const MARKS: [u8; 6] = [0, 0xef, 0xbb, 0xbf, 0xfe, 0xff];
    let skipped = |b: &&u8| b.is_ascii_whitespace() || MARKS.contains(b);
    matches!(body.iter().find(|b| !skipped(b)), Some(b'{' | b'['))
}
