//! A replica that does not lead, and observes all clusters so that it can act as soon as it does.
//!
//! It has no way to write: its client sends nothing but reads, and nothing that acts or reports is made
//! before a term begins. What it has seen of the leases goes on in the term; what it concluded from that
//! does not count there, and what is owed is learnt as after a start.

mod selection;

use std::{collections::BTreeMap, pin::pin, sync::Arc};

use tokio::time::sleep;

pub(super) use self::selection::{Selection, SharedIndex};
use super::{
    instruments::Instruments,
    reader::{LeaseReader, ReadContext, ReadSettings},
    sources::Evidence,
    treatment::{Known, Treatment},
};
use crate::{
    cluster::{Assignment, Settings},
    runtime::{health::Health, metrics::States, seed::Seed},
    shoot::Dial,
};

/// The name of the fleet's loop.
pub(super) const LOOP: &str = "fleet";

/// All that a replica observes before it leads, and goes on from in its term.
pub(super) struct Standby {
    pub(super) selection: Selection,
    pub(super) reads: Arc<ReadContext>,
    pub(super) health: Health,
    pub(super) readers: BTreeMap<Arc<str>, LeaseReader>,
    metrics: States,
}

impl Standby {
    /// Begins to observe by reads of this seed, within its budget.
    pub(super) fn begin(seed: &Seed, dry_run: bool, dial: Dial, instruments: &Instruments) -> Self {
        let common = &instruments.common;
        Self {
            selection: Selection::watch(seed.client(), dry_run, &common.watches),
            reads: Arc::new(ReadContext {
                evidence: Evidence::new(seed, dial, &common.watches),
                // Not those of a leader, by which it is judged how that one fares.
                metrics: Arc::default(),
                looks: None,
            }),
            health: common.health.clone(),
            readers: BTreeMap::new(),
            metrics: instruments.standby.clone(),
        }
    }

    /// Observes until this is done.
    pub(super) async fn until<T>(&mut self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        loop {
            self.health.beat(LOOP);
            tokio::select! {
                biased;
                done = &mut done => return done,
                (_, changed) = self.selection.changed() => {
                    for name in &changed {
                        self.assign(name);
                    }
                }
                () = sleep(Health::BEAT) => {}
            }
            // One that has ended had a defect: its cluster is not observed until it is assigned anew.
            self.readers.retain(|name, reader| {
                let ended = reader.has_ended();
                if ended {
                    tracing::error!(
                        cluster = &**name,
                        "the observation of a cluster ended by a defect"
                    );
                }
                !ended
            });
        }
    }

    /// Observes this cluster as the index says.
    fn assign(&mut self, name: &Arc<str>) {
        let index = self.selection.index.lock();
        let assignment = index.assignment(name);
        let Some((assignment, settings)) = assignment.and_then(|it| Some((it, probed(it)?))) else {
            self.readers.remove(name);
            return;
        };
        let orders = ReadSettings {
            context: self.reads.clone(),
            uid: Some(assignment.uid.clone()),
            protected: false,
            cut: None,
            awaits: None,
            recalled: None,
            settings,
        };
        if let Some(reader) = self.readers.get(name) {
            return reader.follow(orders);
        }
        let reader = LeaseReader::begin(name.clone(), orders, Some(self.metrics.cluster()));
        self.readers.insert(name.clone(), reader);
    }
}

/// The settings by which a leader to which nothing is owed would probe a cluster.
fn probed(assignment: &Assignment) -> Option<Arc<Settings>> {
    let known = Known {
        looked_at: true,
        hold: assignment.hold(),
        ..Known::default()
    };
    Treatment::new(assignment, known).settings().cloned()
}
