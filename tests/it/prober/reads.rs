//! The prober against a scripted seed and scripted shoots: each read fails in each way.

use std::time::Duration;

use crate::support::{Failure, INTERVAL, Read, World, condition, run};
use serde_json::Value;

/// Longer than the limit of any request, and than any pause after a failure.
const LONG: Duration = Duration::from_secs(45);

/// Time passes in steps of this length.
const STEP: Duration = Duration::from_millis(250);

/// The reason that a failed read of a shoot is given.
fn reason(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused | Failure::Reset | Failure::Truncated => "Unreachable",
        Failure::Hang => "Timeout",
        Failure::Status(401) => "Unauthorized",
        Failure::Status(403) => "Forbidden",
        Failure::Status(429) | Failure::RetryAfter(_) => "TooManyRequests",
        Failure::Status(_) | Failure::Unserved => "ServerError",
        Failure::Html | Failure::WrongKind => "Unreadable",
    }
}

/// What a status must say while a read fails.
fn assert_blind(status: &serde_json::Value, reason: &str, case: &str) {
    for (kind, holds, why) in [
        ("Ready", "False", reason),
        ("Protecting", "False", "NotProtected"),
        ("Degraded", "True", reason),
    ] {
        let condition = condition(status, kind);
        assert_eq!(condition["status"], holds, "{case}: {status}");
        assert_eq!(condition["reason"], why, "{case}: {status}");
    }
    assert_eq!(status["protection"], "None", "{case}: {status}");
    assert_eq!(status["dependents"].as_array().unwrap().len(), 3, "{case}");
}

#[test]
fn machines_that_cannot_be_read() {
    for failure in Failure::ALL {
        run(machines_fail(failure));
    }
}

async fn machines_fail(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world
        .seed
        .fail(failure, (0, usize::MAX), |it| it.resource == "machines");
    world.start();
    let case = format!("{failure:?}");
    world.reason("a", "SeedUnreadable").await;
    let is_seen = |status: &Value| status["nodes"] == "4/4";
    let status = world.health_where("a", "Nodes are seen", is_seen).await;
    assert_blind(&status, "SeedUnreadable", &case);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("the Machines in namespace a"),
        "{case}: {message}"
    );
    world.seed.heal();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

#[test]
fn a_read_of_a_shoot_that_fails() {
    for read in [Read::Cached, Read::Nodes] {
        for failure in Failure::ALL {
            run(read_fails(read, failure));
        }
    }
}

async fn read_fails(read: Read, failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").fail(read, failure);
    world.start();
    let case = format!("{read:?} {failure:?}");
    let status = world.reason("a", reason(failure)).await;
    assert_blind(&status, reason(failure), &case);
    world.shoot("a").heal();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

/// A suspect shoot is read consistently, and each read is tried once more on a new connection.
#[test]
fn a_consistent_read_that_fails_twice() {
    for failure in Failure::ALL {
        run(consistent_reads_fail(failure));
    }
}

async fn consistent_reads_fail(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    let shoot = world.shoot("a");
    shoot.fail(Read::Consistent, failure);
    shoot.silence(20);
    world.start();
    let case = format!("{failure:?}");
    let status = world.reason("a", reason(failure)).await;
    assert_blind(&status, reason(failure), &case);
    let shoot = world.shoot("a");
    let reads = shoot.reads();
    let connections: Vec<usize> = reads
        .iter()
        .filter(|(_, read, _)| *read == Read::Consistent)
        .map(|(_, _, connection)| *connection)
        .collect();
    let tries = match failure {
        Failure::Status(429) | Failure::RetryAfter(_) => 1,
        _ => 2,
    };
    assert_eq!(connections.len(), tries, "{case}");
    assert!(connections.windows(2).all(|it| it[0] != it[1]), "{case}");
    // However long the silence lasts, nothing is scaled without evidence.
    world.clock.pass(LONG).await;
    let status = world.health("a");
    assert_blind(&status, reason(failure), &case);
    assert_eq!(world.seed.writes().len(), 0, "{case}");
    let shoot = world.shoot("a");
    shoot.heal();
    shoot.renew();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

/// 429 is answered by patience: what the server asks for, else ten seconds. Nodes that are put off put off no
/// leases.
#[test]
fn an_overloaded_server_is_left_alone() {
    for read in [Read::Cached, Read::Nodes] {
        for (failure, wait) in [
            (Failure::RetryAfter(7), 7),
            (Failure::RetryAfter(25), 25),
            (Failure::RetryAfter(3_600), 30),
            (Failure::Status(429), 10),
        ] {
            run(overloaded(read, failure, Duration::from_secs(wait)));
        }
    }
}

async fn overloaded(read: Read, failure: Failure, wait: Duration) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").fail(read, failure);
    world.start();
    world.reason("a", "TooManyRequests").await;
    world.shoot("a").heal();
    let of = |read| {
        let reads = world.shoot("a").reads().into_iter();
        let of = reads.filter(|it| it.1 == read).map(|it| it.0);
        of.collect::<Vec<_>>()
    };
    let throttled_at = *of(read).last().unwrap();
    world.more_reads("a", read, 1).await;
    let waited = *of(read).last().unwrap() - throttled_at;
    // Without suspicion they are read beside the leases.
    let late = if read == Read::Nodes { INTERVAL } else { STEP };
    assert!(
        wait <= waited && waited <= wait + late,
        "{read:?} {failure:?}: {waited:?}"
    );
    if read == Read::Nodes {
        for gap in of(Read::Cached).windows(2) {
            assert!(gap[1] - gap[0] <= INTERVAL + STEP, "{gap:?}");
        }
    }
}

#[tokio::test]
async fn a_cluster_that_hangs_delays_no_other() {
    let world = World::running(&["a", "b"]).await;
    world.reason("a", "Healthy").await;
    world.reason("b", "Healthy").await;
    world.shoot("a").fail(Read::Cached, Failure::Hang);
    world.more_reads("a", Read::Cached, 1).await;
    // Beside these its state is looked at.
    let probes = || {
        let reads = world.shoot("b").reads().into_iter();
        let probes = reads.filter(|(_, read, _)| *read == Read::Cached);
        probes.collect::<Vec<_>>()
    };
    let seen = probes().len();
    for more in 1..=5 {
        world.clock.pass(INTERVAL + STEP).await;
        assert_eq!(probes().len(), seen + more);
    }
    let probes = probes();
    let gaps = probes.windows(2).skip(1).map(|it| it[1].0 - it[0].0);
    for gap in gaps {
        assert!(gap <= INTERVAL + STEP, "{gap:?}");
    }
    assert_eq!(world.health("a")["reason"], "Timeout");
    assert_eq!(world.health("b")["reason"], "Healthy");
}
