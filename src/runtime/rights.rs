//! Whether the operator may do something, asked of the seed before it is needed: a right to write
//! is otherwise missed when there is something to write, and then it is late.

use std::{
    fmt::{self, Display},
    time::Duration,
};

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kube::{
    Api,
    api::{ApiResource, PostParams},
};

use super::seed::{CallError, Seed};

/// Rights are asked for again after this long ...
const AGAIN: Duration = Duration::from_secs(15 * 60);
/// ... and so soon if one is missing, since somebody may be granting it, or could not be asked.
const SOON: Duration = Duration::from_secs(2 * 60);

/// A right on objects of a resource: on all of them, wherever they are, unless it says which.
#[derive(Clone, Debug)]
pub(crate) struct Right(ResourceAttributes);

/// What came of asking for rights.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// Those that are not granted.
    pub(crate) missing: Vec<Right>,
    /// Some could not be asked for.
    pub(crate) unanswered: bool,
}

impl Right {
    /// On all objects of a resource.
    pub(crate) fn new(verb: &str, resource: &ApiResource) -> Self {
        Self(ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(resource.group.clone()),
            resource: Some(resource.plural.clone()),
            ..ResourceAttributes::default()
        })
    }

    /// On the object of this name alone.
    pub(crate) fn on(mut self, name: &str) -> Self {
        self.0.name = Some(name.to_owned());
        self
    }

    /// On this subresource of it.
    pub(crate) fn of(mut self, subresource: &str) -> Self {
        self.0.subresource = Some(subresource.to_owned());
        self
    }

    /// In this namespace alone, if it is given.
    pub(crate) fn within(mut self, namespace: Option<&str>) -> Self {
        self.0.namespace = namespace.map(str::to_owned);
        self
    }

    async fn is_granted(&self, seed: &Seed) -> Result<bool, CallError> {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(seed.client().clone());
        let mut question = SelfSubjectAccessReview::default();
        question.spec.resource_attributes = Some(self.0.clone());
        let params = PostParams::default();
        let answer = seed.call(reviews.create(&params, &question)).await?;
        Ok(answer.status.is_some_and(|it| it.allowed))
    }
}

/// `patch etcds.druid.gardener.cloud/etcd-main/scale in shoot--foo--bar`
impl Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = &self.0;
        // Pods are of the group "".
        let group = right.group.clone().filter(|group| !group.is_empty());
        let parts = [
            ("", &right.verb),
            (" ", &right.resource),
            (".", &group),
            ("/", &right.name),
            ("/", &right.subresource),
            (" in ", &right.namespace),
        ];
        parts.iter().try_for_each(|(before, part)| match part {
            Some(part) => write!(f, "{before}{part}"),
            None => Ok(()),
        })
    }
}

impl Review {
    /// Asks the seed for each of these rights, for the policy that is named in the log.
    pub(crate) async fn ask(
        &mut self,
        seed: &Seed,
        policy: Option<&str>,
        rights: impl IntoIterator<Item = Right>,
    ) {
        for right in rights {
            match right.is_granted(seed).await {
                Ok(true) => {}
                Ok(false) => self.missing.push(right),
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
    use rstest::rstest;

    use super::*;

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
            missing: missing
                .then(|| Right(ResourceAttributes::default()))
                .into_iter()
                .collect(),
            unanswered,
        };
        assert_eq!(review.news().map(|missing| missing.len()), told);
        assert_eq!(review.again(), again);
    }
}
