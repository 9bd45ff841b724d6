//! Tests of `forwarded`.

use super::*;

fn all(line: &str) -> Vec<&str> {
    let elements = elements(line.as_bytes());
    elements
        .map(|element| std::str::from_utf8(element).unwrap())
        .collect()
}

fn value(element: &str) -> Option<String> {
    let value = node(element.as_bytes())?;
    Some(String::from_utf8(value.into_owned()).unwrap())
}

#[test]
fn a_line_is_taken_apart_from_the_right_at_commas_outside_of_quotes() {
    for (line, expected) in [
        ("", vec![""]),
        ("a", vec!["a"]),
        ("a,b", vec!["b", "a"]),
        (",", vec!["", ""]),
        (r#"x=",",y=1"#, vec!["y=1", r#"x=",""#]),
        (r#"x="\",",y=1"#, vec!["y=1", r#"x="\",""#]),
        (r#"x="\\",y=",""#, vec![r#"y=",""#, r#"x="\\""#]),
        (r#"x="\\\",\\",y"#, vec!["y", r#"x="\\\",\\""#]),
        // What is not well-formed is one element, and does not reach to the right.
        (r#"a,b",y=",",z"#, vec!["z", r#"y=",""#, r#"a,b""#]),
        (r#"x=",a"#, vec!["a", r#"x=""#]),
    ] {
        assert_eq!(all(line), expected, "{line}");
    }
}

/// The examples of RFC 7239, section 4, and what proxies write besides.
#[test]
fn an_element_tells_its_one_node() {
    for (element, expected) in [
        (r#"for="_gazonk""#, "_gazonk"),
        (
            r#"For="[2001:db8:cafe::17]:4711""#,
            "[2001:db8:cafe::17]:4711",
        ),
        ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
        ("for=192.0.2.43", "192.0.2.43"),
        (" \tfor=192.0.2.43 \t", "192.0.2.43"),
        ("proto=http;FOR=192.0.2.43", "192.0.2.43"),
        ("proto=http ; for=192.0.2.43 ; by=_x", "192.0.2.43"),
        (";;for=192.0.2.43;", "192.0.2.43"),
        (r#"for="a\"b\\c\d";by="for=x""#, r#"a"b\cd"#),
        (r#"by=";for=x";for=y"#, "y"),
        ("for=[2001:db8::1]:80", "[2001:db8::1]:80"),
        ("for=", ""),
    ] {
        assert_eq!(value(element).as_deref(), Some(expected), "{element}");
    }
    for element in [
        "",
        ";",
        "for",
        "for ",
        "for;by=x",
        "for =x",
        "by=x",
        "fort=x",
        "xfor=x",
        "for=x;for=x",
        "for=x;for",
        r#"for="x"#,
        r#"for="x\""#,
        r#"for="x"y"#,
        r#"for="x" y"#,
        r#"for=x;by=""#,
        r#"for=x;by="y"z"#,
    ] {
        assert_eq!(value(element), None, "{element}");
    }
}

/// So that nobody can make it slow.
#[test]
fn a_long_line_is_read_once() {
    let line = [
        r#"\""#.repeat(200_000),
        "\\".repeat(200_000),
        "\",".repeat(200_000),
    ]
    .concat();
    assert!(elements(line.as_bytes()).count() > 0);
    let quoted = format!("for=\"{}\"", "\\a".repeat(200_000));
    assert_eq!(value(&quoted).map(|value| value.len()), Some(200_000));
}
