//! The kubeconfigs of the shoots: one watch on the seed for each name of a Secret.
//!
//! A thousand clusters whose policies name the same Secret cost one list at the start and one request each
//! minute, and a rotated kubeconfig is known immediately. The watch selects by
//! `metadata.name`, so that RBAC can limit `list` and `watch` by `resourceNames`. Only the
//! kubeconfig of a Secret is kept; nothing here shows it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use futures::StreamExt as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt as _, runtime::watcher};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    runtime::watch::{Change, Changes, State, Watches, large_watch_config},
    shoot::{MAX_KUBECONFIG_BYTES, SEED_UNREADABLE, Unread},
};

#[cfg(test)]
mod tests;

/// The key of the kubeconfig.
const KEY: &str = "kubeconfig";

/// The namespace of a Secret and its kubeconfig, if it has one.
type Kubeconfig = (Box<str>, Option<Arc<[u8]>>);
/// The kubeconfigs in the Secrets of one name, by namespace.
type Kubeconfigs = HashMap<Box<str>, Option<Arc<[u8]>>>;

/// The watches, one for each name that is in use. Clones share them.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
    watched: Arc<Mutex<HashMap<Arc<str>, Weak<Named>>>>,
    watches: Watches,
}

impl Secrets {
    /// Starts without a watch. Watches use no budget: they are few, and must not wait.
    pub fn new(client: Client, watches: Watches) -> Self {
        Self {
            client,
            watched: Arc::default(),
            watches,
        }
    }

    /// The Secrets of this name in all namespaces, watched until the last holder drops them.
    ///
    /// Must be called within a tokio runtime, on which the watch then lives.
    pub fn named(&self, name: &Arc<str>) -> Arc<Named> {
        let mut watched = self.watched.lock();
        if let Some(named) = watched.get(name).and_then(Weak::upgrade) {
            return named;
        }
        watched.retain(|_, named| named.strong_count() > 0);
        let state = self
            .watches
            .one_of("Secrets", format!("Secrets named {name}"));
        let config = large_watch_config().fields(&format!("metadata.name={name}"));
        let api: Api<Secret> = Api::all(self.client.clone());
        let (kept, kubeconfigs) = watch::channel(None);
        let changes = state.follow(watcher(api, config), |it| (kubeconfig_of(it), true));
        let named = Arc::new(Named {
            name: name.clone(),
            kubeconfigs,
            state: state.states(),
            _task: AbortOnDropHandle::new(tokio::spawn(keep(changes, kept))),
        });
        watched.insert(name.clone(), Arc::downgrade(&named));
        named
    }
}

/// The Secrets of one name.
///
/// What was listed once stays valid while the watch is broken: an unreachable seed says nothing
/// about a Secret, and a cluster in need of protection must not be given up for it. The shoot
/// itself refuses a kubeconfig that was withdrawn meanwhile.
pub struct Named {
    name: Arc<str>,
    /// `None` until they have been listed.
    kubeconfigs: watch::Receiver<Option<Kubeconfigs>>,
    state: watch::Receiver<State>,
    _task: AbortOnDropHandle<()>,
}

impl Named {
    /// Says that the kubeconfig in the Secret of this namespace cannot be used.
    pub(crate) fn unusable(&self, namespace: &str, error: &Unread) -> Unread {
        let secret = format!("{namespace}/{}", self.name);
        let message = format!("the kubeconfig in the Secret {secret} cannot be used: {error}");
        Unread::new(error.reason, message)
    }

    /// Returns the kubeconfig in the Secret of this namespace. Waits for the first list.
    ///
    /// # Errors
    ///
    /// If the list fails, or there is no kubeconfig.
    pub async fn kubeconfig(&self, namespace: &str) -> Result<Arc<[u8]>, Unread> {
        let unread = |reason, problem: &str| {
            let message = format!("the Secret {namespace}/{} {problem}", self.name);
            Err(Unread::new(reason, message))
        };
        let (mut kubeconfigs, mut state) = (self.kubeconfigs.clone(), self.state.clone());
        let found = tokio::select! {
            biased;
            // Fails only if the watch has ended, which happens only when this value is dropped.
            Ok(kubeconfigs) = kubeconfigs.wait_for(Option::is_some) => {
                kubeconfigs.as_ref().and_then(|them| them.get(namespace).cloned())
            }
            Ok(state) = state.wait_for(|state| state.cause.is_some()) => {
                let why = state.cause.as_ref().map(ToString::to_string).unwrap_or_default();
                return unread(SEED_UNREADABLE, &format!("could not be read from the seed: {why}"));
            }
            else => None,
        };
        match found {
            Some(Some(kubeconfig)) => Ok(kubeconfig),
            Some(None) => unread(
                "SecretKeyMissing",
                &format!("has no key {KEY:?}; put the kubeconfig there"),
            ),
            None => unread(
                "SecretMissing",
                "does not exist; create it, or correct kubeConfigSecretName in the policy",
            ),
        }
    }
}

/// Keeps the kubeconfigs that these changes leave.
async fn keep(mut changes: Changes<Kubeconfig>, kept: watch::Sender<Option<Kubeconfigs>>) {
    while let Some(change) = changes.next().await {
        kept.send_modify(|kept| {
            let kept = kept.get_or_insert_default();
            match change {
                Change::All(list) => *kept = list.into_iter().collect(),
                Change::Put(kubeconfig) => kept.extend([kubeconfig]),
                Change::Gone((namespace, _)) => drop(kept.remove(&namespace)),
            }
        });
    }
}

/// The namespace of a Secret and the kubeconfig in it; of one that is too large what shows no more than that.
fn kubeconfig_of(secret: Secret) -> Kubeconfig {
    let namespace = secret.namespace().unwrap_or_default();
    let kubeconfig = secret.data.and_then(|mut data| data.remove(KEY));
    let kubeconfig = kubeconfig.map(|ByteString(mut kubeconfig)| {
        kubeconfig.truncate(MAX_KUBECONFIG_BYTES + 1);
        kubeconfig.into()
    });
    (namespace.into(), kubeconfig)
}
