//! Whom a request or a connection goes to.
//!
//! A name that does not resolve, or not in time, tells nothing of who has it: the seed's DNS may be
//! away, and with it the names of all control planes at once.

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};

use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::output::bounded;

/// So many names are looked up at once. Nothing ends a lookup but the resolver's own patience, so
/// this is also how many threads a DNS that is away can take.
const LOOKUPS: usize = 32;
const MAX_CAUSE: usize = 120;

/// A port of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Target {
    /// A port of a Service in this namespace, or else of a host.
    pub fn of(namespace: &str, service: Option<&str>, host: Option<&str>, port: i32) -> Self {
        let host = match service {
            Some(service) => format!("{service}.{namespace}.svc"),
            None => host.unwrap_or_default().to_owned(),
        };
        Self {
            host,
            // The schema has no others; nothing answers at 0.
            port: u16::try_from(port).unwrap_or_default(),
        }
    }

    /// As in a URL and in the header Host: `example.org:80`, `[::1]:80`.
    pub fn authority(&self) -> String {
        let Self { host, port } = self;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

/// Looks names up.
#[derive(Debug)]
pub(super) struct Names(Arc<Semaphore>);

impl Default for Names {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

impl Names {
    /// The addresses of a target, by then, or why there is none.
    pub(super) async fn resolve(
        &self,
        target: &Target,
        until: Instant,
    ) -> Result<Vec<SocketAddr>, String> {
        self.resolve_by(target, until, |host, port| {
            (host, port).to_socket_addrs().map(Iterator::collect)
        })
        .await
    }

    async fn resolve_by(
        &self,
        target: &Target,
        until: Instant,
        look_up: impl FnOnce(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = target.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, target.port)]);
        }
        let Target { host, port } = target.clone();
        let lookup = async {
            // It is never closed.
            let turn = self.0.clone().acquire_owned().await.ok();
            let lookup = spawn_blocking(move || {
                // A lookup that nobody waits for any more takes its turn along.
                let _turn = turn;
                look_up(&host, port)
            });
            lookup.await.map_err(io::Error::other).flatten()
        };
        let host = &target.host;
        match timeout_at(until, lookup).await {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(format!("{host} has no address")),
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => {
                let cause = bounded(&error.to_string(), MAX_CAUSE);
                Err(format!("the name {host} does not resolve: {cause}"))
            }
            Err(_) => Err(format!("the name {host} was not resolved in time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use rstest::rstest;

    use super::*;

    fn target(host: &str) -> Target {
        Target::of("shoot--a", None, Some(host), 80)
    }

    #[rstest]
    #[case(Some("kube-apiserver"), None, "kube-apiserver.shoot--a.svc:443")]
    #[case(None, Some("example.org"), "example.org:443")]
    #[case(None, Some("10.0.0.1"), "10.0.0.1:443")]
    #[case(None, Some("fd00::1"), "[fd00::1]:443")]
    fn targets(#[case] service: Option<&str>, #[case] host: Option<&str>, #[case] expected: &str) {
        let target = Target::of("shoot--a", service, host, 443);
        assert_eq!(target.authority(), expected);
    }

    #[tokio::test]
    async fn addresses_are_not_looked_up() {
        let until = Instant::now() + Duration::from_secs(60);
        for host in ["127.0.0.1", "::1"] {
            let found = Names::default()
                .resolve_by(&target(host), until, |_, _| panic!())
                .await;
            assert_eq!(found.unwrap()[0].ip().to_string(), host);
        }
    }

    #[tokio::test]
    async fn a_name_without_an_address_tells_nothing() {
        let until = Instant::now() + Duration::from_secs(60);
        let names = Names::default();
        let refused = names
            .resolve_by(&target("a.b"), until, |_, _| {
                Err(io::Error::other("no\nsuch name"))
            })
            .await;
        let said = "the name a.b does not resolve: no such name";
        assert_eq!(refused.unwrap_err(), said);
        let none = names
            .resolve_by(&target("a.b"), until, |_, _| Ok(vec![]))
            .await;
        assert_eq!(none.unwrap_err(), "a.b has no address");
    }

    /// However many lookups hang, they take few threads, and all who wait are told in time.
    #[tokio::test]
    async fn a_dns_that_hangs_takes_few_threads() {
        let names = Names::default();
        let (released, hang) = mpsc::channel::<()>();
        let hang = Arc::new(std::sync::Mutex::new(hang));
        let until = Instant::now() + Duration::from_millis(50);
        let lookups = (0..1000).map(|_| {
            let (names, hang) = (&names, hang.clone());
            async move {
                let lookup = move |_: &str, _| {
                    let _ = hang.lock().unwrap().recv();
                    Ok(vec![])
                };
                names.resolve_by(&target("a.b"), until, lookup).await
            }
        });
        for told in futures::future::join_all(lookups).await {
            assert_eq!(told.unwrap_err(), "the name a.b was not resolved in time");
        }
        assert_eq!(names.0.available_permits(), 0);
        drop(released);
        // They end, and give back what they took.
        let all = names.0.acquire_many(LOOKUPS.try_into().unwrap());
        drop(all.await.unwrap());
    }
}
