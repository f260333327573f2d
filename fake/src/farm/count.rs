//! What a shoot of the farm was asked for, and connections whose every byte is counted.

use super::{behaviour::Read, clock::Micros};
use serde::{Deserialize, Serialize};
use std::{
    io,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The counter of one shoot.
#[derive(Debug, Default)]
pub(super) struct Counter(Mutex<Count>);

/// What a shoot was asked for by one moment, or in a time. Bytes are those on the wire, TLS included.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// Lists of Nodes.
    pub nodes: u64,
    /// Requests for `/readyz`.
    pub ready: u64,
    /// Requests for anything else, or without the token.
    pub refused: u64,
    /// Bytes from the client.
    pub received: u64,
    /// Bytes to the client.
    pub sent: u64,
    /// TLS handshakes that succeeded.
    pub handshakes: u64,
    /// When leases were listed: few enough to be kept.
    pub asked: Vec<Micros>,
}

impl Counter {
    /// Counts what is done.
    pub(super) fn note(&self, done: impl FnOnce(&mut Count)) {
        done(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What there is by now.
    pub(super) fn read(&self) -> Count {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count.clone()
    }
}

impl Count {
    /// A read that is answered then.
    pub(super) fn read(&mut self, read: Read, at: Micros) {
        match read {
            Read::Cached | Read::Consistent => self.asked.push(at),
            Read::Nodes => self.nodes += 1,
            Read::Ready => self.ready += 1,
        }
    }

    /// What has come since an earlier count.
    pub fn since(&self, earlier: &Self) -> Self {
        let asked = self.asked.get(earlier.asked.len()..).unwrap_or_default();
        Self {
            nodes: self.nodes - earlier.nodes,
            ready: self.ready - earlier.ready,
            refused: self.refused - earlier.refused,
            received: self.received - earlier.received,
            sent: self.sent - earlier.sent,
            handshakes: self.handshakes - earlier.handshakes,
            asked: asked.to_vec(),
        }
    }

    /// All lists of leases.
    pub fn leases(&self) -> u64 {
        self.asked.len() as u64
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.leases() + self.nodes + self.ready + self.refused
    }
}

/// A connection that counts what goes over it.
pub(super) struct Counted<'a, S>(pub(super) S, pub(super) &'a Counter);

impl<S: AsyncRead + Unpin> AsyncRead for Counted<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        self.1.note(|count| count.received += bytes as u64);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, buf);
        if let Poll::Ready(Ok(bytes)) = written {
            self.1.note(|count| count.sent += bytes as u64);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
