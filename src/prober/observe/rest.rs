//! What is read in the pauses between probes: facts while they make no difference, and what the state of
//! the cluster takes.

use std::{mem, time::Duration};

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Observer;
use crate::{
    observer::observation::{Found, Look},
    prober::facts::Leisure,
    runtime::timer::until,
    shoot::Consistency,
};

/// What is good to know is tried to be read this often at most.
const FACTS_PAUSE: Duration = Duration::from_secs(60);
/// And where there was no room for it, again after this, or twice as much.
const ROOM_PAUSE: Duration = Duration::from_secs(2);

/// No look begins so shortly before a read of the leases: it would still have the connection.
const LOOK: Duration = Duration::from_millis(250);
/// And none at the Nodes, of which a large cluster has seconds of them, or half of the interval.
const NODES_LOOK: Duration = Duration::from_secs(2);
/// A look for which there has been no such pause for so long is made all the same, over a connection
/// of its own: where reads take as long as their interval, nothing would ever be seen otherwise.
const OVERDUE: Duration = Duration::from_secs(60);

impl Observer {
    /// Waits until then, and reads in the meantime what is good to know; whether it is still before
    /// then, and something new is known of the state.
    pub(super) async fn rest(&mut self, due: Instant) -> bool {
        let now = Instant::now();
        if self.facts_due <= now && self.facts_from(now, due).is_some() {
            self.facts_at_leisure(due).await;
        }
        loop {
            while let Some(found) = self.looks.ended().now_or_never() {
                self.found(found);
            }
            let next = self.observation.next();
            let next = next.filter(|_| !self.proving);
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
            let at = next.map(|(at, look)| (self.looks.after(at), look));
            let at = at.filter(|(at, look)| (*at).max(now) + self.lead(*look) <= due);
            let at = at.map(|(at, _)| at);
            let facts = self.facts_from(self.looks.after(self.facts_due).max(now), due);
            tokio::select! {
                // Leases go before.
                biased;
                () = sleep_until(due) => return false,
                found = self.looks.ended() => self.found(found),
                () = until(facts) => self.facts_at_leisure(due).await,
                () = until(at) => {
                    if let Some((_, look)) = next {
                        self.look(look, self.looks.apart(look));
                    }
                }
            }
        }
    }

    /// That moment, if facts are wanted, and those that are read then come before the leases are.
    fn facts_from(&self, at: Instant, due: Instant) -> Option<Instant> {
        let wanted = self.watch.wants_facts() && !self.proving;
        (wanted && at + self.lead(Look::Nodes) <= due).then_some(at)
    }

    async fn facts_at_leisure(&mut self, due: Instant) {
        let now = Instant::now();
        self.facts_due = now + FACTS_PAUSE;
        let room = match self.sources.leisure() {
            Leisure::Room(room) => room,
            Leisure::NoRoom => {
                self.facts_due = now + ROOM_PAUSE.mul_f64(1.0 + fastrand::f64());
                return;
            }
            // They are read for the next verdict, among their like, and it says so if they cannot be.
            Leisure::Slow => return self.watch.need_facts(),
        };
        let leases = self.watch.leases().names().clone();
        let consistency = match self.watch.doubted() {
            Some(_) => Consistency::Consistent,
            None => Consistency::Cached,
        };
        let facts = Box::pin(self.sources.facts_at_leisure(room, consistency));
        match timeout_at(due, facts).await {
            Ok(Ok(facts)) => self.learn(&facts, &leases, consistency == Consistency::Consistent),
            Ok(Err(error)) => {
                self.not_learnt(&error);
                // What is only doubted is read again later: the verdict goes by what is known.
                if !self.watch.only_doubts_facts() {
                    self.watch.need_facts();
                }
            }
            // There was no time; leases go before.
            Err(_) => {}
        }
    }

    /// How long before a read of the leases this may begin at the latest.
    fn lead(&self, look: Look) -> Duration {
        match look {
            Look::Nodes => NODES_LOOK.min(self.settings.interval / 2).max(LOOK),
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
            Look::Ready => self.looks.ready(shoot, self.settings.timeout),
            Look::Provider(place) => {
                if let Some(provider) = self.settings.observer.metrics_providers.get(place) {
                    let policy = &self.settings.policy;
                    self.looks.provider(place, provider, (shoot, policy));
                }
            }
        }
    }

    pub(super) fn found(&mut self, found: Found) {
        let (at, now) = (Instant::now(), Timestamp::now());
        self.news |= self.observation.take(found, at, now, fastrand::f64());
    }
}
