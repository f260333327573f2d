//! etcd, one member.

use crate::{
    Assets, Process, free_port,
    wait::{self, Look, seen},
};
use anyhow::Result;
use std::{fs, path::Path};
use tokio::net::TcpStream;

/// An etcd that keeps its data for as long as its directory lasts.
#[derive(Debug)]
pub struct Etcd {
    process: Process,
    port: u16,
}

impl Etcd {
    /// Starts one in a directory of its own below `root`, and waits until it listens.
    pub async fn start(assets: &Assets, root: &Path, name: &str) -> Result<Self> {
        let directory = root.join(name);
        fs::create_dir_all(&directory)?;
        let port = free_port()?;
        let client = format!("http://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let process = Process::new(name, assets.binary("etcd"), &directory)
            .args(["--data-dir".as_ref(), directory.join("data").as_os_str()])
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            // The data of a test need not outlive a power cut.
            .args(["--unsafe-no-fsync", "--log-level", "warn"]);
        let etcd = Self { process, port };
        etcd.start_again().await?;
        Ok(etcd)
    }

    /// What `--etcd-servers` wants.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it as a crash would.
    pub fn stop(&self) {
        self.process.kill();
    }

    /// Starts a stopped one on the same port and data.
    pub async fn start_again(&self) -> Result<()> {
        self.process.start()?;
        wait::until("etcd to listen", async || {
            if let Err(ended) = self.process.ensure_running() {
                return Ok(Look::Never(ended.to_string()));
            }
            let answer = TcpStream::connect(("127.0.0.1", self.port)).await;
            seen(answer.is_ok(), format!("{answer:?}"))
        })
        .await
    }

    /// Its process, to freeze and wake it.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
