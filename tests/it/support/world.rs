//! A seed with shoots, and the prober that protects them, on a clock of the test's.

use std::{collections::BTreeMap, future::ready, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dependency_watchdog::{
    checks::{FeatureGates, Runner},
    prober::{fleet, instruments::Instruments},
    runtime::leader::{Elector, Leadership, Times},
    shoot::Dial,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Activity, Clock, Read, ScriptedShoot, Seed, names};

/// The nodes of each shoot.
pub const NODES: usize = 4;
/// The probe interval of [`policy`]; nothing is added by jitter.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// All of it.
pub struct World {
    /// What keeps the clock of all from going on.
    pub activity: Activity,
    /// The clock of all.
    pub clock: Clock,
    /// The seed.
    pub seed: Seed,
    /// The shoots, by the names of their clusters.
    pub shoots: BTreeMap<String, ScriptedShoot>,
    /// The flag --dry-run; set before it starts.
    pub dry_run: bool,
    /// Makes the runs of checks, if not the seed; set before it starts.
    pub runner: Option<Runner>,
    /// What the prober tells; set before it starts.
    pub instruments: Instruments,
    stop: CancellationToken,
    prober: Option<JoinHandle<()>>,
}

impl World {
    /// Clusters of these names, all healthy and selected by one policy; no prober yet.
    pub async fn new(clusters: &[&str]) -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let seed = Seed::new(activity.clone());
        let mut shoots = BTreeMap::new();
        for name in clusters {
            let shoot = ScriptedShoot::start(NODES, activity.clone()).await;
            put_cluster(&seed, name, &shoot.kubeconfig());
            shoots.insert((*name).to_owned(), shoot);
        }
        seed.put(&policy("p"));
        Self {
            activity,
            clock,
            seed,
            shoots,
            dry_run: false,
            runner: None,
            instruments: Instruments::new().0,
            stop: CancellationToken::new(),
            prober: None,
        }
    }

    /// The same, with a prober that runs.
    pub async fn running(clusters: &[&str]) -> Self {
        let mut world = Self::new(clusters).await;
        world.start();
        world
    }

    /// Starts the prober.
    pub fn start(&mut self) {
        self.start_on(self.seed.counted(&self.instruments.common.requests));
    }

    /// Starts the prober on this seed.
    pub fn start_on(&mut self, seed: dependency_watchdog::runtime::seed::Seed) {
        self.stop = CancellationToken::new();
        let run = fleet::run(self.prober(seed), ready(()), self.stop.clone());
        self.prober = Some(tokio::spawn(run));
    }

    /// Starts a prober that stands for election, and again after each term, as the command does.
    pub fn start_led(&mut self) {
        let [times @ .., retry] = [15, 10, 2].map(Duration::from_secs);
        let times = Times::new(times[0], times[1], retry).unwrap();
        let client = self.seed.unlimited().client().clone();
        let mut elector = Elector::new(client, "garden", "lease", times);
        self.stop = CancellationToken::new();
        let seed = self.seed.counted(&self.instruments.common.requests);
        let (prober, stop) = (self.prober(seed), self.stop.clone());
        // It has connections of its own, and counts nothing.
        let reads = self.seed.reads();
        self.prober = Some(tokio::spawn(async move {
            let work = async |leadership: Leadership| {
                prober.instruments.common.stand_by();
                prober.instruments.stand_by();
                let prober = fleet::Prober {
                    reads: reads.clone(),
                    seed: prober.seed.clone().led_by(leadership.clone()),
                    ..prober.clone()
                };
                fleet::run(prober, leadership.begun(), stop.clone()).await;
            };
            while elector.stand(&stop, &work).await.is_err() {}
        }));
    }

    fn prober(&self, seed: dependency_watchdog::runtime::seed::Seed) -> fleet::Prober {
        let runner = self.runner.clone().unwrap_or_else(|| {
            Runner::new(
                self.seed.counted(&self.instruments.common.requests),
                FeatureGates::default(),
                self.instruments.checks.clone(),
                names(),
            )
        });
        fleet::Prober {
            dry_run: self.dry_run,
            reads: seed.clone(),
            seed,
            checks: runner,
            dial: Dial::default(),
            instruments: self.instruments.clone(),
        }
    }

    /// Stops the prober and waits for its end.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        let prober = self.prober.take().unwrap();
        self.clock.end_of("the prober ends", prober).await.unwrap();
    }

    /// The shoot of a cluster.
    pub fn shoot(&self, cluster: &str) -> &ScriptedShoot {
        &self.shoots[cluster]
    }

    /// The status of a ClusterHealth; null if there is none.
    pub fn health(&self, cluster: &str) -> Value {
        let health = self.seed.get("clusterhealths", "", cluster);
        health.map_or(Value::Null, |health| health["status"].clone())
    }

    /// Waits until the ClusterHealth gives this reason.
    pub async fn reason(&self, cluster: &str, reason: &str) -> Value {
        let what = format!("the reason of {cluster} is {reason}");
        self.health_where(cluster, &what, |status| status["reason"] == reason)
            .await
    }

    /// Waits until the protection is this.
    pub async fn protection(&self, cluster: &str, protection: &str) -> Value {
        let what = format!("the protection of {cluster} is {protection}");
        self.health_where(cluster, &what, |status| status["protection"] == protection)
            .await
    }

    /// Waits for such a status.
    pub async fn health_where(
        &self,
        cluster: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = || format!("{what}; it is {}", self.health(cluster));
        let found = || Some(self.health(cluster)).filter(|status| holds(status));
        let end = self.clock.elapsed() + Duration::from_secs(120);
        loop {
            self.clock.settle().await;
            if let Some(status) = found() {
                return status;
            }
            assert!(
                self.clock.elapsed() < end,
                "not within two minutes: {}",
                what()
            );
            self.clock.pass(Duration::from_millis(250)).await;
        }
    }

    /// Waits until leases have been read so many times more.
    pub async fn more_reads(&self, cluster: &str, read: Read, count: usize) {
        let wanted = self.shoot(cluster).count(read) + count;
        self.clock
            .until("more reads", || {
                (self.shoot(cluster).count(read) >= wanted).then_some(())
            })
            .await;
    }

    /// The replicas of a cluster's dependents, by name.
    pub fn replicas(&self, cluster: &str) -> [i64; 3] {
        ["kcm", "mcm", "ca"].map(|name| {
            let object = self.seed.get("deployments", cluster, name).unwrap();
            object["spec"]["replicas"].as_i64().unwrap()
        })
    }
}

/// A condition of a status.
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == kind).unwrap()
}

/// Reason and message of `Degraded` of a status.
pub fn degraded(status: &Value) -> (String, String) {
    let degraded = condition(status, "Degraded");
    let text = |field: &str| degraded[field].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

/// The Cluster, its Secret, Machines and Deployments.
fn put_cluster(seed: &Seed, name: &str, kubeconfig: &[u8]) {
    put_kubeconfig(seed, name, kubeconfig);
    for index in 0..NODES {
        seed.put(&json!({
            "kind": "Machine",
            "metadata": {
                "name": format!("machine-{index}"), "namespace": name,
                "labels": {"node": format!("node-{index}")},
            },
            "status": {"currentStatus": {"phase": "Running"}},
        }));
    }
    for (dependent, replicas) in [("kcm", 1), ("mcm", 2), ("ca", 3)] {
        put_workload(seed, "Deployment", name, dependent, replicas);
    }
    seed.put(&json!({
        "kind": "Cluster",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"name": name}},
        "spec": {"shoot": {
            "spec": {"provider": {"workers": [{"name": "w"}]}},
            "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
        }},
    }));
}

/// The Secret with this kubeconfig.
pub fn put_kubeconfig(seed: &Seed, cluster: &str, kubeconfig: &[u8]) {
    let encoded = STANDARD.encode(kubeconfig);
    put_secret(seed, cluster, "dwd", &json!({"kubeconfig": encoded}));
}

/// A Secret with this data.
pub fn put_secret(seed: &Seed, namespace: &str, name: &str, data: &Value) {
    seed.put(&json!({
        "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data,
    }));
}

/// A workload whose controller has done its work.
pub fn put_workload(seed: &Seed, kind: &str, namespace: &str, name: &str, replicas: i64) {
    seed.put(&json!({
        "kind": kind, "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas},
    }));
}

/// A dependent of one level in both aims.
pub fn info(kind: &str, name: &str, level: i32) -> Value {
    let version = if kind == "Etcd" {
        "druid.gardener.cloud/v1alpha1"
    } else {
        "apps/v1"
    };
    json!({
        "ref": {"apiVersion": version, "kind": kind, "name": name},
        "optional": false, "scaleUp": {"level": level}, "scaleDown": {"level": level},
    })
}

/// A policy for all clusters, with three dependents: down in the order kcm, mcm, ca; up in the
/// reverse.
pub fn policy(name: &str) -> Value {
    let dependent = |name: &str, up: i32, down: i32| {
        json!({
            "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "optional": false, "scaleUp": {"level": up}, "scaleDown": {"level": down},
        })
    };
    json!({
        "kind": "ProbePolicy",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {
            "mode": "Enforce", "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
            "probeInterval": "10s", "initialDelay": "0s", "probeTimeout": "5s",
            "backoffJitterFactor": 0.0,
            "dependentResourceInfos": [
                dependent("kcm", 2, 0), dependent("mcm", 1, 1), dependent("ca", 0, 2),
            ],
        },
    })
}
