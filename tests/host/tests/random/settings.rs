//! Configurations that random requests meet: every dialect and mode, small limits, little memory.

/// A configuration, and what of it shows in answers.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) json: String,
    pub(crate) dialect: &'static str,
    pub(crate) type_base: &'static str,
    /// From how many seconds on `Retry-After` is a date.
    pub(crate) date_from: Option<u64>,
    /// Headers of which a second one is an error; none where identity is read elsewhere.
    pub(crate) identity: &'static [&'static str],
    /// What local state may take.
    pub(crate) memory: usize,
}

const HEADERS: [&str; 3] = ["x-tenant-id", "x-api-key-id", "x-tenant-tier"];

const BY_HEADER: &str = r#""tenant":{"header":"x-tenant-id"},"key":{"header":"x-api-key-id"},
    "tier":{"header":"x-tenant-tier"}"#;
const BY_SECRET: &str = r#""tenant":{"header":"x-tenant-id"},
    "key":{"header":"x-api-key-id","sha256":true},"tier":{"header":"x-tenant-tier"}"#;
const BY_PROPERTY: &str = r#""tenant":{"property":["a","tenant"]},"key":{"property":["a","key"]}"#;

/// Limits that a few dozen callers meet all the time; costs and strikes are small, too.
const REST: &str = r#"
    "exempt":["/healthz","/docs/*"],
    "tiers":{
      "sandbox":{"tenant":{"points":60,"per":"10s","burst":30},"key":{"points":7,"per":"2s","burst":20},
        "penalty":{"strikes":3,"within":"60s"}},
      "growth":{"tenant":{"points":3000,"per":"60s","burst":3000},"key":"1500/minute"},
      "slow":{"tenant":{"points":20,"per":"24h","burst":20},"key":{"points":21,"per":"31d","burst":20}}},
    "routes":[
      {"name":"reconcile","match":{"methods":["POST"],"path":"/v1/ledgers/reconcile"},"cost":10,
       "idempotency_key":"required"},
      {"name":"entries","match":{"methods":["GET"],"path":"/v1/ledgers/{id}/entries"},"cost":2},
      {"name":"export","match":{"methods":["GET"],"path":"/v1/reports/audit-export"},
       "cost":{"base":5,"when_range":{"from":"from","to":"to","longer_than":"90d","cost":20}}},
      {"name":"search","match":{"methods":["GET","POST"],"path":"/v1/search"},"cost":5,"mode":"shadow"},
      {"name":"mutations","match":{"methods":["POST","PUT","DELETE"],"path":"/v1/*"},
       "idempotency_key":"required"}]"#;

/// All of them.
pub(crate) fn all() -> Vec<Setting> {
    let one = |own: &str, identity: &str, dialect: &'static str, memory: usize| Setting {
        json: format!(
            r#"{{{own}"identity":{{{identity},"default_tier":"sandbox"}},{REST},
               "headers":{{"dialect":"{dialect}","retry_after_date_from":"1h"}},
               "store":{{"memory":"{memory}KiB"}},
               "problem":{{"type_base":"https://e.example/errors"}}}}"#
        ),
        dialect,
        type_base: "https://e.example/errors/",
        date_from: Some(3600),
        identity: if identity.contains("header") {
            &HEADERS
        } else {
            &[]
        },
        memory: memory * 1024,
    };
    let forwarded =
        format!(r#"{BY_SECRET},"client_ip":{{"from":"x-forwarded-for","trusted_hops":1}}"#);
    vec![
        one(r#""ip_limit":"600/minute","#, BY_HEADER, "draft-03", 64),
        one("", &forwarded, "draft-11", 64),
        one(
            r#""mode":"shadow","ip_limit":"30/minute","#,
            BY_HEADER,
            "both",
            128,
        ),
        one(
            r#""penalty_box":{"mode":"shadow"},"#,
            BY_SECRET,
            "x-ratelimit",
            64,
        ),
        one(r#""penalty_box":{"mode":"off"},"#, BY_PROPERTY, "none", 128),
        one(
            r#""penalty_box":{"grace":"0s","level_1":"1s","level_2":"10s","level_3":"2m",
               "offense_memory":"10m","anonymous_max_level":3},"anonymous":{"limit":"10/minute"},"#,
            BY_HEADER,
            "both",
            64,
        ),
        Setting {
            json: "{}".to_owned(),
            dialect: "draft-03",
            type_base: "https://api.yourdomain.com/errors/",
            date_from: None,
            identity: &[],
            memory: 16 << 20,
        },
    ]
}
