//! One list of the leases, and what follows from it.

use std::{pin::pin, time::Duration};

use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout},
};

use super::{Read, Task};
use crate::{
    prober::{
        lease_judge::{Conclusion, Request},
        leases::Intake,
        proof::Proof,
        verdict::{Doubt, Verdict},
    },
    runtime::metrics::InFlight,
    shoot::{Consistency, Unread},
    util::mono_time::MonoTime,
};

/// Judgement: a first read that takes longer no longer keeps others waiting.
const FIRST_READ: Duration = Duration::from_secs(5);

/// The states of the reads of a standby: no list has come, the last came to a verdict, it did not.
pub(in crate::prober) const STATES: [&str; 3] = [PENDING, JUDGED, UNDETERMINED];
pub(super) const PENDING: &str = "pending";
const JUDGED: &str = "judged";
const UNDETERMINED: &str = "undetermined";

impl Task {
    /// Reads the leases, concludes from them, and reports that.
    pub(super) async fn probe(&mut self) {
        let metrics = self.orders.context.metrics.clone();
        let (in_flight, began) = (InFlight::new(&metrics.probing), Instant::now());
        self.is_due = false;
        self.draw = fastrand::f64();
        let turn = self.turn.take();
        let listed = within(turn, self.list()).await;
        let reached = listed.as_ref().map(|_| ()).map_err(ToString::to_string);
        let read = listed.and_then(|()| self.conclude());
        drop(in_flight);
        metrics.probed(&read, began.elapsed());
        self.reached = reached.is_ok().then(Instant::now);
        self.proving = read
            .as_ref()
            .is_ok_and(|conclusion| is_proving(conclusion, self.judge.suspect()));
        if let Ok(conclusion) = &read {
            self.judged(conclusion);
        }
        match &reached {
            Ok(()) if self.observation.reached(began) => self.generation += 1,
            Ok(()) => {}
            Err(why) => self.observation.unreached(began, why),
        }
        self.count(match &read {
            Ok(conclusion) if !matches!(conclusion.verdict, Verdict::Undetermined(_)) => JUDGED,
            _ => UNDETERMINED,
        });
        self.report(Some(read)).await;
    }

    /// Counts what a standby has read.
    pub(super) fn count(&mut self, state: &'static str) {
        if let Some(counted) = &mut self.counted {
            counted.set(Some(state));
        }
    }

    /// Lists the leases as the watch asks, and again if the answer is older than one before.
    async fn list(&mut self) -> Result<(), Unread> {
        let mut request = self.judge.request();
        if self.list_once(request).await? == Intake::Stale {
            request.consistency = Consistency::Consistent;
            self.list_once(request).await?;
        }
        Ok(())
    }

    async fn list_once(&mut self, request: Request) -> Result<Intake, Unread> {
        let started = MonoTime::now();
        match self.sources.leases(request).await {
            Ok(read) => Ok(self.judge.observe(&read)),
            Err(error) => {
                self.judge.failed(started, MonoTime::now(), error.said);
                Err(error)
            }
        }
    }

    /// Judges the leases that were read. Where Nodes or Machines are lacking that cannot be read, an outage could not
    /// be seen either.
    fn conclude(&mut self) -> Result<Conclusion, Unread> {
        // There is always a list to conclude from, since a consistent one is always taken in.
        let conclusion = self.judge.conclude().ok_or_else(|| {
            let message =
                "the API server answers with lists of leases that are older than ones seen before";
            Unread::new("LeasesOutdated", message.to_owned())
        })?;
        let outdated = conclusion.verdict == Verdict::Undetermined(Doubt::FactsOutdated);
        match &self.nodes.error {
            Some(error) if outdated || !self.judge.has_facts() => Err(error.clone()),
            _ => Ok(conclusion),
        }
    }

    /// Derives the state, and the use of the connection, from the leases. Without a verdict, what
    /// was found before stands.
    fn judged(&mut self, conclusion: &Conclusion) {
        let (seen, now) = (&conclusion.assessment, Instant::now());
        let silent = match conclusion.verdict {
            Verdict::Outage => Some((seen.expired, seen.candidates)),
            Verdict::Healthy => None,
            Verdict::Undetermined(Doubt::NoWrites) => {
                // This connection may lead to a server that has been replaced. The next one has the
                // same time to show a write.
                let window = Proof::write_window(seen.period);
                if self.redialled.is_none_or(|at| now >= at + window) {
                    self.redialled = Some(now);
                    self.sources.disconnect();
                }
                return;
            }
            Verdict::Undetermined(_) => return,
        };
        if self.observation.judged(now, silent) {
            // A look that began in the silence may show it although it is over.
            self.generation += 1;
            self.nodes.allowed = now;
        }
    }

    /// Reports what was read, if anybody hears it.
    pub(super) async fn report(&mut self, leases: Option<Result<Conclusion, Unread>>) {
        if self.orders.context.looks.is_none() {
            return;
        }
        let read = Box::new(Read {
            settings: self.orders.settings.clone(),
            leases,
            view: self.observation.view(),
        });
        // A loop that has ended drops this reader as well.
        let _ = self.news.send(read).await;
    }
}

/// Returns whether further reads decide on an outage.
fn is_proving(conclusion: &Conclusion, suspect: bool) -> bool {
    match conclusion.verdict {
        Verdict::Undetermined(Doubt::Unproven(_) | Doubt::FactsOutdated) => true,
        Verdict::Outage => !conclusion.decides,
        Verdict::Healthy => suspect,
        Verdict::Undetermined(_) => false,
    }
}

/// Reads, and gives the turn of a first read up if that takes long.
async fn within<T>(turn: Option<OwnedSemaphorePermit>, read: impl Future<Output = T>) -> T {
    let mut read = pin!(read);
    if turn.is_some()
        && let Ok(read) = timeout(FIRST_READ, &mut read).await
    {
        return read;
    }
    drop(turn);
    read.await
}
