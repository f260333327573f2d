//! Whether the operator may do something, asked of the seed before it is needed: a right to write
//! is otherwise missed when there is something to write, and then it is late.

use std::{
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

use super::seed::{CallError, Seed};

/// Rights are asked for again after this long ...
const AGAIN: Duration = Duration::from_secs(15 * 60);
/// ... and so soon if one is missing, since somebody may be granting it, or could not be asked.
const SOON: Duration = Duration::from_secs(2 * 60);

/// A right on objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    verb: &'static str,
    group: String,
    /// The plural.
    resource: String,
    subresource: Option<&'static str>,
    /// On all of them, without it.
    name: Option<String>,
    /// In all of them, without it, or on what is in none.
    namespace: Option<Arc<str>>,
}

/// What came of asking for rights.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// Those that are not granted.
    pub(crate) missing: Vec<Right>,
    /// Some could not be asked for.
    pub(crate) unanswered: bool,
}

/// Why a right could not be asked for.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the seed's answer does not say")]
    NoStatus,
}

impl Right {
    /// On all objects of a resource, wherever they are.
    pub(crate) fn new(verb: &'static str, resource: &ApiResource) -> Self {
        Self {
            verb,
            group: resource.group.clone(),
            resource: resource.plural.clone(),
            subresource: None,
            name: None,
            namespace: None,
        }
    }

    /// On the object of this name alone.
    pub(crate) fn on(self, name: &str) -> Self {
        let name = Some(name.to_owned());
        Self { name, ..self }
    }

    /// On this subresource of it.
    pub(crate) fn of(self, subresource: &'static str) -> Self {
        let subresource = Some(subresource);
        Self {
            subresource,
            ..self
        }
    }

    /// In this namespace alone.
    pub(crate) fn within(self, namespace: &Arc<str>) -> Self {
        let namespace = Some(namespace.clone());
        Self { namespace, ..self }
    }

    /// The right as far as it is missing.
    async fn missing(
        &self,
        seed: &Seed,
        namespaces: &[Arc<str>],
    ) -> Result<Option<Self>, Unanswered> {
        if self.is_granted(seed).await? {
            return Ok(None);
        }
        for namespace in namespaces {
            let right = self.clone().within(namespace);
            if !right.is_granted(seed).await? {
                return Ok(Some(right));
            }
        }
        Ok(namespaces.is_empty().then(|| self.clone()))
    }

    /// Asks the seed whether the operator has it.
    ///
    /// # Errors
    ///
    /// If the seed does not answer, or its answer does not say.
    async fn is_granted(&self, seed: &Seed) -> Result<bool, Unanswered> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(seed.client().clone());
        let (question, params) = (self.question(), PostParams::default());
        let answer = seed.call(reviews.create(&params, &question)).await?;
        let status = answer.status.ok_or(Unanswered::NoStatus)?;
        Ok(status.allowed)
    }

    fn question(&self) -> SelfSubjectAccessReview {
        let attributes = ResourceAttributes {
            group: Some(self.group.clone()),
            resource: Some(self.resource.clone()),
            subresource: self.subresource.map(str::to_owned),
            name: self.name.clone(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            verb: Some(self.verb.to_owned()),
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

/// `patch etcds.druid.gardener.cloud/etcd-main/scale in shoot--foo--bar`
impl Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        for part in [self.name.as_deref(), self.subresource].iter().flatten() {
            write!(f, "/{part}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

impl Review {
    /// Asks the seed for rights, for the policy that is named in the log. Each is asked for in all
    /// namespaces at once and, if it is not granted so, in each of those given with it; without
    /// any, its object is in no namespace.
    pub(crate) async fn ask(
        &mut self,
        seed: &Seed,
        policy: Option<&str>,
        rights: impl IntoIterator<Item = (Right, &[Arc<str>])>,
    ) {
        for (right, namespaces) in rights {
            match right.missing(seed, namespaces).await {
                Ok(missing) => self.missing.extend(missing),
                Err(error) => {
                    tracing::debug!(policy, %right, %error, "it could not be asked for a right");
                    self.unanswered = true;
                    // The others would not be answered either.
                    break;
                }
            }
        }
    }

    /// What is to be told. That nothing is missing can only be said if all was answered.
    pub(crate) fn news(&self) -> Option<Vec<String>> {
        let is_clear = self.missing.is_empty() && self.unanswered;
        (!is_clear).then(|| self.missing.iter().map(Right::to_string).collect())
    }

    /// When the same is to be asked again.
    pub(crate) fn again(&self) -> Duration {
        match self.missing.is_empty() && !self.unanswered {
            true => AGAIN,
            false => SOON,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::{Client, client::Body};
    use proptest::{prelude::*, sample::select};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pods() -> Right {
        Right::new(
            "delete",
            &ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()),
        )
    }

    fn deployments() -> Right {
        Right::new(
            "patch",
            &ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&()),
        )
    }

    #[rstest]
    #[case::core(pods(), "delete pods")]
    #[case::group(deployments(), "patch deployments.apps")]
    #[case::name(deployments().on("x"), "patch deployments.apps/x")]
    #[case::subresource(deployments().on("x").of("scale"), "patch deployments.apps/x/scale")]
    #[case::namespace(pods().within(&"a".into()), "delete pods in a")]
    fn how_it_is_told(#[case] right: Right, #[case] expected: &str) {
        assert_eq!(right.to_string(), expected);
    }

    #[test]
    fn what_is_asked() {
        let asked = |right: Right| right.question().spec.resource_attributes.unwrap();
        let some = |text: &str| Some(text.to_owned());
        let everywhere = ResourceAttributes {
            verb: some("delete"),
            group: some(""),
            resource: some("pods"),
            ..ResourceAttributes::default()
        };
        assert_eq!(asked(pods()), everywhere);
        let scale = deployments().on("x").of("scale").within(&"a".into());
        let expected = ResourceAttributes {
            verb: some("patch"),
            group: some("apps"),
            resource: some("deployments"),
            subresource: some("scale"),
            name: some("x"),
            namespace: some("a"),
            ..ResourceAttributes::default()
        };
        assert_eq!(asked(scale), expected);
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
        let review = Review {
            missing: missing.then(pods).into_iter().collect(),
            unanswered,
        };
        assert_eq!(review.news().map(|missing| missing.len()), told);
        assert_eq!(review.again(), again);
    }

    /// What may stand where it should not.
    fn odd() -> impl Strategy<Value = Value> {
        let odd = [
            json!(null),
            json!(true),
            json!(false),
            json!(1),
            json!("true"),
            json!([true]),
            json!({"allowed": true}),
            json!({"allowed": true, "denied": true, "reason": "r", "evaluationError": "e"}),
            json!({"allowed": "true"}),
            json!({"denied": false}),
            json!({}),
        ];
        prop_oneof![4 => select(odd.to_vec()), 1 => "\\PC{0,20}".prop_map(Value::from)]
    }

    proptest! {
        /// A right that is taken for granted without a word for it would be missed in an outage.
        #[test]
        fn a_right_is_granted_by_a_clear_word_alone(
            field in select(vec!["status", "spec", "metadata", "allowed"]),
            status in odd(),
            garbage in prop::option::weighted(0.2, prop::collection::vec(any::<u8>(), 0..30)),
        ) {
            let mut review = json!({"kind": "SelfSubjectAccessReview", "metadata": {}, "spec": {}});
            review[field] = status.clone();
            let clear = field == "status" && status["allowed"] == true && garbage.is_none();
            let body = garbage.unwrap_or_else(|| review.to_string().into_bytes());
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let answer = Response::new(Body::from(body.clone()));
                async move { Ok::<_, Infallible>(answer) }
            });
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let granted = runtime.block_on(async {
                let seed = Seed::unlimited(Client::new(service, "default"));
                pods().is_granted(&seed).await
            });
            prop_assert_eq!(matches!(granted, Ok(true)), clear, "{:?}", granted);
            if let Err(error) = granted {
                prop_assert!(error.to_string().chars().count() < 1_100, "{}", error);
            }
        }
    }
}
