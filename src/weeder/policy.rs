//! What a WeedPolicy asks for.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::core::DynamicObject;

use crate::{
    api::{Mode, WeedPolicySpec, WeedPolicyStatus, problems},
    runtime::salvage,
    util::text::clean,
};

/// The longest decoding error that is kept, in characters: it may quote a value of any size, and
/// ends up in a condition.
const MAX_ERROR: usize = 256;

/// A WeedPolicy as it is stored, with its status apart: that is what was written of it, whatever its
/// spec is like.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// All but its status.
    pub(crate) policy: Policy,
    /// Its status, as far as it can be read.
    pub(crate) status: WeedPolicyStatus,
}

/// What is needed of a WeedPolicy. A change of its status makes no difference to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    /// `metadata.name`.
    pub(crate) name: Arc<str>,
    /// `metadata.uid`.
    pub(crate) uid: Arc<str>,
    /// `metadata.generation`.
    pub(crate) generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// What is wrong with it, each with the field and what is allowed there. A policy with problems
    /// covers nothing.
    pub(crate) problems: Vec<String>,
    /// What it asks for, if that can be read.
    spec: Option<WeedPolicySpec>,
}

impl Stored {
    /// Reads a policy; with `dry_run`, it is one with the mode `DryRun`.
    pub(crate) fn new(object: &DynamicObject, dry_run: bool) -> Self {
        let status = object.data.get("status").and_then(salvage::readable);
        Self {
            policy: Policy::new(object, dry_run),
            status: status.map(|(status, _)| status).unwrap_or_default(),
        }
    }
}

impl Policy {
    /// Reads the spec as far as that is possible. What can be read is validated again, since it may have been
    /// written before a rule existed.
    fn new(object: &DynamicObject, dry_run: bool) -> Self {
        let metadata = &object.metadata;
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let (spec, problems) = match serde_json::from_value::<WeedPolicySpec>(spec) {
            Ok(spec) => {
                let (mode, problems) = (spec.mode.or_dry_run(dry_run), problems(&spec));
                (Some(WeedPolicySpec { mode, ..spec }), problems)
            }
            Err(error) => {
                let error = clean(&error.to_string(), MAX_ERROR);
                (None, vec![format!("cannot be read: {error}")])
            }
        };
        Self {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            problems,
            spec,
        }
    }

    /// Returns `spec.mode`.
    pub(crate) fn mode(&self) -> Mode {
        self.spec.as_ref().map_or(Mode::DryRun, |it| it.mode)
    }

    /// Returns `spec.suspend`.
    pub(super) fn suspend(&self) -> bool {
        self.spec.as_ref().is_some_and(|it| it.suspend)
    }

    /// Returns `spec.watchDuration`.
    pub(super) fn lasts(&self) -> Duration {
        let spec = self.spec.as_ref();
        spec.map_or(Duration::ZERO, |it| it.watch_duration.get())
    }

    /// Returns the names of the services that it watches; none if it is not in force.
    pub(crate) fn services(&self) -> impl Iterator<Item = &String> {
        let spec = self.in_force().into_iter();
        spec.flat_map(|it| it.services_and_dependant_selectors.keys())
    }

    /// Returns whether it is in force in a namespace with these labels.
    pub(crate) fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        let spec = self.in_force();
        spec.is_some_and(|it| it.namespace_selector.matches(labels))
    }

    /// Returns whether a pod with these labels needs this service.
    pub(super) fn needs(&self, service: &str, labels: &BTreeMap<String, String>) -> bool {
        let spec = self.in_force();
        let needed = spec.and_then(|it| it.services_and_dependant_selectors.get(service));
        needed.is_some_and(|it| it.pod_selectors.iter().any(|it| it.matches(labels)))
    }

    /// Returns whether it is valid, not suspended and not being deleted.
    pub(super) fn is_in_force(&self) -> bool {
        self.in_force().is_some()
    }

    /// Returns what it asks for if it is valid, not suspended and not being deleted.
    fn in_force(&self) -> Option<&WeedPolicySpec> {
        let held = self.suspend() || self.deleting || !self.problems.is_empty();
        self.spec.as_ref().filter(|_| !held)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn stored(change: impl FnOnce(&mut Value)) -> Stored {
        let mut object = json!({
            "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
            "kind": "WeedPolicy",
            "metadata": {"name": "a", "uid": "u", "generation": 2},
            "spec": {
                "namespaceSelector": {"matchLabels": {"role": "shoot"}},
                "mode": "Enforce",
                "watchDuration": "2m",
                "servicesAndDependantSelectors": {
                    "etcd": {"podSelectors": [{"matchLabels": {"role": "apiserver"}}]},
                },
            },
        });
        change(&mut object);
        Stored::new(&serde_json::from_value(object).unwrap(), false)
    }

    fn labels(role: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("role".to_owned(), role.to_owned())])
    }

    #[rstest]
    #[case::suspended(|it: &mut Value| it["spec"]["suspend"] = json!(true), 0)]
    #[case::being_deleted(
        |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        0
    )]
    #[case::invalid(|it: &mut Value| it["spec"]["watchDuration"] = json!("0s"), 1)]
    #[case::unreadable(|it: &mut Value| it["spec"]["watchDuration"] = json!(5), 1)]
    #[case::empty_selector(
        |it: &mut Value| {
            it["spec"]["servicesAndDependantSelectors"]["etcd"]["podSelectors"] = json!([{}]);
        },
        1
    )]
    fn what_is_not_in_force_covers_nothing(
        #[case] change: impl FnOnce(&mut Value),
        #[case] problems: usize,
    ) {
        let policy = stored(change).policy;
        assert_eq!(policy.problems.len(), problems, "{:?}", policy.problems);
        assert!(!policy.selects(&labels("shoot")));
        assert!(policy.services().next().is_none() && !policy.needs("etcd", &labels("apiserver")));
        // It can still be told apart.
        assert_eq!(
            (&*policy.name, &*policy.uid, policy.generation),
            ("a", "u", 2)
        );
    }

    #[test]
    fn what_cannot_be_decoded_says_why_within_bounds() {
        let policy = stored(|it| it["spec"]["mode"] = json!("x".repeat(10_000))).policy;
        let [problem] = &policy.problems[..] else {
            panic!("{:?}", policy.problems);
        };
        assert!(problem.starts_with("cannot be read: "), "{problem}");
        assert!(problem.len() < 300, "{problem}");
    }

    #[test]
    fn spec_and_status_are_read_apart() {
        let none = stored(|_| ());
        assert!(none.policy.in_force().is_some() && none.status == WeedPolicyStatus::default());
        let unreadable = stored(|it| {
            it["spec"] = json!("?");
            it["status"] = json!({"weeded": 3});
        });
        assert!(unreadable.policy.in_force().is_none());
        assert_eq!(unreadable.status.weeded, 3);
        let odd = stored(|it| {
            it["status"] = json!({"weeded": 3, "observedGeneration": "one"});
        });
        assert!(odd.policy.in_force().is_some());
        assert_eq!(odd.status.weeded, 3);
    }
}
