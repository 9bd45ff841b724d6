//! Tests of `identity`. The hashes were worked out with another implementation of SHA-256.

use proptest::prelude::*;

use super::*;
use crate::testing::{config, head, request};

const TIERS: &str = r#"
    "growth": {"tenant": "60/minute", "key": "30/minute"},
    "sandbox": {"tenant": "6/minute", "key": "3/minute"},
    "enterprise": {"tenant": "600/minute", "key": "300/minute"}"#;

/// A configuration with this `identity` and three tiers.
fn with(identity: &str) -> Config {
    config(&format!(
        r#"{{"identity": {{{identity}}}, "tiers": {{{TIERS}}}}}"#
    ))
}

const HEADERS: &str = r#"
    "tenant": {"header": "x-tenant-id"},
    "key": {"header": "x-api-key-id"},
    "tier": {"header": "x-tenant-tier"}"#;

fn of(config: &Config, fields: &[(&str, &str)]) -> Result<Caller, Invalid> {
    Caller::of(config, &request("GET", "/", fields), &|_| None)
}

/// A tenant and its key as they are kept, and the name of the tier.
fn told(config: &Config, caller: Result<Caller, Invalid>) -> Option<(String, String, String)> {
    match caller.unwrap() {
        Caller::Anonymous => None,
        Caller::Tenant { tenant, key, tier } => Some((
            tenant.as_str().to_owned(),
            key.as_str().to_owned(),
            config.tier(tier).unwrap().name.clone(),
        )),
    }
}

fn caller(tenant: &str, key: &str, tier: &str) -> Option<(String, String, String)> {
    Some((tenant.to_owned(), key.to_owned(), tier.to_owned()))
}

#[test]
fn identifiers_that_fit_are_kept_and_others_are_hashed() {
    let a64 = "a".repeat(64);
    let a65 = "a".repeat(65);
    let rows: &[(&[u8], &str)] = &[
        (b"abc", "abc"),
        (b"A-Z_09", "A-Z_09"),
        (b"-", "-"),
        (a64.as_bytes(), &a64),
        (
            a65.as_bytes(),
            "Y1NhxIu56rFBmOduqKt_GkFoXWrWKqkUbTAdTxfrCuA",
        ),
        (b"", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"),
        (b"t.900", "AzJnUyJIXTzzg8S84KNQLNLahwstYd4OGZp5y60yki8"),
        (b"acme corp", "6m-cB6L5XHiKFkXPVX9YqmPF-jrX10m520_OQ13u9k4"),
        (b"caf\xe9", "2v1mwLmJZeaIvh_BKULAnwNQ5r4GhQF8PyNOl9CtyS4"),
    ];
    for (raw, expected) in rows {
        assert_eq!(Id::of(raw).as_str(), *expected, "{raw:?}");
    }
}

#[test]
fn a_hash_is_sha_256_in_base64url() {
    // FIPS 180-2, appendix B.1: ba7816bf 8f01cfea 414140de 5dae2223 b00361a3 96177a9c b410ff61 f20015ad.
    let expected = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0";
    assert_eq!(Id::hashed(b"abc").as_str(), expected);
}

#[test]
fn nothing_that_is_printed_shows_an_identifier() {
    let config = with(HEADERS);
    let fields = [
        ("x-tenant-id", "t-secret"),
        ("x-api-key-id", "k-secret"),
        ("x-tenant-tier", "growth"),
    ];
    let printed = format!("{:?} {:#?}", of(&config, &fields), of(&config, &fields));
    assert!(printed.contains("Tenant"), "{printed}");
    assert!(!printed.contains("secret"), "{printed}");
    assert_eq!(format!("{:?}", Id::of(b"k-1")), "Id(..)");
}

#[test]
fn a_tenant_is_read_from_its_headers() {
    let config = with(HEADERS);
    let found = of(
        &config,
        &[
            ("X-Tenant-Id", " t-1 "),
            ("X-Api-Key-Id", "k 1"),
            ("X-Tenant-Tier", "growth"),
        ],
    );
    // "k 1" does not fit the alphabet; the spaces around t-1 are not part of the value.
    let hash = Id::hashed(b"k 1");
    assert_eq!(told(&config, found), caller("t-1", hash.as_str(), "growth"));
}

#[test]
fn a_secret_is_always_hashed() {
    let config = with(
        r#""tenant": {"header": "x-tenant-id"}, "key": {"header": "x-api-key", "sha256": true},
           "default_tier": "growth""#,
    );
    for (secret, expected) in [
        ("k-1", "fDXFoXhdIHBORNXeS-uBwfzpG2_kjtfDFZr29_gyB4s"),
        (
            "sk_live_51H.secret/x",
            "40F94vgjL0_gxh2IBlff6Vr95f-eaCmU4xvN_nAjZP4",
        ),
    ] {
        let found = of(&config, &[("x-tenant-id", "t-1"), ("x-api-key", secret)]);
        assert_eq!(told(&config, found), caller("t-1", expected, "growth"));
    }
}

#[test]
fn a_hashed_tenant_is_still_found_among_the_static_ones() {
    let config = with(
        r#""tenant": {"header": "x-tenant-id", "sha256": true}, "key": {"header": "x-api-key-id"},
           "tenants": {"t-1": "enterprise"}"#,
    );
    let found = of(&config, &[("x-tenant-id", "t-1"), ("x-api-key-id", "k-1")]);
    let expected = caller(
        "Rum8NHbJLqJPsXraxs2c2s_3o0pcdTEAeH2lopmE-DY",
        "k-1",
        "enterprise",
    );
    assert_eq!(told(&config, found), expected);
}

#[test]
fn a_doubled_identity_header_is_invalid() {
    let config = with(HEADERS);
    let all = [
        ("x-tenant-id", "t-1"),
        ("x-api-key-id", "k-1"),
        ("x-tenant-tier", "growth"),
    ];
    for doubled in ["x-tenant-id", "x-api-key-id", "x-tenant-tier"] {
        for second in ["other", "", "t-1"] {
            let expected = Err(Invalid::DoubledHeader(doubled.to_owned()));
            let mut fields = all.to_vec();
            fields.push((doubled, second));
            assert_eq!(of(&config, &fields), expected, "{doubled}: {second:?} last");
            fields.rotate_right(1);
            assert_eq!(
                of(&config, &fields),
                expected,
                "{doubled}: {second:?} first"
            );
            // Even alone: who is calling is contradictory, not unknown.
            let alone = [(doubled, "a"), (doubled, second)];
            assert_eq!(of(&config, &alone), expected, "{doubled}: alone");
        }
    }
}

#[test]
fn a_doubled_tier_is_invalid_even_if_the_tenant_is_static() {
    let config = with(&format!(r#"{HEADERS}, "tenants": {{"t-1": "growth"}}"#));
    let fields = [
        ("x-tenant-id", "t-1"),
        ("x-api-key-id", "k-1"),
        ("x-tenant-tier", "growth"),
        ("x-tenant-tier", "enterprise"),
    ];
    let expected = Invalid::DoubledHeader("x-tenant-tier".to_owned());
    assert_eq!(of(&config, &fields), Err(expected));
}

#[test]
fn no_tenant_or_no_key_is_anonymous() {
    let config = with(&format!(r#"{HEADERS}, "default_tier": "growth""#));
    let rows: &[&[(&str, &str)]] = &[
        &[],
        &[("x-tenant-id", "t-1")],
        &[("x-api-key-id", "k-1")],
        &[("x-tenant-id", ""), ("x-api-key-id", "k-1")],
        &[("x-tenant-id", "t-1"), ("x-api-key-id", "  ")],
        &[("x-tenant-tier", "enterprise")],
    ];
    for fields in rows {
        assert_eq!(of(&config, fields), Ok(Caller::Anonymous), "{fields:?}");
    }
}

#[test]
fn which_tier_a_tenant_has() {
    let with_default = r#", "default_tier": "sandbox""#;
    let with_static = r#", "tenants": {"t-900": "enterprise", "acme corp": "enterprise"}"#;
    let both = format!("{with_static}{with_default}");
    let corp = "6m-cB6L5XHiKFkXPVX9YqmPF-jrX10m520_OQ13u9k4";
    // More configuration, tenant, tier sent; tenant and tier found.
    type Row<'a> = (&'a str, &'a str, &'a str, Option<(&'a str, &'a str)>);
    let rows: &[Row<'_>] = &[
        ("", "t-1", "growth", Some(("t-1", "growth"))),
        ("", "t-1", "Growth", None),
        ("", "t-1", "", None),
        ("", "t-1", "gold", None),
        ("", "t-1", "anonymous", None),
        (with_default, "t-1", "growth", Some(("t-1", "growth"))),
        (with_default, "t-1", "", Some(("t-1", "sandbox"))),
        (with_default, "t-1", "gold", Some(("t-1", "sandbox"))),
        (
            with_static,
            "t-900",
            "growth",
            Some(("t-900", "enterprise")),
        ),
        (with_static, "t-900", "gold", Some(("t-900", "enterprise"))),
        (with_static, "t-900", "", Some(("t-900", "enterprise"))),
        (with_static, "T-900", "", None),
        // By what was sent, not by its hash; and a client that sends the hash is somebody else.
        (with_static, "acme corp", "", Some((corp, "enterprise"))),
        (with_static, corp, "", None),
        (&both, "t-900", "growth", Some(("t-900", "enterprise"))),
        (&both, "t-1", "gold", Some(("t-1", "sandbox"))),
    ];
    for (more, tenant, tier, expected) in rows {
        let config = with(&format!("{HEADERS}{more}"));
        let fields = [
            ("x-tenant-id", *tenant),
            ("x-api-key-id", "k-1"),
            ("x-tenant-tier", *tier),
        ];
        let expected = expected.and_then(|(tenant, tier)| caller(tenant, "k-1", tier));
        let found = told(&config, of(&config, &fields));
        assert_eq!(found, expected, "{more}: {tenant}, {tier}");
    }
}

#[test]
fn without_tiers_everyone_is_anonymous() {
    let config = config(&format!(r#"{{"identity": {{{HEADERS}}}}}"#));
    let fields = [
        ("x-tenant-id", "t-1"),
        ("x-api-key-id", "k-1"),
        ("x-tenant-tier", "growth"),
    ];
    assert_eq!(of(&config, &fields), Ok(Caller::Anonymous));
    assert_eq!(
        of(&crate::testing::config("{}"), &fields),
        Ok(Caller::Anonymous)
    );
}

#[test]
fn properties_of_the_proxy_tell_as_well() {
    let config = with(
        r#""tenant": {"property": ["metadata", "jwt", "sub"]},
           "key": {"property": ["connection", "san"], "sha256": true},
           "tier": {"property": ["metadata", "jwt", "tier"]},
           "default_tier": "sandbox""#,
    );
    let read =
        |tenant: Option<&'static [u8]>, key: Option<&'static [u8]>, tier: Option<&'static [u8]>| {
            let properties = move |path: &[String]| {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                let found = match path.as_slice() {
                    ["metadata", "jwt", "sub"] => tenant,
                    ["connection", "san"] => key,
                    ["metadata", "jwt", "tier"] => tier,
                    other => panic!("nobody asked for {other:?}"),
                };
                found.map(<[u8]>::to_vec)
            };
            // Headers of the same names tell nothing.
            let request = head(&[("sub", b"t-9"), ("san", b"k-9"), ("tier", b"growth")]);
            told(&config, Caller::of(&config, &request, &properties))
        };
    let key = "fDXFoXhdIHBORNXeS-uBwfzpG2_kjtfDFZr29_gyB4s";
    assert_eq!(
        read(Some(b"t-1"), Some(b"k-1"), Some(b"growth")),
        caller("t-1", key, "growth")
    );
    assert_eq!(
        read(Some(b"\xff\xfe"), Some(b"k-1"), None),
        caller(
            "s9UQ7wQnXKjmmOWzy7Ds45Se-SUvDNyDnp7jR0CaIgk",
            key,
            "sandbox"
        )
    );
    assert_eq!(read(None, Some(b"k-1"), Some(b"growth")), None);
    assert_eq!(read(Some(b""), Some(b"k-1"), Some(b"growth")), None);
    assert_eq!(read(Some(b"t-1"), Some(b""), Some(b"growth")), None);
    assert_eq!(read(Some(b"t-1"), None, Some(b"growth")), None);
}

proptest! {
    #[test]
    fn an_identifier_always_fits_the_alphabet(raw in prop::collection::vec(any::<u8>(), 0..80)) {
        for id in [Id::of(&raw), Id::hashed(&raw)] {
            let fits = id.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            prop_assert!(fits && (1..=64).contains(&id.as_str().len()));
        }
        prop_assert_eq!(Id::hashed(&raw).as_str().len(), 43);
    }
}
