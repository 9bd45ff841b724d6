//! Metrics shared by all VMs of one process.
//!
//! A kind and name have one value, whoever defines it and however often. As in Envoy a counter only
//! grows, recording a counter adds to it, and a histogram can neither be incremented nor read.

use std::collections::HashMap;

/// What kind of metric it is, numbered as in the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down; a decrement below 0 wraps around, so that a test sees it.
    Gauge,
    /// Counts and sums what is recorded.
    Histogram,
}

/// What was recorded to a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The greatest.
    pub max: u64,
}

/// One metric and its value now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// The name the guest defined; what is not UTF-8 is replaced by U+FFFD.
    pub name: String,
    /// Its kind.
    pub kind: MetricKind,
    /// The value of a counter or gauge; 0 for a histogram.
    pub value: u64,
    /// What a histogram holds; zeros for the others.
    pub histogram: Histogram,
}

/// Why the guest may not do that to a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricError {
    Unknown,
    WrongKind,
}

const KIND_BITS: u32 = 2;

/// All metrics of one process; an id holds the kind in its low bits, as Envoy's do.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    ids: HashMap<(MetricKind, Vec<u8>), u32>,
    metrics: Vec<Metric>,
}

impl Metrics {
    pub(crate) fn define(&mut self, kind: u32, name: &[u8]) -> Result<u32, MetricError> {
        let kind = match kind {
            0 => MetricKind::Counter,
            1 => MetricKind::Gauge,
            2 => MetricKind::Histogram,
            _ => return Err(MetricError::WrongKind),
        };
        let metrics = &mut self.metrics;
        let id = self.ids.entry((kind, name.to_vec())).or_insert_with(|| {
            metrics.push(Metric {
                name: String::from_utf8_lossy(name).into_owned(),
                kind,
                value: 0,
                histogram: Histogram::default(),
            });
            ((metrics.len() as u32 - 1) << KIND_BITS) | kind as u32
        });
        Ok(*id)
    }

    pub(crate) fn increment(&mut self, id: u32, by: i64) -> Result<(), MetricError> {
        let metric = self.find(id)?;
        match metric.kind {
            MetricKind::Counter if by > 0 => metric.value += by.unsigned_abs(),
            MetricKind::Gauge => metric.value = metric.value.wrapping_add_signed(by),
            MetricKind::Counter | MetricKind::Histogram => return Err(MetricError::WrongKind),
        }
        Ok(())
    }

    pub(crate) fn record(&mut self, id: u32, value: u64) -> Result<(), MetricError> {
        let metric = self.find(id)?;
        match metric.kind {
            MetricKind::Counter => metric.value += value,
            MetricKind::Gauge => metric.value = value,
            MetricKind::Histogram => {
                metric.histogram.count += 1;
                metric.histogram.sum += value;
                metric.histogram.max = metric.histogram.max.max(value);
            }
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, id: u32) -> Result<u64, MetricError> {
        let metric = self.find(id)?;
        match metric.kind {
            MetricKind::Histogram => Err(MetricError::WrongKind),
            MetricKind::Counter | MetricKind::Gauge => Ok(metric.value),
        }
    }

    /// All metrics in order of definition.
    pub(crate) fn all(&self) -> &[Metric] {
        &self.metrics
    }

    fn find(&mut self, id: u32) -> Result<&mut Metric, MetricError> {
        self.metrics
            .get_mut((id >> KIND_BITS) as usize)
            .filter(|metric| metric.kind as u32 == id & ((1 << KIND_BITS) - 1))
            .ok_or(MetricError::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defining_again_gives_the_same_metric() {
        let mut metrics = Metrics::default();
        let first = metrics.define(0, b"requests").unwrap();
        metrics.increment(first, 2).unwrap();
        let again = metrics.define(0, b"requests").unwrap();
        assert_eq!((again, metrics.get(again)), (first, Ok(2)));
        assert_ne!(metrics.define(1, b"requests"), Ok(first));
    }

    #[test]
    fn each_kind_refuses_what_envoy_refuses() {
        let mut metrics = Metrics::default();
        let counter = metrics.define(0, b"c").unwrap();
        let gauge = metrics.define(1, b"g").unwrap();
        let histogram = metrics.define(2, b"h").unwrap();
        assert_eq!(metrics.increment(counter, -1), Err(MetricError::WrongKind));
        assert_eq!(metrics.increment(gauge, -1), Ok(()));
        assert_eq!(metrics.get(gauge), Ok(u64::MAX));
        assert_eq!(metrics.get(histogram), Err(MetricError::WrongKind));
        assert_eq!(metrics.increment(99, 1), Err(MetricError::Unknown));
        assert_eq!(metrics.define(3, b"x"), Err(MetricError::WrongKind));
    }
}
