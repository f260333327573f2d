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

/// How a dependent is reached.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    dependent: DependentRef,
    family: Family,
    kind: String,
    request: Request,
}

impl Scaler {
    /// Scales dependents on this seed. They are read within its budget, and written within that of what acts.
    pub fn new(seed: Seed) -> Self {
        Self {
            writes: Some(seed.acting()),
            seed,
            namespace: Arc::default(),
            resources: Resources::default(),
        }
    }

    /// The same in this namespace. What is known of kinds is shared.
    #[must_use]
    pub fn within(&self, namespace: Arc<str>) -> Self {
        Self {
            namespace,
            ..self.clone()
        }
    }

    /// The same, whose reads are within the budget of what acts, too.
    #[must_use]
    pub fn acting(&self) -> Self {
        Self {
            seed: self.seed.acting(),
            ..self.clone()
        }
    }

    /// By which dependents are read.
    pub(crate) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Whether there is no way to write.
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
        self.resources.find(&self.seed, dependent, false).await
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
        Ok(self.see(dependent).await?.0)
    }

    /// The same, and how it was reached.
    ///
    /// # Errors
    ///
    /// As above.
    pub(crate) async fn see(
        &self,
        dependent: &DependentRef,
    ) -> Result<(Option<Observed>, Target), ScaleError> {
        let target = self.target(dependent).await?;
        let found = self.observe(&target).await?;
        Ok((found, target))
    }

    /// Waits for a turn to write; in a dry run there is none to wait for.
    pub(crate) async fn turn_to_write(&self) {
        if let Some(writes) = &self.writes {
            writes.turn().await;
        }
    }

    /// How a dependent is reached.
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

    /// Sends one write to what was [seen](Self::see) before; it is its [turn](Self::turn_to_write).
    pub(crate) async fn write(&self, target: Option<Target>, write: Write) -> Written {
        if self.writes.is_none() {
            return Written::Failed(ScaleError::DryRun);
        }
        let Some(target) = target else {
            // What was not read is not written.
            return Written::Failed(ScaleError::Conflicts);
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
        let failure = match self.send_at_turn::<Value>(kind, request).await {
            Ok(_) => return Written::Done,
            Err(failure) => failure,
        };
        match failure.code() {
            // The object may be gone. If it is there all the same, it is not that.
            Some(404) => Written::Overtaken(failure.explain(verb)),
            // A precondition failed.
            Some(409) => Written::Overtaken(ScaleError::Conflicts),
            _ if failure.is_ambiguous() => Written::Unanswered(failure.explain(verb)),
            _ => Written::Failed(failure.explain(verb)),
        }
    }

    /// Sends a request, which is answered by an object of this kind. Anything else that can be read
    /// must not be taken for one: it would look like a dependent at zero.
    async fn send<T: DeserializeOwned>(
        &self,
        kind: &str,
        request: Result<http::Request<Vec<u8>>, BuildError>,
    ) -> Result<T, Failure> {
        self.seed.turn().await;
        self.send_at_turn(kind, request).await
    }

    async fn send_at_turn<T: DeserializeOwned>(
        &self,
        kind: &str,
        request: Result<http::Request<Vec<u8>>, BuildError>,
    ) -> Result<T, Failure> {
        let request = request.map_err(Failure::Build)?;
        let sent = self.seed.client().request(request);
        let answer: Value = self.seed.call_at_turn(sent).await.map_err(Failure::Call)?;
        match answer.get("kind").and_then(Value::as_str) {
            Some(came) if came == kind => serde_json::from_value(answer)
                .map_err(|error| Failure::Call(CallError::Failed(kube::Error::SerdeError(error)))),
            _ => Err(Failure::OtherKind(kind.to_owned())),
        }
    }
}

/// The request, of which the server lets go when its answer is not waited for any more.
fn within_limit(request: http::Request<Vec<u8>>) -> Result<http::Request<Vec<u8>>, BuildError> {
    let invalid = |error: http::uri::InvalidUri| BuildError::BuildRequest(error.into());
    let (mut parts, body) = request.into_parts();
    let separator = if parts.uri.query().is_some() {
        '&'
    } else {
        '?'
    };
    let bounded = format!(
        "{}{separator}timeout={}s",
        parts.uri,
        REQUEST_LIMIT.as_secs()
    );
    parts.uri = bounded.parse().map_err(invalid)?;
    Ok(http::Request::from_parts(parts, body))
}

/// A request that came to nothing.
enum Failure {
    Call(CallError),
    /// It cannot be made.
    Build(BuildError),
    /// The answer is not of this kind.
    OtherKind(String),
}

impl Failure {
    fn code(&self) -> Option<u16> {
        match self {
            Self::Call(error) => error.code(),
            Self::Build(_) | Self::OtherKind(_) => None,
        }
    }

    /// Whether the server says this of the object with that name. A path that it does not serve has
    /// none.
    fn is_about(&self, name: &str) -> bool {
        match self {
            Self::Call(CallError::Refused(status)) => {
                let details = status.details.as_ref();
                details.is_some_and(|details| details.name == name)
            }
            _ => false,
        }
    }

    /// Whether the server may have done what was asked. It has not if it says that the request was
    /// at fault.
    fn is_ambiguous(&self) -> bool {
        !matches!(self.code(), Some(400..500)) && !matches!(self, Self::Build(_))
    }

    fn explain(self, verb: &'static str) -> ScaleError {
        let message = match self {
            Self::Call(CallError::Refused(status)) if is_for_lack_of_rights(&status) => {
                return ScaleError::Forbidden {
                    verb,
                    message: told(&status),
                };
            }
            Self::Call(error) => error.to_string(),
            Self::Build(error) => error.to_string(),
            Self::OtherKind(kind) => {
                format!("the seed did not answer with a {kind}; see what stands before it")
            }
        };
        ScaleError::Request { verb, message }
    }
}
