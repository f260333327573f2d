//! What is counted, and how it is shown: a registry that also says what is in it.
//!
//! Each module has a small struct of its own metrics, which it gets by value and which is
//! registered once. One that is not registered counts for nobody, which is what tests want.

mod gauges;
mod probes;
mod process;
mod requests;

pub(crate) use self::gauges::{InFlight, InState, States};
pub use self::{
    probes::{ProbeMetrics, ProbeResult, ProbeType, is_past},
    process::register as register_process,
    requests::{BudgetMetrics, RequestMetrics},
};

use std::fmt;

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::Counter, gauge::Gauge, info::Info},
    registry::{self, Metric, Unit},
};

/// Before the name of all that is the operator's own.
const PREFIX: &str = "dependency_watchdog";

/// All metrics, and what describes them.
#[derive(Debug)]
pub struct Registry {
    /// With the prefix.
    own: registry::Registry,
    /// With the names that Prometheus gives them for every program.
    common: registry::Registry,
    descriptions: Vec<Description>,
}

/// What a metric is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// As in queries, but without the suffixes of a histogram: `dependency_watchdog_probes_total`.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it tells, in one sentence without its full stop.
    pub help: &'static str,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            own: registry::Registry::with_prefix(PREFIX),
            common: registry::Registry::default(),
            descriptions: Vec::new(),
        }
    }
}

impl Registry {
    /// Adds a metric of the operator. The name is the whole of it, without the prefix, and without
    /// the `_total` of a counter; a unit at its end is taken for that.
    pub fn register(
        &mut self,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: impl Metric,
    ) {
        let full = format!("{PREFIX}_{name}");
        self.describe(full, metric.metric_type(), labels, help);
        add(&mut self.own, name, help, metric);
    }

    /// Adds a metric that other programs have too, under the name that it has there.
    pub fn register_common(&mut self, name: &'static str, help: &'static str, metric: impl Metric) {
        self.describe(name.to_owned(), metric.metric_type(), &[], help);
        add(&mut self.common, name, help, metric);
    }

    /// Adds the version of the operator.
    pub fn register_build_info(&mut self) {
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        self.register("build", &["version"], "The operator's version", version);
    }

    fn describe(
        &mut self,
        name: String,
        kind: MetricType,
        labels: &'static [&'static str],
        help: &'static str,
    ) {
        let (kind, suffix) = match kind {
            MetricType::Counter => ("counter", "_total"),
            MetricType::Gauge => ("gauge", ""),
            MetricType::Histogram => ("histogram", ""),
            MetricType::Info => ("info", "_info"),
            MetricType::Unknown => ("unknown", ""),
        };
        self.descriptions.push(Description {
            name: name + suffix,
            kind,
            labels,
            help,
        });
    }

    /// What is registered, in the order of registration.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// All of it as OpenMetrics text.
    ///
    /// # Errors
    ///
    /// If a metric cannot be put into text.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode_registry(&mut text, &self.own)?;
        text::encode_registry(&mut text, &self.common)?;
        text::encode_eof(&mut text)?;
        Ok(text)
    }
}

fn add(registry: &mut registry::Registry, name: &str, help: &str, metric: impl Metric) {
    let with_unit = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)]
        .into_iter()
        .find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, unit)));
    match with_unit {
        Some((name, unit)) => registry.register_with_unit(name, help, unit, metric),
        None => registry.register(name, help, metric),
    }
}

/// A metric whose value is found out when it is asked for; without a value there is no sample.
pub struct Computed<F> {
    kind: MetricType,
    value: F,
}

impl<F: Fn() -> Option<f64>> Computed<F> {
    /// One that goes up and down.
    pub fn gauge(value: F) -> Self {
        let kind = MetricType::Gauge;
        Self { kind, value }
    }

    /// One that only rises.
    pub fn counter(value: F) -> Self {
        let kind = MetricType::Counter;
        Self { kind, value }
    }
}

impl<F> fmt::Debug for Computed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Computed")
            .field("kind", &self.kind)
            .finish()
    }
}

impl<F: Fn() -> Option<f64>> EncodeMetric for Computed<F> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match ((self.value)(), self.kind) {
            (None, _) => Ok(()),
            (Some(value), MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            (Some(value), _) => encoder.encode_gauge(&value),
        }
    }

    fn metric_type(&self) -> MetricType {
        self.kind
    }
}

/// Whether this replica acts.
#[derive(Clone, Debug)]
pub struct LeaderMetrics {
    leads: Gauge,
    lost: Counter,
}

impl Default for LeaderMetrics {
    /// Without an election, it does.
    fn default() -> Self {
        let leader = Self {
            leads: Gauge::default(),
            lost: Counter::default(),
        };
        leader.set(true);
        leader
    }
}

impl LeaderMetrics {
    /// Shows it.
    pub fn register(&self, registry: &mut Registry) {
        let help = "1 if this replica acts, 0 if it stands by";
        registry.register("leader", &[], help, self.leads.clone());
        registry.register(
            "leaderships_lost",
            &[],
            "How often this process lost the Lease, and stood for election again",
            self.lost.clone(),
        );
    }

    /// Whether it acts from now on.
    pub fn set(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }

    /// The Lease was lost.
    pub fn lost(&self) {
        self.lost.inc();
    }
}
