//! The kubeconfigs of the shoots: one watch on the seed for each name of a Secret.
//!
//! A thousand clusters whose policies name the same Secret cost one list at the start and nothing
//! while nothing changes, and a rotated kubeconfig is known immediately. The watch selects by
//! `metadata.name`, so that RBAC can limit `list` and `watch` by `resourceNames`. Only the
//! kubeconfig of a Secret is kept; nothing here shows it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, ResourceExt as _,
    core::Status,
    runtime::{
        reflector::{ObjectRef, Store, store, store::Writer},
        watcher,
    },
};
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use self::slim::{KEY, Secret};
use crate::{
    runtime::{
        answers::LARGE_OBJECTS_PER_PAGE,
        seed::{is_for_lack_of_rights, told, with_causes},
        watches::{Cause, patient},
    },
    shoot::KubeconfigError,
};

mod slim;
#[cfg(test)]
mod tests;

/// Time for one page of the list. A list that is never answered would leave every shoot unread.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// Why there is no kubeconfig. Each variant has `namespace/name` of the Secret; each message says
/// what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The Secret does not exist.
    #[error(
        "the Secret {0} does not exist; create it, or correct kubeConfigSecretName in the policy"
    )]
    Missing(String),
    /// The Secret has no kubeconfig.
    #[error("the Secret {0} has no key {KEY:?}; put the kubeconfig there")]
    KeyMissing(String),
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig in the Secret {0} cannot be used: {1}")]
    Kubeconfig(String, KubeconfigError),
    /// The list on the seed failed.
    #[error("the Secret {0} could not be read from the seed: {1}")]
    Unread(String, Arc<str>),
}

impl SecretError {
    /// The reason, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing(_) => "SecretMissing",
            Self::KeyMissing(_) => "SecretKeyMissing",
            Self::Kubeconfig(_, error) => error.reason(),
            Self::Unread(..) => "SeedUnreadable",
        }
    }
}

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
        let (state, receiver) = watch::channel(State::default());
        let follower = Follower {
            name: name.clone(),
            secrets: writer,
            state,
            restarts: self.restarts.clone(),
        };
        let task = tokio::spawn(follower.run(self.client.clone()));
        let named = Arc::new(Named {
            name: name.clone(),
            secrets,
            state: receiver,
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
    state: watch::Receiver<State>,
    _task: AbortOnDropHandle<()>,
}

impl Named {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The Secret of this namespace, as messages name it.
    pub(crate) fn within(&self, namespace: &str) -> String {
        format!("{namespace}/{}", self.name)
    }

    /// Returns the kubeconfig in the Secret of this namespace. Waits for the first list.
    ///
    /// # Errors
    ///
    /// If the list fails, or there is no usable kubeconfig.
    pub async fn kubeconfig(&self, namespace: &Arc<str>) -> Result<Arc<[u8]>, SecretError> {
        let mut state = self.state.clone();
        // Fails only if the watch has ended, which happens only when this value is dropped.
        let _ = state
            .wait_for(|state| state.listed || state.trouble.is_some())
            .await;
        let secret = self.within(namespace);
        let state = state.borrow();
        if !state.listed {
            return Err(SecretError::Unread(
                secret,
                state.trouble.clone().unwrap_or_default(),
            ));
        }
        let key = ObjectRef::new(&self.name).within(namespace);
        let found = self.secrets.get(&key);
        // A store also returns an object without a namespace, which would count for all clusters.
        let Some(found) = found.filter(|it| it.namespace().as_deref() == Some(namespace)) else {
            return Err(SecretError::Missing(secret));
        };
        match &found.kubeconfig {
            Some(Ok(kubeconfig)) => Ok(kubeconfig.clone()),
            Some(Err(error)) => Err(SecretError::Kubeconfig(secret, error.clone())),
            None => Err(SecretError::KeyMissing(secret)),
        }
    }

    /// Why the watch broke; `None` once it works again.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.state.borrow().trouble.clone()
    }
}

/// The state of a watch.
#[derive(Default)]
struct State {
    listed: bool,
    trouble: Option<Arc<str>>,
}

/// Keeps the Secrets of one name up to date.
struct Follower {
    name: Arc<str>,
    secrets: Writer<Secret>,
    state: watch::Sender<State>,
    restarts: Counter,
}

impl Follower {
    async fn run(mut self, client: Client) {
        loop {
            let api: Api<Secret> = Api::all(client.clone());
            let config = watcher::Config::default()
                .fields(&format!("metadata.name={}", self.name))
                .page_size(LARGE_OBJECTS_PER_PAGE);
            let trouble = self.follow(Box::pin(patient(watcher(api, config)))).await;
            self.troubled(&trouble);
        }
    }

    /// Stores the events of a watch until a list is not answered; returns what to report then.
    async fn follow(
        &mut self,
        mut events: impl Stream<Item = watcher::Result<watcher::Event<Secret>>> + Unpin,
    ) -> String {
        let mut listing = false;
        loop {
            let next = if listing {
                timeout(PAGE_LIMIT, events.next()).await
            } else {
                // A watch is silent while nothing changes.
                Ok(events.next().await)
            };
            match next {
                Ok(Some(Ok(event))) => {
                    // A list takes effect as a whole, when it is complete.
                    self.secrets.apply_watcher_event(&event);
                    listing = matches!(event, watcher::Event::Init | watcher::Event::InitApply(_));
                    if !listing {
                        self.state.send_modify(|state| {
                            (state.listed, state.trouble) = (true, None);
                        });
                    }
                }
                Ok(Some(Err(error))) => {
                    self.troubled(&problem(&error, &self.name));
                    listing = false;
                }
                Ok(None) => return "the watch has ended".to_owned(),
                Err(_) => return format!("the list was not answered within {PAGE_LIMIT:?}"),
            }
        }
    }

    fn troubled(&self, trouble: &str) {
        let name = &self.name;
        if self.state.borrow().trouble.as_deref() == Some(trouble) {
            tracing::debug!("the watch of the Secrets named {name} is still broken: {trouble}");
        } else {
            tracing::warn!("the watch of the Secrets named {name} broke; it is resumed: {trouble}");
        }
        self.restarts.inc();
        self.state
            .send_modify(|state| state.trouble = Some(trouble.into()));
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
