//! Tests of `client_ip`.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::testing::head;

const CONNECTION: ClientIp = ClientIp {
    trusted_hops: None,
    ipv6_prefix: 128,
};

const fn hops(hops: u32) -> ClientIp {
    ClientIp {
        trusted_hops: Some(hops),
        ipv6_prefix: 128,
    }
}

/// The address of a request whose `X-Forwarded-For` lines are these.
fn forwarded(config: &ClientIp, lines: &[&str], source: &str) -> Address {
    let fields: Vec<(&str, &[u8])> = lines
        .iter()
        .map(|line| ("x-forwarded-for", line.as_bytes()))
        .collect();
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
    ] {
        let expected = Address::Other(source.as_bytes().to_vec());
        assert_eq!(forwarded(&CONNECTION, &[], source), expected, "{source}");
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
    ] {
        let config = ClientIp {
            trusted_hops: None,
            ipv6_prefix: prefix,
        };
        let found = forwarded(&config, &[], address);
        assert_eq!(found, ip(expected), "{address}/{prefix}");
        let config = ClientIp {
            trusted_hops: Some(1),
            ..config
        };
        let found = forwarded(&config, &[address], "198.51.100.9");
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
        forged in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..24), 0..6),
        same_line in any::<bool>(),
        n in 1_usize..4,
    ) {
        let trusted = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let appended = trusted[..n].join(", ").into_bytes();
        let mut lines = forged;
        match lines.last_mut() {
            Some(last) if same_line => {
                last.extend(b", ");
                last.extend(&appended);
            }
            _ => lines.push(appended),
        }
        let fields: Vec<(&str, &[u8])> =
            lines.iter().map(|line| ("x-forwarded-for", line.as_slice())).collect();
        let found = Address::of(&hops(n as u32), &head(&fields), b"192.0.2.1");
        prop_assert_eq!(found, ip("10.0.0.1"));
    }

    #[test]
    fn no_bytes_can_make_it_panic(
        header in prop::collection::vec(any::<u8>(), 0..40),
        source in prop::collection::vec(any::<u8>(), 0..40),
        text in "[\\[\\]:%\"0-9a-f., ]{0,40}",
        n in 1_u32..4,
        prefix in any::<u8>(),
    ) {
        let config = ClientIp { trusted_hops: Some(n), ipv6_prefix: prefix };
        let fields = [("x-forwarded-for", header.as_slice()), ("x-forwarded-for", text.as_bytes())];
        let _ = Address::of(&config, &head(&fields), &source);
        let _ = Address::of(&config, &head(&[]), text.as_bytes());
    }
}
