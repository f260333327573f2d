//! The first act: a shoot is healthy, loses its network, is protected, and gets everything back; then
//! its API server goes down, for which nothing is scaled. Its states are watched from the first outage on.

use crate::demo::{
    Findings,
    evidence::{self, seconds},
    narrator::{Narrator, Prompt},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{ClusterCounts, ClusterHealthStatus, ClusterState, ProbePolicy, Protection},
    prober::step::{MARK, RECORD},
};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Seed, Shoot, Watching,
    wait::{Look, seen},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{Api, api::ListParams};
use std::{io::Write, sync::Arc, time::Duration};
use tokio_util::task::AbortOnDropHandle;

/// Applied with kubectl from the repository's root.
const POLICY_FILE: &str = "e2e/src/bin/lab/demo/probe-policy.yaml";
const POLICY: &str = include_str!("probe-policy.yaml");
const POLICY_NAME: &str = "shoots";

/// Arguments of kubectl.
const HISTORY: &str = "get clusterhealths -w";

const NODES: usize = 5;
/// How many of them make an outage: six of ten, the policy's default.
const FRACTION: usize = 3;
/// What each dependent has before the outage, in the order of [`DEPENDENTS`].
const COUNTS: [i32; 3] = [2, 3, 1];

/// A fifth of a real one, so that a minute is enough: kubelets renew every 2 s.
const LEASE: Duration = Duration::from_secs(8);
/// Of kube-controller-manager, and the policy's.
const GRACE: Duration = Duration::from_secs(20);
/// Three quarters of the grace.
const EXPIRY: Duration = Duration::from_secs(15);
/// How long pods take to come and to go.
const PODS: Duration = Duration::from_millis(300);

/// Whatever a step waits for. Twice as long as the slowest takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// All that plays a part.
struct Stage {
    shoot: Shoot,
    operator: Operator,
    at_seed: Prompt,
    at_shoot: Prompt,
    findings: Findings,
}

/// Tells it. Fails with what did not happen, in which step.
pub(crate) async fn tell<W: Write>(env: &Env, narrator: &mut Narrator<W>) -> Result<Findings> {
    let mut stage = start(env, narrator)
        .await
        .context("step 1, the start, failed")?;
    stage
        .is_healthy(narrator)
        .await
        .context("step 2, a healthy cluster, failed")?;
    let history = stage
        .at_seed
        .kubectl
        .watch(&HISTORY.split(' ').collect::<Vec<_>>())?;
    stage
        .breaks(narrator)
        .await
        .context("step 3, the network breaks, failed")?;
    stage
        .recovers(narrator)
        .await
        .context("step 4, the network is back, failed")?;
    stage
        .goes_down(narrator, &history)
        .await
        .context("step 5, the API server goes down, failed")?;
    Ok(stage.findings)
}

async fn start<W: Write>(env: &Env, narrator: &mut Narrator<W>) -> Result<Stage> {
    narrator.step("A seed and a shoot start")?;
    narrator.note(
        "A seed hosts the control planes of other clusters, called shoots.\n\
         real       etcd, both API servers, the shoot's kube-controller-manager, kubectl, the operator\n\
         simulated  the kubelets, and the seed's Deployments: pods come and go in 0.3 s\n\
         faster     leases of 8 s and a grace of 20 s, both 40 s in real life\n\
         sooner     machine-controller-manager waits for 2 s before it comes back, 30 s in real life",
    )?;
    let seed = env.seed().await?;
    narrator
        .now("the seed's API server is ready, with the kinds of Gardener and of the operator")?;
    let shoot = env.shoot("berlin").project("garden").nodes(NODES);
    let shoot = shoot
        .lease_duration(LEASE)
        .controller_manager(GRACE)
        .await?;
    shoot.control_plane.delay_pods(PODS);
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        let created = shoot.control_plane.create_dependent(dependent, count);
        created.await?;
    }
    evidence::is_managed(shoot.client()?, LIMIT).await?;
    narrator.now(&format!(
        "the shoot {} has {NODES} nodes, each with a lease and a Machine",
        shoot.namespace()
    ))?;
    let operator = start_operator(&seed)?;
    narrator.now("the operator starts, with the rights that manifests/prober grants")?;
    Ok(Stage {
        at_seed: Prompt {
            cluster: "seed",
            kubectl: seed.kubectl().clone(),
        },
        at_shoot: Prompt {
            cluster: "shoot",
            kubectl: shoot.kubectl()?,
        },
        shoot,
        operator,
        findings: Findings::new(),
    })
}

fn start_operator(seed: &Arc<Seed>) -> Result<Operator> {
    Operator::start(seed, "operator", "prober", &[])
}

impl Stage {
    async fn is_healthy<W: Write>(&mut self, narrator: &mut Narrator<W>) -> Result<()> {
        narrator.step("All is well")?;
        narrator
            .note("A policy says which clusters are watched, and what is scaled in an outage:")?;
        narrator.file(POLICY_FILE, POLICY)?;
        narrator
            .run(&self.at_seed, &format!("apply -f {POLICY_FILE}"))
            .await?;
        self.health("the operator to find the cluster healthy", |health| {
            health.reason.as_deref() == Some("Healthy")
                && health.state == Some(ClusterState::Online)
        })
        .await?;
        self.policy_is_ready(|counts| counts.probing == 1).await?;
        narrator.now("the operator reads the leases of the nodes, and finds all of them fresh")?;
        self.show(narrator).await?;

        let touched = evidence::patches(&self.shoot, Timestamp::UNIX_EPOCH)?;
        ensure!(
            touched.is_empty(),
            "a healthy cluster was touched: {touched:?}"
        );
        self.found("while all was well", "no Deployment was written to");
        Ok(())
    }

    async fn breaks<W: Write>(&mut self, narrator: &mut Narrator<W>) -> Result<()> {
        narrator.step("The NAT gateway breaks: no node reaches the API server any more")?;
        let cut = Timestamp::now();
        self.shoot.cut_all();
        narrator.at(
            cut,
            "the kubelets are cut off; the API server itself is fine",
        )?;
        let marks = evidence::last_unmarked(self.shoot.client()?, LIMIT);
        let marks = AbortOnDropHandle::new(tokio::spawn(marks));

        let suspected = self.closer_look(cut).await?;
        narrator.at(
            suspected,
            "the operator grows suspicious: it reads the leases more often, and past caches",
        )?;
        let expired = self.leases_expire().await?;
        let text = format!("{FRACTION} of {NODES} leases are older than {EXPIRY:?}: expired");
        narrator.at(expired, &text)?;

        let mut first = None;
        for (place, (dependent, count)) in DEPENDENTS.iter().zip(COUNTS).enumerate() {
            let written = self.scaled(cut, place, dependent, 0).await?;
            first.get_or_insert(written);
            narrator.at(written, &format!("{dependent}: {count} to 0"))?;
        }
        let first = first.context("there are no dependents")?;
        let delay = seconds("the first write came before expiry", expired, first)?;
        self.protection(Protection::Active).await?;
        let protected = Timestamp::now();
        let text = format!("protected; the first write came {delay:.2} s after expiry");
        narrator.at(protected, &text)?;
        self.state(ClusterState::NotReady).await?;
        narrator.now("its kubelets are silent: the cluster is NOTREADY")?;
        self.policy_is_ready(|counts| counts.protected == 1).await?;
        for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
            let dependent = self.shoot.dependent(dependent);
            ensure!(dependent.annotation(MARK).await?.as_deref() == Some(""));
            ensure!(dependent.annotation(RECORD).await? == Some(count.to_string()));
        }
        self.show_seed(narrator).await?;
        let message = format!(
            "get clusterhealth {} -o jsonpath={{.status.message}}",
            self.shoot.namespace()
        );
        narrator.run(&self.at_seed, &message).await?;

        narrator.note(
            "In real life the kube-controller-manager that marks silent nodes has just gone. So none\n\
             is marked, no Service loses its endpoints, and traffic goes on. Here the Deployments\n\
             have no real pods: the shoot's real kube-controller-manager goes on, to show when it\n\
             would have marked the nodes.",
        )?;
        let unmarked = marks.await??;
        let lead = seconds(
            "protected only after a node was marked",
            protected,
            unmarked,
        )
        .context("the machine may be too busy for a grace this short")?;
        narrator.at(unmarked, "kube-controller-manager marks the first node")?;
        narrator.note(&format!(
            "All was at zero {lead:.1} s before kube-controller-manager marks the nodes."
        ))?;
        self.nodes_are("Unknown").await?;
        narrator.run(&self.at_shoot, "get nodes").await?;

        self.found("scaled to zero, in order", &DEPENDENTS.join(", "));
        self.found(
            "from expiry to the first write",
            &format!("{delay:.2} s; up to 1 s is inevitable, as servers date renewals in seconds"),
        );
        self.found(
            "all at zero before a node is marked",
            &format!("{lead:.1} s"),
        );
        Ok(())
    }

    async fn recovers<W: Write>(&mut self, narrator: &mut Narrator<W>) -> Result<()> {
        narrator.step("The NAT gateway is repaired")?;
        let back = Timestamp::now();
        self.shoot.restore_all();
        narrator.at(back, "the kubelets reach the API server again")?;
        for (place, (dependent, count)) in DEPENDENTS.iter().zip(COUNTS).enumerate() {
            let written = self.scaled(back, place, dependent, count).await?;
            narrator.at(written, &format!("{dependent}: 0 to {count}"))?;
        }
        self.protection(Protection::None).await?;
        narrator.now("restored: nothing is owed any more")?;
        for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
            let dependent = self.shoot.dependent(dependent);
            dependent.is_ready(count).await?;
            // By which a zero that gardenlet had read before, and writes now, would be found.
            ensure!(dependent.annotation(MARK).await?.as_deref() == Some(""));
            ensure!(dependent.annotation(RECORD).await? == Some(count.to_string()));
        }
        self.nodes_are("True").await?;
        self.state(ClusterState::Online).await?;
        self.policy_is_ready(|counts| counts.protected == 0).await?;
        // By the next probe, within the policy's interval, every lease is fresh.
        self.shoot
            .reports("no lease to be expired", |status| {
                status
                    .leases
                    .as_ref()
                    .is_some_and(|leases| leases.expired == 0)
            })
            .await?;
        self.show(narrator).await?;

        let writes = evidence::patches(&self.shoot, Timestamp::UNIX_EPOCH)?;
        ensure!(
            writes.len() == 2 * DEPENDENTS.len(),
            "one write down and one up each: {writes:?}"
        );
        let counts = DEPENDENTS.iter().zip(COUNTS);
        let counts: Vec<String> = counts
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        self.found("restored to what was recorded", &counts.join(", "));
        self.found("kept on the Deployments", "mark and record, for a minute");
        self.found(
            "writes to Deployments",
            &format!("{}, one down and one up each", writes.len()),
        );
        Ok(())
    }

    async fn goes_down<W: Write>(
        &mut self,
        narrator: &mut Narrator<W>,
        history: &Watching,
    ) -> Result<()> {
        narrator.step("The API server itself goes down")?;
        narrator.note(
            "Leases that cannot be read say nothing of nodes, so nothing is scaled. The state tells.",
        )?;
        let down = Timestamp::now();
        self.shoot.stop_api_server();
        narrator.at(down, "the shoot's API server is killed")?;
        for (state, text) in [
            (ClusterState::Degraded, "a probe has failed: DEGRADED"),
            (ClusterState::Offline, "so has its one retry: OFFLINE"),
        ] {
            self.state(state).await?;
            narrator.now(text)?;
        }
        self.shoot.start_api_server().await?;
        narrator.now("the API server is back")?;
        self.state(ClusterState::Online).await?;
        narrator.now("it answers, and its nodes were looked at anew: ONLINE")?;
        let touched = evidence::patches(&self.shoot, down)?;
        ensure!(touched.is_empty(), "a Deployment was touched: {touched:?}");

        let printed = self
            .until("kubectl to print the last state", async || {
                let printed = history.printed()?;
                let states = evidence::states(&printed);
                // On its way up it may say itself that it is not ready yet.
                let was_away = states.iter().any(|state| state == "OFFLINE");
                let ended = was_away && states.last().is_some_and(|state| state == "ONLINE");
                Ok(if ended {
                    Look::Met(printed)
                } else {
                    Look::Not(states.join(", "))
                })
            })
            .await?;
        narrator.note("Its history, as it was printed since the network broke:")?;
        narrator.ran(&self.at_seed, HISTORY, &printed)?;
        self.found(
            "while its API server was away",
            "no Deployment was written to",
        );
        self.found("states", &evidence::states(&printed).join(", "));
        Ok(())
    }

    fn found(&mut self, what: &str, result: &str) {
        self.findings.push((what.to_owned(), result.to_owned()));
    }

    async fn show<W: Write>(&self, narrator: &mut Narrator<W>) -> Result<()> {
        self.show_seed(narrator).await?;
        narrator.run(&self.at_shoot, "get nodes").await
    }

    async fn show_seed<W: Write>(&self, narrator: &mut Narrator<W>) -> Result<()> {
        let deployments = format!("get deployments -n {}", self.shoot.namespace());
        for command in ["get probepolicies", "get clusterhealths", &deployments] {
            narrator.run(&self.at_seed, command).await?;
        }
        Ok(())
    }

    /// Waits, though not for an operator that has ended.
    async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Result<Look<T>>) -> Result<T> {
        self.operator.until(LIMIT, what, look).await
    }

    /// Waits until the operator reports something of this kind of the cluster.
    async fn health(&self, what: &str, met: impl Fn(&ClusterHealthStatus) -> bool) -> Result<()> {
        self.until(what, async || {
            let health = self.shoot.control_plane.health().await?;
            seen(met(&health), serde_json::to_string(&health)?)
        })
        .await
    }

    /// Waits until the status of the policy says that it is ready, and counts the clusters like
    /// this: it is written at most once in 5 s.
    async fn policy_is_ready(&self, met: impl Fn(&ClusterCounts) -> bool) -> Result<()> {
        let policies: Api<ProbePolicy> = Api::all(self.shoot.control_plane.seed().client()?);
        self.until("the status of the policy", async || {
            let status = policies.get(POLICY_NAME).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let ready = conditions.any(|found| found.type_ == "Ready" && found.status == "True");
            seen(ready && met(&status.clusters), format!("{status:?}"))
        })
        .await
    }

    async fn state(&self, wanted: ClusterState) -> Result<()> {
        let what = format!("the cluster to be {}", wanted.name());
        self.health(&what, |health| health.state == Some(wanted))
            .await
    }

    async fn protection(&self, wanted: Protection) -> Result<()> {
        let what = format!("the cluster's protection to be {wanted:?}");
        self.health(&what, |health| health.protection == wanted)
            .await
    }

    /// Waits until the operator asks the shoot's API server itself for leases, not its cache, and
    /// tells when that was.
    async fn closer_look(&self, since: Timestamp) -> Result<Timestamp> {
        self.until("the operator to look closer", async || {
            let requests = self.shoot.probe_requests()?;
            let closer = requests.iter().find(|request| {
                request.received >= since
                    && request.resource == "leases"
                    && !request.uri.contains("resourceVersion=0")
            });
            Ok(match closer {
                Some(request) => Look::Met(request.received),
                None => Look::Not("it reads from the cache".to_owned()),
            })
        })
        .await
    }

    /// Waits until a dependent is scaled to this, by the write in that place since then, and tells
    /// when that was.
    async fn scaled(
        &self,
        since: Timestamp,
        place: usize,
        dependent: &str,
        replicas: i32,
    ) -> Result<Timestamp> {
        let what = format!("{dependent} to be scaled to {replicas}");
        let deployment = self.shoot.dependent(dependent);
        self.until(&what, async || {
            let found = deployment.replicas().await?;
            seen(found == replicas, format!("{found} replicas"))
        })
        .await?;
        // The log may be a moment behind.
        let what = format!("{dependent} as number {} in the audit log", place + 1);
        self.until(&what, async || {
            let writes = evidence::patches(&self.shoot, since)?;
            Ok(match writes.get(place) {
                Some((name, time)) if name == dependent => Look::Met(*time),
                Some((name, _)) => Look::Never(format!("{name} came instead")),
                None => Look::Not(format!("{writes:?}")),
            })
        })
        .await
    }

    /// Waits until enough leases are expired for an outage, and tells when they were.
    async fn leases_expire(&self) -> Result<Timestamp> {
        let leases: Api<Lease> = Api::namespaced(self.shoot.client()?, "kube-node-lease");
        self.until("the leases to expire", async || {
            let leases = leases.list(&ListParams::default()).await?.items;
            let expired = evidence::silent_since(&leases, FRACTION, EXPIRY)?;
            let left = expired.duration_since(Timestamp::now());
            Ok(if left <= SignedDuration::ZERO {
                Look::Met(expired)
            } else {
                Look::Not(format!("{left:.1?} are left"))
            })
        })
        .await
    }

    async fn nodes_are(&self, ready: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.shoot.client()?);
        self.until(&format!("all nodes to be Ready={ready}"), async || {
            let nodes = nodes.list(&ListParams::default()).await?;
            let others = nodes
                .iter()
                .filter(|node| evidence::readiness(node) != ready);
            let others = others.count();
            seen(others == 0, format!("{others} are not"))
        })
        .await
    }
}
