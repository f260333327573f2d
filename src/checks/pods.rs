//! In which pod, and in which of its containers, a command is run.

use kube::{api::ListParams, core::Request};
use serde::Deserialize;

use crate::{
    api::{ExecAction, Selector, is_dns_subdomain},
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
    /// The UID of the pod and the ID of the container: another one has none of the processes of this one.
    pub id: String,
}

/// A pod, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: String,
}

#[derive(Deserialize)]
struct Pods {
    items: Vec<Pod>,
}

/// Lists the pods that `action` selects, and chooses; or why none can be chosen.
pub(super) async fn find(
    seed: &Seed,
    namespace: &str,
    action: &ExecAction,
) -> Result<Chosen, String> {
    let selector = Selector::new(&action.pod_selector);
    // From the API server's cache: a pod that has just gone is found to be gone.
    let params = ListParams::default().labels(selector.as_str()).match_any();
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
    let request = request.list(&params).map_err(|error| error.to_string())?;
    let listed = seed.call_at_turn(seed.client().request(request)).await;
    let pods: Pods = listed.map_err(|error| {
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
    let running = pods.iter().filter(|pod| pod.is_running());
    let pod = running
        .min_by_key(|pod| (!pod.is_ready(), &pod.metadata.name))
        .ok_or(Missing::Pod)?;
    let name = &pod.metadata.name;
    let Spec {
        containers,
        init_containers,
    } = &pod.spec;
    // An init container that is restarted always runs beside the others.
    let sidecars = init_containers
        .iter()
        .filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let container = match (container, containers.as_slice()) {
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
        pod: name.clone(),
        container: container.name.clone(),
        id: pod.id(&container.name),
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

impl Pod {
    fn id(&self, container: &str) -> String {
        let Status {
            container_statuses,
            init_container_statuses,
            ..
        } = &self.status;
        let mut statuses = container_statuses.iter().chain(init_container_statuses);
        let status = statuses.find(|it| it.name == container);
        let id = status.map_or("", |it| &it.container_id);
        format!(
            "{} {} {container} {id}",
            self.metadata.name, self.metadata.uid
        )
    }

    fn is_running(&self) -> bool {
        self.status.phase == "Running"
            && self.metadata.deletion_timestamp.is_none()
            // It becomes part of a path, and of messages.
            && is_dns_subdomain(&self.metadata.name)
    }

    fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|it| it.r#type == "Ready" && it.status == "True")
    }
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
            id: format!("{pod}  etcd "),
        });
        assert_eq!(chosen(pods, None), expected.ok_or(Missing::Pod));
    }

    /// What a command has left goes with its container.
    #[rstest]
    #[case::another_pod("uid", "2")]
    #[case::restarted("id", "2")]
    #[case::nothing_changed("phase", "Running")]
    fn containers_are_told_apart(#[case] field: &str, #[case] value: &str) {
        let id = |field: &str, value: &str| {
            let mut pod = pod("a", "Running", "True", &["etcd", "backup"]);
            pod["metadata"]["uid"] = json!("1");
            pod["status"]["containerStatuses"] = json!([
                {"name": "backup", "containerID": "containerd://0"},
                {"name": "etcd", "containerID": "containerd://1"},
            ]);
            match field {
                "uid" => pod["metadata"]["uid"] = json!(value),
                "id" => pod["status"]["containerStatuses"][1]["containerID"] = json!(value),
                _ => pod["status"][field] = json!(value),
            }
            chosen(vec![pod], Some("etcd")).unwrap().id
        };
        let same = id("uid", "1") == id(field, value);
        assert_eq!(same, field == "phase", "{}", id(field, value));
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
            id: format!("a  {container} "),
        });
        assert_eq!(
            chosen,
            expected.map_err(|why| Missing::Container(why.to_owned()))
        );
    }
}
