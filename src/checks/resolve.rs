//! Whom a request or a connection goes to.
//!
//! A name that does not resolve, or not in time, tells nothing of who has it: the seed's DNS may be
//! away, and with it the names of all control planes at once.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::time::{Instant, timeout_at};

use crate::{runtime::names::Names, util::text::clean};

const MAX_CAUSE: usize = 120;

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The DNS name.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Target {
    /// A port of a Service in this namespace.
    pub fn of(namespace: &str, service: &str, port: i32) -> Self {
        Self {
            host: format!("{service}.{namespace}.svc"),
            // The schema has no others; nothing answers at 0.
            port: u16::try_from(port).unwrap_or_default(),
        }
    }

    /// The name and the port, as in a URL and in the header Host.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The addresses of a target, by then, or why there is none.
pub(super) async fn resolve(
    names: &Names,
    target: &Target,
    until: Instant,
) -> Result<Vec<SocketAddr>, String> {
    told(target, until, names.look_up(&target.host)).await
}

async fn told(
    target: &Target,
    until: Instant,
    lookup: impl Future<Output = io::Result<Arc<[SocketAddr]>>>,
) -> Result<Vec<SocketAddr>, String> {
    let Target { host, port } = target;
    match timeout_at(until, lookup).await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err(format!("{host} has no address")),
        Ok(Ok(addresses)) => Ok(addresses.iter().map(|it| (it.ip(), *port).into()).collect()),
        Ok(Err(error)) => {
            let cause = clean(&error.to_string(), MAX_CAUSE);
            Err(format!("the name {host} does not resolve: {cause}"))
        }
        Err(_) => Err(format!("the name {host} was not resolved in time")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_name_without_an_address_tells_nothing() {
        let target = Target::of("b", "a", 80);
        let until = Instant::now() + Duration::from_secs(60);
        let refused = async { Err(io::Error::other("no\nsuch name")) };
        let said = "the name a.b.svc does not resolve: no such name";
        assert_eq!(told(&target, until, refused).await.unwrap_err(), said);
        let none = async { Ok([].into()) };
        let said = "a.b.svc has no address";
        assert_eq!(told(&target, until, none).await.unwrap_err(), said);
        let late = std::future::pending();
        let said = "the name a.b.svc was not resolved in time";
        assert_eq!(told(&target, until, late).await.unwrap_err(), said);
    }
}
