//! A token endpoint behind gateways of one store: it knows one secret, whoever asks, and counts who reached it. Owns
//! the endpoint and its clients' requests; must not know the rules.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tollgate_e2e::{
    Answer, Ask, BootFailure, Gateway, Received, Redis, RestFront, Setup, Upstream, Webdis,
};

/// The one secret that is right.
pub(crate) const RIGHT: &str = "correct-horse";
/// Any other.
pub(crate) const WRONG: &str = "battery-staple";
/// Where it is.
pub(crate) const TOKEN: &str = "/v1/auth/token";

/// One route for credentials, and throttles by subject and by address.
pub(crate) const RULES: &str = "
routes:
- {name: token, match: {methods: [POST], path: /v1/auth/token}, limiter: credential, on_store_failure: closed}
auth_throttles:
- name: token-subject
  routes: [token]
  by: subject
  subject: {basic: true, form: client_id, json: /client_id, normalize: [trim, lowercase]}
  count: [401, 403]
  failures: 5
  within: 15m
  lockout: 5m
- {name: token-ip, routes: [token], by: ip, count: [401, 403], failures: 20, within: 15m, lockout: 5m}
";

/// The same by subject alone, with these numbers.
pub(crate) fn by_subject(failures: u32, within: &str, lockout: &str) -> String {
    format!(
        "
routes:
- {{name: token, match: {{methods: [POST], path: /v1/auth/token}}, limiter: credential, on_store_failure: closed}}
auth_throttles:
- name: token-subject
  routes: [token]
  by: subject
  subject: {{basic: true, form: client_id, json: /client_id, normalize: [trim, lowercase]}}
  count: [401, 403]
  failures: {failures}
  within: {within}
  lockout: {lockout}
"
    )
}

/// Where attempts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// In one gateway.
    Local,
    /// In a Redis behind Webdis, for so many gateways.
    Redis(usize),
    /// In a cluster behind a front that takes many commands at once, for so many gateways.
    Cluster(usize),
}

/// What stands between gateways and Redis.
enum Front {
    Webdis(Webdis),
    Rest(RestFront),
}

impl Front {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Webdis(webdis) => webdis.address(),
            Self::Rest(rest) => rest.address(),
        }
    }
}

impl Store {
    /// What runs for it, and how a configuration begins that uses it. A machine that is busy must not change what is
    /// decided, so the store has time.
    async fn start(self) -> Option<(Redis, Front, &'static str)> {
        match self {
            Self::Local => None,
            Self::Redis(_) => {
                let redis = Redis::start().await;
                let front = Front::Webdis(Webdis::start(&redis).await);
                let store = "store: {kind: redis, upstream: redis-front, timeout: 5s}";
                Some((redis, front, store))
            }
            Self::Cluster(_) => {
                let redis = Redis::cluster().await;
                let front = Front::Rest(RestFront::start(&redis, "secret").await);
                let store = "store: {kind: redis, upstream: redis-front, timeout: 5s, topology: cluster, \
                             dialect: upstash, authorization: Bearer secret}";
                Some((redis, front, store))
            }
        }
    }

    fn gateways(self) -> usize {
        match self {
            Self::Local => 1,
            Self::Redis(count) | Self::Cluster(count) => count,
        }
    }
}

/// The endpoint, and everything before it.
pub(crate) struct Door {
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) upstream: Upstream,
    redis: Option<(Redis, Front)>,
}

impl Door {
    /// Opens it under these rules.
    pub(crate) async fn open(store: Store, rules: &str) -> Result<Self, BootFailure> {
        Self::with(store, rules, |setup| setup).await
    }

    /// The same with a change to the setup of each gateway.
    pub(crate) async fn with(
        store: Store,
        rules: &str,
        change: impl Fn(Setup) -> Setup,
    ) -> Result<Self, BootFailure> {
        let upstream = Upstream::start().await;
        upstream.respond(judge);
        let running = store.start().await;
        let begins = running.as_ref().map_or("", |(_, _, begins)| begins);
        let rules = format!("{begins}{rules}");
        let setup = Setup::new(rules.as_str()).upstream(upstream.address());
        let mut setup = change(setup.waits_for_bodies());
        if let Some((_, front, _)) = &running {
            setup = setup.front(front.address());
        }
        let mut gateways = Vec::new();
        for _ in 0..store.gateways() {
            gateways.push(Gateway::start(setup.clone()).await?);
        }
        Ok(Self {
            gateways,
            upstream,
            redis: running.map(|(redis, front, _)| (redis, front)),
        })
    }

    /// The first gateway.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateways[0]
    }

    /// The Redis.
    pub(crate) fn redis(&self) -> &Redis {
        &self.redis.as_ref().expect("a store in Redis").0
    }

    /// Through the first gateway: a subject and a secret by HTTP Basic.
    pub(crate) fn basic(&self, subject: &str, secret: &str) -> Ask {
        basic(self.gateway(), subject, secret)
    }

    /// How many have reached the endpoint.
    pub(crate) fn reached(&self) -> usize {
        self.upstream.requests().len()
    }

    /// How many failures the gateways have counted by this throttle.
    pub(crate) async fn failures(&self, throttle: &str) -> f64 {
        let mut failures = 0.0;
        for gateway in &self.gateways {
            let stats = gateway.stats().await;
            failures += stats.sum("tollgate_auth_failures_total", &[("throttle", throttle)]);
        }
        failures
    }

    /// Nothing went wrong: the store decided everything, and each VM is the first one.
    pub(crate) async fn is_well(&self) {
        for gateway in &self.gateways {
            let stats = gateway.stats().await;
            assert_eq!(stats.sum("tollgate_degraded_total", &[]), 0.0);
            assert_eq!(stats.sum("tollgate_outbox_dropped_total", &[]), 0.0);
            assert!(gateway.traps().is_empty(), "{:?}", gateway.traps());
            assert_eq!(gateway.vm_reloads().await, 0);
        }
    }
}

/// A request for a token.
pub(crate) fn token(gateway: &Gateway) -> Ask {
    gateway.post(TOKEN)
}

/// A subject and a secret by HTTP Basic.
pub(crate) fn basic(gateway: &Gateway, subject: &str, secret: &str) -> Ask {
    token(gateway).header("authorization", authorization(subject, secret))
}

/// What HTTP Basic says for them.
pub(crate) fn authorization(subject: &str, secret: &str) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{subject}:{secret}"))
    )
}

/// The subject, as it is to stand in the form, and a secret.
pub(crate) fn form(gateway: &Gateway, subject: &str, secret: &str) -> Ask {
    token(gateway)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!(
            "grant_type=client_credentials&client_id={subject}&client_secret={secret}"
        ))
}

/// The subject, as it is to stand between the quotes, and a secret.
pub(crate) fn json(gateway: &Gateway, subject: &str, secret: &str) -> Ask {
    token(gateway)
        .header("content-type", "application/json")
        .body(format!(
            r#"{{"client_id": "{subject}", "client_secret": "{secret}"}}"#
        ))
}

/// 200 for the right secret, else 401.
pub(crate) fn judge(received: &Received) -> Answer {
    if is_right(received) {
        Answer::ok().body(r#"{"access_token":"t","token_type":"Bearer"}"#)
    } else {
        Answer::status(401)
            .header("www-authenticate", "Basic")
            .header("content-type", "application/json")
            .body(r#"{"error":"invalid_client"}"#)
    }
}

fn is_right(received: &Received) -> bool {
    let credentials = received.header("authorization").unwrap_or_default();
    let credentials = credentials.split_once(' ').unwrap_or_default().1;
    let credentials = BASE64_STANDARD.decode(credentials).unwrap_or_default();
    let body = String::from_utf8_lossy(&received.body);
    String::from_utf8_lossy(&credentials).ends_with(&format!(":{RIGHT}")) || body.contains(RIGHT)
}
