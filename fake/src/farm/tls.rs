//! The certificates of the farm.

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

/// A kube-apiserver writes 4 KiB at once, each in a record of its own. What is said here includes
/// the header of a record.
const RECORD: usize = 4096 + 5;

/// The domain in which the certificate of the farm is for any host.
pub const DOMAIN: &str = "shoots.fake";

/// The certificate of the authority as PEM, and what accepts connections. Both keys are ECDSA P-256.
///
/// # Errors
///
/// If no key can be made.
pub fn identity() -> Result<(String, TlsAcceptor)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let hosts = format!("*.{DOMAIN}");
    let names = vec!["127.0.0.1".to_owned(), "kubernetes".to_owned(), hosts];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    // A real one also offers h2, which the farm does not speak.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.max_fragment_size = Some(RECORD);
    config.send_tls13_tickets = 1;
    Ok((authority.pem(), TlsAcceptor::from(Arc::new(config))))
}
