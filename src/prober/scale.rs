//! Reads and writes dependents on the seed. The only place that changes what a user owns.

mod answer;
mod read;
mod resources;
mod served;

use std::sync::Arc;

pub(super) use self::resources::REFUSED;
pub use self::resources::Resources;

use super::{
    attempt::{Attempt, Begun, CONFLICTS, Turn},
    plan::{Family, Observed, Refusal, Step, Write},
    warrant::Warrant,
};
use crate::{
    api::DependentRef,
    runtime::seed::{CallError, FIELD_MANAGER, REQUEST_LIMIT, Seed, is_for_lack_of_rights, told},
};
use kube::{
    api::{Patch, PatchParams, Request},
    core::{ApiResource, request::Error as BuildError},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

/// The kind that answers a request for `scale`.
const SCALE: &str = "Scale";

/// The reason of an error that says that a right is missing.
pub(super) const SCALING_FORBIDDEN: &str = "ScalingForbidden";
/// That of one that says that others were faster.
pub(super) const SCALING_CONFLICTS: &str = "ScalingConflicts";
/// That of any other request that failed.
pub(super) const SCALING_FAILED: &str = "ScalingFailed";

/// Why a dependent could not be scaled. Each message tells what was tried and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScaleError {
    /// What is there forbids it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The seed does not serve the kind.
    #[error(
        "the seed does not serve this kind in any version; correct apiVersion and kind in the \
         policy: {0}"
    )]
    UnknownKind(String),
    /// The kind is not in a namespace.
    #[error(
        "the kind is cluster-scoped; only namespaced kinds with a scale subresource can be dependents"
    )]
    ClusterScoped,
    /// A request was refused for lack of rights.
    #[error(
        "{verb} is forbidden, grant it to the operator's ServiceAccount as \
         manifests/examples/other-dependents shows: {message}"
    )]
    Forbidden {
        /// What was tried.
        verb: &'static str,
        /// What the server said.
        message: String,
        /// Whether the kind could be scaled by whoever has the rights.
        scalable: bool,
    },
    /// Somebody else changed it again and again while it was being decided on.
    #[error("it was changed by somebody else {CONFLICTS} times in a row while being scaled")]
    Conflicts,
    /// It would have to be written, and the process runs with `--dry-run`.
    #[error("it is not written to, since the operator runs with --dry-run")]
    DryRun,
    /// A request failed.
    #[error("{verb} failed: {message}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// What came back.
        message: String,
    },
}

impl ScaleError {
    /// Whether there can be no such dependent at all.
    pub fn is_about_the_kind(&self) -> bool {
        matches!(
            self,
            Self::UnknownKind(_)
                | Self::ClusterScoped
                | Self::Refused(Refusal::NotScalable)
                | Self::Forbidden {
                    scalable: false,
                    ..
                }
        )
    }

    /// Whether the dependent may be there, and carry a mark, for all that is known by this.
    pub fn may_hide_a_mark(&self) -> bool {
        matches!(self, Self::Forbidden { .. }) || !self.is_about_the_kind()
    }

    /// Whether it may come off the next time: it says nothing of the dependent itself.
    pub fn is_about_the_attempt(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Conflicts)
    }

    /// The reason, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused(Refusal::Missing) => "DependentMissing",
            Self::Refused(Refusal::UnreadableRecord(_)) => "RecordUnreadable",
            Self::UnknownKind(_) => "KindUnknown",
            Self::ClusterScoped
            | Self::Refused(Refusal::NotScalable)
            | Self::Forbidden {
                scalable: false, ..
            } => "NotScalable",
            Self::Forbidden { .. } => SCALING_FORBIDDEN,
            Self::Conflicts => SCALING_CONFLICTS,
            Self::DryRun | Self::Request { .. } => SCALING_FAILED,
        }
    }
}

/// What became of a step.
#[derive(Debug)]
pub enum Applied {
    /// It was carried out on what was found.
    Done(Step, Option<Observed>),
    /// It was stopped between two requests; the step is given if a part of it may have been written.
    Stopped(Option<Begun>),
}

/// Why a step was not carried out.
#[derive(Debug)]
pub struct Unapplied {
    /// What went wrong.
    pub error: ScaleError,
    /// The step, if it may have been written all the same, in part or in full: the answer was lost,
    /// or a request before the one that failed succeeded.
    pub begun: Option<Begun>,
    /// The UID of the dependent, if it was read.
    pub uid: Option<Arc<str>>,
}

/// Reads and writes the dependents in one namespace.
#[derive(Clone)]
pub struct Scaler {
    /// For what is read.
    seed: Seed,
    /// For what is written, which is always urgent: something is owed, or has to be taken. In a dry
    /// run there is no way to write.
    writes: Option<Seed>,
    namespace: Arc<str>,
    resources: Resources,
    /// What is restored is taken out of the operator's hands.
    overruling: bool,
}

/// How a dependent is reached.
struct Target<'a> {
    dependent: &'a DependentRef,
    family: Family,
    kind: String,
    request: Request,
}

/// What became of a write.
enum Written {
    /// It was carried out, and the object has this resourceVersion by it.
    Done(Option<String>),
    /// What the write was decided from is not so any more, by this answer.
    Overtaken(ScaleError),
}

impl Scaler {
    /// Scales dependents in `namespace`. They are read as urgently as `seed` asks, and written
    /// urgently.
    pub fn new(seed: Seed, namespace: Arc<str>, resources: Resources) -> Self {
        Self {
            writes: Some(seed.urgent()),
            seed,
            namespace,
            resources,
            overruling: false,
        }
    }

    /// The same, for one who overrules the operator: what is restored says `ignore-scaling` from
    /// the same write on.
    #[must_use]
    pub fn overruling(self) -> Self {
        Self {
            overruling: true,
            ..self
        }
    }

    /// The same, for a dry run: what would have to be written is refused.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self {
            writes: None,
            ..self
        }
    }

    /// The same, whose reads let urgent requests go before them.
    #[must_use]
    pub fn at_leisure(self) -> Self {
        Self {
            seed: self.seed.leisurely(),
            ..self
        }
    }

    /// Reads a dependent; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is of a kind that cannot be scaled.
    pub async fn read(&self, dependent: &DependentRef) -> Result<Option<Observed>, ScaleError> {
        let mut target = self.target(dependent, None).await?;
        self.observe(&mut target).await
    }

    /// Reads a dependent, has `decide` tell the step, and carries it out. If somebody else changes
    /// the object meanwhile, it is read and decided on again. No request is sent once the warrant
    /// has lapsed, however long it has waited for its turn.
    ///
    /// # Errors
    ///
    /// If it cannot be read or written, or `decide` refuses.
    pub async fn apply(
        &self,
        dependent: &DependentRef,
        warrant: &Warrant,
        decide: impl Fn(Option<&Observed>) -> Result<Step, Refusal>,
    ) -> Result<Applied, Unapplied> {
        let mut attempt = Attempt::new(self.overruling);
        let mut uid = None;
        let decide = |found: Option<&Observed>| {
            uid = found.and_then(|found| found.uid.clone());
            decide(found)
        };
        let applied = self.carry_out(dependent, warrant, decide, &mut attempt);
        applied.await.map_err(|error| Unapplied {
            error,
            begun: attempt.begun(),
            uid,
        })
    }

    async fn carry_out(
        &self,
        dependent: &DependentRef,
        warrant: &Warrant,
        mut decide: impl FnMut(Option<&Observed>) -> Result<Step, Refusal>,
        attempt: &mut Attempt,
    ) -> Result<Applied, ScaleError> {
        let Some(target) = warrant.during(self.target(dependent, None)).await else {
            return Ok(Applied::Stopped(None));
        };
        let mut target = target?;
        let mut lost = None;
        loop {
            let stopped = Ok(Applied::Stopped(attempt.begun()));
            match attempt.turn() {
                Turn::Read => {
                    let Some(found) = warrant.during(self.observe(&mut target)).await else {
                        return stopped;
                    };
                    let found = found?;
                    attempt.decide(decide(found.as_ref())?, found);
                }
                Turn::Write(write) => {
                    let Some(writes) = &self.writes else {
                        return Err(ScaleError::DryRun);
                    };
                    if !warrant.turn(writes, attempt.is_half_written()).await {
                        return stopped;
                    }
                    match self.write(&target, write, attempt).await {
                        Ok(Written::Done(version)) => attempt.accepted(version.as_deref()),
                        Ok(Written::Overtaken(error)) if !attempt.overtaken() => return Err(error),
                        Ok(Written::Overtaken(_)) => {}
                        Err(error) if attempt.is_in_doubt() => lost = Some(error),
                        Err(error) => return Err(error),
                    }
                }
                Turn::LookAgain => {
                    let Some(found) = warrant.during(self.observe(&mut target)).await else {
                        return stopped;
                    };
                    let written = found.is_ok_and(|found| attempt.looked_again(found.as_ref()));
                    if let Some(error) = lost.take().filter(|_| !written) {
                        return Err(error);
                    }
                }
                Turn::Done(step, found) => return Ok(Applied::Done(step, found)),
            }
        }
    }

    /// How a dependent is reached, by what is known of its kind since then.
    async fn target<'a>(
        &self,
        dependent: &'a DependentRef,
        since: Option<Instant>,
    ) -> Result<Target<'a>, ScaleError> {
        let found = self.resources.find_since(&self.seed, dependent, since);
        let (family, resource) = found.await?;
        let path = format!(
            "{}/namespaces/{}/{}",
            api_path(&resource),
            self.namespace,
            resource.plural
        );
        Ok(Target {
            dependent,
            family,
            kind: resource.kind,
            request: Request::new(path),
        })
    }

    /// Sends one write of an attempt, which takes note if it may have been carried out although it
    /// failed.
    async fn write(
        &self,
        target: &Target<'_>,
        write: Write,
        attempt: &mut Attempt,
    ) -> Result<Written, ScaleError> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let scale = |patch: &Patch<Value>| {
            target
                .request
                .patch_subresource("scale", &target.dependent.name, &params, patch)
        };
        let with_test = matches!(write, Write::ScaleJson(_));
        let (verb, kind, request) = match write {
            Write::Object(patch) => {
                let patch = Patch::Merge(&patch);
                let request = target
                    .request
                    .patch(&target.dependent.name, &params, &patch);
                ("patch", &*target.kind, request)
            }
            Write::ScaleMerge(patch) => ("patch scale", SCALE, scale(&Patch::Merge(patch))),
            Write::ScaleJson(patch) => {
                let patch = serde_json::from_value(patch).map_err(|error| ScaleError::Request {
                    verb: "patch scale",
                    message: error.to_string(),
                })?;
                ("patch scale", SCALE, scale(&Patch::Json(patch)))
            }
        };
        let request = request.and_then(within_limit);
        let failure = match self.send_at_turn::<Value>(kind, request).await {
            Ok(answer) => {
                let version = answer.pointer("/metadata/resourceVersion");
                let version = version.and_then(Value::as_str).map(str::to_owned);
                return Ok(Written::Done(version));
            }
            Err(failure) => failure,
        };
        if failure.is_ambiguous() {
            attempt.unanswered();
        }
        match failure.code() {
            // The object may be gone. If it is there all the same, it is not that.
            Some(404) => Ok(Written::Overtaken(failure.explain(verb))),
            // A precondition failed.
            Some(409) => Ok(Written::Overtaken(ScaleError::Conflicts)),
            Some(422) if with_test => Ok(Written::Overtaken(ScaleError::Conflicts)),
            _ => Err(failure.explain(verb)),
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

fn api_path(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    }
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
                    scalable: true,
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
