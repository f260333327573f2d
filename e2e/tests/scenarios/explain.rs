//! What `explain` tells people and tools, and with which rights.

use super::{
    Scenario,
    prober::COUNTS,
    steps::{ELECTION, staffed},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Kubeconfig, Operator, Seed,
    wait::{self, seen},
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of the role `view` that is there from the start. What the manifests add to it is a role
/// of its own as long as no controller aggregates them.
const VIEW: [&str; 2] = ["system:aggregate-to-view", "dependency-watchdog-view"];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_an_outage_is_explained_to_a_viewer,]
}

/// Somebody who wants to know.
struct Reader<'a> {
    seed: &'a Seed,
    kubeconfig: Kubeconfig,
    name: String,
    asked: AtomicUsize,
}

/// What came of a question.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    text: String,
}

impl<'a> Reader<'a> {
    /// A user with these ClusterRoles.
    async fn new(seed: &'a Seed, name: &str, roles: &[&str]) -> Result<Self> {
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "garden"},
        })];
        objects.extend(roles.iter().map(|role| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{name}-{}", role.replace(':', "-"))},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
                },
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "garden"}],
            })
        }));
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        seed.apply(&documents.join("\n---\n")).await?;
        let create = ["create", "token", name, "-n", "garden"];
        let token = seed.kubectl().run(&create).await?;
        let kubeconfig = Kubeconfig {
            user: name.to_owned(),
            token: token.trim().to_owned(),
            ..seed.operator_kubeconfig()?
        };
        Ok(Self::with(seed, name, kubeconfig))
    }

    fn with(seed: &'a Seed, name: &str, kubeconfig: Kubeconfig) -> Self {
        Self {
            seed,
            kubeconfig,
            name: name.to_owned(),
            asked: AtomicUsize::new(0),
        }
    }

    async fn ask(&self, args: &[&str]) -> Result<Told> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let name = format!("explain-{}-{number}", self.name);
        let args: Vec<String> = ["explain"]
            .iter()
            .chain(args)
            .map(|it| (*it).to_owned())
            .collect();
        let command = Operator::exactly(self.seed, &name, &self.kubeconfig, &args, vec![])?;
        let code = command.process.ends(wait::LIMIT).await?.code();
        let text = command.process.log()?;
        Ok(Told { code, text })
    }

    /// Asks until this is told.
    async fn is_told(&self, cluster: &str, parts: &[&str]) -> Result<()> {
        self.is_told_without(cluster, parts, &[]).await
    }

    /// Asks until this is told, and nothing of that: what is new may not be readable yet, and says so.
    async fn is_told_without(&self, cluster: &str, parts: &[&str], absent: &[&str]) -> Result<()> {
        let what = format!("{cluster} to be explained by {parts:?}");
        wait::until(&what, async || {
            let Told { code, text } = self.ask(&[cluster]).await?;
            // Lines are wrapped.
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_there = |part: &&str| line.contains(*part);
            let met = code == Some(0) && parts.iter().all(is_there) && !absent.iter().any(is_there);
            seen(met, format!("{code:?} {text}"))
        })
        .await
    }
}

async fn e2e_an_outage_is_explained_to_a_viewer(env: Env) -> Result<()> {
    let seed = env.own_seed("explained").await?;
    let prober = Operator::replica(
        &seed,
        "prober-0",
        "prober",
        &seed.operator_kubeconfig()?,
        &ELECTION,
    )?;
    let shoot = staffed(env.shoot("one").project("project").on(&seed)).await?;
    let selector = json!({"clusterSelector": {"matchLabels": {"scenario": "one"}}});
    let policy = shoot.policy()?.named("shoots").with(&selector);
    policy.apply().await?;
    let elsewhere = json!({"clusterSelector": {"matchLabels": {"stage": "live"}}});
    policy
        .clone()
        .named("elsewhere")
        .with(&elsewhere)
        .apply()
        .await?;
    shoot.is_found("Healthy").await?;

    let cluster = shoot.namespace();
    let viewer = Reader::new(&seed, "viewer", &VIEW).await?;
    let stranger = Reader::new(&seed, "stranger", &VIEW[1..]).await?;
    // A kind that is this new may be answered by 429 yet.
    viewer
        .is_told_without(
            cluster,
            &[
                "is Healthy; protection: None.",
                "prober-0_",
                " leads; it renewed its Lease",
                "shoots applies (priority 0)",
                "elsewhere does not select the cluster: it asks for scenario=one,stage=live, and finds ",
            ],
            &["Not read", "Weed"],
        )
        .await?;
    is_weeded(&seed, &viewer, cluster).await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    let owed = format!("deployment/kube-controller-manager 0 {} yes", COUNTS[0]);
    viewer
        .is_told(
            cluster,
            &[
                "is Outage; protection: Active since ",
                "zones: zone-a ",
                "Done ScaledDown",
                &owed,
                &format!("dependency-watchdog restore {cluster}"),
            ],
        )
        .await?;
    // Whoever has no rights of their own can ask in the pod of the prober.
    let own = Reader::with(&seed, "own", seed.operator_kubeconfig()?);
    own.is_told("project/one", &["prober-0_", &owed]).await?;
    // Who may not read the dependents is told everything else.
    stranger
        .is_told(
            cluster,
            &[
                "is Outage; protection: Active since ",
                "Not read",
                "deployment/kube-controller-manager: deployments.apps",
            ],
        )
        .await?;

    policy
        .clone()
        .with(&json!({"suspend": true}))
        .apply()
        .await?;
    let suspended = "shoots applies (priority 0); it is suspended, so nothing is done";
    viewer
        .is_told(cluster, &[suspended, "Seen Suspended"])
        .await?;

    prober.process.kill();
    let dead = "no prober is alive, so nothing is done: prober-0_";
    viewer.is_told(cluster, &[dead]).await?;

    // Without a prober the command is all that gives the replicas back.
    restores(&seed, &format!("restore {cluster}")).await?;
    for (name, count) in DEPENDENTS.into_iter().zip(COUNTS) {
        shoot.dependent(name).is_ready(count).await?;
    }
    Ok(())
}

/// A policy that covers all namespaces is told of.
async fn is_weeded(seed: &Seed, viewer: &Reader<'_>, cluster: &str) -> Result<()> {
    let policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "WeedPolicy",
        "metadata": {"name": "weeds"},
        "spec": {"mode": "Enforce", "servicesAndDependantSelectors": {
            "etcd-main-client": {"podSelectors": [{"matchLabels": {"role": "apiserver"}}]},
        }},
    });
    seed.apply(&policy.to_string()).await?;
    viewer
        .is_told_without(
            cluster,
            &["weeds covers the namespace (mode Enforce): etcd-main-client"],
            &["Not read"],
        )
        .await
}

/// Restores by the command of a page, as an administrator who has said yes.
async fn restores(seed: &Seed, command: &str) -> Result<()> {
    let args: Vec<String> = command
        .split(' ')
        .chain(["--yes"])
        .map(str::to_owned)
        .collect();
    let admin = seed.server().kubeconfig_of("admin")?;
    let ran = Operator::exactly(seed, "explained-restore", &admin, &args, Vec::new())?;
    let code = ran.process.ends(wait::LIMIT).await?.code();
    ensure!(code == Some(0), "{command}: {}", ran.process.log()?);
    Ok(())
}
