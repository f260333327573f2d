//! The operator, as a child process.

use crate::{Process, Seed};
use anyhow::{Context as _, Result, ensure};
use std::path::PathBuf;

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
    /// give its rights. `name` is that of its log in the seed's directory.
    pub fn start(seed: &Seed, name: &str, subcommand: &str, args: &[&str]) -> Result<Self> {
        let process = Process::new(name, binary()?, seed.directory())
            .args([
                subcommand.as_ref(),
                "--kubeconfig".as_ref(),
                seed.operator_kubeconfig()?.as_os_str(),
            ])
            .args(args);
        process.start()?;
        Ok(Self { process })
    }
}

/// `DWD_BIN`, else what Cargo has built beside this program.
fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os("DWD_BIN") {
        Some(path) => PathBuf::from(path),
        None => {
            let this = std::env::current_exe()?;
            // target/debug/demo, or target/debug/deps/e2e-0123456789abcdef
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
