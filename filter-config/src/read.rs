//! From the tree to a [`Config`]: every field is read, every error kept, in the order of the
//! reference (`docs/configuration.md`); what the operator names is read by name.

mod burst;
mod cost;
mod headers;
mod hold;
mod identity;
mod kinds;
mod known_routes;
mod limit;
mod lock_by;
mod matching;
mod penalty;
mod pointer;
mod route;
mod statuses;
mod store;
mod stuffing;
mod subject;
mod throttle;
mod tier;
mod warn;

use burst::Bursts;
use kinds::Kinds;
use known_routes::KnownRoutes;
use route::Assembled;

use crate::{
    Config, Mode, Share,
    error::{ConfigError, ConfigErrors},
    reader::{At, Fields, Reader},
    tree::{self, Node},
};

/// Reads the bytes a proxy hands over.
pub(crate) fn config(
    bytes: &[u8],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    match tree::detect(bytes) {
        Ok(node) => document(node, env),
        Err(message) => Err(whole_document(message)),
    }
}

/// Reads a document that is a tree already.
pub(crate) fn document(
    node: Node,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    // An empty YAML file is null.
    let node = match node {
        Node::Null => Node::Map(Vec::new()),
        node => node.sorted(),
    };
    let mut reader = Reader::new(env);
    let config = root(&mut reader, &At::root(&node));
    let warnings = reader.finish()?;
    match config {
        Some(config) => Ok(Config { warnings, ..config }),
        // Not reached: nothing is given up without an error.
        None => Err(whole_document(
            "found a configuration that cannot be read".to_owned(),
        )),
    }
}

/// An error of the document as a whole.
pub(crate) fn whole_document(message: String) -> ConfigErrors {
    ConfigErrors(vec![ConfigError {
        path: String::new(),
        message,
    }])
}

fn root(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Config> {
    let fields = reader.fields(
        at,
        &[
            "mode",
            "store",
            "identity",
            "ip_limit",
            "anonymous",
            "exempt",
            "tiers",
            "penalty_box",
            "routes",
            "auth_throttles",
            "stuffing",
            "degraded",
            "headers",
            "problem",
        ],
    )?;
    let mode = fields.optional(reader, "mode", Mode::default(), mode);
    let store = fields.optional(reader, "store", store::DEFAULT, store::read);
    let share_ahead = reader.ahead(|reader| degraded_share(reader, &fields));
    let store_can_fail = reader.ahead(|reader| store::can_fail(reader, &fields));
    let tier_names = tier::names(&fields);
    let identity = fields.optional(reader, "identity", identity::nobody(), |reader, at| {
        identity::read(reader, at, &tier_names)
    });
    let ip_limit = fields.optional(reader, "ip_limit", None, |reader, at| {
        limit::read(reader, at).map(Some)
    });
    let anonymous = fields.optional(reader, "anonymous", limit::ANONYMOUS, limit::anonymous);
    let exempt = fields.optional(reader, "exempt", Default::default(), route::exempt);
    let mut bursts = Bursts::new(share_ahead.filter(|_| store_can_fail == Some(true)));
    let mut kinds = Kinds::new();
    let most = tier::Most::with(store_can_fail);
    let tiers = fields.optional(reader, "tiers", Vec::new(), |reader, at| {
        tier::read(reader, at, &most, &mut bursts, &mut kinds)
    });
    let penalty_box = fields.optional(reader, "penalty_box", penalty::default(), penalty::terms);
    let mut known = KnownRoutes::default();
    let routes = fields.optional(reader, "routes", Vec::new(), |reader, at| {
        route::read(reader, at, &bursts, &kinds, &mut known)
    });
    let [lockout, ..] = penalty_box
        .as_ref()
        .map_or_else(|| penalty::default().levels, |terms| terms.levels);
    let around = throttle::Around {
        routes: &known,
        store_can_fail,
        lockout,
    };
    let throttles = fields.optional(reader, "auth_throttles", Vec::new(), |reader, at| {
        throttle::read(reader, at, &around)
    });
    let stuffing = fields.optional(reader, "stuffing", None, |reader, at| {
        stuffing::read(reader, at, throttles.as_deref(), store_can_fail).map(Some)
    });
    let degraded_share = degraded_share(reader, &fields);
    let headers = fields.optional(reader, "headers", headers::default(), headers::read);
    let problem = fields.optional(
        reader,
        "problem",
        headers::problem_default(),
        headers::problem,
    );

    let exempt = exempt?;
    let Assembled {
        routes,
        router,
        met,
    } = route::assemble(reader, &fields, routes?, &exempt);
    let config = Config {
        mode: mode?,
        store: store?,
        identity: identity?,
        ip_limit: ip_limit?,
        anonymous: anonymous?,
        anonymous_penalty: penalty::STRIKES,
        exempt,
        tiers: tiers?,
        penalty_box: penalty_box?,
        routes,
        router,
        auth_throttles: throttles?,
        stuffing: stuffing?,
        degraded_share: degraded_share?,
        headers: headers?,
        problem: problem?,
        warnings: Vec::new(),
    };
    warn::warn(reader, &fields, &config, &met);
    Some(config)
}

/// Whether verdicts are carried out.
fn mode(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Mode> {
    reader.choice(at, &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)])
}

/// `degraded.share`.
fn degraded_share(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Share> {
    const QUARTER: Share = Share(250_000);
    fields.optional(reader, "degraded", QUARTER, |reader, at| {
        let fields = reader.fields(at, &["share"])?;
        fields.optional(reader, "share", QUARTER, Reader::share)
    })
}
