//! A replica that does not lead, and observes all clusters so that it can act as soon as it does.
//!
//! It has no way to write: its client sends nothing but reads, and nothing that acts or reports is made
//! before a term begins. What it has seen of the leases goes on in the term; what it concluded from that
//! does not count there, and what is owed is learnt as after a start.

mod cluster;
mod selection;

use std::{collections::BTreeMap, pin::pin, sync::Arc};

use tokio::{
    sync::watch,
    task::{AbortHandle, JoinError, JoinSet},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

pub(super) use self::cluster::STATES;
pub(super) use self::selection::Selection;
use super::{
    cluster::Reading,
    evidence::Evidence,
    instruments::Instruments,
    metrics::ProberMetrics,
    observe::Observer,
    treatment::{ClusterObject, Known, Treatment},
};
use crate::{
    cluster::{Assignment, Settings},
    runtime::{health::Health, metrics::States, seed::Seed, watch::WatchState},
    shoot::Dial,
    util::mono_time::Origin,
};

/// The name of the fleet's loop.
pub(super) const LOOP: &str = "fleet";

/// All that a replica observes which does not lead.
pub struct Standby {
    observed: Observed,
    /// Not those of a leader, by which it is judged how that one fares.
    probes: Arc<ProberMetrics>,
    metrics: States,
    followed: BTreeMap<Arc<str>, Followed>,
    tasks: JoinSet<(Arc<str>, Reading)>,
    /// Has what was observed of each handed over.
    hand_over: CancellationToken,
}

/// A cluster that is observed.
struct Followed {
    settings: watch::Sender<Arc<Settings>>,
    task: AbortHandle,
}

/// What goes on in a term.
pub(super) struct Observed {
    pub(super) selection: Selection,
    pub(super) evidence: Evidence,
    pub(super) origin: Origin,
    pub(super) health: Health,
    pub(super) readings: BTreeMap<Arc<str>, Reading>,
}

impl Observed {
    /// Nothing yet, of this seed.
    pub(super) fn nothing(
        seed: &Seed,
        dry_run: bool,
        dial: Dial,
        instruments: &Instruments,
    ) -> Self {
        let common = &instruments.common;
        Self {
            selection: Selection::watch(seed.client(), dry_run, &common.watches),
            evidence: Evidence::new(seed, dial, &common.watches),
            origin: Origin::new(Instant::now().into_std()),
            health: common.health.clone(),
            readings: BTreeMap::new(),
        }
    }
}

impl Standby {
    /// Begins to observe by reads of this seed, within its budget.
    pub fn begin(seed: Seed, dry_run: bool, dial: Dial, instruments: &Instruments) -> Self {
        Self {
            observed: Observed::nothing(&seed, dry_run, dial, instruments),
            probes: Arc::default(),
            metrics: instruments.standby.clone(),
            followed: BTreeMap::new(),
            tasks: JoinSet::new(),
            hand_over: CancellationToken::new(),
        }
    }

    /// The watch of ProbePolicies.
    pub(super) fn policies(&self) -> &WatchState {
        &self.observed.selection.policies
    }

    /// Observes until this is done.
    pub async fn until<T>(&mut self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        loop {
            self.observed.health.beat(LOOP);
            tokio::select! {
                biased;
                done = &mut done => return done,
                (_, changed) = self.observed.selection.changed() => {
                    for name in &changed {
                        self.assign(name);
                    }
                }
                Some(ended) = self.tasks.join_next() => self.ended(ended),
                () = sleep(Health::BEAT) => {}
            }
        }
    }

    /// Observes this cluster as the index says.
    fn assign(&mut self, name: &Arc<str>) {
        let assignment = self.observed.selection.index.assignment(name);
        let Some(settings) = assignment.and_then(probed) else {
            if let Some(followed) = self.followed.remove(name) {
                followed.task.abort();
            }
            return;
        };
        if let Some(followed) = self.followed.get(name) {
            if *followed.settings.borrow() != settings {
                followed.settings.send_replace(settings);
            }
            return;
        }
        let (sender, receiver) = watch::channel(settings.clone());
        let sources = self
            .observed
            .evidence
            .of(name.clone(), &settings.secret_name);
        let origin = self.observed.origin;
        let observer = Observer::new(origin, settings.clone(), sources, self.probes.clone());
        let reading = Reading::standing_by(Box::new(observer), settings);
        let (counted, hand_over) = (self.metrics.cluster(), self.hand_over.clone());
        let observed = cluster::observe(reading, receiver, counted, hand_over);
        let name_of = name.clone();
        let task = self.tasks.spawn(async move { (name_of, observed.await) });
        let settings = sender;
        self.followed
            .insert(name.clone(), Followed { settings, task });
    }

    /// An observation that ends by itself had a defect: its cluster is not observed until it is assigned anew.
    fn ended(&mut self, ended: Result<(Arc<str>, Reading), JoinError>) {
        let Err(error) = ended else { return };
        if error.is_panic() {
            tracing::error!(%error, "the observation of a cluster ended by a defect");
        }
        let id = error.id();
        self.followed.retain(|_, followed| followed.task.id() != id);
    }

    /// Ends the observation, and hands over what it has come to.
    pub(super) async fn hand_over(mut self) -> Observed {
        self.hand_over.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok((name, reading)) => {
                    self.observed.readings.insert(name, reading);
                }
                ended => self.ended(ended),
            }
        }
        self.observed
    }
}

/// The settings by which a leader to which nothing is owed would probe a cluster.
fn probed(assignment: &Assignment) -> Option<Arc<Settings>> {
    let presence = ClusterObject::There(Box::new(assignment.clone()));
    let known = Known {
        looked_at: true,
        ..Known::default()
    };
    Treatment::new(&presence, known).settings().cloned()
}
