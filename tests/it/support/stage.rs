//! The acting half of one cluster's loop on a scripted seed, on a clock that jumps.

use std::{future::ready, sync::Arc, time::Duration};

use dependency_watchdog::{
    api::{ClusterHealthStatus, DependentStatus, Protection},
    cluster::{Assignment, PolicyHold, Selected, Settings, Template},
    prober::{
        acting::{Acting, Means},
        decide::{Confirmation, Decider, Input, Leases},
        dependents::Problem,
        scale::Scaler,
        step::{Aim, MARK, RECORD},
        treatment::ClusterObject,
        verdict::{Assessment, Returning, Verdict},
        watch::Conclusion,
    },
    util::now::Now,
};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Activity, Seed, put_workload};

/// Long after all is done. The clock jumps.
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

/// The acting half of the loop of the cluster `a`, and the seed that it scales on.
pub struct Stage {
    /// Where it scales.
    pub seed: Seed,
    /// By which it scales.
    pub settings: Settings,
    /// What scales.
    pub acting: Acting,
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
        let acting = acting(&seed, &settings, None);
        Self {
            seed,
            settings,
            acting,
        }
    }

    /// Acts on a verdict, and follows what comes of it for some minutes.
    pub async fn act(&mut self, aim: Aim) {
        self.verdict(aim);
        self.follow().await;
    }

    /// A verdict that asks for this.
    pub fn verdict(&mut self, aim: Aim) {
        verdict(&mut self.acting, aim);
    }

    /// Follows what comes of it for some minutes, in which no verdict ages.
    pub async fn follow(&mut self) {
        self.advance(EVER / 12).await;
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
        self.acting
            .decider()
            .dependents()
            .problems()
            .cloned()
            .collect()
    }

    pub fn entry(&self, name: &str) -> DependentStatus {
        let entries = self.acting.decider().dependents().status();
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

    /// Follows what is done for that long.
    pub async fn advance(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while tokio::time::timeout_at(end, self.acting.progress())
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

/// What acts on the cluster `a`, given what an earlier one has left.
pub fn acting(seed: &Seed, settings: &Settings, known: Option<&ClusterHealthStatus>) -> Acting {
    let mut acting = new_acting("a", Scaler::new(seed.unlimited()), known);
    acting.learn(selected(settings));
    acting
}

/// What acts, and has learnt nothing yet.
pub fn new_acting(cluster: &str, scaler: Scaler, known: Option<&ClusterHealthStatus>) -> Acting {
    let gone = ClusterObject::Gone(PolicyHold::default());
    let decider = Decider::recall(known, gone, (false, false), Now::read());
    let means = Means {
        scaler,
        confirm: Arc::new(|_| ready(Confirmation::AsKnown).boxed()),
        pace: Default::default(),
        metrics: Default::default(),
    };
    Acting::new(cluster.into(), &means, decider)
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
fn verdict(acting: &mut Acting, aim: Aim) {
    match aim {
        Aim::Down => outage(acting, 5, EVER * 1_000),
        _ => healthy(acting, None),
    }
}

/// So many of five leases are expired, which counts for so long.
pub fn outage(acting: &mut Acting, expired: usize, valid: Duration) {
    let assessment = Assessment {
        expired,
        // It counts for one and a half of these.
        period: valid * 2 / 3,
        ..assessment()
    };
    acting.learn_verdict(&conclusion(Verdict::Outage, assessment), None, None);
    // The Cluster and its policy are confirmed immediately.
    let _ = acting.progress().now_or_never();
}

/// There is no evidence.
pub fn doubt(acting: &mut Acting) {
    let leases = Leases::Unread {
        reason: "Unreachable",
        message: "",
    };
    acting.learn(Input::Leases(leases, None));
}

/// All leases are fresh; a Gate that does not pass may say why.
pub fn healthy(acting: &mut Acting, gate: Option<&str>) {
    let assessment = Assessment {
        protected: acting.decider().protection() != Protection::None,
        ..assessment()
    };
    let conclusion = conclusion(Verdict::Healthy, assessment);
    acting.learn_verdict(&conclusion, None, gate.map(str::to_owned));
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
