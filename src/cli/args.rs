//! Groups of flags that subcommands share.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use clap::{ArgAction, Args};

use crate::{
    api,
    runtime::{
        leader::Times,
        metrics::RequestMetrics,
        seed::{self, LEAST_QPS, MOST_QPS, Rate, Seed, with_causes},
        telemetry::LogFormat,
        wire::{Access, Wire},
    },
};

const DEFAULT_QPS: f64 = 5.0;
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// How the seed is reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Seed")]
pub(super) struct ClientArgs {
    /// Path of the seed's kubeconfig; without it, the one that kubectl would use, otherwise the
    /// pod's ServiceAccount
    #[arg(long, env = "DWD_KUBECONFIG", value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Requests per second to the seed in the long run, apart from those to dependents and to
    /// delete pods; 0.001 to 100000, or 0 for the default
    #[arg(long, env = "DWD_KUBE_API_QPS", value_name = "RATE", default_value_t = DEFAULT_QPS, value_parser = qps)]
    kube_api_qps: f64,

    /// Burst of such requests; 0 for the default
    #[arg(long, env = "DWD_KUBE_API_BURST", value_name = "COUNT", default_value_t = DEFAULT_BURST.get())]
    kube_api_burst: u32,
}

/// How those who look after the process see how it fares.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics and health")]
pub(super) struct AdminArgs {
    /// Where /metrics is served: HOST:PORT, :PORT for all addresses, or 0 for nowhere
    #[arg(
        long,
        env = "DWD_METRICS_BIND_ADDR",
        value_name = "ADDRESS",
        default_value = ":9643"
    )]
    pub(super) metrics_bind_addr: String,

    /// Where /healthz and /readyz are served: HOST:PORT, :PORT for all addresses, or 0 for nowhere;
    /// may be the address of the metrics
    #[arg(
        long,
        env = "DWD_HEALTH_BIND_ADDR",
        value_name = "ADDRESS",
        default_value = ":9644"
    )]
    pub(super) health_bind_addr: String,
}

/// Where the Leases are.
#[derive(Debug, Args)]
pub(super) struct LeaseArgs {
    /// The namespace of the operator's Leases: all replicas and commands need the same
    #[arg(
        long,
        env = "DWD_LEADER_ELECTION_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "garden",
        value_parser = namespace
    )]
    pub(super) leader_election_namespace: String,
}

/// Which of several replicas acts.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(super) struct LeaderArgs {
    /// Act only while holding the Lease dwd-prober-leader-election or dwd-weeder-leader-election, so
    /// that several replicas can run and one of them acts
    #[arg(
        long,
        env = "DWD_ENABLE_LEADER_ELECTION",
        value_name = "BOOL",
        default_value_t = false,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set
    )]
    enable_leader_election: bool,

    #[command(flatten)]
    pub(super) lease: LeaseArgs,

    /// For how long others wait that see no renewal of the Lease, until one of them takes it; whole
    /// seconds, 1s to 24h
    #[arg(
        long,
        env = "DWD_LEADER_ELECT_LEASE_DURATION",
        value_name = "DURATION",
        default_value = "15s",
        value_parser = up_to_a_day
    )]
    leader_elect_lease_duration: Duration,

    /// A leader that could not renew the Lease for this long stops leading, and stands for election
    /// again; at least 1s, and shorter than the lease duration
    #[arg(
        long,
        env = "DWD_LEADER_ELECT_RENEW_DEADLINE",
        value_name = "DURATION",
        default_value = "10s",
        value_parser = up_to_a_day
    )]
    leader_elect_renew_deadline: Duration,

    /// From one try to get or renew the Lease to the next; at least 1s, and the renew deadline is
    /// longer than 1.2 times this
    #[arg(
        long,
        env = "DWD_LEADER_ELECT_RETRY_PERIOD",
        value_name = "DURATION",
        default_value = "2s",
        value_parser = up_to_a_day
    )]
    leader_elect_retry_period: Duration,
}

/// What is logged.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logs")]
pub(super) struct LogArgs {
    /// What is logged: a level, or levels by module, such as dependency_watchdog=debug,info
    #[arg(long, env = "DWD_LOG", default_value = "info", value_name = "FILTER")]
    pub(super) log: String,

    /// The form of log lines
    #[arg(long, env = "DWD_LOG_FORMAT", value_enum, default_value_t)]
    pub(super) log_format: LogFormat,
}

impl ClientArgs {
    /// Connects to the seed.
    pub(super) async fn connect(&self, metrics: &RequestMetrics) -> Result<Wire, String> {
        let config = seed::config(self.kubeconfig.as_deref()).await?;
        Wire::new(config, metrics).map_err(|error| {
            let why = with_causes(&error);
            format!("no client can be made of the configuration: {why}")
        })
    }

    /// Connects a command to the seed.
    pub(super) async fn seed(&self, access: Access) -> Result<Seed, String> {
        let metrics = RequestMetrics::default();
        let client = self.connect(&metrics).await?.client(access);
        Ok(Seed::new(client, self.rate(), &metrics))
    }

    /// Returns the budget of what is reported.
    pub(super) fn rate(&self) -> Rate {
        let qps = Some(self.kube_api_qps).filter(|qps| *qps > 0.0);
        Rate {
            qps: qps.unwrap_or(DEFAULT_QPS),
            burst: NonZeroU32::new(self.kube_api_burst).unwrap_or(DEFAULT_BURST),
        }
    }
}

impl LeaderArgs {
    /// Times by which the Lease is held; `None` without an election.
    pub(super) fn times(&self) -> Result<Option<Times>, String> {
        let times = || {
            Times::new(
                self.leader_elect_lease_duration,
                self.leader_elect_renew_deadline,
                self.leader_elect_retry_period,
            )
        };
        self.enable_leader_election.then(times).transpose()
    }
}

/// Refuses a configuration file.
pub(super) fn policies_instead(file: &str) -> Result<PathBuf, String> {
    Err(format!(
        "there is no configuration file any more; `dependency-watchdog convert -f {file}` turns it into a policy: \
         apply that, and leave this flag out"
    ))
}

/// Returns the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match api::is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err("must be the name of a namespace".to_owned()),
    }
}

pub(super) fn up_to_a_day(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    match text.parse::<api::Duration>()?.get() {
        allowed if (Duration::from_secs(1)..=DAY).contains(&allowed) => Ok(allowed),
        _ => Err("must be at least 1s and at most 24h".to_owned()),
    }
}

fn qps(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(qps) if qps == 0.0 || (LEAST_QPS..=MOST_QPS).contains(&qps) => Ok(qps),
        _ => Err(format!(
            "must be a number from {LEAST_QPS} to {MOST_QPS}, or 0 for the default"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_lease_matter_with_an_election() {
        #[derive(clap::Parser)]
        struct Replica {
            #[command(flatten)]
            leader: LeaderArgs,
        }
        let election = |elects: &str| {
            let args = ["replica", "--leader-elect-retry-period=9s", elects];
            let replica = <Replica as clap::Parser>::try_parse_from(args).unwrap();
            replica.leader.times().map(|it| it.is_some())
        };
        assert!(matches!(
            election("--enable-leader-election=false"),
            Ok(false)
        ));
        assert!(election("--enable-leader-election").is_err());
    }

    #[test]
    fn durations_are_bounded() {
        for (text, seconds) in [
            ("1s", Some(1)),
            ("30m", Some(1_800)),
            ("24h", Some(86_400)),
            ("0", None),
            ("999ms", None),
            ("24h1s", None),
            ("99999h", None),
            ("-1s", None),
            ("30", None),
            ("", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(up_to_a_day(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn rates_are_bounded() {
        for text in ["0", "0.001", "5", "100000"] {
            assert!(qps(text).is_ok(), "{text}");
        }
        for text in ["1e-300", "-1", "100001", "NaN", "five"] {
            assert!(qps(text).is_err(), "{text}");
        }
    }
}
