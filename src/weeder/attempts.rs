//! What was tried on each pod, and what is tried again.
//!
//! A pod is deleted once. What is refused is tried again, ever more slowly. An answer that was lost
//! is no success, unless the pod turns out to be gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::pod::Reason;
use crate::weeder::report::PodOwner;

/// The first time after which a refused deletion is tried again; it doubles with each refusal.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest time after which it is tried again, whatever the server asks for.
const MAX_RETRY: Duration = Duration::from_secs(30);

/// A pod that is to be deleted now. It counts as in flight until its end is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod.
    pub pod: Arc<str>,
    /// The UID that it must have.
    pub uid: Arc<str>,
    /// The resourceVersion that it must have.
    pub resource_version: Arc<str>,
    /// Its controller, which replaces it.
    pub owner: PodOwner,
    /// The containers that are in CrashLoopBackOff.
    pub containers: Vec<Arc<str>>,
    /// The policy for which it is deleted.
    pub policy: Arc<str>,
    /// The UID of the policy.
    pub policy_uid: Arc<str>,
    /// The service that has become ready.
    pub service: Arc<str>,
    /// When the service was first seen ready.
    pub ready_since: Instant,
    /// When the pod was first seen looping.
    pub looping_since: Instant,
    /// Since when it could have been deleted: the service is ready, the pod loops, and has waited for
    /// as long as a successor has to.
    pub called_for: Instant,
}

/// Why a pod was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionError {
    /// There is no such pod (404).
    Gone,
    /// It is not the one, or not the version of it, that was to be deleted (409).
    Changed,
    /// The API server asks for fewer requests (429), and perhaps says for how long.
    Throttled(Option<Duration>),
    /// It refused: what it said.
    Refused(String),
    /// It did not answer in time, or the connection broke: what was tried and what failed. The pod
    /// may have been deleted.
    Unanswered(String),
}

/// What was tried, by the UID of the pod.
#[derive(Debug, Default)]
pub struct Attempts {
    pods: BTreeMap<Arc<str>, Attempt>,
    retries: BTreeSet<(Instant, Arc<str>)>,
}

/// What is told of a pod no more than once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// That it would have been deleted.
    WouldWeed,
    /// That it is left alone.
    LeftAlone(Reason),
    /// An entry for that in the status of the policy with this UID.
    Listed(Reason, Arc<str>),
    /// That its deletion was refused.
    Refused,
    /// That the server asked for fewer requests.
    Throttled,
    /// That there was no answer.
    Unanswered,
}

/// What follows from the end of a deletion.
#[derive(Debug, PartialEq)]
pub enum Ended {
    /// The pod was deleted by this deletion.
    Weeded(Box<Deletion>),
    /// The pod has changed: another version is awaited.
    Changed,
    /// It failed and is tried again. What failed, if it has not been told of this pod before.
    Failed(Option<String>),
    /// The pod is gone without us.
    Gone,
}

#[derive(Debug, Default)]
struct Attempt {
    in_flight: bool,
    /// It is deleted, or gone: nothing is left to do.
    over: bool,
    /// It was seen terminating, or gone, while a deletion was in flight.
    went: bool,
    /// A deletion whose answer was lost.
    unanswered: Option<Box<Deletion>>,
    failures: u32,
    /// It is not tried again before.
    not_before: Option<Instant>,
    /// When it is looked at again.
    waits: Option<Instant>,
    /// Why it could not be deleted, until it can.
    trouble: Option<String>,
    told: BTreeSet<Notice>,
}

impl Attempts {
    /// Whether a pod could be deleted now. If only its time has not come, it is called by
    /// [`Attempts::woken`] when it has.
    pub fn may(&mut self, uid: &Arc<str>, now: Instant) -> bool {
        let Some(attempt) = self.pods.get(uid) else {
            return true;
        };
        if attempt.in_flight || attempt.over {
            return false;
        }
        match attempt.not_before {
            Some(at) if at > now => {
                self.wait(uid, at);
                false
            }
            _ => true,
        }
    }

    /// A pod is looked at again then: [`Attempts::woken`] calls it.
    pub fn wait(&mut self, uid: &Arc<str>, at: Instant) {
        self.rest(uid);
        self.attempt(uid).waits = Some(at);
        self.retries.insert((at, uid.clone()));
    }

    /// A pod waits for nothing at the moment.
    pub fn rest(&mut self, uid: &Arc<str>) {
        let at = self
            .pods
            .get_mut(uid)
            .and_then(|attempt| attempt.waits.take());
        if let Some(at) = at {
            self.retries.remove(&(at, uid.clone()));
        }
    }

    /// A deletion of this pod begins.
    pub fn begun(&mut self, uid: &Arc<str>) {
        let attempt = self.attempt(uid);
        attempt.in_flight = true;
        attempt.went = false;
    }

    /// Whether a pod is deleted or gone, or may be, since an answer was lost.
    pub fn may_be_gone(&self, uid: &str) -> bool {
        let attempt = self.pods.get(uid);
        attempt.is_some_and(|attempt| attempt.over || attempt.unanswered.is_some())
    }

    /// A deletion has ended. `terminating` tells whether the pod is known to be.
    pub fn ended(
        &mut self,
        deletion: Deletion,
        result: Result<(), DeletionError>,
        terminating: bool,
        now: Instant,
    ) -> Ended {
        let attempt = self.attempt(&deletion.uid);
        attempt.in_flight = false;
        if attempt.over {
            // It went meanwhile, which an earlier deletion is credited with.
            return Ended::Gone;
        }
        let what = format!("delete pod {}/{}", deletion.namespace, deletion.pod);
        let (notice, message, wait) = match result {
            Ok(()) => {
                attempt.done();
                return Ended::Weeded(Box::new(deletion));
            }
            Err(DeletionError::Gone) => {
                return attempt.done().map_or(Ended::Gone, Ended::Weeded);
            }
            Err(DeletionError::Changed) => return Ended::Changed,
            Err(DeletionError::Unanswered(_)) if terminating || attempt.went => {
                attempt.done();
                return Ended::Weeded(Box::new(deletion));
            }
            Err(DeletionError::Unanswered(message)) => {
                let uid = deletion.uid.clone();
                attempt.unanswered = Some(Box::new(deletion));
                return self.failed(
                    &uid,
                    Notice::Unanswered,
                    format!("{what}: {message}"),
                    None,
                    now,
                );
            }
            Err(DeletionError::Throttled(wait)) => {
                let message = "the API server asks for fewer requests (429)".to_owned();
                (Notice::Throttled, message, wait)
            }
            Err(DeletionError::Refused(message)) => (Notice::Refused, message, None),
        };
        self.failed(
            &deletion.uid,
            notice,
            format!("{what}: {message}"),
            wait,
            now,
        )
    }

    /// A pod was seen terminating, or gone. Returns the deletion that did it, if its answer was lost.
    pub fn went(&mut self, uid: &str) -> Option<Box<Deletion>> {
        let attempt = self.pods.get_mut(uid)?;
        attempt.went = true;
        if attempt.unanswered.is_some() {
            return attempt.done();
        }
        None
    }

    /// No watch shows a pod any more. What is in flight is remembered until it ends.
    pub fn forget(&mut self, uid: &Arc<str>) {
        self.rest(uid);
        if self.pods.get(uid).is_some_and(|attempt| !attempt.in_flight) {
            self.pods.remove(uid);
        }
    }

    /// Whether this has not been told of a pod before; it is now.
    pub fn tell(&mut self, uid: &Arc<str>, notice: Notice) -> bool {
        self.attempt(uid).told.insert(notice)
    }

    /// The pods whose time to be tried again has come.
    pub fn woken(&mut self, now: Instant) -> Vec<Arc<str>> {
        let mut woken = Vec::new();
        while let Some((at, _)) = self.retries.first()
            && *at <= now
            && let Some((_, uid)) = self.retries.pop_first()
        {
            woken.push(uid);
        }
        woken
    }

    /// When the next of them comes.
    pub fn due(&self) -> Option<Instant> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// The pods that could not be deleted, with what failed.
    pub fn troubles(&self) -> impl Iterator<Item = (&Arc<str>, &str)> {
        let pods = self.pods.iter();
        pods.filter_map(|(uid, attempt)| Some((uid, attempt.trouble.as_deref()?)))
    }

    /// How many pods are remembered.
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    fn attempt(&mut self, uid: &Arc<str>) -> &mut Attempt {
        self.pods.entry(uid.clone()).or_default()
    }

    fn failed(
        &mut self,
        uid: &Arc<str>,
        notice: Notice,
        message: String,
        wait: Option<Duration>,
        now: Instant,
    ) -> Ended {
        let attempt = self.attempt(uid);
        let doubled = FIRST_RETRY.saturating_mul(1 << attempt.failures.min(8));
        attempt.failures = attempt.failures.saturating_add(1);
        attempt.not_before = now.checked_add(wait.unwrap_or(doubled).clamp(FIRST_RETRY, MAX_RETRY));
        attempt.trouble = Some(message.clone());
        Ended::Failed(attempt.told.insert(notice).then_some(message))
    }
}

impl Attempt {
    /// Nothing is left to do. Returns the deletion whose answer was lost, if one was.
    fn done(&mut self) -> Option<Box<Deletion>> {
        self.over = true;
        self.trouble = None;
        self.not_before = None;
        self.unanswered.take()
    }
}
