//! Leader election: of several replicas at most one acts.
//!
//! By the rules of client-go: the holder's identity stands in a Lease, which it renews. Who wants to
//! take it over must have *seen* no renewal for as long as the Lease says, on its own monotonic
//! clock; what the clocks of others say makes no difference. The holder stops to act when it could
//! not renew for the renew deadline, which is shorter than the Lease: by the time somebody else can
//! lead it has stopped.

mod identity;
mod term;
mod times;
mod view;

use std::{pin::pin, sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::{
    identity::identity,
    term::WORK_ENDS,
    times::JITTER,
    view::{Claim, Record, View, transitions},
};
pub use self::{
    term::{Elected, Ended, Leadership, Lost, Stuck, Term},
    times::{Times, TimesError},
};
use super::seed::{CallError, FIELD_MANAGER};
use crate::util::{now::wall, text::clean};

/// To give the Lease back may take this long: the process is about to be killed.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

/// So much is shown of whoever holds a Lease, in characters: anybody may have written it.
pub(crate) const MAX_HOLDER: usize = 300;

/// Why a try to get or renew the Lease came to nothing.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error("{0}")]
    Request(CallError),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{0} holds the Lease")]
    Held(String),
    #[error("the Lease has no resourceVersion")]
    Unversioned,
    #[error("the answer to the write is not the Lease that was written")]
    Unproven,
}

impl From<kube::Error> for TryError {
    fn from(error: kube::Error) -> Self {
        Self::Request(error.into())
    }
}

/// A candidate for one Lease.
pub struct Elector {
    leases: Api<Lease>,
    name: Arc<str>,
    identity: String,
    times: Times,
    view: View,
    until: watch::Sender<Option<Instant>>,
    /// When it was last known who holds the Lease.
    known: watch::Sender<Option<Instant>>,
}

impl Elector {
    /// A candidate for the Lease of this name.
    pub fn new(client: Client, namespace: &str, name: &str, times: Times) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.into(),
            identity: identity(std::env::var("HOSTNAME").ok().as_deref()),
            times,
            view: View::default(),
            until: watch::Sender::new(None),
            known: watch::Sender::new(None),
        }
    }

    /// Tells whether it can stand for election: the Lease could be read lately, or written.
    pub fn check(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let (known, limit) = (self.known.subscribe(), self.times.lease);
        let name = self.name.clone();
        move || match known.borrow().map(|last| last.elapsed()) {
            Some(age) if age <= limit => Ok(()),
            Some(age) => Err(format!(
                "the Lease {name} could not be read or written for {} s; the log says why",
                age.as_secs()
            )),
            None => Err(format!(
                "the Lease {name} could not be read or written yet; the log says why"
            )),
        }
    }

    /// Stands for election, and does the work meanwhile, which waits for its term where it needs one. Gives
    /// the Lease back when the work is done. If the Lease is lost, the work is stopped, and its end waited
    /// for: whoever stands for election again begins with nothing.
    ///
    /// # Errors
    ///
    /// If the work does not end then; it is dropped.
    pub async fn stand<F: Future>(
        &mut self,
        stop: &CancellationToken,
        work: impl FnOnce(Elected) -> F,
    ) -> Result<Ended<F::Output>, Stuck> {
        (self.view, self.until) = (View::default(), watch::Sender::new(None));
        let (elect, elected) = oneshot::channel();
        let mut work = pin!(work(Elected::new(elected)));
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Some(Ended::Stopped),
            () = self.acquire() => None,
            done = &mut work => Some(Ended::Done(done)),
        };
        if let Some(ended) = ended {
            // The Lease may have been ours for a moment.
            self.release().await;
            return Ok(ended);
        }
        let term = Term {
            leadership: Leadership(Some(self.until.subscribe())),
            stop: stop.child_token(),
        };
        let stop_work = term.stop.clone();
        // It need not wait for its term any more: then it is about to end.
        let _ = elect.send(term);
        let done = tokio::select! {
            // What is done is done, even if the Lease is lost at the same moment.
            biased;
            done = &mut work => Ok(done),
            lost = self.keep() => Err(lost),
        };
        self.until.send_replace(None);
        match done {
            Ok(done) => {
                self.release().await;
                Ok(Ended::Done(done))
            }
            Err(lost) => {
                stop_work.cancel();
                match timeout(WORK_ENDS, work).await {
                    Ok(_) => Ok(Ended::Lost(lost)),
                    Err(_) => Err(Stuck(lost)),
                }
            }
        }
    }

    /// Tries until it holds the Lease.
    async fn acquire(&mut self) {
        tracing::info!(
            lease = &*self.name,
            identity = self.identity,
            "stands for election"
        );
        let mut told = None;
        loop {
            match self.try_once().await {
                Ok(()) => break,
                Err(error) => {
                    // One line for each holder and each kind of trouble.
                    let told_before = told.replace(error.to_string());
                    if told != told_before {
                        match error {
                            TryError::Held(_) => {
                                tracing::info!(lease = &*self.name, "does not lead: {error}");
                            }
                            _ => tracing::warn!(lease = &*self.name, "cannot lead: {error}"),
                        }
                    }
                }
            }
            sleep(self.times.retry.mul_f64(1.0 + JITTER * fastrand::f64())).await;
        }
        tracing::info!(lease = &*self.name, identity = self.identity, "leads");
    }

    /// Renews the Lease until that fails for too long.
    async fn keep(&mut self) -> Lost {
        let mut last_error = None;
        let mut next = Instant::now() + self.times.retry;
        loop {
            let deadline = (*self.until.borrow()).unwrap_or_else(Instant::now);
            let mut began = next;
            let renewed = async {
                sleep_until(next).await;
                began = Instant::now();
                self.try_once().await
            };
            let renewed = timeout_at(deadline, renewed).await;
            // One that was waited for in vain is followed by the next immediately.
            let from = match renewed {
                Ok(Ok(())) => Instant::now(),
                _ => began,
            };
            next = from + self.times.retry;
            match renewed {
                Ok(Ok(())) => last_error = None,
                Ok(Err(TryError::Held(holder))) => {
                    return Lost(format!("{holder} has taken the Lease {}", self.name));
                }
                Ok(Err(error)) => {
                    tracing::warn!(lease = &*self.name, %error, "the Lease was not renewed");
                    last_error = Some(error);
                }
                Err(_) => {
                    let why = last_error.map_or_else(
                        || "this process was held up".to_owned(),
                        |error| error.to_string(),
                    );
                    return Lost(format!(
                        "the Lease {} was not renewed within {:?}: {why}",
                        self.name, self.times.renew_deadline
                    ));
                }
            }
        }
    }

    /// Gets or renews the Lease, if it can be had.
    async fn try_once(&mut self) -> Result<(), TryError> {
        // From the start of the request: nobody can have seen the renewal before.
        let started = Instant::now();
        let claimed = self.claim().await;
        if matches!(claimed, Ok(()) | Err(TryError::Held(_))) {
            self.known.send_replace(Some(Instant::now()));
        }
        claimed?;
        self.until
            .send_replace(Some(started + self.times.renew_deadline));
        Ok(())
    }

    async fn claim(&mut self) -> Result<(), TryError> {
        let found = self.read().await?;
        let record = found
            .as_ref()
            .map(|lease| Record::of(lease, self.times.lease));
        let claim = self.view.claim(&self.identity, record, Instant::now());
        let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
        let spec = match claim {
            Claim::Wait(holder) => return Err(TryError::Held(clean(&holder, MAX_HOLDER))),
            Claim::Renew => LeaseSpec {
                renew_time: Some(now()),
                ..spec.cloned().unwrap_or_default()
            },
            Claim::Take => LeaseSpec {
                acquire_time: Some(now()),
                renew_time: Some(now()),
                lease_transitions: Some(transitions(spec)),
                ..LeaseSpec::default()
            },
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds(self.times.lease)),
            ..spec
        };
        let written = self.write(found, spec).await?;
        let record = Record::of(&written, self.times.lease);
        if record.holder != self.identity {
            return Err(TryError::Unproven);
        }
        self.view.saw(Some(record), Instant::now());
        Ok(())
    }

    /// Writes the Lease as it was read; who comes second is refused.
    async fn write(&self, found: Option<Lease>, spec: LeaseSpec) -> Result<Lease, TryError> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let Some(mut lease) = found else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(self.name.to_string());
            lease.spec = Some(spec);
            let created = self.leases.create(&params, &lease);
            return answered(self.times.write_limit(), created).await;
        };
        // Without it the write would not be refused.
        if lease.metadata.resource_version.is_none() {
            return Err(TryError::Unversioned);
        }
        lease.spec = Some(spec);
        let replaced = self.leases.replace(&self.name, &params, &lease);
        answered(self.times.write_limit(), replaced).await
    }

    async fn read(&self) -> Result<Option<Lease>, TryError> {
        let found = self.leases.get_opt(&self.name);
        answered(self.times.read_limit(), found).await
    }

    /// Gives the Lease back, so that nobody has to wait for its end.
    async fn release(&mut self) {
        let released = async {
            let found = self.read().await?;
            let Some(lease) = found else { return Ok(()) };
            if Record::of(&lease, self.times.lease).holder != self.identity {
                return Ok(());
            }
            let spec = LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                renew_time: Some(now()),
                ..lease.spec.clone().unwrap_or_default()
            };
            self.write(Some(lease), spec).await.map(|_| ())
        };
        let limit = RELEASE_LIMIT.min(self.times.renew_deadline / 2);
        match timeout(limit, released).await {
            Ok(Ok(())) => tracing::info!(lease = &*self.name, "gave the Lease back"),
            Ok(Err(error)) => tracing::warn!(lease = &*self.name, %error, "kept the Lease"),
            Err(_) => tracing::warn!(lease = &*self.name, "kept the Lease: no answer"),
        }
    }
}

/// The answer, if it comes within this time.
async fn answered<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, TryError> {
    match timeout(limit, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(TryError::Late(limit)),
    }
}

fn now() -> MicroTime {
    MicroTime(wall())
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
