//! Events in, deletions and reports out, with a clock of its own.

mod deletions;
mod reports;
mod windows;

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::weeder::{
    report::PodNews,
    slice::{CHANGED_ANNOTATION, SERVICE_LABEL},
};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// A state that has listed everything, and a clock.
struct Bench {
    state: State,
    now: Now,
    version: u64,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A policy for one minute: the service, and the label `app` of the pods that need it.
fn policy(name: &str, service: &str, app: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "WeedPolicy",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1},
        "spec": {
            "mode": "Enforce",
            "watchDuration": "1m",
            "servicesAndDependantSelectors": {
                service: {"podSelectors": [{"matchLabels": {"app": app}}]},
            },
        },
    });
    change(&mut policy);
    policy
}

fn plain(name: &str) -> Value {
    policy(name, "etcd", "api", |_| ())
}

fn dry_run(name: &str) -> Value {
    policy(name, "etcd", "api", |it| {
        it["spec"]["mode"] = json!("DryRun")
    })
}

fn pod(namespace: &str, name: &str, version: u64, change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(),
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-1", "uid": "r",
                "controller": true,
            }],
        },
        "status": {"containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]},
    });
    change(&mut pod);
    object(pod)
}

fn terminating(pod: &mut Value) {
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
}

/// A pod of a controller of its own.
fn of_its_own(pod: &mut Value) {
    pod["metadata"]["ownerReferences"][0]["uid"] = pod["metadata"]["uid"].clone();
}

impl Bench {
    fn new(namespaces: &[&str], policies: &[Value]) -> Self {
        let mut bench = Self::without_slices(namespaces, policies);
        bench.slices(&[]);
        assert!(bench.state.services_listed());
        bench
    }

    /// One whose slices have yet to be listed.
    fn without_slices(namespaces: &[&str], policies: &[Value]) -> Self {
        let mut bench = Self {
            state: State::default(),
            now: Now {
                mono: Instant::now(),
                wall: Timestamp::UNIX_EPOCH,
            },
            version: 0,
        };
        bench.state.namespace_event(Event::Init, bench.now);
        for namespace in namespaces {
            let namespace = object(json!({"metadata": {"name": namespace}}));
            let event = Event::InitApply(namespace);
            bench.state.namespace_event(event, bench.now);
        }
        bench.state.namespace_event(Event::InitDone, bench.now);
        bench.state.policy_event(Event::Init, bench.now);
        for policy in policies {
            let event = Event::InitApply(object(policy.clone()));
            bench.state.policy_event(event, bench.now);
        }
        bench.state.policy_event(Event::InitDone, bench.now);
        bench
    }

    /// What a watch of slices begins with.
    fn slices(&mut self, slices: &[Value]) {
        self.slice(Event::Init);
        for slice in slices {
            self.slice(Event::InitApply(object(slice.clone())));
        }
        self.slice(Event::InitDone);
    }

    /// In the namespace `ns`, with one policy, whose service has just recovered, and its watch.
    fn weeding(policies: &[Value]) -> (Self, PodWatch) {
        let mut bench = Self::new(&["ns"], policies);
        bench.ready("ns", "etcd", true);
        let watch = bench.watch();
        bench.list(&watch, vec![]);
        bench.state.take_news();
        (bench, watch)
    }

    fn watch(&self) -> PodWatch {
        self.state.pod_watches().first().unwrap().clone()
    }

    fn slice(&mut self, event: Event<EndpointSlice>) {
        let names = self.state.service_names().clone();
        self.state.slice_event(&names, event, self.now);
    }

    fn ready(&mut self, namespace: &str, service: &str, ready: bool) {
        self.version += 1;
        self.slice(Event::Apply(object(json!({
            "metadata": {
                "name": service,
                "namespace": namespace,
                "resourceVersion": self.version.to_string(),
                "labels": {SERVICE_LABEL: service},
                "annotations": {CHANGED_ANNOTATION: self.now.wall},
            },
            "endpoints": [{"conditions": {"ready": ready}}],
        }))));
    }

    fn policy(&mut self, policy: Value) {
        let event = Event::Apply(object(policy));
        self.state.policy_event(event, self.now);
    }

    fn list(&mut self, watch: &PodWatch, pods: Vec<Pod>) {
        self.state.pod_event(watch, Event::Init, self.now);
        for pod in pods {
            self.state.pod_event(watch, Event::InitApply(pod), self.now);
        }
        self.state.pod_event(watch, Event::InitDone, self.now);
    }

    fn show(&mut self, watch: &PodWatch, pod: Pod) {
        self.state.pod_event(watch, Event::Apply(pod), self.now);
    }

    fn next(&mut self) -> Option<Deletion> {
        self.state.next_deletion(self.now)
    }

    fn end(&mut self, deletion: Deletion, result: Result<(), DeletionError>) {
        self.state.deletion_ended(deletion, result, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.wall += SignedDuration::try_from(time).unwrap();
        self.state.tick(self.now);
    }

    /// What is told of pods, in short.
    fn told(&mut self) -> Vec<String> {
        let short = |news: PodNews| {
            let deed = match news.deed {
                PodDeed::Weeded { .. } => "weeded".to_owned(),
                PodDeed::WouldWeed { .. } => "would weed".to_owned(),
                PodDeed::LeftAlone { reason, .. } => reason.to_owned(),
                PodDeed::Refused { message } => message,
            };
            format!("{} for {}: {deed}", news.pod, news.policy)
        };
        let news = self.state.take_news().into_iter();
        news.filter_map(|news| match news {
            News::Pod { news, .. } => Some(short(news)),
            _ => None,
        })
        .collect()
    }

    fn report(&self) -> WeedReport {
        self.state.reports().remove(0)
    }
}

fn weed(name: &str) -> Pod {
    pod("ns", name, 1, |_| ())
}
