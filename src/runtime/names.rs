//! Looks names up, few at once.
//!
//! Nothing ends a lookup but the resolver's own patience, and each has a thread for as long. While the
//! seed's DNS is away, so are the names of all control planes at once: whoever asked for each of them
//! would fill the pool of threads, in which others then wait for theirs.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use tokio::{sync::Semaphore, task::spawn_blocking};

/// So many names are looked up at once, which is how many threads a DNS that is away can take.
const LOOKUPS: usize = 32;

/// Looks names up. Each who asks for names of another sort has one of its own, so that none waits for
/// the names of another.
#[derive(Debug)]
pub(crate) struct Names(Arc<Semaphore>);

impl Default for Names {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

impl Names {
    /// The addresses of a host, when it is its turn. Whoever does not wait any more has it looked up
    /// for nothing if it has begun, and not at all if it has not.
    pub(crate) async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let host = host.to_owned();
        let lookup = move || (host, port).to_socket_addrs().map(Iterator::collect);
        self.at_turn(lookup).await
    }

    async fn at_turn<T: Send + 'static>(
        &self,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        // It is never closed.
        let turn = self.0.clone().acquire_owned().await.ok();
        let lookup = spawn_blocking(move || {
            // A lookup that nobody waits for any more takes its turn along.
            let _turn = turn;
            lookup()
        });
        lookup.await.map_err(io::Error::other).flatten()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        sync::{Mutex, mpsc},
        time::Duration,
    };

    use tokio::{sync::OwnedSemaphorePermit, time::timeout};

    use super::*;

    /// Takes all turns for as long as the value lives.
    pub(crate) async fn take_all(names: &Names) -> OwnedSemaphorePermit {
        let all = LOOKUPS.try_into().unwrap();
        names.0.clone().acquire_many_owned(all).await.unwrap()
    }

    /// However many lookups hang, they take few threads, and nobody who waits is kept.
    #[tokio::test]
    async fn a_dns_that_hangs_takes_few_threads() {
        let names = Names::default();
        let (released, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let lookups = (0..1000).map(|_| {
            let hang = hang.clone();
            let lookup = names.at_turn(move || {
                let _ = hang.lock().unwrap().recv();
                Ok(())
            });
            timeout(Duration::from_millis(50), lookup)
        });
        for told in futures::future::join_all(lookups).await {
            assert!(told.is_err());
        }
        assert_eq!(names.0.available_permits(), 0);
        drop(released);
        // They end, and give back what they took.
        drop(take_all(&names).await);
    }

    #[tokio::test]
    async fn a_name_is_looked_up() {
        let names = Names::default();
        let found = names.look_up("localhost", 80).await.unwrap();
        assert!(
            found
                .iter()
                .all(|it| it.ip().is_loopback() && it.port() == 80)
        );
        assert!(!found.is_empty());
        names.look_up("no-such-host.invalid", 80).await.unwrap_err();
    }
}
