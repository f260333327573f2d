//! Is a cluster probed at all, whatever its policy says?
//!
//! A silent kubelet is evidence of an outage only where kubelets are meant to be running. The first
//! rule that applies gives the reason, in this order:
//!
//! 1. the Cluster is being deleted;
//! 2. its Shoot cannot be read, so nothing below can be told;
//! 3. it is self-hosted: its control plane runs on its own nodes;
//! 4. the Shoot is being deleted;
//! 5. its control plane is migrating to another seed;
//! 6. its last operation is of another type than those that are known here, or `LiveMigrate`;
//! 7. it is hibernated, or on the way there;
//! 8. it is waking up;
//! 9. it has no workers;
//! 10. it has not been created, or restored on this seed, once.
//!
//! The reason that leaves least to do for a cluster that is still protected comes first: in 1, 4, 5, 7 and 8 the
//! control plane belongs to gardenlet alone, in 9 its dependents are to be restored. In 3 and 6 it is not
//! known whether gardenlet decides about them, nor in 7 before gardenlet has taken up the hibernation: 3 comes
//! before 4, and 6 before 7, so that no mark is removed from what is at zero.

use crate::gardener::Cluster;

/// Reason why a cluster is not probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// In the form of a condition's `reason`.
    pub reason: &'static str,
    /// For people, with the field that was seen.
    pub message: String,
    /// Fate of a protection.
    pub then: Then,
}

/// Fate of the protection of a cluster that is not probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Removes the marks, and leaves the replicas as they are: gardenlet decides about them.
    Release,
    /// Restores it, since there is nothing left to protect.
    Restore,
    /// Judges it by its leases all the same, and scales nothing more down: gardenlet may decide about it, or not.
    LetGo,
    /// Leaves it as it is, since nothing is known of the cluster.
    Stay,
    /// Removes the marks unless it comes back soon: the Cluster is gone.
    Bury,
}

/// Returns why this cluster is not probed; `None` if it is. Rules and order are those of this module.
pub fn skip(cluster: &Cluster) -> Option<Skip> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return deleting("metadata.deletionTimestamp is set");
    }
    let shoot = match &cluster.shoot {
        Ok(shoot) => shoot,
        Err(why) => {
            let message = format!(
                "the Cluster cannot be read: {why}; nothing is scaled until its Shoot is corrected"
            );
            return new("Unreadable", Then::Stay, message);
        }
    };
    if shoot
        .workers
        .iter()
        .any(|pool| pool.control_plane.is_some())
    {
        let message = "spec.shoot.spec.provider.workers has a pool with controlPlane: the control plane \
                       runs on the cluster's own nodes, so there is nothing here to scale";
        return new("SelfHosted", Then::LetGo, message);
    }
    if shoot.deleting {
        return deleting("spec.shoot.metadata.deletionTimestamp is set");
    }
    let (operation, state) = (&*shoot.operation, &*shoot.operation_state);
    let last = format!("{operation} {state}");
    let last = match last.trim() {
        "" => "unset",
        last => last,
    };
    let is = format!("spec.shoot.status.lastOperation is {last}");
    match operation {
        "Delete" => return deleting(&is),
        "Migrate" => {
            let message = format!("{is}: the control plane moves to another seed");
            return new("Migrating", Then::Release, message);
        }
        "LiveMigrate" => {
            let message = format!(
                "{is}: the control plane moves to another seed while it runs, so nothing is scaled to zero"
            );
            return new("LiveMigrating", Then::LetGo, message);
        }
        "" | "Create" | "Reconcile" | "Restore" => {}
        _ => {
            let message = format!(
                "{is}, of a type that this version does not know, so nothing is scaled to zero: look for \
                 a newer version"
            );
            return new("UnknownOperation", Then::LetGo, message);
        }
    }
    if shoot.hibernation_enabled {
        let (then, state) = match (shoot.hibernated, shoot.taken_up) {
            (true, _) => (Then::Release, "is hibernated"),
            (_, true) => (Then::Release, "is being hibernated"),
            _ => (Then::LetGo, "goes on until gardenlet takes that up"),
        };
        let message = format!("spec.shoot.spec.hibernation.enabled is true: the cluster {state}");
        return new("Hibernated", then, message);
    }
    if shoot.hibernated {
        let message = "spec.shoot.status.hibernated is true and spec.shoot.spec.hibernation.enabled is \
                       not: the cluster is waking up";
        return new("WakingUp", Then::Release, message);
    }
    if shoot.workers.is_empty() {
        let message = "spec.shoot.spec.provider.workers is empty: there are no nodes to lose";
        return new("NoWorkers", Then::Restore, message);
    }
    // While a control plane is put up for the first time on this seed, its parts come and go.
    let (reason, once) = match (operation, state) {
        ("Reconcile", _) | ("Create" | "Restore", "Succeeded") => return None,
        ("Restore", _) => ("NotYetRestored", "Restore"),
        _ => ("NotYetCreated", "Create"),
    };
    let message = format!("{is}: probed once it is Reconcile or {once} Succeeded");
    new(reason, Then::Stay, message)
}

fn deleting(why: &str) -> Option<Skip> {
    let message = format!("{why}: the cluster is being deleted");
    new("Deleting", Then::Release, message)
}

fn new(reason: &'static str, then: Then, message: impl Into<String>) -> Option<Skip> {
    let message = message.into();
    Some(Skip {
        reason,
        message,
        then,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn cluster(shoot: Value) -> Cluster {
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"shoot": shoot}}))
            .unwrap()
    }

    /// A Shoot with workers whose last operation is of this type and state.
    fn after(kind: &str, state: &str) -> Value {
        json!({
            "metadata": {},
            "spec": {"provider": {"workers": [{"name": "w"}]}},
            "status": {"lastOperation": {"type": kind, "state": state}},
        })
    }

    #[test]
    fn the_documented_cluster_is_probed() {
        let example = include_str!("../../docs/examples/cluster.yaml");
        let example: Value = serde_saphyr::from_str(example).unwrap();
        let cluster: Cluster = serde_json::from_value(example).unwrap();
        assert_eq!(skip(&cluster), None);
    }

    fn reason(shoot: Value) -> &'static str {
        reason_of(&cluster(shoot))
    }

    fn reason_of(cluster: &Cluster) -> &'static str {
        skip(cluster).map_or("Probed", |skip| skip.reason)
    }

    #[rstest]
    fn the_last_operation_decides(
        #[values(
            "Create",
            "Reconcile",
            "Delete",
            "Migrate",
            "LiveMigrate",
            "Restore",
            "",
            "create",
            "Later"
        )]
        kind: &str,
        #[values("Pending", "Processing", "Succeeded", "Failed", "Error", "Aborted", "")]
        state: &str,
    ) {
        let expected = match (kind, state) {
            ("Reconcile", _) | ("Create" | "Restore", "Succeeded") => "Probed",
            ("Migrate", _) => "Migrating",
            ("Delete", _) => "Deleting",
            ("Restore", _) => "NotYetRestored",
            ("LiveMigrate", _) => "LiveMigrating",
            ("create" | "Later", _) => "UnknownOperation",
            _ => "NotYetCreated",
        };
        assert_eq!(reason(after(kind, state)), expected);
    }

    #[rstest]
    #[case(None, None, "Probed")]
    #[case(Some(false), Some(false), "Probed")]
    #[case(Some(true), None, "Hibernated")]
    #[case(Some(true), Some(false), "Hibernated")]
    #[case(Some(true), Some(true), "Hibernated")]
    #[case(None, Some(true), "WakingUp")]
    #[case(Some(false), Some(true), "WakingUp")]
    fn hibernation(
        #[case] enabled: Option<bool>,
        #[case] hibernated: Option<bool>,
        #[case] expected: &str,
    ) {
        let mut shoot = after("Reconcile", "Processing");
        shoot["spec"]["hibernation"] = json!({"enabled": enabled});
        shoot["status"]["hibernated"] = json!(hibernated);
        assert_eq!(reason(shoot), expected);
    }

    /// Hibernation would remove marks from what is at zero.
    #[rstest]
    #[case::live_migrate("LiveMigrate", "LiveMigrating")]
    #[case::unknown("Later", "UnknownOperation")]
    fn another_operation_comes_before_what_removes_marks(
        #[case] kind: &str,
        #[case] expected: &str,
    ) {
        let mut shoot = after(kind, "Processing");
        for enabled in [true, false] {
            shoot["spec"]["hibernation"] = json!({"enabled": enabled});
            shoot["status"]["hibernated"] = json!(true);
            assert_eq!(reason(shoot.clone()), expected);
        }
        shoot["spec"]["provider"]["workers"] = json!([]);
        assert_eq!(reason(shoot), expected);
    }

    /// Each step takes away what the one before was skipped for; the next reason must show.
    #[test]
    fn the_order_of_precedence() {
        let mut object = json!({
            "metadata": {"name": "c", "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "spec": {"shoot": {
                "metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"},
                "spec": {
                    "hibernation": {"enabled": true},
                    "provider": {"workers": [{"name": "c", "controlPlane": {}}]},
                },
                "status": {
                    "hibernated": "unreadable",
                    "lastOperation": {"type": "Migrate", "state": "Processing"},
                },
            }},
        });
        type Step = fn(&mut Value);
        let steps: [(Step, &str); 11] = [
            (|_| (), "Deleting"),
            (
                |it| it["metadata"]["deletionTimestamp"] = json!(null),
                "Unreadable",
            ),
            (
                |it| it["spec"]["shoot"]["status"]["hibernated"] = json!(true),
                "SelfHosted",
            ),
            (
                |it| it["spec"]["shoot"]["spec"]["provider"]["workers"] = json!([]),
                "Deleting",
            ),
            (
                |it| it["spec"]["shoot"]["metadata"] = json!({}),
                "Migrating",
            ),
            (
                |it| it["spec"]["shoot"]["status"]["lastOperation"] = json!({"type": "Later"}),
                "UnknownOperation",
            ),
            (
                |it| it["spec"]["shoot"]["status"]["lastOperation"] = json!(null),
                "Hibernated",
            ),
            (
                |it| it["spec"]["shoot"]["spec"]["hibernation"] = json!(null),
                "WakingUp",
            ),
            (
                |it| it["spec"]["shoot"]["status"]["hibernated"] = json!(null),
                "NoWorkers",
            ),
            (
                |it| it["spec"]["shoot"]["spec"]["provider"]["workers"] = json!([{"name": "w"}]),
                "NotYetCreated",
            ),
            (
                |it| it["spec"]["shoot"]["status"]["lastOperation"] = json!({"type": "Reconcile"}),
                "Probed",
            ),
        ];
        for (number, (step, expected)) in steps.into_iter().enumerate() {
            step(&mut object);
            let cluster = serde_json::from_value(object.clone()).unwrap();
            assert_eq!(reason_of(&cluster), expected, "step {number}");
        }
    }

    #[rstest]
    #[case(json!({"metadata": {"deletionTimestamp": "2026-11-20T11:02:33Z"}}), "spec.shoot.metadata.deletionTimestamp is set", Then::Release)]
    #[case(after("Delete", ""), "lastOperation is Delete: ", Then::Release)]
    #[case(json!({"spec": {"provider": {"workers": [{"name": "w", "controlPlane": {}}]}}}), "provider.workers has a pool with controlPlane", Then::LetGo)]
    #[case(after("Migrate", ""), "lastOperation is Migrate: ", Then::Release)]
    #[case(
        after("LiveMigrate", "Processing"),
        "lastOperation is LiveMigrate Processing",
        Then::LetGo
    )]
    #[case(
        after("Later", "Failed"),
        "lastOperation is Later Failed, of a type that this version does not know",
        Then::LetGo
    )]
    #[case(json!({"spec": {"hibernation": {"enabled": true}}}), "is being hibernated", Then::Release)]
    #[case(json!({"metadata": {"generation": 2}, "spec": {"hibernation": {"enabled": true}}}), "goes on until gardenlet", Then::LetGo)]
    #[case(json!({"spec": {"hibernation": {"enabled": true}}, "status": {"hibernated": true}}), "is hibernated", Then::Release)]
    #[case(json!({"status": {"hibernated": true}}), "status.hibernated is true", Then::Release)]
    #[case(json!({}), "provider.workers is empty", Then::Restore)]
    #[case(json!({"spec": {"provider": {"workers": [{"name": "w"}]}}}), "lastOperation is unset: ", Then::Stay)]
    #[case(
        after("Create", "Failed"),
        "lastOperation is Create Failed",
        Then::Stay
    )]
    #[case(after("", ""), "lastOperation is unset", Then::Stay)]
    #[case(after("Restore", ""), "lastOperation is Restore:", Then::Stay)]
    fn the_message_states_the_field(
        #[case] shoot: Value,
        #[case] expected: &str,
        #[case] then: Then,
    ) {
        let skip = skip(&cluster(shoot)).unwrap();
        assert!(skip.message.contains(expected), "{skip:?}");
        assert_eq!(skip.then, then, "{skip:?}");
    }
}
