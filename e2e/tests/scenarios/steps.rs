//! What scenarios about acting have in common: dependents as they should be, and what the operator
//! says and has done.

use super::prober::COUNTS;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::ClusterHealthStatus,
    prober::step::{MARK, RECORD},
};
use dependency_watchdog_e2e::{
    DEPENDENTS, Dependent, Request, Seed, Shoot, ShootBuilder, ask,
    wait::{self, seen},
};
use serde_json::{Value, json};

/// The times of an election: longer than by default, since a machine that stands still for ten seconds
/// is no reason for another to lead; and who has gone is asked for more often.
pub(super) const ELECTION: [&str; 3] = [
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=15s",
    "--leader-elect-retry-period=1s",
];

pub(super) const KCM: &str = DEPENDENTS[0];
pub(super) const MCM: &str = DEPENDENTS[1];
pub(super) const CA: &str = DEPENDENTS[2];

/// What of a dependent is the operator's business.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) replicas: i32,
    pub(super) mark: Option<String>,
    pub(super) record: Option<String>,
}

/// Scaled to zero by the operator, which owes it so many replicas.
pub(super) fn taken(replicas: i32) -> State {
    State {
        replicas: 0,
        mark: Some(String::new()),
        record: Some(replicas.to_string()),
    }
}

/// With so many replicas, and no annotation of the operator.
pub(super) fn plain(replicas: i32) -> State {
    State {
        replicas,
        mark: None,
        record: None,
    }
}

/// Given back so many replicas, and marked for now.
pub(super) fn back(replicas: i32) -> State {
    State {
        replicas,
        ..taken(replicas)
    }
}

/// With so many replicas, and a record, which alone is no mark.
pub(super) fn recorded(replicas: i32, record: &str) -> State {
    State {
        replicas,
        mark: None,
        record: Some(record.to_owned()),
    }
}

pub(super) async fn state(dependent: &Dependent) -> Result<State> {
    let found = dependent.get().await?;
    let mut annotations = found.metadata.annotations.unwrap_or_default();
    Ok(State {
        replicas: found.spec.and_then(|spec| spec.replicas).unwrap_or(1),
        mark: annotations.remove(MARK),
        record: annotations.remove(RECORD),
    })
}

/// Fails unless the dependent of this name is so now.
pub(super) async fn is(shoot: &Shoot, name: &str, wanted: State) -> Result<()> {
    let found = state(&shoot.dependent(name)).await?;
    ensure!(
        found == wanted,
        "{name} of {} is {found:?}, not {wanted:?}",
        shoot.namespace()
    );
    Ok(())
}

/// Fails unless all three are so now, in the order of [`DEPENDENTS`].
pub(super) async fn are(shoot: &Shoot, wanted: [State; 3]) -> Result<()> {
    for (name, wanted) in DEPENDENTS.into_iter().zip(wanted) {
        is(shoot, name, wanted).await?;
    }
    Ok(())
}

/// Waits until the dependent of this name is so.
pub(super) async fn becomes(shoot: &Shoot, name: &str, wanted: State) -> Result<()> {
    let what = format!("{name} of {} to be {wanted:?}", shoot.namespace());
    wait::until(&what, async || {
        let found = state(&shoot.dependent(name)).await?;
        seen(found == wanted, format!("{found:?}"))
    })
    .await
}

/// A shoot whose dependents have [`COUNTS`] replicas; no policy is there for it yet.
pub(super) async fn staffed(shoot: ShootBuilder) -> Result<Shoot> {
    let shoot = shoot.dependents(DEPENDENTS).await?;
    for (name, count) in DEPENDENTS.into_iter().zip(COUNTS) {
        shoot.dependent(name).scale(count).await?;
        shoot.dependent(name).is_ready(count).await?;
    }
    Ok(shoot)
}

/// An entry of a policy for a Deployment, with its scaleDown and scaleUp.
pub(super) fn deployment(name: &str, down: &Value, up: &Value) -> Value {
    json!({
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "optional": false,
        "scaleDown": down,
        "scaleUp": up,
    })
}

/// Waits until the operator reports the cluster degraded for this reason.
pub(super) async fn is_degraded(shoot: &Shoot, reason: &str) -> Result<ClusterHealthStatus> {
    let what = format!("{} to be degraded: {reason}", shoot.namespace());
    shoot
        .reports(&what, |status| {
            degraded(status).as_ref() == Some(&("True".to_owned(), reason.to_owned()))
        })
        .await
}

/// Waits until the operator reports that nothing is amiss.
pub(super) async fn is_sound(shoot: &Shoot) -> Result<ClusterHealthStatus> {
    let what = format!("nothing to be amiss with {}", shoot.namespace());
    shoot
        .reports(&what, |status| {
            degraded(status).is_some_and(|(status, _)| status == "False")
        })
        .await
}

fn degraded(status: &ClusterHealthStatus) -> Option<(String, String)> {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == "Degraded")?;
    Some((found.status.clone(), found.reason.clone()))
}

/// Fails unless the message has all these words.
pub(super) fn says(status: &ClusterHealthStatus, words: &[&str]) -> Result<()> {
    let message = status.message.as_deref().context("no message")?;
    for word in words {
        ensure!(
            message.contains(word),
            "{word:?} is not said in {message:?}"
        );
    }
    Ok(())
}

/// The names of the dependents to which something is owed.
pub(super) fn owed(status: &ClusterHealthStatus) -> Vec<&str> {
    let dependents = status.dependents.iter();
    dependents
        .filter(|dependent| dependent.owed)
        .map(|dependent| dependent.r#ref.name.as_str())
        .collect()
}

/// What the operator has asked of a shoot's namespace on the seed, in order, without the events that
/// it has told there.
pub(super) fn requests(shoot: &Shoot) -> Result<Vec<Request>> {
    let mut requests = shoot.control_plane.seed().operator_requests()?;
    requests
        .retain(|request| request.namespace == shoot.namespace() && request.resource != "events");
    Ok(requests)
}

/// The writes among these.
pub(super) fn writes(shoot: &Shoot) -> Result<Vec<Request>> {
    let mut requests = requests(shoot)?;
    requests.retain(Request::is_write);
    Ok(requests)
}

/// Waits until the operator has read the dependent of this name so many times more, which it does
/// when a verdict was reached.
pub(super) async fn is_looked_at(shoot: &Shoot, name: &str, times: usize) -> Result<()> {
    let looks = || -> Result<usize> {
        let looks = requests(shoot)?.into_iter();
        Ok(looks
            .filter(|request| request.verb == "get" && request.name == name)
            .count())
    };
    let before = looks()?;
    let what = format!("the operator to look at {name} of {}", shoot.namespace());
    wait::until(&what, async || {
        let more = looks()? - before;
        seen(more >= times, format!("{more} looks"))
    })
    .await
}

/// Waits until kubectl shows a line with each of these groups of words.
pub(super) async fn shown(seed: &Seed, arguments: &[&str], lines: &[&[&str]]) -> Result<()> {
    let kubectl = seed.kubectl();
    wait::until(
        &format!("kubectl {arguments:?} to show {lines:?}"),
        async || {
            let shown = kubectl.run(arguments).await?;
            let has = |words: &[&str]| {
                let mut lines = shown.lines();
                lines.any(|line| words.iter().all(|word| line.contains(word)))
            };
            seen(lines.iter().all(|words| has(words)), &shown)
        },
    )
    .await
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
