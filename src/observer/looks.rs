//! Looks at one cluster beside its probes: whether its API server is ready, whether its metrics come.
//!
//! Looks share the connection of the probes, which is idle then: in steady state none is made for them. A probe
//! that is due begins while a look still hangs, on a connection of its own, since HTTP/1 leaves it no other.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::state::Found;
use crate::{
    api::MetricsProvider,
    checks::{Outcome, Runner, running::seconds},
    runtime::metrics::ProbeMetrics,
    shoot::{Said, Shoot, Unread},
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

    /// Asks over this connection whether the API server is ready.
    pub(crate) async fn ready(self, shoot: Shoot) -> Found {
        let began = Instant::now();
        let ready = shoot.readiness(READY_LIMIT).await;
        self.ended("readyz", &ready, began, READY_LIMIT);
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
        let limit = seconds(provider.timeout_seconds);
        if let Some(action) = &provider.http_get {
            let runner = self.runner.of(&policy);
            return Some(runner.http_get(&cluster, action, limit).await);
        }
        let (version, group) = provider.api_service.as_deref()?.split_once('.')?;
        let began = Instant::now();
        let served = shoot.serves(group, version, limit).await;
        self.ended("apiService", &served, began, limit);
        match served.map_err(|error| (error.said, error.message)) {
            Ok(()) => Some(Outcome::Success),
            // Others may be allowed what is refused to us.
            Err((Said::Refused, why)) => Some(Outcome::Unknown(why)),
            // No word of what stands behind the API server: it broke the connection, or has too much to do.
            Err((Said::Throttled(_) | Said::Broken, _)) => None,
            Err((Said::Late | Said::Other, why)) => Some(Outcome::Failure(why)),
        }
    }

    /// Counts a request that has ended so.
    fn ended<T>(
        &self,
        kind: &'static str,
        answer: &Result<T, Unread>,
        began: Instant,
        limit: Duration,
    ) {
        let result = match answer.as_ref().map_err(|error| error.said) {
            Ok(_) => "success",
            Err(Said::Late) => "timeout",
            Err(Said::Throttled(_)) => "throttled",
            Err(Said::Refused) => "unknown",
            Err(Said::Broken | Said::Other) => "failure",
        };
        self.metrics.ended(kind, result, began.elapsed(), limit);
    }
}
