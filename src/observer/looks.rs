//! Looks at one cluster beside its probes: whether its API server is ready, whether its metrics come.
//!
//! Looks share the connection of the probes, which is idle then: in steady state none is made for them. A probe
//! that is due begins while a look still hangs, on a connection of its own, since HTTP/1 leaves it no other.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{provider::timeout_of, state::Found};
use crate::{
    api::MetricsProvider,
    checks::{Outcome, Runner},
    runtime::metrics::ProbeMetrics,
    shoot::{Readiness, Said, Shoot, Unread},
};

/// The time in which an API server has to say whether it is ready.
const READY_LIMIT: Duration = Duration::from_secs(5);

/// Means of looking at clusters, which all share. Clones are the same.
#[derive(Clone)]
pub struct Looks {
    metrics: ProbeMetrics,
    runner: Runner,
}

impl Looks {
    /// Looks are counted here; requests over HTTP to providers of metrics are made by this runner.
    pub fn new(metrics: ProbeMetrics, runner: Runner) -> Self {
        Self { metrics, runner }
    }

    /// Asks over this connection whether the API server is ready, within `limit`.
    pub(crate) async fn ready(self, shoot: Shoot, limit: Duration) -> Found {
        let limit = limit.min(READY_LIMIT);
        let began = Instant::now();
        let ready = shoot.readiness(limit).await;
        let result = match &ready {
            Ok(Readiness::Ready) => "success",
            Ok(Readiness::NotReady(_)) => "failure",
            Err(error) => result(error),
        };
        self.metrics.ended("readyz", result, began.elapsed(), limit);
        Found::Ready(ready.map_err(|error| error.message))
    }

    /// Looks at a provider of metrics of this cluster: its API over this connection, a URL over one of its own,
    /// among those of this policy. `None` if it was not asked, for a reason of the way to it.
    pub(crate) async fn provider(
        self,
        provider: MetricsProvider,
        shoot: Shoot,
        (policy, cluster): (Arc<str>, Arc<str>),
    ) -> Option<Outcome> {
        let limit = timeout_of(&provider);
        let api = provider.api_service.as_deref();
        if let Some((version, group)) = api.and_then(|name| name.split_once('.')) {
            return self.serves(&shoot, group, version, limit).await;
        }
        let action = provider.http_get.as_ref()?;
        let runner = self.runner.of(&policy);
        Some(runner.http_get(&cluster, action, limit).await)
    }

    async fn serves(
        &self,
        shoot: &Shoot,
        group: &str,
        version: &str,
        limit: Duration,
    ) -> Option<Outcome> {
        let began = Instant::now();
        let served = shoot.serves(group, version, limit).await;
        let result = match &served {
            Ok(()) => "success",
            Err(error) if error.said == Said::Refused => "unknown",
            Err(error) => result(error),
        };
        let took = began.elapsed();
        self.metrics.ended("apiService", result, took, limit);
        match served {
            Ok(()) => Some(Outcome::Success),
            Err(error) => match error.said {
                // What is refused to us may work all the same.
                Said::Refused => Some(Outcome::Unknown(error.message)),
                // An API server that breaks the connection, or has too much to do, tells nothing of what
                // stands behind it.
                Said::Throttled(_) | Said::Broken => None,
                Said::Late | Said::Other => Some(Outcome::Failure(error.message)),
            },
        }
    }
}

fn result(error: &Unread) -> &'static str {
    match error.said {
        Said::Late => "timeout",
        Said::Throttled(_) => "throttled",
        _ => "failure",
    }
}
