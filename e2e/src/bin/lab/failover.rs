//! How soon a standby acts on outages that the leader before it leaves. The nodes of one shoot after the other lose
//! their network, and then the leader is killed. It fails if one of them is not protected.

use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Request, Shoot,
    wait::{self, seen},
};
use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::json;
use std::{ops::RangeInclusive, path::Path, time::Duration};

/// Seconds from the cut of a shoot's nodes to the end of the leader, each in a shoot of its own. After more
/// than these the leader may already have acted.
const AGES: RangeInclusive<u64> = 0..=16;
const PROBER: &str = "dwd-prober";
const GRACE: Duration = Duration::from_secs(40);

/// With leases, a grace and an election as they are by default.
pub(crate) async fn run(root: &Path) -> Result<()> {
    let env = Env::prepare(root).await?;
    let seed = env.own_seed("failover").await?;
    let shoot = |name: &str| {
        let shoot = env.shoot(name).on(&seed).lease_duration(GRACE);
        shoot.label("story", "left").dependents(DEPENDENTS)
    };
    let host = shoot("left").await?;
    let shoots = AGES.rev();
    let shoots = shoots.map(|age| shoot(&format!("left-{age}")).beside(&host).into_future());
    let shoots = try_join_all(shoots).await?;
    let first = Operator::replica(&seed, "first", "prober", &seed.operator_kubeconfig()?, &[])?;
    seed.is_led_by(PROBER, "first").await?;
    let _second = Operator::replica(&seed, "second", "prober", &seed.other_kubeconfig()?, &[])?;
    let policy = host.policy()?.named("left");
    let policy = policy.with(&json!({
        "clusterSelector": {"matchLabels": {"scenario": null, "story": "left"}},
        "kcmNodeMonitorGraceDuration": "40s",
        "probeInterval": "10s",
    }));
    policy.apply().await?;
    for shoot in &shoots {
        shoot.is_found("Healthy").await?;
    }
    wait::until("the standby to have read each cluster", async || {
        let requests = seed.other_requests()?;
        let machines = |shoot: &Shoot| {
            let mut lists = requests.iter().filter(|it| it.resource == "machines");
            lists.any(|it| it.namespace == shoot.namespace())
        };
        seen(shoots.iter().all(machines), "not all Machines are listed")
    })
    .await?;

    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    for shoot in &shoots {
        // The ages are what is tried, not a time that something takes.
        seconds.tick().await;
        shoot.cut_all();
    }
    let killed = Timestamp::now();
    first.process.kill();
    seed.is_led_by(PROBER, "second").await?;
    let began = seed.lease(PROBER).await?.acquire_time;
    let began = began.context("not acquired")?.0;
    let led = began.duration_since(killed).as_secs_f64();
    println!("killed, and led by another {led:.1} s later");
    for (shoot, age) in shoots.iter().zip(AGES.rev()) {
        shoot.is_protected(Protection::Active).await?;
        let writes = seed.other_requests()?.into_iter().filter(Request::is_write);
        let mut writes = writes.filter(|it| it.namespace == shoot.namespace());
        let write = writes.next().context("no write")?.received;
        let after = write.duration_since(killed).as_secs_f64();
        println!("cut {age} s before: first write {after:.1} s after");
    }
    let mut written = seed.operator_requests()?;
    written.retain(|it| it.is_write() && it.resource.starts_with("deployments"));
    ensure!(
        written.is_empty(),
        "the first has acted: nothing was tried, {written:?}"
    );
    Ok(())
}
