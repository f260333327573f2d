//! What is shipped, on real nodes: the image and the manifests under real kubelets and containerd, on
//! this machine. See e2e/README.md.
//!
//! It ends with a line of what passed, failed and was skipped, and with 1 if anything failed; the logs are
//! kept then.
//!
//!   DWD_IMAGE     the image of the operator, an OCI archive; by default it is made, as by `make image`
//!   NODE_ON_HOST  1 to run on a machine that is neither a container nor CI

#[cfg(target_os = "linux")]
mod scenarios;
#[cfg(target_os = "linux")]
mod tally;

use anyhow::Result;
use std::{path::PathBuf, process::ExitCode};

/// What is run, and of which image.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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

/// Makes the namespaces, and runs this program in them once more.
#[cfg(target_os = "linux")]
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    use dependency_watchdog_e2e::node::{Host, missing};
    use tokio::runtime::Builder;

    if let Some(root) = &args.inside {
        let runtime = tokio::runtime::Runtime::new()?;
        return Ok(runtime.block_on(scenarios::run(root, args)));
    }
    let selected = scenarios::selected(&args.names)?;
    if let Some(reason) = missing() {
        if args.or_skip {
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
        let image = host.build(args.image.as_deref()).await?;
        let image = image.to_string_lossy();
        let mut words: Vec<&str> = selected.clone();
        if args.quick {
            words.push("--quick");
        }
        words.extend(["--image", &image, "--inside"]);
        host.run(&words).await
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    anyhow::bail!("real nodes need Linux")
}
