//! Which policies cover which services: those in force that name the service and select its
//! namespace.
//!
//! Policies add up, so each covers what it covers whatever others do. Nothing is covered before
//! policies and namespaces have both been listed once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::core::PartialObjectMeta;

use super::{
    news::Pair,
    policy::{Policy, Stored, Terms},
};

/// All policies and namespaces.
#[derive(Debug, Default)]
pub struct Coverage {
    policies: BTreeMap<Arc<str>, Policy>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    /// The policies in force, by the services that they name.
    by_service: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    policies_listed: bool,
    namespaces_listed: bool,
    /// Lists in progress. They take effect as a whole.
    pub(super) policy_list: Vec<Stored>,
    pub(super) namespace_list: Vec<PartialObjectMeta<NamespaceObject>>,
}

/// What is needed of a Namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// Whether `metadata.deletionTimestamp` is set: nothing in it is covered.
    pub deleting: bool,
}

impl Coverage {
    /// Policies have been listed; there are none but those that were put since.
    pub fn policies_are_listed(&mut self) {
        self.policies_listed = true;
    }

    /// Namespaces have been listed.
    pub fn namespaces_are_listed(&mut self) {
        self.namespaces_listed = true;
    }

    /// Whether policies have been listed.
    pub fn policies_listed(&self) -> bool {
        self.policies_listed
    }

    /// Whether both have been listed.
    pub fn listed(&self) -> bool {
        self.policies_listed && self.namespaces_listed
    }

    /// All policies, by name.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
    }

    /// The namespace of this name.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// The names of all namespaces.
    pub fn namespace_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.keys()
    }

    /// Puts a policy in the place of the one of its name.
    pub fn put_policy(&mut self, policy: Policy) {
        self.remove_policy(&policy.name.clone());
        for service in policy.services() {
            let policies = self.by_service.entry(service.clone()).or_default();
            policies.insert(policy.name.clone());
        }
        self.policies.insert(policy.name.clone(), policy);
    }

    /// There is no policy of this name.
    pub fn remove_policy(&mut self, name: &str) {
        let Some(policy) = self.policies.remove(name) else {
            return;
        };
        for service in policy.services() {
            if let Some(policies) = self.by_service.get_mut(service) {
                policies.remove(name);
                if policies.is_empty() {
                    self.by_service.remove(service);
                }
            }
        }
    }

    /// Puts a namespace in the place of the one of its name.
    pub fn put_namespace(&mut self, name: Arc<str>, namespace: Namespace) {
        self.namespaces.insert(name, namespace);
    }

    /// There is no namespace of this name.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// The services that policies in force name, once policies have been listed.
    pub fn services(&self) -> BTreeSet<Arc<str>> {
        let listed = self.policies_listed;
        let names = self.by_service.keys().filter(|_| listed);
        names.cloned().collect()
    }

    /// What `policy` asks for where this service has become ready, if it covers it.
    pub fn terms(&self, policy: &str, pair: &Pair) -> Option<Terms> {
        let policy = self.policies.get(policy)?;
        let terms = policy.terms(&pair.service)?;
        self.is_selected(policy, &pair.namespace).then_some(terms)
    }

    /// The policies that cover a service, with what they ask for.
    pub fn covering(&self, pair: &Pair) -> Vec<(Arc<str>, Terms)> {
        let policies = self.by_service.get(&pair.service).into_iter().flatten();
        policies
            .filter_map(|policy| Some((policy.clone(), self.terms(policy, pair)?)))
            .collect()
    }

    /// The namespaces that a policy covers.
    pub fn selected(&self, policy: &Policy) -> Vec<Arc<str>> {
        let namespaces = self.namespaces.keys();
        let selected = namespaces.filter(|namespace| self.is_selected(policy, namespace));
        selected.cloned().collect()
    }

    /// The policies that cover a namespace.
    pub fn selecting(&self, namespace: &str) -> BTreeSet<Arc<str>> {
        let policies = self.policies.values();
        let selecting = policies.filter(|policy| self.is_selected(policy, namespace));
        selecting.map(|policy| policy.name.clone()).collect()
    }

    fn is_selected(&self, policy: &Policy, namespace: &str) -> bool {
        let namespace = self.namespaces.get(namespace).filter(|it| !it.deleting);
        self.listed() && namespace.is_some_and(|it| policy.selects(&it.labels))
    }
}
