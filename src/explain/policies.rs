//! Which policy applies to the cluster, why that one, and why not the others.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Objects,
    record::{Trouble, trouble},
};
use crate::{
    api::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement, LabelSource, Mode},
    cluster::{Index, Policy, Rules},
    gardener::ClusterLabels,
};

/// What a policy has to do with the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Relation {
    /// It applies.
    Applies,
    /// It selects the cluster as well, and another comes before it.
    Outranked,
    /// It applied last, and has yet to let go of the cluster.
    LetsGo,
    /// It does not select the cluster.
    NotSelecting,
    /// It is being deleted, and selects nothing any more.
    Deleting,
    /// It breaks a rule, and selects nothing.
    Invalid,
}

/// A policy, seen from the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAccount {
    /// Its name.
    pub name: String,
    /// What it has to do with the cluster.
    pub relation: Relation,
    /// `spec.priority`; absent if the policy is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `spec.mode`; absent if it is missing, or cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// `spec.suspend`.
    pub suspend: bool,
    /// Why it applies or not, as the rest of a sentence that begins with its name.
    pub message: String,
    /// What its status tells that concerns the cluster as well: rights that are missing, and that
    /// many clusters fell silent at once.
    pub trouble: Vec<Trouble>,
}

/// What the operator concludes from the objects. A policy that cannot be decoded is one with a
/// problem; where policies cannot be read at all it is as if there were none.
pub(super) fn index(objects: &Objects, cluster: &str) -> Index {
    let health = objects.health.as_ref().ok().and_then(Option::as_ref);
    let status = health.and_then(|health| health.as_ref().ok()?.status.as_ref());
    let last = status.and_then(|status| status.policy.as_deref());
    let recalled = last.map(|policy| (cluster.into(), policy.into()));
    let mut index = Index::default();
    index.recall(recalled.into_iter().collect());
    let policies = objects.policies.as_ref().map_or(&[][..], Vec::as_slice);
    index.replace_policies(policies.iter().map(|policy| match &policy.0 {
        Ok(policy) => Policy::new(policy),
        Err(invalid) => Policy::unreadable(invalid),
    }));
    let found = objects.cluster.as_ref().ok().and_then(Option::clone);
    index.replace_clusters(found);
    index
}

/// All policies: the one that applies, those that come after it, and the rest by name.
pub(super) fn accounts(index: &Index, objects: &Objects, cluster: &str) -> Vec<PolicyAccount> {
    let Ok(Some(found)) = &objects.cluster else {
        return Vec::new();
    };
    let labels = found.labels();
    let assignment = index.assignment(cluster);
    let selected = assignment.and_then(|it| it.selected.as_ref());
    let former = assignment.and_then(|it| it.former.as_ref());
    let winner = selected.and_then(|it| find(index, &it.policy));
    let outranked = selected.map_or(&[][..], |selected| &selected.outranked);
    let place = |policy: &Policy| {
        let first = winner.is_some_and(|winner| winner.name == policy.name);
        let behind = outranked.iter().position(|name| *name == policy.name);
        match (first, behind) {
            (true, _) => 0,
            (_, Some(place)) => place + 1,
            _ => usize::MAX,
        }
    };
    let mut policies: Vec<&Policy> = index.policies().collect();
    policies.sort_by_key(|policy| place(policy));
    let account = |policy: &Policy| {
        let lets_go = former.is_some_and(|former| former.policy == policy.name);
        let (relation, message) = match (&policy.rules, winner) {
            (_, Some(winner)) if winner.name == policy.name => {
                (Relation::Applies, applies(policy, outranked.len()))
            }
            (Some(rules), Some(winner)) if outranked.contains(&policy.name) => {
                (Relation::Outranked, outranked_by(policy, rules, winner))
            }
            _ if lets_go => (
                Relation::LetsGo,
                "does not select the cluster any more, and has yet to let go of it".to_owned(),
            ),
            (None, _) => (
                Relation::Invalid,
                format!(
                    "is not valid, and selects nothing: {}",
                    policy.problems().join("; ")
                ),
            ),
            (Some(_), _) if policy.deleting => (
                Relation::Deleting,
                "is being deleted, and selects nothing any more".to_owned(),
            ),
            (Some(rules), _) => (
                Relation::NotSelecting,
                format!(
                    "does not select the cluster: {}",
                    mismatches(rules, &labels).join("; ")
                ),
            ),
        };
        let concerned = matches!(relation, Relation::Applies | Relation::LetsGo);
        PolicyAccount {
            trouble: if concerned {
                shared(objects, &policy.name)
            } else {
                Vec::new()
            },
            name: policy.name.to_string(),
            relation,
            priority: policy.rules.as_ref().map(|rules| rules.priority),
            mode: match policy.hold {
                hold if hold.no_mode || hold.undecodable => None,
                hold if hold.dry_run => Some(Mode::DryRun),
                _ => Some(Mode::Enforce),
            },
            suspend: policy.hold.suspended,
            message,
        }
    };
    policies.into_iter().map(account).collect()
}

/// What the status of a policy tells that is not about single clusters.
fn shared(objects: &Objects, name: &str) -> Vec<Trouble> {
    let policies = objects.policies.iter().flatten();
    let mut valid = policies.filter_map(|policy| policy.0.as_ref().ok());
    let found = valid.find(|policy| policy.metadata.name.as_deref() == Some(name));
    let conditions = found
        .and_then(|policy| policy.status.as_ref())
        .map_or(&[][..], |status| &status.conditions);
    let mut told = trouble(conditions, &["WidespreadOutage", "Degraded"]);
    told.retain(|it| ["SilentAtOnce", "RightsMissing"].contains(&&*it.reason));
    told
}

/// The policy of this name.
pub(super) fn find<'a>(index: &'a Index, name: &str) -> Option<&'a Policy> {
    index.policies().find(|policy| &*policy.name == name)
}

fn applies(policy: &Policy, outranked: usize) -> String {
    let Some(Rules { priority, .. }) = &policy.rules else {
        return format!(
            "applied last, and is waited for: {}; correct it, or delete it",
            policy.problems().join("; ")
        );
    };
    match outranked {
        0 => format!("applies: no other selects the cluster (priority {priority})"),
        _ => format!(
            "applies: it comes before the others that select the cluster (priority {priority})"
        ),
    }
}

/// The first difference that counts; the order itself is the index's.
fn outranked_by(policy: &Policy, rules: &Rules, winner: &Policy) -> String {
    let first = winner.rules.as_ref().map(|rules| rules.priority);
    let first = first.unwrap_or(rules.priority);
    let why = if winner.hold.undecodable {
        format!(
            "{} applied last, and cannot be read, so it may be suspended",
            winner.name
        )
    } else if first != rules.priority {
        format!(
            "its priority is {}, and that of {} is {first}",
            rules.priority, winner.name
        )
    } else if winner.created != policy.created {
        format!("of the same priority {first} {} is older", winner.name)
    } else {
        format!(
            "of the same priority and age {} comes first by name",
            winner.name
        )
    };
    format!("selects the cluster as well, and stands back: {why}")
}

/// The requirements that the labels do not meet, each tried by itself.
fn mismatches(Rules { selector, from, .. }: &Rules, labels: &ClusterLabels) -> Vec<String> {
    let labels = labels.of(*from);
    let whose = match from {
        LabelSource::Cluster => "the Cluster itself",
        LabelSource::ClusterAndShoot => "the cluster",
    };
    let equal = selector.match_labels.iter().map(|(key, value)| {
        let alone = LabelSelector {
            match_labels: BTreeMap::from([(key.clone(), value.clone())]),
            ..LabelSelector::default()
        };
        (alone, key, format!("{key}={value}"))
    });
    let expressions = selector.match_expressions.iter().map(|requirement| {
        let alone = LabelSelector {
            match_expressions: vec![requirement.clone()],
            ..LabelSelector::default()
        };
        (alone, &requirement.key, written(requirement))
    });
    equal
        .chain(expressions)
        .filter(|(alone, ..)| !alone.matches(labels))
        .map(|(_, key, wanted)| match labels.get(key) {
            Some(value) => format!("it asks for {wanted}, and {whose} has {key}={value}"),
            None => format!("it asks for {wanted}, and {whose} has no label {key}"),
        })
        .collect()
}

/// As kubectl writes it.
fn written(requirement: &LabelSelectorRequirement) -> String {
    let LabelSelectorRequirement { key, values, .. } = requirement;
    match requirement.operator {
        LabelSelectorOperator::In => format!("{key} in ({})", values.join(",")),
        LabelSelectorOperator::NotIn => format!("{key} notin ({})", values.join(",")),
        LabelSelectorOperator::Exists => format!("the label {key}"),
        LabelSelectorOperator::DoesNotExist => format!("!{key}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::gardener::Cluster;

    fn rules(selector: Value) -> Rules {
        let policy = json!({
            "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
            "kind": "ProbePolicy",
            "metadata": {"name": "a"},
            "spec": {
                "clusterSelector": selector,
                "mode": "Enforce",
                "kubeConfigSecretName": "dwd",
                "kcmNodeMonitorGraceDuration": "40s",
                "dependentResourceInfos": [{
                    "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kcm"},
                    "optional": false,
                }],
            },
        });
        Policy::new(&serde_json::from_value(policy).unwrap())
            .rules
            .unwrap()
    }

    fn labels(own: Value, shoot: Value) -> ClusterLabels {
        let cluster = json!({
            "metadata": {"name": "c", "labels": own},
            "spec": {"shoot": {"metadata": {"labels": shoot}}},
        });
        serde_json::from_value::<Cluster>(cluster).unwrap().labels()
    }

    #[test]
    fn what_is_asked_for_and_not_there_is_named() {
        let rules = rules(json!({
            "matchLabels": {"stage": "live", "region": "eu"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "stage", "operator": "NotIn", "values": ["dev", "test"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "new", "operator": "Exists"},
                {"key": "region", "operator": "Exists"},
            ],
        }));
        let labels = labels(json!({"region": "eu"}), json!({"stage": "dev", "old": "x"}));
        assert_eq!(
            mismatches(&rules, &labels),
            [
                "it asks for stage=live, and the cluster has stage=dev",
                "it asks for tier in (a,b), and the cluster has no label tier",
                "it asks for stage notin (dev,test), and the cluster has stage=dev",
                "it asks for !old, and the cluster has old=x",
                "it asks for the label new, and the cluster has no label new",
            ]
        );
    }

    #[test]
    fn a_label_that_only_the_shoot_has_is_not_the_clusters() {
        let rules = rules(json!({"from": "Cluster", "matchLabels": {"stage": "live"}}));
        let labels = labels(json!({}), json!({"stage": "live"}));
        assert_eq!(
            mismatches(&rules, &labels),
            ["it asks for stage=live, and the Cluster itself has no label stage"]
        );
    }
}
