//! Some of the faults on real servers; the campaign in virtual time has each at every write.

use super::Scenario;
use anyhow::{Result, ensure};
use dependency_watchdog_e2e::{
    Env,
    chaos::{self, CA, ETCD, Fault, KCM, MCM, Point, Stage},
};
use futures::future::join_all;

/// Faults that processes, connections and watches of real servers show best, each at another write to a dependent.
const POINTS: [Point; 12] = [
    (Fault::CrashAfter, KCM, "down"),
    (Fault::LeaderLost, MCM, "down"),
    (Fault::SeedConnectionsDead, CA, "down"),
    (Fault::Lost, ETCD, "mark"),
    (Fault::Hang, ETCD, "down"),
    (Fault::CrashBefore, ETCD, "up"),
    (Fault::ShootSilent, CA, "up"),
    (Fault::Frozen, MCM, "up"),
    (Fault::WatchesGone, KCM, "up"),
    (Fault::SecondOperator, ETCD, "unmark"),
    (Fault::SeedSilent, CA, "unmark"),
    (Fault::WatchesLate, KCM, "unmark"),
];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_whatever_fails_at_whatever_write_the_end_is_the_same: 2]
}

async fn e2e_whatever_fails_at_whatever_write_the_end_is_the_same(env: Env) -> Result<()> {
    let stage = Stage::new(&env, "faults").await?;
    let runs = POINTS.iter().enumerate().map(async |(place, point)| {
        let name = format!("p{place}");
        let problems = chaos::problems(&stage, &name, *point).await;
        let problems = problems.unwrap_or_else(|error| vec![format!("cannot be made: {error:#}")]);
        (!problems.is_empty()).then(|| format!("{name}, {point:?}: {}", problems.join("; ")))
    });
    let failures: Vec<String> = join_all(runs).await.into_iter().flatten().collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}
