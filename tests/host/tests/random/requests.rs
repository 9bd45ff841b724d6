//! Random requests: callers that meet again, and whatever bytes a client may think of.

use std::fmt;

use super::dice::Dice;

type Bytes = Vec<u8>;

/// A request as plain data.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) target: Bytes,
    /// Names in lower case.
    pub(crate) headers: Vec<(&'static str, Bytes)>,
    /// A header whose name is no name.
    pub(crate) odd: Option<(Bytes, Bytes)>,
    /// The last byte of the client's address.
    pub(crate) from: u8,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target.escape_ascii())?;
        for (name, value) in &self.headers {
            write!(f, "\n  {name}: {}", value.escape_ascii())?;
        }
        if let Some((name, value)) = &self.odd {
            write!(f, "\n  {}: {}", name.escape_ascii(), value.escape_ascii())?;
        }
        write!(f, "\n  from {}", self.from)
    }
}

/// What may stand in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// Any bytes.
    Any,
    /// What an HTTP/1 server lets through: no control characters, and targets in ASCII.
    Http,
}

const METHODS: [&str; 10] = [
    "GET", "GET", "GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "PROPFIND",
];
const PATHS: [&str; 22] = [
    "/v1/ledgers/7/entries",
    "/v1/ledgers/7/entries?limit=5&cursor=%00%ff",
    "/v1/ledgers/reconcile",
    "/v1/ledgers/reconcile",
    "/v1/%6cedgers//reconcile/",
    "/v1/x/../ledgers/./%72econcile",
    "/v1/reports/audit-export",
    "/v1/reports/audit-export?from=2025-01-01&to=2025-12-31",
    "/v1/reports/audit-export?from=2025-01-01T00:00:00%2B14:00&to=2025-01-02",
    "/v1/reports/audit-export?from=1735689600&to=9999999999999&from=",
    "/v1/reports/audit-export?to=-9999-12-31T23:59:60Z[x]",
    "/v1/search",
    "/v1/search?q=%",
    "/v1/ledgers",
    "/v1",
    "/",
    "/nothing/here",
    "/healthz",
    "/docs/a",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//evil.example/%0d%0aset-cookie:%20a",
    "/..;/%2F%2f/%zz/%",
];
const TIERS: [&str; 6] = ["sandbox", "sandbox", "growth", "slow", "platinum", ""];
const SOURCES: [&str; 8] = [
    "203.0.113.9",
    "203.0.113.9, 198.51.100.7:443",
    "\"[2001:db8::1%eth0]:80\" ,",
    "::ffff:203.0.113.9",
    "unknown, ,,",
    "1.2.3.4:99999",
    "",
    "2001:db8:1:2:3:4:5:6",
];
const KEYS: [&str; 8] = ["k1", "\"k2\"", "\"k\"3", "", " ", "a\\b", "\"", "{\"a\":1}"];
const IDS: [&str; 5] = [
    "req-1",
    "a b",
    "\"><script>",
    "",
    "0b5e7d1c-8a3c-4f2e-9d57-1f0a5c2b6e11",
];
const TYPES: [&str; 6] = [
    "application/json",
    "application/grpc",
    "application/grpc+proto",
    "application/grpc-web",
    "application/grpcx",
    "text/plain; charset=\"",
];

impl Asked {
    /// The next request.
    pub(crate) fn random(dice: &mut Dice, alphabet: Alphabet) -> Self {
        let mut asked = Self {
            method: dice.pick(&METHODS),
            target: dice.pick(&PATHS).into(),
            headers: Vec::with_capacity(8),
            odd: None,
            from: dice.below(24) as u8,
        };
        if dice.once_in(16) {
            asked.bend_target(dice, alphabet);
        }
        asked.identify(dice);
        let optional: [(u64, &str, &[&str]); 7] = [
            (1, "idempotency-key", &KEYS[..2]),
            (20, "idempotency-key", &KEYS),
            (4, "x-request-id", &IDS),
            (4, "x-forwarded-for", &SOURCES),
            (40, "x-forwarded-for", &SOURCES),
            (8, "content-type", &TYPES),
            (40, "x-request-id", &IDS),
        ];
        for (times, name, values) in optional {
            // A header that is there every time is left out now and then.
            if dice.once_in(times) && !(times == 1 && dice.once_in(8)) {
                let value = dice.pick(values);
                asked.headers.push((name, value.into()));
            }
        }
        if dice.once_in(30) {
            let name = dice.pick(&[
                "x-tollgate-lease",
                "x-tollgate-",
                "x_tollgate-tenant",
                "x-tollgate",
            ]);
            asked.headers.push((name, b"1".into()));
        }
        if dice.once_in(8) {
            asked.bend_header(dice, alphabet);
        }
        if alphabet == Alphabet::Any && dice.once_in(50) {
            let start = dice.pick(&[&b"x-tenant-id\xfe"[..], b"\xff", b""]);
            asked.odd = Some(([start, &dice.bytes(3)].concat(), dice.bytes(10)));
        }
        asked
    }

    /// Whether it brings one of these headers more than once.
    pub(crate) fn doubles(&self, names: &[&str]) -> bool {
        let count = |name: &str| self.headers.iter().filter(|(n, _)| *n == name).count();
        names.iter().any(|name| count(name) > 1)
    }

    /// Whether an answer to it is one in gRPC.
    pub(crate) fn is_grpc(&self) -> bool {
        let kind = self
            .headers
            .iter()
            .find(|(name, _)| *name == "content-type");
        let rest = kind.and_then(|(_, value)| value.strip_prefix(b"application/grpc"));
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'+')
    }

    fn identify(&mut self, dice: &mut Dice) {
        // Mostly the same few, so that their buckets run dry; sometimes one of very many.
        let who = if dice.once_in(4) {
            dice.below(3000)
        } else {
            dice.below(12)
        };
        if !dice.once_in(5) {
            let tenant = format!("tenant-{}", who / 3).into_bytes();
            let key = format!("secret-key-{who}").into_bytes();
            self.headers.push(("x-tenant-id", tenant));
            self.headers.push(("x-api-key-id", key));
            let tier = if dice.once_in(20) {
                dice.pick(&TIERS)
            } else {
                TIERS[who as usize / 3 % TIERS.len()]
            };
            self.headers.push(("x-tenant-tier", tier.into()));
        }
        if dice.once_in(20) {
            let name = dice.pick(&["x-tenant-id", "x-api-key-id", "x-tenant-tier"]);
            let value = dice.pick(&["", "other", "tenant-0"]);
            self.headers.push((name, value.into()));
        }
    }

    fn bend_target(&mut self, dice: &mut Dice, alphabet: Alphabet) {
        let mut noise = dice.bytes(12);
        if alphabet == Alphabet::Http {
            noise.retain(|byte| byte.is_ascii_graphic() && *byte != b'#');
        }
        let at = 1 + dice.below(self.target.len() as u64) as usize;
        self.target.splice(at..at, noise);
        if dice.once_in(50) {
            let long = dice.pick(&["/a", "%41", "/../x", "&from=2025-01-01"]);
            self.target.extend(long.repeat(1000).bytes());
        }
    }

    fn bend_header(&mut self, dice: &mut Dice, alphabet: Alphabet) {
        let mut noise = dice.bytes(40);
        if alphabet == Alphabet::Http {
            noise.retain(|byte| *byte >= b' ' && *byte != 0x7f);
        }
        if dice.once_in(50) {
            noise = b"x\xff".repeat(1500);
        }
        let count = self.headers.len() as u64;
        if count == 0 {
            self.headers.push(("x-tenant-id", noise));
            return;
        }
        let (name, value) = &mut self.headers[dice.below(count) as usize];
        // What the client says the content is decides the form of the answer: that stays legible.
        if *name != "content-type" {
            *value = noise;
        }
    }
}
