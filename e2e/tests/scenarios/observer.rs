//! What kubectl shows of the state of a cluster, and what one can wait for.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{ClusterHealth, ClusterState};
use dependency_watchdog_e2e::{DEPENDENTS, Env, Operator, Shoot, wait};
use futures::{StreamExt as _, pin_mut};
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::time::timeout;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_pressure_on_one_of_three_nodes_is_shown,
        e2e_the_states_of_an_outage_can_be_watched,
    ]
}

/// Waits as a user does.
async fn is_in(shoot: &Shoot, state: &str) -> Result<()> {
    let kubectl = shoot.control_plane.seed().kubectl();
    let wait = format!("--for=jsonpath={{.status.state}}={state}");
    let cluster = format!("chealth/{}", shoot.namespace());
    kubectl
        .run(&["wait", &wait, &cluster, "--timeout=180s"])
        .await?;
    Ok(())
}

/// The head and the rows of a table, as columns. A cell may be empty: the head says where each begins.
fn columns(table: &str) -> Vec<Vec<&str>> {
    let head = table.lines().next().unwrap_or_default();
    let begins =
        |at: usize| !head[at..].starts_with(' ') && (at == 0 || head[..at].ends_with("  "));
    let starts: Vec<usize> = (0..head.len()).filter(|at| begins(*at)).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let spans: Vec<_> = starts.iter().copied().zip(ends).collect();
    let cells = |line| spans.iter().map(|span| cell(line, *span)).collect();
    table.lines().map(cells).collect()
}

fn cell(line: &str, (start, end): (usize, usize)) -> &str {
    line.get(start..end.min(line.len()))
        .unwrap_or_default()
        .trim()
}

async fn e2e_pressure_on_one_of_three_nodes_is_shown(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = env.shoot("pressed").nodes(3).dependents(DEPENDENTS).await?;
    let observer = json!({"observer": {"nodeInterval": "10s"}});
    shoot.policy()?.with(&observer).apply().await?;
    is_in(&shoot, "ONLINE").await?;
    let cluster = shoot.namespace();
    let kubectl = shoot.control_plane.seed().kubectl();
    let table = kubectl.run(&["get", "chealth", cluster]).await?;
    let rows = columns(&table);
    let head = [
        "NAME",
        "STATE",
        "NODES",
        "PROTECTION",
        "PROTECTED",
        "POLICY",
        "EXPIRED",
        "LEASES",
        "REASON",
        "AGE",
    ];
    ensure!(rows.first().is_some_and(|row| *row == head), "{table}");
    let row = rows.get(1).with_context(|| table.clone())?;
    ensure!(
        row.starts_with(&[
            cluster, "ONLINE", "3/3", "None", "", cluster, "0", "3", "Healthy"
        ]),
        "{table}"
    );

    let node = shoot.kubelet(1)?;
    node.set_condition("MemoryPressure", "True", "KubeletHasInsufficientMemory")
        .await?;
    is_in(&shoot, "UNHEALTHY").await?;
    let table = kubectl
        .run(&["get", "chealth", cluster, "-o", "wide"])
        .await?;
    let rows = columns(&table);
    let head_and_row = rows.first().zip(rows.get(1));
    let (head, row) = head_and_row.with_context(|| table.clone())?;
    let of = |column: &str| {
        let place = head.iter().position(|it| *it == column)?;
        row.get(place).copied()
    };
    for (column, cell) in [
        ("STATE", "UNHEALTHY"),
        ("NODES", "2/3"),
        ("PID PRESSURE", "0/3"),
        ("MEMORY PRESSURE", "1/3"),
        ("DISK PRESSURE", "0/3"),
    ] {
        ensure!(of(column) == Some(cell), "{column}: {table}");
    }
    let described = kubectl.run(&["describe", "chealth", cluster]).await?;
    for part in [node.name(), "MemoryPressure", "Unhealthy Nodes:"] {
        ensure!(described.contains(part), "{part}: {described}");
    }
    // The table of the nodes' health, by one command.
    let kubeconfig = shoot.control_plane.seed().operator_kubeconfig()?;
    let args = ["explain", cluster].map(str::to_owned);
    let explain = Operator::exactly(
        shoot.control_plane.seed(),
        "explain-pressed",
        &kubeconfig,
        &args,
        vec![],
    )?;
    ensure!(explain.process.ends(wait::LIMIT).await?.success());
    let told = explain.process.log()?;
    for part in [
        "State       UNHEALTHY since ",
        "            nodes                2/3\n",
        "            nodesPidPressure     0/3\n",
        "            nodesMemoryPressure  1/3\n",
        "            nodesDiskPressure    0/3\n",
    ] {
        ensure!(told.contains(part), "{part}: {told}");
    }

    node.set_condition("MemoryPressure", "False", "KubeletHasSufficientMemory")
        .await?;
    is_in(&shoot, "ONLINE").await
}

async fn e2e_the_states_of_an_outage_can_be_watched(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = env.shoot("watched").nodes(2).dependents(DEPENDENTS).await?;
    let observer = json!({"observer": {
        "backoffLimit": 3,
        "metricsProviders": [{
            "name": "metrics", "apiService": "v1.apps", "periodSeconds": 1,
        }],
    }});
    shoot.policy()?.with(&observer).apply().await?;
    is_in(&shoot, "ONLINE").await?;

    let records: Api<ClusterHealth> = Api::all(env.seed().await?.client()?);
    let only = format!("metadata.name={}", shoot.namespace());
    let events = records
        .watch(&WatchParams::default().fields(&only), "0")
        .await?;
    pin_mut!(events);
    let mut states: Vec<ClusterState> = Vec::new();
    let mut follow = async |until: ClusterState| -> Result<()> {
        while states.last() != Some(&until) {
            let event = timeout(wait::LIMIT, events.next()).await;
            let event = event.with_context(|| format!("{states:?}, and not {until:?}"))?;
            if let Some(WatchEvent::Added(record) | WatchEvent::Modified(record)) =
                event.transpose()?
                && let Some(state) = record.status.and_then(|status| status.state)
                && states.last() != Some(&state)
            {
                states.push(state);
            }
        }
        Ok(())
    };
    follow(ClusterState::Online).await?;
    shoot.stop_api_server();
    follow(ClusterState::Offline).await?;
    shoot.start_api_server().await?;
    follow(ClusterState::Online).await?;
    // It may be found on its way up, or be ONLINE again before CONNECTING is written.
    states.retain(|state| !matches!(state, ClusterState::Connecting | ClusterState::NotReady));
    let expected = [
        ClusterState::Online,
        ClusterState::Degraded,
        ClusterState::Offline,
        ClusterState::Online,
    ];
    ensure!(states == expected, "{states:?}");
    let status = shoot.control_plane.health().await?;
    let provider = status.checks.first().context("no provider of metrics")?;
    ensure!(provider.name == "metrics", "{provider:?}");
    Ok(())
}
