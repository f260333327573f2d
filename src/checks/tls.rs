//! TLS with whoever answers. As with the probes of a kubelet, it is asked whether a server answers,
//! not who it is: nothing is sent to it that it must not have, and nothing of what it says is shown
//! but a status.

use std::{io, sync::Arc};

use kube::{Config, client::ConfigExt as _};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::client::Resumption};

/// Makes connections of all checks. `None` if that is not possible, which it always is.
#[derive(Clone)]
pub(super) struct Tls(Option<TlsConnector>);

impl Default for Tls {
    fn default() -> Self {
        let mut config = Config::new(http::Uri::default());
        config.accept_invalid_certs = true;
        // Else those of the system were read, to no purpose.
        config.root_cert = Some(Vec::new());
        let connector = config.rustls_client_config().map(|mut config| {
            // A connection serves for one request; what is kept of it would be of no use.
            config.resumption = Resumption::disabled();
            TlsConnector::from(Arc::new(config))
        });
        Self(connector.ok())
    }
}

impl Tls {
    /// Encrypts a connection to this host.
    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        match &self.0 {
            Some(connector) => connector.connect(name, stream).await,
            None => Err(io::Error::other("there is no TLS")),
        }
    }
}
