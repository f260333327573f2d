//! docs/gitops.md: Flux and Argo CD see each state as its table has it, and an API server accepts what is applied.

use super::super::Scenario;
use anyhow::{Context as _, Result, ensure};
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

/// An object of the second generation with this status, and what is made of it.
struct State {
    kind: &'static str,
    conditions: &'static [(&'static str, &'static str, &'static str)],
    change: Value,
    flux: &'static str,
    argo: &'static str,
    says: &'static str,
}

fn states() -> Vec<State> {
    let policy = |conditions, change, [flux, argo, says]: [&'static str; 3]| State {
        kind: "ProbePolicy",
        conditions,
        change,
        flux,
        argo,
        says,
    };
    let weeds = |conditions, change, verdict| State {
        kind: "WeedPolicy",
        ..policy(conditions, change, verdict)
    };
    let health = |conditions, verdict| State {
        kind: "ClusterHealth",
        ..policy(
            conditions,
            json!({"status": {"observedGeneration": null}}),
            verdict,
        )
    };
    let none = || json!({});
    let unseen = || json!({"status": {"observedGeneration": -1}});
    let old = || json!({"status": {"observedGeneration": 1}});
    let suspended = || json!({"spec": {"suspend": true}});
    let deleted = || json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let yet = "dependency-watchdog has yet to look at it";
    vec![
        policy(&[], unseen(), ["InProgress", "Progressing", yet]),
        policy(
            &[("Ready", "True", "Probing")],
            old(),
            ["InProgress", "Progressing", yet],
        ),
        policy(
            &[
                ("Ready", "False", "Reconciling"),
                ("Reconciling", "True", "FirstProbes"),
            ],
            none(),
            ["InProgress", "Progressing", "FirstProbes"],
        ),
        policy(
            &[
                ("Ready", "True", "Probing"),
                ("Protecting", "False", "NoOutage"),
                ("Degraded", "False", "AsExpected"),
                ("Conflicted", "False", "NoConflict"),
            ],
            none(),
            ["Current", "Healthy", "Probing"],
        ),
        policy(
            &[
                ("Ready", "True", "Probing"),
                ("Protecting", "True", "Outage"),
                ("Degraded", "True", "Undetermined"),
                ("WidespreadOutage", "True", "SilentAtOnce"),
            ],
            none(),
            [
                "Current",
                "Healthy",
                "Probing; SilentAtOnce; Outage; Undetermined",
            ],
        ),
        policy(
            &[
                ("Ready", "True", "Probing"),
                ("Conflicted", "True", "Outranked"),
            ],
            none(),
            ["Current", "Healthy", "Probing"],
        ),
        policy(
            &[("Ready", "True", "Suspended")],
            suspended(),
            ["Current", "Suspended", "Suspended"],
        ),
        policy(
            &[
                ("Ready", "True", "DryRun"),
                ("Degraded", "True", "NotRestored"),
            ],
            none(),
            ["Current", "Healthy", "DryRun; NotRestored"],
        ),
        policy(
            &[
                ("Ready", "False", "NothingJudged"),
                ("Degraded", "True", "Undetermined"),
            ],
            none(),
            ["InProgress", "Degraded", "NothingJudged"],
        ),
        policy(
            &[
                ("Ready", "False", "Invalid"),
                ("Stalled", "True", "Invalid"),
            ],
            none(),
            ["Failed", "Degraded", "Invalid"],
        ),
        policy(
            &[
                ("Ready", "False", "Deleting"),
                ("Reconciling", "True", "LettingGo"),
            ],
            deleted(),
            ["Terminating", "Progressing", "Deleting"],
        ),
        policy(
            &[],
            deleted(),
            ["Terminating", "Progressing", "it is being deleted"],
        ),
        // What is wrong comes before what is wanted.
        policy(
            &[
                ("Ready", "False", "Invalid"),
                ("Stalled", "True", "Invalid"),
            ],
            suspended(),
            ["Failed", "Degraded", "Invalid"],
        ),
        weeds(&[], unseen(), ["InProgress", "Progressing", yet]),
        weeds(
            &[
                ("Ready", "True", "Watching"),
                ("Weeding", "True", "Recovery"),
                ("Degraded", "True", "DeletionRefused"),
            ],
            none(),
            ["Current", "Healthy", "Watching; Recovery; DeletionRefused"],
        ),
        weeds(
            &[
                ("Ready", "True", "Suspended"),
                ("Weeding", "False", "Suspended"),
            ],
            suspended(),
            ["Current", "Suspended", "Suspended"],
        ),
        weeds(
            &[
                ("Ready", "False", "Invalid"),
                ("Stalled", "True", "Invalid"),
            ],
            none(),
            ["Failed", "Degraded", "Invalid"],
        ),
        health(&[], ["Current", "Progressing", "it is not probed yet"]),
        health(
            &[("Ready", "False", "Pending")],
            ["InProgress", "Progressing", "it is not probed yet"],
        ),
        health(
            &[
                ("Ready", "True", "Healthy"),
                ("Protecting", "False", "NotProtected"),
            ],
            ["Current", "Healthy", "Healthy"],
        ),
        health(
            &[
                ("Ready", "True", "Outage"),
                ("Protecting", "True", "Protected"),
            ],
            ["Current", "Progressing", "Protected"],
        ),
        health(
            &[
                ("Ready", "True", "Outage"),
                ("Protecting", "True", "Protected"),
                ("ProtectedTooLong", "True", "ProtectedTooLong"),
            ],
            ["Current", "Degraded", "ProtectedTooLong"],
        ),
        health(
            &[
                ("Ready", "True", "Hibernated"),
                ("Degraded", "True", "ProtectedUnprobed"),
            ],
            ["Current", "Degraded", "ProtectedUnprobed"],
        ),
        health(
            &[
                ("Ready", "False", "Timeout"),
                ("Degraded", "True", "Timeout"),
            ],
            ["InProgress", "Degraded", "Timeout"],
        ),
    ]
}

async fn e2e_gitops_tools_see_every_state_as_documented(_: Env) -> Result<()> {
    let states = states();
    let objects: Vec<Value> = states
        .iter()
        .map(|state| {
            let conditions = state.conditions.iter().map(|(kind, status, reason)| {
                json!({"type": kind, "status": status, "reason": reason, "message": reason,
                    "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"})
            });
            let mut object = json!({
                "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
                "kind": state.kind,
                "metadata": {"name": "tried", "generation": 2},
                "spec": {},
                "status": {"observedGeneration": 2, "conditions": conditions.collect::<Vec<_>>()},
            });
            json_patch::merge(&mut object, &state.change);
            object
        })
        .collect();
    for ((state, object), found) in states
        .iter()
        .zip(&objects)
        .zip(verdicts(SCRIPTS, &objects).await?)
    {
        let wanted = Verdict {
            flux: state.flux.to_owned(),
            argo: state.argo.to_owned(),
            message: state.says.to_owned(),
        };
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
