//! Looks names up, few at once, and each once at a time.
//!
//! Nothing ends a lookup but the resolver's own patience, and each has a thread for as long. While the
//! seed's DNS is away, so are the names of all control planes at once: whoever asked for each of them
//! would fill the pool of threads, in which others then wait for theirs.

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::{
    net::lookup_host,
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// Most lookups at the same time, which is how many threads a DNS that is away can take.
const LOOKUPS: usize = 32;
/// Time after which addresses of before are used by those who may, if the lookup has not ended. An answer
/// takes milliseconds, or five seconds and more once a packet of it is lost; and a suspect's read, which
/// waits for it, may take 3.3 s with ordinary kubelets.
const SOON: Duration = Duration::from_secs(1);
/// Most names that are remembered; then all are forgotten. Kubeconfigs are others' input, and name what they like, as
/// often as they like.
const REMEMBERED: usize = 4096;
/// Most addresses of a name that are used.
const ADDRESSES: usize = 16;

type Addresses = Arc<[SocketAddr]>;
type Lookup = Shared<BoxFuture<'static, Result<Addresses, Arc<io::Error>>>>;
type Resolver = dyn Fn(Arc<str>) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Looks names up. Names of another sort have another of these, so that none waits for the names of another.
pub struct Names {
    resolver: Arc<Resolver>,
    turns: Arc<Semaphore>,
    known: Mutex<HashMap<Arc<str>, Name>>,
}

#[derive(Clone)]
struct Name {
    /// The newest, under way or ended.
    lookup: Lookup,
    since: Instant,
    /// Addresses that the lookups before it found.
    last: Option<Addresses>,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(async |host| lookup_host((&*host, 0)).await.map(Iterator::collect))
    }
}

impl Names {
    /// Looks names up by this function.
    pub fn new<F>(resolver: impl Fn(Arc<str>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        Self {
            resolver: Arc::new(move |host| resolver(host).boxed()),
            turns: Arc::new(Semaphore::new(LOOKUPS)),
            known: Mutex::default(),
        }
    }

    /// Returns the addresses of a host, at port 0. Whoever asks while it is being looked up, or waits for that, gets the
    /// same answer. A lookup goes on if nobody waits for it any more: who tries again finds it further on.
    pub(crate) async fn look_up(&self, host: &str) -> io::Result<Addresses> {
        self.ask(host).lookup.await.map_err(of_all)
    }

    /// Returns the same for those who find out by themselves who has an address: if the lookup fails or takes long, the
    /// addresses that the host had last, which may be somebody else's by now.
    pub(crate) async fn look_up_or_last(&self, host: &str) -> io::Result<Addresses> {
        let name = self.ask(host);
        let Some(last) = name.last else {
            return name.lookup.await.map_err(of_all);
        };
        let answer = timeout_at(name.since + SOON, name.lookup).await;
        Ok(answer.ok().and_then(Result::ok).unwrap_or(last))
    }

    /// The lookup of this host that is under way, or a new one.
    fn ask(&self, host: &str) -> Name {
        let mut known = self.known.lock();
        let last = match known.get(host) {
            None => None,
            Some(name) => match name.lookup.clone().now_or_never() {
                None => return name.clone(),
                Some(answer) => answer.ok().or_else(|| name.last.clone()),
            },
        };
        let (host, since) = (Arc::<str>::from(host), Instant::now());
        let lookup = self.begin(host.clone());
        let name = Name {
            lookup,
            since,
            last,
        };
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(host, name.clone());
        name
    }

    fn begin(&self, host: Arc<str>) -> Lookup {
        let (resolver, turns) = (self.resolver.clone(), self.turns.clone());
        let answer = tokio::spawn(async move {
            // It is never closed.
            let _turn = turns.acquire().await;
            let mut found = resolver(host).await?;
            found.truncate(ADDRESSES);
            Ok(found.into())
        });
        let answer = answer.map(|it| it.map_err(io::Error::other).flatten().map_err(Arc::new));
        answer.boxed().shared()
    }
}

/// The error that all who asked are told.
fn of_all(error: Arc<io::Error>) -> io::Error {
    io::Error::new(error.kind(), error)
}

#[cfg(test)]
mod tests;
