//! Two replicas: whatever becomes of the one that acts, the other takes over, and never do both act.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored},
    steps::{ELECTION, answers, are, becomes, counts, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Process, Request, Seed, Shoot, free_port,
    wait::{self, seen},
};
use jiff::Timestamp;
use std::sync::Arc;

/// The Deployment whose replicas they are.
pub(super) const PROBER: &str = "dwd-prober";
const FIRST: &str = "replica-first";
const SECOND: &str = "replica-second";
const LOST: &str = "leadership was lost";

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_leader_that_is_killed_is_followed_and_protection_stays,
        e2e_a_leader_that_was_frozen_writes_nothing_more,
    ]
}

/// Two replicas, the first of which leads, and a healthy shoot.
struct Pair {
    seed: Arc<Seed>,
    first: Operator,
    second: Operator,
    /// Of the second's endpoints.
    port: u16,
    shoot: Shoot,
}

impl Pair {
    async fn start(env: &Env, name: &str) -> Result<Self> {
        let seed = env.own_seed(name).await?;
        let kubeconfig = seed.operator_kubeconfig()?;
        let first = Operator::replica(&seed, FIRST, "prober", &kubeconfig, &ELECTION)?;
        seed.is_led_by(PROBER, FIRST).await?;
        let port = free_port()?;
        let endpoints =
            ["metrics", "health"].map(|it| format!("--{it}-bind-addr=127.0.0.1:{port}"));
        let args = [&ELECTION[..], &endpoints.each_ref().map(String::as_str)].concat();
        let second = Operator::replica(&seed, SECOND, "prober", &seed.other_kubeconfig()?, &args)?;
        let shoot = staffed(env.shoot(name).on(&seed)).await?;
        shoot.policy()?.apply().await?;
        shoot.is_found("Healthy").await?;
        is_quiet("the second", &seed.other_requests()?)?;
        Ok(Self {
            seed,
            first,
            second,
            port,
            shoot,
        })
    }

    /// Cuts the nodes off, and waits until the first level is scaled down and the next waits for its
    /// pods, which do not go.
    async fn begin_to_protect(&self) -> Result<()> {
        self.shoot.control_plane.pause_pods();
        self.shoot.cut_all();
        becomes(&self.shoot, DEPENDENTS[0], taken(COUNTS[0])).await
    }

    /// The second brings to an end what the first has begun, and restores.
    async fn is_finished_by_the_second(&self) -> Result<()> {
        self.shoot.control_plane.resume_pods();
        becomes(&self.shoot, DEPENDENTS[2], taken(COUNTS[2])).await?;
        self.shoot.is_protected(Protection::Active).await?;
        are(&self.shoot, COUNTS.map(taken)).await?;
        self.shoot.restore_all();
        self.shoot.is_protected(Protection::None).await?;
        all_are_restored(&self.shoot).await
    }
}

async fn e2e_a_leader_that_is_killed_is_followed_and_protection_stays(env: Env) -> Result<()> {
    let pair = Pair::start(&env, "leader-killed").await?;
    pair.shoot.cut_all();
    pair.shoot.is_protected(Protection::Active).await?;
    is_quiet("the second", &pair.seed.other_requests()?)?;
    // It stands by: ready, so that a rollout goes on, and said not to act.
    for path in ["/healthz", "/readyz"] {
        answers(pair.port, path, 200).await?;
    }
    counts(pair.port, "leader 0").await?;
    pair.first.process.kill();
    wait::until("the second to lead, all being protected", async || {
        are(&pair.shoot, COUNTS.map(taken)).await?;
        pair.seed.is_held_by(PROBER, SECOND).await
    })
    .await?;
    counts(pair.port, "leader 1").await?;
    pair.is_finished_by_the_second().await
}

async fn e2e_a_leader_that_was_frozen_writes_nothing_more(env: Env) -> Result<()> {
    let pair = Pair::start(&env, "leader-frozen").await?;
    pair.begin_to_protect().await?;
    pair.first.process.pause()?;
    pair.seed.is_led_by(PROBER, SECOND).await?;
    let replaced = Timestamp::now();
    pair.first.process.resume()?;
    is_lost(&pair.first.process).await?;
    pair.is_finished_by_the_second().await?;
    let mut after = pair.seed.operator_requests()?;
    after.retain(|request| request.is_write() && request.received > replaced);
    ensure!(after.is_empty(), "the first wrote: {after:?}");
    // The same process stands behind the other, and follows it.
    wait::until("the first to see the second lead", async || {
        let log = pair.first.process.log()?;
        seen(log.contains(&format!("does not lead: {SECOND}_")), log)
    })
    .await?;
    pair.second.process.terminate(wait::LIMIT).await?;
    pair.seed.is_led_by(PROBER, FIRST).await?;
    pair.shoot.cut_all();
    pair.shoot.is_protected(Protection::Active).await?;
    are(&pair.shoot, COUNTS.map(taken)).await?;
    pair.first.process.ensure_running()
}

/// Waits until it says that it does not lead any more. It goes on.
async fn is_lost(process: &Process) -> Result<()> {
    wait::until("the first to be deposed", async || {
        let log = process.log()?;
        seen(log.contains(LOST), log)
    })
    .await?;
    process.ensure_running()
}

/// Fails if it has written anything.
fn is_quiet(who: &str, requests: &[Request]) -> Result<()> {
    let write = requests.iter().find(|it| it.is_write());
    ensure!(write.is_none(), "{who} does not lead, and wrote: {write:?}");
    Ok(())
}
