//! A farm of shoots, simulated in a process of its own, so that its work is not the operator's.
//!
//! To the operator each is a shoot like any other: an HTTPS server with a port of its own, whose
//! leases are renewed and stamped, and whose Nodes are as large as real ones. What they do is a
//! function of time, so that hundreds of them cost little.

mod black_hole;
mod control;
mod listen;

pub use self::control::{Control, Description, start};
pub use fake::farm::{
    Count, Death, Kubelets, Micros, NOTICE, RENEWALS_PER_LEASE, TOKEN, micros, node_name,
};

use self::control::{Order, receive, send};
use anyhow::{Context as _, Result};
use clap::Args;
use fake::farm::{Server, identity};
use jiff::Timestamp;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    io::BufReader,
    net::{TcpListener, UnixListener, UnixStream},
};

/// The present, by this machine's clock, which the farm and the seed's API server share.
pub fn now() -> Micros {
    Timestamp::now().as_microsecond()
}

/// What a farm consists of.
#[derive(Args, Clone, Debug)]
pub struct FarmArgs {
    /// Where it takes orders: the path of a socket
    #[arg(long)]
    pub socket: PathBuf,
    /// How many shoots
    #[arg(long)]
    pub shoots: usize,
    /// Nodes of each
    #[arg(long)]
    pub nodes: usize,
    /// `leaseDurationSeconds` of the leases, of which kubelets renew every quarter
    #[arg(long)]
    pub lease_seconds: u32,
}

/// Serves the shoots until the process is ended.
pub async fn run(args: FarmArgs) -> Result<()> {
    let (authority, acceptor) = identity()?;
    let started = now();
    let period = Duration::from_secs(args.lease_seconds.into()) / RENEWALS_PER_LEASE;
    let (mut ports, mut servers) = (Vec::new(), Vec::new());
    for shoot in 0..args.shoots {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("no port for a shoot of the farm")?;
        ports.push(listener.local_addr()?.port());
        let kubelets = Kubelets::new(shoot, args.nodes, period, started);
        let server = Server::new(shoot, args.nodes, args.lease_seconds, kubelets, now);
        let server = Arc::new(server);
        tokio::spawn(listen::listen(
            Arc::clone(&server),
            listener,
            acceptor.clone(),
        ));
        servers.push(server);
    }
    let farm = Farm {
        description: Description {
            started,
            authority,
            ports,
        },
        servers,
    };
    let listener = UnixListener::bind(&args.socket)
        .with_context(|| format!("cannot listen at {}", args.socket.display()))?;
    loop {
        let (stream, _) = listener.accept().await?;
        farm.obey(stream).await?;
    }
}

struct Farm {
    description: Description,
    servers: Vec<Arc<Server>>,
}

impl Farm {
    async fn obey(&self, stream: UnixStream) -> Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some(order) = receive(&mut stream).await? {
            match order {
                Order::Describe => send(&mut stream, &self.description).await?,
                Order::Count => {
                    let counts: Vec<Count> = self.servers.iter().map(|it| it.count()).collect();
                    send(&mut stream, &counts).await?;
                }
                Order::Cut { shoots, nodes, at } => {
                    for shoot in shoots {
                        self.server(shoot)?.kubelets().cut(nodes, at);
                    }
                    send(&mut stream, &()).await?;
                }
                Order::Restore { shoots, at } => {
                    for shoot in shoots {
                        self.server(shoot)?.kubelets().restore(at);
                    }
                    send(&mut stream, &()).await?;
                }
                Order::Kill { shoots, at } => {
                    for (shoot, how) in shoots {
                        self.server(shoot)?.die(how, at);
                    }
                    send(&mut stream, &()).await?;
                }
            }
        }
        Ok(())
    }

    fn server(&self, shoot: usize) -> Result<&Server> {
        let server = self.servers.get(shoot);
        let server = server.with_context(|| format!("the farm has no shoot {shoot}"))?;
        Ok(server)
    }
}

#[cfg(test)]
mod tests {

    use dependency_watchdog::{
        prober::step::{IGNORE, MARK, RECORD},
        runtime::seed::FIELD_MANAGER,
    };
    use fake::oracle;

    #[test]
    fn the_oracle_knows_the_operators_names() {
        assert_eq!(oracle::MARK, MARK);
        assert_eq!(oracle::RECORD, RECORD);
        assert_eq!(oracle::IGNORE, IGNORE);
        assert_eq!(oracle::OPERATOR, FIELD_MANAGER);
    }
}
