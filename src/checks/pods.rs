//! In which pod, and in which of its containers, a command is run.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Api, ResourceExt as _, api::ListParams};

use crate::{
    api::{ExecAction, is_dns_subdomain},
    runtime::seed::Seed,
    util::text::clean,
};

const MAX_CAUSE: usize = 300;
/// So many names of containers are told.
const MAX_NAMES: usize = 8;

/// Where a command is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The name of the pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
}

/// Lists the pods that `action` selects, and chooses; or why none can be chosen.
pub(super) async fn find(
    seed: &Seed,
    namespace: &str,
    action: &ExecAction,
) -> Result<Chosen, String> {
    let selector = &action.pod_selector;
    // From the API server's cache: a pod that has just gone is found to be gone.
    let params = ListParams::default().labels(&selector.text()).match_any();
    let pods: Api<Pod> = Api::namespaced(seed.client().clone(), namespace);
    let pods = seed.call_at_turn(pods.list(&params)).await;
    let pods = pods.map_err(|error| {
        let cause = clean(&error.to_string(), MAX_CAUSE);
        format!("the pods of namespace {namespace} cannot be listed: {cause}")
    })?;
    choose(&pods.items, action.container.as_deref()).map_err(|why| match why {
        Missing::Pod => format!(
            "no pod runs in namespace {namespace} with {}",
            selector.brief()
        ),
        Missing::Container(why) => why,
    })
}

/// Why there is nothing to run a command in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No pod runs.
    Pod,
    /// The pod has no such container, or more than one.
    Container(String),
}

/// Of those that run, are not about to end, and have a name that can be part of a path: one that is
/// ready before one that is not, then the first by name.
///
/// # Errors
///
/// If there is none, or if it is not clear in which container.
pub fn choose(pods: &[Pod], container: Option<&str>) -> Result<Chosen, Missing> {
    let running = pods.iter().filter(|pod| is_running(pod));
    let pod = running
        .min_by_key(|pod| (!is_ready(pod), pod.name_any()))
        .ok_or(Missing::Pod)?;
    let name = pod.name_any();
    let spec = pod.spec.as_ref();
    let containers = spec.map_or(&[][..], |it| &it.containers);
    // An init container that is restarted always runs beside the others.
    let init_containers = spec.into_iter().flat_map(|it| &it.init_containers);
    let sidecars = init_containers
        .flatten()
        .filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let container = match (container, containers) {
        (Some(wanted), all) => {
            let mut all = all.iter().chain(sidecars);
            all.find(|it| it.name == wanted).ok_or_else(|| {
                let there = names(containers);
                format!("pod {name} has no container {wanted}; it has {there}")
            })
        }
        (None, [only]) if is_dns_subdomain(&only.name) => Ok(only),
        (None, [_]) => Err(format!(
            "the container of pod {name} has no name that it can have"
        )),
        (None, _) => {
            let there = names(containers);
            Err(format!(
                "pod {name} has several containers, and none is named; it has {there}"
            ))
        }
    };
    let container = container.map_err(|why| Missing::Container(clean(&why, MAX_CAUSE)))?;
    Ok(Chosen {
        pod: name,
        container: container.name.clone(),
    })
}

fn names(containers: &[Container]) -> String {
    let names: Vec<&str> = containers
        .iter()
        .take(MAX_NAMES)
        .map(|it| it.name.as_str())
        .collect();
    names.join(", ")
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    // Its name becomes part of a path, and of messages.
    phase == Some("Running")
        && pod.metadata.deletion_timestamp.is_none()
        && is_dns_subdomain(&pod.name_any())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| &it.conditions);
    let mut conditions = conditions.flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, phase: &str, ready: &str, containers: &[&str]) -> Value {
        let containers: Vec<Value> = containers.iter().map(|it| json!({"name": it})).collect();
        json!({
            "metadata": {"name": name, "labels": {"app": "etcd"}},
            "spec": {
                "containers": containers,
                "initContainers": [{"name": "init"}, {"name": "sidecar", "restartPolicy": "Always"}],
            },
            "status": {
                "phase": phase,
                "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": ready}],
            },
        })
    }

    fn running(name: &str, ready: &str) -> Value {
        pod(name, "Running", ready, &["etcd"])
    }

    fn ending(name: &str) -> Value {
        let mut pod = running(name, "True");
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod
    }

    fn chosen(pods: Vec<Value>, container: Option<&str>) -> Result<Chosen, Missing> {
        let pods: Vec<Pod> = serde_json::from_value(pods.into()).unwrap();
        choose(&pods, container)
    }

    #[rstest]
    #[case::none(vec![], None)]
    #[case::none_runs(vec![pod("a", "Pending", "False", &["etcd"]), pod("b", "Succeeded", "False", &["etcd"])], None)]
    #[case::the_first_by_name(vec![running("b", "True"), running("a", "True")], Some("a"))]
    #[case::ready_before_unready(vec![running("a", "False"), running("b", "True")], Some("b"))]
    #[case::unready_if_none_is_ready(vec![running("b", "False"), running("a", "Unknown")], Some("a"))]
    #[case::not_one_that_ends(vec![ending("a"), running("b", "False")], Some("b"))]
    #[case::only_one_that_ends(vec![ending("a")], None)]
    #[case::nothing_said(vec![json!({"metadata": {"name": "a"}})], None)]
    fn pods_are_chosen(#[case] pods: Vec<Value>, #[case] expected: Option<&str>) {
        let expected = expected.map(|pod| Chosen {
            pod: pod.to_owned(),
            container: "etcd".to_owned(),
        });
        assert_eq!(chosen(pods, None), expected.ok_or(Missing::Pod));
    }

    #[rstest]
    #[case::the_only_one(&["etcd"], None, Ok("etcd"))]
    #[case::named(&["etcd", "backup"], Some("backup"), Ok("backup"))]
    #[case::sidecar(&["etcd"], Some("sidecar"), Ok("sidecar"))]
    #[case::init(&["etcd"], Some("init"), Err("pod a has no container init; it has etcd"))]
    #[case::not_there(&["etcd", "backup"], Some("b"), Err("pod a has no container b; it has etcd, backup"))]
    #[case::not_named(&["etcd", "backup"], None, Err("pod a has several containers, and none is named; it has etcd, backup"))]
    fn containers_are_chosen(
        #[case] containers: &[&str],
        #[case] named: Option<&str>,
        #[case] expected: Result<&str, &str>,
    ) {
        let chosen = chosen(vec![pod("a", "Running", "True", containers)], named);
        let expected = expected.map(|container| Chosen {
            pod: "a".to_owned(),
            container: container.to_owned(),
        });
        assert_eq!(
            chosen,
            expected.map_err(|why| Missing::Container(why.to_owned()))
        );
    }
}
