//! TLS with whoever answers. As with the probes of a kubelet, it is asked whether a server answers,
//! not who it is: nothing is sent to it that it must not have, and nothing of what it says is shown
//! but a status.

use std::{io, sync::Arc};

use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
        client::{
            Resumption,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    },
};

/// Makes connections of all checks. `None` if that is not possible, which it always is.
#[derive(Clone)]
pub(super) struct Tls(Option<TlsConnector>);

impl Default for Tls {
    fn default() -> Self {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let config = builder
            .with_safe_default_protocol_versions()
            .map(|builder| {
                let mut config = builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                    .with_no_client_auth();
                // A connection serves for one request; what is kept of it would be of no use.
                config.resumption = Resumption::disabled();
                TlsConnector::from(Arc::new(config))
            });
        Self(config.ok())
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

/// Takes any certificate, of whose key a server has proof.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
