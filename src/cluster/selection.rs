//! Which policy applies to a cluster.
//!
//! Of the policies that select it, the one of the highest priority; of several, the oldest; of
//! several created in the same second, the first by name. So there is always exactly one, and it
//! does not depend on the order in which the policies were seen.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::DeserializeGuard;

use super::settings::Settings;
use crate::{
    api::{FINALIZER, LabelSelector, LabelSource, Mode, ProbePolicy, needed_by_probe, problems},
    gardener::Cluster,
};

/// The longest decoding error that is kept, in characters: it may quote a value of any size, and
/// ends up in a condition.
const MAX_ERROR: usize = 256;

/// Part of a ProbePolicy that assigns clusters to it. A change of its status makes no
/// difference to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.deletionTimestamp` is set: the policy then selects nothing, and what it
    /// still protects is let go.
    pub deleting: bool,
    /// The policy carries [`FINALIZER`].
    pub held: bool,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// Actions that it holds back, also while it breaks a rule.
    pub hold: PolicyHold,
    /// Rules; `None` if it breaks a rule, so that it selects nothing.
    pub rules: Option<Rules>,
    /// Mistakes in it, each with the field and what is allowed there; empty for a valid policy.
    pub problems: Vec<String>,
}

/// Actions that a policy holds back, whatever else it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyHold {
    /// `spec.suspend`: nothing is probed or written.
    pub suspended: bool,
    /// `spec.mode` is `DryRun`: nothing is written.
    pub dry_run: bool,
    /// The policy cannot be decoded, and may say either: nothing is probed or written.
    pub undecodable: bool,
}

/// The rules of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// `spec.clusterSelector`.
    pub selector: LabelSelector,
    /// `spec.clusterLabels`.
    pub labels: LabelSource,
    /// `spec.priority`.
    pub priority: i32,
    /// The settings of every cluster that it applies to, before the cluster's own overrides.
    pub settings: Settings,
}

impl Policy {
    /// A policy as it was decoded; its spec is validated again, since it may have been written
    /// before a rule existed.
    pub fn new(object: &ProbePolicy) -> Self {
        let ProbePolicy { metadata, spec, .. } = object;
        let problems = problems(spec);
        let rules = || Rules {
            selector: spec.cluster_selector.clone(),
            labels: spec.cluster_labels,
            priority: spec.priority,
            settings: Settings::of_policy(name(metadata), spec),
        };
        Self {
            hold: PolicyHold {
                suspended: spec.suspend,
                dry_run: spec.mode == Mode::DryRun,
                undecodable: false,
            },
            rules: problems.is_empty().then(rules),
            problems,
            ..Self::unreadable(metadata, "")
        }
    }

    /// A policy that cannot be decoded, for instance since a field has another type than its
    /// schema says.
    fn unreadable(metadata: &ObjectMeta, error: &str) -> Self {
        let error: String = error.chars().take(MAX_ERROR).collect();
        let mut finalizers = metadata.finalizers.iter().flatten();
        Self {
            name: name(metadata),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            held: finalizers.any(|finalizer| finalizer == FINALIZER),
            created: metadata.creation_timestamp.clone(),
            hold: PolicyHold {
                undecodable: true,
                ..PolicyHold::default()
            },
            rules: None,
            problems: vec![format!("cannot be read: {error}")],
        }
    }

    /// Returns what may be a mistake in a valid policy.
    pub fn warnings(&self) -> Vec<String> {
        let rules = self.rules.iter();
        let dependents = rules.flat_map(|rules| rules.settings.dependents.iter());
        dependents
            .filter_map(|dependent| needed_by_probe(&dependent.reference.name))
            .collect()
    }

    /// The smallest applies. A policy without a creation time is not stored yet: the youngest.
    fn rank(&self) -> impl Ord {
        let priority = self.rules.as_ref().map(|rules| Reverse(rules.priority));
        let created = self.created.as_ref();
        (priority, created.is_none(), created, &self.name)
    }
}

impl From<&DeserializeGuard<ProbePolicy>> for Policy {
    fn from(object: &DeserializeGuard<ProbePolicy>) -> Self {
        match &object.0 {
            Ok(policy) => Self::new(policy),
            Err(invalid) => Self::unreadable(&invalid.metadata, &invalid.error),
        }
    }
}

/// Every object of the API server has a name.
pub(super) fn name(metadata: &ObjectMeta) -> Arc<str> {
    metadata.name.as_deref().unwrap_or_default().into()
}

/// The valid ones of `policies` that select this cluster, by falling precedence.
pub(super) fn ranked<'a>(
    policies: impl Iterator<Item = &'a Policy>,
    cluster: &Cluster,
) -> Vec<&'a Policy> {
    let selects = |rules: &Rules| rules.selector.matches(&cluster.labels(rules.labels));
    let selecting = policies.filter(|policy| policy.rules.as_ref().is_some_and(selects));
    let mut selecting: Vec<_> = selecting.collect();
    selecting.sort_by_key(|policy| policy.rank());
    selecting
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, priority: i32, created: &str, change: impl FnOnce(&mut Value)) -> Policy {
        let mut object = json!({
            "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
            "kind": "ProbePolicy",
            "metadata": {"name": name, "generation": 1, "creationTimestamp": created},
            "spec": {
                "priority": priority,
                "mode": "Enforce",
                "kubeConfigSecretName": "dwd",
                "kcmNodeMonitorGraceDuration": "40s",
                "dependentResourceInfos": [{
                    "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kcm"},
                    "optional": false,
                }],
            },
        });
        change(&mut object);
        Policy::new(&serde_json::from_value(object).unwrap())
    }

    const OLD: &str = "2025-01-01T00:00:00Z";
    const NEW: &str = "2026-01-01T00:00:00Z";

    fn chosen(policies: &[Policy]) -> Vec<&str> {
        let cluster = json!({
            "metadata": {"name": "c", "labels": {"tier": "cluster", "own": "x"}},
            "spec": {"shoot": {"metadata": {"labels": {"stage": "live", "tier": "shoot"}}}},
        });
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let policies = policies.iter().filter(|policy| !policy.deleting);
        let ranked = ranked(policies, &cluster);
        ranked.into_iter().map(|policy| &*policy.name).collect()
    }

    #[rstest]
    #[case::priority_first([("a", 0, OLD), ("b", 1, NEW)], ["b", "a"])]
    #[case::negative_priority([("a", -1, OLD), ("b", 0, NEW)], ["b", "a"])]
    #[case::then_the_oldest([("a", 1, NEW), ("b", 1, OLD)], ["b", "a"])]
    #[case::then_the_name([("b", 1, OLD), ("a", 1, OLD)], ["a", "b"])]
    fn precedence(#[case] policies: [(&str, i32, &str); 2], #[case] expected: [&str; 2]) {
        let policies =
            policies.map(|(name, priority, created)| policy(name, priority, created, |_| ()));
        assert_eq!(chosen(&policies), expected);
    }

    #[rstest]
    #[case::as_usual("kube-controller-manager", 0)]
    #[case::answers("kube-apiserver", 1)]
    #[case::stores("etcd-main", 1)]
    #[case::renews("gardener-resource-manager", 1)]
    fn what_the_probe_needs_is_warned_of(#[case] dependent: &str, #[case] warnings: usize) {
        let policy = policy("a", 0, NEW, |it| {
            it["spec"]["dependentResourceInfos"][0]["ref"]["name"] = json!(dependent);
        });
        assert_eq!(policy.problems, [""; 0]);
        assert_eq!(policy.warnings().len(), warnings);
    }

    #[rstest]
    #[case::everything(json!({}), true, true)]
    #[case::of_the_cluster(json!({"matchLabels": {"own": "x"}}), true, true)]
    #[case::of_the_shoot(json!({"matchLabels": {"stage": "live"}}), false, true)]
    #[case::other_value(json!({"matchLabels": {"own": "y"}}), false, false)]
    #[case::absent_key(json!({"matchLabels": {"region": "eu"}}), false, false)]
    #[case::the_clusters_win(json!({"matchLabels": {"tier": "cluster"}}), true, true)]
    #[case::the_shoots_lose(json!({"matchLabels": {"tier": "shoot"}}), false, false)]
    #[case::the_shoot_keeps_none_out(
        json!({"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}),
        true,
        false
    )]
    fn the_selector_decides(
        #[case] selector: Value,
        #[case] by_default: bool,
        #[case] with_the_shoots_labels: bool,
    ) {
        for (labels, selected) in [
            (json!(null), by_default),
            (json!("Cluster"), by_default),
            (json!("ClusterAndShoot"), with_the_shoots_labels),
        ] {
            let policy = policy("a", 0, OLD, |it| {
                it["spec"]["clusterSelector"] = selector.clone();
                match labels.is_null() {
                    true => (),
                    false => it["spec"]["clusterLabels"] = labels.clone(),
                }
            });
            assert_eq!(!chosen(&[policy]).is_empty(), selected, "{labels}");
        }
    }

    #[test]
    fn a_policy_with_problems_selects_nothing() {
        let invalid = policy("a", 9, OLD, |it| it["spec"]["failureThreshold"] = json!(0));
        assert_eq!(invalid.problems.len(), 1, "{:?}", invalid.problems);
        assert_eq!(chosen(&[invalid, policy("b", 0, NEW, |_| ())]), ["b"]);
    }

    #[test]
    fn a_policy_that_cannot_be_decoded_says_why_within_bounds() {
        let error = format!("invalid type: string {:?}", "x".repeat(10_000));
        let policy = Policy::unreadable(&ObjectMeta::default(), &error);
        let [problem] = &policy.problems[..] else {
            panic!("{:?}", policy.problems);
        };
        assert!(problem.starts_with("cannot be read: invalid type: string \"xxx"));
        assert!(policy.hold.undecodable);
        assert!(problem.len() < 300);
        assert_eq!(chosen(&[policy]), [""; 0]);
    }

    proptest! {
        #[test]
        fn precedence_is_total_and_independent_of_the_order_of_insertion(
            policies in prop::collection::btree_map("[a-e]", (-1..2i32, any::<bool>()), 0..6),
            shuffle in any::<u64>(),
        ) {
            let mut ordered: Vec<_> = policies
                .iter()
                .map(|(name, (priority, old))| {
                    policy(name, *priority, if *old { OLD } else { NEW }, |_| ())
                })
                .collect();
            let expected: Vec<_> = chosen(&ordered).into_iter().map(str::to_owned).collect();
            prop_assert_eq!(expected.len(), ordered.len());
            // Each outranks the next in a contest of the two as well.
            for pair in expected.windows(2) {
                let two: Vec<_> =
                    ordered.iter().filter(|it| pair.contains(&it.name.to_string())).cloned().collect();
                prop_assert_eq!(chosen(&two), [&pair[0], &pair[1]]);
            }
            fastrand::Rng::with_seed(shuffle).shuffle(&mut ordered);
            prop_assert_eq!(chosen(&ordered), expected);
        }
    }
}
