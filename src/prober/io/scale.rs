//! Reads and writes dependents on the seed. The only place that changes what a user owns.

mod answer;
mod read;
mod resources;

use std::sync::Arc;

use self::resources::Resources;
pub(crate) use self::resources::workload;
pub use crate::prober::scale_error::ScaleError;

use crate::{
    api::DependentRef,
    prober::{
        dependents::Written,
        step::{Family, Observed, Write},
    },
    runtime::seed::{CallError, FIELD_MANAGER, REQUEST_LIMIT, Seed, is_for_lack_of_rights, told},
};
use kube::{
    Resource as _,
    api::{DynamicObject, Patch, PatchParams, Request},
    core::{ApiResource, request::Error as BuildError},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The kind that answers a request for `scale`.
const SCALE: &str = "Scale";

/// Reads and writes the dependents in one namespace.
#[derive(Clone)]
pub struct Scaler {
    /// For what is read.
    seed: Seed,
    /// For what is written, which always acts: something is owed, or has to be taken. In a dry
    /// run there is no way to write.
    writes: Option<Seed>,
    namespace: Arc<str>,
    resources: Resources,
}

/// Way to a dependent.
struct Target {
    dependent: DependentRef,
    family: Family,
    kind: String,
    request: Request,
}

impl Scaler {
    /// Scales dependents on this seed, within the budget of what acts.
    pub fn new(seed: Seed) -> Self {
        let seed = seed.acting();
        Self {
            writes: Some(seed.clone()),
            seed,
            namespace: Arc::default(),
            resources: Resources::default(),
        }
    }

    /// Scales dependents in this namespace. What is known of kinds is shared.
    #[must_use]
    pub fn within(&self, namespace: Arc<str>) -> Self {
        Self {
            namespace,
            ..self.clone()
        }
    }

    /// The seed from which dependents are read.
    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Returns whether there is no way to write.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.writes.is_none()
    }

    /// The resource behind a dependent's kind.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or cannot be scaled.
    pub(crate) async fn kind(
        &self,
        dependent: &DependentRef,
    ) -> Result<(Family, ApiResource), ScaleError> {
        self.resources.find(&self.seed, dependent).await
    }

    /// The same, for a dry run: what would have to be written is refused.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self {
            writes: None,
            ..self
        }
    }

    /// Reads a dependent; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is of a kind that cannot be scaled.
    pub async fn read(&self, dependent: &DependentRef) -> Result<Option<Observed>, ScaleError> {
        self.observe(&self.target(dependent).await?).await
    }

    async fn target(&self, dependent: &DependentRef) -> Result<Target, ScaleError> {
        let (family, resource) = self.kind(dependent).await?;
        let path = DynamicObject::url_path(&resource, Some(&self.namespace));
        Ok(Target {
            dependent: dependent.clone(),
            family,
            kind: resource.kind,
            request: Request::new(path),
        })
    }

    /// Waits for a turn to write; in a dry run there is none to wait for.
    pub(crate) async fn turn_to_write(&self) {
        if let Some(writes) = &self.writes {
            writes.turn().await;
        }
    }

    /// Sends one write to what was [read](Self::read) before, so that its kind is known; it is its
    /// [turn](Self::turn_to_write).
    pub(crate) async fn write(&self, dependent: &DependentRef, write: Write) -> Written {
        if self.writes.is_none() {
            return Written::Failed(ScaleError::DryRun);
        }
        let target = match self.target(dependent).await {
            Ok(target) => target,
            Err(error) => return Written::Failed(error),
        };
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = &target.dependent.name;
        let (verb, kind, request) = match write {
            Write::Object(patch) => {
                let request = target.request.patch(name, &params, &Patch::Merge(&patch));
                ("patch", &*target.kind, request)
            }
            Write::ScaleMerge(patch) => {
                let (request, patch) = (&target.request, Patch::Merge(&patch));
                let request = request.patch_subresource("scale", name, &params, &patch);
                ("patch scale", SCALE, request)
            }
        };
        let request = request.and_then(within_limit);
        let error = match self.send_at_turn::<Value>(kind, request).await {
            Ok(_) => return Written::Done,
            Err(error) => error,
        };
        match error.code() {
            // The object may be gone. If it is there all the same, it is not that.
            Some(404) => Written::Overtaken(explain(error, verb)),
            // A precondition failed.
            Some(409) => Written::Overtaken(ScaleError::Conflicts),
            // The request was at fault. Any other may have been served.
            Some(400..500) => Written::Failed(explain(error, verb)),
            _ => Written::Unanswered(explain(error, verb)),
        }
    }

    /// Sends a request, which is answered by an object of this kind. Anything else that can be read
    /// must not be taken for one: it would look like a dependent at zero.
    async fn send<T: DeserializeOwned>(
        &self,
        kind: &str,
        request: Result<http::Request<Vec<u8>>, BuildError>,
    ) -> Result<T, CallError> {
        self.seed.turn().await;
        self.send_at_turn(kind, request).await
    }

    async fn send_at_turn<T: DeserializeOwned>(
        &self,
        kind: &str,
        request: Result<http::Request<Vec<u8>>, BuildError>,
    ) -> Result<T, CallError> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let sent = self.seed.client().request(request);
        let answer: Value = self.seed.call_at_turn(sent).await?;
        if answer.get("kind").and_then(Value::as_str) != Some(kind) {
            let problem =
                format!("the seed did not answer with a {kind}; see what stands before it");
            return Err(kube::Error::Service(problem.into()).into());
        }
        Ok(serde_json::from_value(answer).map_err(kube::Error::SerdeError)?)
    }
}

/// The request, of which the server lets go when its answer is not waited for any more.
fn within_limit(mut request: http::Request<Vec<u8>>) -> Result<http::Request<Vec<u8>>, BuildError> {
    let invalid = |error: http::uri::InvalidUri| BuildError::BuildRequest(error.into());
    // It names the field manager before.
    let bounded = format!("{}&timeout={}s", request.uri(), REQUEST_LIMIT.as_secs());
    *request.uri_mut() = bounded.parse().map_err(invalid)?;
    Ok(request)
}

fn explain(error: CallError, verb: &'static str) -> ScaleError {
    match error {
        CallError::Refused(status) if is_for_lack_of_rights(&status) => ScaleError::Forbidden {
            verb,
            message: told(&status),
        },
        error => ScaleError::Request {
            verb,
            message: error.to_string(),
        },
    }
}
