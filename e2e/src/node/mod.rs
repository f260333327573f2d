//! Real nodes: kubelets on containerd, on this machine, in namespaces of their own.
//!
//! [`Host`] is what stays outside: it refuses a machine on which this might do harm, makes the cgroups,
//! starts this program again in its own namespaces, and removes everything. A [`Cluster`] is what runs
//! inside: a control plane, and [`Node`]s. Processes, mounts and the network end with the namespaces, also
//! when this program is killed; what is left then is files and cgroups, which the next run removes.

mod cgroups;
mod cluster;
mod host;
mod image;
mod inside;
mod machine;
mod requirements;
mod shoot;

pub use cgroups::Cgroups;
pub use cluster::Cluster;
pub use host::Host;
pub use image::{PAUSE, TOOLS};
pub use inside::Inside;
pub use machine::Node;
pub use requirements::missing;
pub use shoot::{GRACE, RealShoot};

use anyhow::{Context as _, Result, ensure};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// How all directories of such runs begin, and what their cgroups are below.
const NAME: &str = "dependency-watchdog-node";

/// Runs a command, which must succeed, and returns its standard output.
pub async fn run(program: &str, args: &[&str]) -> Result<String> {
    finish(program, args, Command::new(program).args(args)).await
}

async fn finish(program: &str, args: &[&str], command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output: Output = output
        .await
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {} failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
