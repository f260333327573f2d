//! Reviews the rights that a policy needs in an outage, before there is one, and those that its
//! checks need, which are granted separately.
//!
//! A missing right is reported and prevents nothing. If the seed does not answer, nothing is
//! reported.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::api::ApiResource;
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    api::ProbePolicy,
    cluster::{Policy, PolicyView},
    prober::{
        report::Reporter,
        scale::{Scaler, workload},
    },
    runtime::rights::{self, right, subresource},
};

/// The only verb that is first needed in an outage: a missing right to read shows immediately.
const VERB: &str = "patch";
/// Judgement: the pause between two reviews of a policy, after which a right shows that was granted or withdrawn.
const AGAIN: Duration = Duration::from_secs(5 * 60);

/// Objects for which a policy needs rights.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Needs {
    /// The user who changes the policy may look for an answer: each generation is reviewed.
    policy: Policy,
    /// Namespace of its first cluster. A right that is granted everywhere is granted there, too.
    namespace: Option<Arc<str>>,
}

/// The needs of all policies, by name.
pub(crate) type AllNeeds = BTreeMap<Arc<str>, Needs>;

/// Asks the seed for rights, and reports which are missing.
pub(crate) struct Reviewer {
    /// Its seed is asked for rights, too.
    pub(crate) scaler: Scaler,
    pub(crate) reporter: Reporter,
}

impl Needs {
    /// The needs of this policy.
    pub(crate) fn new(view: &PolicyView) -> Self {
        Self {
            policy: Policy {
                // Its finalizer changes none of them.
                held: false,
                ..view.policy.clone()
            },
            namespace: view.selected.first().cloned(),
        }
    }
}

impl Reviewer {
    /// Reviews each policy that is new or changed, and all of them at intervals.
    pub(crate) async fn run(self, mut needs: watch::Receiver<AllNeeds>) {
        let reviewer = Arc::new(self);
        let mut reviewed = BTreeMap::new();
        loop {
            let all = needs.borrow_and_update().clone();
            reviewed.retain(|policy, (known, _)| all.get(policy) == Some(known));
            for (policy, needs) in all {
                reviewed.entry(policy.clone()).or_insert_with(|| {
                    let task = reviewer.clone().attend(policy, needs.clone());
                    (needs, AbortOnDropHandle::new(tokio::spawn(task)))
                });
            }
            if needs.changed().await.is_err() {
                return;
            }
        }
    }

    async fn attend(self: Arc<Self>, policy: Arc<str>, needs: Needs) {
        loop {
            match self.missing(&policy, &needs).await {
                Ok(missing) => self.reporter.rights(&policy, &needs.policy.uid, missing),
                Err(error) => tracing::debug!(policy = &*policy, error, "its rights are not known"),
            }
            sleep(AGAIN).await;
        }
    }

    /// Returns the rights that this policy lacks, or why one could not be asked for.
    async fn missing(&self, policy: &str, needs: &Needs) -> Result<Vec<String>, String> {
        let namespace = needs.namespace.as_deref();
        // To put the finalizer on a policy, and to take it off.
        let policies = ApiResource::erase::<ProbePolicy>(&());
        let mut rights = vec![right(VERB, &policies, Some(policy), None)];
        // A policy that selects no cluster, or is not valid, scales nothing.
        let rules = needs.policy.rules.iter().filter(|_| namespace.is_some());
        let mut settings = rules.map(|rules| &rules.settings);
        for dependent in settings.clone().flat_map(|it| &*it.dependents) {
            let reference = &dependent.reference;
            match self.scaler.kind(reference).await {
                Ok(resource) => {
                    let object = right(VERB, &resource, Some(&reference.name), namespace);
                    rights.push(object.clone());
                    if workload(reference).is_none() {
                        rights.push(subresource("scale", object));
                    }
                }
                // The dependent itself is reported.
                Err(error) if error.is_about_the_kind() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if settings.any(|it| it.checks.iter().any(|check| check.exec.is_some())) {
            // To find the pod, and to ask for a WebSocket, which is a GET. API servers since Kubernetes 1.35 want the
            // right to create for it too.
            let pods = ApiResource::erase::<Pod>(&());
            let on_pods = |verb| right(verb, &pods, None, namespace);
            rights.push(on_pods("list"));
            rights.extend(["get", "create"].map(|verb| subresource("exec", on_pods(verb))));
        }
        let missing = rights::missing(&self.scaler.seed, rights).await;
        missing.map_err(|error| error.to_string())
    }
}
