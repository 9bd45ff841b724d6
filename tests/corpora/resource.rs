//! Any bytes as a request with a body: a resource that is safe in a key, and that no second one hides behind.

use std::sync::LazyLock;

use serde_json::Value;
use tollgate_config::LockBy;
use tollgate_filter::body::Body;
use tollgate_filter::identity::Id;
use tollgate_filter::request::Request;
use tollgate_filter::resource;
use tollgate_filter::verdict::ResourceFault;

use super::head;

/// What ends the head.
const END: &[u8] = b"\n\n";

static POINTER: LazyLock<Vec<String>> =
    LazyLock::new(|| ["order", "0", "id"].map(str::to_owned).to_vec());

/// The head up to the first empty line, then the body.
pub fn run(bytes: &[u8]) {
    let end = bytes.windows(END.len()).position(|two| two == END);
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let body = body.get(END.len()..).unwrap_or_default();
    let fields = head::fields(head);
    let request = Request::new(fields.clone());
    let read = |by: &LockBy, request: &Request, body: &[u8]| {
        let body = Body::Whole(body.to_vec());
        let read = resource::of(by, request, &request.path(), &body);
        if let Ok(id) = &read {
            check_id(id);
        }
        read
    };
    // One more of the same doubles it, or it was not there.
    let with = |name: &str, value: Vec<u8>| {
        let mut fields = fields.clone();
        fields.push((name.to_owned(), value));
        Request::new(fields)
    };
    let by = LockBy::Header("x-ledger-id".to_owned());
    let more = read(&by, &with("x-ledger-id", b"more".to_vec()), b"");
    match request.values("x-ledger-id").count() {
        0 => assert_eq!(more, Ok(Id::of(b"more"))),
        _ => assert_eq!(more, Err(ResourceFault::Doubled)),
    }
    let _ = read(&by, &request, b"");

    let by = LockBy::Query("ledger".to_owned());
    if read(&by, &request, b"").is_ok() {
        let target = [request.first(":path"), b"&%6cedger=more"].concat();
        let mut fields = fields.clone();
        let path = fields
            .iter_mut()
            .find(|(n, _)| n.eq_ignore_ascii_case(":path"));
        path.expect("it has a query").1 = target;
        let more = read(&by, &Request::new(fields), b"");
        assert_eq!(more, Err(ResourceFault::Doubled));
    }
    for segment in 0..4 {
        let by = LockBy::Path {
            name: "ledger_id".to_owned(),
            segment,
        };
        let _ = read(&by, &request, b"");
    }
    let by = LockBy::Json(POINTER.clone());
    check_json(body, read(&by, &request, body), &request);
}

/// As serde_json reads a document as a whole, the last of doubled keys taken.
fn check_json(body: &[u8], read: Result<Id, ResourceFault>, request: &Request) {
    let document = serde_json::from_slice::<Value>(body);
    match (&read, &document) {
        (Err(ResourceFault::Encoded), _) => {
            let codings = request.values("content-encoding").collect::<Vec<_>>();
            assert!(!codings.is_empty());
        }
        (Err(ResourceFault::Doubled), Ok(_)) => {}
        (Err(ResourceFault::Missing), Err(_)) => assert!(body.is_empty()),
        (Err(ResourceFault::Malformed), Err(_)) => {}
        (read, Ok(document)) => {
            check_cases(document);
            let value = document.pointer(&format!("/{}", POINTER.join("/")));
            let name = match value {
                None => Err(ResourceFault::Missing),
                Some(Value::String(text)) if text.is_empty() => Err(ResourceFault::Missing),
                Some(Value::String(text)) => Ok(Id::of(text.as_bytes())),
                Some(Value::Number(number)) if !number.is_f64() => {
                    Ok(Id::of(number.to_string().as_bytes()))
                }
                Some(_) => Err(ResourceFault::NoName),
            };
            assert_eq!(read, &name);
        }
        (read, Err(error)) => panic!("{read:?} though {error}"),
    }
}

/// Nothing on the pointer's way is there in two cases.
fn check_cases(document: &Value) {
    let mut above = Some(document);
    for token in POINTER.iter() {
        let Some(value) = above else { return };
        let at = value.pointer(&format!("/{token}"));
        if let (Some(map), Some(_)) = (value.as_object(), at) {
            let alike = map
                .keys()
                .filter(|key| key.to_lowercase() == token.to_lowercase());
            assert_eq!(alike.count(), 1, "{token} in {document}");
        }
        above = at;
    }
}

/// Safe in a key.
fn check_id(id: &Id) {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    assert!((1..=64).contains(&id.as_str().len()));
    assert!(id.as_str().bytes().all(safe));
}
