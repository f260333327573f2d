//! The resource behind the kind of a dependent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::core::{ApiResource, GroupVersion, GroupVersionKind};
use tokio::time::Instant;

use super::{
    ScaleError,
    served::{Served, look_up},
};
use crate::{
    api::DependentRef,
    prober::{plan::Family, scale_error::REFUSED},
    runtime::seed::Seed,
};

const APPS: &str = "apps/v1";
const APPS_KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// The resource behind a dependent that is a workload of apps/v1, whose plural needs no lookup.
pub(crate) fn workload(dependent: &DependentRef) -> Option<ApiResource> {
    let is_one = dependent.api_version == APPS && APPS_KINDS.contains(&&*dependent.kind);
    let kind = GroupVersionKind::gvk("apps", "v1", &dependent.kind);
    is_one.then(|| ApiResource::from_gvk(&kind))
}

/// The resources behind kinds other than those of apps/v1, looked up once for all clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources(Arc<Mutex<HashMap<GroupVersionKind, Cell>>>);

/// Locked during a lookup, so that other callers wait for the same answer.
type Cell = Arc<tokio::sync::Mutex<Known>>;

/// What is known of a kind.
#[derive(Debug, Default)]
struct Known {
    /// The last conclusive answer, and when its lookup began.
    answer: Option<(Served, Instant)>,
    /// The last failed lookup's error, and when.
    failure: Option<(ScaleError, Instant)>,
}

impl Resources {
    /// The resource behind a dependent's kind, looked up on this seed unless it is known. Answers from
    /// before `since` do not count.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or there can be no such dependent.
    pub(super) async fn find(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
        since: Option<Instant>,
    ) -> Served {
        // Its texts become a path, and may come from a status.
        let valid = Some(dependent).filter(|it| it.is_valid());
        let version: Option<GroupVersion> = valid.and_then(|it| it.api_version.parse().ok());
        let version = version.ok_or_else(|| ScaleError::UnknownKind(dependent.to_string()))?;
        let kind = version.with_kind(&dependent.kind);
        if let Some(resource) = workload(dependent) {
            return Ok((Family::Apps, resource));
        }
        let cell = self.cell(&kind);
        let asked = Instant::now();
        if let Some(answer) = cell.lock().await.answer(asked, since) {
            return answer;
        }
        // Outside of the lock: a caller that reports must not hold up one that acts.
        seed.turn().await;
        // Asked anew: the failure of a much earlier turn says nothing any more.
        let asked = Instant::now();
        let mut known = cell.lock().await;
        if let Some(answer) = known.answer(asked, since) {
            return answer;
        }
        let began = Instant::now();
        // Callers that act wait for its lock.
        let answer = look_up(&seed.acting(), &kind).await;
        match &answer {
            Ok(answer) => known.answer = Some((answer.clone(), began)),
            Err(error) => known.failure = Some((error.clone(), Instant::now())),
        }
        answer?
    }

    fn cell(&self, kind: &GroupVersionKind) -> Cell {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(kind.clone()).or_default().clone()
    }
}

impl Known {
    /// The known answer, if it suffices for a caller that has waited since `asked` and accepts no lookup
    /// from before `since`.
    fn answer(&self, asked: Instant, since: Option<Instant>) -> Option<Served> {
        let counts = |(answer, at): &&(Served, Instant)| {
            let stands = matches!(answer, Ok((Family::Scalable, _))) || at.elapsed() < REFUSED;
            stands && since.is_none_or(|since| *at >= since)
        };
        if let Some((answer, _)) = self.answer.as_ref().filter(counts) {
            return Some(answer.clone());
        }
        // Callers that waited for a failed lookup share its failure: in turn, each would fail later, too
        // late to be of use. Later callers try anew.
        let failure = self.failure.as_ref().filter(|(_, at)| asked <= *at)?;
        Some(Err(failure.0.clone()))
    }
}
