//! The kubeconfigs of the shoots: one watch on the seed for each name of a Secret.
//!
//! A thousand clusters whose policies name the same Secret cost one list at the start and one request each
//! minute, and a rotated kubeconfig is known immediately. The watch selects by
//! `metadata.name`, so that RBAC can limit `list` and `watch` by `resourceNames`. Only the
//! kubeconfig of a Secret is kept; nothing here shows it.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::StreamExt;
use kube::{
    Api, Client, ResourceExt as _,
    core::Status,
    runtime::{
        reflector::{ObjectRef, Store, reflector, store, store::Writer},
        watcher,
    },
};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::slim::{KEY, Secret};
use crate::{
    prober::node_lists::SEED_UNREADABLE,
    runtime::{
        seed::{is_for_lack_of_rights, told, with_causes},
        watches::{Cause, LARGE_OBJECTS_PER_PAGE, WATCH_SECONDS, is_partial, renewed},
    },
    shoot::{KubeconfigError, Unread},
};

mod slim;
#[cfg(test)]
mod tests;

/// The watches, one for each name that is in use. Clones share them.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
    watched: Arc<Mutex<HashMap<Arc<str>, Weak<Named>>>>,
    restarts: Counter,
}

impl Secrets {
    /// Starts without a watch. Watches use no budget: they are few, and must not wait. `restarts`
    /// counts those that break.
    pub fn new(client: Client, restarts: Counter) -> Self {
        Self {
            client,
            watched: Arc::default(),
            restarts,
        }
    }

    /// The Secrets of this name in all namespaces, watched until the last holder drops them.
    ///
    /// Must be called within a tokio runtime, on which the watch then lives.
    pub fn named(&self, name: &Arc<str>) -> Arc<Named> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = watched.get(name).and_then(Weak::upgrade) {
            return named;
        }
        watched.retain(|_, named| named.strong_count() > 0);
        let (secrets, writer) = store();
        let (sender, trouble) = watch::channel(None);
        let (client, restarts) = (self.client.clone(), self.restarts.clone());
        let task = tokio::spawn(follow(client, name.clone(), writer, sender, restarts));
        let named = Arc::new(Named {
            name: name.clone(),
            secrets,
            trouble,
            _task: AbortOnDropHandle::new(task),
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
    secrets: Store<Secret>,
    trouble: watch::Receiver<Option<Arc<str>>>,
    _task: AbortOnDropHandle<()>,
}

impl Named {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Says that the kubeconfig in the Secret of this namespace cannot be used.
    pub(crate) fn unusable(&self, namespace: &str, error: &KubeconfigError) -> Unread {
        let secret = format!("{namespace}/{}", self.name);
        let message = format!("the kubeconfig in the Secret {secret} cannot be used: {error}");
        Unread::new(error.reason(), message)
    }

    /// Returns the kubeconfig in the Secret of this namespace. Waits for the first list.
    ///
    /// # Errors
    ///
    /// If the list fails, or there is no usable kubeconfig.
    pub async fn kubeconfig(&self, namespace: &Arc<str>) -> Result<Arc<[u8]>, Unread> {
        let unread = |reason, problem: &str| {
            let message = format!("the Secret {namespace}/{} {problem}", self.name);
            Err(Unread::new(reason, message))
        };
        let mut trouble = self.trouble.clone();
        tokio::select! {
            biased;
            _ = self.secrets.wait_until_ready() => {}
            // Fails only if the watch has ended, which happens only when this value is dropped.
            Ok(trouble) = trouble.wait_for(Option::is_some) => {
                let why = trouble.clone().unwrap_or_default();
                return unread(SEED_UNREADABLE, &format!("could not be read from the seed: {why}"));
            }
        }
        let key = ObjectRef::new(&self.name).within(namespace);
        let found = self.secrets.get(&key);
        // A store also returns an object without a namespace, which would count for all clusters.
        let Some(found) = found.filter(|it| it.namespace().as_deref() == Some(namespace)) else {
            let remedy = "does not exist; create it, or correct kubeConfigSecretName in the policy";
            return unread("SecretMissing", remedy);
        };
        match &found.kubeconfig {
            Some(Ok(kubeconfig)) => Ok(kubeconfig.clone()),
            Some(Err(error)) => Err(self.unusable(namespace, error)),
            None => unread(
                "SecretKeyMissing",
                &format!("has no key {KEY:?}; put the kubeconfig there"),
            ),
        }
    }

    /// Why the watch broke; `None` once it works again.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.borrow().clone()
    }
}

/// Keeps the Secrets of one name up to date, and says why if that fails.
async fn follow(
    client: Client,
    name: Arc<str>,
    secrets: Writer<Secret>,
    trouble: watch::Sender<Option<Arc<str>>>,
    restarts: Counter,
) {
    let api: Api<Secret> = Api::all(client);
    let config = watcher::Config::default()
        .fields(&format!("metadata.name={name}"))
        .timeout(WATCH_SECONDS)
        .page_size(LARGE_OBJECTS_PER_PAGE);
    let events = renewed(|| watcher(api.clone(), config.clone()));
    let mut events = pin!(reflector(secrets, events));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) if is_partial(&event) => {}
            Ok(_) => {
                trouble.send_replace(None);
            }
            Err(error) => {
                let why = problem(&error, &name);
                if trouble.borrow().as_deref() == Some(&*why) {
                    tracing::debug!("the watch of the Secrets named {name} is still broken: {why}");
                } else {
                    tracing::warn!(
                        "the watch of the Secrets named {name} broke; it is resumed: {why}"
                    );
                }
                restarts.inc();
                trouble.send_replace(Some(why.into()));
            }
        }
    }
}

/// Describes the error of a watch, without anything that a Secret may hold.
fn problem(error: &watcher::Error, name: &str) -> String {
    match Cause::of(error) {
        Cause::Refused(status) => refusal(status, name),
        Cause::Unreadable(_) => "what came are no Secrets; check what answers there".to_owned(),
        Cause::Failed(error) => with_causes(error),
    }
}

fn refusal(status: &Status, name: &str) -> String {
    let remedy = match status.code {
        401 => "; renew the operator's own credentials".to_owned(),
        _ if is_for_lack_of_rights(status) => format!(
            "; grant the operator the verbs list and watch on secrets, with {name} in resourceNames"
        ),
        _ => String::new(),
    };
    format!("{} ({}){remedy}", told(status), status.code)
}
