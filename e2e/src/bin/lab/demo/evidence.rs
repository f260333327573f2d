//! What the demo measures, from the API servers' own records where there are any.

use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{Shoot, wait};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{Api, Client, api::ListParams};
use std::time::Duration;
use tokio::time::{interval, timeout};

/// How often the marks of nodes are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The dependents that the operator has patched since, in order, each with the time at which the
/// seed's API server received the request, as its audit log has it.
pub(crate) fn patches(shoot: &Shoot, since: Timestamp) -> Result<Vec<(String, Timestamp)>> {
    let requests = shoot.control_plane.seed().operator_requests()?;
    let patches = requests.into_iter().filter(|request| {
        request.is_write()
            && request.resource.starts_with("deployments")
            && request.code < 300
            && request.received >= since
    });
    Ok(patches
        .map(|request| (request.name, request.received))
        .collect())
}

/// When so many leases were silent for so long, as far as any of them says itself.
pub(crate) fn silent_since(leases: &[Lease], count: usize, silence: Duration) -> Result<Timestamp> {
    let renewals = leases
        .iter()
        .map(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0));
    let renewals: Option<Vec<Timestamp>> = renewals.collect();
    let mut renewals = renewals.context("a lease has no renewTime")?;
    renewals.sort_unstable();
    let last = count.checked_sub(1).and_then(|place| renewals.get(place));
    let last = last.with_context(|| format!("{} leases, not {count}", renewals.len()))?;
    Ok(last.checked_add(SignedDuration::try_from(silence)?)?)
}

/// Waits until kube-controller-manager has marked a node Unknown, and tells the last moment at which
/// none was: what is said to be earlier than the marks is so by at least that much.
pub(crate) async fn last_unmarked(client: Client, limit: Duration) -> Result<Timestamp> {
    let nodes: Api<Node> = Api::all(client);
    let watched = async {
        let mut looks = interval(LOOK);
        let mut unmarked = None;
        loop {
            looks.tick().await;
            let looked = Timestamp::now();
            let nodes = nodes.list(&ListParams::default()).await?;
            if nodes.iter().any(|node| readiness(node) == "Unknown") {
                return unmarked.context("a node was marked from the start");
            }
            unmarked = Some(looked);
        }
    };
    let in_vain = || format!("waited {limit:?} in vain for kube-controller-manager to mark a node");
    timeout(limit, watched).await.with_context(in_vain)?
}

/// Waits until kube-controller-manager has taken every node for ready.
pub(crate) async fn is_managed(client: Client, limit: Duration) -> Result<()> {
    let nodes: Api<Node> = Api::all(client);
    wait::until_within(
        limit,
        "kube-controller-manager to admit the nodes",
        async || {
            let nodes = nodes.list(&ListParams::default()).await?;
            // The API server taints a new node; only the node lifecycle controller takes that away.
            let waiting = nodes
                .iter()
                .filter(|node| readiness(node) != "True" || is_tainted(node));
            let waiting = waiting.count();
            wait::seen(waiting == 0, format!("{waiting} nodes are not admitted"))
        },
    )
    .await
}

fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| !taints.is_empty())
}

/// The status of the condition Ready, empty without one.
pub(crate) fn readiness(node: &Node) -> &str {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|condition| condition.type_ == "Ready")
        .map_or("", |condition| &condition.status)
}

/// The states of a cluster, one after the other, in what `kubectl get clusterhealths -w` has printed.
pub(crate) fn states(printed: &str) -> Vec<String> {
    let rows = printed.lines().filter(|row| !row.starts_with("NAME"));
    let states = rows.filter_map(|row| row.split_whitespace().nth(1));
    let mut states: Vec<String> = states.map(str::to_owned).collect();
    states.dedup();
    states
}

/// Seconds from one time to a later one; an error if it is an earlier one.
pub(crate) fn seconds(what: &str, from: Timestamp, to: Timestamp) -> Result<f64> {
    let seconds = to.duration_since(from).as_secs_f64();
    ensure!(seconds >= 0.0, "{what}: {:.3} s too early", -seconds);
    Ok(seconds)
}
