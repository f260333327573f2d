//! The operator, as a child process.

use crate::{
    Kubeconfig, Process, Seed,
    wait::{self, Look},
};
use anyhow::{Context as _, Result, ensure};
use std::{fs, net::Ipv4Addr, path::PathBuf, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The product's binary, in Cargo's target directory.
const BINARY: &str = "dependency-watchdog";

/// A running operator; it ends with this value.
#[derive(Debug)]
pub struct Operator {
    /// The process, to stop, freeze or crash it and to read its log.
    pub process: Process,
}

impl Operator {
    /// Starts `dependency-watchdog <subcommand>` against a seed, as the user whom the manifests
    /// give the rights of that subcommand. `name` is that of its log in the seed's directory.
    pub fn start(seed: &Seed, name: &str, subcommand: &str, args: &[&str]) -> Result<Self> {
        let kubeconfig = match subcommand {
            "weeder" => seed.weeder_kubeconfig()?,
            _ => seed.operator_kubeconfig()?,
        };
        let process = Self::process(seed, name, &kubeconfig)?;
        Self::run(process.args([subcommand]).args(args))
    }

    /// Starts one of several replicas of `dependency-watchdog <subcommand>`, as the user of this
    /// kubeconfig.
    pub fn replica(
        seed: &Seed,
        name: &str,
        subcommand: &str,
        kubeconfig: &Kubeconfig,
        args: &[&str],
    ) -> Result<Self> {
        let process = Self::process(seed, name, kubeconfig)?
            .env("HOSTNAME", name)
            .args([subcommand, "--enable-leader-election"]);
        Self::run(process.args(args))
    }

    /// Starts it with these arguments and variables and no others, as the user of this kubeconfig.
    pub fn exactly(
        seed: &Seed,
        name: &str,
        kubeconfig: &Kubeconfig,
        args: &[String],
        env: Vec<(String, String)>,
    ) -> Result<Self> {
        let mut process = Self::process(seed, name, kubeconfig)?.args(args);
        for (key, value) in env {
            process = process.env(key, value);
        }
        Self::run(process)
    }

    /// Waits for so long at most, though not for an operator that has ended.
    pub async fn until<T>(
        &self,
        limit: Duration,
        what: &str,
        mut look: impl AsyncFnMut() -> Result<Look<T>>,
    ) -> Result<T> {
        wait::until_within(limit, what, async || match self.process.ensure_running() {
            Ok(()) => look().await,
            Err(ended) => Ok(Look::Never(format!("{ended:#}"))),
        })
        .await
    }

    fn process(seed: &Seed, name: &str, kubeconfig: &Kubeconfig) -> Result<Process> {
        let path = seed.directory().join(format!("kubeconfig-{name}.yaml"));
        fs::write(&path, kubeconfig.to_string())?;
        Ok(Process::new(name, binary()?, seed.directory())
            .env("DWD_KUBECONFIG", path)
            // Many run at once; what wants to see the endpoints gives the flags.
            .env("DWD_METRICS_BIND_ADDR", "0")
            .env("DWD_HEALTH_BIND_ADDR", "0"))
    }

    fn run(process: Process) -> Result<Self> {
        process.start()?;
        Ok(Self { process })
    }
}

/// What an endpoint of an operator on this machine answers: the code of its status line, and the body.
pub async fn ask(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    let code = head.split(' ').nth(1).context("no code")?.parse()?;
    Ok((code, body.to_owned()))
}

/// The operator's binary: `DWD_BIN`, else what Cargo has built beside this program.
pub fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os("DWD_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let this = std::env::current_exe()?;
            // debug/lab, or debug/deps/e2e-0123456789abcdef
            let target = this.ancestors().skip(1).find(|dir| !dir.ends_with("deps"));
            target
                .context("not run from Cargo's target directory")?
                .join(BINARY)
        }
    };
    ensure!(
        path.is_file(),
        "no operator at {}: run `cargo build`, or set DWD_BIN to its path",
        path.display()
    );
    Ok(path)
}
