//! The kubeconfigs of the shoots: one watch on the seed for each name of a Secret.
//!
//! A thousand clusters whose policies name the same Secret cost one list at the start and nothing
//! while nothing changes, and a rotated kubeconfig is known at once. The watch selects by
//! `metadata.name`, so that RBAC can limit `list` and `watch` by `resourceNames`. Of a Secret only
//! the kubeconfig is kept; nothing here shows it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::{Stream, StreamExt};
use kube::{Api, Client, ResourceExt as _, core::Status, runtime::watcher};
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
    shoot::{KubeconfigError, MAX_KUBECONFIG_BYTES},
};

mod slim;
#[cfg(test)]
mod tests;

/// For one page of the list. An answer that never comes must not leave every shoot unread.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// Why there is no kubeconfig. Each message names the Secret and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The Secret does not exist.
    #[error(
        "the Secret {namespace}/{name} does not exist; create it, or correct kubeConfigSecretName \
         in the policy"
    )]
    Missing {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// The Secret has no kubeconfig.
    #[error("the Secret {namespace}/{name} has no key {KEY:?}; put the kubeconfig there")]
    KeyMissing {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig in the Secret {namespace}/{name} cannot be used: {source}")]
    Kubeconfig {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// The Secrets of this name could not be listed on the seed.
    #[error("the Secret {namespace}/{name} could not be read from the seed: {message}")]
    Unread {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// What came back.
        message: Arc<str>,
    },
}

impl SecretError {
    /// The reason, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "SecretMissing",
            Self::KeyMissing { .. } => "SecretKeyMissing",
            Self::Kubeconfig { source, .. } => source.reason(),
            Self::Unread { .. } => "SeedUnreadable",
        }
    }
}

/// The watches, one for each name that is in use. Clones are the same.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
    watched: Arc<Mutex<HashMap<Arc<str>, Weak<Named>>>>,
    restarts: Counter,
}

impl Secrets {
    /// No watch yet. Watches go past any budget: they are few, and must not wait. Those that break
    /// are counted by `restarts`.
    pub fn new(client: Client, restarts: Counter) -> Self {
        Self {
            client,
            watched: Arc::default(),
            restarts,
        }
    }

    /// The Secrets of this name in all namespaces, watched for as long as anybody has them.
    ///
    /// Must be called within a tokio runtime, on which the watch then lives.
    pub fn named(&self, name: &Arc<str>) -> Arc<Named> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(named) = watched.get(name).and_then(Weak::upgrade) {
            return named;
        }
        watched.retain(|_, named| named.strong_count() > 0);
        let (known, receiver) = watch::channel(Known::default());
        let teller = Teller {
            name: name.clone(),
            known,
            restarts: self.restarts.clone(),
        };
        let task = tokio::spawn(keep(self.client.clone(), teller));
        let named = Arc::new(Named {
            name: name.clone(),
            known: receiver,
            _task: AbortOnDropHandle::new(task),
        });
        watched.insert(name.clone(), Arc::downgrade(&named));
        named
    }
}

/// The Secrets of one name.
pub struct Named {
    name: Arc<str>,
    known: watch::Receiver<Known>,
    _task: AbortOnDropHandle<()>,
}

impl Named {
    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The kubeconfig in the Secret of this namespace. It is the same allocation until it changes.
    /// Waits for the first list.
    ///
    /// # Errors
    ///
    /// If the list fails, or there is no usable kubeconfig.
    pub async fn kubeconfig(&self, namespace: &Arc<str>) -> Result<Arc<[u8]>, SecretError> {
        let mut known = self.known.clone();
        let (namespace, name) = (namespace.clone(), self.name.clone());
        // It fails only if the watch has ended, which it does with this value.
        let _ = known.wait_for(Known::is_told).await;
        let known = known.borrow();
        if !known.listed {
            let message = known.trouble.clone().unwrap_or_default();
            return Err(SecretError::Unread {
                namespace,
                name,
                message,
            });
        }
        match known.held.get(&*namespace) {
            Some(Held::Kubeconfig(kubeconfig)) => Ok(kubeconfig.clone()),
            Some(Held::NoKey) => Err(SecretError::KeyMissing { namespace, name }),
            Some(Held::TooLarge { bytes }) => Err(SecretError::Kubeconfig {
                namespace,
                name,
                source: KubeconfigError::TooLarge { bytes: *bytes },
            }),
            None => Err(SecretError::Missing { namespace, name }),
        }
    }

    /// Why the watch broke, if it has told nothing since.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.known.borrow().trouble.clone()
    }
}

/// What a watch has told.
///
/// What was listed once stands while the watch is broken: that the seed cannot be asked says
/// nothing about a Secret, and a cluster in need of protection must not be given up for it. A
/// kubeconfig that has been withdrawn meanwhile is for the shoot to refuse.
#[derive(Default)]
struct Known {
    listed: bool,
    trouble: Option<Arc<str>>,
    /// By namespace.
    held: HashMap<String, Held>,
}

impl Known {
    fn is_told(&self) -> bool {
        self.listed || self.trouble.is_some()
    }
}

/// What is kept of a Secret.
#[derive(Clone)]
enum Held {
    Kubeconfig(Arc<[u8]>),
    NoKey,
    TooLarge { bytes: usize },
}

impl Held {
    /// What a Secret holds; the allocation of `before` is kept if the kubeconfig is the same.
    fn new(secret: Secret, before: Option<&Self>) -> Self {
        match (secret.kubeconfig, before) {
            (None, _) => Self::NoKey,
            (Some(new), _) if new.len() > MAX_KUBECONFIG_BYTES => {
                Self::TooLarge { bytes: new.len() }
            }
            (Some(new), Some(Self::Kubeconfig(old))) if **old == *new => {
                Self::Kubeconfig(old.clone())
            }
            (Some(new), _) => Self::Kubeconfig(new.into()),
        }
    }
}

/// The end of a watch at which it is told what is known of the Secrets of one name.
struct Teller {
    name: Arc<str>,
    known: watch::Sender<Known>,
    restarts: Counter,
}

impl Teller {
    fn troubled(&self, trouble: &str) {
        let name = &self.name;
        if self.known.borrow().trouble.as_deref() == Some(trouble) {
            tracing::debug!("the watch of the Secrets named {name} is still broken: {trouble}");
        } else {
            tracing::warn!("the watch of the Secrets named {name} broke; it is resumed: {trouble}");
        }
        self.restarts.inc();
        self.known
            .send_modify(|known| known.trouble = Some(trouble.into()));
    }
}

/// Keeps what is known of the Secrets of one name up to date, for ever.
async fn keep(client: Client, teller: Teller) {
    loop {
        let api: Api<Secret> = Api::all(client.clone());
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={}", teller.name))
            .page_size(LARGE_OBJECTS_PER_PAGE);
        let events = Box::pin(patient(watcher(api, config)));
        let trouble = follow(events, &teller).await;
        teller.troubled(&trouble);
    }
}

/// Takes in what a watch tells, until a list gets no answer; returns what to say then.
async fn follow(
    mut events: impl Stream<Item = watcher::Result<watcher::Event<Secret>>> + Unpin,
    teller: &Teller,
) -> String {
    let known = &teller.known;
    // A list takes effect as a whole: until it is complete, what was known stands.
    let mut list = None;
    loop {
        let next = if list.is_some() {
            timeout(PAGE_LIMIT, events.next()).await
        } else {
            // A watch may be silent for as long as nothing changes.
            Ok(events.next().await)
        };
        let event = match next {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) => {
                teller.troubled(&problem(&error, &teller.name));
                list = None;
                continue;
            }
            Ok(None) => return "the watch has ended".to_owned(),
            Err(_) => return format!("the list was not answered within {PAGE_LIMIT:?}"),
        };
        match event {
            watcher::Event::Init => list = Some(HashMap::new()),
            watcher::Event::InitApply(secret) => {
                if let (Some(list), Some(namespace)) = (&mut list, secret.namespace()) {
                    let held = Held::new(secret, known.borrow().held.get(&namespace));
                    list.insert(namespace, held);
                }
            }
            watcher::Event::InitDone => {
                let held = list.take().unwrap_or_default();
                known.send_modify(|known| {
                    *known = Known {
                        listed: true,
                        trouble: None,
                        held,
                    };
                });
            }
            watcher::Event::Apply(secret) => known.send_modify(|known| {
                known.trouble = None;
                if let Some(namespace) = secret.namespace() {
                    let held = Held::new(secret, known.held.get(&namespace));
                    known.held.insert(namespace, held);
                }
            }),
            // Access was withdrawn: whoever asks next gets none.
            watcher::Event::Delete(secret) => known.send_modify(|known| {
                known.trouble = None;
                if let Some(namespace) = secret.namespace() {
                    known.held.remove(&namespace);
                }
            }),
        }
    }
}

/// What went wrong with a watch, without anything that a Secret may hold.
fn problem(error: &watcher::Error, name: &str) -> String {
    match Cause::of(error) {
        Cause::Refused(status) => refusal(status, name),
        Cause::Unreadable(_) => "what came are no Secrets; check what answers there".to_owned(),
        Cause::Failed(error) => with_causes(error),
    }
}

fn refusal(status: &Status, name: &str) -> String {
    let (message, code) = (told(status), status.code);
    let remedy = match code {
        401 => "; renew the operator's own credentials",
        _ if is_for_lack_of_rights(status) => {
            return format!(
                "{message} ({code}); grant the operator the verbs list and watch on secrets, with \
                 {name} in resourceNames"
            );
        }
        _ => "",
    };
    format!("{message} ({code}){remedy}")
}
