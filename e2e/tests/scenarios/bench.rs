//! The bench: its farm is taken for real shoots.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{Env, Process};
use serde_json::Value;
use std::{fs, time::Duration};

/// It ends itself when something does not happen; a loaded machine is slow.
const LIMIT: Duration = Duration::from_secs(900);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_farm_of_simulated_shoots_is_protected_and_restored]
}

/// The bench brings a seed and an operator of its own, and checks itself that those that are cut
/// off, and no others, are scaled down and restored, also while API servers are dead in every way
/// there is.
async fn e2e_a_farm_of_simulated_shoots_is_protected_and_restored(_env: Env) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let results = directory.path().join("results.json");
    let bench = Process::new("bench", env!("CARGO_BIN_EXE_lab"), directory.path())
        .args(["bench", "--shoots=10x5", "--outage=2", "--dead=50"])
        .args(["--measure=1s", "--measure-dead=1s", "--faster=10", "--json"])
        .args([&results]);
    bench.start()?;
    let ended = bench.ends(LIMIT).await?;
    ensure!(ended.success(), "{ended}:\n{}", bench.log()?);

    let results: Value = serde_json::from_str(&fs::read_to_string(&results)?)?;
    let run = results.pointer("/runs/0").context("no run")?;
    let delays = run.pointer("/outage/delays").and_then(Value::as_array);
    ensure!(delays.is_some_and(|delays| delays.len() == 2), "{run}");
    let dead = run.pointer("/dead/shoots").and_then(Value::as_u64);
    ensure!(dead == Some(5), "{run}");
    let table = bench.log()?;
    ensure!(table.contains("| shoots × nodes | 10 × 5 |"), "{table}");
    Ok(())
}
