//! The writer of the weeder against a scripted seed: which statuses and events it writes, when, how
//! often, and what it does about refusals.

use std::time::Duration;

use crate::support::{
    Activity, Call, Clock, Exposition, Failure, Runs, Seed, condition, run, weed_policy,
};
use dependency_watchdog::{
    api::{Mode, WeedPolicyStatus},
    runtime::{liveness::Liveness, metrics::Registry},
    status::WriterMetrics,
    weeder::report::{
        DELETION_REFUSED, PodDeed, PodNews, PodOwner, WeedReport, WeedReporter, WeedTrouble,
    },
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What is due at once has been written.
const MOMENT: Duration = Duration::from_millis(5);
/// A status is written at most once in this.
const PAUSE: Duration = Duration::from_secs(5);
/// Longer than any pause of the writer, and shorter than its refresh.
const LONG: Duration = Duration::from_secs(120);
/// A status that stays the same has been refreshed after this.
const REFRESHED: Duration = Duration::from_secs(15 * 60);
const WRITE: &str = "PATCH weedpolicies/status/p";
const SINCE: &str = "2026-01-02T03:04:05Z";

/// A writer on a scripted seed with one policy.
struct Desk {
    clock: Clock,
    seed: Seed,
    metrics: WriterMetrics,
    reporter: WeedReporter,
    stop: CancellationToken,
}

impl Desk {
    fn new() -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let seed = Seed::new(activity);
        seed.put(&weed_policy("p", "etcd", "api"));
        let metrics = WriterMetrics::default();
        let (reporter, stop) = start(&seed, &metrics);
        Self {
            clock,
            seed,
            metrics,
            reporter,
            stop,
        }
    }

    /// One that has written that all is well.
    async fn sound() -> Self {
        let desk = Self::new();
        desk.tell(|_| ()).await;
        desk.clock.pass(2 * PAUSE).await;
        desk.seed.forget_calls();
        desk
    }

    /// Another writer takes over.
    async fn restart(&mut self) {
        self.stop.cancel();
        self.clock.settle().await;
        (self.reporter, self.stop) = start(&self.seed, &self.metrics);
    }

    /// The weeder reports, as the test changes it.
    async fn tell(&self, change: impl FnOnce(&mut WeedReport)) {
        let mut report = WeedReport {
            name: "p".into(),
            uid: "uid-p".into(),
            generation: 1,
            deleting: false,
            mode: Mode::Enforce,
            suspend: false,
            problems: vec![],
            listed: true,
            services: 2,
            ready: 2,
            not_ready: vec![],
            windows: 0,
            open: vec![],
            troubles: vec![],
            weeded: 0,
            last_weeds: vec![],
            left_alone: vec![],
            recorded: WeedPolicyStatus::default(),
        };
        change(&mut report);
        self.reporter.policies(vec![report]);
        self.clock.pass(MOMENT).await;
    }

    fn status(&self) -> Value {
        let policy = self.seed.get("weedpolicies", "", "p");
        policy.map_or(Value::Null, |it| it["status"].clone())
    }

    fn writes(&self) -> usize {
        let briefs = self.seed.briefs();
        briefs.iter().filter(|it| **it == WRITE).count()
    }

    /// The events so far, as `WeedPolicy p: Normal Weeding`.
    fn told(&self) -> Vec<String> {
        let events = self.seed.events().into_iter();
        let told = events.map(|Call { body, .. }| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let regarding = &body["regarding"];
            let [kind, name] = ["kind", "name"].map(|field| text(&regarding[field]));
            let [type_, reason] = ["type", "reason"].map(|field| text(&body[field]));
            format!("{kind} {name}: {type_} {reason}")
        });
        told.collect()
    }
}

fn start(seed: &Seed, metrics: &WriterMetrics) -> (WeedReporter, CancellationToken) {
    let (writer, reporter) =
        WeedReporter::new(seed.unlimited(), metrics.clone(), Liveness::default());
    let stop = CancellationToken::new();
    tokio::spawn(writer.run(stop.clone()));
    (reporter, stop)
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn recovering(report: &mut WeedReport) {
    report.windows = 1;
    report.open = vec!["a/etcd".to_owned()];
}

fn troubled(report: &mut WeedReport) {
    report.troubles = vec![WeedTrouble {
        reason: DELETION_REFUSED,
        message: "pod api-x of namespace a: pods is forbidden".to_owned(),
    }];
}

fn weeded(pod: &str) -> PodNews {
    PodNews {
        namespace: "a".into(),
        pod: pod.into(),
        uid: format!("uid-{pod}").into(),
        owner: Some(PodOwner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "api".into(),
            uid: "uid-api".into(),
        }),
        policy: "p".into(),
        service: "etcd".into(),
        deed: PodDeed::Weeded {
            containers: vec!["api".into()],
            ready_for: Duration::from_secs(1),
        },
    }
}

#[tokio::test]
async fn a_recovery_is_written_at_once_and_told_when_it_begins_and_ends() {
    let desk = Desk::sound().await;
    let status = desk.status();
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["services"], json!({"watched": 2, "ready": 2}));
    assert_eq!(condition(&status, "Ready")["reason"], "Watching");
    assert_eq!(desk.told(), Vec::<String>::new());

    desk.tell(recovering).await;
    let status = desk.status();
    assert_eq!(status["openWindows"], 1);
    let weeding = condition(&status, "Weeding");
    assert_eq!(
        (&weeding["status"], &weeding["reason"]),
        (&json!("True"), &json!("Recovery"))
    );
    desk.clock.pass(LONG).await;
    assert_eq!(desk.told(), ["WeedPolicy p: Normal Weeding"]);

    desk.tell(|_| ()).await;
    desk.clock.pass(LONG).await;
    assert_eq!(
        desk.told(),
        [
            "WeedPolicy p: Normal Weeding",
            "WeedPolicy p: Normal WeedingOver"
        ]
    );
    for Call { body, .. } in desk.seed.events() {
        assert_eq!(body["reportingController"], "dependency-watchdog-weeder");
        assert_eq!(body["regarding"]["uid"], "uid-p");
    }
}

#[tokio::test]
async fn a_status_is_written_at_most_once_in_five_seconds() {
    let desk = Desk::sound().await;
    for weeded in 1..=40 {
        desk.tell(|it| it.weeded = weeded).await;
        desk.clock.pass(Duration::from_millis(250)).await;
    }
    // At once, and after each pause.
    assert_eq!(desk.writes(), 3);
    desk.clock.pass(PAUSE).await;
    assert_eq!(desk.status()["weeded"], 40);
    assert_eq!(desk.writes(), 3);
}

#[tokio::test]
async fn what_says_nothing_new_is_only_refreshed() {
    let desk = Desk::sound().await;
    for _ in 0..10 {
        desk.tell(|_| ()).await;
        desk.clock.pass(PAUSE).await;
    }
    assert_eq!(desk.writes(), 0);
    desk.clock.pass(REFRESHED).await;
    assert!((1..=2).contains(&desk.writes()), "{}", desk.writes());
}

#[test]
fn a_status_that_is_refused_is_tried_again() {
    let _runs = Runs::begin();
    for failure in Failure::ALL {
        // That one says that the policy is gone.
        if failure == Failure::Status(404) {
            continue;
        }
        run(async move {
            let desk = Desk::sound().await;
            desk.seed
                .fail(failure, (0, 3), |call| call.brief() == WRITE);
            desk.tell(recovering).await;
            // Whether it can be written down or not, once that is known.
            let told = usize::from(failure != Failure::Hang);
            assert_eq!(desk.told().len(), told, "{failure:?}");
            desk.clock.pass(LONG).await;
            assert_eq!(desk.status()["openWindows"], 1, "{failure:?}");
            assert_eq!(desk.writes(), 4, "{failure:?}");
            assert_eq!(desk.told(), ["WeedPolicy p: Normal Weeding"], "{failure:?}");
        });
    }
}

/// The answer is lost, and before it is tried again all is as it was.
#[tokio::test]
async fn a_status_whose_answer_was_lost_does_not_stay() {
    let desk = Desk::sound().await;
    desk.seed
        .fail_committed(Failure::Status(504), (0, 1), |call| call.brief() == WRITE);
    desk.tell(recovering).await;
    assert_eq!(desk.status()["openWindows"], 1);
    desk.tell(|_| ()).await;
    desk.clock.pass(Duration::from_secs(2)).await;
    assert_eq!(desk.status()["openWindows"], 0);
    desk.clock.pass(LONG).await;
    assert_eq!(desk.writes(), 2);
}

#[tokio::test]
async fn a_policy_that_is_gone_is_not_created_anew() {
    let desk = Desk::sound().await;
    desk.seed.delete("weedpolicies", "", "p");
    desk.tell(recovering).await;
    desk.clock.pass(LONG).await;
    assert_eq!(desk.seed.get("weedpolicies", "", "p"), None);
    assert_eq!(desk.writes(), 1);
    assert_eq!(desk.told(), Vec::<String>::new());
    // Nor is anything written for one of which the watch has told that it is gone.
    desk.reporter.policies(vec![]);
    desk.clock.pass(REFRESHED).await;
    assert_eq!(desk.writes(), 1);
}

/// Its predecessor's may be carried out, and answered, at any time.
#[tokio::test]
async fn a_policy_that_is_created_anew_gets_a_status_of_its_own() {
    let desk = Desk::new();
    let release = desk.seed.hold(|call| call.brief() == WRITE);
    desk.tell(recovering).await;
    desk.seed.delete("weedpolicies", "", "p");
    let mut another = weed_policy("p", "etcd", "api");
    another["metadata"]["uid"] = json!("uid-another");
    desk.seed.put(&another);
    let tell = || desk.tell(|it| it.uid = "uid-another".into());
    tell().await;
    let status = desk.status();
    assert_eq!(status["openWindows"], 0);
    desk.seed.change("weedpolicies", "", "p", |policy| {
        policy["status"] = json!({"observedGeneration": 0});
    });
    release.send(()).unwrap();
    desk.clock.pass(2 * PAUSE).await;
    assert_eq!(desk.status(), status);
    // What it said is not told on the one that has its name now.
    assert_eq!(desk.told(), Vec::<String>::new());
}

/// A successor finds what was told in the status that it has read first.
#[tokio::test]
async fn a_restart_writes_and_tells_nothing_again() {
    let mut desk = Desk::sound().await;
    desk.reporter.rights(vec!["delete pods".to_owned()]);
    let amiss = |report: &mut WeedReport| {
        recovering(report);
        troubled(report);
        report.weeded = 3;
    };
    desk.tell(amiss).await;
    desk.clock.pass(LONG).await;
    desk.seed.change("weedpolicies", "", "p", |policy| {
        for condition in policy["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(SINCE);
        }
    });
    let mut told = desk.told();
    told.sort();
    assert_eq!(
        told,
        [
            "WeedPolicy p: Normal Weeding",
            "WeedPolicy p: Warning RightsMissing",
            "WeedPolicy p: Warning WeedingTrouble",
        ]
    );
    desk.restart().await;
    desk.seed.forget_calls();
    let recorded: WeedPolicyStatus = serde_json::from_value(desk.status()).unwrap();
    let again = |report: &mut WeedReport| {
        amiss(report);
        report.recorded = recorded.clone();
    };
    // It is not known yet which rights are missing.
    desk.tell(again).await;
    desk.clock.pass(2 * PAUSE).await;
    desk.reporter.rights(vec!["delete pods".to_owned()]);
    desk.clock.pass(2 * PAUSE).await;
    assert_eq!(desk.writes(), 0);
    assert_eq!(desk.told(), Vec::<String>::new());
    // What changes has its own time; the others keep theirs.
    desk.reporter.rights(vec![]);
    desk.tell(|report| {
        recovering(report);
        report.recorded = recorded.clone();
    })
    .await;
    desk.clock.pass(2 * PAUSE).await;
    let status = desk.status();
    assert_eq!(condition(&status, "Weeding")["lastTransitionTime"], SINCE);
    assert_ne!(condition(&status, "Degraded")["lastTransitionTime"], SINCE);
    let mut told = desk.told();
    told.sort();
    assert_eq!(
        told,
        [
            "WeedPolicy p: Normal RightsSuffice",
            "WeedPolicy p: Normal WeedingUntroubled",
        ]
    );
}

#[tokio::test]
async fn rights_that_are_missing_are_told_on_each_policy_whenever_it_comes() {
    let desk = Desk::new();
    desk.reporter.rights(vec!["delete pods".to_owned()]);
    desk.tell(|_| ()).await;
    let status = desk.status();
    let degraded = condition(&status, "Degraded");
    assert_eq!(degraded["reason"], "RightsMissing");
    let message = degraded["message"].as_str().unwrap();
    assert!(message.ends_with(": delete pods"), "{message}");
    desk.reporter.rights(vec![]);
    desk.clock.pass(2 * PAUSE).await;
    let status = desk.status();
    assert_eq!(condition(&status, "Degraded")["reason"], "AsExpected");
}

#[tokio::test]
async fn each_pod_is_told_on_its_controller() {
    let desk = Desk::sound().await;
    for pod in ["api-x", "api-y", "api-x"] {
        desk.reporter.pod(weeded(pod));
        desk.clock.pass(MOMENT).await;
    }
    // The third is the first once more, and counted in a series.
    let events = desk.seed.events();
    let created: Vec<&Call> = events.iter().filter(|it| it.method == "POST").collect();
    let related: Vec<&Value> = created
        .iter()
        .map(|it| &it.body["related"]["name"])
        .collect();
    assert_eq!(related, ["api-x", "api-y"]);
    for Call {
        body, namespace, ..
    } in created
    {
        assert_eq!(namespace, "a");
        assert_eq!(body["regarding"]["uid"], "uid-api");
        assert_eq!(body["reason"], "PodWeeded");
        assert_eq!(body["reportingController"], "dependency-watchdog-weeder");
    }
}

#[tokio::test]
async fn writes_and_events_are_counted() {
    let desk = Desk::sound().await;
    desk.seed
        .fail(Failure::Status(403), (0, 1), |call| call.brief() == WRITE);
    desk.tell(recovering).await;
    desk.clock.pass(2 * PAUSE).await;
    let mut registry = Registry::default();
    desk.metrics.register(&mut registry);
    let shown = Exposition::parse(&registry.render().unwrap());
    let writes = |result: &str| {
        let labels = [("kind", "WeedPolicy"), ("result", result)];
        shown.value("dependency_watchdog_status_writes_total", &labels)
    };
    assert_eq!((writes("success"), writes("failure")), (2.0, 1.0));
    let events = shown.value("dependency_watchdog_events_written_total", &[]);
    assert_eq!(events, 1.0);
}
