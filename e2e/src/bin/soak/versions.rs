//! Every version of the dependents, as an administrator's watch tells them.

use anyhow::{Result, bail};
use dependency_watchdog_e2e::farm::now;
use fake::oracle::versions::{Version, names};
use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt as _, watcher},
};
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::task::AbortOnDropHandle;

/// The version of a dependent of these shoots that is seen now; none of anything else.
pub(crate) fn version(object: &Deployment, shoots: &BTreeMap<String, usize>) -> Option<Version> {
    Version::of(&serde_json::to_value(object).ok()?, shoots, now())
}

/// Sees all versions from its start on. It ends with this value.
pub(crate) struct Versions {
    seen: Arc<Mutex<Vec<Version>>>,
    _task: AbortOnDropHandle<()>,
}

impl Versions {
    /// Starts it for so many shoots.
    pub(crate) fn start(client: &Client, shoots: usize) -> Self {
        let seen = Arc::<Mutex<Vec<Version>>>::default();
        let task = tokio::spawn(watch(client.clone(), names(shoots), Arc::clone(&seen)));
        Self {
            seen,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Every version so far, in order.
    pub(crate) fn history(&self) -> Vec<Version> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut history = seen.clone();
        drop(seen);
        history.sort_by_key(|it| it.version);
        history.dedup_by_key(|it| it.version);
        history
    }

    /// Fails unless it has seen what is there by now.
    pub(crate) fn ensure_newest(&self, there: &[Version]) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = there.iter().map(|it| it.version).max();
        if seen.iter().map(|it| it.version).max() < newest {
            bail!("the watch of the dependents has not caught up");
        }
        Ok(())
    }
}

async fn watch(client: Client, shoots: BTreeMap<String, usize>, seen: Arc<Mutex<Vec<Version>>>) {
    let all: Api<Deployment> = Api::all(client);
    let mut events = pin!(watcher(all, watcher::Config::default()).default_backoff());
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => {
                let version = version(&found, &shoots);
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend(version);
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::debug!("watch of the dependents: {error}"),
        }
    }
}
