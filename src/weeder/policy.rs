//! What a WeedPolicy asks for.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{DeserializeGuard, error_boundary::InvalidObject},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::{
    api::{LabelSelector, Mode, Selector, WeedPolicy, WeedPolicySpec, WeedPolicyStatus, problems},
    runtime::salvage,
};

/// The longest decoding error that is kept, in characters: it may quote a value of any size, and
/// ends up in a condition.
const MAX_ERROR: usize = 256;

/// A WeedPolicy as it is stored, with its status apart: that is what was written of it, whatever its
/// spec is like.
#[derive(Clone, Debug)]
pub struct Stored {
    /// All but its status.
    pub policy: DeserializeGuard<WeedPolicy>,
    /// Its status, if it has one, as far as it can be read.
    pub status: Option<WeedPolicyStatus>,
}

/// What is needed of a WeedPolicy. A change of its status makes no difference to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.mode`.
    pub mode: Mode,
    /// `spec.suspend`.
    pub suspend: bool,
    /// What it asks for; or its problems, each with the field and what is allowed there. A policy
    /// with problems covers nothing.
    pub rules: Result<Rules, Vec<String>>,
}

/// The rules of a valid policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// `spec.namespaceSelector`.
    namespaces: LabelSelector,
    /// `spec.watchDuration`.
    lasts: Duration,
    /// `spec.servicesAndDependantSelectors`.
    services: BTreeMap<Arc<str>, Arc<[Arc<Selector>]>>,
}

/// What a policy asks for where a service has become ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// For how long pods are deleted.
    pub lasts: Duration,
    /// Which.
    pub selectors: Arc<[Arc<Selector>]>,
    /// Whether they are really deleted.
    pub mode: Mode,
}

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        let status = object.get_mut("status").map(Value::take);
        Ok(Self {
            policy: serde_json::from_value(object).map_err(D::Error::custom)?,
            status: status.and_then(|it| Some(salvage::readable(&it)?.0)),
        })
    }
}

impl Resource for Stored {
    type DynamicType = <WeedPolicy as Resource>::DynamicType;
    type Scope = <WeedPolicy as Resource>::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        WeedPolicy::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        WeedPolicy::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        WeedPolicy::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        WeedPolicy::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.policy.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.policy.meta_mut()
    }
}

impl Policy {
    /// A policy as it was decoded, or as far as it could be. A valid one is validated again, since it
    /// may have been written before a rule existed.
    pub fn new(object: &DeserializeGuard<WeedPolicy>) -> Self {
        match &object.0 {
            Ok(policy) => Self::with(
                &policy.metadata,
                policy.spec.mode,
                policy.spec.suspend,
                Rules::new(&policy.spec),
            ),
            Err(InvalidObject { error, metadata }) => {
                let error: String = error.chars().take(MAX_ERROR).collect();
                let problems = vec![format!("cannot be read: {error}")];
                Self::with(metadata, Mode::DryRun, false, Err(problems))
            }
        }
    }

    fn with(
        metadata: &ObjectMeta,
        mode: Mode,
        suspend: bool,
        rules: Result<Rules, Vec<String>>,
    ) -> Self {
        Self {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            mode,
            suspend,
            rules,
        }
    }

    /// What is wrong with the policy; empty for a valid one.
    pub fn problems(&self) -> &[String] {
        match &self.rules {
            Ok(_) => &[],
            Err(problems) => problems,
        }
    }

    /// Whether it is in force: valid, not suspended and not being deleted.
    pub fn in_force(&self) -> bool {
        self.rules().is_some()
    }

    /// The names of the services that it watches; none if it is not in force.
    pub fn services(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules().into_iter().flat_map(|it| it.services.keys())
    }

    /// Whether it is in force in a namespace with these labels.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.rules().is_some_and(|it| it.namespaces.matches(labels))
    }

    /// What it asks for where this service has become ready, if it is in force and names it.
    pub fn terms(&self, service: &str) -> Option<Terms> {
        let rules = self.rules()?;
        Some(Terms {
            lasts: rules.lasts,
            selectors: rules.services.get(service)?.clone(),
            mode: self.mode,
        })
    }

    fn rules(&self) -> Option<&Rules> {
        let held = self.suspend || self.deleting;
        self.rules.as_ref().ok().filter(|_| !held)
    }
}

impl Rules {
    fn new(spec: &WeedPolicySpec) -> Result<Self, Vec<String>> {
        let problems = problems(spec);
        if !problems.is_empty() {
            return Err(problems);
        }
        let services = &spec.services_and_dependant_selectors;
        Ok(Self {
            namespaces: spec.namespace_selector.clone(),
            lasts: spec.watch_duration.get(),
            services: services
                .iter()
                .map(|(name, dependants)| {
                    (name.as_str().into(), selectors(&dependants.pod_selectors))
                })
                .collect(),
        })
    }
}

/// The selectors of a service, in a fixed order, each once.
fn selectors(selectors: &[LabelSelector]) -> Arc<[Arc<Selector>]> {
    let mut texts: Vec<_> = selectors.iter().map(Selector::new).map(Arc::new).collect();
    texts.sort();
    texts.dedup();
    texts.into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn policy(change: impl FnOnce(&mut Value)) -> Policy {
        Policy::new(&stored(change).policy)
    }

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
        serde_json::from_value(object).unwrap()
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
        let policy = policy(change);
        assert_eq!(policy.problems().len(), problems, "{:?}", policy.problems());
        assert!(!policy.in_force() && !policy.selects(&labels("shoot")));
        assert_eq!((policy.services().count(), policy.terms("etcd")), (0, None));
        // It can still be told apart.
        assert_eq!(
            (&*policy.name, &*policy.uid, policy.generation),
            ("a", "u", 2)
        );
    }

    #[test]
    fn what_cannot_be_decoded_says_why_within_bounds() {
        let policy = policy(|it| it["spec"]["mode"] = json!("x".repeat(10_000)));
        let [problem] = policy.problems() else {
            panic!("{:?}", policy.problems());
        };
        assert!(problem.starts_with("cannot be read: "), "{problem}");
        assert!(problem.len() < 300, "{problem}");
    }

    #[test]
    fn spec_and_status_are_read_apart() {
        let none = stored(|_| ());
        assert!(Policy::new(&none.policy).in_force() && none.status.is_none());
        let unreadable = stored(|it| {
            it["spec"] = json!("?");
            it["status"] = json!({"weeded": 3});
        });
        assert!(!Policy::new(&unreadable.policy).in_force());
        assert_eq!(unreadable.status.unwrap().weeded, 3);
        let odd = stored(|it| {
            it["status"] = json!({"weeded": 3, "observedGeneration": "one"});
        });
        assert!(Policy::new(&odd.policy).in_force());
        assert_eq!(odd.status.unwrap().weeded, 3);
    }
}
