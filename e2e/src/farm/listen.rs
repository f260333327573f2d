//! The port of a shoot's API server, open or away as the server is.

use super::black_hole::{BlackHole, closed_port};
use anyhow::Result;
use fake::farm::{Death, Server};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

/// After a connection that was not accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Accepts connections as long as the server lives, and then keeps the port, so that nobody else gets it.
pub(super) async fn listen(server: Arc<Server>, listener: TcpListener, acceptor: TlsAcceptor) {
    let mut death = server.death();
    let unreachable =
        |death: &Option<Death>| matches!(death, Some(Death::Refuses | Death::Swallows));
    let Ok(address) = listener.local_addr() else {
        return;
    };
    tokio::select! {
        // The sender is the server's, so it is not gone.
        _ = death.wait_for(unreachable) => {}
        () = accept(&server, &listener, &acceptor) => {}
    }
    drop(listener);
    let swallows = *death.borrow() == Some(Death::Swallows);
    let kept = if swallows {
        BlackHole::open(address)
            .await
            .map(|_hole| Kept::Silent { _hole })
    } else {
        closed_port(address).map(|_socket| Kept::Closed { _socket })
    };
    match kept {
        Ok(_kept) => pending().await,
        Err(error) => tracing::error!("the port of a dead shoot is not kept: {error:#}"),
    }
}

async fn accept(server: &Arc<Server>, listener: &TcpListener, acceptor: &TlsAcceptor) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = serve(Arc::clone(server), stream, acceptor.clone());
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("a connection ended: {error:#}");
                    }
                });
            }
            // For want of file descriptors, say, of which others may be given back.
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve(server: Arc<Server>, stream: TcpStream, acceptor: TlsAcceptor) -> Result<()> {
    stream.set_nodelay(true)?;
    server.serve(stream, acceptor).await
}

/// What has the port of a dead shoot.
enum Kept {
    Silent { _hole: BlackHole },
    Closed { _socket: TcpSocket },
}
