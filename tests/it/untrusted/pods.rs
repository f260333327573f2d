//! Pods: in which of them a command is run, and what their versions say of which is the newest.

use std::{collections::BTreeSet, sync::Arc};

use dependency_watchdog::{
    api::{LabelSelector, selector_text::Selector},
    checks::pods::{self, Missing, choose},
    weeder::{
        looping::Looping,
        news::Pair,
        pod::Pod,
        scopes::{Claim, PodWatch, Scopes},
    },
};
use kube::runtime::watcher::Event;
use proptest::{prelude::*, sample::select};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{fuzz::fuzzed, mutate::changed};

#[derive(Deserialize)]
struct List {
    items: Vec<pods::Pod>,
}

fn listed() -> Value {
    let pod = |name: &str, phase: &str, containers: Value| {
        json!({
            "metadata": {"name": name, "namespace": "shoot--a--b", "labels": {"app": "etcd"}},
            "spec": {
                "containers": containers,
                "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}, {"name": "init"}],
            },
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    json!({
        "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"},
        "items": [
            pod("etcd-0", "Running", json!([{"name": "etcd"}])),
            pod("etcd-1", "Running", json!([{"name": "etcd"}, {"name": "backup"}])),
            pod("etcd-2", "Pending", json!([{"name": "etcd"}])),
        ],
    })
}

/// Whether such a container runs in a pod of this name.
fn runs(list: &Value, pod: &str, container: &str) -> bool {
    let named = |it: &Value| it["metadata"]["name"] == pod;
    let alive = |it: &Value| {
        it["status"]["phase"] == "Running" && it["metadata"]["deletionTimestamp"].is_null()
    };
    let has = |it: &Value, field: &str| {
        let all = it["spec"][field].as_array();
        all.is_some_and(|all| all.iter().any(|it| it["name"] == container))
    };
    let mut items = list["items"].as_array().unwrap().iter();
    items.any(|it| named(it) && alive(it) && (has(it, "containers") || has(it, "initContainers")))
}

fuzzed!(
    a_command_is_run_in_a_pod_that_runs_or_nowhere,
    300,
    (
        changed(vec![listed()], 5),
        prop::option::of(select(vec!["etcd", "backup", "sidecar", "init"]))
    ),
    |(list, container)| {
        let Ok(List { items }) = serde_json::from_str(&list.text) else {
            return Ok(());
        };
        match choose(&items, container) {
            Ok(chosen) => {
                // It becomes part of a path.
                let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
                prop_assert!(chosen.pod.chars().all(plain), "{:?}", chosen);
                prop_assert!(!chosen.pod.starts_with('.'), "{:?}", chosen);
                prop_assert!(chosen.pod.len() <= 253 && chosen.container.len() <= 253);
                if let (Ok(stands), false) = (serde_json::from_str(&list.text), list.repeats) {
                    prop_assert!(
                        runs(&stands, &chosen.pod, &chosen.container),
                        "{:?}",
                        chosen
                    );
                }
            }
            Err(Missing::Container(why)) => {
                prop_assert!(why.chars().count() <= 300, "{}", why.len());
                prop_assert!(!why.chars().any(char::is_control), "{:?}", why);
            }
            Err(Missing::Pod) => {}
        }
        Ok(())
    }
);

fn watches() -> Vec<PodWatch> {
    let mut scopes = Scopes::default();
    for app in ["a", "b"] {
        let selector: LabelSelector =
            serde_json::from_value(json!({"matchLabels": {"app": app}})).unwrap();
        let claim = Claim {
            pair: Pair {
                namespace: "n".into(),
                service: "s".into(),
            },
            policy: "p".into(),
        };
        scopes.need(&Arc::new(Selector::new(&selector)), &claim);
    }
    scopes.settle();
    scopes.watches().iter().cloned().collect()
}

/// Decimals, and what looks like some.
fn version() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..12u64).prop_map(|number| number.to_string()),
        2 => select(vec![
            "", "0", "-1", "+7", "007", "7 ", "7a", "٣", "1e1", "18446744073709551615",
            "18446744073709551616", "99999999999999999999999999999999",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,20}",
    ]
}

/// What happens to a pod.
#[derive(Clone, Debug)]
enum Step {
    /// The watch of this index shows it in this version, looping or not.
    Shown(usize, String, bool),
    /// The server does not know this version any more.
    Outdated(String),
    /// The watch says that it is gone.
    Gone(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2usize, version(), any::<bool>()).prop_map(|(at, it, on)| Step::Shown(at, it, on)),
        2 => version().prop_map(Step::Outdated),
        1 => (0..2usize).prop_map(Step::Gone),
    ]
}

fn pod(version: &str, looping: bool) -> Pod {
    let reason = if looping {
        "CrashLoopBackOff"
    } else {
        "ContainerCreating"
    };
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": version},
        "status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]},
    }))
    .unwrap()
}

fuzzed!(
    /// Versions are numbers that rise. What is none is believed as it comes, so that a pod is never stuck
    /// in one; and a number never gives way to a smaller one, unless the server has denied it.
    a_version_of_any_text_is_taken_up_or_older,
    400,
    prop::collection::vec(step(), 1..20),
    |steps| {
        let number = |text: &str| text.parse::<u64>().ok();
        let watches = watches();
        let mut looping = Looping::default();
        // What is known: the version, whether it was denied, and the watches that show it.
        let mut known: Option<(String, bool)> = None;
        let mut shown = BTreeSet::new();
        for step in steps {
            match step {
                Step::Shown(at, version, loops) => {
                    looping.event(&watches[at], Event::Apply(pod(&version, loops)), Instant::now());
                    let older = known.as_ref().is_some_and(|(known, denied)| match denied {
                        true => *known == version,
                        false => match (number(known), number(&version)) {
                            (Some(known), Some(told)) => told < known,
                            _ => false,
                        },
                    });
                    if known.is_some() || loops {
                        shown.insert(at);
                    }
                    if !older && (known.is_some() || loops) {
                        known = Some((version, false));
                    }
                }
                Step::Outdated(version) => {
                    looping.outdate("u", &version);
                    if let Some((_, denied)) = known.as_mut().filter(|it| it.0 == version) {
                        *denied = true;
                    }
                }
                Step::Gone(at) => {
                    looping.event(&watches[at], Event::Delete(pod("9", true)), Instant::now());
                    shown.remove(&at);
                    if shown.is_empty() {
                        known = None;
                    }
                }
            }
            let sighting = looping.get("u");
            let told = sighting.map(|it| &*it.version);
            prop_assert_eq!(told, known.as_ref().map(|it| &*it.0));
            if known.as_ref().is_some_and(|(_, denied)| *denied) {
                prop_assert_eq!(sighting.and_then(|it| it.looping()), None);
            }
        }
        for watch in &watches {
            looping.end(watch);
        }
        prop_assert_eq!(looping.count(), 0);
        Ok(())
    }
);
