//! A wire between a client and a server that can be cut.

use anyhow::Result;
use std::net::SocketAddr;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Forwards connections to a server, until it is cut. It ends with this value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    cut: CancellationToken,
    _forwarding: JoinSet<()>,
}

impl Proxy {
    /// A proxy for a server on this machine.
    pub async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let cut = CancellationToken::new();
        let watched = cut.clone();
        let mut forwarding = JoinSet::new();
        forwarding.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, server, watched.clone()));
            }
        });
        Ok(Self {
            address,
            cut,
            _forwarding: forwarding,
        })
    }

    /// Where to connect to instead of the server: `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on nothing comes through, either way, and nobody is told: connections stay open, new
    /// ones are accepted.
    pub fn cut(&self) {
        self.cut.cancel();
    }
}

async fn forward(mut client: TcpStream, server: SocketAddr, cut: CancellationToken) {
    let forwarded = async {
        let mut server = TcpStream::connect(server).await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    if cut.run_until_cancelled(forwarded).await.is_none() {
        // It goes on to believe that somebody listens.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn what_is_sent_arrives_until_it_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(proxy.address).await.unwrap();
        client.write_all(b"there").await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut there = [0; 5];
        server.read_exact(&mut there).await.unwrap();
        server.write_all(b"back").await.unwrap();
        let mut back = [0; 4];
        client.read_exact(&mut back).await.unwrap();
        assert_eq!((&there, &back), (b"there", b"back"));

        proxy.cut();
        client.write_all(b"lost").await.unwrap();
        let mut none = [0; 1];
        let read = server.read(&mut none);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(200), read).await;
        assert!(!matches!(waited, Ok(Ok(1..))), "it came through");
    }
}
