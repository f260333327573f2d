//! The operator, as a child process.

use crate::{Process, Seed, free_port};
use anyhow::{Context as _, Result, ensure};
use std::path::PathBuf;

/// The product's binary, in Cargo's target directory.
const BINARY: &str = "dependency-watchdog";

/// A running operator; it ends with this value.
#[derive(Debug)]
pub struct Operator {
    /// The process, to stop, freeze or crash it and to read its log.
    pub process: Process,
    /// Where `/metrics` is.
    pub metrics_address: String,
    /// Where `/healthz` and `/readyz` are.
    pub health_address: String,
}

impl Operator {
    /// Starts `dependency-watchdog <subcommand>` against a seed, as the user whom the manifests
    /// give its rights. `name` is that of its log in the seed's directory.
    pub fn start(seed: &Seed, name: &str, subcommand: &str, args: &[&str]) -> Result<Self> {
        let metrics_address = format!("127.0.0.1:{}", free_port()?);
        let health_address = format!("127.0.0.1:{}", free_port()?);
        let process = Process::new(name, binary()?, seed.directory())
            .args([subcommand, "--metrics-bind-addr", &metrics_address])
            .args(["--health-bind-addr", &health_address])
            .args([
                "--kubeconfig".as_ref(),
                seed.operator_kubeconfig()?.as_os_str(),
            ])
            .args(args);
        process.start()?;
        Ok(Self {
            process,
            metrics_address,
            health_address,
        })
    }
}

/// `DWD_BIN`, else what Cargo has built beside this test.
fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os("DWD_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let test = std::env::current_exe()?;
            // target/debug/deps/e2e-0123456789abcdef
            let target = test.parent().and_then(|deps| deps.parent());
            target
                .context("a test is not run from Cargo's target directory")?
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
