//! Looks names up, few at once, and each once at a time.
//!
//! Nothing ends a lookup but the resolver's own patience, and each has a thread for as long. While the
//! seed's DNS is away, so are the names of all control planes at once: whoever asked for each of them
//! would fill the pool of threads, in which others then wait for theirs. And a few names that hang, asked
//! for again and again, would take the turns of all others.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::{
    sync::{Semaphore, watch},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

/// So many names are looked up at once, which is how many threads a DNS that is away can take.
const LOOKUPS: usize = 32;
/// Who has addresses from before waits for no longer than this after the lookup was asked for. An answer
/// takes milliseconds, or five seconds and more once a packet of it is lost; and a suspect's read, which
/// waits for it, may take 3.3 s with ordinary kubelets.
const SOON: Duration = Duration::from_secs(1);
/// A lookup for which there was no turn is not begun any more if nobody has asked for it for so long.
/// Whoever reads a shoot in vain asks again within this by the usual intervals, and keeps its place; but
/// kubeconfigs are others' input, and name what they like, as often as they like.
const WANTED: Duration = Duration::from_secs(60);
/// The addresses of so many names are remembered: of those that were asked for last.
const REMEMBERED: usize = 4096;
/// So many addresses of a name are remembered.
const ADDRESSES: usize = 8;

type Answer = Result<Arc<[SocketAddr]>, Failure>;
type Resolver = dyn Fn(Arc<str>) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Why a name has no address, for each who asked for it.
type Failure = (io::ErrorKind, Arc<str>);

/// Looks names up. Each who asks for names of another sort has one of its own, so that none waits for
/// the names of another. Clones are the same.
#[derive(Clone)]
pub struct Names(Arc<Inner>);

struct Inner {
    resolver: Box<Resolver>,
    turns: Semaphore,
    /// How many names are remembered.
    remembered: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    under_way: HashMap<Arc<str>, Lookup>,
    last: HashMap<Arc<str>, Last>,
}

/// A lookup that waits for its turn or for its answer.
#[derive(Clone)]
struct Lookup {
    since: Instant,
    /// When somebody last asked for it.
    asked_for: Instant,
    answer: watch::Receiver<Option<Answer>>,
}

/// What a name came to when there last was an answer.
struct Last {
    addresses: Arc<[SocketAddr]>,
    asked_for: Instant,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(system, 0)
    }
}

impl Names {
    /// The same for those who find out by themselves who has an address: when a name does not get its
    /// turn or its answer soon, or its lookup fails, they get the addresses that it had last, which may be
    /// somebody else's by now.
    pub(crate) fn remembering() -> Self {
        Self::new(system, REMEMBERED)
    }

    /// Looks names up by `resolver`, and remembers so many.
    pub fn new<F>(
        resolver: impl Fn(Arc<str>) -> F + Send + Sync + 'static,
        remembered: usize,
    ) -> Self
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        Self(Arc::new(Inner {
            resolver: Box::new(move |host| resolver(host).boxed()),
            turns: Semaphore::new(LOOKUPS),
            remembered,
            known: Mutex::default(),
        }))
    }

    /// The addresses of a host. Whoever asks while it is being looked up, or waits for that, gets the
    /// same answer. Nothing ends a lookup that has begun and for which nobody waits any more, and one
    /// that waits for its turn keeps its place for a while: who tries again finds it further on.
    pub(crate) async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let (mut lookup, last) = self.ask(host);
        let answer = lookup.answer.wait_for(Option::is_some);
        let answer = match &last {
            None => answer.await,
            Some(last) => match timeout_at(lookup.since + SOON, answer).await {
                Ok(answer) => answer,
                Err(_) => return Ok(at(last, port)),
            },
        };
        match (answer.as_deref(), last) {
            (Ok(Some(Ok(addresses))), _) => Ok(at(addresses, port)),
            (_, Some(last)) => Ok(at(&last, port)),
            (Ok(Some(Err((kind, text)))), None) => Err(io::Error::new(*kind, &**text)),
            (Ok(None) | Err(_), None) => Err(io::Error::other("the lookup was ended")),
        }
    }

    /// The lookup of this host, which is begun unless there is one; and the last addresses.
    fn ask(&self, host: &str) -> (Lookup, Option<Arc<[SocketAddr]>>) {
        let now = Instant::now();
        let mut known = self.known();
        let last = known.last.get_mut(host).map(|last| {
            last.asked_for = now;
            last.addresses.clone()
        });
        // The runtime of one that will never be answered has ended.
        let lookup = known.under_way.get_mut(host);
        if let Some(lookup) = lookup.filter(|it| it.answer.has_changed().is_ok()) {
            lookup.asked_for = now;
            return (lookup.clone(), last);
        }
        let host: Arc<str> = host.into();
        let lookup = Lookup {
            since: now,
            asked_for: now,
            answer: self.begin(host.clone()),
        };
        known.under_way.insert(host, lookup.clone());
        (lookup, last)
    }

    fn begin(&self, host: Arc<str>) -> watch::Receiver<Option<Answer>> {
        let (teller, answer) = watch::channel(None);
        let names = self.clone();
        tokio::spawn(async move {
            // It is never closed.
            let turn = names.0.turns.acquire().await;
            if names.forgo(&host, &teller) {
                return;
            }
            let found = (names.0.resolver)(host.clone()).await;
            drop(turn);
            let found = match found {
                Ok(addresses) => Ok(addresses.into()),
                Err(error) => Err((error.kind(), error.to_string().into())),
            };
            names.learn(host, &found);
            teller.send_replace(Some(found));
        });
        answer
    }

    /// Gives up the lookup of this host, whose turn it is, if nobody wants it any more; whether it did.
    fn forgo(&self, host: &str, teller: &watch::Sender<Option<Answer>>) -> bool {
        let mut known = self.known();
        // One receiver is kept here, all others are of those who wait.
        let is_left = |it: &Lookup| teller.receiver_count() == 1 && it.asked_for.elapsed() > WANTED;
        if !known.under_way.get(host).is_some_and(is_left) {
            return false;
        }
        known.under_way.remove(host);
        true
    }

    fn learn(&self, host: Arc<str>, found: &Answer) {
        let mut known = self.known();
        let (Some(lookup), Ok(addresses)) = (known.under_way.remove(&host), found) else {
            return;
        };
        let addresses: Arc<[SocketAddr]> = addresses.iter().copied().take(ADDRESSES).collect();
        if addresses.is_empty() || self.0.remembered == 0 {
            return;
        }
        let last = Last {
            addresses,
            asked_for: lookup.asked_for,
        };
        known.last.insert(host, last);
        if known.last.len() > self.0.remembered {
            let oldest = known.last.iter().min_by_key(|(_, last)| last.asked_for);
            if let Some(host) = oldest.map(|(host, _)| host.clone()) {
                known.last.remove(&host);
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn system(host: Arc<str>) -> io::Result<Vec<SocketAddr>> {
    let lookup = move || (&*host, 0).to_socket_addrs().map(Iterator::collect);
    spawn_blocking(lookup)
        .await
        .map_err(io::Error::other)
        .flatten()
}

fn at(addresses: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let mut addresses = addresses.to_vec();
    addresses.iter_mut().for_each(|it| it.set_port(port));
    addresses
}

#[cfg(test)]
pub(crate) mod tests;
