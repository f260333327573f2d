//! Many clusters at once.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored, patched},
    steps::{are, deployment, owed, plain, staffed, taken, writes},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{DEPENDENTS, Env, Operator, Shoot, ShootBuilder, wait};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Three quarters of the grace, which is longer than elsewhere: so much more work is to be done on the same machine.
const EXPIRY: SignedDuration = SignedDuration::from_secs(30);

/// How many clusters fall silent.
const OUTAGES: usize = 20;

/// The second lease of three makes it an outage.
const DECISIVE: usize = 1;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_twenty_outages_at_once_are_all_met: 2]
}

async fn e2e_twenty_outages_at_once_are_all_met(env: Env) -> Result<()> {
    // Requests are limited as for everybody.
    let seed = env.own_seed("fleet").await?;
    let _operator = Operator::start(&seed, "prober", "prober", &[])?;
    let shoot = |name: &str| env.shoot(name).on(&seed).label("story", "fleet");
    let (one, other) = tokio::try_join!(staffed(shoot("fleet-0")), staffed(shoot("fleet-1")),)?;
    let hosts = [&one, &other].into_iter().cycle();
    let rest = (2..=OUTAGES).zip(hosts).map(|(number, host)| {
        let shoot: ShootBuilder = shoot(&format!("fleet-{number}"));
        staffed(shoot.beside(host))
    });
    let mut shoots = try_join_all(rest).await?;
    let spared = shoots.pop().context("no shoot")?;
    shoots.extend([one, other]);
    ensure!(shoots.len() == OUTAGES);
    let level = json!({"level": 0});
    let dependents: Vec<Value> = DEPENDENTS
        .iter()
        .map(|name| deployment(name, &level, &level))
        .collect();
    let policy = spared.policy()?.with(&json!({
        "clusterSelector": {"matchLabels": {"scenario": null, "story": "fleet"}},
        "kcmNodeMonitorGraceDuration": "40s",
        "dependentResourceInfos": dependents,
    }));
    policy.apply().await?;
    for shoot in shoots.iter().chain([&spared]) {
        shoot.is_found("Healthy").await?;
    }

    shoots.iter().for_each(Shoot::cut_all);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for shoot in &shoots {
        let status = shoot.is_protected(Protection::Active).await?;
        ensure!(owed(&status).len() == DEPENDENTS.len(), "{status:?}");
        are(shoot, COUNTS.map(taken)).await?;
        let writes = writes(shoot)?;
        let written = writes.iter().filter(|write| write.code == 200);
        let written: Vec<Timestamp> = written.map(|write| write.received).collect();
        ensure!(written.len() == DEPENDENTS.len(), "{writes:?}");
        let expired = expired(shoot)?;
        ensure!(
            written.iter().all(|time| *time > expired),
            "{} was scaled at {written:?}, its leases expired at {expired}",
            shoot.namespace()
        );
        let delays = written.iter().map(|time| time.duration_since(expired));
        first.extend(delays.clone().min());
        last.extend(delays.max());
    }
    eprintln!(
        "{OUTAGES} outages at once, from the expiry of the leases: first write {}, last write {}",
        spread(first),
        spread(last)
    );
    // Nothing is withheld for it, but it is said.
    let told = format!("{OUTAGES} of {} probed clusters", OUTAGES + 1);
    wait::until("the policy to tell of all at once", async || {
        let message = policy.says("WidespreadOutage", "SilentAtOnce").await?;
        wait::seen(message.contains(&told), message)
    })
    .await?;
    ensure!(writes(&spared)?.is_empty(), "{:?}", writes(&spared)?);
    are(&spared, COUNTS.map(plain)).await?;
    let status = spared.control_plane.health().await?;
    ensure!(status.reason.as_deref() == Some("Healthy"), "{status:?}");

    shoots.iter().for_each(Shoot::restore_all);
    for shoot in &shoots {
        shoot.is_protected(Protection::None).await?;
        all_are_restored(shoot).await?;
        ensure!(patched(shoot)?.len() == 2 * DEPENDENTS.len());
    }
    Ok(())
}

/// When enough leases of a shoot that is cut were expired, by what its kubelets know.
fn expired(shoot: &Shoot) -> Result<Timestamp> {
    let renewals = shoot.kubelets.iter();
    let renewals: Result<Vec<_>> = renewals.map(|it| Ok(it.last_renewal()?.sent)).collect();
    let mut renewals = renewals?;
    renewals.sort_unstable();
    let decisive = renewals.get(DECISIVE).context("too few nodes")?;
    Ok(decisive.checked_add(EXPIRY)?)
}

/// The least, the median and the most, in seconds.
fn spread(mut delays: Vec<SignedDuration>) -> String {
    delays.sort_unstable();
    let at = |place: usize| {
        delays
            .get(place)
            .map_or(f64::NAN, SignedDuration::as_secs_f64)
    };
    format!(
        "{:.2} s, {:.2} s at the median, {:.2} s at the latest",
        at(0),
        at(delays.len() / 2),
        at(delays.len().saturating_sub(1))
    )
}
