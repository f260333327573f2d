//! How long it takes to look at a cluster, in whatever way, and whether that ended in time.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

use super::Registry;

const SECONDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// What ends so long after its timeout, and a tenth of it, is late: nothing but a process that is
/// starved of time makes it so.
const LATE: Duration = Duration::from_secs(1);

/// How a cluster is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeType {
    /// By its leases.
    Leases,
    /// By what its API server says of itself.
    Readyz,
    /// By an API that an APIService stands for.
    ApiService,
    /// By a command in a pod.
    Exec,
    /// By a request over HTTP.
    HttpGet,
    /// By a connection over TCP.
    TcpSocket,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// Well.
    Success,
    /// Not well.
    Failure,
    /// Not within its timeout.
    Timeout,
    /// The server asked for less load.
    Throttled,
    /// It could not be made.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    r#type: &'static str,
    result: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabel {
    r#type: &'static str,
}

/// How long probes take. Clones count for the same.
#[derive(Clone, Debug)]
pub struct ProbeMetrics {
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    past_timeout: Family<TypeLabel, Counter>,
}

impl Default for ProbeMetrics {
    fn default() -> Self {
        let past_timeout: Family<TypeLabel, Counter> = Family::default();
        // A rise from nothing is none for Prometheus.
        for kind in ProbeType::WITH_TIMEOUT {
            drop(past_timeout.get_or_create(&kind.label()));
        }
        Self {
            durations: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            past_timeout,
        }
    }
}

impl ProbeMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "probe_duration_seconds",
            &["type", "result"],
            "Time that a probe took, from its start to its verdict or failure: leases (the lists of a \
             probe), readyz, apiService, exec, httpGet, tcpSocket",
            self.durations.clone(),
        );
        registry.register(
            "probes_past_timeout",
            &["type"],
            "Probes that ended more than 10% plus 1 s after their timeout",
            self.past_timeout.clone(),
        );
    }

    /// Where those of this type are counted that end so.
    pub fn duration(&self, kind: ProbeType, result: ProbeResult) -> Histogram {
        self.durations.get_or_create_owned(&Labels {
            r#type: kind.as_str(),
            result: result.as_str(),
        })
    }

    /// One has ended after so long a time, for which it had so much.
    pub fn ended(&self, kind: ProbeType, result: ProbeResult, took: Duration, timeout: Duration) {
        let labels = Labels {
            r#type: kind.as_str(),
            result: result.as_str(),
        };
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        if is_past(took, timeout) {
            self.past_timeout.get_or_create(&kind.label()).inc();
        }
    }
}

/// Whether what took so long ended later than its timeout explains: this process stood still, or had
/// no CPU.
pub fn is_past(took: Duration, timeout: Duration) -> bool {
    took > timeout + timeout / 10 + LATE
}

impl ProbeType {
    /// Those that have one timeout for all that they do.
    const WITH_TIMEOUT: [Self; 5] = [
        Self::Readyz,
        Self::ApiService,
        Self::Exec,
        Self::HttpGet,
        Self::TcpSocket,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Readyz => "readyz",
            Self::ApiService => "apiService",
            Self::Exec => "exec",
            Self::HttpGet => "httpGet",
            Self::TcpSocket => "tcpSocket",
        }
    }

    fn label(self) -> TypeLabel {
        TypeLabel {
            r#type: self.as_str(),
        }
    }
}

impl ProbeResult {
    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
            Self::Throttled => "throttled",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_long_after_its_timeout_is_counted() {
        let metrics = ProbeMetrics::default();
        let timeout = Duration::from_secs(10);
        for (took, past) in [(0, 0), (10, 0), (12, 0), (13, 1), (60, 2)] {
            let took = Duration::from_secs(took);
            metrics.ended(ProbeType::Exec, ProbeResult::Timeout, took, timeout);
            let counted = metrics.past_timeout.get_or_create(&ProbeType::Exec.label());
            assert_eq!(counted.get(), past, "{took:?}");
        }
        let others = metrics
            .past_timeout
            .get_or_create(&ProbeType::HttpGet.label());
        assert_eq!(others.get(), 0);
    }
}
