//! What is shipped, on real nodes: the image and the manifests under real kubelets and containerd, on
//! this machine. See e2e/README.md.
//!
//! It ends with a line of what passed, failed and was skipped, and with 1 if anything failed; the logs are
//! kept then.
//!
//!   DWD_IMAGE     the image of the operator, an OCI archive; by default it is made, as by `make image`
//!   DWD_BIN       the operator's binary, for commands of documents
//!   DWD_E2E_KEEP  keep files and logs, also when all went well
//!   NODE_ON_HOST  1 to run on a machine that is neither a container nor CI

#[cfg(target_os = "linux")]
mod scenarios;
#[cfg(target_os = "linux")]
mod tally;

use anyhow::Result;
use clap::Parser;
use std::{path::PathBuf, process::ExitCode};

/// Runs what is shipped on real nodes, on this machine
#[derive(Debug, Parser)]
#[command(name = "node")]
struct Cli {
    /// Run these alone, and what they need
    names: Vec<String>,
    /// Let containers crash less often before they are helped
    #[arg(long)]
    quick: bool,
    /// Count all as skipped, with the reason, where no real node can run
    #[arg(long)]
    or_skip: bool,
    /// The image of the operator, an OCI archive; by default it is made
    #[arg(long, env = "DWD_IMAGE")]
    image: Option<PathBuf>,
    /// Where this runs inside of its namespaces: how it starts itself
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

#[cfg(target_os = "linux")]
fn main() -> Result<ExitCode> {
    use dependency_watchdog_e2e::node::{Host, missing};
    use tokio::runtime::Builder;

    let cli = Cli::parse();
    if let Some(root) = &cli.inside {
        let runtime = tokio::runtime::Runtime::new()?;
        return Ok(runtime.block_on(scenarios::run(root, &cli)));
    }
    let selected = scenarios::selected(&cli.names)?;
    if let Some(reason) = missing() {
        if cli.or_skip {
            println!(
                "node: skipped: {reason}\n0 passed, 0 failed, {} skipped",
                selected.len()
            );
            return Ok(ExitCode::SUCCESS);
        }
        // Without the stack of an error: it says what to do.
        eprintln!("node: no real node can run here: {reason}");
        return Ok(ExitCode::FAILURE);
    }
    // On the thread that lasts: children die with the thread that has started them.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let host = Host::prepare().await?;
        let image = host.build(cli.image.as_deref()).await?;
        let image = image.to_string_lossy();
        let mut args: Vec<&str> = selected.clone();
        if cli.quick {
            args.push("--quick");
        }
        args.extend(["--image", &image, "--inside"]);
        host.run(&args).await
    })
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<ExitCode> {
    anyhow::bail!("real nodes need Linux")
}
