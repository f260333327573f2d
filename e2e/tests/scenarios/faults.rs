//! A sample of the faults on real servers; the campaign in virtual time has all of them.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    Env,
    chaos::{Campaign, Settings, Tally},
};
use std::sync::Mutex;

/// The same points in every run, as far as the operator writes the same.
const SEED: u64 = 1;
/// A run mostly waits.
const PARALLEL: usize = 12;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_whatever_fails_at_whatever_write_the_end_is_the_same: 2]
}

async fn e2e_whatever_fails_at_whatever_write_the_end_is_the_same(env: Env) -> Result<()> {
    let settings = Settings {
        seed: SEED,
        sample: true,
        kinds: Vec::new(),
        pairs: 0,
        points: None,
        only: Vec::new(),
        parallel: PARALLEL,
    };
    println!("a sample of faults, drawn with --seed {SEED}");
    let campaign = Campaign::prepare(&env, "faults", settings).await?;
    let points = campaign.points().len();
    let tally = Mutex::new(Tally::default());
    campaign.run(&tally, |_, _| {}).await?;
    let tally = tally.into_inner().ok().context("a run has panicked")?;
    println!("{tally}");
    let failures: Vec<String> = tally
        .failures
        .iter()
        .map(|(point, problems)| format!("{point}: {}", problems.join("; ")))
        .collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    ensure!(tally.runs == points, "{} runs", tally.runs);
    tally.ensure_dependents_reached()
}
