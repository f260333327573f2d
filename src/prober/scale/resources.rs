//! The resource behind the kind of a dependent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{
    core::{ApiResource, GroupVersion, GroupVersionKind},
    discovery::{self, Scope},
};
use tokio::time::Instant;

use super::{Failure, ScaleError};
use crate::{
    api::DependentRef,
    prober::plan::Family,
    runtime::seed::{CallError, Seed},
};

const APPS: &str = "apps/v1";
const APPS_KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];
/// That a kind cannot be scaled is believed for this long: a thousand clusters may ask, and somebody may
/// mend it.
const REFUSED: Duration = Duration::from_secs(10);

/// The resources behind kinds other than those of apps/v1, looked up once for all clusters.
#[derive(Clone, Debug, Default)]
pub struct Resources(Arc<Mutex<HashMap<GroupVersionKind, Cell>>>);

/// What is known of a kind. It is locked while the kind is looked up, so that whoever needs it
/// meanwhile waits for the same answer.
type Cell = Arc<tokio::sync::Mutex<Option<Known>>>;

/// What a lookup has come to.
#[derive(Clone, Debug)]
struct Known {
    answer: Answer,
    /// When it was asked for.
    since: Instant,
}

#[derive(Clone, Debug)]
enum Answer {
    Scalable(ApiResource),
    NotScalable(&'static str),
    Unknown(String),
}

impl Resources {
    /// The resource behind a dependent's kind, looked up on this seed unless it is known.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or cannot be scaled.
    pub(crate) async fn find(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
    ) -> Result<(Family, ApiResource), ScaleError> {
        self.find_since(seed, dependent, None).await
    }

    /// The same, but nothing that was looked up before then is believed any more.
    pub(super) async fn find_since(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
        since: Option<Instant>,
    ) -> Result<(Family, ApiResource), ScaleError> {
        let version: GroupVersion = dependent
            .api_version
            .parse()
            .map_err(|error| ScaleError::UnknownKind(format!("{error}")))?;
        let kind = version.with_kind(&dependent.kind);
        if dependent.api_version == APPS && APPS_KINDS.contains(&&*dependent.kind) {
            return Ok((Family::Apps, ApiResource::from_gvk(&kind)));
        }
        let cell = self.cell(&kind);
        let counts = |known: &Known| known.counts(since, Instant::now());
        if let Some(known) = cell.lock().await.as_ref().filter(|it| counts(it)) {
            return known.answer.clone().scalable();
        }
        // Outside of the lock: who can wait for long must not hold up who is urgent.
        seed.turn().await;
        let mut cell = cell.lock().await;
        if let Some(known) = cell.as_ref().filter(|it| counts(it)) {
            return known.answer.clone().scalable();
        }
        let since = Instant::now();
        let answer = look_up(seed, &kind).await?;
        *cell = Some(Known {
            answer: answer.clone(),
            since,
        });
        answer.scalable()
    }

    fn cell(&self, kind: &GroupVersionKind) -> Cell {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(kind.clone()).or_default().clone()
    }
}

impl Known {
    fn counts(&self, since: Option<Instant>, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        let stands = matches!(self.answer, Answer::Scalable(_)) || age < REFUSED;
        stands && since.is_none_or(|since| self.since >= since)
    }
}

impl Answer {
    fn scalable(self) -> Result<(Family, ApiResource), ScaleError> {
        match self {
            Self::Scalable(resource) => Ok((Family::Scalable, resource)),
            Self::NotScalable(why) => Err(ScaleError::NotScalable(why)),
            Self::Unknown(what) => Err(ScaleError::UnknownKind(what)),
        }
    }
}

/// Looks a kind up; it is the request's turn.
async fn look_up(seed: &Seed, kind: &GroupVersionKind) -> Result<Answer, ScaleError> {
    let looked_up = discovery::pinned_kind(seed.client(), kind);
    let looked_up = seed.call_at_turn(looked_up).await.map_err(Failure::Call);
    let (resource, capabilities) = match looked_up {
        Err(Failure::Call(CallError::Failed(error @ kube::Error::Discovery(_)))) => {
            return Ok(Answer::Unknown(error.to_string()));
        }
        Err(failure) if failure.code() == Some(404) => {
            return Ok(Answer::Unknown(kind.api_version()));
        }
        other => other.map_err(|failure| failure.explain("discovery"))?,
    };
    if capabilities.scope == Scope::Cluster {
        return Ok(Answer::NotScalable("the kind is cluster-scoped"));
    }
    let scale = format!("{}/scale", resource.plural);
    let scalable = capabilities
        .subresources
        .iter()
        .any(|(subresource, _)| subresource.plural == "scale" || subresource.plural == scale);
    Ok(match scalable {
        true => Answer::Scalable(resource),
        false => Answer::NotScalable("the kind has no scale subresource"),
    })
}
