//! Envoy's bootstrap for a setup, as JSON. Owns its shape; must not touch files or processes.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::example;
use crate::logs::LogLine;
use crate::places::filter_wasm;
use crate::setup::{Configuration, Filter, Setup};

/// The name of the listener.
pub(crate) const LISTENER: &str = "gateway";

/// The bootstrap with a static listener, ready to be written to a file. An example may do without an upstream.
pub(crate) fn bootstrap(setup: &Setup, upstream: Option<SocketAddr>, access_log: &Path) -> Value {
    match (&setup.example, upstream) {
        (Some(example), _) => example::bootstrap(setup, example, access_log),
        (None, Some(upstream)) => of_setup(setup, upstream, access_log),
        (None, None) => unreachable!("a gateway starts an upstream"),
    }
}

fn of_setup(setup: &Setup, upstream: SocketAddr, access_log: &Path) -> Value {
    let mut clusters = vec![cluster("upstream", upstream)];
    clusters.extend(
        setup
            .clusters
            .iter()
            .map(|(name, address)| cluster(name, *address)),
    );
    let mut bootstrap = json!({
        "admin": {"address": socket(([127, 0, 0, 1], 0).into())},
        // Whoever asks for metrics gets those of now, histograms included.
        "stats_flush_on_admin": true,
        "stats_config": {"stats_tags": shipped_stats_tags()},
        "static_resources": {"listeners": [listener(setup, access_log)], "clusters": clusters},
    });
    for tweak in &setup.tweaks {
        tweak(&mut bootstrap);
    }
    bootstrap
}

/// Moves the listeners out of the bootstrap, into a document that Envoy watches at `path`.
pub(crate) fn move_listeners_out(bootstrap: &mut Value, path: &Path) -> Value {
    bootstrap["dynamic_resources"]["lds_config"] =
        json!({"resource_api_version": "V3", "path_config_source": {"path": path}});
    // An xDS source needs the node to have a name.
    bootstrap["node"] = json!({"id": "gateway", "cluster": "e2e"});
    let listeners = bootstrap["static_resources"]
        .as_object_mut()
        .expect("resources")
        .remove("listeners");
    let mut resources = listeners.expect("listeners");
    for listener in resources.as_array_mut().expect("listeners") {
        listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
    }
    json!({ "resources": resources })
}

fn listener(setup: &Setup, access_log: &Path) -> Value {
    let mut filters = setup.before.clone();
    let wasm = match &setup.filter {
        Filter::Shipped => Some(filter_wasm()),
        Filter::At(path) => Some(path.clone()),
        Filter::None => None,
    };
    filters.extend(wasm.map(|wasm| {
        let mut filter = wasm_filter(&wasm, &setup.configuration, &setup.environment);
        if setup.waits_for_bodies {
            filter["typed_config"]["config"]["allow_on_headers_stop_iteration"] = json!(true);
        }
        filter
    }));
    filters.extend(setup.after.iter().cloned());
    filters.push(json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
    }));
    let mut hcm = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "use_remote_address": true,
        "stream_idle_timeout": "15s",
        "access_log": [LogLine::logger(&access_log.to_string_lossy())],
        "http_filters": filters,
        "route_config": {
            "name": "gateway",
            "virtual_hosts": [{
                "name": "gateway",
                "domains": ["*"],
                "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream", "timeout": "15s"}}],
            }],
        },
    });
    for change in &setup.hcm {
        change(&mut hcm);
    }
    json!({
        "name": LISTENER,
        "address": socket(([127, 0, 0, 1], 0).into()),
        "filter_chains": [{
            "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": hcm}],
        }],
    })
}

/// Tollgate's HTTP filter, for a story that needs a second one ([`Setup::filter_before`] takes its text).
pub fn wasm_filter(
    wasm: &Path,
    configuration: &Configuration,
    environment: &[(String, String)],
) -> Value {
    let string = |text: String| json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": text});
    let configuration = match configuration {
        Configuration::Json(value) => string(value.to_string()),
        Configuration::Text(text) => string(text.clone()),
        Configuration::Struct(value) => {
            json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": value})
        }
    };
    let variables: Map<String, Value> = environment
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    json!({
        "name": "tollgate",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": "tollgate",
                "root_id": "tollgate",
                "failure_policy": "FAIL_RELOAD",
                "vm_config": {
                    "vm_id": "tollgate",
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": wasm}},
                    "environment_variables": {"key_values": variables},
                },
                "configuration": configuration,
            },
        },
    })
}

/// A cluster of one endpoint that speaks to it as the client spoke to the gateway, and refuses nothing under load.
pub(crate) fn cluster(name: &str, address: SocketAddr) -> Value {
    let plenty = 65_536;
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [{
            "max_connections": plenty, "max_pending_requests": plenty, "max_requests": plenty,
        }]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "use_downstream_protocol_config": {"http_protocol_options": {}, "http2_protocol_options": {}},
        }},
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket(address)}}]}],
        },
    })
}

pub(crate) fn socket(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

/// The expressions that people copy, so that every story on metrics proves those.
fn shipped_stats_tags() -> Value {
    example::read("envoy.yaml")["stats_config"]["stats_tags"].take()
}
