//! What the endpoints of a running operator tell.

use super::{Scenario, steps::staffed};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    Env, Operator, ask, free_port,
    wait::{self, seen},
};
use std::time::Duration;

/// What Kubernetes grants by default.
const TERMINATION: Duration = Duration::from_secs(30);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_the_endpoints_tell_how_the_operator_fares: 2]
}

/// Waits until it is answered by this code.
pub(super) async fn answers(port: u16, path: &str, code: u16) -> Result<()> {
    wait::until(&format!("{path} to be {code}"), async || {
        let (answered, body) = ask(port, path).await?;
        seen(answered == code, format!("{answered}: {body}"))
    })
    .await
}

/// Waits until the metrics have this line.
pub(super) async fn counts(port: u16, line: &str) -> Result<()> {
    let line = format!("dependency_watchdog_{line}");
    wait::until(&line, async || {
        let (_, body) = ask(port, "/metrics").await?;
        seen(body.lines().any(|it| it == line), body)
    })
    .await
}

async fn e2e_the_endpoints_tell_how_the_operator_fares(env: Env) -> Result<()> {
    let seed = env.own_seed("endpoints").await?;
    let port = free_port()?;
    let address = format!("127.0.0.1:{port}");
    let operator = Operator::start(
        &seed,
        "prober",
        "prober",
        &[
            "--metrics-bind-addr",
            &address,
            "--health-bind-addr",
            &address,
        ],
    )?;
    for path in ["/healthz", "/readyz"] {
        answers(port, path, 200).await?;
    }
    counts(port, "leader 1").await?;

    let shoot = staffed(env.shoot("endpoints").on(&seed)).await?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    counts(port, r#"clusters{state="judged"} 1"#).await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    for line in ["protected_clusters 1", "reaction_seconds_count 1"] {
        counts(port, line).await?;
    }

    // A seed that answers nothing any more keeps it no longer than Kubernetes waits. Restoring has
    // begun by then, or is about to.
    shoot.restore_all();
    shoot.all_renew().await?;
    seed.server().pause()?;
    let ended = operator.process.terminate(TERMINATION).await;
    seed.server().resume()?;
    let ended = ended?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
