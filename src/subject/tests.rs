//! Tests of `subject`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::request;
use crate::testing::throttles::anywhere;

use SubjectFault::{Basic, Doubled, Encoded, Malformed, Missing, NoName, TooLarge};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");
const TEXT: (&str, &str) = ("content-type", "text/plain");

fn by_basic() -> SubjectSource {
    SubjectSource {
        form: None,
        json: None,
        ..anywhere()
    }
}

fn by_form() -> SubjectSource {
    SubjectSource {
        basic: false,
        json: None,
        ..anywhere()
    }
}

fn by_json() -> SubjectSource {
    SubjectSource {
        basic: false,
        form: None,
        ..anywhere()
    }
}

fn basic(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}

fn read(source: &SubjectSource, fields: &[(&str, &str)], body: &[u8]) -> Result<Id, SubjectFault> {
    let request = request("POST", "/token?x=1", fields);
    of(source, &request, &Body::Whole(body.to_vec()))
}

/// The subject that was read: its name before it was hashed.
type Expected<'a> = Result<&'a str, SubjectFault>;

#[track_caller]
fn assert_read(read: Result<Id, SubjectFault>, expected: Expected<'_>, of: &str) {
    let plain = |id: Id| id.as_str().to_owned();
    let expected = expected.map(|name| plain(Id::hashed(name.as_bytes())));
    assert_eq!(read.map(plain), expected, "{of}");
}

#[test]
fn the_body_is_read_only_where_it_may_name_the_subject() {
    assert!(!is_in_body(&by_basic()));
    assert!(is_in_body(&by_form()));
    assert!(is_in_body(&by_json()));
    // Nothing is wrong with a body that nobody asks.
    let fields = [("authorization", basic("alice:pw"))];
    let fields = fields.each_ref().map(|(n, v)| (*n, v.as_str()));
    let encoded = [&fields[..], &[("content-encoding", "gzip")]].concat();
    let request = request("POST", "/", &encoded);
    let found = of(&by_basic(), &request, &Body::TooLarge);
    assert_read(found, Ok("alice"), "a body that nobody asks");
}

#[test]
fn by_basic_authentication() {
    let encoded = |text: &str| STANDARD.encode(text);
    let rows: Vec<(String, Expected<'_>)> = vec![
        (basic("alice:secret"), Ok("alice")),
        (basic("Alice:s:e:c"), Ok("alice")),
        (basic(" alice\u{a0}:"), Ok("alice")),
        (format!("bASIC   {}", encoded("alice:pw")), Ok("alice")),
        (format!("basic {}", STANDARD_NO_PAD.encode("a:b")), Ok("a")),
        // As OAuth clients write it.
        (basic("al%69ce%40example.com:x"), Ok("alice@example.com")),
        (basic("a%3Ab:x"), Ok("a:b")),
        (basic("100%:x"), Ok("100%")),
        (basic("alice%00x:x"), Err(NoName)),
        (basic("j\u{f6}rg:x"), Ok("j\u{f6}rg")),
        // Nobody is named.
        (basic(":secret"), Err(Missing)),
        (basic(" +:secret"), Err(Missing)),
        ("Bearer abc".to_owned(), Err(Missing)),
        (
            r#"Digest username="alice", realm="x""#.to_owned(),
            Err(Missing),
        ),
        (String::new(), Err(Missing)),
        // Somebody may be.
        (basic("alice"), Err(Basic)),
        (basic(""), Err(Basic)),
        ("Basic".to_owned(), Err(Basic)),
        (format!("Basic\t{}", encoded("alice:pw")), Err(Basic)),
        (format!("Basic:{}", encoded("alice:pw")), Err(Basic)),
        (format!("Basic{}", encoded("alice:pw")), Err(Basic)),
        ("Basic YWxpY2U6cHc!".to_owned(), Err(Basic)),
        ("Basic YWxp Y2U6cHc=".to_owned(), Err(Basic)),
        ("Basic YWxpY2U6cHd=".to_owned(), Err(Basic)),
        ("Basic YWxpY2U6cHc==".to_owned(), Err(Basic)),
        (basic("al\u{0}ice:pw"), Err(Basic)),
        // Envoy joins two of them.
        (
            format!("{}, {}", basic("alice:pw"), basic("bob:pw")),
            Err(Basic),
        ),
        (format!("Bearer x,{}", basic("alice:pw")), Err(Basic)),
        (format!("{},Bearer x", basic("alice:pw")), Err(Basic)),
    ];
    for (value, expected) in &rows {
        let fields = [("authorization", value.as_str())];
        assert_read(read(&by_basic(), &fields, b""), *expected, value);
    }
    assert_read(read(&by_basic(), &[], b""), Err(Missing), "none");
    let alice = basic("alice:pw");
    for other in [alice.as_str(), "Bearer x"] {
        let two = [("authorization", alice.as_str()), ("Authorization", other)];
        assert_read(read(&by_basic(), &two, b""), Err(Basic), other);
    }
}

#[test]
fn by_a_field_of_a_form() {
    let rows: &[(&[u8], Expected<'_>)] = &[
        (b"client_id=alice&client_secret=x", Ok("alice")),
        (b"a=b&client_id=Al%69ce+", Ok("alice")),
        (b"client%5Fid=alice", Ok("alice")),
        (b"client_id=a+b%2Bc", Ok("a b+c")),
        (b"client_id=a=b", Ok("a=b")),
        (b"client_id=%zz", Ok("%zz")),
        (b"grant_type=x", Err(Missing)),
        (b"", Err(Missing)),
        (b"client_id", Err(Missing)),
        (b"client_id=&x=y", Err(Missing)),
        (b"client_id=%20%09", Err(Missing)),
        (b"xclient_id=a&client_ids=b", Err(Missing)),
        (b"client_id=a&client_id=a", Err(Doubled)),
        (b"client_id=&client_id=a", Err(Doubled)),
        // To some servers it is another one, or there at all.
        (b"client_id=a&Client_ID=b", Err(Doubled)),
        (b"Client_ID=b", Err(Doubled)),
        (b"client_id=a;client_id=b", Err(Doubled)),
        (b"x=1;client_id=b", Err(Doubled)),
        (b"client_id=a&x=1;client_id=b", Err(Doubled)),
        (b"client_id=a&client_id[]=b", Err(Doubled)),
        (b"client_id=a&client_id%5B0%5D=b", Err(Doubled)),
        (b"client_id=a&client.id=b", Err(Doubled)),
        (b"client_id=a&client+id=b", Err(Doubled)),
        (b"client_id=a&client[id=b", Err(Doubled)),
        (b"client_id=a&+client_id=b", Err(Doubled)),
        (b"client_id=a&client_id%00x=b", Err(Doubled)),
        // A letter to ASP.NET, and six to others.
        (b"client_id=%u0061lice", Err(Malformed)),
        (b"client_id=alice&%U0063lient_id=bob", Err(Malformed)),
        (b"client_id=alice&client_secret=%u0061", Ok("alice")),
        (b"client_id=100%25u0061", Ok("100%u0061")),
        // A name ends there to servers in C.
        (b"client_id=alice%00x", Err(NoName)),
        // A password may hold what parted forms once.
        (b"client_id=alice&client_secret=x;y", Ok("alice")),
    ];
    for (body, expected) in rows {
        let of = String::from_utf8_lossy(body);
        for media in [&[FORM][..], &[], &[TEXT]] {
            assert_read(read(&by_form(), media, body), *expected, &of);
        }
    }
}

#[test]
fn a_field_with_brackets_is_one_of_its_own() {
    let source = SubjectSource {
        form: Some("user[email]".to_owned()),
        ..by_form()
    };
    let of = |body: &[u8]| read(&source, &[FORM], body);
    assert_read(of(b"user%5Bemail%5D=a&user[name]=b"), Ok("a"), "itself");
    let twice = b"user[email]=a&user[email][]=b";
    assert_read(of(twice), Err(Doubled), "a list of it");
}

#[test]
fn by_a_value_of_a_json_document() {
    let rows: &[(&str, Expected<'_>)] = &[
        (r#"{"client_id": "alice"}"#, Ok("alice")),
        (r#"{"client_id": " ALICE\n"}"#, Ok("alice")),
        (r#"{"client_\u0069d": "\u0061lice"}"#, Ok("alice")),
        (r#"{"client_id": 7}"#, Ok("7")),
        (r#"{"client_id": "a b+c%41"}"#, Ok("a b+c%41")),
        (r#"{"x": {"client_id": "alice"}}"#, Err(Missing)),
        ("{}", Err(Missing)),
        ("[]", Err(Missing)),
        ("\"client_id\"", Err(Missing)),
        (r#"{"client_id": ""}"#, Err(Missing)),
        ("", Err(Missing)),
        (r#"{"client_id": null}"#, Err(NoName)),
        (r#"{"client_id": "alice\u0000x"}"#, Err(NoName)),
        (r#"{"client_id": 7.0}"#, Err(NoName)),
        (r#"{"client_id": ["alice"]}"#, Err(NoName)),
        (r#"{"client_id": "a", "client_id": "a"}"#, Err(Doubled)),
        (r#"{"client_id": "a", "Client_ID": "b"}"#, Err(Doubled)),
        (r#"{"CLIENT_ID": "b"}"#, Err(Doubled)),
        ("{", Err(Malformed)),
        (r#"{"client_id": "alice"} x"#, Err(Malformed)),
        ("\u{feff}{\"client_id\": \"alice\"}", Err(Malformed)),
        (" ", Err(Malformed)),
        ("client_id=alice", Err(Malformed)),
    ];
    for (body, expected) in rows {
        assert_read(read(&by_json(), &[JSON], body.as_bytes()), *expected, body);
        let problem = [("content-type", "application/vnd.x+json; charset=utf-8")];
        assert_read(read(&by_json(), &problem, body.as_bytes()), *expected, body);
    }
    let latin = b"{\"client_id\": \"j\xf6rg\"}";
    assert_read(read(&by_json(), &[JSON], latin), Err(Malformed), "no UTF-8");
    let nested = SubjectSource {
        json: Some(vec!["user".to_owned(), "id".to_owned()]),
        ..by_json()
    };
    let body = json!({"user": {"id": "alice"}}).to_string();
    assert_read(
        read(&nested, &[JSON], body.as_bytes()),
        Ok("alice"),
        "nested",
    );
    let other_case = json!({"User": {"id": "bob"}}).to_string();
    let found = read(&nested, &[JSON], other_case.as_bytes());
    assert_read(found, Err(Doubled), "in another case");
}

/// A body is what the upstream takes it for, whatever its type says.
#[test]
fn no_type_hides_a_subject() {
    let named = br#"{"client_id": "alice"}"#;
    let marked = "\u{feff}{\"client_id\": \"alice\"}".as_bytes();
    let wide: Vec<u8> = named.iter().flat_map(|b| [*b, 0]).collect();
    for media in [
        &[][..],
        &[TEXT],
        &[FORM],
        &[JSON],
        &[JSON, FORM],
        &[("content-type", "application/json, text/plain")],
        &[("content-type", "")],
    ] {
        for source in [by_json(), anywhere()] {
            let of = format!("{media:?}");
            assert_read(read(&source, media, named), Ok("alice"), &of);
            assert_read(read(&source, media, marked), Err(Malformed), &of);
            assert_read(read(&source, media, &wide), Err(Malformed), &of);
            assert_read(read(&source, media, b" [1"), Err(Malformed), &of);
        }
    }
    // JSON that is none, whoever looks for it.
    let found = read(&by_form(), &[JSON], b"client_id=alice");
    assert_read(found, Err(Malformed), "a form that says it is JSON");
    let found = read(&by_form(), &[JSON], b"{\"a\": \"&client_id=bob&\"}");
    assert_read(found, Err(Missing), "JSON is no form");
    // Two documents in one, of which each server reads one.
    let both = br#"{"client_id": "alice", "x": "&client_id=bob&"}"#;
    for media in [&[][..], &[TEXT], &[FORM], &[JSON, FORM]] {
        let of = format!("{media:?}");
        assert_read(read(&anywhere(), media, both), Err(Doubled), &of);
    }
    assert_read(read(&anywhere(), &[JSON], both), Ok("alice"), "JSON");
    // What else a server may read holds a decoy for whoever reads it as a form.
    let xml = b"<u><client_id>bob</client_id><!--&client_id=alice&--></u>";
    for media in [
        "application/xml",
        "text/xml; charset=utf-8",
        "application/soap+xml",
        "application/msgpack",
        "application/grpc",
        "application/x-www-form-urlencoded, application/xml",
        "application/x-www-form-urlencoded; charset=ibm037",
        "application/x-www-form-urlencoded;x=y; Charset = \"UTF-16\"",
        "application/x-www-form-urlencoded; charset*=utf-7''",
        "text/plain; charset=shift_jis",
        "application/json; charset=utf-7",
    ] {
        for source in [by_form(), by_json(), anywhere()] {
            let found = read(&source, &[("content-type", media)], xml);
            assert_read(found, Err(Malformed), media);
        }
    }
    for media in [
        "application/x-www-form-urlencoded; charset=UTF-8",
        "application/x-www-form-urlencoded;charset=\"iso-8859-1\"",
        "application/octet-stream",
        "text/plain; format=flowed",
    ] {
        let found = read(&by_form(), &[("content-type", media)], b"client_id=alice");
        assert_read(found, Ok("alice"), media);
    }
    // Parts are fields to many servers, and a decoy among them is not one.
    let parts = b"--x\r\nname=\"client_id\"\r\n\r\nbob\r\n--x\r\n\r\n&client_id=alice&";
    for media in [
        &[("content-type", "multipart/form-data; boundary=x")][..],
        &[TEXT, ("content-type", "Multipart/Mixed")],
        &[("content-type", "text/plain, multipart/form-data")],
    ] {
        let found = read(&by_form(), media, parts);
        assert_read(found, Err(Malformed), &format!("{media:?}"));
    }
}

#[test]
fn all_places_agree() {
    let alice = basic("Alice:pw");
    let alice = ("authorization", alice.as_str());
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a [u8], Expected<'a>);
    let rows: &[Row<'_>] = &[
        (&[alice], b"", Ok("alice")),
        (&[alice, FORM], b"client_id=alice", Ok("alice")),
        (&[alice, FORM], b"client_id=al%69ce&x=y", Ok("alice")),
        (&[alice, FORM], b"grant_type=x", Ok("alice")),
        (&[alice, FORM], b"client_id=", Ok("alice")),
        (&[alice, FORM], b"client_id=bob", Err(Doubled)),
        (&[alice, FORM], b"client_id=a&client_id=alice", Err(Doubled)),
        (&[alice, JSON], br#"{"client_id": "alice"}"#, Ok("alice")),
        (&[alice, JSON], br#"{"x": "alice"}"#, Ok("alice")),
        (&[alice, JSON], br#"{"client_id": "bob"}"#, Err(Doubled)),
        (&[alice, JSON], br#"{"Client_Id": "bob"}"#, Err(Doubled)),
        (&[alice, TEXT], br#"{"client_id": "bob"}"#, Err(Doubled)),
        (&[alice, FORM], br#"{"client_id": "bob"}"#, Err(Doubled)),
        (&[alice, JSON], b"client_id=bob", Err(Malformed)),
        (&[alice, JSON], b"{", Err(Malformed)),
        (&[FORM], b"client_id=bob", Ok("bob")),
        (&[JSON], br#"{"client_id": "bob"}"#, Ok("bob")),
        (
            &[("authorization", "Basic !"), FORM],
            b"client_id=bob",
            Err(Basic),
        ),
        (
            &[("authorization", "Bearer x"), FORM],
            b"client_id=bob",
            Ok("bob"),
        ),
    ];
    for (fields, body, expected) in rows {
        let of = format!("{fields:?} {}", String::from_utf8_lossy(body));
        assert_read(read(&anywhere(), fields, body), *expected, &of);
    }
}

#[test]
fn the_query_names_nobody_but_must_not_name_another() {
    let of = |source: &SubjectSource, target: &str, body: &[u8]| {
        let request = request("POST", target, &[FORM]);
        super::of(source, &request, &Body::Whole(body.to_vec()))
    };
    let form = b"client_id=alice";
    for (target, body, expected) in [
        ("/t?client_id=alice", &form[..], Ok("alice")),
        ("/t?client_id=ALICE&client_id=", form, Ok("alice")),
        ("/t?client_id=bob", form, Err(Doubled)),
        ("/t?a;Client.Id=bob", form, Err(Doubled)),
        ("/t?client_id[]=bob", form, Err(Doubled)),
        ("/t?x=bob", form, Ok("alice")),
        ("/t?client_id=alice", b"", Err(Missing)),
    ] {
        assert_read(of(&by_form(), target, body), expected, target);
        assert_read(of(&anywhere(), target, body), expected, target);
    }
    let basic_only = request(
        "POST",
        "/t?client_id=bob",
        &[("authorization", &basic("a:b"))],
    );
    assert_read(
        super::of(&by_basic(), &basic_only, &Body::NONE),
        Ok("a"),
        "a field that nobody asks",
    );
}

#[test]
fn a_body_that_cannot_be_read() {
    for source in [by_form(), by_json(), anywhere()] {
        for coding in ["gzip", "identity, br", " Deflate"] {
            let fields = [FORM, ("content-encoding", coding)];
            let found = read(&source, &fields, b"client_id=alice");
            assert_read(found, Err(Encoded), coding);
        }
        let head = request("POST", "/", &[("authorization", &basic("alice:pw"))]);
        let found = of(&source, &head, &Body::TooLarge);
        assert_read(found, Err(TooLarge), "whoever is named elsewhere");
    }
    let identity = [FORM, ("content-encoding", "Identity")];
    let found = read(&by_form(), &identity, b"client_id=alice");
    assert_read(found, Ok("alice"), "no coding");
}

#[test]
fn a_subject_is_spelled_as_it_is_where_nothing_else_is_asked_for() {
    let exact = SubjectSource {
        trim: false,
        lowercase: false,
        ..by_form()
    };
    let of = |body: &[u8]| read(&exact, &[FORM], body);
    assert_read(of(b"client_id=+Alice"), Ok(" Alice"), "as it is");
    assert_read(of(b"client_id=+"), Ok(" "), "as it is");
}

#[test]
fn subjects_are_hashed_and_trimmed_and_lose_their_case() {
    let source = by_json();
    let hashed = |name: &str| named(&source, name.as_bytes()).as_str().to_owned();
    // Even a name that would fit.
    assert_eq!(hashed("client-1"), Id::hashed(b"client-1").as_str());
    assert_eq!(hashed("a").len(), 43);
    for (spelling, plain) in [
        ("ALICE@Example.COM", "alice@example.com"),
        ("\u{feff}\u{200b}alice\u{2003}\u{0}\u{1f}", "alice"),
        ("\u{c9}L\u{c8}VE", "\u{e9}l\u{e8}ve"),
        // Upper case is all that these share with other letters.
        ("bo\u{17f}\u{17f}", "boss"),
        ("\u{3a3}\u{391}\u{3a3}", "\u{3c3}\u{3b1}\u{3c2}"),
        ("STRASSE", "stra\u{df}e"),
        ("\u{212a}", "k"),
    ] {
        assert_eq!(hashed(spelling), hashed(plain), "{spelling:?}");
    }
    assert_ne!(hashed("alice"), hashed("al ice"));
    assert_ne!(hashed("\u{e9}"), hashed("e"));
}

#[test]
fn a_plus_of_basic_authentication_is_one_subject_to_all_servers() {
    let of = |credentials: &str| {
        let header = basic(credentials);
        read(&anywhere(), &[("authorization", &header)], b"")
    };
    let by_form = |body: &[u8]| read(&anywhere(), &[FORM], body);
    // It is itself to most, and a space to OAuth's.
    let plus = of("a+b@example.com:pw");
    assert_read(plus.clone(), Ok("a+b@example.com"), "plain");
    assert_eq!(of("a%2Bb@example.com:pw"), plus);
    assert_eq!(of("a b@example.com:pw"), plus);
    assert_eq!(by_form(b"client_id=a%2Bb@example.com"), plus);
    // Where spaces around it do not count, neither do these.
    assert_eq!(of("+a+b@example.com++:pw"), plus);
}

/// A name that servers may hear of.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9@._-]{1,20}",
        "\\PC{1,12}",
        ".{1,12}",
        prop::collection::vec(
            prop::sample::select(vec![
                "+", " ", "%", "\u{17f}", "A", "\u{130}", "&", ";", "="
            ]),
            1..8
        )
        .prop_map(|parts| parts.concat()),
    ]
}

/// All bytes of a name, or some of them, written as in a form.
fn escaped(name: &str, all: bool) -> String {
    let bytes = name.bytes().map(|b| match b {
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' if !all => char::from(b).to_string(),
        b' ' if !all => "+".to_owned(),
        other => format!("%{other:02x}"),
    });
    bytes.collect()
}

fn source() -> impl Strategy<Value = SubjectSource> {
    (any::<[bool; 5]>()).prop_map(|[basic, form, json, trim, lowercase]| SubjectSource {
        basic,
        form: form.then(|| "client_id".to_owned()),
        json: json.then(|| vec!["client_id".to_owned()]),
        trim,
        lowercase,
    })
}

proptest! {
    #[test]
    fn one_subject_has_one_identifier(name in name(), trim in any::<bool>(), lowercase in any::<bool>()) {
        let source = SubjectSource { trim, lowercase, ..anywhere() };
        let plain = named(&source, name.as_bytes());
        prop_assume!(normal::form(&source, name.as_bytes()) != b"" && !name.contains('\0'));
        for all in [true, false] {
            let written = escaped(&name, all);
            let body = format!("x=y&client_id={written}&z=1");
            prop_assert_eq!(read(&source, &[FORM], body.as_bytes()), Ok(plain.clone()));
            let header = basic(&format!("{written}:pw"));
            prop_assert_eq!(read(&source, &[("authorization", &header)], b""), Ok(plain.clone()));
            // All at once, too.
            prop_assert_eq!(
                read(&source, &[FORM, ("authorization", &header)], body.as_bytes()),
                Ok(plain.clone())
            );
        }
        let body = json!({"client_id": name}).to_string();
        prop_assert_eq!(read(&source, &[JSON], body.as_bytes()), Ok(plain));
    }

    #[test]
    fn neither_case_nor_white_space_makes_another(name in name(), around in "[ \t\u{a0}\u{feff}]{0,3}") {
        let source = by_json();
        let plain = named(&source, name.as_bytes());
        for spelling in [name.to_lowercase(), name.to_uppercase(), format!("{around}{name}{around}")] {
            prop_assert_eq!(&named(&source, spelling.as_bytes()), &plain, "{:?}", spelling);
        }
    }

    #[test]
    fn what_is_normal_stays_so(raw in prop::collection::vec(any::<u8>(), 0..20), source in source()) {
        let once = normal::form(&source, &raw);
        prop_assert_eq!(&normal::form(&source, &once), &once);
    }

    #[test]
    fn no_bytes_can_make_it_panic_nor_stay_readable(
        source in source(),
        authorization in prop_oneof![
            Just(None),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
            prop::collection::vec(any::<u8>(), 0..40)
                .prop_map(|bytes| Some([b"Basic ", STANDARD.encode(bytes).as_bytes()].concat())),
        ],
        media in prop::option::of(prop::sample::select(vec![JSON, FORM, TEXT])),
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            "[client_id={}\"&;%+a-c0-9]{0,40}".prop_map(String::into_bytes),
        ],
    ) {
        let mut fields: Vec<(String, Vec<u8>)> = vec![];
        fields.extend(authorization.map(|value| ("authorization".to_owned(), value)));
        fields.extend(media.map(|(name, value)| (name.to_owned(), value.into())));
        let request = Request::new(fields);
        let found = of(&source, &request, &Body::Whole(body.clone()));
        if let Ok(id) = &found {
            prop_assert_eq!(id.as_str().len(), 43);
        }
        // Nothing depends on anything else.
        prop_assert_eq!(found, of(&source, &request, &Body::Whole(body)));
    }
}
