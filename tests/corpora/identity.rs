//! Any bytes as the identity of a request: identifiers that are safe in keys, or a refusal where
//! headers contradict each other.

use std::net::IpAddr;
use std::sync::LazyLock;

use tollgate_config::{ClientIp, ClientIpFrom, Config};
use tollgate_filter::client_ip::Address;
use tollgate_filter::identity::{Caller, Id};
use tollgate_filter::request::Request;
use tollgate_filter::verdict::Invalid;

use super::head;

const TIERS: &str = r#""tiers":{
    "growth":{"tenant":"60/minute","key":"30/minute"},
    "sandbox":{"tenant":"6/minute","key":"3/minute"}}"#;

/// Identity by plain headers, by a raw secret, and by properties of the proxy.
static CONFIGS: LazyLock<[Config; 3]> = LazyLock::new(|| {
    [
        r#"{"tenant":{"header":"x-tenant-id"},"key":{"header":"x-api-key-id"},
            "tier":{"header":"x-tenant-tier"},"tenants":{"t-900":"growth"}}"#,
        r#"{"tenant":{"header":"x-tenant-id"},"key":{"header":"x-api-key-id","sha256":true},
            "tier":{"header":"x-tenant-tier"},"default_tier":"sandbox"}"#,
        r#"{"tenant":{"property":["a","tenant"]},"key":{"property":["a","key"]},
            "tier":{"property":["a","tier"]},"default_tier":"sandbox"}"#,
    ]
    .map(|identity| {
        let text = format!(r#"{{"identity":{identity},{TIERS}}}"#);
        Config::parse(text.as_bytes(), &|_| None).unwrap()
    })
});

/// Names of the headers that say who is calling.
const NAMES: [&str; 3] = ["x-tenant-id", "x-api-key-id", "x-tenant-tier"];

/// Reads who sent the request in these bytes.
pub fn run(bytes: &[u8]) {
    let fields = head::fields(bytes);
    let request = Request::new(fields.clone());
    let turned = Request::new(fields.iter().rev().cloned().collect());
    let properties = |path: &[String]| head::property(&request, path);
    let doubled = |name: &&str| request.values(name).count() > 1;
    for (config, by_header) in CONFIGS.iter().zip([true, true, false]) {
        let caller = Caller::of(config, &request, &properties);
        let doubled: Vec<&str> = NAMES.into_iter().filter(doubled).collect();
        match &caller {
            Err(Invalid::DoubledHeader(name)) => {
                assert!(by_header && doubled.contains(&name.as_str()), "{name}");
            }
            Err(other) => panic!("{other:?} is no fault of an identity"),
            Ok(_) if by_header => assert!(doubled.is_empty(), "{doubled:?} were believed"),
            Ok(_) => {}
        }
        if by_header {
            assert_eq!(caller, Caller::of(config, &turned, &properties));
        }
        if let Ok(Caller::Tenant { tenant, key, tier }) = &caller {
            check_id(tenant);
            check_id(key);
            assert!(config.tier(*tier).is_some());
            let secret = config.identity.key.as_ref().unwrap().sha256;
            assert!(
                !secret || key.as_str().len() == 43,
                "a secret is not hashed"
            );
            assert!(!secret || key.as_str().as_bytes() != request.first("x-api-key-id"));
        }
    }
    let told = [1, 2, u32::MAX].into_iter().flat_map(|hops| {
        [
            ClientIpFrom::XForwardedFor(hops),
            ClientIpFrom::Forwarded(hops),
        ]
    });
    for from in told.chain([ClientIpFrom::Connection]) {
        for ipv6_prefix in [1, 64, 128] {
            let config = ClientIp { from, ipv6_prefix };
            check_address(&config, &request);
        }
    }
    check_forged(&fields);
}

/// Whatever a client sends, what trusted proxies append to it is read, in its last line or in one of their own.
fn check_forged(fields: &[(String, Vec<u8>)]) {
    const APPENDED: [(&str, ClientIpFrom, &[u8]); 2] = [
        (
            "x-forwarded-for",
            ClientIpFrom::XForwardedFor(2),
            b"203.0.113.7, 10.0.0.1",
        ),
        (
            "forwarded",
            ClientIpFrom::Forwarded(2),
            br#"By="\\";for="203.0.113.7:_h\i";x="a\",b;c" , For="[2001:db8::1]:80""#,
        ),
    ];
    for (name, from, appended) in APPENDED {
        let config = ClientIp {
            from,
            ipv6_prefix: 64,
        };
        let mut own_line = fields.to_vec();
        own_line.push((name.to_owned(), appended.to_vec()));
        let mut same_line = fields.to_vec();
        let of_name = |(n, _): &&mut (String, Vec<u8>)| n.eq_ignore_ascii_case(name);
        match same_line.iter_mut().rev().find(of_name) {
            Some((_, value)) => *value = [value, b", ".as_slice(), appended].concat(),
            None => same_line.clone_from(&own_line),
        }
        for fields in [own_line, same_line] {
            let address = Address::of(&config, &Request::new(fields), b"192.0.2.1");
            assert_eq!(address.to_string(), "203.0.113.7", "{name}");
        }
    }
}

fn check_id(id: &Id) {
    let text = id.as_str();
    assert!((1..=64).contains(&text.len()), "{text}");
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    assert!(text.bytes().all(plain), "{text}");
    assert!(text.len() < 7 || !format!("{id:?}").contains(text));
}

fn check_address(config: &ClientIp, request: &Request) {
    let source = head::source(request);
    let address = Address::of(config, request, &source);
    let key = address.key();
    match &address {
        Address::Ip(ip @ IpAddr::V4(_)) => {
            assert_eq!(key.len(), 5);
            check_again(config, &address, ip);
        }
        Address::Ip(ip @ IpAddr::V6(v6)) => {
            assert_eq!(key.len(), 17);
            assert_eq!(v6.to_ipv4_mapped(), None, "an IPv4 address in disguise");
            let ignored = u128::MAX.checked_shr(config.ipv6_prefix.into());
            assert_eq!(v6.to_bits() & ignored.unwrap_or(0), 0, "{v6}");
            check_again(config, &address, ip);
        }
        Address::Other(text) => {
            assert_eq!(*text, source);
            assert_eq!(key, [b"?", text.as_slice()].concat());
        }
    }
}

/// An address is its own in every way a proxy writes it.
fn check_again(config: &ClientIp, address: &Address, ip: &IpAddr) {
    let nothing = Request::default();
    let with_port = std::net::SocketAddr::new(*ip, 4711).to_string();
    for written in [ip.to_string(), with_port] {
        let again = Address::of(config, &nothing, written.as_bytes());
        assert_eq!(&again, address, "{written}");
    }
}
