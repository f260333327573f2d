//! Reads what is owed: ClusterHealths, policies, and the dependents that either of them names.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use futures::{StreamExt, future::join_all, stream};
use kube::{Api, Resource, api::ListParams, core::DeserializeGuard};
use serde::de::DeserializeOwned;

use super::{
    Restorer, messages,
    operator::{self, OperatorPresence},
    plan::Plan,
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, is_dns_label},
    cluster::{Assignment, Dependent, Policy, PolicyHold, select, skip},
    gardener::Cluster,
    prober::{
        plan::{Aim, Observed},
        report::Finding,
        treatment::{ClusterObject, Known, Treatment},
    },
};

/// Objects of a kind in one answer.
const PAGE: u32 = 500;
/// Clusters that are looked at at once; the budget bounds requests.
const AT_ONCE: usize = 32;

/// Which clusters are restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one of this name.
    Cluster(String),
    /// All that are known.
    All,
}

/// What could not be asked for, so that nothing is known.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// A request failed.
    #[error("{0}")]
    Call(String),
    /// The kind is not there.
    #[error(
        "the seed does not serve ClusterHealth, which says what is owed; restore by the \
         marks on the dependents, as docs/concepts.md says under \"By hand\""
    )]
    NoRecords,
    /// Nobody knows of the cluster.
    #[error(
        "there is no ClusterHealth {0}, and no ProbePolicy selects a Cluster of this name, so nothing \
         tells which dependents to look at; `kubectl get clusterhealths` lists what is known"
    )]
    NoSuchCluster(String),
}

/// A policy, and the clusters that it protects by its own status.
pub(super) struct KnownPolicy {
    pub(super) policy: Policy,
    protects: Vec<String>,
}

/// What was read.
pub struct View {
    /// The clusters to which something is owed, or that were asked for by name.
    pub plans: Vec<Plan>,
    /// How many others were looked at.
    pub quiet: usize,
    /// What was seen of the operator; `None` if it makes no difference.
    pub operator: Option<OperatorPresence>,
    /// The names of policies whose deletion waits for what is owed.
    pub deleting: Vec<Arc<str>>,
}

impl Restorer {
    /// Looks at these clusters. `say` is told what takes long.
    ///
    /// # Errors
    ///
    /// If it is not known where to look.
    pub async fn look(&self, scope: &Scope, say: &dyn Fn(&str)) -> Result<View, LookError> {
        let policies = self.policies().await?;
        let mut plans = self.plans(scope, &policies, say).await?;
        let looked_at = plans.len();
        let named = matches!(scope, Scope::Cluster(_));
        plans.retain(|plan| named || plan.is_due());
        let waiting = policies.iter().map(|known| &known.policy);
        let waiting = waiting.filter(|policy| policy.deleting && policy.held);
        let deleting: Vec<_> = match scope {
            Scope::All => waiting.map(|policy| policy.name.clone()).collect(),
            Scope::Cluster(_) => Vec::new(),
        };
        // Who overrules the operator has no need to where nothing is owed.
        let opposed = |plan: &Plan| {
            let asks = !self.overrule || !plan.is_due();
            asks && plan.workable() > 0 && plan.enforced_by.is_some()
        };
        let operator = if plans.iter().any(opposed) || !deleting.is_empty() {
            say("looking whether an operator renews its Lease, which takes some seconds");
            Some(operator::observe(&self.seed, &self.lease_namespace).await)
        } else {
            None
        };
        if let Some(presence) = operator.as_ref().filter(|presence| !presence.is_gone()) {
            for plan in plans.iter_mut().filter(|plan| opposed(plan)) {
                let policy = plan.enforced_by.as_ref();
                plan.held_back = policy.map(|policy| match plan.is_due() {
                    true => messages::held(policy, presence),
                    false => messages::marked_for_now(policy, presence),
                });
            }
        }
        Ok(View {
            quiet: looked_at - plans.len(),
            plans,
            operator,
            deleting,
        })
    }

    /// All policies; none if there is no such kind any more.
    pub(super) async fn policies(&self) -> Result<Vec<KnownPolicy>, LookError> {
        let listed = self.list::<ProbePolicy>("list probepolicies").await?;
        let known = |DeserializeGuard(object)| match object {
            Ok(object) => KnownPolicy {
                policy: Policy::new(&object),
                protects: object.status.unwrap_or_default().protected_clusters,
            },
            Err(invalid) => KnownPolicy {
                policy: Policy::unreadable(&invalid),
                protects: Vec::new(),
            },
        };
        Ok(listed.unwrap_or_default().into_iter().map(known).collect())
    }

    /// The clusters of this scope, each with its dependents as they are.
    pub(super) async fn plans(
        &self,
        scope: &Scope,
        policies: &[KnownPolicy],
        say: &dyn Fn(&str),
    ) -> Result<Vec<Plan>, LookError> {
        let plans = match scope {
            Scope::Cluster(name) => vec![self.named(name, policies).await?],
            Scope::All => self.all(policies, say).await?,
        };
        if plans.len() > AT_ONCE {
            say(&format!("looking at {} clusters", plans.len()));
        }
        let looks = plans.into_iter().map(|plan| self.look_at(plan, policies));
        let mut plans: Vec<Plan> = stream::iter(looks)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        plans.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        Ok(plans)
    }

    async fn named(&self, name: &str, policies: &[KnownPolicy]) -> Result<Plan, LookError> {
        let (seed, tried) = (self.scaler.seed(), format!("get the ClusterHealth {name}"));
        let api: Api<DeserializeGuard<ClusterHealth>> = Api::all(seed.client().clone());
        let found = seed.call(api.get_opt(name)).await;
        let found = found.map_err(|error| LookError::Call(messages::call(&tried, &error)))?;
        if let Some(found) = found {
            return Ok(plan_of(name, found, policies));
        }
        let selected = self.selected_by(name, policies).await;
        let selected = selected.map_err(LookError::Call)?;
        let plan = of_policies(name, None, policies, &selected);
        match plan.dependents().is_empty() {
            true => Err(LookError::NoSuchCluster(name.to_owned())),
            false => Ok(plan),
        }
    }

    async fn all(
        &self,
        policies: &[KnownPolicy],
        say: &dyn Fn(&str),
    ) -> Result<Vec<Plan>, LookError> {
        let healths = self.list::<ClusterHealth>("list clusterhealths").await?;
        let healths = healths.ok_or(LookError::NoRecords)?;
        let plans = healths.into_iter().map(|health| {
            let name = health.meta().name.clone().unwrap_or_default();
            plan_of(&name, health, policies)
        });
        let mut plans: Vec<Plan> = plans.collect();
        let known: BTreeSet<_> = plans.iter().map(|plan| plan.cluster.to_string()).collect();
        let protected = policies.iter().flat_map(|known| &known.protects);
        let unknown: BTreeSet<&String> = protected.filter(|name| !known.contains(*name)).collect();
        // Names become paths of requests, and arguments of printed commands.
        let (unknown, odd): (Vec<_>, Vec<_>) = unknown.into_iter().partition(|it| is_dns_label(it));
        if !odd.is_empty() {
            say("passing over names in statuses of ProbePolicies that no cluster can have");
        }
        let unknown = unknown.into_iter();
        plans.extend(unknown.map(|name| of_policies(name, None, policies, &[])));
        Ok(plans)
    }

    async fn look_at(&self, mut plan: Plan, policies: &[KnownPolicy]) -> Plan {
        let scaler = self.scaler.within(plan.cluster.clone());
        let dependents = plan.dependents();
        let seen = dependents.iter().map(async |dependent| {
            let found = scaler.read(&dependent.reference).await;
            let found = match self.overrule {
                true => found.map(|found| found.map(Observed::overruled)),
                false => found,
            };
            (dependent.clone(), found)
        });
        let seen = join_all(seen).await;
        let marked = |found: &Option<Observed>| found.as_ref().is_some_and(|found| found.marked);
        let mut found = seen.iter().map(|(_, found)| found);
        if plan.debts.owes() || found.any(|found| found.as_ref().map_or(true, marked)) {
            match self.cluster(&plan.cluster).await {
                Ok(Some(cluster)) => judge(&mut plan, &cluster, policies),
                // Whoever asks for it by name knows what it is.
                Ok(None) => {}
                Err(why) => {
                    plan.held_back = Some(format!(
                        "held back: whether its replicas are left to gardenlet is not known: {why}"
                    ));
                }
            }
        }
        plan.saw(seen);
        plan
    }

    /// The policies that would select the Cluster of this name.
    async fn selected_by(
        &self,
        name: &str,
        policies: &[KnownPolicy],
    ) -> Result<Vec<Arc<str>>, String> {
        let Some(cluster) = self.cluster(name).await? else {
            return Ok(Vec::new());
        };
        let labels = cluster.labels();
        let policies = policies.iter().map(|known| &known.policy);
        let selecting = policies.filter(|policy| {
            let rules = policy.rules.as_ref();
            rules.is_some_and(|rules| rules.selects(&labels))
        });
        Ok(selecting.map(|policy| policy.name.clone()).collect())
    }

    async fn cluster(&self, name: &str) -> Result<Option<Cluster>, String> {
        let api: Api<Cluster> = Api::all(self.scaler.seed().client().clone());
        let found = self.scaler.seed().call(api.get_opt(name)).await;
        found.map_err(|error| messages::call(&format!("get the Cluster {name}"), &error))
    }

    /// All objects of a kind; `None` if the seed does not serve it.
    async fn list<K>(&self, tried: &str) -> Result<Option<Vec<DeserializeGuard<K>>>, LookError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<DeserializeGuard<K>> = Api::all(self.seed.client().clone());
        let mut params = ListParams::default().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = match self.seed.call(api.list(&params)).await {
                Ok(page) => page,
                Err(error) if error.code() == Some(404) => return Ok(None),
                Err(error) => return Err(LookError::Call(messages::call(tried, &error))),
            };
            all.extend(page.items);
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params.continue_token = Some(token),
                _ => return Ok(Some(all)),
            }
        }
    }
}

/// What the Cluster says about what may be done.
fn judge(plan: &mut Plan, cluster: &Cluster, policies: &[KnownPolicy]) {
    let skip = skip(cluster);
    let probed = skip.is_none();
    let assignment = Assignment {
        uid: Arc::default(),
        skip,
        selected: None,
        former: None,
    };
    let owed = Known {
        last: None,
        engaged: true,
        looked_at: true,
        dry_run: false,
    };
    let treatment = Treatment::new(&ClusterObject::There(Box::new(assignment)), owed);
    if let Treatment::Complete(Aim::Release, Finding::Skipped { message, .. }) = treatment {
        plan.gardenlets = Some(format!("gardenlet decides about its replicas: {message}"));
    }
    let policies = policies.iter().map(|known| &known.policy);
    let selection = select(policies, &cluster.labels());
    plan.enforced_by = selection
        .filter(|it| probed && it.hold == PolicyHold::default())
        .map(|it| it.policy.clone());
}

/// What is known of a cluster that has this ClusterHealth.
fn plan_of(name: &str, health: DeserializeGuard<ClusterHealth>, policies: &[KnownPolicy]) -> Plan {
    let (status, trouble) = match health.0 {
        Ok(health) => (health.status, None),
        Err(invalid) => {
            let error: String = invalid.error.chars().take(256).collect();
            let trouble = format!(
                "its ClusterHealth cannot be read, so only dependents that policies name are looked at, \
                 and only marks count; delete it once all is as it should be: {error}"
            );
            (None, Some(trouble))
        }
    };
    // One that was created and not written yet does not say which policy it is: any may be.
    let says = |it: &ClusterHealthStatus| it.policy.is_some() || !it.dependents.is_empty();
    let any = policies.iter().map(|known| known.policy.name.clone());
    let any: Vec<_> = any.filter(|_| !status.as_ref().is_some_and(says)).collect();
    Plan {
        trouble,
        ..of_policies(name, status, policies, &any)
    }
}

/// What is known of a cluster by its ClusterHealth, and by the policies that are responsible for it,
/// say that they protect it, or select it.
fn of_policies(
    name: &str,
    health: Option<ClusterHealthStatus>,
    policies: &[KnownPolicy],
    selected_by: &[Arc<str>],
) -> Plan {
    let health = health.unwrap_or_default();
    let concerned = policies.iter().filter(|known| {
        let policy = &known.policy.name;
        health.policy.as_deref() == Some(&**policy)
            || known.protects.iter().any(|protected| protected == name)
            || selected_by.contains(policy)
    });
    let dependents: Vec<Dependent> = concerned
        .filter_map(|known| known.policy.rules.as_ref())
        .flat_map(|rules| rules.template.dependents().iter().cloned())
        .collect();
    Plan::new(name.into(), &health, dependents)
}
