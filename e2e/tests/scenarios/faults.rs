//! The short version of the campaign of faults: every write, and every kind of fault that needs no
//! seed of its own, at least once.

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
const PARALLEL: usize = 16;
/// So many of a hundred faults happen at least. Some statuses and events are not written in each run.
const REACHED: usize = 80;

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
    let (runs, tried, reached) = (tally.runs, tally.tried(), tally.reached());
    ensure!(
        runs == points && tried >= campaign.writes().len(),
        "{runs} runs with {tried} faults"
    );
    tally.ensure_dependents_reached()?;
    ensure!(
        reached * 100 >= tried * REACHED,
        "only {reached} of {tried} faults happened"
    );
    Ok(())
}
