//! One read: leases, the facts that they need, and what follows from both.

use std::panic::resume_unwind;

use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::{AWAITED_PAUSE, Observer};
use crate::{
    observer::{NodeCounts, observation::Found},
    prober::{
        leases::LeaseSnapshot,
        node_lists::NodeLists,
        nodes::Facts,
        watch::{Conclusion, Taken},
    },
    shoot::{Consistency, LeaseRead, SEED_UNREADABLE, Unread},
    util::mono_time::Origin,
};

/// What has become of facts that were waited for.
enum Waited {
    Ended(Result<NodeLists, Unread>),
    /// The leases show that they are not needed any more.
    NotNeeded,
    /// They are read at leisure, and the leases show that a proof waits for them.
    TooSlow,
}

impl Observer {
    pub(super) async fn read_and_conclude(&mut self) -> Result<Conclusion, Unread> {
        if self.leases().await? == Taken::NeedsFacts {
            if self.watch.facts.are_put_off(self.now())
                && let Some(error) = self.contact.unread_facts.clone()
            {
                return Err(error);
            }
            self.facts().await?;
            // Leases must be fresh to act on. A consistent list is always taken in.
            if self.watch.is_outlived(self.now()) {
                self.list(true).await?;
            }
        }
        // There is always a list to conclude from, since a consistent one is always taken in.
        self.watch.conclude().ok_or_else(|| {
            let message =
                "the API server answers with lists of leases that are older than ones seen before";
            Unread::new("LeasesOutdated", message.to_owned())
        })
    }

    /// Reads the leases as the watch asks, and again if the answer is older than one before.
    async fn leases(&mut self) -> Result<Taken, Unread> {
        match self.list(false).await? {
            Taken::ReadAgain => self.list(true).await,
            taken => Ok(taken),
        }
    }

    /// Lists the leases once: consistently if the watch asks for it, or if told so.
    async fn list(&mut self, consistent: bool) -> Result<Taken, Unread> {
        let started = self.now();
        let mut request = self.watch.request();
        request.consistent |= consistent;
        let error = match self.sources.leases(request).await {
            Ok(read) => {
                self.contact.reached = Some(Ok(()));
                self.contact.answered = true;
                let taken = self.watch.observe(&snapshot(self.origin, &read));
                let finished = self.origin.moment(read.finished);
                self.watch.spent(read.bytes, finished);
                return Ok(taken);
            }
            Err(error) => error,
        };
        let finished = self.now();
        match error.throttled() {
            Some(wait) => self.watch.throttled(started, finished, wait),
            None => self.watch.failed(started, finished),
        }
        self.contact.reached = Some(Err(error.to_string()));
        Err(error)
    }

    async fn facts(&mut self) -> Result<(), Unread> {
        loop {
            let mut request = self.watch.request();
            // Another cached list cannot settle what a cached list left in doubt.
            request.consistent |= self.watch.facts.doubted().is_some();
            let facts = match self.sources.facts(request).await {
                Ok(facts) => self.beside_leases(facts, request.urgent).await?,
                Err(error) => Waited::Ended(Err(error)),
            };
            match facts {
                Waited::Ended(Ok(facts)) => self.learn(&facts, request.consistent),
                Waited::Ended(Err(error)) => {
                    self.not_learnt(&error);
                    return Err(error);
                }
                Waited::NotNeeded => {}
                Waited::TooSlow => continue,
            }
            return Ok(());
        }
    }

    /// Waits for facts. The leases are read meanwhile when they are due, since a proof allows no gap.
    async fn beside_leases(
        &mut self,
        facts: impl Future<Output = Result<NodeLists, Unread>> + Send + 'static,
        urgent: bool,
    ) -> Result<Waited, Unread> {
        let mut facts = AbortOnDropHandle::new(tokio::spawn(facts));
        loop {
            let (due, _) = self.watch.next(self.now(), fastrand::f64());
            let due = Instant::from_std(self.origin.instant(due));
            tokio::select! {
                // The facts come first: the round waits for them.
                biased;
                facts = &mut facts => {
                    // The task can fail only by a panic, which belongs to this loop.
                    let facts = facts.unwrap_or_else(|it| resume_unwind(it.into_panic()));
                    return Ok(Waited::Ended(facts));
                }
                () = sleep_until(due) => {}
            }
            if self.leases().await? != Taken::NeedsFacts {
                return Ok(Waited::NotNeeded);
            }
            if self.watch.request().urgent && !urgent {
                return Ok(Waited::TooSlow);
            }
        }
    }

    /// Takes in facts.
    pub(super) fn learn(&mut self, facts: &NodeLists, consistent: bool) {
        self.watch.learn(&Facts {
            began: self.origin.moment(facts.began.into_std()),
            consistent,
            nodes: &facts.nodes,
            machines: facts.machines.as_deref(),
            pools: &self.settings.pools,
        });
        self.contact.unread_facts = None;
        if let Some(pause) = self.watch.facts.doubted() {
            let pause = match self.background.awaited {
                true => pause.min(AWAITED_PAUSE),
                false => pause,
            };
            self.background.due = Instant::now() + pause;
        }
        self.found(Found::Nodes(Ok(NodeCounts::of(&facts.nodes))));
    }

    /// Puts facts off that could not be read. Nodes that cannot be read for a verdict are not tried again
    /// for the state.
    pub(super) fn not_learnt(&mut self, error: &Unread) {
        self.watch.facts_failed(self.now(), error.throttled());
        self.contact.unread_facts = Some(error.clone());
        // Machines that could not be read say nothing of the nodes' state.
        if error.reason != SEED_UNREADABLE {
            self.found(Found::Nodes(Err(error.to_string())));
        }
    }
}

fn snapshot(origin: Origin, read: &LeaseRead) -> LeaseSnapshot<'_> {
    LeaseSnapshot {
        started: origin.moment(read.started),
        finished: origin.moment(read.finished),
        date: read.date,
        consistent: read.consistency == Consistency::Consistent,
        resource_version: read.list.resource_version,
        leases: &read.list.leases,
    }
}
