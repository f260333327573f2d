//! What `explain` tells people and tools, and with which rights.

use super::{
    Scenario,
    prober::COUNTS,
    steps::{ELECTION, staffed},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Kubeconfig, Operator, Seed,
    wait::{self, Look, seen},
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The part of the role `view` that is there from the start. What the manifests add to it is a role
/// of its own as long as no controller aggregates them.
const VIEW: [&str; 2] = ["system:aggregate-to-view", "dependency-watchdog-view"];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_an_outage_is_explained_to_a_viewer,
        e2e_what_is_not_probed_is_explained_too,
    ]
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

    /// Asks for the account until it has this, and returns it.
    async fn is_given(&self, cluster: &str, expected: &[(&str, Value)]) -> Result<Value> {
        wait::until(&format!("an account with {expected:?}"), async || {
            let told = self.ask(&[cluster, "-o", "json"]).await?;
            ensure!(told.code == Some(0), "{told:?}");
            let account: Value =
                serde_json::from_str(&told.text).with_context(|| told.text.clone())?;
            let mut fields = expected.iter();
            Ok(
                match fields.all(|(pointer, value)| account.pointer(pointer) == Some(value)) {
                    true => Look::Met(account),
                    false => Look::Not(told.text),
                },
            )
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
                "is HEALTHY",
                "prober-0_",
                " leads; it renewed its Lease",
                "yes, by the policy shoots, every 1s",
                "elsewhere does not select the cluster: it asks for stage=live, and the cluster has \
                 no label stage",
                "in this order: kube-controller-manager, then machine-controller-manager, then \
                 cluster-autoscaler",
            ],
            &["Not read", "you may not", "Weed"],
        )
        .await?;
    let healthy = [("/state", json!("Healthy")), ("/unread", json!([]))];
    viewer.is_given("project/one", &healthy).await?;
    is_weeded(&seed, &viewer, cluster).await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    viewer
        .is_told(
            cluster,
            &[
                "is PROTECTED",
                "zones: zone-a ",
                "ScaledDown",
                "dependency-watchdog, ",
                "It is restored once fewer than 2 node leases are, or may be, expired",
                "scale deployment/kube-controller-manager --replicas=",
            ],
        )
        .await?;
    let account = viewer
        .is_given(cluster, &[("/state", json!("Protected"))])
        .await?;
    for (place, count) in COUNTS.into_iter().rev().enumerate() {
        for (field, expected) in [
            ("state", json!("Down")),
            ("owed", json!(count)),
            ("replicasSetBy/manager", json!("dependency-watchdog")),
        ] {
            let found = account.pointer(&format!("/dependents/{place}/{field}"));
            ensure!(found == Some(&expected), "{field} of {place}: {account}");
        }
    }
    // Whoever has no rights of their own can ask in the pod of the prober.
    let own = Reader::with(&seed, "own", seed.operator_kubeconfig()?);
    let alive = [
        ("/operator/state", json!("Alive")),
        ("/dependents/0/state", json!("Down")),
    ];
    own.is_given(cluster, &alive).await?;
    // Who may not read the dependents is told all else.
    stranger
        .is_told(
            cluster,
            &[
                "is PROTECTED",
                "deployment/kube-controller-manager: you may not read it: deployments.apps",
                "auth can-i get deployment/kube-controller-manager",
            ],
        )
        .await?;

    policy
        .clone()
        .with(&json!({"suspend": true}))
        .apply()
        .await?;
    viewer
        .is_told(
            cluster,
            &[
                "It is NOT PROBED (Suspended), and nothing restores them.",
                "the policy shoots is suspended",
                r#"--type=merge -p '{"spec":{"suspend":false}}'"#,
            ],
        )
        .await?;

    prober.process.kill();
    viewer
        .is_told(
            cluster,
            &[
                "NO PROBER IS ALIVE",
                "no prober is alive: prober-0_",
                "Nothing, until a prober runs again.",
                "get lease dwd-prober-leader-election",
            ],
        )
        .await?;
    let account = viewer
        .is_given(cluster, &[("/operator/state", json!("Silent"))])
        .await?;

    // What can be pasted works. Without a prober that is all that gives the replicas back.
    let commands = account.get("commands").and_then(Value::as_array);
    let commands = commands.context("no commands")?;
    let commands: Vec<&str> = commands
        .iter()
        .filter_map(|it| it.get("command")?.as_str())
        .collect();
    for command in &commands {
        if let Some(restore) = command.strip_prefix("dependency-watchdog ") {
            restores(&seed, restore).await?;
            continue;
        }
        let ran = seed.kubectl().script(command, &[]).await;
        ran.with_context(|| (*command).to_owned())?;
    }
    let restore = format!("dependency-watchdog restore {cluster}");
    ensure!(commands.contains(&&*restore), "{commands:?}");
    for (name, count) in DEPENDENTS.into_iter().zip(COUNTS) {
        shoot.dependent(name).is_ready(count).await?;
    }
    ensure!(
        !policy.get().await?.spec.suspend,
        "the policy is still suspended"
    );
    Ok(())
}

/// A policy that covers all namespaces is told of, and that no weeder is seen.
async fn is_weeded(seed: &Seed, viewer: &Reader<'_>, cluster: &str) -> Result<()> {
    let policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "WeedPolicy",
        "metadata": {"name": "weeds"},
        "spec": {"servicesAndDependantSelectors": {
            "etcd-main-client": {"podSelectors": [{"matchLabels": {"role": "apiserver"}}]},
        }},
    });
    seed.apply(&policy.to_string()).await?;
    viewer
        .is_told_without(
            cluster,
            &[
                "there is no Lease garden/dwd-weeder-leader-election: no weeder was started",
                "weeds covers the namespace",
                "for 5m after it has become ready: etcd-main-client",
            ],
            &["Not read", "you may not"],
        )
        .await?;
    let covers = [("/weeding/policies/0/cover", json!("Covers"))];
    viewer.is_given(cluster, &covers).await?;
    Ok(())
}

/// Restores by the command of an account, as an administrator who has said yes.
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

async fn e2e_what_is_not_probed_is_explained_too(env: Env) -> Result<()> {
    env.operator().await?;
    let seed = env.seed().await?;
    let shoot = staffed(env.shoot("unexplained")).await?;
    let cluster = shoot.namespace();
    let viewer = Reader::new(&seed, "reader", &VIEW).await?;
    viewer
        .is_told(cluster, &["is NOT PROBED: no policy selects it"])
        .await?;

    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    let asleep = json!({"spec": {"shoot": {
        "spec": {"hibernation": {"enabled": true}}, "status": {"hibernated": true},
    }}});
    shoot.control_plane.patch_cluster(asleep).await?;
    shoot.is_found("Hibernated").await?;
    viewer
        .is_told(
            cluster,
            &[
                "is NOT PROBED (Hibernated), so nothing protects it.",
                "spec.shoot.spec.hibernation.enabled is true",
                "there is no Lease garden/dwd-prober-leader-election",
            ],
        )
        .await?;

    let unknown = viewer.ask(&["shoot--e2e--unexplaned"]).await?;
    ensure!(
        unknown.code == Some(1)
            && unknown
                .text
                .contains("did you mean shoot--e2e--unexplained"),
        "{unknown:?}"
    );
    let nobody = Reader::new(&seed, "nobody", &[]).await?;
    let refused = nobody.ask(&[cluster]).await?;
    ensure!(
        refused.code == Some(2)
            && refused.text.contains("clusters.extensions.gardener.cloud")
            && refused.text.contains("is forbidden"),
        "{refused:?}"
    );
    let misspelt = nobody.ask(&["Shoot"]).await?;
    ensure!(misspelt.code == Some(2), "{misspelt:?}");
    // Nobody has changed anything by asking.
    wait::until("the dependents as they were", async || {
        let replicas = shoot
            .dependent("kube-controller-manager")
            .replicas()
            .await?;
        seen(replicas == COUNTS[0], replicas)
    })
    .await
}
