//! What the operator is for, in little more than a minute: the nodes of a cluster lose their network, and in
//! another act a control plane its etcd.
//!
//! A seed and a shoot are started on this machine, the nodes are cut off and let back, etcd goes down
//! and returns, and what the operator does is told as it happens. Whatever does not happen ends it
//! with an error.
//!
//!   NO_COLOR  no colours, which are for terminals only anyway

mod evidence;
mod narrator;
mod story;
mod weeding;

use anyhow::Result;
use dependency_watchdog_e2e::Env;
use jiff::Timestamp;
use narrator::Narrator;
use std::path::Path;

/// What was found out, for the summary.
type Findings = Vec<(String, String)>;

/// Tells both acts, on one seed.
pub(crate) async fn run(root: &Path) -> Result<()> {
    let mut narrator = Narrator::on_stdout();
    let narrator = &mut narrator;
    let started = Timestamp::now();
    let env = Env::prepare(root).await?;
    let mut findings = story::tell(&env, narrator).await?;
    findings.extend(weeding::tell(&env, narrator).await?);
    narrator.step("What was checked")?;
    narrator.table(&findings)?;
    let whole = evidence::seconds("the end", started, Timestamp::now())?;
    narrator.note(&format!("All of it took {whole:.0} s."))
}
