//! The protector of one cluster on a scripted seed, on a clock that jumps.

use std::{future::ready, sync::Arc, time::Duration};

use dependency_watchdog::{
    api::{ClusterHealthStatus, DependentStatus, Protection},
    cluster::{Assignment, PolicyHold, Selected, Settings, Template},
    prober::{
        debts::Problem,
        machine::{ClusterMachine, Confirmation, Input, Leases},
        plan::{Aim, MARK, RECORD},
        protector::Protector,
        scale::Scaler,
        treatment::ClusterObject,
        verdict::{Assessment, Returning, Verdict},
        watch::Conclusion,
    },
    util::now::Now,
};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Activity, Seed, put_workload};

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
    let template = Template::new("p".into(), &spec);
    let mut settings = template.settings(&cluster).unwrap();
    settings.initial_delay = Duration::ZERO;
    // A verdict does not age within a test.
    settings.rules.timeout = EVER * 1_000;
    settings
}

/// The protector of the cluster `a`, and the seed that it scales on.
pub struct Stage {
    /// Where it scales.
    pub seed: Seed,
    /// By which it scales.
    pub settings: Settings,
    /// What scales.
    pub protector: Protector,
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
        let protector = protector(&seed, &settings, None);
        Self {
            seed,
            settings,
            protector,
        }
    }

    /// Acts on a verdict, and follows the flow to its end, and for an hour.
    pub async fn act(&mut self, aim: Aim) {
        self.verdict(aim);
        self.follow().await;
    }

    /// A verdict that asks for this.
    pub fn verdict(&mut self, aim: Aim) {
        verdict(&mut self.protector, aim);
    }

    /// Follows the flow to its end, and for an hour. A verdict does not age here, so that what is back would lose
    /// its mark after a minute of it: that is left to the next verdict.
    pub async fn follow(&mut self) {
        loop {
            let is_back = self.is_back_and_marked();
            let limit = if is_back { EVER / 3600 } else { EVER };
            if timeout(limit, self.protector.progress()).await.is_err() {
                if is_back {
                    tokio::time::sleep(EVER).await;
                }
                return;
            }
        }
    }

    fn is_back_and_marked(&self) -> bool {
        let machine = self.protector.machine();
        machine.protection() == Protection::None && machine.is_engaged()
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
        self.protector
            .machine()
            .debts()
            .problems()
            .cloned()
            .collect()
    }

    pub fn entry(&self, name: &str) -> DependentStatus {
        let entries = self.protector.machine().debts().status();
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
        let entry = self.entry(name);
        let kept = |what: &str| match entry.keeps_mark {
            true => json!(what),
            false => Value::Null,
        };
        assert_eq!(annotations[MARK], kept(""), "{case}");
        assert_eq!(annotations[RECORD], kept("3"), "{case}");
        assert!(!entry.owed, "{case}");
    }

    /// Follows the flow for that long.
    pub async fn advance(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while tokio::time::timeout_at(end, self.protector.progress())
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

/// The protector of the cluster `a`, given what an earlier one has left.
pub fn protector(
    seed: &Seed,
    settings: &Settings,
    known: Option<&ClusterHealthStatus>,
) -> Protector {
    let mut protector = new_protector("a", &Scaler::new(seed.unlimited()), known);
    protector.learn(selected(settings));
    protector
}

/// A protector that has learnt nothing yet.
pub fn new_protector(
    cluster: &str,
    scaler: &Scaler,
    known: Option<&ClusterHealthStatus>,
) -> Protector {
    let gone = ClusterObject::Gone(PolicyHold::default());
    let machine = ClusterMachine::recall(known, gone, (false, false), Now::read());
    let confirm = Arc::new(|_| ready(Confirmation::AsKnown).boxed());
    Protector::new(
        cluster.into(),
        scaler,
        confirm,
        Default::default(),
        Default::default(),
        machine,
        known,
    )
}

/// The cluster is probed by these settings.
pub fn selected(settings: &Settings) -> Input<'static> {
    assigned(Some(policy(settings)), None)
}

fn assigned(selected: Option<Selected>, former: Option<Selected>) -> Input<'static> {
    Input::Objects(ClusterObject::There(Box::new(Assignment {
        uid: "uid".into(),
        skip: None,
        selected,
        former,
    })))
}

fn policy(settings: &Settings) -> Selected {
    Selected {
        policy: settings.policy.clone(),
        hold: PolicyHold::default(),
        settings: Ok(settings.clone().into()),
        outranked: vec![],
    }
}

/// A verdict that asks for this, of evidence that does not age within a test.
pub fn verdict(protector: &mut Protector, aim: Aim) {
    match aim {
        Aim::Protect => outage(protector, 5, EVER * 1_000),
        _ => healthy(protector, None),
    }
}

/// So many of five leases are expired, which counts for so long.
pub fn outage(protector: &mut Protector, expired: usize, valid: Duration) {
    let assessment = Assessment {
        expired,
        // It counts for one and a half of these.
        period: valid * 2 / 3,
        ..assessment()
    };
    protector.learn_verdict(&conclusion(Verdict::Outage, assessment), None, None);
    // The Cluster and its policy are confirmed immediately.
    let _ = protector.progress().now_or_never();
}

/// There is no evidence.
pub fn doubt(protector: &mut Protector) {
    let leases = Leases::Unread {
        reason: "Unreachable",
        message: "",
    };
    protector.learn(Input::Leases(leases, None));
}

/// All leases are fresh; a Gate that does not pass may say why.
pub fn healthy(protector: &mut Protector, gate: Option<&str>) {
    let assessment = Assessment {
        protected: protector.machine().protection() != Protection::None,
        ..assessment()
    };
    let conclusion = conclusion(Verdict::Healthy, assessment);
    protector.learn_verdict(&conclusion, None, gate.map(str::to_owned));
}

fn conclusion(verdict: Verdict, assessment: Assessment) -> Conclusion {
    Conclusion {
        verdict,
        assessment,
        provable: None,
        onset: None,
        returning: Returning::default(),
        decides: true,
    }
}

/// Five leases, all fresh.
fn assessment() -> Assessment {
    Assessment {
        candidates: 5,
        needed: 3,
        period: Duration::from_secs(10),
        roster: true,
        ..Assessment::default()
    }
}

/// A dependent of the first level with such an initial delay.
pub fn delayed(name: &str, seconds: u64) -> Value {
    let mut info = info("Deployment", name, 0);
    for aim in ["scaleUp", "scaleDown"] {
        info[aim]["initialDelay"] = json!(format!("{seconds}s"));
    }
    info
}
