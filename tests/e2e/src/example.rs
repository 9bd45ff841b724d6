//! A shipped bootstrap of `envoy/`, as it is but for where it listens, where its filter lies and where its log goes. Owns
//! those changes; must not know what a bootstrap is about.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::bootstrap::{LISTENER, cluster, socket};
use crate::logs::LogLine;
use crate::places::{filter_wasm, repository};
use crate::ports;
use crate::setup::{Setup, parse};

/// The cluster of the API, in every shipped bootstrap.
const API: &str = "api";

/// Reads `envoy/FILE`.
pub(crate) fn read(file: &str) -> Value {
    let path = repository().join("envoy").join(file);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text)
}

/// The bootstrap, ready to be written to a file.
pub(crate) fn bootstrap(setup: &Setup, example: &Value, access_log: &Path) -> Value {
    let mut bootstrap = example.clone();
    *port(&mut bootstrap["admin"]["address"]) = json!(0);
    bootstrap["stats_flush_on_admin"] = json!(true);
    let mut moved = BTreeMap::new();
    for listener in list(&mut bootstrap["static_resources"]["listeners"]) {
        let is_gateway = listener["name"] == LISTENER;
        let port = port(&mut listener["address"]);
        if is_gateway {
            *port = json!(0);
        } else {
            let new = json!(ports::free());
            moved.insert(port.to_string(), new.clone());
            *port = new;
        }
        let hcm = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        if is_gateway {
            hcm["access_log"] = json!([LogLine::logger(&access_log.to_string_lossy())]);
            for wasm in tollgates(hcm) {
                wasm["vm_config"]["code"]["local"]["filename"] = json!(filter_wasm());
            }
            for change in &setup.hcm {
                change(hcm);
            }
        }
    }

    let clusters = list(&mut bootstrap["static_resources"]["clusters"]);
    for cluster in clusters.iter_mut() {
        let port = port(endpoint(cluster));
        if let Some(new) = moved.get(&port.to_string()) {
            *port = new.clone();
        }
    }
    let api = setup.upstream.map(|address| (API.to_owned(), address));
    for (name, address) in setup.clusters.iter().cloned().chain(api) {
        match clusters.iter_mut().find(|cluster| cluster["name"] == name) {
            Some(there) => *endpoint(there) = socket(address),
            None => clusters.push(cluster(&name, address)),
        }
    }
    for tweak in &setup.tweaks {
        tweak(&mut bootstrap);
    }
    bootstrap
}

/// The `config` of every instance of the filter, in order.
pub(crate) fn tollgates(hcm: &mut Value) -> impl Iterator<Item = &mut Value> {
    list(&mut hcm["http_filters"])
        .iter_mut()
        .map(|filter| &mut filter["typed_config"])
        .filter(|typed| {
            typed["@type"]
                .as_str()
                .is_some_and(|kind| kind.ends_with(".wasm.v3.Wasm"))
        })
        .map(|typed| &mut typed["config"])
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().expect("a list")
}

fn port(address: &mut Value) -> &mut Value {
    &mut address["socket_address"]["port_value"]
}

fn endpoint(cluster: &mut Value) -> &mut Value {
    &mut cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
}
