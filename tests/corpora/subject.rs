//! Any bytes as a request with a body: a subject that is hashed, that every parser would find, and that no second
//! one hides behind.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tollgate_config::SubjectSource;
use tollgate_filter::body::Body;
use tollgate_filter::identity::Id;
use tollgate_filter::request::Request;
use tollgate_filter::subject;
use tollgate_filter::verdict::SubjectFault;

use super::head;

/// What ends the head.
const END: &[u8] = b"\n\n";

const FIELD: &str = "client_id";

static ANYWHERE: LazyLock<SubjectSource> = LazyLock::new(|| SubjectSource {
    basic: true,
    form: Some(FIELD.to_owned()),
    json: Some(vec![FIELD.to_owned()]),
    trim: true,
    lowercase: true,
});

/// The head up to the first empty line, then the body.
pub fn run(bytes: &[u8]) {
    let end = bytes.windows(END.len()).position(|two| two == END);
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let body = body.get(END.len()..).unwrap_or_default();
    let fields = head::fields(head);
    let read = |source: &SubjectSource, fields: &[(String, Vec<u8>)], body: &[u8]| {
        let request = Request::new(fields.to_vec());
        subject::of(source, &request, &Body::Whole(body.to_vec()))
    };
    let form_only = SubjectSource {
        basic: false,
        json: None,
        ..ANYWHERE.clone()
    };
    let basic_only = SubjectSource {
        form: None,
        json: None,
        ..ANYWHERE.clone()
    };
    let found = read(&ANYWHERE, &fields, body);
    let by_form = read(&form_only, &fields, body);
    let by_basic = read(&basic_only, &fields, body);
    for subject in [&found, &by_form, &by_basic].into_iter().flatten() {
        assert_eq!(subject.as_str().len(), 43);
    }
    if let Ok(subject) = &found {
        agrees_with_forms(&Request::new(fields.clone()), body, subject);
        agrees_with_json(body, subject);
        agrees_with_basic(&fields, subject);
    }
    if let Ok(subject) = &by_form {
        let exact = |value: &[u8]| subject::named(&form_only, value) == *subject;
        let mut named = form_urlencoded::parse(body).filter(|(name, _)| name == FIELD);
        let (_, value) = named.next().expect("a form names it");
        // What is no UTF-8 is another text to that parser.
        assert!(value.contains('\u{fffd}') || exact(value.as_bytes()));
        assert!(named.next().is_none());
        let more = [body, b"&client%5fid=more"].concat();
        assert_eq!(read(&form_only, &fields, &more), Err(SubjectFault::Doubled));
    }
    // One more of the same never names somebody else.
    let mut more = fields.clone();
    let credentials = STANDARD.encode("nobody-else:pw");
    more.push((
        "authorization".to_owned(),
        format!("Basic {credentials}").into(),
    ));
    if let Ok(subject) = read(&ANYWHERE, &more, body) {
        assert_eq!(subject, subject::named(&ANYWHERE, b"nobody-else"));
    }
}

/// Whoever reads the body as a form finds nobody else, unless its type says that it is none.
fn agrees_with_forms(request: &Request, body: &[u8], subject: &Id) {
    let media = request.first("content-type").to_ascii_lowercase();
    if media.windows(4).any(|part| part == b"json") {
        return;
    }
    for (name, value) in form_urlencoded::parse(body) {
        if name == FIELD && !value.contains('\u{fffd}') && !value.trim().is_empty() {
            let named = subject::named(&ANYWHERE, value.as_bytes());
            assert!(named == *subject || is_blank(&value), "{value:?}");
        }
    }
}

/// Whoever reads the body as JSON finds nobody else, whatever its type says.
fn agrees_with_json(body: &[u8], subject: &Id) {
    let Ok(Value::Object(map)) = serde_json::from_slice(body) else {
        return;
    };
    let name = match map.get(FIELD) {
        None => return,
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        Some(other) => panic!("{other} names nobody"),
    };
    let named = subject::named(&ANYWHERE, name.as_bytes());
    assert!(named == *subject || is_blank(&name), "{name:?}");
}

/// Whoever reads HTTP Basic finds nobody else.
fn agrees_with_basic(fields: &[(String, Vec<u8>)], subject: &Id) {
    let request = Request::new(fields.to_vec());
    for value in request.values("authorization") {
        let value = value.trim_ascii();
        let token = value.strip_prefix(b"Basic ").map(<[u8]>::trim_ascii);
        let Some(Ok(decoded)) = token.map(|token| STANDARD.decode(token)) else {
            continue;
        };
        let user_id = decoded.split(|b| *b == b':').next().unwrap_or_default();
        let Ok(user_id) = std::str::from_utf8(user_id) else {
            continue;
        };
        // Nothing in it that is written in two ways.
        if !user_id.contains(['%', '+']) && !is_blank(user_id) {
            assert_eq!(subject::named(&ANYWHERE, user_id.as_bytes()), *subject);
        }
    }
}

/// Whether nothing of a name is left that counts.
fn is_blank(name: &str) -> bool {
    subject::named(&ANYWHERE, name.as_bytes()) == subject::named(&ANYWHERE, b"")
}
