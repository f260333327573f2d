//! A seed with services and the pods that need them, and the weeder, on a clock of the test's.

use std::time::Duration;

use dependency_watchdog::{
    runtime::seed,
    util::now::wall,
    weeder::{
        instruments::Instruments,
        run::{self, Weeder},
        service::CHANGED_ANNOTATION,
    },
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Activity, Call, Clock, Seed, degraded};

/// All of it.
pub struct Garden {
    /// The clock of all.
    pub clock: Clock,
    /// The seed.
    pub seed: Seed,
    /// The flag --dry-run; set before it starts.
    pub dry_run: bool,
    /// What the weeder tells; set before it starts.
    pub instruments: Instruments,
    stop: CancellationToken,
    weeder: Option<JoinHandle<()>>,
}

impl Garden {
    /// Namespaces of these names, and nothing in them; no weeder yet.
    pub fn new(namespaces: &[&str]) -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let seed = Seed::new(activity);
        for namespace in namespaces {
            put_namespace(&seed, namespace);
        }
        Self {
            clock,
            seed,
            dry_run: false,
            instruments: Instruments::new().0,
            stop: CancellationToken::new(),
            weeder: None,
        }
    }

    /// The namespace `a`, the policy `p` by which pods of `app: api` need the service `etcd`, and a
    /// weeder that has seen that the service is not ready.
    pub async fn unready() -> Self {
        let mut garden = Self::new(&["a"]);
        garden.seed.put(&weed_policy("p", "etcd", "api"));
        put_slice(&garden.seed, "a", "etcd", false);
        garden.start();
        garden
            .status_where("it is listed", |status| status["services"]["watched"] == 1)
            .await;
        garden
    }

    /// The same, with a service that has just become ready.
    pub async fn recovered() -> Self {
        let garden = Self::unready().await;
        put_slice(&garden.seed, "a", "etcd", true);
        garden
            .status_where("a window is open", |status| status["openWindows"] == 1)
            .await;
        garden
    }

    /// Starts the weeder.
    pub fn start(&mut self) {
        self.start_on(self.seed.counted(&self.instruments.common.requests));
    }

    /// Starts the weeder, which reaches the seed by this way.
    pub fn start_on(&mut self, seed: seed::Seed) {
        self.stop = CancellationToken::new();
        let weeder = Weeder {
            dry_run: self.dry_run,
            seed,
            instruments: self.instruments.clone(),
        };
        self.weeder = Some(tokio::spawn(run::run(weeder, self.stop.clone())));
    }

    /// Stops the weeder and waits for its end.
    pub async fn stop(&mut self) {
        self.stop.cancel();
        let weeder = self.weeder.take().unwrap();
        self.clock.end_of("the weeder ends", weeder).await.unwrap();
    }

    /// The status of the policy `p`; null if there is none.
    pub fn status(&self) -> Value {
        let policy = self.seed.get("weedpolicies", "", "p");
        policy.map_or(Value::Null, |policy| policy["status"].clone())
    }

    /// Reason and message of `Degraded` of the policy `p`.
    pub fn degraded(&self) -> (String, String) {
        degraded(&self.status())
    }

    /// Waits for such a status of the policy `p`.
    pub async fn status_where(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let found = || Some(self.status()).filter(|status| holds(status));
        self.clock.until(what, found).await
    }

    /// Changes the policy `p`.
    pub fn change_policy(&self, change: impl Fn(&mut Value)) {
        self.seed.change("weedpolicies", "", "p", change);
    }

    /// Whether there is a pod of this name in the namespace `a`.
    pub fn has(&self, pod: &str) -> bool {
        self.seed.get("pods", "a", pod).is_some()
    }

    /// Waits until there is no such pod in the namespace `a`.
    pub async fn gone(&self, pod: &str) {
        let gone = || (!self.has(pod)).then_some(());
        self.clock.until(&format!("{pod} is gone"), gone).await;
    }

    /// The requests to delete pods.
    pub fn deletions(&self) -> Vec<Call> {
        let mut calls = self.seed.calls();
        calls.retain(|call| call.method == "DELETE" && call.resource == "pods");
        calls
    }

    /// Lists and watches of pods.
    pub fn pod_reads(&self) -> Vec<Call> {
        let mut calls = self.seed.calls();
        calls.retain(|call| call.method == "GET" && call.resource == "pods");
        calls
    }

    /// The reasons of the events so far, with their regarding kinds.
    pub fn told(&self, reason: &str) -> Vec<Value> {
        let events = self.seed.events().into_iter().map(|call| call.body);
        events.filter(|event| event["reason"] == reason).collect()
    }

    /// Lets that many seconds pass.
    pub async fn pass(&self, seconds: u64) {
        self.clock.pass(Duration::from_secs(seconds)).await;
    }
}

/// A Namespace.
pub fn put_namespace(seed: &Seed, name: &str) {
    seed.put(&json!({
        "kind": "Namespace",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"name": name}},
    }));
}

/// The one EndpointSlice of a service, with one endpoint.
pub fn put_slice(seed: &Seed, namespace: &str, service: &str, ready: bool) {
    seed.put(&json!({
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
            "annotations": {CHANGED_ANNOTATION: wall()},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
    }));
}

/// A pod of a ReplicaSet, with the label `app`; whether it loops.
pub fn put_pod(seed: &Seed, namespace: &str, name: &str, app: &str, loops: bool) {
    let mut pod = json!({
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace,
            "uid": format!("uid-{namespace}-{name}"),
            "labels": {"app": app},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-1"),
                "uid": format!("uid-{app}-1"), "controller": true,
            }],
        },
        "status": {},
    });
    if loops {
        looping(&mut pod);
    }
    seed.put(&pod);
}

/// Has the container of a pod wait in CrashLoopBackOff.
pub fn looping(pod: &mut Value) {
    pod["status"]["containerStatuses"] = json!([{
        "name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }]);
}

/// A selector of the label `app`.
fn app(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

/// A policy for all namespaces: pods with this label need this service. Its windows last for a
/// minute.
pub fn weed_policy(name: &str, service: &str, dependant: &str) -> Value {
    json!({
        "kind": "WeedPolicy",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {
            "mode": "Enforce",
            "watchDuration": "1m",
            "servicesAndDependantSelectors": {service: {"podSelectors": [app(dependant)]}},
        },
    })
}
