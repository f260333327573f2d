use kube::core::ObjectList;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn cluster(shoot: Value) -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": "shoot--a--b", "uid": "u"},
        "spec": {"cloudProfile": {"spec": {"machineImages": []}}, "seed": {}, "shoot": shoot},
    }))
    .unwrap()
}

#[test]
fn reads_every_field_of_a_full_shoot() {
    let cluster = cluster(json!({
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {
            "name": "b",
            "labels": {"stage": "live"},
            "deletionTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {
            "hibernation": {"enabled": true, "schedules": [{"start": "00 20 * * *"}]},
            "provider": {"type": "local", "workers": [
                {"name": "w1", "machineControllerManager": {"nodeConditions": ["KernelDeadlock"]}},
                {"name": "w2", "minimum": 1, "controlPlane": null},
                {"name": "w3", "controlPlane": {}},
            ]},
            "kubernetes": {
                "version": "1.33.1",
                "kubeControllerManager": {"nodeMonitorGracePeriod": "2m0s"},
            },
        },
        "status": {
            "hibernated": true,
            "lastOperation": {"type": "Reconcile", "state": "Processing", "progress": 42},
        },
    }));
    assert_eq!(
        cluster.shoot_labels,
        BTreeMap::from([("stage".into(), "live".into())])
    );
    assert_eq!(
        cluster.shoot,
        Ok(Shoot {
            deleting: true,
            hibernation_enabled: true,
            hibernated: true,
            workers: vec![
                Worker {
                    name: "w1".into(),
                    machine_controller_manager: Some(MachineSettings {
                        node_conditions: Some(vec!["KernelDeadlock".into()]),
                    }),
                    control_plane: None,
                },
                Worker {
                    name: "w2".into(),
                    machine_controller_manager: None,
                    control_plane: None,
                },
                Worker {
                    name: "w3".into(),
                    machine_controller_manager: None,
                    control_plane: Some(IgnoredAny),
                },
            ],
            node_monitor_grace_period: Some("2m0s".into()),
            operation: "Reconcile".into(),
            operation_state: "Processing".into(),
            taken_up: true,
        })
    );
}

#[rstest]
#[case::empty(json!({}))]
#[case::nulls(json!({"metadata": null, "spec": null, "status": null}))]
#[case::deeper_nulls(json!({
    "metadata": {"labels": null, "deletionTimestamp": null},
    "spec": {
        "hibernation": {"enabled": null},
        "provider": {"workers": null},
        "kubernetes": {"kubeControllerManager": null},
    },
    "status": {"hibernated": null, "lastOperation": null},
}))]
fn what_is_absent_is_not_an_error(#[case] shoot: Value) {
    assert_eq!(
        cluster(shoot).shoot,
        Ok(Shoot {
            deleting: false,
            hibernation_enabled: false,
            hibernated: false,
            workers: vec![],
            node_monitor_grace_period: None,
            operation: String::new(),
            operation_state: String::new(),
            taken_up: true,
        })
    );
}

#[rstest]
#[case::missing(json!(null), "spec.shoot is missing")]
#[case::a_list(json!([1]), "spec.shoot")]
#[case::a_string(json!("x"), "spec.shoot: invalid type: string \"x\"")]
#[case::enabled(
    json!({"spec": {"hibernation": {"enabled": "yes"}}}),
    "spec.shoot.spec.hibernation.enabled: invalid type: string \"yes\", expected a boolean"
)]
#[case::workers(
    json!({"spec": {"provider": {"workers": {"name": "w"}}}}),
    "spec.shoot.spec.provider.workers: invalid type: map"
)]
#[case::worker_without_name(
    json!({"spec": {"provider": {"workers": [{"name": "w"}, {}]}}}),
    "spec.shoot.spec.provider.workers: missing field `name`"
)]
#[case::grace(
    json!({"spec": {"kubernetes": {"kubeControllerManager": {"nodeMonitorGracePeriod": 40}}}}),
    "nodeMonitorGracePeriod: invalid type: integer `40`, expected a string"
)]
#[case::deletion(
    json!({"metadata": {"deletionTimestamp": "soon"}}),
    "spec.shoot.metadata.deletionTimestamp: "
)]
#[case::operation(json!({"status": {"lastOperation": {"type": 1}}}), "lastOperation.type: ")]
fn a_wrong_type_names_the_field(#[case] shoot: Value, #[case] reason: &str) {
    let unreadable = cluster(shoot).shoot.unwrap_err();
    assert!(unreadable.contains(reason), "{unreadable}");
}

#[test]
fn labels_survive_an_unreadable_shoot_and_the_cluster_overrides_them() {
    let cluster: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "c", "labels": {"both": "cluster", "own": "1"}},
        "spec": {"shoot": {
            "metadata": {"labels": {"both": "shoot", "inner": "2"}},
            "status": {"hibernated": 7},
        }},
    }))
    .unwrap();
    assert!(cluster.shoot.is_err());
    let expected = [("both", "cluster"), ("inner", "2"), ("own", "1")];
    assert_eq!(
        cluster.labels(LabelSource::ClusterAndShoot),
        expected
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    );
}

/// In what is not read, where gardenlet copies what a user wrote; or in what is.
#[rstest]
#[case::passed_over("extensions", true)]
#[case::read("provider", false)]
fn depth_hides_no_other_cluster(#[case] field: &str, #[case] is_readable: bool) {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let body = format!(
        r#"{{"metadata": {{}}, "items": [
            {{"metadata": {{"name": "a"}}, "spec": {{"shoot": {{
                "metadata": {{"labels": {{"stage": "live"}}}}, "spec": {{"{field}": {deep}}}
            }}}}}},
            {{"metadata": {{"name": "b"}}, "spec": {{"shoot": {{}}}}}}
        ]}}"#
    );
    let list: ObjectList<Cluster> = serde_json::from_str(&body).unwrap();
    assert_eq!(list.items[0].shoot.is_ok(), is_readable);
    assert_eq!(list.items[0].shoot_labels["stage"], "live");
    assert!(list.items[1].shoot.is_ok());
}
