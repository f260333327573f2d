//! What the operator is for, in little more than a minute: the nodes of a cluster lose their network, and in
//! another act a control plane its etcd.
//!
//! A seed and a shoot are started on this machine, the nodes are cut off and let back, etcd goes down
//! and returns, and what the operator does is told as it happens. Whatever does not happen ends it
//! with an error.
//!
//!   DWD_BIN       the operator's binary (default: the one that Cargo has built beside this)
//!   DWD_E2E_KEEP  keep files and logs, also when all went well
//!   NO_COLOR      no colours, which are for terminals only anyway

mod evidence;
mod narrator;
mod story;
mod weeding;

use anyhow::Result;
use dependency_watchdog_e2e::{Env, Files, unless_interrupted};
use jiff::Timestamp;
use narrator::Narrator;
use std::{io::Write, path::Path, process::ExitCode};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

/// What was found out, for the summary.
type Findings = Vec<(String, String)>;

fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt()
        // What clients and watches complain of at the end is no news.
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    let runtime = Runtime::new()?;
    let files = Files::new("dependency-watchdog-demo-")?;
    let mut narrator = Narrator::on_stdout();
    let told = runtime.block_on(unless_interrupted(tell(files.root(), &mut narrator)));
    Ok(files.end(&told))
}

/// Tells both acts, on one seed.
async fn tell<W: Write>(root: &Path, narrator: &mut Narrator<W>) -> Result<()> {
    let started = Timestamp::now();
    let env = Env::prepare(root).await?;
    let mut findings = story::tell(&env, narrator).await?;
    findings.extend(weeding::tell(&env, narrator).await?);
    narrator.step("What was checked")?;
    narrator.table(&findings)?;
    let whole = evidence::seconds("the end", started, Timestamp::now())?;
    narrator.note(&format!("All of it took {whole:.0} s."))
}
