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
//! What leaves least to do for a cluster that is still protected comes first: in 1, 4 and 5 the
//! control plane belongs to gardenlet alone, in 7 to 9 its dependents may have to be restored. In 3 and
//! 6 it is not known whether gardenlet decides about them: 3 comes before 4, and 6 before 7, so that no
//! mark is removed from what is at zero.

use std::fmt;

use crate::gardener::{Cluster, LastOperation, Shoot, Unreadable};

/// The type of an operation that moves a control plane while it runs.
const LIVE_MIGRATE: &str = "LiveMigrate";

/// Whether a cluster is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// It is.
    Probed,
    /// It is not, for this reason.
    Skipped(Skip),
}

/// Why a cluster is not probed. `Display` is the message for people, with the field that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The Cluster or its Shoot is being deleted.
    Deleting(Deletion),
    /// The Shoot in the Cluster cannot be read: nothing is known of the cluster, so a protection
    /// stays as it is.
    Unreadable(Unreadable),
    /// The control plane runs on the cluster's own nodes: a worker pool has the field `controlPlane`.
    SelfHosted,
    /// The control plane is leaving this seed.
    Migrating,
    /// The last operation is `LiveMigrate`, or of a type that is not known.
    OtherOperation(LastOperation),
    /// Hibernation is enabled.
    Hibernated {
        /// `status.hibernated`: the nodes are gone and the control plane is scaled to zero.
        asleep: bool,
    },
    /// Hibernation is disabled, the cluster is not yet awake.
    WakingUp,
    /// There is no worker pool, so there is no node to lose.
    NoWorkers,
    /// The first creation has not succeeded; `None` when no operation was recorded.
    NotYetCreated(Option<LastOperation>),
    /// The restoration on this seed, after a migration, has not succeeded.
    NotYetRestored(LastOperation),
}

/// By what a deletion was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The Cluster's `metadata.deletionTimestamp`.
    Cluster,
    /// The Shoot's `metadata.deletionTimestamp`.
    Shoot,
    /// The Shoot's last operation.
    LastOperation,
}

/// Tells whether `cluster` is probed; the rules and their order are those of this module.
pub fn eligibility(cluster: &Cluster) -> Eligibility {
    match skip(cluster) {
        Some(skip) => Eligibility::Skipped(skip),
        None => Eligibility::Probed,
    }
}

fn skip(cluster: &Cluster) -> Option<Skip> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Some(Skip::Deleting(Deletion::Cluster));
    }
    let shoot = match &cluster.shoot {
        Ok(shoot) => shoot,
        Err(unreadable) => return Some(Skip::Unreadable(unreadable.clone())),
    };
    let operation = shoot.last_operation.as_ref().map_or("", |it| &it.kind);
    if shoot.workers.iter().any(|pool| pool.control_plane) {
        Some(Skip::SelfHosted)
    } else if shoot.deleting {
        Some(Skip::Deleting(Deletion::Shoot))
    } else if operation == "Delete" {
        Some(Skip::Deleting(Deletion::LastOperation))
    } else if operation == "Migrate" {
        Some(Skip::Migrating)
    } else if let Some(other) = other_operation(shoot) {
        Some(Skip::OtherOperation(other.clone()))
    } else if shoot.hibernation_enabled {
        Some(Skip::Hibernated {
            asleep: shoot.hibernated,
        })
    } else if shoot.hibernated {
        Some(Skip::WakingUp)
    } else if shoot.workers.is_empty() {
        Some(Skip::NoWorkers)
    } else {
        not_yet_there(shoot)
    }
}

/// The last operation, if the rules below do not know its type. One without a type says as little as
/// none at all.
fn other_operation(shoot: &Shoot) -> Option<&LastOperation> {
    let known = ["", "Create", "Reconcile", "Restore"];
    let operation = shoot.last_operation.as_ref();
    operation.filter(|it| !known.contains(&&*it.kind))
}

/// While a control plane is put up for the first time on this seed, its parts come and go.
fn not_yet_there(shoot: &Shoot) -> Option<Skip> {
    let Some(operation) = &shoot.last_operation else {
        return Some(Skip::NotYetCreated(None));
    };
    match (operation.kind.as_str(), operation.state.as_str()) {
        ("Reconcile", _) | ("Create" | "Restore", "Succeeded") => None,
        ("Restore", _) => Some(Skip::NotYetRestored(operation.clone())),
        _ => Some(Skip::NotYetCreated(Some(operation.clone()))),
    }
}

impl Skip {
    /// The reason in the form of a condition's `reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Deleting(_) => "Deleting",
            Self::Unreadable(_) => "Unreadable",
            Self::SelfHosted => "SelfHosted",
            Self::Migrating => "Migrating",
            Self::OtherOperation(it) if it.kind == LIVE_MIGRATE => "LiveMigrating",
            Self::OtherOperation(_) => "UnknownOperation",
            Self::Hibernated { .. } => "Hibernated",
            Self::WakingUp => "WakingUp",
            Self::NoWorkers => "NoWorkers",
            Self::NotYetCreated(_) => "NotYetCreated",
            Self::NotYetRestored(_) => "NotYetRestored",
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting(deletion) => write!(f, "{deletion}: the cluster is being deleted"),
            Self::Unreadable(unreadable) => write!(
                f,
                "the Cluster cannot be read: {unreadable}; nothing is scaled until its Shoot is \
                 corrected"
            ),
            Self::SelfHosted => f.write_str(
                "spec.shoot.spec.provider.workers has a pool with controlPlane: the control plane \
                 runs on the cluster's own nodes, so there is nothing here to scale",
            ),
            Self::OtherOperation(operation) if operation.kind == LIVE_MIGRATE => write!(
                f,
                "spec.shoot.status.lastOperation is {operation}: the control plane moves to another \
                 seed while it runs, so nothing is scaled to zero"
            ),
            Self::OtherOperation(operation) => write!(
                f,
                "spec.shoot.status.lastOperation is {operation}, of a type that this version does \
                 not know, so nothing is scaled to zero: look for a newer version"
            ),
            Self::Migrating => f.write_str(
                "spec.shoot.status.lastOperation.type is Migrate: the control plane moves to \
                 another seed",
            ),
            Self::Hibernated { asleep } => write!(
                f,
                "spec.shoot.spec.hibernation.enabled is true: the cluster {}",
                if *asleep {
                    "is hibernated"
                } else {
                    "is being hibernated"
                }
            ),
            Self::WakingUp => f.write_str(
                "spec.shoot.status.hibernated is true and spec.shoot.spec.hibernation.enabled is \
                 not: the cluster is waking up",
            ),
            Self::NoWorkers => {
                f.write_str("spec.shoot.spec.provider.workers is empty: there are no nodes to lose")
            }
            Self::NotYetCreated(None) => f.write_str(
                "spec.shoot.status.lastOperation is missing: the cluster has not been created yet",
            ),
            Self::NotYetCreated(Some(operation)) => write!(
                f,
                "spec.shoot.status.lastOperation is {operation}: probed once it is Reconcile or \
                 Create Succeeded"
            ),
            Self::NotYetRestored(operation) => write!(
                f,
                "spec.shoot.status.lastOperation is {operation}: probed once it is Reconcile or \
                 Restore Succeeded"
            ),
        }
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "metadata.deletionTimestamp is set",
            Self::Shoot => "spec.shoot.metadata.deletionTimestamp is set",
            Self::LastOperation => "spec.shoot.status.lastOperation.type is Delete",
        })
    }
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
        let cluster: Cluster = serde_saphyr::from_str(example).unwrap();
        assert_eq!(eligibility(&cluster), Eligibility::Probed);
    }

    fn reason(shoot: Value) -> &'static str {
        reason_of(&cluster(shoot))
    }

    fn reason_of(cluster: &Cluster) -> &'static str {
        match eligibility(cluster) {
            Eligibility::Probed => "Probed",
            Eligibility::Skipped(skip) => skip.reason(),
        }
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
    #[case::no_status(json!({"spec": {"provider": {"workers": [{"name": "w"}]}}}), "NotYetCreated")]
    #[case::empty_status(
        json!({"spec": {"provider": {"workers": [{"name": "w"}]}}, "status": {}}),
        "NotYetCreated"
    )]
    #[case::empty_operation(
        json!({"spec": {"provider": {"workers": [{"name": "w"}]}}, "status": {"lastOperation": {}}}),
        "NotYetCreated"
    )]
    #[case::no_workers(
        json!({"spec": {"provider": {"workers": []}}, "status": {"lastOperation": {"type": "Reconcile"}}}),
        "NoWorkers"
    )]
    #[case::no_provider(json!({"status": {"lastOperation": {"type": "Reconcile"}}}), "NoWorkers")]
    #[case::nothing(json!({}), "NoWorkers")]
    #[case::no_shoot(json!(null), "Unreadable")]
    #[case::wrong_type(json!({"status": {"hibernated": "no"}}), "Unreadable")]
    fn odd_shoots(#[case] shoot: Value, #[case] expected: &str) {
        assert_eq!(reason(shoot), expected);
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

    #[rstest]
    #[case::one_of_two(json!([{"name": "w"}, {"name": "c", "controlPlane": {}}]), "SelfHosted")]
    #[case::with_fields(json!([{"name": "c", "controlPlane": {"backup": {}}}]), "SelfHosted")]
    #[case::null(json!([{"name": "w", "controlPlane": null}]), "Probed")]
    #[case::hosted(json!([{"name": "w"}]), "Probed")]
    fn a_control_plane_on_its_own_nodes(#[case] workers: Value, #[case] expected: &str) {
        let mut shoot = after("Reconcile", "Succeeded");
        shoot["spec"]["provider"]["workers"] = workers;
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
    #[case(Skip::Deleting(Deletion::Cluster), "metadata.deletionTimestamp is set")]
    #[case(
        Skip::Deleting(Deletion::Shoot),
        "spec.shoot.metadata.deletionTimestamp is set"
    )]
    #[case(
        Skip::Deleting(Deletion::LastOperation),
        "lastOperation.type is Delete"
    )]
    #[case(Skip::SelfHosted, "provider.workers has a pool with controlPlane")]
    #[case(Skip::Migrating, "lastOperation.type is Migrate")]
    #[case(
        Skip::OtherOperation(operation("LiveMigrate", "Processing")),
        "lastOperation is LiveMigrate Processing"
    )]
    #[case(
        Skip::OtherOperation(operation("Later", "Failed")),
        "lastOperation is Later Failed, of a type that this version does not know"
    )]
    #[case(Skip::Hibernated { asleep: false }, "is being hibernated")]
    #[case(Skip::Hibernated { asleep: true }, "is hibernated")]
    #[case(Skip::WakingUp, "status.hibernated is true")]
    #[case(Skip::NoWorkers, "provider.workers is empty")]
    #[case(Skip::NotYetCreated(None), "lastOperation is missing")]
    #[case(
        Skip::NotYetCreated(Some(operation("Create", "Failed"))),
        "lastOperation is Create Failed"
    )]
    #[case(Skip::NotYetCreated(Some(operation("", ""))), "lastOperation is unset")]
    #[case(
        Skip::NotYetRestored(operation("Restore", "")),
        "lastOperation is Restore:"
    )]
    fn the_message_states_the_field(#[case] skip: Skip, #[case] expected: &str) {
        assert!(skip.to_string().contains(expected), "{skip}");
    }

    fn operation(kind: &str, state: &str) -> LastOperation {
        LastOperation {
            kind: kind.into(),
            state: state.into(),
        }
    }
}
