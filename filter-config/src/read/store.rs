//! `store`: where state lives.

use crate::{
    Store,
    reader::{At, Fields, Reader, Value},
    store::{Breaker, Front, Redis, StoreKind, Topology},
    units::{Bytes, Millis},
};

/// `store` where it is not given.
pub(super) const DEFAULT: Store = Store {
    kind: StoreKind::Local,
    memory: Bytes(16 << 20),
};

/// `store.breaker` where it is not given.
const BREAKER: Breaker = Breaker {
    failures: 5,
    open_for: Millis::from_secs(2),
};

const FIELDS: &[&str] = &[
    "kind",
    "upstream",
    "dialect",
    "topology",
    "timeout",
    "authorization",
    "key_prefix",
    "breaker",
    "memory",
];

/// `kind`, before the fields that belong to one are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Local,
    Redis,
}

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Store> {
    let fields = reader.fields(at, FIELDS)?;
    let kind = match kind(reader, &fields) {
        Some(Kind::Local) => {
            refuse_what_is_for_redis(reader, &fields);
            Some(StoreKind::Local)
        }
        Some(Kind::Redis) => redis(reader, &fields, true).map(StoreKind::Redis),
        // Their own errors are told, but not what is missing.
        None => {
            redis(reader, &fields, false);
            None
        }
    };
    let memory = fields.optional(reader, "memory", DEFAULT.memory, Reader::size);
    Some(Store {
        kind: kind?,
        memory: memory?,
    })
}

/// Whether the store of this document can fail; `None` if that cannot be read.
pub(super) fn can_fail(reader: &mut Reader<'_>, document: &Fields<'_>) -> Option<bool> {
    document.optional(reader, "store", false, |reader, at| {
        let fields = reader.fields(at, FIELDS)?;
        kind(reader, &fields).map(|kind| kind == Kind::Redis)
    })
}

fn kind(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Kind> {
    fields.optional(reader, "kind", Kind::Local, |reader, at| {
        reader.choice(at, &[("local", Kind::Local), ("redis", Kind::Redis)])
    })
}

fn refuse_what_is_for_redis(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    for name in FIELDS {
        if let Some(at) = fields.get(name)
            && !matches!(*name, "kind" | "memory")
        {
            let message = "found a field that belongs to kind: redis, expected it only there (this \
                           is kind: local)";
            reader.error(&at.path, message.to_owned());
        }
    }
}

fn redis(reader: &mut Reader<'_>, fields: &Fields<'_>, is_redis: bool) -> Option<Redis> {
    const UPSTREAM: &str = "the name of the front's cluster, not a URL: no slashes, spaces and \
                            control characters";
    let name = |reader: &mut Reader<'_>, at: &At<'_>| {
        let fits = |c: char| c != '/' && !c.is_whitespace() && !c.is_control();
        characters(reader, at, UPSTREAM, |text| {
            !text.is_empty() && text.chars().all(fits)
        })
    };
    let upstream = if is_redis {
        fields.required(reader, "upstream", UPSTREAM, name)
    } else {
        fields.optional(reader, "upstream", String::new(), name)
    };
    let dialect = fields.optional(reader, "dialect", Front::default(), |reader, at| {
        reader.choice(
            at,
            &[("webdis", Front::Webdis), ("upstash", Front::Upstash)],
        )
    });
    let topology = fields.optional(reader, "topology", Topology::default(), |reader, at| {
        reader.choice(
            at,
            &[
                ("standalone", Topology::Standalone),
                ("cluster", Topology::Cluster),
            ],
        )
    });
    let timeout = fields.optional(reader, "timeout", Millis(20), timeout);
    let authorization = fields.optional(reader, "authorization", None, |reader, at| {
        const EXPECTED: &str = "the value of an authorization header: 1 to 4096 printable ASCII \
                                characters, no spaces at its ends";
        let fits = |text: &str| {
            (1..=4096).contains(&text.len())
                && text.bytes().all(|b| matches!(b, b' '..=b'~'))
                && text.trim().len() == text.len()
        };
        reader.secret(at, EXPECTED, fits).map(Some)
    });
    let key_prefix = fields.optional(reader, "key_prefix", String::new(), |reader, at| {
        const EXPECTED: &str = "at most 64 printable ASCII characters without spaces and braces";
        let fits = |b: u8| b.is_ascii_graphic() && !matches!(b, b'{' | b'}');
        characters(reader, at, EXPECTED, |text| {
            text.len() <= 64 && text.bytes().all(fits)
        })
    });
    let breaker = fields.optional(reader, "breaker", BREAKER, breaker);
    Some(Redis {
        upstream: upstream?,
        dialect: dialect?,
        topology: topology?,
        timeout: timeout?,
        authorization: authorization?,
        key_prefix: key_prefix?,
        breaker: breaker?,
    })
}

/// A string that fits.
fn characters(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    expected: &str,
    fits: impl FnOnce(&str) -> bool,
) -> Option<String> {
    let value = reader.value(at)?;
    match value {
        Value::Text(text) if fits(&text.value) => Some(text.value.into_owned()),
        _ => reader.mismatch(at, &value, expected),
    }
}

fn timeout(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Millis> {
    /// A request waits this long for each failing call, so more is a slip of the unit.
    const LONG: Millis = Millis::from_secs(1);
    let least = (Millis(1), "1ms");
    let timeout = reader.duration_between(at, least, (Millis::from_secs(60), "60s"))?;
    if timeout > LONG {
        let message = format!(
            "found {}ms, more than a second: requests wait as long while the store fails (a plain \
             number is seconds)",
            timeout.0
        );
        reader.warn(&at.path, message);
    }
    Some(timeout)
}

fn breaker(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Breaker> {
    const MOST: u64 = 1_000_000;
    let fields = reader.fields(at, &["failures", "open_for"])?;
    let failures = fields.optional(reader, "failures", BREAKER.failures, |reader, at| {
        let failures = reader.whole(at, "a whole number of failures", 1, MOST)?;
        u32::try_from(failures).ok()
    });
    let open_for = fields.optional(reader, "open_for", BREAKER.open_for, Reader::duration);
    Some(Breaker {
        failures: failures?,
        open_for: open_for?,
    })
}
