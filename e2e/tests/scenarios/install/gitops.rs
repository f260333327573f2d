//! docs/gitops.md: its commands wait for what they say, Flux and Argo CD see each state as its table has
//! it, and the examples are what these two accept.

use super::super::{
    Scenario,
    steps::{staffed, taken},
};
use super::{COUNTS, all_are_restored, are};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    Env, Operator, Seed, Verdict, gitops_definitions, verdicts,
    wait::{self, seen},
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

const GUIDE: &str = include_str!("../../../../docs/gitops.md");
const SCRIPTS: &str = "manifests/examples/gitops/argocd/argocd-cm.yaml";

pub(super) fn all() -> Vec<Scenario> {
    crate::scenarios::scenarios![
        e2e_gitops_tools_see_every_state_as_documented: 0,
        e2e_gitops_examples_are_what_flux_and_argo_cd_accept,
        e2e_the_server_accepts_every_folder_of_manifests: 0,
        e2e_kubectl_waits_for_policies_as_documented,
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

async fn e2e_gitops_examples_are_what_flux_and_argo_cd_accept(env: Env) -> Result<()> {
    let seed = with_foreign_kinds(&env, "gitops").await?;
    let kubectl = seed.kubectl();
    let dry_run = [&DRY_RUN[..], &["-f"]].concat();
    for (folder, count) in [("argocd", 2), ("flux", 5)] {
        let folder = format!("manifests/examples/gitops/{folder}");
        let applied = kubectl.run(&[&dry_run[..], &[&folder]].concat()).await?;
        ensure!(applied.lines().count() == count, "{applied}");

        // Each field is asked about: one letter more, and it is refused.
        for file in std::fs::read_dir(format!("{}/../{folder}", env!("CARGO_MANIFEST_DIR")))? {
            let text = std::fs::read_to_string(file?.path())?;
            let specs = text.matches("\nspec:\n").count();
            let wrong = tempfile::NamedTempFile::with_suffix(".yaml")?;
            let text = text.replace("\nspec:\n", "\nspec:\n  intervall: 1m\n");
            std::fs::write(wrong.path(), text)?;
            let path = wrong.path().display().to_string();
            let answer = kubectl.try_run(&[&dry_run[..], &[&path]].concat()).await?;
            let refused = answer.stderr.matches("spec.intervall").count();
            ensure!(refused == specs, "{answer:?}");
        }
    }
    // What the Application and the Kustomization name is there.
    let root = format!("{}/..", env!("CARGO_MANIFEST_DIR"));
    for file in [
        "argocd/application.yaml",
        "flux/operator.yaml",
        "flux/policies.yaml",
    ] {
        let text = std::fs::read_to_string(format!("{root}/manifests/examples/gitops/{file}"))?;
        let paths = text
            .lines()
            .filter_map(|it| it.trim().strip_prefix("path: "));
        let paths: Vec<&str> = paths.collect();
        ensure!(!paths.is_empty(), "{file} names no path");
        for path in paths {
            let there = std::path::Path::new(&root).join(path).is_dir();
            ensure!(there, "{file}: {path}");
        }
    }
    // The scripts join what the ConfigMap has.
    let there = [
        "-n",
        "argocd",
        "create",
        "configmap",
        "argocd-cm",
        "--from-literal=url=x",
    ];
    kubectl.run(&there).await?;
    let apply = "kubectl apply --server-side -f manifests/examples/gitops/argocd/argocd-cm.yaml";
    documented(&seed, apply).await?;
    let data = [
        "-n",
        "argocd",
        "get",
        "configmap",
        "argocd-cm",
        "-o",
        "json",
    ];
    let data: Value = serde_json::from_str(&kubectl.run(&data).await?)?;
    let data = data
        .get("data")
        .and_then(Value::as_object)
        .context("no data")?;
    ensure!(data.len() == 4 && data.contains_key("url"), "{data:?}");
    Ok(())
}

/// Runs a command of the page, as it stands there.
async fn documented(seed: &Seed, command: &str) -> Result<String> {
    ensure!(
        GUIDE.lines().any(|line| line == command),
        "docs/gitops.md does not have: {command}"
    );
    seed.kubectl().script(command, &[]).await
}

/// What is made of a policy as it is now.
async fn verdict(seed: &Seed, kind: &str) -> Result<Verdict> {
    let object = seed
        .kubectl()
        .run(&["get", kind, "shoots", "-o", "json"])
        .await?;
    let found = verdicts(SCRIPTS, &[serde_json::from_str(&object)?]).await?;
    found.into_iter().next().context("no verdict")
}

async fn is(seed: &Seed, kind: &str, flux: &str, argo: &str) -> Result<String> {
    let found = verdict(seed, kind).await?;
    ensure!(
        found.flux == flux && found.argo == argo,
        "{kind}: {found:?}"
    );
    Ok(found.message)
}

const ESTABLISHED: &str = "kubectl wait --for=condition=Established crd \
     -l app.kubernetes.io/name=dependency-watchdog --timeout=60s";
const AVAILABLE: &str = "kubectl -n garden wait --for=condition=Available deployment \
     -l app.kubernetes.io/name=dependency-watchdog --timeout=120s";
const READY: &str = "kubectl wait --for=condition=Ready probepol,weedpol --all --timeout=120s";
const CALM: &str = "kubectl wait --for=condition=Protecting=false probepol --all --timeout=30m";

async fn e2e_kubectl_waits_for_policies_as_documented(env: Env) -> Result<()> {
    let seed = env.own_seed("gitops-waits").await?;
    let shoot = staffed(env.shoot("gitops").on(&seed)).await?;
    let grace = json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "8s"}});
    let patch = json!({"spec": {"shoot": {"spec": {"kubernetes": grace}}}});
    shoot.control_plane.patch_cluster(patch).await?;
    let established = documented(&seed, ESTABLISHED).await?;
    ensure!(established.lines().count() == 3, "{established}");
    let available = documented(&seed, AVAILABLE).await?;
    ensure!(available.lines().count() == 2, "{available}");

    documented(&seed, "dependency-watchdog check -f docs/examples").await?;
    let dry_run = "kubectl apply --server-side --dry-run=server -k docs/examples";
    documented(&seed, dry_run).await?;
    let apply = ["apply", "--server-side", "-k", "docs/examples"];
    seed.kubectl().run(&apply).await?;
    // Nobody has seen them, so nobody takes them for done.
    for kind in ["probepol", "weedpol"] {
        is(&seed, kind, "InProgress", "Progressing").await?;
    }
    let prober = Operator::start(&seed, "prober", "prober", &[])?;
    let weeder = Operator::start(&seed, "weeder", "weeder", &[])?;
    documented(&seed, READY).await?;
    for kind in ["probepol", "weedpol"] {
        is(&seed, kind, "Current", "Healthy").await?;
    }
    let patch = |spec: &'static str| {
        [
            "patch",
            "probepol,weedpol",
            "shoots",
            "--type=merge",
            "-p",
            spec,
        ]
    };
    seed.kubectl()
        .run(&patch(r#"{"spec":{"suspend":true}}"#))
        .await?;
    documented(&seed, READY).await?;
    for kind in ["probepol", "weedpol"] {
        is(&seed, kind, "Current", "Suspended").await?;
    }
    let act = r#"{"spec":{"suspend":false,"mode":"Enforce"}}"#;
    seed.kubectl().run(&patch(act)).await?;
    documented(&seed, READY).await?;
    documented(&seed, CALM).await?;

    // One that protects is well, and says so; deleted, it goes when all is given back.
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(&shoot, COUNTS.map(taken)).await?;
    wait::until("the policy to tell of the outage", async || {
        let found = verdict(&seed, "probepol").await?;
        let told = found.flux == "Current"
            && found.argo == "Healthy"
            && found.message.contains(shoot.namespace());
        seen(told, format!("{found:?}"))
    })
    .await?;
    documented(&seed, "kubectl delete probepol --all --wait=false").await?;
    wait::until("its deletion to be told", async || {
        let found = verdict(&seed, "probepol").await?;
        let told = found.flux == "Terminating"
            && found.argo == "Progressing"
            && found.message.contains(shoot.namespace());
        seen(told, format!("{found:?}"))
    })
    .await?;
    shoot.restore_all();
    documented(
        &seed,
        "kubectl wait --for=delete probepol --all --timeout=30m",
    )
    .await?;
    all_are_restored(&shoot).await?;
    for operator in [prober, weeder] {
        let exit = operator.process.terminate(wait::LIMIT).await?;
        ensure!(exit.success(), "{exit}");
    }
    Ok(())
}
