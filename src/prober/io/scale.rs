//! Reads and writes dependents on the seed. The only place that changes what a user owns.

mod answer;
mod kinds;

use std::sync::Arc;

use futures::FutureExt as _;
use kube::{
    Resource as _, ResourceExt as _,
    api::{DynamicObject, GetParams, Patch, PatchParams, Request},
    core::{ApiResource, request::Error as BuildError},
};

use self::kinds::Kinds;
pub(crate) use self::kinds::workload;
pub use crate::prober::scale_error::ScaleError;
use crate::{
    api::DependentRef,
    prober::{
        dependents::Written,
        scale_error::CONFLICTS,
        step::{Observed, Write},
    },
    runtime::seed::{CallError, FIELD_MANAGER, REQUEST_LIMIT, Seed, is_for_lack_of_rights, told},
};

/// The kind that answers a request for metadata alone.
const METADATA: &str = "PartialObjectMetadata";
/// The kind that answers a request for `scale`.
const SCALE: &str = "Scale";

/// A request to the seed, yet without a connection.
type Built = Result<http::Request<Vec<u8>>, BuildError>;

/// Reads and writes the dependents in one namespace.
#[derive(Clone)]
pub struct Scaler {
    /// Where dependents are read and written.
    pub(crate) seed: Seed,
    namespace: Arc<str>,
    kinds: Kinds,
    /// Refuses what would have to be written.
    pub dry_run: bool,
}

impl Scaler {
    /// Scales dependents on this seed, within the budget of what acts.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed: seed.acting(),
            namespace: Arc::default(),
            kinds: Kinds::default(),
            dry_run: false,
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

    /// The resource behind a dependent's kind.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or cannot be scaled.
    pub(crate) async fn kind(&self, dependent: &DependentRef) -> Result<ApiResource, ScaleError> {
        self.kinds.find(&self.seed, dependent, false).await
    }

    /// Reads a dependent; `None` if the seed says by its name that it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is of a kind that cannot be scaled.
    pub async fn read(&self, dependent: &DependentRef) -> Result<Option<Observed>, ScaleError> {
        let resource = self.kind(dependent).await?;
        let (to, name) = (self.requests(&resource), &dependent.name);
        if workload(dependent).is_some() {
            let object = to.get(name, &GetParams::default());
            let object = self.get(dependent, "get", (&resource.kind, object));
            return Ok(object.await?.as_ref().map(answer::workload));
        }
        for _ in 0..=CONFLICTS {
            let object = to.get_metadata(name, &GetParams::default());
            let object = self.get(dependent, "get", (METADATA, object));
            let Some(object) = object.await? else {
                return Ok(None);
            };
            let scale = to.get_subresource("scale", name);
            let scale = self.get(dependent, "get scale", (SCALE, scale));
            // The object was there a moment ago.
            let Some(scale) = scale.await? else { continue };
            // Both must show one version: metadata from before a mark, with replicas from after it, would look like
            // another client's zero.
            let version = scale.resource_version();
            if version.is_none() || version == object.resource_version() {
                return Ok(Some(answer::scalable(&object, &scale)));
            }
        }
        Err(ScaleError::Conflicts)
    }

    /// Gets what is answered by this kind; `None` only if the seed says so of the object by its name. It may not serve a
    /// path any more, which says nothing: what was scaled down before still exists, and must not count as gone.
    async fn get(
        &self,
        dependent: &DependentRef,
        verb: &'static str,
        (kind, request): (&str, Built),
    ) -> Result<Option<DynamicObject>, ScaleError> {
        self.seed.turn().await;
        let error = match self.send(kind, request).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) => error,
        };
        if let CallError::Refused(status) = &error
            && status.code == 404
        {
            // A path that is not served has no name.
            let details = status.details.as_ref();
            if details.is_some_and(|details| details.name == dependent.name) {
                return Ok(None);
            }
            self.kinds.find(&self.seed, dependent, true).await?;
        }
        Err(explain(error, verb))
    }

    /// Waits for a turn to write.
    pub(crate) async fn turn_to_write(&self) {
        self.seed.turn().await;
    }

    /// Sends one write to a dependent that was [read](Self::read) before; it is its [turn](Self::turn_to_write).
    pub(crate) async fn write(&self, dependent: &DependentRef, write: Write) -> Written {
        if self.dry_run {
            return Written::Failed(ScaleError::DryRun);
        }
        // It is sent now: what was not read, by which its kind is known, is not written.
        let Some(Ok(resource)) = self.kind(dependent).now_or_never() else {
            return Written::Failed(ScaleError::Conflicts);
        };
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let (to, name) = (self.requests(&resource), &dependent.name);
        let (verb, kind, request) = match write {
            Write::Object(patch) => {
                let request = to.patch(name, &params, &Patch::Merge(&patch));
                ("patch", &*resource.kind, request)
            }
            Write::ScaleMerge(patch) => {
                let patch = Patch::Merge(&patch);
                let request = to.patch_subresource("scale", name, &params, &patch);
                ("patch scale", SCALE, request)
            }
        };
        let request = request.and_then(within_limit);
        let error = match self.send(kind, request).await {
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

    fn requests(&self, resource: &ApiResource) -> Request {
        Request::new(DynamicObject::url_path(resource, Some(&self.namespace)))
    }

    /// Sends a request whose turn it is, which is answered by an object of this kind. Anything else that can be read
    /// must not be taken for one: it would look like a dependent at zero, or be written to whatever its version.
    async fn send(&self, kind: &str, request: Built) -> Result<DynamicObject, CallError> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let sent = self.seed.client().request(request);
        let answer: DynamicObject = self.seed.call_at_turn(sent).await?;
        let is_one = answer.types.as_ref().is_some_and(|it| it.kind == kind);
        if is_one && (kind == SCALE || answer.metadata.resource_version.is_some()) {
            return Ok(answer);
        }
        let problem = format!("the seed did not answer with a {kind}; see what stands before it");
        Err(kube::Error::Service(problem.into()).into())
    }
}

/// The request, of which the server lets go when its answer is not waited for any more.
fn within_limit(mut request: http::Request<Vec<u8>>) -> Built {
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
