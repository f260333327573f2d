//! The writer of statuses and finalizers against a scripted seed: what it writes, when, how often,
//! and what it does about refusals.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::support::{Activity, Clock, Failure, Runs, Seed, condition, policy, run};
use dependency_watchdog::{
    api::{
        CheckResult, CheckRole, CheckStatus, CheckType, ClusterHealth, ClusterState, DependentRef,
        FINALIZER, Mode, ProbePolicyStatus, Protection,
    },
    cluster::PolicyHold,
    observer::View,
    prober::{
        debts::Problem,
        report::{ClusterReport, Finding, PolicyReport, Reporter},
        verdict::{Assessment, Doubt, Verdict},
    },
    util::mono_time::MonoTime,
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{core::PartialObjectMeta, runtime::watcher::Event};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Longer than any pause of the writer, and shorter than its refresh.
const LONG: Duration = Duration::from_secs(120);
/// What is due at once has been written.
const MOMENT: Duration = Duration::from_millis(5);
const FINALIZER_WRITE: &str = "PATCH probepolicies/p";
const POLICY_WRITE: &str = "PATCH probepolicies/status/p";
/// A status that stays the same has been refreshed after this.
const REFRESHED: Duration = Duration::from_secs(15 * 60);
const SINCE: &str = "2026-01-02T03:04:05Z";

/// What an earlier run has left: ClusterHealths, and statuses of policies.
type Left = (Vec<ClusterHealth>, BTreeMap<Arc<str>, ProbePolicyStatus>);

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
    fn policy(&self, change: impl FnOnce(&mut PolicyReport)) {
        let mut report = PolicyReport {
            name: "p".into(),
            uid: "uid-p".into(),
            deleting: false,
            hold: PolicyHold::default(),
            held: false,
            generation: 1,
            problems: vec![],
            warnings: vec![],
            selected: vec!["a".into()],
            kept: vec![],
            lost: BTreeMap::new(),
        };
        change(&mut report);
        self.reporter.policies(vec![report]);
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

    /// Somebody deletes the policy and creates another of its name, of which the watch tells.
    fn replace_policy(&self) {
        self.seed.delete("probepolicies", "", "p");
        let mut another = policy("p");
        another["metadata"]["uid"] = json!("uid-another");
        self.seed.put(&another);
        self.policy(|it| it.uid = "uid-another".into());
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

fn start(seed: &Seed, (clusters, policies): Left) -> (Reporter, CancellationToken) {
    let (writer, reporter) = Reporter::new(seed.unlimited(), clusters, policies);
    let stop = CancellationToken::new();
    tokio::spawn(writer.run(stop.clone()));
    (reporter, stop)
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn assessment(candidates: usize, expired: usize) -> Assessment {
    Assessment {
        at: MonoTime::from_nanos(0),
        candidates,
        expired,
        unknown: 0,
        expiring: 0,
        too_slow: 0,
        excluded: BTreeMap::new(),
        counter_evidence: 0,
        zones: vec![],
        median_silence: None,
        longest_silence: None,
        scattered: false,
        needed: 3,
        unrecovered: 3,
        period: Duration::from_secs(10),
        suspect_at: None,
        expires_at: None,
        silent: expired,
        roster: true,
        machines: Some(candidates),
        protected: false,
        slow: None,
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

/// Protected, but for a dependent that cannot be scaled.
fn troubled(name: &str, message: &str) -> ClusterReport {
    ClusterReport {
        problems: vec![Problem {
            dependent: DependentRef {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: name.to_owned(),
            },
            reason: "ScalingFailed",
            message: message.to_owned(),
        }],
        ..protected()
    }
}

fn unread(message: &str) -> ClusterReport {
    found(Finding::Unread {
        reason: "KubeconfigInvalid",
        message: message.to_owned(),
    })
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

fn deleted(name: &str) -> Event<PartialObjectMeta<ClusterHealth>> {
    let object = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": name},
    });
    Event::Delete(serde_json::from_value(object).unwrap())
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
    assert_eq!(desk.finalizers(), json!([FINALIZER, "example.com/other"]));
    desk.policy(|it| it.held = true);
    desk.tell(healthy()).await;
    assert_eq!(desk.finalizers(), json!(["example.com/other"]));
    desk.policy(|_| ());
    desk.clock.pass(LONG).await;
    assert_eq!(desk.count(FINALIZER_WRITE), 2);
}

/// The watch may tell late, or in between, of what was there before our own write.
#[tokio::test]
async fn a_watch_that_lags_causes_no_more_writes() {
    let desk = Desk::healthy().await;
    desk.tell(protected()).await;
    for _ in 0..5 {
        desk.policy(|it| it.generation += 1);
        desk.clock.pass(Duration::from_secs(5)).await;
    }
    assert_eq!(desk.count(FINALIZER_WRITE), 1);
    desk.policy(|it| it.held = true);
    desk.tell(healthy()).await;
    for _ in 0..5 {
        desk.policy(|it| it.held = true);
        desk.clock.pass(Duration::from_secs(5)).await;
    }
    assert_eq!(desk.count(FINALIZER_WRITE), 2);
}

#[tokio::test]
async fn a_finalizer_that_somebody_takes_off_is_put_on_again() {
    let desk = Desk::healthy().await;
    desk.tell(protected()).await;
    desk.policy(|it| it.held = true);
    desk.seed.change("probepolicies", "", "p", |policy| {
        policy["metadata"]["finalizers"] = json!([]);
    });
    desk.policy(|_| ());
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]));
}

#[test]
fn a_finalizer_that_is_refused_is_tried_again() {
    let _runs = Runs::begin();
    for failure in Failure::ALL {
        run(async move {
            let desk = Desk::healthy().await;
            desk.seed
                .fail(failure, (0, 3), |call| call.brief() == FINALIZER_WRITE);
            desk.tell(protected()).await;
            desk.clock.pass(LONG).await;
            assert_eq!(
                desk.finalizers(),
                json!([FINALIZER, "example.com/other"]),
                "{failure:?}"
            );
            assert_eq!(desk.count(FINALIZER_WRITE), 4, "{failure:?}");
            // The status of the cluster has not waited for it.
            assert_eq!(desk.health()["protection"], "ScalingDown");
        });
    }
}

/// The answer is lost, and before the finalizer is looked at again all is as it was.
#[test]
fn a_finalizer_of_which_nobody_knows_is_written_as_it_is_needed() {
    let _runs = Runs::begin();
    for (first, second) in [(protected(), healthy()), (healthy(), protected())] {
        run(async move {
            let desk = Desk::healthy().await;
            desk.tell(second.clone()).await;
            desk.seed
                .fail_committed(Failure::Status(504), (0, 1), |call| {
                    call.brief() == FINALIZER_WRITE
                });
            desk.tell(first).await;
            let held = second.protection != Protection::None;
            desk.tell(second).await;
            desk.clock.pass(Duration::from_secs(2)).await;
            let mut expected = vec!["example.com/other"];
            if held {
                expected.insert(0, FINALIZER);
            }
            assert_eq!(desk.finalizers(), json!(expected));
        });
    }
}

/// Who applies an exported policy owns the finalizer too, and only that one can take it off.
#[tokio::test]
async fn a_finalizer_that_somebody_else_owns_too_is_tried_ever_more_seldom() {
    let desk = Desk::healthy().await;
    desk.seed.change("probepolicies", "", "p", |policy| {
        policy["metadata"]["finalizers"] = json!([FINALIZER]);
    });
    desk.policy(|it| it.held = true);
    desk.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]));
    assert_eq!(
        desk.count(FINALIZER_WRITE),
        6,
        "after 0, 1, 3, 7, 15 and 31 s"
    );
    desk.seed.change("probepolicies", "", "p", |policy| {
        policy["metadata"]["finalizers"] = json!([]);
    });
    desk.policy(|_| ());
    desk.clock.pass(LONG).await;
    assert_eq!(desk.count(FINALIZER_WRITE), 6);
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
    desk.policy(|it| it.uid = "uid-another".into());
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]));
}

/// The API server would refuse it.
#[tokio::test]
async fn nothing_is_put_on_a_policy_that_is_being_deleted() {
    let desk = Desk::healthy().await;
    desk.policy(|it| it.deleting = true);
    desk.tell(protected()).await;
    desk.clock.pass(LONG).await;
    assert_eq!(desk.count(FINALIZER_WRITE), 0);
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
            it.deleting = true;
            it.held = on;
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

/// What an earlier run has recorded counts until the loop reports in this one.
#[tokio::test]
async fn a_recorded_protection_holds_its_policy() {
    let desk = Desk::new(left_protected());
    desk.policy(|_| ());
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER, "example.com/other"]));
    // The Cluster was gone before, and the garbage collector takes the record.
    desk.reporter.cluster_health(deleted("a"));
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.finalizers(), json!(["example.com/other"]));
}

#[tokio::test]
async fn a_cluster_health_that_somebody_deletes_is_created_at_once() {
    let desk = Desk::healthy().await;
    desk.seed.delete("clusterhealths", "", "a");
    desk.reporter.cluster_health(deleted("a"));
    desk.clock.pass(MOMENT).await;
    let health = desk.seed.get("clusterhealths", "", "a").unwrap();
    assert_eq!(health["status"]["reason"], "Healthy");
    assert_eq!(health["metadata"]["ownerReferences"][0]["uid"], "uid-a");
    // Who deletes it all the time does not have it written all the time.
    desk.seed.forget_calls();
    for _ in 0..40 {
        desk.reporter.cluster_health(deleted("a"));
        desk.clock.pass(Duration::from_millis(250)).await;
    }
    let created = desk.count("PATCH clusterhealths/a");
    assert!((5..=11).contains(&created), "{created}");
}

/// A deletion that arrives while a write is under way may be newer than what is written.
#[tokio::test]
async fn a_deletion_during_a_write_is_not_lost() {
    let desk = Desk::healthy().await;
    let release = desk
        .seed
        .hold(|call| call.brief() == "PATCH clusterhealths/status/a");
    desk.tell(protected()).await;
    desk.seed.delete("clusterhealths", "", "a");
    desk.reporter.cluster_health(deleted("a"));
    desk.clock.pass(MOMENT).await;
    release.send(()).unwrap();
    desk.clock.pass(Duration::from_secs(2)).await;
    assert_eq!(desk.health()["protection"], "ScalingDown");
}

/// Nor is one during the first write, when it is not known yet that there is a record.
#[tokio::test]
async fn a_deletion_during_the_first_write_is_not_lost() {
    let desk = Desk::new(Left::default());
    let release = desk
        .seed
        .hold(|call| call.brief() == "PATCH clusterhealths/status/a");
    desk.tell(protected()).await;
    desk.seed.delete("clusterhealths", "", "a");
    desk.reporter.cluster_health(deleted("a"));
    desk.clock.pass(MOMENT).await;
    release.send(()).unwrap();
    desk.clock.pass(Duration::from_secs(2)).await;
    assert_eq!(desk.health()["protection"], "ScalingDown");
}

#[tokio::test]
async fn a_cluster_that_is_let_go_during_a_write_leaves_no_record() {
    let desk = Desk::healthy().await;
    let release = desk
        .seed
        .hold(|call| call.brief() == "PATCH clusterhealths/status/a");
    desk.tell(protected()).await;
    desk.reporter.cluster_unselected(&"a".into());
    desk.clock.pass(MOMENT).await;
    release.send(()).unwrap();
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.seed.get("clusterhealths", "", "a"), None);
}

/// Nor one by somebody else, while it is not wanted any more but not deleted yet.
#[tokio::test]
async fn a_cluster_that_is_selected_again_gets_its_record_back() {
    let desk = Desk::healthy().await;
    let release = desk
        .seed
        .hold(|call| call.brief() == "PATCH clusterhealths/status/a");
    desk.tell(protected()).await;
    desk.reporter.cluster_unselected(&"a".into());
    desk.seed.delete("clusterhealths", "", "a");
    desk.reporter.cluster_health(deleted("a"));
    desk.tell(protected()).await;
    release.send(()).unwrap();
    desk.clock.pass(Duration::from_secs(2)).await;
    assert_eq!(desk.health()["protection"], "ScalingDown");
}

#[tokio::test]
async fn a_cluster_health_has_recommended_labels_and_its_conditions_a_generation() {
    let desk = Desk::healthy().await;
    let health = desk.seed.get("clusterhealths", "", "a").unwrap();
    let labels = json!({
        "app.kubernetes.io/name": "dependency-watchdog",
        "app.kubernetes.io/managed-by": "dependency-watchdog",
    });
    assert_eq!(health["metadata"]["labels"], labels);
    let conditions = health["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 3);
    for condition in conditions {
        assert_eq!(condition["observedGeneration"], 1, "{condition}");
    }
}

#[tokio::test]
async fn a_cluster_that_is_created_anew_owns_its_record() {
    let desk = Desk::healthy().await;
    let anew = ClusterReport {
        uid: "uid-anew".into(),
        ..healthy()
    };
    desk.tell(anew).await;
    let health = desk.seed.get("clusterhealths", "", "a").unwrap();
    assert_eq!(health["metadata"]["ownerReferences"][0]["uid"], "uid-anew");
}

#[tokio::test]
async fn a_second_problem_is_said_at_once() {
    let desk = Desk::healthy().await;
    for name in ["kcm", "mcm"] {
        let message = &format!("{name}: cannot be scaled");
        desk.tell(troubled(name, message)).await;
        let status = desk.health();
        for text in [
            &status["message"],
            &condition(&status, "Degraded")["message"],
        ] {
            assert!(text.as_str().unwrap().contains(message), "{text}");
        }
    }
}

#[tokio::test]
async fn healthy_probes_cause_no_writes() {
    let desk = Desk::healthy().await;
    for expired in [1, 2, 1, 2, 1] {
        let seen = Box::new(assessment(5, expired));
        desk.tell(found(Finding::Judged(Verdict::Healthy, seen)))
            .await;
        desk.clock.pass(Duration::from_secs(10)).await;
    }
    assert_eq!(desk.seed.briefs(), Vec::<String>::new());
    // But none is to be left at a count that is over.
    desk.tell(healthy()).await;
    assert_eq!(desk.count("PATCH clusterhealths/status/a"), 0);
    let seen = Box::new(assessment(5, 1));
    desk.tell(ClusterReport {
        mode: Mode::DryRun,
        ..found(Finding::Judged(Verdict::Healthy, seen))
    })
    .await;
    desk.tell(ClusterReport {
        mode: Mode::DryRun,
        ..healthy()
    })
    .await;
    assert_eq!(desk.health()["leases"]["expired"], 0);
}

/// Who corrects a kubeconfig sees the next mistake; words that alternate are not written all the
/// time.
#[test]
fn another_failure_of_the_same_reason_is_said_once_a_minute() {
    let _runs = Runs::begin();
    run(other_words(unread));
    run(other_words(|message| troubled("kcm", message)));
}

async fn other_words(says: impl Fn(&str) -> ClusterReport) {
    let desk = Desk::healthy().await;
    desk.tell(says("no server is named, attempt 1")).await;
    desk.clock.pass(LONG).await;
    desk.seed.forget_calls();
    desk.tell(says("no server is named, attempt 2")).await;
    assert_eq!(desk.seed.briefs(), Vec::<String>::new());
    desk.tell(says("no user is named")).await;
    let message = desk.health()["message"].to_string();
    assert!(message.contains("no user is named"), "{message}");
    desk.seed.forget_calls();
    for round in 0..24 {
        let words = ["no server is named", "no user is named"][round % 2];
        desk.tell(says(words)).await;
        desk.clock.pass(Duration::from_secs(5)).await;
    }
    let written = desk.count("PATCH clusterhealths/status/a");
    assert!((1..=2).contains(&written), "{written}");
}

fn seen(state: ClusterState) -> ClusterReport {
    ClusterReport {
        observed: Some(View {
            state,
            message: format!("why it is {}", state.name()),
            nodes: None,
        }),
        ..healthy()
    }
}

/// As every state is that tells of it: nothing was read either.
fn unreachable() -> ClusterReport {
    ClusterReport {
        finding: Finding::Unread {
            reason: "ConnectionRefused",
            message: "nobody answers".to_owned(),
        },
        ..seen(ClusterState::Degraded)
    }
}

fn suspect() -> ClusterReport {
    let doubt = Doubt::Unproven(MonoTime::from_nanos(0));
    let seen = Box::new(assessment(5, 3));
    found(Finding::Judged(Verdict::Undetermined(doubt), seen))
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

/// Who watches a cluster sees each step.
#[tokio::test]
async fn the_states_of_an_outage_are_said_one_by_one() {
    let desk = Desk::healthy().await;
    for state in [
        ClusterState::Online,
        ClusterState::Degraded,
        ClusterState::Offline,
        ClusterState::Connecting,
        ClusterState::Online,
    ] {
        desk.tell(seen(state)).await;
        let health = desk.health();
        assert_eq!(health["state"], state.name());
        assert_eq!(
            health["stateMessage"],
            format!("why it is {}", state.name())
        );
    }
    desk.clock.pass(LONG).await;
    assert_eq!(desk.count("PATCH clusterhealths/status/a"), 5);
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

/// Nor does a cluster that stays protected and is not reached at every other probe write each time that
/// it is seen to be silent.
#[tokio::test]
async fn an_outage_that_is_seen_now_and_then_is_said_once_a_minute() {
    let desk = Desk::healthy().await;
    let minutes = 20;
    for round in 0..minutes * 12 {
        let report = match round % 2 {
            0 => protected(),
            _ => ClusterReport {
                finding: unreachable().finding,
                ..protected()
            },
        };
        let outage = round % 2 == 0;
        desk.tell(report).await;
        if outage {
            assert_eq!(desk.health()["reason"], "Outage");
        }
        desk.clock.pass(Duration::from_secs(5)).await;
    }
    // That it is not seen, some times at first and once a minute; that it is, after each of these.
    let written = desk.count("PATCH clusterhealths/status/a");
    assert!(
        (2 * minutes..2 * (minutes + 14)).contains(&written),
        "{written}"
    );
}

/// What is written anyway uses up nothing of what may be written for a state alone.
#[tokio::test]
async fn a_state_that_comes_with_news_keeps_no_other_waiting() {
    let desk = Desk::healthy().await;
    for _ in 0..20 {
        desk.tell(ClusterReport {
            mode: Mode::DryRun,
            ..seen(ClusterState::Degraded)
        })
        .await;
        assert_eq!(desk.health()["state"], "DEGRADED");
        desk.tell(seen(ClusterState::Pending)).await;
    }
    desk.tell(seen(ClusterState::Online)).await;
    assert_eq!(desk.health()["state"], "ONLINE");
}

/// Before its checks have been run there is nothing new to say of them.
#[tokio::test]
async fn a_restart_alone_writes_no_results_of_checks() {
    let mut desk = Desk::healthy().await;
    desk.tell(checked(CheckResult::Passing, Some(1))).await;
    let before = desk.health();
    assert_eq!(before["checks"][0]["since"], "1970-01-01T00:00:01Z");
    desk.restart(desk.left()).await;
    desk.policy(|_| ());
    desk.seed.forget_calls();
    desk.tell(checked(CheckResult::Unknown, None)).await;
    desk.tell(checked(CheckResult::Passing, Some(9))).await;
    assert_eq!(desk.count("PATCH clusterhealths/status/a"), 0);
    desk.tell(checked(CheckResult::Failing, Some(10))).await;
    assert_eq!(desk.health()["checks"][0]["result"], "Failing");
    assert_eq!(desk.health()["checks"][0]["since"], "1970-01-01T00:00:10Z");
}

#[tokio::test]
async fn a_cluster_in_trouble_is_told_and_that_it_is_over() {
    let desk = Desk::healthy().await;
    for state in [
        ClusterState::Online,
        ClusterState::Unhealthy,
        ClusterState::Online,
    ] {
        desk.tell(seen(state)).await;
    }
    // Two checks of one cluster are no repetition.
    for check in ["a", "b", "a"] {
        let message = format!("{check} would have failed");
        let (name, check) = (Arc::from("a"), check.to_owned());
        desk.reporter.exec_tolerated(&name, check, message);
        desk.clock.pass(MOMENT).await;
    }
    let events = desk.seed.events();
    let posted = events.iter().filter(|it| it.body["reason"] != json!(null));
    let told: Vec<_> = posted
        .map(|it| {
            let body = &it.body;
            let text = |field: &str| body[field].as_str().unwrap_or_default();
            let related = body["related"]["fieldPath"].as_str().unwrap_or_default();
            format!(
                "{} {} {} {related}",
                text("type"),
                text("reason"),
                text("note")
            )
        })
        .collect();
    assert_eq!(
        told[..4],
        [
            "Warning Unhealthy why it is UNHEALTHY ",
            "Normal Online why it is ONLINE ",
            "Warning ExecTimeoutTolerated a would have failed spec.checks{a}",
            "Warning ExecTimeoutTolerated b would have failed spec.checks{b}",
        ]
    );
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
        of("ClusterHealth", "Protecting"),
        of("ProbePolicy", "FinalizerAdded"),
        of("ProbePolicy", "Protecting"),
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
        of("ClusterHealth", "Released"),
        of("ProbePolicy", "FinalizerRemoved"),
        of("ProbePolicy", "NoneProtected"),
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

#[tokio::test]
async fn clusters_that_fall_silent_at_once_are_told_on_their_policy() {
    let mut desk = Desk::new(Left::default());
    let names: [Arc<str>; 4] = ["a".into(), "b".into(), "c".into(), "d".into()];
    desk.policy(|it| it.selected = names.to_vec());
    for name in &names {
        desk.reporter.cluster(name, healthy());
    }
    desk.clock.pass(Duration::from_secs(10)).await;
    let since = || ClusterReport {
        protected_since: Some(SINCE.parse().unwrap()),
        ..protected()
    };
    let told = |desk: &Desk| {
        let status = desk.policy_status();
        let conditions = status["conditions"].as_array().unwrap().clone();
        let found = conditions
            .into_iter()
            .find(|it| it["type"] == "WidespreadOutage");
        found.map(|it| it["message"].as_str().unwrap().to_owned())
    };
    for name in &names[..2] {
        desk.reporter.cluster(name, since());
    }
    desk.clock.pass(Duration::from_secs(10)).await;
    assert_eq!(told(&desk), None);
    desk.reporter.cluster(&names[2], since());
    desk.clock.pass(Duration::from_secs(10)).await;
    let message = told(&desk).unwrap();
    assert!(message.starts_with("3 of 4 probed clusters"), "{message}");
    // A restart in the middle of it changes nothing.
    desk.restart(desk.left()).await;
    desk.seed.forget_calls();
    desk.policy(|it| {
        it.held = true;
        it.selected = names.to_vec();
    });
    desk.clock.pass(Duration::from_secs(10)).await;
    assert_eq!(told(&desk), Some(message));
    assert_eq!(desk.seed.briefs(), Vec::<String>::new());
    for name in &names[..3] {
        desk.reporter.cluster(name, since());
    }
    desk.reporter.cluster(&names[0], healthy());
    desk.clock.pass(Duration::from_secs(10)).await;
    assert_eq!(told(&desk), None);
}

/// The answer is lost, and before it is tried again all is as it was.
#[tokio::test]
async fn a_policy_status_whose_answer_was_lost_does_not_stay() {
    let desk = Desk::healthy().await;
    desk.seed
        .fail_committed(Failure::Status(504), (0, 1), |call| {
            call.brief() == POLICY_WRITE
        });
    desk.tell(protected()).await;
    assert_eq!(desk.policy_status()["clusters"]["protected"], 1);
    desk.tell(healthy()).await;
    desk.clock.pass(Duration::from_secs(2)).await;
    assert_eq!(desk.policy_status()["clusters"]["protected"], 0);
    // What is known is not written again.
    desk.clock.pass(LONG).await;
    assert_eq!(desk.count(POLICY_WRITE), 2);
}

/// However often it is looked at without anything to say.
#[tokio::test]
async fn a_policy_status_that_somebody_cleared_comes_back() {
    let desk = Desk::healthy().await;
    let status = desk.policy_status();
    desk.seed.change("probepolicies", "", "p", |policy| {
        policy["status"] = json!({});
    });
    let round = Duration::from_secs(60);
    for number in 0..REFRESHED.as_secs() / round.as_secs() {
        desk.policy(|it| it.lost = BTreeMap::from([(number.to_string().into(), vec![])]));
        desk.clock.pass(round).await;
    }
    assert_eq!(desk.policy_status(), status);
    assert_eq!(desk.count(POLICY_WRITE), 1);
}

/// Its predecessor's may be carried out, and answered, at any time.
#[tokio::test]
async fn a_policy_that_is_created_anew_gets_a_status_of_its_own() {
    let desk = Desk::new(Left::default());
    let release = desk.seed.hold(|call| call.brief() == POLICY_WRITE);
    desk.policy(|_| ());
    desk.clock.pass(MOMENT).await;
    desk.replace_policy();
    desk.clock.pass(MOMENT).await;
    let status = desk.policy_status();
    assert_eq!(condition(&status, "Ready")["reason"], "Reconciling");
    desk.seed.change("probepolicies", "", "p", |policy| {
        policy["status"] = json!({"observedGeneration": 0});
    });
    release.send(()).unwrap();
    desk.clock.pass(Duration::from_secs(6)).await;
    assert_eq!(desk.policy_status(), status);
}

/// A tool that waits for the policy goes on. A cluster without a verdict in time is reported although
/// nothing else happens.
#[tokio::test]
async fn a_new_cluster_does_not_make_its_policy_unready() {
    let desk = Desk::healthy().await;
    let since = condition(&desk.policy_status(), "Ready")["lastTransitionTime"].clone();
    desk.policy(|it| it.selected = vec!["a".into(), "b".into()]);
    let b: Arc<str> = "b".into();
    desk.reporter.cluster(&b, found(Finding::Pending));
    desk.clock.pass(Duration::from_secs(50)).await;
    let status = desk.policy_status();
    let ready = condition(&status, "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("True"), &json!("Probing"))
    );
    let message = ready["message"].as_str().unwrap();
    assert!(message.contains("1 are new"), "{message}");
    assert_eq!(status["clusters"]["undetermined"], 0, "{status}");
    assert_eq!(condition(&status, "Degraded")["status"], "False");
    desk.clock.pass(Duration::from_secs(11)).await;
    let status = desk.policy_status();
    assert_eq!(status["clusters"]["undetermined"], 1, "{status}");
    let degraded = condition(&status, "Degraded");
    assert_eq!(degraded["reason"], "Undetermined");
    let message = degraded["message"].as_str().unwrap();
    assert!(message.contains("b (Pending)"), "{message}");
    desk.reporter.cluster(&b, healthy());
    desk.clock.pass(Duration::from_secs(10)).await;
    let status = desk.policy_status();
    assert_eq!(condition(&status, "Degraded")["reason"], "AsExpected");
    assert_eq!(
        condition(&status, "Ready")["lastTransitionTime"],
        since,
        "it was ready all along"
    );
}

#[tokio::test]
async fn a_finalizer_is_not_taken_for_that_of_a_predecessor() {
    let desk = Desk::healthy().await;
    let release = desk.seed.hold(|call| call.brief() == FINALIZER_WRITE);
    desk.tell(protected()).await;
    desk.seed.fail(Failure::Status(503), (0, 1), |call| {
        call.brief() == FINALIZER_WRITE
    });
    desk.replace_policy();
    desk.clock.pass(MOMENT).await;
    release.send(()).unwrap();
    desk.clock.pass(Duration::from_secs(2)).await;
    assert_eq!(desk.finalizers(), json!([FINALIZER]));
}

/// News may be due without end, and somebody may have to look at something else.
#[tokio::test]
async fn events_wait_for_a_few_statuses_at_most() {
    let desk = Desk::healthy().await;
    let clusters: Vec<Arc<str>> = (0..40).map(|it| format!("c{it}").into()).collect();
    for cluster in &clusters {
        desk.reporter.cluster(cluster, healthy());
    }
    desk.clock.pass(MOMENT).await;
    // More are due than are written at once, and each ends when it may.
    let status = |call: &crate::support::Call| call.brief().starts_with("PATCH clusterhealths");
    let held = clusters.iter().map(|_| desk.seed.hold(status));
    let mut held: Vec<_> = held.collect();
    for cluster in &clusters {
        let report = ClusterReport {
            mode: Mode::DryRun,
            ..healthy()
        };
        desk.reporter.cluster(cluster, report);
    }
    desk.clock.pass(MOMENT).await;
    for check in ["a", "b", "c"] {
        let message = "it would have failed".to_owned();
        let name = Arc::from("a");
        desk.reporter
            .exec_tolerated(&name, check.to_owned(), message);
    }
    desk.clock.pass(MOMENT).await;
    assert_eq!(desk.seed.events().len(), 1);
    for sent in 2..=3 {
        for (ends, expected) in [(3, sent - 1), (1, sent)] {
            for release in held.drain(..ends) {
                release.send(()).unwrap();
            }
            desk.clock.pass(MOMENT).await;
            assert_eq!(desk.seed.events().len(), expected);
        }
    }
}

/// States may come and go for as long as they like: somebody may have to look at something else.
#[tokio::test]
async fn events_do_not_wait_for_states() {
    let desk = Desk::healthy().await;
    let clusters: Vec<Arc<str>> = (0..40).map(|it| format!("c{it}").into()).collect();
    for state in [ClusterState::Online, ClusterState::Degraded] {
        let held: Vec<_> = match state {
            // More are due than are written at once, and none of these ends.
            ClusterState::Degraded => {
                let status =
                    |call: &crate::support::Call| call.brief().starts_with("PATCH clusterhealths");
                (0..40).map(|_| desk.seed.hold(status)).collect()
            }
            _ => vec![],
        };
        for cluster in &clusters {
            desk.reporter.cluster(cluster, seen(state));
        }
        desk.clock.pass(MOMENT).await;
        if !held.is_empty() {
            let message = "it would have failed".to_owned();
            let (name, check) = (Arc::from("a"), "etcd".to_owned());
            desk.reporter.exec_tolerated(&name, check, message);
            desk.clock.pass(MOMENT).await;
            assert_eq!(desk.seed.events().len(), 1);
        }
    }
}
