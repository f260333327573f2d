//! The kubeconfigs of the shoots: one watch on the seed for each name of a Secret.
//!
//! A thousand clusters whose policies name the same Secret cost one list at the start and one request each
//! minute, and a rotated kubeconfig is known immediately. The watch selects by
//! `metadata.name`, so that RBAC can limit `list` and `watch` by `resourceNames`. Only the
//! kubeconfig of a Secret is kept; nothing here shows it.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::StreamExt;
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt as _,
    core::Status,
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, Store, reflector, store},
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    runtime::{
        seed::{is_for_lack_of_rights, told},
        watch::{Cause, State, Watches, large_watch_config},
    },
    shoot::{KubeconfigError, MAX_KUBECONFIG_BYTES, SEED_UNREADABLE, Unread},
};

#[cfg(test)]
mod tests;

/// The key of the kubeconfig.
const KEY: &str = "kubeconfig";

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
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = watched.get(name).and_then(Weak::upgrade) {
            return named;
        }
        watched.retain(|_, named| named.strong_count() > 0);
        let (secrets, writer) = store();
        let state = self
            .watches
            .one_of("Secrets", format!("Secrets named {name}"));
        let config = large_watch_config().fields(&format!("metadata.name={name}"));
        let api: Api<Secret> = Api::all(self.client.clone());
        let events = state.follow(watcher(api, config));
        let (listed, is_listed) = watch::channel(false);
        let events = events
            .map(Ok::<_, watcher::Error>)
            .modify(keep_the_kubeconfig);
        let stored = reflector(writer, events);
        let stored = stored.for_each(move |event| {
            if matches!(event, Ok(Event::InitDone)) {
                listed.send_replace(true);
            }
            ready(())
        });
        let named = Arc::new(Named {
            name: name.clone(),
            secrets,
            is_listed,
            state: state.changes(),
            _task: AbortOnDropHandle::new(tokio::spawn(stored)),
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
    /// Completeness of the store. kube's store itself wakes only one of those that wait for it.
    is_listed: watch::Receiver<bool>,
    state: watch::Receiver<State>,
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

    /// Returns the Secret of this namespace, which has a kubeconfig. Waits for the first list.
    ///
    /// # Errors
    ///
    /// If the list fails, or there is no kubeconfig.
    pub async fn secret(&self, namespace: &Arc<str>) -> Result<Arc<Secret>, Unread> {
        let unread = |reason, problem: &str| {
            let message = format!("the Secret {namespace}/{} {problem}", self.name);
            Err(Unread::new(reason, message))
        };
        let (mut is_listed, mut state) = (self.is_listed.clone(), self.state.clone());
        tokio::select! {
            biased;
            // Fails only if the watch has ended, which happens only when this value is dropped.
            _ = is_listed.wait_for(|is_listed| *is_listed) => {}
            Ok(state) = state.wait_for(|state| state.cause().is_some()) => {
                let why = state.cause().map(|cause| problem(cause, &self.name)).unwrap_or_default();
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
        match kubeconfig_of(&found) {
            Some(_) => Ok(found),
            None => unread(
                "SecretKeyMissing",
                &format!("has no key {KEY:?}; put the kubeconfig there"),
            ),
        }
    }

    /// Why the watch broke; `None` once it works again.
    pub(crate) fn trouble(&self) -> Option<String> {
        let state = self.state.borrow();
        state.cause().map(|cause| problem(cause, &self.name))
    }
}

/// The kubeconfig in a Secret.
pub(crate) fn kubeconfig_of(secret: &Secret) -> Option<&[u8]> {
    let ByteString(kubeconfig) = secret.data.as_ref()?.get(KEY)?;
    Some(kubeconfig)
}

/// Drops all but the kubeconfig of a Secret, and of one that is too large what shows no more than that.
fn keep_the_kubeconfig(secret: &mut Secret) {
    let mut data = secret.data.take().unwrap_or_default();
    data.retain(|key, _| key == KEY);
    for ByteString(kubeconfig) in data.values_mut() {
        kubeconfig.truncate(MAX_KUBECONFIG_BYTES + 1);
    }
    *secret = Secret {
        metadata: ObjectMeta {
            // A store of Secrets needs one, whatever a seed sends.
            name: Some(secret.name_any()),
            namespace: secret.namespace(),
            resource_version: secret.resource_version(),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..Secret::default()
    };
}

/// Describes why a watch broke, without anything that a Secret may hold.
fn problem(cause: &Cause, name: &str) -> String {
    match cause {
        Cause::Refused(status) => refusal(status, name),
        Cause::Failed(words) => words.clone(),
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
