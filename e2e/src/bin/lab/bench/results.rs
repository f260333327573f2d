//! What a run of the bench has measured. Times are in seconds, sizes in bytes.

use crate::bench::{delay::Delay, stats::Spread};
use dependency_watchdog_e2e::usage::Memory;
use serde::Serialize;
use std::collections::BTreeMap;

/// All runs, and what they ran on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) host: Host,
    pub(crate) settings: BTreeMap<&'static str, String>,
    pub(crate) runs: Vec<Run>,
}

/// The machine, and the programs on it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Host {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    pub(crate) operator: String,
    pub(crate) api_server: String,
}

/// One number of shoots.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    pub(crate) shoots: usize,
    pub(crate) nodes: usize,
    pub(crate) start: Start,
    pub(crate) steady: Steady,
    /// None if no shoot was to die.
    pub(crate) dead: Option<Dead>,
    pub(crate) outage: Outage,
    pub(crate) recovery: Recovery,
}

/// From the start of the operator until nothing is left to be learned.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start {
    /// Until the leases of each shoot were asked for once.
    pub(crate) asked: f64,
    /// Until each ClusterHealth says that its cluster is healthy.
    pub(crate) judged: f64,
    /// Until the Nodes of each shoot were asked for once, and each ClusterHealth says ONLINE, too.
    pub(crate) settled: f64,
    /// What it has computed until it was settled.
    pub(crate) computed: f64,
    pub(crate) peak: u64,
    /// What it has asked of the seed until then, by verb.
    pub(crate) seed_requests: BTreeMap<String, usize>,
}

/// While nothing is wrong with those that are told of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Steady {
    pub(crate) length: f64,
    pub(crate) cores: f64,
    pub(crate) farm_cores: f64,
    pub(crate) api_server_cores: f64,
    /// Of all processes on the machine, those of others included.
    pub(crate) machine_cores: f64,
    pub(crate) memory: Memory,
    /// None if no replica stands by.
    pub(crate) standby: Option<Standby>,
    pub(crate) per_shoot_minute: PerShootMinute,
    /// A minute, by verb.
    pub(crate) seed_requests: BTreeMap<String, f64>,
}

/// A replica that does not lead.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Standby {
    pub(crate) cores: f64,
    pub(crate) memory: Memory,
}

/// Some API servers have died, in all ways alike, and stay dead for the rest of the run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Dead {
    pub(crate) shoots: usize,
    /// From then on until each ClusterHealth of theirs says that the shoot cannot be judged.
    pub(crate) reported: f64,
    /// What is told of shoots is of the living alone.
    pub(crate) living: Steady,
}

/// What a shoot is asked for in a minute.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PerShootMinute {
    pub(crate) requests: f64,
    pub(crate) lists_of_leases: f64,
    pub(crate) lists_of_nodes: f64,
    /// Requests for `/readyz`.
    pub(crate) readiness: f64,
    /// Bytes from the shoot to the operator.
    pub(crate) to_operator: f64,
    /// Bytes from the operator to the shoot.
    pub(crate) from_operator: f64,
    pub(crate) handshakes: f64,
}

/// Some shoots lose their network at once.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outage {
    pub(crate) shoots: usize,
    /// One a shoot.
    pub(crate) delays: Vec<Delay>,
    /// From the cut until each ClusterHealth says that its cluster is protected.
    pub(crate) reported: f64,
    pub(crate) cores: f64,
    pub(crate) machine_cores: f64,
    pub(crate) peak: u64,
    /// What was asked of each shoot that was cut.
    pub(crate) requests: f64,
    /// Bytes to the operator from each of them.
    pub(crate) to_operator: f64,
    /// What was asked of the seed.
    pub(crate) seed_requests: usize,
}

/// They get it back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recovery {
    /// From then on to the first write that restores.
    pub(crate) first: Option<Spread>,
    /// To the last one.
    pub(crate) last: Option<Spread>,
    /// Until each ClusterHealth says that it is over.
    pub(crate) reported: f64,
}
