//! Leader election: of several replicas at most one acts.
//!
//! By the rules of client-go: the holder's identity stands in a Lease, which it renews. Who wants to
//! take it over must have *seen* no renewal for as long as the Lease says, on its own monotonic
//! clock; what the clocks of others say makes no difference. The holder stops to act when it could
//! not renew for the renew deadline, which is shorter than the Lease: by the time somebody else can
//! lead it has stopped.

mod view;

use std::{pin::pin, time::Duration};

use futures::future::{Either, select};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::watch,
    task::unconstrained,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::view::{Claim, View, holder, transitions};
use super::seed::{CallError, FIELD_MANAGER};
use crate::util::{now::wall, text::clean};

/// Retries are lengthened by up to this share, so that candidates do not keep step: as in client-go.
const JITTER: f64 = 0.2;
/// Most time to give the Lease back: the process is about to be killed.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);
/// The longest name of a host, in characters. The identity is shown and logged wherever the Lease is.
const MAX_HOST: usize = 253;
/// Most characters that are shown of the holder of a Lease: anybody may have written it.
pub(crate) const MAX_HOLDER: usize = 300;

/// The duration of a Lease, and the times of its renewal.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

impl Times {
    /// A Lease of this duration, in whole seconds, as the API counts it. A holder stops when it could not renew
    /// the Lease for the deadline. It retries after this period.
    ///
    /// # Errors
    ///
    /// If no replica could lead with these, or more than one; says which flags to set.
    pub fn new(lease: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, String> {
        let fit = lease.subsec_nanos() == 0
            && lease > renew_deadline
            && !retry.is_zero()
            && renew_deadline > retry.mul_f64(1.0 + JITTER);
        let times = Self {
            lease,
            renew_deadline,
            retry,
        };
        fit.then_some(times).ok_or_else(|| {
            format!(
                "the lease duration of {lease:?} must be whole seconds and longer than the renew deadline of \
                 {renew_deadline:?}, and that longer than 1.2 times the retry period of {retry:?}: set \
                 --leader-elect-lease-duration, --leader-elect-renew-deadline or --leader-elect-retry-period"
            )
        })
    }
}

/// Tells whether this process leads, in one candidacy: what is lost does not come back. Clones are the same.
#[derive(Clone, Debug)]
pub struct Leadership(Option<watch::Receiver<Option<Instant>>>);

impl Leadership {
    /// Returns the leadership of a process that has no rivals.
    pub fn unopposed() -> Self {
        Self(None)
    }

    /// Waits until it leads.
    pub async fn begun(&self) {
        if let Some(until) = &self.0 {
            // An elector that is gone has dropped whoever waits.
            let _ = until.clone().wait_for(Option::is_some).await;
        }
    }

    /// Returns whether it leads at this moment. A process that was frozen finds out here that it does not
    /// any more. If it is frozen between this check and the request, the request is sent late. Then the
    /// precondition of a write refuses it if anything has changed.
    pub fn is_held(&self) -> bool {
        match &self.0 {
            Some(until) => until.borrow().is_some_and(|until| Instant::now() < until),
            None => true,
        }
    }
}

/// A candidate for one Lease.
pub struct Elector {
    leases: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
    view: View,
    /// End of its leadership, unless it renews the Lease.
    until: watch::Sender<Option<Instant>>,
    /// Time at which it was last known who holds the Lease.
    known: watch::Sender<Option<Instant>>,
}

impl Elector {
    /// A candidate for the Lease of this name, under an identity unlike any other, also of a process of the same
    /// pod.
    pub fn new(client: Client, namespace: &str, name: &str, times: Times) -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "dependency-watchdog".to_owned());
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: format!("{}_{:016x}", clean(&host, MAX_HOST), fastrand::u64(..)),
            times,
            view: View::new(times.lease),
            until: watch::Sender::new(None),
            known: watch::Sender::new(None),
        }
    }

    /// Tells whether it can stand for election: the Lease could be read lately, or written.
    pub fn check(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let (known, limit) = (self.known.subscribe(), self.times.lease);
        let name = self.name.clone();
        move || match known.borrow().is_some_and(|last| last.elapsed() <= limit) {
            true => Ok(()),
            false => Err(format!(
                "the Lease {name} was neither read nor written within the last {limit:?}; the log says why"
            )),
        }
    }

    /// Stands for election, and does the work meanwhile, which waits for its leadership where it needs it. Gives
    /// the Lease back when the work is done, or when it is stopped before it leads; then there is `None`.
    ///
    /// # Errors
    ///
    /// If the Lease is lost; says how. The work was dropped, and with it must end whatever it has begun: whoever
    /// stands for election again begins with nothing.
    pub async fn stand<F: Future>(
        &mut self,
        stop: &CancellationToken,
        work: impl FnOnce(Leadership) -> F,
    ) -> Result<Option<F::Output>, String> {
        (self.view, self.until) = (View::new(self.times.lease), watch::Sender::new(None));
        let work = pin!(work(Leadership(Some(self.until.subscribe()))));
        let lost = async {
            stop.run_until_cancelled(self.acquire()).await?;
            Some(self.keep().await)
        };
        // The Lease is renewed whatever the work has used up of the budget of this task.
        let ended = match select(work, pin!(unconstrained(lost))).await {
            // What is done is done, even if the Lease is lost at the same moment.
            Either::Left((done, _)) => Ok(Some(done)),
            Either::Right((lost, _)) => lost.map_or(Ok(None), Err),
        };
        self.until.send_replace(None);
        if ended.is_ok() {
            // It may have been ours for a moment.
            self.release().await;
        }
        ended
    }

    /// Tries until it holds the Lease.
    async fn acquire(&mut self) {
        let (lease, identity) = (self.name.clone(), self.identity.clone());
        tracing::info!(lease, identity, "stands for election");
        let mut told = None;
        loop {
            let tried = self.try_once().await;
            match &tried {
                Ok(None) => break,
                // One line for each holder and each kind of trouble.
                _ if told.as_ref() == Some(&tried) => {}
                Ok(Some(holder)) => {
                    tracing::info!(lease, "does not lead: {holder} holds the Lease");
                }
                Err(error) => tracing::warn!(lease, "cannot lead: {error}"),
            }
            told = Some(tried);
            sleep(self.times.retry.mul_f64(1.0 + JITTER * fastrand::f64())).await;
        }
        tracing::info!(lease, identity, "leads");
    }

    /// Renews the Lease until that fails for too long, or another replica has taken it; returns which.
    async fn keep(&mut self) -> String {
        let mut last_error = None;
        let mut next = Instant::now() + self.times.retry;
        loop {
            let deadline = (*self.until.borrow()).unwrap_or_else(Instant::now);
            let renewed = async {
                sleep_until(next).await;
                // A try that takes longer is followed by the next immediately, if it fails.
                next = Instant::now() + self.times.retry;
                self.try_once().await
            };
            match timeout_at(deadline, renewed).await {
                Ok(Ok(None)) => {
                    next = Instant::now() + self.times.retry;
                    last_error = None;
                }
                Ok(Ok(Some(holder))) => {
                    return format!("{holder} has taken the Lease {}", self.name);
                }
                Ok(Err(error)) => {
                    tracing::warn!(lease = self.name, error, "the Lease was not renewed");
                    last_error = Some(error);
                }
                Err(_) => {
                    let (name, limit) = (&self.name, self.times.renew_deadline);
                    let why = last_error.as_deref().unwrap_or("this process was held up");
                    return format!("the Lease {name} was not renewed within {limit:?}: {why}");
                }
            }
        }
    }

    /// Gets or renews the Lease, if it can be had; returns who else holds it otherwise.
    async fn try_once(&mut self) -> Result<Option<String>, String> {
        // From the start of the request: nobody can have seen the renewal before.
        let until = Instant::now() + self.times.renew_deadline;
        let found = self.read().await?;
        let spec = found.as_ref().map(|it| it.spec.clone().unwrap_or_default());
        let claim = self.view.claim(&self.identity, spec, Instant::now());
        let mut lease = found.unwrap_or_default();
        match claim {
            Claim::Wait(holder) => {
                self.known.send_replace(Some(Instant::now()));
                return Ok(Some(clean(&holder, MAX_HOLDER)));
            }
            Claim::Renew => {}
            Claim::Take => {
                lease.spec = Some(LeaseSpec {
                    acquire_time: Some(MicroTime(wall())),
                    lease_transitions: Some(transitions(lease.spec.as_ref())),
                    ..LeaseSpec::default()
                });
            }
        }
        let written = self.write(lease, &self.identity, self.times.lease).await?;
        let written = written.spec.filter(|it| holder(it) == self.identity);
        let other = "the answer to the write is not the Lease that was written";
        let written = written.ok_or(other)?;
        self.view.saw(Some(written), Instant::now());
        self.known.send_replace(Some(Instant::now()));
        self.until.send_replace(Some(until));
        Ok(None)
    }

    /// Reads the Lease. A read that is not answered may have been sent over a dead connection, which ends with it:
    /// two such reads leave time for a third.
    async fn read(&self) -> Result<Option<Lease>, String> {
        let limit = self.times.renew_deadline / 4;
        answered(limit, self.leases.get_opt(&self.name)).await
    }

    /// Renews the Lease in this name and for this time, as it was read: who comes second is refused. That goes over
    /// the connection that has just answered, and may wait for a slow etcd.
    async fn write(&self, mut lease: Lease, holder: &str, time: Duration) -> Result<Lease, String> {
        let limit = self.times.renew_deadline / 2;
        lease.metadata.name = Some(self.name.clone());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: i32::try_from(time.as_secs()).ok(),
            renew_time: Some(MicroTime(wall())),
            ..lease.spec.unwrap_or_default()
        });
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match lease.metadata.resource_version {
            Some(_) => answered(limit, self.leases.replace(&self.name, &params, &lease)).await,
            // Without a version to replace it is refused if there is a Lease.
            None => answered(limit, self.leases.create(&params, &lease)).await,
        }
    }

    /// Gives the Lease back if it is ours, so that nobody has to wait for its end.
    async fn release(&self) {
        let released = async {
            let lease = self.read().await?;
            let ours = |it: &Lease| it.spec.as_ref().map(holder) == Some(&self.identity);
            if let Some(lease) = lease.filter(ours) {
                self.write(lease, "", Duration::from_secs(1)).await?;
                tracing::info!(lease = self.name, "gave the Lease back");
            }
            Ok(())
        };
        let limit = RELEASE_LIMIT.min(self.times.renew_deadline / 2);
        let late = Err("no answer in time".to_owned());
        if let Err(error) = timeout(limit, released).await.unwrap_or(late) {
            tracing::warn!(lease = self.name, error, "kept the Lease");
        }
    }
}

/// The answer, if it comes within this time.
async fn answered<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, String> {
    let late = |_| "no answer in time".to_owned();
    let answer = timeout(limit, request).await.map_err(late)?;
    answer.map_err(|error| CallError::from(error).to_string())
}

#[cfg(test)]
mod tests;
