//! The certificates of the proxies.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::sync::Arc;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

/// An authority of its own, and a server that it vouches for.
#[derive(Clone)]
pub(super) struct Identity {
    /// The certificate of the authority, PEM.
    pub(super) authority: Vec<u8>,
    /// Accepts connections.
    pub(super) acceptor: TlsAcceptor,
}

impl Identity {
    /// A new one, for servers on 127.0.0.1.
    pub(super) fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        let certificate = certificate.signed_by(&key, &authority)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            authority: authority.pem().into_bytes(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}
