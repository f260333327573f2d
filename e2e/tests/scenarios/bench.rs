//! The bench: its farm is taken for real shoots.

use super::Scenario;
use anyhow::{Result, ensure};
use dependency_watchdog_e2e::{Env, Process};
use std::time::Duration;

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
    let bench = Process::new("bench", env!("CARGO_BIN_EXE_lab"), directory.path())
        .args(["bench", "--shoots=10x5", "--outage=2", "--dead=50"])
        .args(["--measure=1s", "--measure-dead=1s", "--faster=10"]);
    bench.start()?;
    let ended = bench.ends(LIMIT).await?;
    let table = bench.log()?;
    ensure!(ended.success(), "{ended}:\n{table}");
    for row in [
        "| shoots × nodes | 10 × 5 |",
        "| **some API servers are dead** | 5 shoots |",
        "| **outage of several at once** | 2 shoots |",
    ] {
        ensure!(table.contains(row), "{row} is not in {table}");
    }
    Ok(())
}
