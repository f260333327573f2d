//! Makes the runs of all checks of all clusters: whose turn it is, and that each ends in time.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{
    cuts::Cuts,
    exec,
    gates::FeatureGates,
    http,
    metrics::CheckMetrics,
    outcome::{Outcome, Said},
    pods,
    resolve::{self, Target},
    running::seconds,
    tcp,
    tls::Tls,
    turns::Turns,
};
use crate::{
    api::{CheckType, ExecAction, HealthCheck, HttpGetAction, TcpSocketAction},
    runtime::{metrics::is_past, names::Names, seed::Seed},
};

/// So many requests and connections are under way at once, half of them of one policy. Each takes a
/// socket and some ten kilobytes; if all of a policy hang for the default timeout, 5,120 are made in ten
/// seconds.
const CONNECTIONS: usize = 1024;
/// So many commands are. They cost more, and each goes through the seed's API server.
const COMMANDS: usize = 256;

/// Makes the runs of all checks. Clones are the same.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
    /// Whose places the runs take.
    policy: Arc<str>,
}

struct Inner {
    seed: Seed,
    gates: FeatureGates,
    metrics: CheckMetrics,
    connections: Turns,
    commands: Turns,
    names: Names,
    tls: Tls,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// When it was its turn.
    pub began: Instant,
    /// How it ended.
    pub outcome: Outcome,
}

impl Runner {
    /// Runs commands through this seed, bounded by places and by no budget, and looks Services up by `names`.
    /// All are those of one policy.
    pub fn new(seed: Seed, gates: FeatureGates, metrics: CheckMetrics, names: Names) -> Self {
        let inner = Inner {
            seed,
            gates,
            metrics,
            connections: Turns::new(CONNECTIONS),
            commands: Turns::new(COMMANDS),
            names,
            tls: Tls::default(),
        };
        Self {
            inner: Arc::new(inner),
            policy: Arc::default(),
        }
    }

    /// The same, for the runs of this policy: those of others do not wait for them.
    #[must_use]
    pub fn of(&self, policy: &Arc<str>) -> Self {
        Self {
            inner: self.inner.clone(),
            policy: policy.clone(),
        }
    }

    /// One request of a control plane in this namespace, when it is its turn.
    pub async fn http_get(
        &self,
        namespace: &str,
        action: &HttpGetAction,
        timeout: Duration,
    ) -> Outcome {
        self.request(namespace, action, timeout).await.outcome
    }

    /// Makes one run of a check of this cluster, when it is its turn. `cuts` counts commands that do not end.
    pub async fn run(&self, cluster: &str, check: &HealthCheck, cuts: &mut Cuts) -> Run {
        let timeout = seconds(check.timeout_seconds);
        if let Some(action) = &check.exec {
            self.command(cluster, check, action, cuts).await
        } else if let Some(action) = &check.http_get {
            self.request(cluster, action, timeout).await
        } else if let Some(action) = &check.tcp_socket {
            self.connect(cluster, action, timeout).await
        } else {
            Run {
                began: Instant::now(),
                outcome: Outcome::Unknown("it says nothing of what is to be done".to_owned()),
            }
        }
    }

    async fn request(&self, namespace: &str, action: &HttpGetAction, timeout: Duration) -> Run {
        let target = Target::of(namespace, &action.service, action.port);
        self.reach("httpGet", timeout, &target, async |addresses| {
            http::get(&addresses, &target, action, &self.inner.tls).await
        })
        .await
    }

    async fn connect(&self, namespace: &str, action: &TcpSocketAction, timeout: Duration) -> Run {
        let target = Target::of(namespace, &action.service, action.port);
        let connect = async |addresses: Vec<SocketAddr>| match tcp::connect(&addresses).await {
            Ok(_) => Outcome::Success,
            Err(outcome) => outcome,
        };
        self.reach("tcpSocket", timeout, &target, connect).await
    }

    /// One run that goes to the addresses of a target, when it is its turn. They are looked up within
    /// the timeout, but not as a part of it: that the DNS is slow says nothing of who has the name.
    async fn reach(
        &self,
        kind: &'static str,
        timeout: Duration,
        target: &Target,
        run: impl AsyncFnOnce(Vec<SocketAddr>) -> Outcome,
    ) -> Run {
        let inner = &self.inner;
        let waiting = inner.metrics.wait();
        let _turn = inner.connections.take(&self.policy).await;
        drop(waiting);
        let resolved = resolve::resolve(&inner.names, target, Instant::now() + timeout).await;
        self.timed(kind, timeout, async |until| {
            let addresses = match resolved {
                Ok(addresses) => addresses,
                Err(unknown) => return Outcome::Unknown(unknown),
            };
            match timeout_at(until, run(addresses)).await {
                Ok(outcome) => outcome,
                Err(_) => Outcome::Timeout(timeout),
            }
        })
        .await
    }

    async fn command(
        &self,
        namespace: &str,
        check: &HealthCheck,
        action: &ExecAction,
        cuts: &mut Cuts,
    ) -> Run {
        let timeout = seconds(check.timeout_seconds);
        let inner = &self.inner;
        let waiting = inner.metrics.wait();
        let _turn = inner.commands.take(&self.policy).await;
        // To find the pod, and to have the API server take the command, is no part of the command:
        // that the seed does not answer says nothing of what the command would have said.
        let chosen = pods::find(&inner.seed, namespace, action).await;
        let begun = match chosen {
            Ok(chosen) => exec::begin(&inner.seed, namespace, chosen, &action.command).await,
            Err(unknown) => Err(Outcome::Unknown(unknown)),
        };
        drop(waiting);
        let run = self.timed("exec", timeout, async |until| {
            let command = match begun {
                Ok(command) => command,
                Err(unknown) => return unknown,
            };
            let began = Instant::now();
            let outcome = match timeout_at(until, command.end()).await {
                Ok(Ok(outcome)) => {
                    cuts.reset();
                    return outcome;
                }
                Ok(Err(unknown)) => unknown,
                Err(_) if inner.gates.exec_probe_timeout => Outcome::Timeout(timeout),
                Err(_) => Outcome::Tolerated(timeout),
            };
            cuts.cut(began, check);
            outcome
        });
        run.await
    }

    async fn timed(
        &self,
        kind: &'static str,
        timeout: Duration,
        run: impl AsyncFnOnce(Instant) -> Outcome,
    ) -> Run {
        let metrics = &self.inner.metrics;
        let _running = metrics.run();
        let began = Instant::now();
        let mut outcome = run(began + timeout).await;
        let took = began.elapsed();
        if is_past(took, timeout) && outcome.said() != Said::Nothing {
            // Nobody was there to see when it ended.
            outcome = Outcome::Unknown(format!(
                "its end was noticed only after {took:.1?}, for which it had {timeout:?}: the prober stood \
                 still"
            ));
        }
        if let Outcome::Tolerated(_) = outcome {
            metrics.tolerate();
        }
        let result = match (&outcome, outcome.said()) {
            (Outcome::Timeout(_) | Outcome::Tolerated(_), _) => "timeout",
            (_, Said::Yes) => "success",
            (_, Said::No) => "failure",
            (_, Said::Nothing) => "unknown",
        };
        metrics.probes.ended(kind, result, took, timeout);
        Run { began, outcome }
    }
}

/// How a check is done.
pub(super) fn kind(check: &HealthCheck) -> CheckType {
    if check.exec.is_some() {
        CheckType::Exec
    } else if check.http_get.is_some() {
        CheckType::HttpGet
    } else {
        CheckType::TcpSocket
    }
}
