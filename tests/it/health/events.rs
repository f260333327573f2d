//! Events against a scripted seed: which are told, in which order, how often, and that nothing else
//! waits for them.

use std::{collections::BTreeMap, time::Duration};

use crate::support::{Call, DEPENDENTS, Failure, LONG, Seed, World, assert_back, protected, run};
use serde_json::{Value, json};

/// `Warning ScaledDown` or the like, by the kind and the name of the object, in order.
fn told(seed: &Seed) -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Call { body, .. } in seed.events() {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let regarding = &body["regarding"];
        let object = format!("{} {}", text(&regarding["kind"]), text(&regarding["name"]));
        let event = format!("{} {}", text(&body["type"]), text(&body["reason"]));
        told.entry(object).or_default().push(event);
    }
    told
}

/// The same of what is expected.
fn expected(events: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
    let events = events.iter().map(|(object, events)| {
        let events = events.iter().map(|event| (*event).to_owned());
        ((*object).to_owned(), events.collect())
    });
    events.collect()
}

/// The note of the first event of this reason.
fn note(seed: &Seed, reason: &str) -> String {
    let events = seed.events();
    let event = events.iter().find(|it| it.body["reason"] == reason);
    event.unwrap().body["note"].as_str().unwrap().to_owned()
}

const OUTAGE: [(&str, &[&str]); 5] = [
    (
        "ClusterHealth a",
        &[
            "Warning ScalingDown",
            "Warning NOTREADY",
            "Normal Protected",
        ],
    ),
    ("Deployment ca", &["Warning ScaledDown"]),
    ("Deployment kcm", &["Warning ScaledDown"]),
    ("Deployment mcm", &["Warning ScaledDown"]),
    ("ProbePolicy p", &["Warning Outage"]),
];
const RECOVERY: [(&str, &[&str]); 5] = [
    (
        "ClusterHealth a",
        &["Normal Restoring", "Normal ONLINE", "Normal Restored"],
    ),
    ("Deployment ca", &["Normal ScaledUp"]),
    ("Deployment kcm", &["Normal ScaledUp"]),
    ("Deployment mcm", &["Normal ScaledUp"]),
    ("ProbePolicy p", &["Normal NoOutage"]),
];

/// The cluster `a`, which is restored when it was protected; all has been told.
async fn recover(world: &World) {
    world.shoot("a").renew();
    world.protection("a", "None").await;
    world.clock.pass(LONG).await;
}

/// The cluster `a`, healthy, with objects that have UIDs.
async fn healthy_world() -> World {
    let mut world = World::new(&["a"]).await;
    for name in DEPENDENTS {
        let uid = json!(format!("uid-{name}"));
        world.seed.change("deployments", "a", name, |object| {
            object["metadata"]["uid"] = uid.clone();
        });
    }
    world.start();
    world.reason("a", "Healthy").await;
    world.seed.change("clusterhealths", "", "a", |object| {
        object["metadata"]["uid"] = json!("uid-health");
    });
    world.clock.pass(LONG).await;
    world
}

#[tokio::test]
async fn an_outage_is_told_once_on_all_that_it_concerns() {
    let world = healthy_world().await;
    assert_eq!(told(&world.seed), expected(&[]));
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    // However long it lasts, and whatever is refreshed meanwhile.
    world.clock.pass(Duration::from_secs(20 * 60)).await;
    assert_eq!(told(&world.seed), expected(&OUTAGE));
    assert!(
        note(&world.seed, "ScaledDown")
            .contains("for policy p: 4 of 4 node leases that count were expired")
    );
    assert!(note(&world.seed, "ScalingDown").contains("4 of 4 node leases that count are expired"));
    for Call {
        body, namespace, ..
    } in world.seed.events()
    {
        let regarding = &body["regarding"];
        let (expected, uid) = match regarding["kind"].as_str().unwrap() {
            "Deployment" => ("a", format!("uid-{}", regarding["name"].as_str().unwrap())),
            "ClusterHealth" => ("default", "uid-health".to_owned()),
            _ => ("default", "uid-p".to_owned()),
        };
        assert_eq!(
            (&*namespace, regarding["uid"].as_str()),
            (expected, Some(&*uid))
        );
        assert_eq!(body["metadata"]["namespace"], regarding["namespace"]);
        assert_eq!(body["reportingController"], "dependency-watchdog-prober");
        assert!(!body["reportingInstance"].as_str().unwrap().is_empty());
        assert!(!body["action"].as_str().unwrap().is_empty());
    }
    let before = world.seed.events().len();
    recover(&world).await;
    assert_back(&world);
    // The policy is held until the marks have fallen.
    world.clock.pass(2 * LONG).await;
    let both: Vec<(&str, Vec<&str>)> = OUTAGE
        .iter()
        .zip(RECOVERY)
        .map(|((object, first), (_, second))| (*object, [*first, second].concat()))
        .collect();
    let both: Vec<(&str, &[&str])> = both.iter().map(|(it, all)| (*it, &**all)).collect();
    assert_eq!(told(&world.seed), expected(&both));
    assert_eq!(world.seed.events().len() - before, 7);
    assert!(note(&world.seed, "Restored").starts_with("scaled back: "));
}

#[tokio::test]
async fn a_restart_repeats_nothing() {
    let mut world = protected().await;
    world.clock.pass(LONG).await;
    world.stop().await;
    let before = world.seed.events().len();
    world.start();
    world.clock.pass(Duration::from_secs(20 * 60)).await;
    assert_eq!(world.seed.events().len(), before);
    recover(&world).await;
    world.clock.pass(2 * LONG).await;
    assert_eq!(world.seed.events().len() - before, 7);
}

/// A trouble that lasts is told once.
#[tokio::test]
async fn a_dependent_that_cannot_be_scaled_is_told_once() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world
        .seed
        .fail(Failure::Status(403), (0, usize::MAX), |call| {
            call.brief() == "PATCH deployments/mcm"
        });
    world.shoot("a").silence(100);
    world.protection("a", "ScalingDown").await;
    world.clock.pass(2 * LONG).await;
    let told = told(&world.seed);
    assert_eq!(told["Deployment mcm"], ["Warning ScalingForbidden"]);
    let troubled = &told["ClusterHealth a"];
    let times = |event: &str| troubled.iter().filter(|it| **it == event).count();
    assert_eq!(times("Warning ScalingDown"), 1);
    assert_eq!(times("Warning ScalingForbidden"), 1);
}

/// What was written of dependents and statuses in an outage and after it, since it began.
async fn writes_of_an_outage(failure: Option<Failure>) -> (Vec<(String, Duration)>, usize) {
    let world = healthy_world().await;
    if let Some(failure) = failure {
        world
            .seed
            .fail(failure, (0, usize::MAX), |call| call.resource == "events");
    }
    world.seed.forget_calls();
    let begin = world.clock.elapsed();
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    recover(&world).await;
    assert_back(&world);
    let elapsed = world.clock.elapsed() - begin;
    let writes = world.seed.calls().into_iter();
    let writes = writes.filter(|call| call.method != "GET");
    let writes = writes.map(|call| (call.brief(), elapsed - call.at.elapsed()));
    (writes.collect(), world.seed.events().len())
}

/// Each event is sent once, whatever comes of it, and nothing else is other than without events.
#[test]
fn events_that_fail_or_hang_change_and_delay_nothing() {
    let (writes, events) = {
        let mut found = None;
        run(async { found = Some(writes_of_an_outage(None).await) });
        found.unwrap()
    };
    for failure in Failure::ALL {
        run(async {
            let (found, sent) = writes_of_an_outage(Some(failure)).await;
            assert_eq!(found, writes, "{failure:?}");
            // One that hangs keeps others waiting.
            if failure == Failure::Hang {
                assert!((2..events).contains(&sent), "{sent} of {events}");
            } else {
                assert_eq!(sent, events, "{failure:?}");
            }
        });
    }
}
