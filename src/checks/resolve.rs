//! Whom a request or a connection goes to.
//!
//! A name that does not resolve, or not in time, tells nothing of who has it: the seed's DNS may be
//! away, and with it the names of all control planes at once.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use tokio::time::{Instant, timeout_at};

use super::output::bounded;
use crate::runtime::names::Names;

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

/// The addresses of a target, by then, or why there is none.
pub(super) async fn resolve(
    names: &Names,
    target: &Target,
    until: Instant,
) -> Result<Vec<SocketAddr>, String> {
    told(target, until, names.look_up(&target.host, target.port)).await
}

async fn told(
    target: &Target,
    until: Instant,
    lookup: impl Future<Output = io::Result<Vec<SocketAddr>>>,
) -> Result<Vec<SocketAddr>, String> {
    let host = &target.host;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, target.port)]);
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        for host in ["127.0.0.1", "::1"] {
            let found = told(&target(host), Instant::now(), async { panic!() }).await;
            assert_eq!(found.unwrap()[0].ip().to_string(), host);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_an_address_tells_nothing() {
        let until = Instant::now() + Duration::from_secs(60);
        let refused = async { Err(io::Error::other("no\nsuch name")) };
        let said = "the name a.b does not resolve: no such name";
        assert_eq!(
            told(&target("a.b"), until, refused).await.unwrap_err(),
            said
        );
        let none = async { Ok(vec![]) };
        let said = "a.b has no address";
        assert_eq!(told(&target("a.b"), until, none).await.unwrap_err(), said);
        let late = std::future::pending();
        let said = "the name a.b was not resolved in time";
        assert_eq!(told(&target("a.b"), until, late).await.unwrap_err(), said);
    }
}
