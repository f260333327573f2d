//! Whether the operator may do what a policy needs in an outage, asked before there is one: a right
//! to write is otherwise missed when there is something to write, and then it is late.
//!
//! What is missing is reported. Nothing is withheld for it, nor told where it cannot be asked.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{
    Api,
    api::{ApiResource, PostParams},
};
use tokio::{sync::watch, time::Instant};

use super::{plan::Family, scale::Resources};
use crate::{
    api::ProbePolicy,
    cluster::{Dependent, PolicyView},
    health::Reporter,
    runtime::{
        seed::{CallError, Seed},
        timer::until,
    },
};

/// All that is needed of rights is to patch: what is only read is missed at once.
const VERB: &str = "patch";
/// The rights of a policy that stays the same are asked for again after this long ...
const AGAIN: Duration = Duration::from_secs(15 * 60);
/// ... and so soon if one is missing, since somebody may be granting it, or could not be asked.
const SOON: Duration = Duration::from_secs(2 * 60);
/// Rights may be granted in each namespace by itself; they are asked for in so many of them.
const NAMESPACES: usize = 3;

/// What a policy needs rights for.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    uid: Arc<str>,
    /// Whoever changes the policy may look for an answer.
    generation: i64,
    dependents: Arc<[Dependent]>,
    /// Of some of its clusters.
    namespaces: Vec<Arc<str>>,
}

/// The needs of all policies, by name.
pub type AllNeeds = BTreeMap<Arc<str>, Needs>;

/// Asks the seed for rights, and reports which are missing.
pub struct Reviewer {
    /// Where it asks, by and by.
    pub seed: Seed,
    /// What is behind the kinds of dependents.
    pub resources: Resources,
    /// Whom it tells.
    pub reporter: Reporter,
}

/// A right to patch an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Right {
    group: String,
    /// The plural.
    resource: String,
    subresource: Option<&'static str>,
    name: String,
    namespaced: bool,
}

/// A right that is not granted, in this of the namespaces that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing(Right, Option<Arc<str>>);

/// What came of asking for the rights that a policy needs.
#[derive(Default)]
struct Review {
    missing: Vec<Missing>,
    /// Some could not be asked for.
    unanswered: bool,
}

/// Why a right could not be asked for.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the seed's answer does not say")]
    NoStatus,
}

/// Which policy is reviewed next.
#[derive(Default)]
struct Agenda(BTreeMap<Arc<str>, (Needs, Instant)>);

impl Needs {
    /// What this policy needs. As long as it selects no cluster, or is not valid, it scales nothing.
    pub fn new(view: &PolicyView<'_>) -> Self {
        let policy = view.policy;
        Self {
            uid: policy.uid.clone(),
            generation: policy.generation,
            dependents: match &policy.rules {
                Ok(rules) if !view.selected.is_empty() => rules.template.dependents().clone(),
                _ => Arc::default(),
            },
            namespaces: view.selected.iter().take(NAMESPACES).cloned().collect(),
        }
    }
}

impl Right {
    fn new(resource: &ApiResource, subresource: Option<&'static str>, name: &str) -> Self {
        Self {
            group: resource.group.clone(),
            resource: resource.plural.clone(),
            subresource,
            name: name.to_owned(),
            namespaced: true,
        }
    }

    /// To put the finalizer on a policy, and to take it off.
    fn finalizer(policy: &str) -> Self {
        let resource = ApiResource::erase::<ProbePolicy>(&());
        Self {
            namespaced: false,
            ..Self::new(&resource, None, policy)
        }
    }

    /// To scale a dependent: see [`Family`].
    fn scaling(family: Family, resource: &ApiResource, name: &str) -> Vec<Self> {
        let object = Self::new(resource, None, name);
        match family {
            Family::Apps => vec![object],
            Family::Scalable => vec![object, Self::new(resource, Some("scale"), name)],
        }
    }

    fn question(&self, namespace: Option<&str>) -> SelfSubjectAccessReview {
        let attributes = ResourceAttributes {
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            subresource: self.subresource.map(str::to_owned),
            name: Some(self.name.clone()),
            namespace: namespace.map(str::to_owned),
            verb: Some(VERB.to_owned()),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }
}

/// `patch etcds.druid.gardener.cloud/etcd-main/scale`
impl Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERB} {}", self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, "/{}", self.name)?;
        match self.subresource {
            Some(subresource) => write!(f, "/{subresource}"),
            None => Ok(()),
        }
    }
}

impl Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(right, namespace) = self;
        match namespace {
            Some(namespace) => write!(f, "{right} in {namespace}"),
            None => write!(f, "{right}"),
        }
    }
}

impl Review {
    /// What is to be told. That nothing is missing can only be said if all was answered.
    fn news(&self) -> Option<Vec<String>> {
        let is_clear = self.missing.is_empty() && self.unanswered;
        (!is_clear).then(|| self.missing.iter().map(Missing::to_string).collect())
    }

    fn again(&self) -> Duration {
        match self.missing.is_empty() && !self.unanswered {
            true => AGAIN,
            false => SOON,
        }
    }
}

impl Agenda {
    /// Takes up what the policies need by now: what is new or changed is due.
    fn adopt(&mut self, needs: AllNeeds, now: Instant) {
        self.0.retain(|policy, _| needs.contains_key(policy));
        for (policy, needs) in needs {
            let known = self.0.get(&policy);
            if known.is_none_or(|(known, _)| *known != needs) {
                self.0.insert(policy, (needs, now));
            }
        }
    }

    /// The policy that has been due for longest, or is due first.
    fn next(&self) -> Option<(Instant, Arc<str>, Needs)> {
        let policies = self.0.iter();
        let (policy, (needs, due)) = policies.min_by_key(|(_, (_, due))| *due)?;
        Some((*due, policy.clone(), needs.clone()))
    }

    fn postpone(&mut self, policy: &str, until: Instant) {
        if let Some((_, due)) = self.0.get_mut(policy) {
            *due = until;
        }
    }
}

impl Reviewer {
    /// Reviews each policy that is new or changed, and all of them now and then.
    pub async fn run(self, mut needs: watch::Receiver<AllNeeds>) {
        let mut agenda = Agenda::default();
        loop {
            agenda.adopt(needs.borrow_and_update().clone(), Instant::now());
            let next = agenda.next();
            let due = next.as_ref().map(|(due, ..)| *due);
            tokio::select! {
                // A change first: it may concern what is due.
                biased;
                changed = needs.changed() => if changed.is_err() {
                    return;
                },
                () = until(due) => if let Some((_, policy, needs)) = next {
                    let review = self.review(&policy, &needs).await;
                    agenda.postpone(&policy, Instant::now() + review.again());
                    if let Some(missing) = review.news() {
                        self.reporter.rights(&policy, &needs.uid, missing);
                    }
                },
            }
        }
    }

    async fn review(&self, policy: &str, needs: &Needs) -> Review {
        let mut review = Review::default();
        let mut rights = vec![Right::finalizer(policy)];
        for dependent in &*needs.dependents {
            let reference = &dependent.reference;
            match self.resources.find(&self.seed, reference).await {
                Ok((family, resource)) => {
                    rights.extend(Right::scaling(family, &resource, &reference.name));
                }
                // It is told of the dependent.
                Err(error) if error.is_about_the_kind() => {}
                Err(error) => {
                    tracing::debug!(policy, kind = reference.kind, %error, "its rights are not known");
                    review.unanswered = true;
                }
            }
        }
        for right in rights {
            match self.ask(&right, &needs.namespaces).await {
                Ok(None) => {}
                Ok(Some(missing)) => review.missing.push(missing),
                Err(error) => {
                    tracing::debug!(policy, %right, %error, "it could not be asked for a right");
                    review.unanswered = true;
                    // Nor would the others be answered.
                    break;
                }
            }
        }
        review
    }

    /// Asks for a right in all namespaces at once; if it is not granted so, in each of these.
    async fn ask(
        &self,
        right: &Right,
        namespaces: &[Arc<str>],
    ) -> Result<Option<Missing>, Unanswered> {
        if self.is_granted(right, None).await? {
            return Ok(None);
        }
        if !right.namespaced {
            return Ok(Some(Missing(right.clone(), None)));
        }
        for namespace in namespaces {
            if !self.is_granted(right, Some(namespace)).await? {
                return Ok(Some(Missing(right.clone(), Some(namespace.clone()))));
            }
        }
        Ok(None)
    }

    async fn is_granted(&self, right: &Right, namespace: Option<&str>) -> Result<bool, Unanswered> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.seed.client().clone());
        let (question, params) = (right.question(namespace), PostParams::default());
        let answer = self.seed.call(reviews.create(&params, &question)).await?;
        let status = answer.status.ok_or(Unanswered::NoStatus)?;
        Ok(status.allowed)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn needs(generation: i64) -> Needs {
        Needs {
            uid: "uid".into(),
            generation,
            dependents: Arc::default(),
            namespaces: vec![],
        }
    }

    fn all(policies: &[(&str, i64)]) -> AllNeeds {
        let policies = policies.iter();
        let needs = policies.map(|(name, generation)| (Arc::from(*name), needs(*generation)));
        needs.collect()
    }

    fn next(agenda: &Agenda) -> Option<(String, Instant)> {
        let (due, policy, _) = agenda.next()?;
        Some((policy.to_string(), due))
    }

    #[test]
    fn what_is_new_or_changed_is_due() {
        let start = Instant::now();
        let mut agenda = Agenda::default();
        assert_eq!(next(&agenda), None);
        agenda.adopt(all(&[("a", 1), ("b", 1)]), start);
        assert_eq!(next(&agenda), Some(("a".to_owned(), start)));
        agenda.postpone("a", start + AGAIN);
        assert_eq!(next(&agenda), Some(("b".to_owned(), start)));
        agenda.postpone("b", start + SOON);

        // The same again changes nothing.
        agenda.adopt(all(&[("a", 1), ("b", 1)]), start);
        assert_eq!(next(&agenda), Some(("b".to_owned(), start + SOON)));

        // A change goes before what is due later; what is gone is forgotten.
        let later = start + Duration::from_secs(1);
        agenda.adopt(all(&[("a", 2), ("b", 1)]), later);
        assert_eq!(next(&agenda), Some(("a".to_owned(), later)));
        agenda.adopt(all(&[("b", 1)]), later);
        assert_eq!(next(&agenda), Some(("b".to_owned(), start + SOON)));
    }

    fn resource(group: &str, plural: &str) -> ApiResource {
        ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: String::new(),
            kind: String::new(),
            plural: plural.to_owned(),
        }
    }

    #[rstest]
    #[case::apps(Family::Apps, "apps", "deployments", &["patch deployments.apps/x"])]
    #[case::other(
        Family::Scalable, "example.com", "things",
        &["patch things.example.com/x", "patch things.example.com/x/scale"]
    )]
    #[case::core(
        Family::Scalable, "", "replicationcontrollers",
        &["patch replicationcontrollers/x", "patch replicationcontrollers/x/scale"]
    )]
    fn what_a_dependent_needs(
        #[case] family: Family,
        #[case] group: &str,
        #[case] plural: &str,
        #[case] expected: &[&str],
    ) {
        let rights = Right::scaling(family, &resource(group, plural), "x");
        let rights: Vec<String> = rights.iter().map(Right::to_string).collect();
        assert_eq!(rights, expected);
    }

    #[rstest]
    #[case::all_granted(false, false, Some(0), AGAIN)]
    #[case::missing(true, false, Some(1), SOON)]
    #[case::missing_and_unanswered(true, true, Some(1), SOON)]
    #[case::unanswered(false, true, None, SOON)]
    fn what_is_told_and_when_it_is_asked_again(
        #[case] missing: bool,
        #[case] unanswered: bool,
        #[case] told: Option<usize>,
        #[case] again: Duration,
    ) {
        let missing = missing.then(|| Missing(Right::finalizer("p"), None));
        let review = Review {
            missing: missing.into_iter().collect(),
            unanswered,
        };
        assert_eq!(review.news().map(|missing| missing.len()), told);
        assert_eq!(review.again(), again);
    }
}
