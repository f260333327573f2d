//! The main job: a cluster whose nodes fall silent is protected, and restored.

use super::{
    Scenario,
    steps::{CA, KCM, MCM, answers, are, counts, owed, shown, staffed, taken},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::Protection,
    prober::step::{MARK, RECORD},
};
use dependency_watchdog_e2e::{DEPENDENTS, Env, Operator, Shoot, free_port, wait};
use serde_json::json;
use std::time::Duration;

/// What Kubernetes grants by default to a process that is to end.
const TERMINATION: Duration = Duration::from_secs(30);

/// What each dependent has before the outage, in the order of [`DEPENDENTS`].
pub(super) const COUNTS: [i32; 3] = [2, 3, 1];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_an_outage_is_survived_with_every_count_restored]
}

/// A shoot of so many nodes whose dependents have [`COUNTS`] replicas, with its policy applied.
pub(super) async fn watched(env: &Env, name: &str, nodes: usize) -> Result<Shoot> {
    let shoot = env.shoot(name).nodes(nodes).dependents(DEPENDENTS).await?;
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        shoot.dependent(dependent).scale(count).await?;
        shoot.dependent(dependent).is_ready(count).await?;
    }
    shoot.policy()?.apply().await?;
    Ok(shoot)
}

/// Each has what it had; what is back may keep its mark for a minute.
pub(super) async fn all_are_restored(shoot: &Shoot) -> Result<()> {
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        let dependent = shoot.dependent(dependent);
        dependent.is_ready(count).await?;
        ensure!(dependent.replicas().await? == count);
        let record = dependent.annotation(RECORD).await?;
        ensure!(
            record.is_none_or(|record| record == count.to_string()),
            "another record is left"
        );
    }
    Ok(())
}

/// Waits until no mark and no record is left.
async fn marks_fall(shoot: &Shoot) -> Result<()> {
    wait::seldom(wait::LIMIT, "the marks to fall", async || {
        let mut left = Vec::new();
        for dependent in DEPENDENTS {
            for annotation in [MARK, RECORD] {
                left.extend(shoot.dependent(dependent).annotation(annotation).await?);
            }
        }
        wait::seen(left.is_empty(), format!("{left:?}"))
    })
    .await
}

/// The dependents that the operator has patched in this shoot's namespace, in order.
pub(super) fn patched(shoot: &Shoot) -> Result<Vec<String>> {
    let requests = shoot.control_plane.seed().operator_requests()?;
    let patches = requests.into_iter().filter(|request| {
        request.verb == "patch"
            && request.resource == "deployments"
            && request.namespace == shoot.namespace()
            && request.code == 200
    });
    Ok(patches.map(|request| request.name).collect())
}

/// As somebody sees it who has nothing but kubectl and the endpoints.
async fn e2e_an_outage_is_survived_with_every_count_restored(env: Env) -> Result<()> {
    let seed = env.own_seed("outage").await?;
    let port = free_port()?;
    let endpoints = ["metrics", "health"].map(|it| format!("--{it}-bind-addr=127.0.0.1:{port}"));
    let endpoints = endpoints.each_ref().map(String::as_str);
    let operator = Operator::start(&seed, "prober", "prober", &endpoints)?;
    for path in ["/healthz", "/readyz"] {
        answers(port, path, 200).await?;
    }
    counts(port, "leader 1").await?;
    let shoot = staffed(env.shoot("outage").nodes(3).on(&seed)).await?;
    let observer = json!({"observer": {"nodeInterval": "10s"}});
    shoot.policy()?.with(&observer).apply().await?;
    shoot.is_found("Healthy").await?;
    counts(port, r#"clusters{state="judged"} 1"#).await?;
    pressure_is_shown(&shoot).await?;
    ensure!(patched(&shoot)?.is_empty(), "a healthy cluster was touched");

    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    ensure!(status.reason.as_deref() == Some("Outage"), "{status:?}");
    are(&shoot, COUNTS.map(taken)).await?;
    let down = patched(&shoot)?;
    ensure!(down == DEPENDENTS, "not in order: {down:?}");
    for line in ["protected_clusters 1", "reaction_seconds_count 1"] {
        counts(port, line).await?;
    }
    the_outage_is_told(&shoot).await?;

    shoot.restore_all();
    let status = shoot.is_protected(Protection::None).await?;
    ensure!(owed(&status).is_empty(), "{status:?}");
    all_are_restored(&shoot).await?;
    let up = patched(&shoot)?.split_off(DEPENDENTS.len());
    ensure!(
        up.iter().rev().eq(DEPENDENTS.iter()),
        "not in order: {up:?}"
    );
    the_recovery_is_told(&shoot).await?;
    marks_fall(&shoot).await?;
    all_are_restored(&shoot).await?;

    // A seed that answers nothing any more keeps it no longer than Kubernetes waits.
    seed.server().pause()?;
    let ended = operator.process.terminate(TERMINATION).await;
    seed.server().resume()?;
    let ended = ended?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}

/// What kubectl shows of a cluster that is well, and of one of whose nodes one has too little memory.
async fn pressure_is_shown(shoot: &Shoot) -> Result<()> {
    let (cluster, kubectl) = (shoot.namespace(), shoot.control_plane.seed().kubectl());
    is_in(shoot, "ONLINE").await?;
    let table = kubectl.run(&["get", "chealth", cluster]).await?;
    let rows = columns(&table);
    let head = "NAME STATE NODES PROTECTION PROTECTED POLICY EXPIRED LEASES REASON AGE";
    ensure!(
        rows.first().is_some_and(|row| row.join(" ") == head),
        "{table}"
    );
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
    is_in(shoot, "UNHEALTHY").await?;
    let wide = ["get", "chealth", cluster, "-o", "wide"];
    let table = kubectl.run(&wide).await?;
    let rows = columns(&table);
    let head_and_row = rows.first().zip(rows.get(1));
    let (head, row) = head_and_row.with_context(|| table.clone())?;
    let cells: Vec<_> = head.iter().zip(row).collect();
    for cell in [
        (&"STATE", &"UNHEALTHY"),
        (&"NODES", &"2/3"),
        (&"PID PRESSURE", &"0/3"),
        (&"MEMORY PRESSURE", &"1/3"),
        (&"DISK PRESSURE", &"0/3"),
    ] {
        ensure!(cells.contains(&cell), "{cell:?}: {table}");
    }
    let described = kubectl.run(&["describe", "chealth", cluster]).await?;
    for part in [node.name(), "MemoryPressure", "Unhealthy Nodes:"] {
        ensure!(described.contains(part), "{part}: {described}");
    }
    node.set_condition("MemoryPressure", "False", "KubeletHasSufficientMemory")
        .await?;
    is_in(shoot, "ONLINE").await
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

async fn the_outage_is_told(shoot: &Shoot) -> Result<()> {
    let (seed, namespace) = (shoot.control_plane.seed(), shoot.namespace());
    for (name, count) in DEPENDENTS.into_iter().zip(COUNTS) {
        let down = format!("scaled from {count} to 0 replicas for policy {namespace}: ");
        let dependent = ["describe", "deployment", name, "-n", namespace];
        let line = ["Warning", "ScaledDown", "dependency-watchdog-prober", &down];
        shown(seed, &dependent, &[&line]).await?;
    }
    let protecting = [
        "Warning",
        "ScalingDown",
        "node leases that count are expired",
    ];
    let until = "scaled to zero until the leases are fresh again";
    let record = ["describe", "clusterhealth", namespace];
    shown(
        seed,
        &record,
        &[&protecting, &["Normal", "Protected", until]],
    )
    .await?;
    let policy = ["describe", "probepolicy", namespace];
    shown(seed, &policy, &[&["Warning", "Outage", namespace]]).await
}

async fn the_recovery_is_told(shoot: &Shoot) -> Result<()> {
    let (seed, namespace) = (shoot.control_plane.seed(), shoot.namespace());
    let back = ["Normal", "Restored", "scaled back: "];
    let record = ["describe", "clusterhealth", namespace];
    shown(seed, &record, &[&["Normal", "Restoring"], &back]).await?;
    let policy = ["describe", "probepolicy", namespace];
    shown(seed, &policy, &[&["Normal", "NoOutage"]]).await?;
    // All that was told in the shoot's namespace, once each.
    let list = ["get", "events", "-n", namespace, "--field-selector"];
    let ours = "reportingComponent=dependency-watchdog-prober";
    let columns = "custom-columns=:reason,:involvedObject.name";
    let list = [&list[..], &[ours, "-o", columns]].concat();
    let up = [
        &["ScaledUp", KCM][..],
        &["ScaledUp", MCM],
        &["ScaledUp", CA],
    ];
    shown(seed, &list, &up).await?;
    let listed = seed.kubectl().run(&list).await?;
    let count = listed
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    ensure!(count == 2 * DEPENDENTS.len(), "{listed}");
    Ok(())
}
