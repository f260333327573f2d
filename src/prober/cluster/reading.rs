//! How one cluster is read: its observer, round after round.

use std::{pin::Pin, sync::Arc};

use tokio::sync::Notify;

use crate::{
    api::ClusterHealthStatus,
    cluster::Settings,
    prober::observe::{Observer, Outcome},
};

type Round = Pin<Box<dyn Future<Output = (Box<Observer>, Outcome)> + Send>>;

/// How the cluster is read.
#[derive(Default)]
pub(in crate::prober) struct Reading {
    /// `None` while the cluster is not probed.
    pub(super) round: Option<Round>,
    /// The settings by which it reads, or is about to.
    pub(super) settings: Option<Arc<Settings>>,
    /// Ends a pause of the round.
    pub(super) wake: Arc<Notify>,
    /// What an earlier run has left, until the cluster is observed.
    pub(super) recalled: Option<Box<ClusterHealthStatus>>,
    /// The Cluster is another, so that it is to be observed anew.
    pub(super) replaced: bool,
    /// The round was begun before this replica led: its observer stands by, and what it judged does not
    /// count.
    pub(super) stands_by: bool,
}

impl Reading {
    /// The first round of a replica that does not lead.
    pub(in crate::prober) fn standing_by(observer: Box<Observer>, settings: Arc<Settings>) -> Self {
        let mut reading = Self {
            settings: Some(settings),
            stands_by: true,
            ..Self::default()
        };
        reading.begin(observer);
        reading
    }

    /// Begins the next round.
    pub(in crate::prober) fn begin(&mut self, observer: Box<Observer>) {
        self.round = Some(Box::pin(observer.round(self.wake.clone())));
    }

    /// Waits for the end of the round; forever if there is none. Nothing is lost if it is not waited for to
    /// the end.
    pub(in crate::prober) async fn finished(&mut self) -> (Box<Observer>, Outcome) {
        match &mut self.round {
            Some(round) => round.await,
            None => std::future::pending().await,
        }
    }

    /// Reads by these settings from now on: the round hands its observer back, which then adopts them.
    pub(in crate::prober) fn follow(&mut self, settings: Arc<Settings>) {
        if self.settings.as_ref() != Some(&settings) {
            self.settings = Some(settings);
            self.wake.notify_one();
        }
    }
}
