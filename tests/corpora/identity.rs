//! Any bytes as the identity of a request: identifiers that are safe in keys, or a refusal where
//! headers contradict each other.

use std::net::IpAddr;
use std::sync::LazyLock;

use tollgate_config::{ClientIp, Config};
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
    let turned = Request::new(fields.into_iter().rev().collect());
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
    for trusted_hops in [None, Some(1), Some(2), Some(u32::MAX)] {
        for ipv6_prefix in [1, 64, 128] {
            let config = ClientIp {
                trusted_hops,
                ipv6_prefix,
            };
            check_address(&config, &request);
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
