//! Reads dependents, and distinguishes absent ones from those that the seed does not answer for.

use kube::{api::GetParams, core::PartialObjectMeta};
use serde::de::DeserializeOwned;

use super::{
    SCALE, ScaleError, Scaler, Target,
    answer::{Scale, Workload, observed_scalable, observed_workload},
};
use crate::prober::{
    scale_error::CONFLICTS,
    step::{Family, Observed},
};

/// The kind that answers a request for metadata alone.
const METADATA: &str = "PartialObjectMetadata";

/// Why a read found nothing.
enum Miss {
    /// The server says that there is no object of this name.
    Absent,
    /// 404 for the path: it may not be served any more, which says nothing about the object.
    Nowhere(ScaleError),
    Failed(ScaleError),
}

impl Scaler {
    /// The dependent as it is; `None` if the seed says by its name that it does not exist.
    pub(super) async fn observe(&self, target: &Target) -> Result<Option<Observed>, ScaleError> {
        match self.get_dependent(target).await {
            Ok(found) => Ok(Some(found)),
            Err(Miss::Absent) => Ok(None),
            // The seed may not serve the kind so any more. A dependent that was scaled down still exists, and must
            // not count as gone.
            Err(Miss::Nowhere(error)) => {
                let again = self.resources.find(&self.seed, &target.dependent, true);
                again.await?;
                Err(error)
            }
            Err(Miss::Failed(error)) => Err(error),
        }
    }

    async fn get_dependent(&self, target: &Target) -> Result<Observed, Miss> {
        let name = &target.dependent.name;
        match target.family {
            Family::Apps => {
                let object = target.request.get(name, &GetParams::default());
                let object = self.get::<Workload>(&target.kind, name, object);
                Ok(observed_workload(object.await?))
            }
            Family::Scalable => self.get_scalable(target).await,
        }
    }

    /// Both requests must show one version: metadata from before a mark, with replicas from after it, would
    /// look like another client's zero.
    async fn get_scalable(&self, target: &Target) -> Result<Observed, Miss> {
        for _ in 0..=CONFLICTS {
            let object = self.get_metadata(target).await?;
            let scale = self.get_scale(target).await?;
            if !scale.is_of_another_version(&object) {
                return Ok(observed_scalable(object, &scale));
            }
        }
        Err(Miss::Failed(ScaleError::Conflicts))
    }

    async fn get_metadata(&self, target: &Target) -> Result<PartialObjectMeta, Miss> {
        let name = &target.dependent.name;
        let object = target.request.get_metadata(name, &GetParams::default());
        self.get(METADATA, name, object).await
    }

    async fn get_scale(&self, target: &Target) -> Result<Scale, Miss> {
        let scale = target
            .request
            .get_subresource("scale", &target.dependent.name);
        let scale = self.send::<Scale>(SCALE, scale).await;
        scale.map_err(|failure| match failure.code() {
            // The object was there a moment ago: it is gone, or cannot be scaled any more.
            Some(404) => Miss::Nowhere(failure.explain("get scale")),
            _ => Miss::Failed(failure.explain("get scale")),
        })
    }

    async fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        name: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Miss> {
        let found = self.send(kind, request).await;
        found.map_err(|failure| match failure.code() {
            Some(404) if failure.is_about(name) => Miss::Absent,
            Some(404) => Miss::Nowhere(failure.explain("get")),
            _ => Miss::Failed(failure.explain("get")),
        })
    }
}
