//! Tests of `client_ip`.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::testing::head;

const CONNECTION: ClientIp = ClientIp {
    from: ClientIpFrom::Connection,
    ipv6_prefix: 128,
};

/// So many trusted proxies that write `X-Forwarded-For`.
const fn hops(hops: u32) -> ClientIp {
    ClientIp {
        from: ClientIpFrom::XForwardedFor(hops),
        ipv6_prefix: 128,
    }
}

/// So many trusted proxies that write `Forwarded`.
const fn elements(hops: u32) -> ClientIp {
    ClientIp {
        from: ClientIpFrom::Forwarded(hops),
        ipv6_prefix: 128,
    }
}

/// The address of a request with these lines in the header that counts.
fn forwarded(config: &ClientIp, lines: &[&str], source: &str) -> Address {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    of_lines(config, &lines, source)
}

fn of_lines(config: &ClientIp, lines: &[&[u8]], source: &str) -> Address {
    let name = match config.from {
        ClientIpFrom::Connection | ClientIpFrom::XForwardedFor(_) => "x-forwarded-for",
        ClientIpFrom::Forwarded(_) => "forwarded",
    };
    let fields: Vec<(&str, &[u8])> = lines.iter().map(|line| (name, *line)).collect();
    Address::of(config, &head(&fields), source.as_bytes())
}

fn ip(text: &str) -> Address {
    Address::Ip(text.parse().unwrap())
}

#[test]
fn every_form_of_an_address_is_read() {
    for (source, expected) in [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("192.0.2.1:65535", "192.0.2.1"),
        (" 192.0.2.1 ", "192.0.2.1"),
        ("::1", "::1"),
        ("1::", "1::"),
        ("2001:db8::7", "2001:db8::7"),
        ("2001:DB8::A", "2001:db8::a"),
        ("2001:0db8:0000:0000:0000:0000:0000:0007", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:443", "2001:db8::7"),
        ("\"[2001:db8::7]:443\"", "2001:db8::7"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%eth0]", "fe80::1"),
        ("[fe80::1%25eth0]:80", "fe80::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ("::FFFF:192.0.2.1", "192.0.2.1"),
        ("[::ffff:192.0.2.1%eth0]:80", "192.0.2.1"),
        ("64:ff9b::192.0.2.1", "192.0.2.1"),
        ("[64:ff9b::c000:201]:80", "192.0.2.1"),
        ("[64:ff9b:1::c000:201]", "64:ff9b:1::c000:201"),
        ("\"192.0.2.1:80\"", "192.0.2.1"),
        ("[192.0.2.1]:80", "192.0.2.1"),
        ("192.0.2.1:0", "192.0.2.1"),
        ("192.0.2.1:_a.b-c_9", "192.0.2.1"),
        ("[2001:db8::7]:_hidden", "2001:db8::7"),
        ("\t192.0.2.1\t", "192.0.2.1"),
    ] {
        assert_eq!(
            forwarded(&CONNECTION, &[], source),
            ip(expected),
            "{source}"
        );
        let decoy = "198.51.100.9";
        assert_eq!(
            forwarded(&hops(1), &[source], decoy),
            ip(expected),
            "{source}"
        );
        let element = format!("for=\"{}\"", source.trim().trim_matches('"'));
        assert_eq!(
            forwarded(&elements(1), &[&element], decoy),
            ip(expected),
            "{element}"
        );
    }
}

#[test]
fn what_is_no_address_stays_what_it_is() {
    for source in [
        "envoy://inner_listener/endpoint",
        "@/run/proxy.sock",
        "unknown",
        "192.0.2",
        "192.0.2.256",
        "192.0.2.1:65536",
        "192.0.2.1:http",
        "[2001:db8::7",
        "2001:db8::7::",
        "",
        "192.0.2.01",
        "192.0.2.1 80",
        "192.0.2.1:",
        "192.0.2.1:+80",
        "192.0.2.1:_",
        "192.0.2.1:_a b",
        "192.0.2.1%eth0",
        "::ffff:192.0.2.256",
        "[2001:db8::7]80",
        "[2001:db8::7]:",
        "[2001:db8::7]]",
        "[]",
        "\"192.0.2.1",
        "192.0.2.1\"",
        "\"\"192.0.2.1\"\"",
        "\"",
        "0xc0000201",
        "3221225985",
    ] {
        let expected = Address::Other(source.as_bytes().to_vec());
        assert_eq!(forwarded(&CONNECTION, &[], source), expected, "{source}");
        let source = source.replace('"', "\\\"");
        let element = format!("for=\"{source}\"");
        let found = forwarded(&elements(1), &[&element], "192.0.2.9");
        assert_eq!(found, ip("192.0.2.9"), "{element}");
    }
    let odd = Address::of(&CONNECTION, &head(&[]), b"\xff");
    assert_eq!(odd, Address::Other(b"\xff".to_vec()));
}

#[test]
fn two_internal_listeners_are_two_clients() {
    let of = |source| forwarded(&CONNECTION, &[], source).key();
    assert_eq!(of("envoy://a/1"), of("envoy://a/1"));
    assert_ne!(of("envoy://a/1"), of("envoy://b/1"));
}

#[test]
fn forwarded_entries_are_counted_from_the_right_over_all_lines() {
    let lines: &[&[&str]] = &[
        &["203.0.113.9, 10.0.0.3, 10.0.0.2, 10.0.0.1"],
        &["203.0.113.9,10.0.0.3,10.0.0.2,10.0.0.1"],
        &["203.0.113.9, 10.0.0.3", "10.0.0.2, 10.0.0.1"],
        &["203.0.113.9", "10.0.0.3,10.0.0.2", "10.0.0.1"],
        &["203.0.113.9", "10.0.0.3", "10.0.0.2", "10.0.0.1"],
        &["203.0.113.9:1, 10.0.0.3:2", "10.0.0.2:3, 10.0.0.1:4"],
    ];
    for lines in lines {
        for (n, expected) in [(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3")] {
            let found = forwarded(&hops(n), lines, "192.0.2.1");
            assert_eq!(found, ip(expected), "{lines:?}, {n} hops");
        }
    }
}

#[test]
fn without_trusted_hops_the_header_counts_for_nothing() {
    let found = forwarded(&CONNECTION, &["203.0.113.9"], "192.0.2.1:5");
    assert_eq!(found, ip("192.0.2.1"));
}

#[test]
fn a_missing_or_unreadable_entry_falls_back_to_the_connection() {
    let rows: &[(u32, &[&str], &str)] = &[
        (1, &[], "no header"),
        (1, &[""], "an empty header"),
        (2, &["10.0.0.1"], "too few entries"),
        (3, &["10.0.0.2", "10.0.0.1"], "too few entries in two lines"),
        (1, &["203.0.113.9, unknown"], "a name"),
        (1, &["203.0.113.9, _hidden"], "an obfuscated name"),
        (1, &["203.0.113.9,"], "an empty entry"),
        (2, &["203.0.113.9, 10.0.0.999, 10.0.0.1"], "a bad number"),
        (2, &["203.0.113.9, , 10.0.0.1"], "an empty entry inside"),
        (100, &["203.0.113.9"], "far too few"),
    ];
    for (n, lines, what) in rows {
        assert_eq!(
            forwarded(&hops(*n), lines, "192.0.2.1"),
            ip("192.0.2.1"),
            "{what}"
        );
    }
    let bytes = head(&[("x-forwarded-for", b"203.0.113.9, \xff\xfe")]);
    assert_eq!(Address::of(&hops(1), &bytes, b"192.0.2.1"), ip("192.0.2.1"));
    let nothing = forwarded(&hops(1), &["unknown"], "envoy://inner");
    assert_eq!(nothing, Address::Other(b"envoy://inner".to_vec()));
}

#[test]
fn elements_are_counted_from_the_right_over_all_lines() {
    let lines: &[&[&str]] = &[
        &["for=203.0.113.9, for=10.0.0.3, for=10.0.0.2, for=10.0.0.1"],
        &["for=203.0.113.9,for=10.0.0.3;proto=https,by=_p;for=10.0.0.2,FOR=10.0.0.1"],
        &[
            "for=203.0.113.9, for=10.0.0.3",
            "for=\"10.0.0.2\", for=\"10.0.0.1:80\"",
        ],
        &[
            "for=203.0.113.9",
            "by=\"a,b\";for=10.0.0.3,for=10.0.0.2;by=\",;\\\",\"",
            "For=10.0.0.1;ext=\"for=1.2.3.4,\"",
        ],
    ];
    for lines in lines {
        for (n, expected) in [(1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3")] {
            let found = forwarded(&elements(n), lines, "192.0.2.1");
            assert_eq!(found, ip(expected), "{lines:?}, {n} hops");
        }
    }
}

#[test]
fn a_missing_or_unreadable_element_falls_back_to_the_connection() {
    let rows: &[(u32, &[&str], &str)] = &[
        (1, &[], "no header"),
        (1, &[""], "an empty header"),
        (1, &["for="], "an empty value"),
        (1, &["for=\"\""], "an empty string"),
        (2, &["for=10.0.0.1"], "too few elements"),
        (
            3,
            &["for=10.0.0.2", "for=10.0.0.1"],
            "too few elements in two lines",
        ),
        (100, &["for=203.0.113.9"], "far too few"),
        (1, &["for=203.0.113.9, for=unknown"], "unknown"),
        (1, &["for=203.0.113.9, for=_hidden"], "an obfuscated name"),
        (
            1,
            &["for=203.0.113.9, for=\"_hidden:80\""],
            "an obfuscated name with a port",
        ),
        (1, &["for=203.0.113.9, by=203.0.113.9;proto=http"], "no for"),
        (1, &["for=203.0.113.9,"], "an empty element"),
        (
            2,
            &["for=203.0.113.9, , for=10.0.0.1"],
            "an empty element inside",
        ),
        (1, &["for=203.0.113.9;for=203.0.113.9"], "for twice"),
        (1, &["for=203.0.113.9;For=203.0.113.8"], "for twice"),
        (1, &["203.0.113.9"], "the other header's form"),
        (1, &["for=203.0.113.9\""], "a quote that never began"),
        (1, &["for=\"203.0.113.9"], "a quote that never ends"),
        (1, &["for=\"203.0.113.9\\\""], "an escaped end"),
        (1, &["for=\"203.0.113.9\"x"], "something after a quote"),
        (1, &["for=\"203.0.113.9\", x=\""], "the same, elsewhere"),
    ];
    for (n, lines, what) in rows {
        let found = forwarded(&elements(*n), lines, "192.0.2.1");
        assert_eq!(found, ip("192.0.2.1"), "{what}: {lines:?}");
    }
    let found = of_lines(&elements(1), &[b"for=\xff"], "envoy://inner");
    assert_eq!(found, Address::Other(b"envoy://inner".to_vec()));
}

#[test]
fn each_header_counts_only_where_it_is_asked_for() {
    let both = head(&[
        ("x-forwarded-for", b"203.0.113.1"),
        ("forwarded", b"for=203.0.113.2"),
    ]);
    for (config, expected) in [
        (CONNECTION, "192.0.2.1"),
        (hops(1), "203.0.113.1"),
        (elements(1), "203.0.113.2"),
    ] {
        assert_eq!(Address::of(&config, &both, b"192.0.2.1"), ip(expected));
    }
}

#[test]
fn an_ipv6_network_counts_as_one_client() {
    for (prefix, address, expected) in [
        (64, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        (128, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"),
        (48, "2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        (56, "2001:db8:1:2ff:3:4:5:6", "2001:db8:1:200::"),
        (1, "ffff:db8::1", "8000::"),
        (1, "2001:db8::1", "::"),
        (127, "2001:db8::7", "2001:db8::6"),
        // An IPv4 address has no such prefix, however it is written.
        (1, "192.0.2.1", "192.0.2.1"),
        (64, "::ffff:192.0.2.1", "192.0.2.1"),
        (64, "64:ff9b::c000:201", "192.0.2.1"),
        // The link is no part of it.
        (64, "fe80::1%eth0", "fe80::"),
    ] {
        let config = ClientIp {
            from: ClientIpFrom::Connection,
            ipv6_prefix: prefix,
        };
        let found = forwarded(&config, &[], address);
        assert_eq!(found, ip(expected), "{address}/{prefix}");
        let config = ClientIp {
            from: ClientIpFrom::XForwardedFor(1),
            ..config
        };
        let found = forwarded(&config, &[address], "198.51.100.9");
        assert_eq!(found, ip(expected), "{address}/{prefix}, x-forwarded-for");
        let config = ClientIp {
            from: ClientIpFrom::Forwarded(1),
            ..config
        };
        let element = format!("for=\"[{address}]\"");
        let found = forwarded(&config, &[&element], "198.51.100.9");
        assert_eq!(found, ip(expected), "{address}/{prefix}, forwarded");
    }
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![
        any::<u32>().prop_map(|bits| Address::Ip(Ipv4Addr::from_bits(bits).into())),
        any::<u128>().prop_map(|bits| Address::Ip(Ipv6Addr::from_bits(bits).into())),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Address::Other),
    ]
}

#[test]
fn no_two_kinds_of_address_share_a_key() {
    // As long as an IPv4 and an IPv6 address are, with the mark of a name before it.
    let v4 = ip("63.97.98.99");
    assert_ne!(v4.key(), Address::Other(b"abc".to_vec()).key());
    let v6 = Address::Ip(Ipv6Addr::from(*b"?envoy_internal_").into());
    assert_ne!(v6.key(), Address::Other(b"envoy_internal_".to_vec()).key());
}

proptest! {
    #[test]
    fn different_addresses_have_different_keys(a in address(), b in address()) {
        prop_assert_eq!(a == b, a.key() == b.key());
    }

    #[test]
    fn what_a_client_forges_on_the_left_never_matters(
        forged in forged(),
        same_line in any::<bool>(),
        n in 1_usize..4,
    ) {
        let trusted = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let lines = appended(forged, &trusted[..n].join(", "), same_line);
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(of_lines(&hops(n as u32), &lines, "192.0.2.1"), ip("10.0.0.1"));
    }

    #[test]
    fn nor_does_it_in_elements(
        forged in forged(),
        same_line in any::<bool>(),
        first in element("10.0.0.1"),
        others in prop::collection::vec(element("10.0.0.9"), 0..3),
        split in any::<prop::sample::Index>(),
    ) {
        let hops = 1 + others.len();
        // The trusted proxies append to one line, or to one and then to another.
        let split = 1 + split.index(hops);
        let all = [vec![first], others].concat();
        let mut lines = appended(forged, &all[..split].join(", "), same_line);
        if split < hops {
            lines.push(all[split..].join(",").into_bytes());
        }
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(of_lines(&elements(hops as u32), &lines, "192.0.2.1"), ip("10.0.0.1"));
    }

    #[test]
    fn no_bytes_can_make_it_panic(
        header in prop::collection::vec(any::<u8>(), 0..40),
        source in prop::collection::vec(any::<u8>(), 0..40),
        text in "[\\[\\]:%\"0-9a-f., ]{0,40}",
        element in "(for=|by=|[\\[\\]:%\"\\\\0-9;=,_ ]){0,20}",
        n in 0_u32..4,
        prefix in any::<u8>(),
    ) {
        for from in [ClientIpFrom::XForwardedFor(n), ClientIpFrom::Forwarded(n)] {
            let config = ClientIp { from, ipv6_prefix: prefix };
            let lines = [header.as_slice(), text.as_bytes(), element.as_bytes()];
            for lines in [&lines[..], &lines[..2], &lines[..1], &lines[1..]] {
                let _ = of_lines(&config, lines, "");
            }
            let _ = Address::of(&config, &head(&[]), text.as_bytes());
            let _ = Address::of(&config, &head(&[]), &source);
        }
    }
}

/// What a client may send: any bytes, and such as would catch one that reads from the left.
fn forged() -> impl Strategy<Value = Vec<Vec<u8>>> {
    const PIECES: &[&[u8]] = &[
        b"\"",
        b"\\",
        b",",
        b";",
        b"for=",
        b"for=\"6.6.6.6\"",
        b"6.6.6.6",
    ];
    let piece = prop_oneof![
        2 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    let line = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    prop::collection::vec(line, 0..5)
}

/// Lines to which a trusted proxy appends this: to the last, or as one of its own.
fn appended(mut lines: Vec<Vec<u8>>, text: &str, same_line: bool) -> Vec<Vec<u8>> {
    match lines.last_mut() {
        Some(last) if same_line => {
            last.extend(b", ");
            last.extend(text.as_bytes());
        }
        _ => lines.push(text.as_bytes().to_vec()),
    }
    lines
}

/// An element of RFC 7239 that is for this address, as a proxy may write it.
fn element(address: &'static str) -> impl Strategy<Value = String> {
    const QUOTED: &str = "(by|host|x)=\"([ !#-\\[\\]-~]|\\\\[ -~]){0,8}\"";
    let pair = prop_oneof!["(by|proto|host|x)=[a-z0-9._-]{1,5}", QUOTED, ""];
    let pairs = prop::collection::vec(pair, 0..3);
    let port = prop_oneof![Just(""), Just(":80"), Just(":_x.1")];
    (
        pairs.clone(),
        pairs,
        port,
        "[Ff][Oo][Rr]",
        0_usize..9,
        any::<bool>(),
    )
        .prop_map(move |(before, after, port, name, escaped, is_quoted)| {
            let mut node = format!("{address}{port}");
            if is_quoted || !port.is_empty() {
                // Any of its characters may be escaped.
                node.insert(escaped.min(node.len() - 1), '\\');
                node = format!("\"{node}\"");
            }
            let own = vec![format!("{name}={node}")];
            [before, own, after].concat().join(";")
        })
}
