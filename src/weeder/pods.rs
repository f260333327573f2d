//! The watches of pods: one task each, as long as it is wanted.
//!
//! They go past the budget, as all watches do: there are few, and a pod that is to be deleted at once
//! must not wait for statuses to be written. What they tell goes through one channel that holds
//! little, so that a list of many pods waits for whoever takes it in, and not in memory.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use kube::{
    Api, Client,
    runtime::watcher::{Event, watcher},
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{pod::Pod, scopes::PodWatch};
use crate::runtime::watch::{Cause, WatchState, Watches, watch_config};

/// A Pod has some ten kilobytes, of which little is kept.
const PODS_PER_PAGE: u32 = 200;
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
    watches: Watches,
    tasks: BTreeMap<PodWatch, AbortOnDropHandle<()>>,
    sender: mpsc::Sender<(PodWatch, PodWatchNews)>,
    told: mpsc::Receiver<(PodWatch, PodWatchNews)>,
}

impl PodWatches {
    /// None yet.
    pub(super) fn new(client: Client, watches: Watches) -> Self {
        let (sender, told) = mpsc::channel(WAITING);
        Self {
            client,
            watches,
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
            let (client, sender) = (self.client.clone(), self.sender.clone());
            let namespace = watch.namespace.as_deref().unwrap_or("all namespaces");
            let what = format!("Pods with {} in {namespace}", watch.selector.brief());
            let state = self.watches.one_of("Pods", what);
            let task = tokio::spawn(keep(client, watch.clone(), state, sender));
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

/// Follows the pods for ever, and tells what becomes of that.
async fn keep(
    client: Client,
    watch: PodWatch,
    state: WatchState,
    sender: mpsc::Sender<(PodWatch, PodWatchNews)>,
) {
    // Nobody listens any more only when this task is about to be ended.
    let tell = async |news| drop(sender.send((watch.clone(), news)).await);
    let api: Api<Pod> = match &watch.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let config = watch_config().labels(watch.selector.as_str());
    let mut events = state.follow(watcher(api, config.page_size(PODS_PER_PAGE)));
    let mut changes = state.changes();
    let mut known = None;
    loop {
        let event = tokio::select! {
            biased;
            Ok(()) = changes.changed() => None,
            Some(event) = events.next() => Some(event),
            else => return,
        };
        let outage = changes.borrow_and_update().outage().map(Cause::words);
        if outage != known {
            known.clone_from(&outage);
            tell(outage.map_or(PodWatchNews::Works, PodWatchNews::Broke)).await;
        }
        if let Some(event) = event {
            tell(PodWatchNews::Event(Box::new(event))).await;
        }
    }
}
