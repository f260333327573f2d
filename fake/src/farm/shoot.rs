//! A shoot in memory, as a test holds it.

use super::{
    RENEWALS_PER_LEASE,
    clock::Micros,
    death::Death,
    kubelets::Kubelets,
    server::Server,
    tls::{DOMAIN, identity},
};
use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use std::{
    io,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::io::{DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;

/// Bytes that are under way in each direction of a connection.
const BUFFER: usize = 64 * 1024;

/// A shoot that is reached without a socket. Whoever has a copy of it has the same one.
///
/// All that happens to it by its own methods is dated by the clock that it was given; its [`Server`] has the
/// same with other times, and all else.
#[derive(Clone)]
pub struct Shoot {
    number: usize,
    server: Arc<Server>,
    authority: String,
    acceptor: TlsAcceptor,
}

impl Shoot {
    /// A shoot by its number, with so many nodes whose leases last so many seconds.
    ///
    /// # Errors
    ///
    /// If no certificate can be made.
    pub fn new(
        number: usize,
        nodes: usize,
        lease_seconds: u32,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
    ) -> Result<Self> {
        let (authority, acceptor) = own_identity()?;
        let period = Duration::from_secs(lease_seconds.into()) / RENEWALS_PER_LEASE;
        let kubelets = Kubelets::new(number, nodes, period, clock());
        let server = Server::new(number, nodes, lease_seconds, kubelets, clock);
        Ok(Self {
            number,
            server: Arc::new(server),
            authority,
            acceptor,
        })
    }

    /// Cuts the first so many of its kubelets off. Cuts do not overlap.
    pub fn cut(&self, nodes: usize) {
        let now = self.now();
        self.kubelets().cut(nodes, now);
    }

    /// Lets them back.
    pub fn restore(&self) {
        let now = self.now();
        self.kubelets().restore(now);
    }

    /// Has its API server die.
    pub fn die(&self, how: Death) {
        self.server.die(how, self.now());
    }

    /// Brings its API server back.
    pub fn revive(&self) {
        self.server.revive(self.now());
    }

    /// Where its API server is.
    pub fn host(&self) -> String {
        format!("shoot-{}.{DOMAIN}", self.number)
    }

    /// A kubeconfig, in JSON, by which its API server is read with this token.
    pub fn kubeconfig(&self, token: &str) -> Vec<u8> {
        let authority = BASE64_STANDARD.encode(&self.authority);
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "shoot", "cluster": {
                "server": format!("https://{}", self.host()),
                "certificate-authority-data": authority,
            }}],
            "users": [{"name": "probe", "user": {"token": token}}],
            "contexts": [{"name": "shoot", "context": {"cluster": "shoot", "user": "probe"}}],
            "current-context": "shoot",
        });
        kubeconfig.to_string().into_bytes()
    }

    /// Connects to its API server, which serves the connection in a task of its own.
    ///
    /// # Errors
    ///
    /// If the server refuses connections. To one that swallows them this never ends.
    pub async fn dial(&self) -> io::Result<DuplexStream> {
        let death = *self.death().borrow();
        match death {
            Some(Death::Refuses) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Death::Swallows) => std::future::pending().await,
            _ => {}
        }
        let (client, server) = duplex(BUFFER);
        let serving = Arc::clone(&self.server).serve(server, self.acceptor.clone());
        // A connection that breaks concerns the client.
        tokio::spawn(async move { drop(serving.await) });
        Ok(client)
    }
}

impl Deref for Shoot {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The identity of all shoots of this process.
fn own_identity() -> Result<(String, TlsAcceptor)> {
    static IDENTITY: OnceLock<(String, TlsAcceptor)> = OnceLock::new();
    let own = match IDENTITY.get() {
        Some(own) => own,
        None => {
            let new = identity()?;
            IDENTITY.get_or_init(|| new)
        }
    };
    Ok(own.clone())
}
