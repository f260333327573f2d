//! Events against a scripted seed: which are told, in which order, how often, and that nothing else
//! waits for them.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use crate::support::{
    Activity, Call, Clock, DEPENDENTS, Failure, LONG, Seed, World, assert_back, change_policy,
    change_shoot, protected, run, scale_by_hand,
};
use dependency_watchdog::{
    api::{DependentRef, Mode, Protection},
    cluster::{Dependent, Scale},
    prober::{
        flow::{FlowEvent, What},
        plan::Step,
        report::{ClusterReport, DependentNews, Finding, Reporter},
    },
    runtime::seed::{Budget, LEAST_QPS, REQUEST_LIMIT},
    status::EventCounts,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const DOWN: Step = Step::ScaleDown { from: 1 };
const UP: Step = Step::ScaleUp { to: 1 };
/// What is due at once has been written.
const MOMENT: Duration = Duration::from_millis(5);

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
        &["Warning Protecting", "Normal Protected"],
    ),
    ("Deployment ca", &["Warning ScaledDown"]),
    ("Deployment kcm", &["Warning ScaledDown"]),
    ("Deployment mcm", &["Warning ScaledDown"]),
    (
        "ProbePolicy p",
        &["Normal FinalizerAdded", "Warning Protecting"],
    ),
];
const RECOVERY: [(&str, &[&str]); 5] = [
    ("ClusterHealth a", &["Normal Restoring", "Normal Restored"]),
    ("Deployment ca", &["Normal ScaledUp"]),
    ("Deployment kcm", &["Normal ScaledUp"]),
    ("Deployment mcm", &["Normal ScaledUp"]),
    (
        "ProbePolicy p",
        &["Normal NoneProtected", "Normal FinalizerRemoved"],
    ),
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
    assert!(note(&world.seed, "Protecting").contains("4 of 4 node leases that count are expired"));
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
    assert!(note(&world.seed, "Restored").starts_with("its dependents are back after "));
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

/// A trouble that lasts is told once, also over a restart.
#[tokio::test]
async fn a_dependent_that_cannot_be_scaled_is_told_once() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world
        .seed
        .fail(Failure::Status(403), (0, usize::MAX), |call| {
            call.brief() == "PATCH deployments/mcm"
        });
    world.shoot("a").silence(100);
    world.protection("a", "ScalingDown").await;
    world.clock.pass(LONG).await;
    world.stop().await;
    world.start();
    world.clock.pass(LONG).await;
    let told = told(&world.seed);
    assert_eq!(told["Deployment mcm"], ["Warning ScalingForbidden"]);
    assert_eq!(told["ClusterHealth a"], ["Warning Protecting"]);
}

#[tokio::test]
async fn what_somebody_else_does_to_a_dependent_is_told() {
    let world = protected().await;
    scale_by_hand(&world, "mcm", 5, false);
    world.clock.pass(LONG).await;
    assert!(note(&world.seed, "ScaledDown").contains("from 1 to 0"));
    // The same on the same object within minutes is counted.
    let events = world.seed.events();
    let again = events.iter().find(|it| it.method == "PATCH").unwrap();
    assert_eq!(again.body["series"]["count"], 2);
    assert_eq!(again.body["regarding"]["name"], "mcm");
    // On a healthy cluster it is left so.
    scale_by_hand(&world, "kcm", 4, false);
    world.seed.change("deployments", "a", "kcm", |object| {
        object["metadata"]["annotations"]["dependency-watchdog.gardener.cloud/ignore-scaling"] =
            json!("true");
    });
    world.clock.pass(LONG).await;
    assert_eq!(
        note(&world.seed, "Released"),
        "mark removed for policy p, replicas left at 4: it says ignore-scaling"
    );
}

#[tokio::test]
async fn what_becomes_of_a_policy_and_of_the_state_of_a_shoot_is_told() {
    let world = healthy_world().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
    world.shoot("a").silence(100);
    world.reason("a", "Outage").await;
    world.clock.pass(LONG).await;
    assert!(note(&world.seed, "WouldProtect").ends_with("scaled to zero: ca, kcm, mcm"));
    world.shoot("a").renew();
    world.reason("a", "Healthy").await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.clock.pass(LONG).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(false)
    });
    world.clock.pass(LONG).await;
    change_shoot(&world, |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true});
        shoot["status"]["hibernated"] = json!(true);
    });
    world.clock.pass(LONG).await;
    for interval in ["0s", "10s"] {
        change_policy(&world, "p", |policy| {
            policy["spec"]["probeInterval"] = json!(interval);
        });
        world.clock.pass(LONG).await;
    }
    assert_eq!(
        told(&world.seed),
        expected(&[
            (
                "ClusterHealth a",
                &[
                    "Warning WouldProtect",
                    "Normal Skipped",
                    "Normal Probed",
                    "Normal Skipped"
                ]
            ),
            ("ProbePolicy p", &["Warning Invalid", "Normal Valid"]),
        ])
    );
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

/// A writer on a scripted seed.
struct Desk {
    clock: Clock,
    seed: Seed,
    reporter: Reporter,
    counts: EventCounts,
    stop: CancellationToken,
}

impl Desk {
    /// Its requests go to the seed within this budget, if there is one.
    fn new(budget: Option<Budget>) -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let seed = Seed::new(activity);
        let way = match budget {
            Some(budget) => dependency_watchdog::runtime::seed::Seed::new(
                seed.unlimited().client().clone(),
                budget,
            ),
            None => seed.unlimited(),
        };
        let (writer, reporter) = Reporter::new(way, vec![], BTreeMap::new());
        let counts = writer.event_counts();
        let stop = CancellationToken::new();
        tokio::spawn(writer.run(stop.clone()));
        Self {
            clock,
            seed,
            reporter,
            counts,
            stop,
        }
    }

    /// A dependent of this cluster was scaled.
    fn scaled(&self, cluster: &str, name: &str, step: Step) {
        let scale = Scale {
            level: 0,
            initial_delay: Duration::ZERO,
            timeout: Duration::ZERO,
            await_nodes: Duration::ZERO,
        };
        let event = FlowEvent {
            at: Instant::now(),
            dependent: Dependent {
                reference: DependentRef {
                    api_version: "apps/v1".to_owned(),
                    kind: "Deployment".to_owned(),
                    name: name.to_owned(),
                },
                optional: false,
                up: scale,
                down: scale,
            },
            uid: None,
            what: What::Did(step, None),
        };
        let news = DependentNews {
            event,
            problem: None,
            why: String::new(),
        };
        self.reporter.dependent(&cluster.into(), news);
    }

    /// A cluster reports that its protection is this.
    fn reports(&self, cluster: &str, protection: Protection) {
        let report = ClusterReport {
            uid: Arc::from(format!("uid-{cluster}")),
            policy: None,
            mode: Mode::Enforce,
            finding: Finding::Pending,
            protection,
            protected_since: None,
            silent_since: None,
            grace: None,
            max_protection_reached: None,
            recent_protections: Vec::new(),
            overdue: false,
            observed: None,
            checks: vec![],
            looked_at: true,
            last_action: None,
            awaits: None,
            held_back: None,
            let_go: None,
            dependents: vec![],
            problems: vec![],
            probed: None,
        };
        self.reporter.cluster(&cluster.into(), report);
    }

    fn counted(&self) -> (u64, u64) {
        (self.counts.written.get(), self.counts.dropped.get())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// No answer to any event, ever.
fn hang(seed: &Seed) {
    seed.fail(Failure::Hang, (0, usize::MAX), |call| {
        call.resource == "events"
    });
}

#[tokio::test]
async fn no_more_wait_than_there_is_room_for() {
    let desk = Desk::new(None);
    hang(&desk.seed);
    for index in 0..300 {
        let cluster = format!("c{index}");
        desk.scaled(&cluster, "kcm", DOWN);
        desk.scaled(&cluster, "mcm", DOWN);
        desk.scaled(&cluster, "ca", UP);
        desk.reports(&cluster, Protection::ScalingDown);
    }
    desk.clock.pass(MOMENT).await;
    // All but the one on its way, those that wait, and no status among those that do.
    assert_eq!(desk.seed.events().len(), 1);
    assert_eq!(desk.counted(), (0, 1_200 - 1 - 1_000));
    for index in 0..300 {
        let health = desk.seed.get("clusterhealths", "", &format!("c{index}"));
        assert_eq!(health.unwrap()["status"]["protection"], "ScalingDown");
    }
    desk.seed.heal();
    desk.clock.pass(2 * REQUEST_LIMIT).await;
    assert_eq!(desk.counted(), (1_000, 200));
    let informing = desk.seed.events();
    let informing = informing.iter().filter(|it| it.body["type"] == "Normal");
    assert_eq!(informing.count(), 300 - 199, "the others give way");
}

#[tokio::test]
async fn a_status_waits_for_no_event() {
    let desk = Desk::new(None);
    hang(&desk.seed);
    for protection in [
        Protection::ScalingDown,
        Protection::Active,
        Protection::Restoring,
        Protection::None,
    ] {
        desk.reports("a", protection);
        desk.clock.pass(MOMENT).await;
        let health = desk.seed.get("clusterhealths", "", "a").unwrap();
        let said = &health["status"]["protection"];
        assert_eq!(*said, json!(format!("{protection:?}")));
    }
    assert_eq!(desk.seed.events().len(), 1);
}

/// What is left of the budget goes to statuses.
#[tokio::test]
async fn events_keep_to_the_budget_and_come_after_statuses() {
    let budget = Budget {
        qps: LEAST_QPS,
        burst: NonZeroU32::new(5).unwrap(),
    };
    let desk = Desk::new(Some(budget));
    for name in ["kcm", "mcm", "ca"] {
        desk.scaled("a", name, DOWN);
    }
    // Two requests each.
    desk.reports("a", Protection::None);
    desk.reports("b", Protection::None);
    desk.clock.pass(MOMENT).await;
    let status = |cluster| desk.seed.get("clusterhealths", "", cluster).unwrap()["status"].clone();
    assert_ne!(status("a"), Value::Null);
    assert_ne!(status("b"), Value::Null);
    assert_eq!(desk.seed.events().len(), 1);
}

/// One that waits for its turn holds up nobody who comes after it, however many they are, also at
/// the end.
#[test]
fn statuses_go_on_behind_an_event_that_waits_for_its_turn() {
    for ends in [false, true] {
        run(async move {
            let desk = Desk::new(Some(Budget {
                qps: 200.0,
                burst: NonZeroU32::MIN,
            }));
            for name in ["kcm", "mcm", "ca"] {
                desk.scaled("a", name, DOWN);
            }
            // The first has had the only turn.
            desk.clock.settle().await;
            let clusters: Vec<String> = (0..20).map(|index| format!("c{index}")).collect();
            for cluster in &clusters {
                desk.reports(cluster, Protection::None);
            }
            desk.clock.settle().await;
            if ends {
                desk.stop.cancel();
            }
            let is_written = |cluster: &String| {
                let health = desk.seed.get("clusterhealths", "", cluster);
                health.is_some_and(|health| !health["status"].is_null())
            };
            // Each time one has its turn: two requests of each status, and the events.
            for _ in 0..43 {
                desk.clock.pass(Duration::from_millis(10)).await;
            }
            assert!(clusters.iter().all(is_written));
        });
    }
}

/// Of those that wait for their turns, it has the first.
#[tokio::test]
async fn a_protection_overtakes_statuses_that_were_begun_before() {
    let desk = Desk::new(Some(Budget {
        qps: 20.0,
        burst: NonZeroU32::MIN,
    }));
    for index in 0..12 {
        desk.reports(&format!("c{index}"), Protection::None);
    }
    desk.clock.settle().await;
    desk.reports("protected", Protection::ScalingDown);
    let written = || {
        let briefs = desk.seed.briefs().into_iter();
        let mut records = briefs.filter(|it| it.starts_with("PATCH clusterhealths"));
        records.position(|it| it == "PATCH clusterhealths/status/protected")
    };
    let before = desk.clock.until("it is written", written).await;
    // The one that had its turn before.
    assert_eq!(before, 1, "of 24 requests");
}

#[tokio::test]
async fn what_waits_at_the_end_is_written_after_the_statuses() {
    let desk = Desk::new(None);
    let answer = desk.seed.hold(|call| call.resource == "events");
    for name in ["kcm", "mcm"] {
        desk.scaled("a", name, DOWN);
    }
    desk.clock.settle().await;
    desk.reports("a", Protection::ScalingDown);
    desk.stop.cancel();
    desk.clock.settle().await;
    assert_eq!(desk.seed.events().len(), 1);
    let health = desk.seed.get("clusterhealths", "", "a").unwrap();
    assert_eq!(health["status"]["protection"], "ScalingDown");
    answer.send(()).unwrap();
    desk.clock.settle().await;
    let told = told(&desk.seed);
    assert_eq!(told["Deployment mcm"], ["Warning ScaledDown"]);
    assert_eq!(told["ClusterHealth a"], ["Warning Protecting"]);
    assert_eq!(desk.counted(), (3, 0));
}

#[tokio::test]
async fn at_the_end_an_event_that_hangs_is_given_up() {
    let desk = Desk::new(None);
    hang(&desk.seed);
    for name in ["kcm", "mcm", "ca"] {
        desk.scaled("a", name, DOWN);
    }
    desk.clock.settle().await;
    desk.stop.cancel();
    desk.clock.pass(REQUEST_LIMIT).await;
    assert_eq!(desk.seed.events().len(), 1);
    assert_eq!(desk.counted(), (0, 3));
}
