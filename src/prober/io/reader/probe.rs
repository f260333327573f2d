//! One list of the leases, and what follows from it.

use tokio::time::Instant;

use super::{Read, Task};
use crate::{
    prober::{
        lease_judge::Conclusion,
        leases::Intake,
        proof::Proof,
        verdict::{Doubt, Verdict},
    },
    runtime::metrics::InFlight,
    shoot::{Consistency, Unread},
    util::mono_time::MonoTime,
};

impl Task {
    /// Reads the leases, concludes from them, begins what else is due, and reports.
    pub(super) async fn probe(&mut self) {
        let metrics = self.orders.context.metrics.clone();
        let (in_flight, began) = (InFlight::new(&metrics.probing), Instant::now());
        self.draw = fastrand::f64();
        let listed = self.list().await;
        let reached = listed.as_ref().map(|_| ()).map_err(ToString::to_string);
        let read = listed.and_then(|conclusion| self.with_facts(conclusion));
        drop(in_flight);
        metrics.probed(&read, began.elapsed());
        if let Ok(conclusion) = &read {
            self.judged(conclusion);
        }
        match &reached {
            Ok(()) => self.observation.reached(began),
            Err(why) => self.observation.unreached(began, why),
        }
        self.report(Some(read)).await;
        if reached.is_ok() {
            // What begins now is read by them.
            self.obey();
            self.begin_beside();
        }
    }

    /// Lists the leases as the judge asks, and again if the answer is older than one before.
    async fn list(&mut self) -> Result<Conclusion, Unread> {
        let mut request = self.judge.request();
        loop {
            let started = MonoTime::now();
            let read = self.sources.leases(request).await.inspect_err(|error| {
                self.judge.failed(started, MonoTime::now(), error.said);
            })?;
            // A consistent list is always taken in.
            if self.judge.observe(&read) != Intake::Stale
                && let Some(conclusion) = self.judge.conclude()
            {
                return Ok(conclusion);
            }
            request.consistency = Consistency::Consistent;
        }
    }

    /// Returns the conclusion, unless it lacks Nodes or Machines that cannot be read: an outage could not be seen
    /// either.
    fn with_facts(&self, conclusion: Conclusion) -> Result<Conclusion, Unread> {
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
        self.observation.judged(now, silent);
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
