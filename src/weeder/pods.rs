//! The watches of pods: one task each, as long as it is wanted.
//!
//! They go past the budget, as all watches do: there are few, and a pod that is to be deleted at once
//! must not wait for statuses to be written. What they tell goes through one channel that holds
//! little, so that a list of many pods waits for whoever takes it in, and not in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api, Client,
    runtime::watcher::{self, Event, watcher},
};
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{pod::Pod, scopes::PodWatch};
use crate::runtime::watches::{Cause, WATCH_SECONDS, is_partial, renewed};

/// A Pod has some ten kilobytes, of which little is kept.
const PODS_PER_PAGE: u32 = 200;
/// A watch that was taken up again may have nothing to tell. It works if it does not break for so
/// long: one that is tried ever more seldom is tried within this.
const QUIET: Duration = Duration::from_secs(90);
/// So many events wait to be taken in.
const WAITING: usize = 64;

/// What a watch tells.
#[derive(Debug)]
pub(super) enum PodWatchNews {
    /// This has changed.
    Event(Box<Event<Pod>>),
    /// It cannot be begun, or not be taken up again; and why.
    Broke(String),
    /// It works again.
    Works,
}

/// The watches that are wanted. They end with it.
pub(super) struct PodWatches {
    client: Client,
    restarts: Counter,
    tasks: BTreeMap<PodWatch, AbortOnDropHandle<()>>,
    sender: mpsc::Sender<(PodWatch, PodWatchNews)>,
    told: mpsc::Receiver<(PodWatch, PodWatchNews)>,
}

impl PodWatches {
    /// None yet. Those that break are counted by `restarts`.
    pub(super) fn new(client: Client, restarts: Counter) -> Self {
        let (sender, told) = mpsc::channel(WAITING);
        Self {
            client,
            restarts,
            tasks: BTreeMap::new(),
            sender,
            told,
        }
    }

    /// These are wanted, and no others; tells whether that is new.
    pub(super) fn want(&mut self, wanted: &BTreeSet<PodWatch>) -> bool {
        if self.tasks.keys().eq(wanted) {
            return false;
        }
        self.tasks.retain(|watch, _| wanted.contains(watch));
        for watch in wanted {
            if self.tasks.contains_key(watch) {
                continue;
            }
            let teller = Teller {
                watch: watch.clone(),
                sender: self.sender.clone(),
                restarts: self.restarts.clone(),
                failures: 0,
            };
            let task = tokio::spawn(keep(self.client.clone(), teller));
            self.tasks
                .insert(watch.clone(), AbortOnDropHandle::new(task));
        }
        true
    }

    /// What one of them tells. What others told that are not wanted any more is dropped.
    pub(super) async fn next(&mut self) -> Option<(PodWatch, PodWatchNews)> {
        loop {
            let (watch, told) = self.told.recv().await?;
            if self.tasks.contains_key(&watch) {
                return Some((watch, told));
            }
        }
    }
}

/// One watch's end of the channel.
struct Teller {
    watch: PodWatch,
    sender: mpsc::Sender<(PodWatch, PodWatchNews)>,
    restarts: Counter,
    /// How often it has failed since it last worked.
    failures: u32,
}

impl Teller {
    async fn tell(&self, told: PodWatchNews) {
        // Nobody listens any more only when this task is about to be ended.
        let _ = self.sender.send((self.watch.clone(), told)).await;
    }

    async fn event(&mut self, event: Event<Pod>) {
        // A part of a list is of no use yet.
        if !is_partial(&event) {
            self.works().await;
        }
        self.tell(PodWatchNews::Event(Box::new(event))).await;
    }

    async fn works(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            self.tell(PodWatchNews::Works).await;
        }
    }

    async fn broke(&mut self, listing: bool, message: String) {
        self.restarts.inc();
        self.failures += 1;
        let PodWatch {
            namespace,
            selector,
            ..
        } = &self.watch;
        let (namespace, selector) = (namespace.as_deref(), selector.brief());
        if self.failures == 1 {
            tracing::warn!(
                namespace,
                selector,
                error = message,
                "a watch of pods broke; it is resumed"
            );
        } else {
            tracing::debug!(
                namespace,
                selector,
                error = message,
                "a watch of pods is still broken"
            );
        }
        // One that breaks after a list is taken up where it was, within a second or two.
        if listing || self.failures > 1 {
            self.tell(PodWatchNews::Broke(message)).await;
        }
    }
}

/// Follows the pods for ever.
async fn keep(client: Client, mut teller: Teller) {
    let PodWatch {
        namespace,
        selector,
        ..
    } = &teller.watch;
    let api: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let config = watcher::Config::default()
        .labels(selector.as_str())
        .page_size(PODS_PER_PAGE)
        .timeout(WATCH_SECONDS);
    let mut events = pin!(renewed(|| watcher(api.clone(), config.clone())));
    let mut listed = false;
    loop {
        let limit = match listed && teller.failures > 0 {
            true => QUIET,
            false => Duration::MAX,
        };
        match timeout(limit, events.next()).await {
            Ok(Some(Ok(event))) => {
                listed = !is_partial(&event);
                teller.event(event).await;
            }
            Ok(Some(Err(error))) => teller.broke(!listed, Cause::of(&error).words()).await,
            Ok(None) => return,
            Err(_) => teller.works().await,
        }
    }
}
