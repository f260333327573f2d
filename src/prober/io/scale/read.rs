//! Reads dependents, and tells those that are gone from those of which the seed says nothing.

use kube::{api::GetParams, core::PartialObjectMeta};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{
    SCALE, ScaleError, Scaler, Target,
    answer::{Scale, Workload, observed_scalable, observed_unscalable, observed_workload},
};
use crate::prober::{
    plan::{Family, Observed},
    scale_error::CONFLICTS,
};

/// The kind that answers a request for metadata alone.
const METADATA: &str = "PartialObjectMetadata";

/// What a read has come to.
enum Read<T> {
    Found(T),
    /// The server says that there is no object of this name.
    Absent,
    /// It says 404 of the path: it may not serve it any more, which tells nothing of the object.
    Nowhere(ScaleError),
}

impl<T> Read<T> {
    fn map<U>(self, change: impl FnOnce(T) -> U) -> Read<U> {
        match self {
            Self::Found(found) => Read::Found(change(found)),
            Self::Absent => Read::Absent,
            Self::Nowhere(error) => Read::Nowhere(error),
        }
    }
}

impl Scaler {
    /// The dependent as it is; `None` if the seed says by its name that it does not exist.
    pub(super) async fn observe(
        &self,
        target: &mut Target,
    ) -> Result<Option<Observed>, ScaleError> {
        let begun = Instant::now();
        let found = match self.get_dependent(target).await? {
            // The version that the policy names may not be served any more. What was scaled down is
            // there all the same, and must not be taken for gone.
            Read::Nowhere(_) => {
                *target = self.target(&target.dependent, Some(begun)).await?;
                self.get_dependent(target).await?
            }
            found => found,
        };
        match found {
            Read::Found(found) if self.overruling => Ok(Some(found.overruled())),
            Read::Found(found) => Ok(Some(found)),
            Read::Absent => Ok(None),
            Read::Nowhere(error) => Err(error),
        }
    }

    async fn get_dependent(&self, target: &Target) -> Result<Read<Observed>, ScaleError> {
        let name = &target.dependent.name;
        match target.family {
            Family::Apps => {
                let object = target.request.get(name, &GetParams::default());
                let object = self.get::<Workload>("get", &target.kind, name, object);
                Ok(object.await?.map(observed_workload))
            }
            Family::Scalable => self.get_scalable(target).await,
            Family::Unscalable => match self.get_metadata(target).await {
                // Only with the right to read it is seen what somebody has done about its mark.
                Err(ScaleError::Forbidden { verb, message, .. }) => Err(ScaleError::Forbidden {
                    verb,
                    // What comes last may be cut off.
                    message: format!("{}; {message}", ScaleError::NotScalable),
                    scalable: false,
                }),
                object => Ok(object?.map(observed_unscalable)),
            },
        }
    }

    /// What is read by two requests is of one version: the mark that somebody has just set, and the
    /// replicas after that, would together be somebody else's zero.
    async fn get_scalable(&self, target: &Target) -> Result<Read<Observed>, ScaleError> {
        for _ in 0..=CONFLICTS {
            let object = match self.get_metadata(target).await? {
                Read::Found(object) => object,
                Read::Absent => return Ok(Read::Absent),
                Read::Nowhere(error) => return Ok(Read::Nowhere(error)),
            };
            match self.get_scale(target).await? {
                Read::Found(scale) if scale.is_of_another_version(&object) => {}
                scale => return Ok(scale.map(|scale| observed_scalable(object, &scale))),
            }
        }
        Err(ScaleError::Conflicts)
    }

    async fn get_metadata(&self, target: &Target) -> Result<Read<PartialObjectMeta>, ScaleError> {
        let name = &target.dependent.name;
        let object = target.request.get_metadata(name, &GetParams::default());
        self.get("get", METADATA, name, object).await
    }

    async fn get_scale(&self, target: &Target) -> Result<Read<Scale>, ScaleError> {
        let scale = target
            .request
            .get_subresource("scale", &target.dependent.name);
        match self.send::<Scale>(SCALE, scale).await {
            Ok(scale) => Ok(Read::Found(scale)),
            // The object was there a moment ago: it is gone, or cannot be scaled any more.
            Err(failure) if failure.code() == Some(404) => {
                Ok(Read::Nowhere(failure.explain("get scale")))
            }
            Err(failure) => Err(failure.explain("get scale")),
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        verb: &'static str,
        kind: &str,
        name: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Read<T>, ScaleError> {
        match self.send(kind, request).await {
            Ok(found) => Ok(Read::Found(found)),
            Err(failure) if failure.code() != Some(404) => Err(failure.explain(verb)),
            Err(failure) if failure.is_about(name) => Ok(Read::Absent),
            Err(failure) => Ok(Read::Nowhere(failure.explain(verb))),
        }
    }
}
