//! The guard of one cluster on a scripted seed, on a clock that jumps.

use std::time::Duration;

use dependency_watchdog::{
    api::{ClusterHealthStatus, DependentStatus, Protection},
    cluster::{Settings, Template},
    prober::{
        guard::{Guard, Order},
        ledger::Problem,
        plan::{Aim, MARK, RECORD},
        scale::Resources,
    },
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Activity, INTERVAL, Seed, put_workload};

/// Long after any flow has ended. The clock jumps.
pub const EVER: Duration = Duration::from_secs(3_600);

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

fn settings(dependents: &[Value]) -> Settings {
    let spec = serde_json::from_value(json!({
        "mode": "Enforce", "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
        "dependentResourceInfos": dependents,
    }))
    .unwrap();
    let cluster = serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {"shoot": {}},
    }))
    .unwrap();
    Template::new("p".into(), &spec)
        .unwrap()
        .settings(&cluster)
        .unwrap()
}

/// A guard of the cluster `a`, and the seed that it scales on.
pub struct Stage {
    /// Where it scales.
    pub seed: Seed,
    /// By which it scales.
    pub settings: Settings,
    /// What scales.
    pub guard: Guard,
}

impl Stage {
    /// Workloads of three replicas each, for these dependents.
    pub fn new(dependents: &[Value]) -> Self {
        tokio::time::pause();
        let seed = Seed::new(Activity::default());
        for dependent in dependents {
            let text = |field: &str| dependent["ref"][field].as_str().unwrap();
            put_workload(&seed, text("kind"), "a", text("name"), 3);
        }
        let settings = settings(dependents);
        let guard = guard(&seed, &settings, None);
        Self {
            seed,
            settings,
            guard,
        }
    }

    /// Acts on a verdict, and follows the flow to its end.
    pub async fn act(&mut self, aim: Aim) {
        self.guard.act(self.order(aim), String::new);
        self.follow().await;
    }

    /// What a verdict asks for whose evidence does not age within a test.
    pub fn order(&self, aim: Aim) -> Order {
        Order {
            aim,
            restore: self.settings.restore,
            provable: None,
            valid_until: Instant::now() + EVER * 1_000,
        }
    }

    pub async fn follow(&mut self) {
        while timeout(EVER, self.guard.progress(INTERVAL)).await.is_ok() {}
    }

    /// Lets the flow go on until the seed has seen such a request, which it does not answer yet.
    pub async fn until_asked(&mut self, what: &str) {
        while !self.seed.briefs().iter().any(|call| call == what) {
            tokio::select! {
                biased;
                () = self.guard.progress(INTERVAL) => {}
                () = tokio::task::yield_now() => {}
            }
        }
    }

    pub fn object(&self, resource: &str, name: &str) -> Value {
        self.seed.get(resource, "a", name).unwrap()
    }

    pub fn replicas(&self, resource: &str, name: &str) -> i64 {
        self.object(resource, name)["spec"]["replicas"]
            .as_i64()
            .unwrap()
    }

    pub fn problems(&self) -> Vec<Problem> {
        self.guard.ledger().problems().cloned().collect()
    }

    pub fn entry(&self, name: &str) -> DependentStatus {
        let entries = self.guard.ledger().status();
        entries
            .into_iter()
            .find(|it| it.r#ref.name == name)
            .unwrap()
    }

    pub fn assert_down(&self, resource: &str, name: &str, case: &str) {
        let object = self.object(resource, name);
        assert_eq!(object["spec"]["replicas"], 0, "{case}");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[MARK], "", "{case}");
        assert_eq!(annotations[RECORD], "3", "{case}");
        let entry = self.entry(name);
        assert_eq!(
            (entry.owed, entry.recorded_replicas),
            (true, Some(3)),
            "{case}"
        );
    }

    pub fn assert_up(&self, resource: &str, name: &str, case: &str) {
        let object = self.object(resource, name);
        assert_eq!(object["spec"]["replicas"], 3, "{case}");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[MARK], Value::Null, "{case}");
        assert_eq!(annotations[RECORD], Value::Null, "{case}");
        assert!(!self.entry(name).owed, "{case}");
    }

    /// Follows the flow until there is a problem, or the dependents are down.
    pub async fn until_settled(&mut self) {
        while self.problems().is_empty() && self.guard.protection() != Protection::Active {
            self.guard.progress(INTERVAL).await;
        }
    }

    /// Follows the flow for that long.
    pub async fn advance(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while tokio::time::timeout_at(end, self.guard.progress(INTERVAL))
            .await
            .is_ok()
        {}
    }

    /// The dependents that were written to, in order.
    pub fn written(&self) -> Vec<String> {
        self.seed
            .writes()
            .into_iter()
            .map(|call| call.name)
            .collect()
    }
}

/// A guard of the cluster `a`, given what an earlier one has left.
pub fn guard(seed: &Seed, settings: &Settings, known: Option<&ClusterHealthStatus>) -> Guard {
    let mut guard = Guard::new("a".into(), seed.unlimited(), Resources::default(), known);
    guard.adopt(&settings.dependents);
    guard
}

/// A dependent of the first level with such an initial delay.
pub fn delayed(name: &str, seconds: u64) -> Value {
    let mut info = info("Deployment", name, 0);
    for aim in ["scaleUp", "scaleDown"] {
        info[aim]["initialDelay"] = json!(format!("{seconds}s"));
    }
    info
}
