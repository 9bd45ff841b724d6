//! Metrics on the host, each defined when it is first used. No decisions.

use std::cell::RefCell;
use std::collections::HashMap;

use proxy_wasm::types::MetricType;
use tollgate_config::{Config, Millis};

use super::host;
use crate::metrics::{Counter, DEGRADED, STORE_LATENCY};

/// What was defined so far; `None` where the host refused.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    counters: RefCell<HashMap<Counter, Option<u32>>>,
    degraded: RefCell<Option<Option<u32>>>,
    latency: RefCell<Option<Option<u32>>>,
}

impl Gauges {
    /// Counts.
    pub(super) fn count(&self, config: &Config, counter: Counter, by: u64) {
        let mut counters = self.counters.borrow_mut();
        let of = || define(MetricType::Counter, &counter.name(config));
        if let Some(id) = *counters.entry(counter).or_insert_with(of) {
            complain(host::count(id, by));
        }
    }

    /// One worker more, or less, does without the store.
    pub(super) fn degraded(&self, by: i64) {
        let mut gauge = self.degraded.borrow_mut();
        if let Some(id) = *gauge.get_or_insert_with(|| define(MetricType::Gauge, DEGRADED)) {
            complain(host::shift(id, by));
        }
    }

    /// A call of the store took so long.
    pub(super) fn latency(&self, took: Millis) {
        let mut histogram = self.latency.borrow_mut();
        let of = || define(MetricType::Histogram, STORE_LATENCY);
        if let Some(id) = *histogram.get_or_insert_with(of) {
            complain(host::record(id, took.0));
        }
    }
}

fn define(kind: MetricType, name: &str) -> Option<u32> {
    let defined = host::define(kind, name);
    defined
        .inspect_err(|e| log::error!("metric {name} cannot be defined: {e:?}"))
        .ok()
}

fn complain(done: Result<(), proxy_wasm::types::Status>) {
    if let Err(status) = done {
        log::error!("a metric cannot be changed: {status:?}");
    }
}
