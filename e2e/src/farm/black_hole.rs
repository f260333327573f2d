//! Ports of servers that are away.

use anyhow::{Context as _, Result};
use std::{net::SocketAddr, time::Duration};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A port that is taken, and at which nobody listens.
pub(super) fn closed_port(address: SocketAddr) -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    let bound = socket.bind(address);
    bound.with_context(|| format!("cannot take {address} again"))?;
    Ok(socket)
}

/// A port at which the first packets of connections are lost: the queue of those to be accepted is
/// full, since nobody accepts.
pub(super) struct BlackHole {
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    /// More than the shortest queue holds.
    const QUEUE: usize = 4;
    /// A connection that is not there by then does not fit any more.
    const FULL: Duration = Duration::from_millis(200);

    /// Makes one of a port that nobody listens at any more.
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let context = || format!("cannot listen at {address} again");
        let listener = closed_port(address)?.listen(0).with_context(context)?;
        let mut queue = Vec::new();
        for _ in 0..Self::QUEUE {
            match tokio::time::timeout(Self::FULL, TcpStream::connect(address)).await {
                Ok(stream) => queue.push(stream.with_context(context)?),
                Err(_) => break,
            }
        }
        Ok(Self {
            _listener: listener,
            _queue: queue,
        })
    }
}
