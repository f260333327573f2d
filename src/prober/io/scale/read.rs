//! Reads dependents, and distinguishes absent ones from those that the seed does not answer for.

use kube::{api::GetParams, core::request::Error as BuildError};
use serde::de::DeserializeOwned;

use super::{
    SCALE, ScaleError, Scaler, Target,
    answer::{Object, Scale},
    explain,
};
use crate::{
    prober::{
        scale_error::CONFLICTS,
        step::{Family, Observed},
    },
    runtime::seed::CallError,
};

/// The kind that answers a request for metadata alone.
const METADATA: &str = "PartialObjectMetadata";

impl Scaler {
    /// The dependent as it is; `None` if the seed says by its name that it does not exist.
    pub(super) async fn observe(&self, target: &Target) -> Result<Option<Observed>, ScaleError> {
        let name = &target.dependent.name;
        match target.family {
            Family::Apps => {
                let object = target.request.get(name, &GetParams::default());
                let object = self.get::<Object>(&target.kind, target, ("get", object));
                Ok(object.await?.map(Object::workload))
            }
            Family::Scalable => self.observe_scalable(target).await,
        }
    }

    /// Both requests must show one version: metadata from before a mark, with replicas from after it, would
    /// look like another client's zero.
    async fn observe_scalable(&self, target: &Target) -> Result<Option<Observed>, ScaleError> {
        let name = &target.dependent.name;
        for _ in 0..=CONFLICTS {
            let object = target.request.get_metadata(name, &GetParams::default());
            let object = self.get::<Object>(METADATA, target, ("get", object));
            let Some(object) = object.await? else {
                return Ok(None);
            };
            let scale = target.request.get_subresource("scale", name);
            let scale = self.get::<Scale>(SCALE, target, ("get scale", scale));
            // The object was there a moment ago.
            let Some(scale) = scale.await? else { continue };
            if !scale.is_of_another_version(&object) {
                return Ok(Some(object.scalable(&scale)));
            }
        }
        Err(ScaleError::Conflicts)
    }

    /// Gets what is answered by this kind; `None` only if the seed says so of the object by its name. It may not serve a
    /// path any more, which says nothing: what was scaled down before still exists, and must not count as gone.
    async fn get<T: DeserializeOwned>(
        &self,
        kind: &str,
        target: &Target,
        (verb, request): (&'static str, Result<http::Request<Vec<u8>>, BuildError>),
    ) -> Result<Option<T>, ScaleError> {
        let error = match self.send(kind, request).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) => error,
        };
        if error.code() == Some(404) {
            if is_about(&error, &target.dependent.name) {
                return Ok(None);
            }
            self.resources.forget(&target.dependent);
            self.kind(&target.dependent).await?;
        }
        Err(explain(error, verb))
    }
}

/// Returns whether the server says this of the object with that name. A path that it does not serve has none.
fn is_about(error: &CallError, name: &str) -> bool {
    match error {
        CallError::Refused(status) => {
            let details = status.details.as_ref();
            details.is_some_and(|details| details.name == name)
        }
        _ => false,
    }
}
