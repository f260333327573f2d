//! Reads in the pauses between probes: facts while no verdict depends on them, and looks at the
//! state of the cluster.

use std::{mem, time::Duration};

use futures::FutureExt as _;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{AWAITED_PAUSE, Observer, Stage};
use crate::{
    observer::observation::{Found, Look},
    prober::node_lists::Background,
    runtime::timer::until,
    util::now::wall,
};

/// Judgement: the shortest time between two tries to read facts in the background, ...
const FACTS_PAUSE: Duration = Duration::from_secs(60);
/// ... or once to twice this if there was no permit.
const PERMIT_PAUSE: Duration = Duration::from_secs(2);

/// No look begins this shortly before a read of the leases: it would still hold the connection.
const LOOK: Duration = Duration::from_millis(250);
/// The same for a look at the Nodes, if less than half of the interval: the list of a large cluster
/// takes seconds.
const NODES_LOOK: Duration = Duration::from_secs(2);
/// Judgement: a look that has found no such pause for this long uses a connection of its own.
/// Otherwise nothing would ever be seen where reads take as long as their interval.
const OVERDUE: Duration = Duration::from_secs(60);

impl Observer {
    /// Waits until `due` and reads meanwhile. Returns early, with true, if there is news of the
    /// state.
    pub(super) async fn rest(&mut self, due: Instant) -> bool {
        let now = Instant::now();
        if self.background.due <= now && self.facts_from(now, due).is_some() {
            self.facts_in_background(due).await;
        }
        loop {
            while let Some(found) = self.looks.ended().now_or_never() {
                self.found(found);
            }
            let next = self.observation.next();
            let next = next.filter(|_| self.looks.are_made() && self.stage != Stage::Proving);
            let now = Instant::now();
            if let Some((at, look)) = next
                && self.looks.after(at + OVERDUE) <= now
                && due < now + self.lead(look)
            {
                self.look(look, true);
                continue;
            }
            if mem::take(&mut self.news) {
                return now < due;
            }
            let next = next.map(|(at, look)| (self.looks.after(at), look));
            let next = next.filter(|(at, look)| (*at).max(now) + self.lead(*look) <= due);
            let facts = self.facts_from(self.looks.after(self.background.due).max(now), due);
            tokio::select! {
                // Leases come first.
                biased;
                () = sleep_until(due) => return false,
                found = self.looks.ended() => self.found(found),
                () = until(facts) => self.facts_in_background(due).await,
                () = until(next.map(|(at, _)| at)) => {
                    if let Some((_, look)) = next {
                        self.look(look, self.looks.apart(look));
                    }
                }
            }
        }
    }

    /// Returns `at` if facts are wanted, and a read that begins then ends before the leases are
    /// due.
    fn facts_from(&self, at: Instant, due: Instant) -> Option<Instant> {
        let wanted = self.watch.facts.are_wanted() || self.background.awaited;
        (wanted && self.stage != Stage::Proving && at + self.lead(Look::Nodes) <= due).then_some(at)
    }

    async fn facts_in_background(&mut self, due: Instant) {
        let now = Instant::now();
        // A restore can wait for this list, and Nodes that cannot be read are not ready.
        let only_awaited = !self.watch.facts.are_wanted();
        let pause = match self.background.awaited {
            true => AWAITED_PAUSE,
            false => FACTS_PAUSE,
        };
        self.background.due = now + pause;
        self.background.began = Some(now);
        // A cache may show Nodes as they were before kube-controller-manager marked them.
        let consistent = self.watch.facts.doubted().is_some() || self.background.awaited;
        let facts = self
            .sources
            .facts_in_background(consistent, self.background.awaited);
        let facts = Box::pin(facts);
        match timeout_at(due, facts).await {
            Ok(Background::Read(facts)) => self.learn(&facts, consistent),
            Ok(Background::Failed(_) | Background::Slow) if only_awaited => {}
            Ok(Background::Failed(error)) => {
                self.not_learnt(&error);
                // Facts that are only doubted are read again later: they still suffice for a
                // verdict.
                if !self.watch.facts.are_only_doubted() {
                    self.watch.facts.need();
                }
            }
            Ok(Background::NoPermit) => {
                self.background.due = now + PERMIT_PAUSE.mul_f64(1.0 + fastrand::f64());
            }
            // They are read for the next verdict, which reports a failure.
            Ok(Background::Slow) => self.watch.facts.need(),
            // There was no time; leases come first.
            Err(_) => {}
        }
    }

    /// The shortest time from the beginning of this look to the next read of the leases.
    fn lead(&self, look: Look) -> Duration {
        match look {
            Look::Nodes => NODES_LOOK.min(self.settings.rules.interval / 2).max(LOOK),
            Look::Ready | Look::Provider(_) => LOOK,
        }
    }

    fn look(&mut self, look: Look, apart: bool) {
        self.observation.began(look, Instant::now());
        let Some(shoot) = self.sources.shoot(apart) else {
            return;
        };
        match look {
            Look::Nodes => self.looks.nodes(shoot),
            Look::Ready => self.looks.ready(shoot, self.settings.rules.timeout),
            Look::Provider(place) => {
                if let Some(provider) = self.settings.observer.metrics_providers.get(place) {
                    let policy = &self.settings.policy;
                    self.looks.provider(place, provider, (shoot, policy));
                }
            }
        }
    }

    pub(super) fn found(&mut self, found: Found) {
        let (at, now) = (Instant::now(), wall());
        self.news |= self.observation.take(found, at, now, fastrand::f64());
    }
}
