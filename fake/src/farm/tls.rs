//! The certificates of the farm, and connections whose every byte is counted.

use super::count::Counters;
use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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

/// A connection that counts what goes over it.
pub(super) struct Counted<S> {
    stream: S,
    counters: Arc<Counters>,
}

impl<S> Counted<S> {
    pub(super) fn new(stream: S, counters: Arc<Counters>) -> Self {
        Self { stream, counters }
    }

    fn sent(&self, written: &Poll<std::io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.counters
                .sent
                .fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        self.counters
            .received
            .fetch_add(bytes as u64, Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.sent(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.sent(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
