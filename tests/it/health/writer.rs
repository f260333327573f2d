//! The writer of statuses and finalizers against a scripted seed: what it writes, when, how often,
//! and what it does about refusals.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::support::{Activity, Clock, Failure, Runs, Seed, condition, policy, run};
use dependency_watchdog::{
    api::{
        CheckResult, CheckRole, CheckStatus, CheckType, ClusterState, FINALIZER, Mode, Protection,
    },
    cluster::{Policy, PolicyView},
    observer::View,
    prober::{
        report::{ClusterReport, Finding, Left, Reporter},
        verdict::{Assessment, Doubt, Verdict},
    },
    runtime::{health::Health, watch::Change},
    util::mono_time::MonoTime,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Longer than any pause of the writer, and shorter than its refresh.
const LONG: Duration = Duration::from_secs(120);
/// What is due at once has been written.
const MOMENT: Duration = Duration::from_millis(5);
const FINALIZER_WRITE: &str = "PATCH probepolicies/p";
const SINCE: &str = "2026-01-02T03:04:05Z";

/// A writer on a scripted seed with one policy, which somebody else holds as well.
struct Desk {
    clock: Clock,
    seed: Seed,
    reporter: Reporter,
    stop: CancellationToken,
}

impl Desk {
    fn new(known: Left) -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let seed = Seed::new(activity);
        let mut policy = policy("p");
        policy["metadata"]["finalizers"] = json!(["example.com/other"]);
        seed.put(&policy);
        let (reporter, stop) = start(&seed, known);
        Self {
            clock,
            seed,
            reporter,
            stop,
        }
    }

    /// Another writer takes over, which finds this.
    async fn restart(&mut self, known: Left) {
        self.stop.cancel();
        self.clock.settle().await;
        (self.reporter, self.stop) = start(&self.seed, known);
    }

    /// What it leaves to a successor.
    fn left(&self) -> Left {
        let clusters = ["a", "b", "c", "d"].into_iter();
        let clusters = clusters.filter_map(|name| self.seed.get("clusterhealths", "", name));
        let status = serde_json::from_value(self.policy_status()).unwrap();
        let clusters = clusters.map(|it| serde_json::from_value(it).unwrap());
        (clusters.collect(), BTreeMap::from([("p".into(), status)]))
    }

    /// One with a healthy cluster.
    async fn healthy() -> Self {
        let desk = Self::new(Left::default());
        desk.policy(|_| ());
        desk.tell(healthy()).await;
        desk.clock.pass(Duration::from_secs(10)).await;
        desk.seed.forget_calls();
        desk
    }

    /// The watch tells of the policy, as the test changes it.
    fn policy(&self, change: impl FnOnce(&mut PolicyView)) {
        let policy = serde_json::from_value(policy("p")).unwrap();
        let mut view = PolicyView {
            policy: Policy::new(&policy),
            selected: vec!["a".into()],
            kept: vec![],
            lost: BTreeMap::new(),
        };
        change(&mut view);
        self.reporter.policies(vec![view]);
    }

    /// The loop of `a` reports.
    async fn tell(&self, report: ClusterReport) {
        self.reporter.cluster(&"a".into(), report);
        self.clock.pass(MOMENT).await;
    }

    fn health(&self) -> Value {
        let health = self.seed.get("clusterhealths", "", "a");
        health.map_or(Value::Null, |health| health["status"].clone())
    }

    fn policy_status(&self) -> Value {
        self.seed.get("probepolicies", "", "p").unwrap()["status"].clone()
    }

    fn finalizers(&self) -> Value {
        let policy = self.seed.get("probepolicies", "", "p");
        policy.map_or(Value::Null, |it| it["metadata"]["finalizers"].clone())
    }

    fn count(&self, brief: &str) -> usize {
        let briefs = self.seed.briefs();
        briefs.iter().filter(|it| **it == brief).count()
    }
}

fn start(seed: &Seed, left: Left) -> (Reporter, CancellationToken) {
    let health = Health::default();
    let (writer, reporter) = Reporter::new(seed.unlimited(), left, Default::default(), health);
    let stop = CancellationToken::new();
    tokio::spawn(writer.beside(stop.clone().cancelled_owned()));
    (reporter, stop)
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn assessment(candidates: usize, expired: usize) -> Assessment {
    Assessment {
        candidates,
        expired,
        needed: 3,
        unrecovered: 3,
        period: Duration::from_secs(10),
        silent: expired,
        ..Assessment::default()
    }
}

fn found(finding: Finding) -> ClusterReport {
    ClusterReport {
        uid: "uid-a".into(),
        policy: Some("p".into()),
        mode: Mode::Enforce,
        finding,
        protection: Protection::None,
        protected_since: None,
        silent_since: None,
        grace: None,
        max_protection_reached: None,
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
    }
}

fn healthy() -> ClusterReport {
    found(Finding::Judged(
        Verdict::Healthy,
        Box::new(assessment(5, 0)),
    ))
}

fn protected() -> ClusterReport {
    ClusterReport {
        protection: Protection::ScalingDown,
        ..found(Finding::Judged(Verdict::Outage, Box::new(assessment(5, 5))))
    }
}

/// What an earlier run has left of `a` while it was protected.
fn left_protected() -> Left {
    let health = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "ClusterHealth",
        "metadata": {
            "name": "a",
            "ownerReferences": [{
                "apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster",
                "name": "a", "uid": "uid-a",
            }],
        },
        "spec": {},
        "status": {"protection": "Active", "policy": "p", "reason": "Outage"},
    });
    let clusters = vec![serde_json::from_value(health).unwrap()];
    (clusters, BTreeMap::new())
}

fn deleted(name: &str) -> Change<ObjectMeta> {
    Change::Gone(serde_json::from_value(json!({"name": name})).unwrap())
}

#[tokio::test]
async fn the_finalizer_comes_before_the_status_and_goes_when_all_is_restored() {
    let desk = Desk::healthy().await;
    desk.tell(protected()).await;
    let briefs = desk.seed.briefs();
    assert_eq!(
        briefs[..2],
        [FINALIZER_WRITE, "PATCH clusterhealths/status/a"]
    );
    assert_eq!(desk.finalizers(), json!(["example.com/other", FINALIZER]));
    desk.policy(|it| it.policy.held = true);
    desk.tell(healthy()).await;
    assert_eq!(desk.finalizers(), json!(["example.com/other"]));
    desk.policy(|_| ());
    desk.clock.pass(LONG).await;
    assert_eq!(desk.count(FINALIZER_WRITE), 2);
}

#[test]
fn a_finalizer_that_is_refused_is_tried_again() {
    let _runs = Runs::begin();
    // Refused, unanswered, and answered by something else.
    for failure in [Failure::Status(403), Failure::Hang, Failure::WrongKind] {
        run(async move {
            let desk = Desk::healthy().await;
            desk.seed
                .fail(failure, (0, 3), |call| call.brief() == FINALIZER_WRITE);
            desk.tell(protected()).await;
            desk.clock.pass(LONG).await;
            assert_eq!(
                desk.finalizers(),
                json!(["example.com/other", FINALIZER]),
                "{failure:?}"
            );
            assert_eq!(desk.count(FINALIZER_WRITE), 4, "{failure:?}");
            // The status of the cluster has not waited for it.
            assert_eq!(desk.health()["protection"], "ScalingDown");
        });
    }
}

#[tokio::test]
async fn a_policy_that_is_gone_is_not_created_anew() {
    let desk = Desk::healthy().await;
    desk.seed.delete("probepolicies", "", "p");
    desk.tell(protected()).await;
    desk.clock.pass(Duration::from_secs(10)).await;
    assert_eq!(desk.seed.get("probepolicies", "", "p"), None);
    // Another of its name is not held by what was decided for the first.
    let mut another = policy("p");
    another["metadata"]["uid"] = json!("uid-another");
    desk.seed.put(&another);
    desk.clock.pass(LONG).await;
    assert_eq!(desk.finalizers(), Value::Null);
    desk.policy(|it| it.policy.uid = "uid-another".into());
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]));
}

/// A successor that finds a policy being deleted does not let it go before it knows that there is
/// nothing left.
#[tokio::test]
async fn a_policy_is_held_until_the_loops_have_looked() {
    let desk = Desk::new(left_protected());
    desk.seed.change("probepolicies", "", "p", |policy| {
        policy["metadata"]["finalizers"] = json!([]);
    });
    let hold = |on: bool| {
        desk.policy(|it| {
            (it.policy.deleting, it.policy.held) = (true, on);
            it.selected = vec![];
            it.kept = vec!["a".into(), "b".into()];
        });
    };
    // An earlier run has put it on.
    desk.policy(|_| ());
    desk.tell(protected()).await;
    desk.seed.ask_to_delete("probepolicies", "", "p");
    hold(true);
    let b: Arc<str> = "b".into();
    desk.clock.pass(LONG).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]));
    let unseen = ClusterReport {
        looked_at: false,
        ..healthy()
    };
    desk.reporter.cluster(&b, unseen);
    desk.tell(healthy()).await;
    desk.clock.pass(LONG).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]), "b was not looked at");
    let status = desk.policy_status();
    let reconciling = condition(&status, "Reconciling");
    assert_eq!(reconciling["reason"], "LettingGo", "{status}");
    let message = reconciling["message"].as_str().unwrap();
    assert!(message.contains("b (not looked at yet)"), "{message}");
    assert_eq!(condition(&status, "Ready")["reason"], "Deleting");
    desk.reporter.cluster(&b, healthy());
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.seed.get("probepolicies", "", "p"), None);
}

#[tokio::test]
async fn a_cluster_health_that_somebody_deletes_is_created_at_once() {
    let desk = Desk::healthy().await;
    desk.seed.delete("clusterhealths", "", "a");
    desk.reporter.cluster_healths(deleted("a"));
    desk.clock.pass(MOMENT).await;
    let health = desk.seed.get("clusterhealths", "", "a").unwrap();
    assert_eq!(health["status"]["reason"], "Healthy");
    assert_eq!(health["metadata"]["ownerReferences"][0]["uid"], "uid-a");
    // Who deletes it all the time does not have it written all the time.
    desk.seed.forget_calls();
    for _ in 0..40 {
        desk.reporter.cluster_healths(deleted("a"));
        desk.clock.pass(Duration::from_millis(250)).await;
    }
    let created = desk.count("PATCH clusterhealths/a");
    assert!((5..=11).contains(&created), "{created}");
}

fn seen(state: ClusterState) -> ClusterReport {
    ClusterReport {
        observed: Some(View {
            state,
            message: format!("why it is {}", state.name()),
            nodes: None,
            providers: vec![],
        }),
        ..healthy()
    }
}

/// As every state is that tells of it: nothing was read either.
fn unreachable() -> ClusterReport {
    ClusterReport {
        finding: Finding::Unread {
            reason: "Unreachable",
            message: "nobody answers".to_owned(),
        },
        ..seen(ClusterState::Degraded)
    }
}

fn suspect() -> ClusterReport {
    let doubt = Verdict::Undetermined(Doubt::Unproven(MonoTime::from_nanos(0)));
    found(Finding::Judged(doubt, Box::new(assessment(5, 3))))
}

fn checked(result: CheckResult, since: Option<i64>) -> ClusterReport {
    ClusterReport {
        checks: vec![CheckStatus {
            name: "readyz".to_owned(),
            role: Some(CheckRole::Gate),
            r#type: CheckType::HttpGet,
            result,
            since: since.map(|second| Time(Timestamp::from_second(second).unwrap())),
            message: None,
        }],
        ..seen(ClusterState::Online)
    }
}

/// A thousand clusters share a budget of a few writes a second.
#[test]
fn what_comes_and_goes_is_said_once_a_minute() {
    let _runs = Runs::begin();
    let flapping: [fn(usize) -> ClusterReport; 4] = [
        |round| seen([ClusterState::Degraded, ClusterState::Online][round % 2]),
        |round| [unreachable(), seen(ClusterState::Online)][round % 2].clone(),
        |round| [suspect(), healthy()][round % 2].clone(),
        |round| {
            checked(
                [CheckResult::Failing, CheckResult::Passing][round % 2],
                Some(1),
            )
        },
    ];
    for report in flapping {
        run(async move {
            let desk = Desk::healthy().await;
            let minutes = 20;
            for round in 0..minutes * 12 {
                desk.tell(report(round)).await;
                desk.clock.pass(Duration::from_secs(5)).await;
            }
            // Some at first, one a minute, and a refresh.
            let written = desk.count("PATCH clusterhealths/status/a");
            assert!((minutes..minutes + 14).contains(&written), "{written}");
            // What matters waits for none of it.
            desk.tell(protected()).await;
            assert_eq!(desk.health()["protection"], "ScalingDown");
        });
    }
}

/// The right to write it may be missing, or the definition refuse a value.
#[tokio::test]
async fn what_cannot_be_written_down_is_told_all_the_same_and_once() {
    let desk = Desk::healthy().await;
    let is_status = |brief: String| brief.contains("/status/");
    desk.seed
        .fail(Failure::Status(422), (0, usize::MAX), move |call| {
            is_status(call.brief())
        });
    let told = || {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = desk.seed.events().into_iter();
        let events = events.map(|it| {
            (
                text(&it.body["regarding"]["kind"]),
                text(&it.body["reason"]),
            )
        });
        let mut told: Vec<_> = events.collect();
        told.sort();
        told
    };
    let of = |kind: &str, reason: &str| (kind.to_owned(), reason.to_owned());
    let mut expected = vec![
        of("ClusterHealth", "ScalingDown"),
        of("ProbePolicy", "Outage"),
    ];
    desk.tell(protected()).await;
    desk.clock.pass(LONG).await;
    assert_eq!(told(), expected);
    // Not again when it can be written.
    desk.seed.heal();
    desk.clock.pass(LONG).await;
    assert_eq!(desk.health()["protection"], "ScalingDown");
    assert_eq!(told(), expected);
    desk.seed
        .fail(Failure::Status(403), (0, usize::MAX), move |call| {
            is_status(call.brief())
        });
    desk.tell(healthy()).await;
    desk.clock.pass(LONG).await;
    expected.extend([
        of("ClusterHealth", "NotProtected"),
        of("ProbePolicy", "NoOutage"),
    ]);
    expected.sort();
    assert_eq!(told(), expected);
}

/// A successor says nothing new of a policy whose clusters are as they were.
#[tokio::test]
async fn a_policy_keeps_its_conditions_over_a_restart() {
    let mut desk = Desk::healthy().await;
    desk.seed.change("probepolicies", "", "p", |policy| {
        for condition in policy["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(SINCE);
        }
    });
    desk.restart(desk.left()).await;
    desk.policy(|_| ());
    desk.clock.pass(Duration::from_secs(20)).await;
    desk.tell(healthy()).await;
    desk.clock.pass(Duration::from_secs(20)).await;
    assert_eq!(desk.seed.briefs(), Vec::<String>::new());
    // What changes has its own time; the others keep theirs.
    desk.tell(protected()).await;
    desk.clock.pass(Duration::from_secs(10)).await;
    let status = desk.policy_status();
    assert_eq!(condition(&status, "Ready")["lastTransitionTime"], SINCE);
    let protecting = condition(&status, "Protecting");
    assert_eq!(protecting["status"], "True");
    assert_ne!(protecting["lastTransitionTime"], SINCE);
}
