//! Reads dependents, and tells those that are gone from those of which the seed says nothing.

use kube::{api::GetParams, core::PartialObjectMeta};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{
    SCALE, ScaleError, Scaler, Target,
    answer::{Scale, Workload, observed_scalable, observed_unscalable, observed_workload},
};
use crate::prober::plan::{Family, Observed, Refusal};

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

impl Scaler {
    /// The dependent as it is; `None` if the seed says by its name that it does not exist.
    pub(super) async fn observe(
        &self,
        target: &mut Target<'_>,
    ) -> Result<Option<Observed>, ScaleError> {
        let begun = Instant::now();
        let found = match self.get_dependent(target).await? {
            // The version that the policy names may not be served any more. What was scaled down is
            // there all the same, and must not be taken for gone.
            Read::Nowhere(_) => {
                *target = self.target(target.dependent, Some(begun)).await?;
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

    async fn get_dependent(&self, target: &Target<'_>) -> Result<Read<Observed>, ScaleError> {
        let name = &target.dependent.name;
        match target.family {
            Family::Apps => {
                let object = target.request.get(name, &GetParams::default());
                let object = self.get::<Workload>("get", &target.kind, name, object);
                Ok(match object.await? {
                    Read::Found(object) => Read::Found(observed_workload(object)),
                    Read::Absent => Read::Absent,
                    Read::Nowhere(error) => Read::Nowhere(error),
                })
            }
            Family::Scalable | Family::Unscalable => {
                let object = target.request.get_metadata(name, &GetParams::default());
                let object = self.get::<PartialObjectMeta>("get", METADATA, name, object);
                let object = match object.await {
                    // With the right to it, it could not be scaled either.
                    Err(ScaleError::Forbidden { .. }) if target.family == Family::Unscalable => {
                        return Err(Refusal::NotScalable.into());
                    }
                    object => object?,
                };
                let object = match object {
                    Read::Found(object) => object,
                    Read::Absent => return Ok(Read::Absent),
                    Read::Nowhere(error) => return Ok(Read::Nowhere(error)),
                };
                if target.family == Family::Unscalable {
                    return Ok(Read::Found(observed_unscalable(object)));
                }
                let scale = target.request.get_subresource("scale", name);
                match self.send::<Scale>(SCALE, scale).await {
                    Ok(scale) => Ok(Read::Found(observed_scalable(object, &scale))),
                    // The object was there a moment ago: it is gone, or cannot be scaled any more.
                    Err(failure) if failure.code() == Some(404) => {
                        Ok(Read::Nowhere(failure.explain("get scale")))
                    }
                    Err(failure) => Err(failure.explain("get scale")),
                }
            }
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
