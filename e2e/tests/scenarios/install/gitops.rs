//! docs/gitops.md: Flux and Argo CD see each state as its table has it, and an API server accepts what is applied.

use super::super::Scenario;
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog_e2e::{
    Env, Seed, Verdict, gitops_definitions, verdicts,
    wait::{self, seen},
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

const SCRIPTS: &str = "manifests/examples/gitops/argocd/argocd-cm.yaml";

pub(super) fn all() -> Vec<Scenario> {
    crate::scenarios::scenarios![
        e2e_gitops_tools_see_every_state_as_documented: 0,
        e2e_the_server_accepts_every_folder_of_manifests: 0,
    ]
}

/// Objects of the second generation and what is made of them: kind; conditions; what else is so; what Flux, what
/// Argo CD, and what its message says.
const STATES: &str = "
ProbePolicy | | unseen | InProgress | Progressing | dependency-watchdog has yet to look at it
ProbePolicy | Ready=True:Probing | old | InProgress | Progressing | dependency-watchdog has yet to look at it
ProbePolicy | Ready=True:Probing Degraded=Unknown:FirstVerdicts | | Current | Progressing | FirstVerdicts
ProbePolicy | Ready=True:Probing Protecting=False:NoOutage Conflicted=False:NoConflict | | Current | Healthy | Probing
ProbePolicy | Ready=True:Probing Protecting=True:Outage Degraded=True:Undetermined | | Current | Healthy | \
    Probing; Outage; Undetermined
ProbePolicy | Ready=True:Probing Conflicted=True:Outranked | | Current | Healthy | Probing
ProbePolicy | Ready=True:Suspended | suspended | Current | Suspended | Suspended
ProbePolicy | Ready=True:DryRun Degraded=True:NotRestored | | Current | Healthy | DryRun; NotRestored
ProbePolicy | Ready=True:Probing Degraded=True:NothingJudged | | Current | Degraded | NothingJudged
ProbePolicy | Ready=False:Invalid Stalled=True:Invalid | | Failed | Degraded | Invalid
ProbePolicy | Ready=False:Deleting Reconciling=True:LettingGo | deleted | Terminating | Progressing | Deleting
ProbePolicy | | deleted | Terminating | Progressing | it is being deleted
ProbePolicy | Ready=False:Invalid Stalled=True:Invalid | suspended | Failed | Degraded | Invalid
WeedPolicy | | unseen | InProgress | Progressing | dependency-watchdog has yet to look at it
WeedPolicy | Ready=True:Watching Weeding=True:Recovery Degraded=True:DeletionRefused | \
    | Current | Healthy | Watching; Recovery; DeletionRefused
WeedPolicy | Ready=True:Suspended Weeding=False:Suspended | suspended | Current | Suspended | Suspended
WeedPolicy | Ready=False:Invalid Stalled=True:Invalid | | Failed | Degraded | Invalid
ClusterHealth | | unobserved | Current | Progressing | it is not probed yet
ClusterHealth | Ready=False:Pending | unobserved | InProgress | Progressing | it is not probed yet
ClusterHealth | Ready=True:Healthy Protecting=False:NotProtected | unobserved | Current | Healthy | Healthy
ClusterHealth | Ready=True:Outage Protecting=True:Protected | unobserved | Current | Progressing | Protected
ClusterHealth | Ready=True:Outage Protecting=True:Protected ProtectedTooLong=True:ProtectedTooLong | unobserved \
    | Current | Degraded | ProtectedTooLong
ClusterHealth | Ready=True:Hibernated Degraded=True:ProtectedUnprobed | unobserved \
    | Current | Degraded | ProtectedUnprobed
ClusterHealth | Ready=False:Timeout Degraded=True:Timeout | unobserved | InProgress | Degraded | Timeout
";

/// A row of the table: the object, and what is made of it.
fn state(row: &str) -> Result<(Value, Verdict)> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [kind, conditions, change, flux, argo, message] = cells[..] else {
        bail!("not six cells: {row}");
    };
    let conditions = conditions.split_whitespace().map(|condition| {
        let (kind, rest) = condition.split_once('=')?;
        let (status, reason) = rest.split_once(':')?;
        Some(json!({
            "type": kind, "status": status, "reason": reason, "message": reason,
            "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
    });
    let conditions: Option<Vec<Value>> = conditions.collect();
    let mut object = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": kind,
        "metadata": {"name": "tried", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": 2, "conditions": conditions.context("no condition")?},
    });
    let change = match change {
        "" => json!({}),
        "unseen" => json!({"status": {"observedGeneration": -1}}),
        "old" => json!({"status": {"observedGeneration": 1}}),
        "unobserved" => json!({"status": {"observedGeneration": null}}),
        "suspended" => json!({"spec": {"suspend": true}}),
        "deleted" => json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        other => bail!("what is {other}?"),
    };
    json_patch::merge(&mut object, &change);
    let [flux, argo, message] = [flux, argo, message].map(str::to_owned);
    Ok((
        object,
        Verdict {
            flux,
            argo,
            message,
        },
    ))
}

async fn e2e_gitops_tools_see_every_state_as_documented(_: Env) -> Result<()> {
    let states: Result<Vec<_>> = STATES.trim().lines().map(state).collect();
    let (objects, wanted): (Vec<Value>, Vec<Verdict>) = states?.into_iter().unzip();
    let found = verdicts(SCRIPTS, &objects).await?;
    for ((object, wanted), found) in objects.iter().zip(wanted).zip(found) {
        ensure!(found == wanted, "{object}: {found:?}, not {wanted:?}");
    }
    Ok(())
}

/// A seed with the kinds of Gardener, Flux, Argo CD and the Prometheus operator, and the namespaces that manifests name.
async fn with_foreign_kinds(env: &Env, name: &str) -> Result<Arc<Seed>> {
    let seed = env.bare_seed(name).await?;
    let kubectl = seed.kubectl();
    let definitions = tempfile::NamedTempFile::with_suffix(".yaml")?;
    std::fs::write(definitions.path(), gitops_definitions().await?)?;
    let path = definitions.path().display().to_string();
    for definitions in [&*path, "crds"] {
        kubectl
            .run(&["apply", "--server-side", "-f", definitions])
            .await?;
    }
    let established = ["--for=condition=Established", "--all", "--timeout=180s"];
    wait::until("the definitions to be established", async || {
        // It gives up on one that has no conditions yet.
        let wait = [&["wait", "crd"], &established[..]].concat();
        let answer = kubectl.try_run(&wait).await?;
        seen(answer.success, answer.stderr)
    })
    .await?;
    for namespace in ["argocd", "dependency-watchdog", "flux-system", "garden"] {
        kubectl.run(&["create", "namespace", namespace]).await?;
    }
    Ok(seed)
}

const DRY_RUN: [&str; 4] = [
    "apply",
    "--server-side",
    "--dry-run=server",
    "--validate=strict",
];

/// Every folder with manifests, and how kubectl takes it.
fn folders(folder: &Path, found: &mut Vec<(&'static str, String)>) -> Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut manifests = false;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        manifests |= path.extension().is_some_and(|it| it == "yaml");
        // Those of promtool are in `tests`.
        if path.is_dir() && !path.ends_with("tests") {
            folders(&path, found)?;
        }
    }
    let name = folder.strip_prefix(root)?.display().to_string();
    match folder.join("kustomization.yaml").is_file() {
        true => found.push(("-k", name)),
        false if manifests => found.push(("-f", name)),
        false => {}
    }
    Ok(())
}

async fn e2e_the_server_accepts_every_folder_of_manifests(env: Env) -> Result<()> {
    let seed = with_foreign_kinds(&env, "manifests").await?;
    let mut found = Vec::new();
    for folder in ["manifests", "docs/examples"] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        folders(&Path::new(root).join(folder), &mut found)?;
    }
    ensure!(found.len() > 15, "{found:?}");
    for (how, folder) in found {
        let command = [&DRY_RUN[..], &[how, &folder]].concat();
        let answer = seed.kubectl().run(&command).await;
        let answer = answer.with_context(|| format!("{folder} is refused"))?;
        ensure!(answer.contains("server dry run"), "{folder}: {answer}");
    }
    Ok(())
}
