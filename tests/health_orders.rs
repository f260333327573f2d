//! Reports, deletions, lost answers and answers that are late, in any order, against a scripted
//! seed: in the end each object says what was reported last.
//!
//! `PROPTEST_CASES` raises the number of orders.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dependency_watchdog::{
    api::{ClusterHealth, FINALIZER, Mode, ProbePolicy, Protection},
    cluster::PolicyHold,
    prober::report::{ClusterReport, Finding, PolicyReport, Reporter},
};
use futures::{StreamExt, channel::oneshot};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use serde_json::json;
use support::{Activity, Call, Clock, Failure, Seed, policy, run};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How many orders there are by default.
const ORDERS: u32 = 60;
/// The events of an order at most.
const EVENTS: usize = 25;
/// All that failed has been tried again, and what was late is answered.
const END: Duration = Duration::from_secs(150);

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The loop of the cluster reports.
    Report(Protection, Found),
    /// No policy selects the cluster any more.
    Unselect,
    /// Somebody deletes its ClusterHealth.
    DeleteHealth,
    /// The Cluster is deleted and created anew.
    RecreateCluster,
    /// The policy is deleted and created anew.
    RecreatePolicy,
    /// The next write of this kind is answered late.
    Delay(Kind),
    /// One of these answers comes.
    Release(usize),
    /// The next write fails, and may have been carried out.
    Fail { committed: bool },
}

/// What a loop has found.
#[derive(Clone, Copy, Debug)]
enum Found {
    Skipped,
    Unread,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Health,
    PolicyStatus,
    Finalizer,
}

impl Kind {
    fn is_of(self, call: &Call) -> bool {
        call.method != "GET"
            && match self {
                Self::Health => call.resource.starts_with("clusterhealths"),
                Self::PolicyStatus => call.resource == "probepolicies/status",
                Self::Finalizer => call.resource == "probepolicies",
            }
    }
}

impl Found {
    fn reason(self) -> &'static str {
        match self {
            Self::Skipped => "Suspended",
            Self::Unread => "Timeout",
        }
    }
}

fn happenings() -> impl Strategy<Value = Happening> {
    let protections = prop::sample::select(vec![
        Protection::None,
        Protection::ScalingDown,
        Protection::Active,
        Protection::Restoring,
    ]);
    let found = prop::sample::select(vec![Found::Skipped, Found::Unread]);
    let kinds = prop::sample::select(vec![Kind::Health, Kind::PolicyStatus, Kind::Finalizer]);
    prop_oneof![
        4 => (protections, found).prop_map(|(protection, found)| Happening::Report(protection, found)),
        1 => Just(Happening::Unselect),
        1 => Just(Happening::DeleteHealth),
        1 => Just(Happening::RecreateCluster),
        1 => Just(Happening::RecreatePolicy),
        1 => kinds.prop_map(Happening::Delay),
        1 => any::<usize>().prop_map(Happening::Release),
        1 => any::<bool>().prop_map(|committed| Happening::Fail { committed }),
    ]
}

/// How much time passes after it; with none, not even the watch has told of it.
fn pauses() -> impl Strategy<Value = Duration> {
    prop::sample::select(vec![0, 0, 5, 250, 1_000, 6_000]).prop_map(Duration::from_millis)
}

fn config() -> ProptestConfig {
    let kept = FileFailurePersistence::WithSource("regressions");
    let default = ProptestConfig::with_failure_persistence(kept);
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default.cases,
        None => ORDERS,
    };
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_order_ends_with_what_was_reported_last(
        events in prop::collection::vec((happenings(), pauses()), 5..EVENTS),
    ) {
        run(async move {
            let mut order = Order::begin();
            for (event, pause) in events {
                order.take(event);
                if !pause.is_zero() {
                    order.clock.pass(pause).await;
                }
            }
            order.end().await;
        });
    }
}

/// A writer on a scripted seed with one policy, and what is to be there in the end of the cluster
/// `a`.
struct Order {
    clock: Clock,
    seed: Seed,
    reporter: Reporter,
    tasks: Vec<JoinHandle<()>>,
    late: Vec<oneshot::Sender<()>>,
    /// How many Clusters and policies there have been.
    created: usize,
    cluster: String,
    selected: Arc<AtomicBool>,
    reported: Option<(Protection, Found)>,
}

impl Order {
    fn begin() -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let seed = Seed::new(activity);
        seed.put(&policy("p"));
        let (writer, reporter) = Reporter::new(seed.unlimited(), vec![], BTreeMap::new());
        let selected = Arc::new(AtomicBool::new(false));
        let tasks = vec![
            tokio::spawn(writer.run(CancellationToken::new())),
            tokio::spawn(watch_records(seed.clone(), reporter.clone())),
            tokio::spawn(watch_policies(
                seed.clone(),
                reporter.clone(),
                selected.clone(),
            )),
        ];
        Self {
            clock,
            seed,
            reporter,
            tasks,
            late: vec![],
            created: 0,
            cluster: "uid-a".to_owned(),
            selected,
            reported: None,
        }
    }

    fn take(&mut self, event: Happening) {
        self.created += 1;
        match event {
            Happening::Report(protection, found) => {
                let news = self.reported.replace((protection, found)).is_none();
                self.select(news);
                self.report();
            }
            Happening::Unselect => {
                let news = self.reported.take().is_some();
                self.reporter.cluster_unselected(&"a".into());
                self.select(news);
            }
            Happening::DeleteHealth => self.seed.delete("clusterhealths", "", "a"),
            Happening::RecreateCluster => {
                self.cluster = format!("uid-a-{}", self.created);
                self.report();
            }
            Happening::RecreatePolicy => {
                self.seed.delete("probepolicies", "", "p");
                let mut another = policy("p");
                another["metadata"]["uid"] = json!(format!("uid-p-{}", self.created));
                self.seed.put(&another);
            }
            Happening::Delay(kind) => {
                self.late.push(self.seed.hold(move |call| kind.is_of(call)));
            }
            Happening::Release(number) => {
                if !self.late.is_empty() {
                    let _ = self.late.swap_remove(number % self.late.len()).send(());
                }
            }
            Happening::Fail { committed } => {
                let failure = Failure::Status(504);
                let writes = |call: &Call| call.method != "GET";
                if committed {
                    self.seed.fail_committed(failure, (0, 1), writes);
                } else {
                    self.seed.fail(failure, (0, 1), writes);
                }
            }
        }
    }

    /// Whether the policy selects the cluster; if that is news, the fleet tells of it.
    fn select(&self, news: bool) {
        let selected = self.reported.is_some();
        self.selected.store(selected, Ordering::SeqCst);
        let policy = self.seed.get("probepolicies", "", "p");
        if news && let Some(policy) = policy {
            let policy = serde_json::from_value(policy).unwrap();
            self.reporter.policies(vec![known(&policy, selected)]);
        }
    }

    fn report(&self) {
        if let Some((protection, found)) = self.reported {
            let report = report(&self.cluster, protection, found);
            self.reporter.cluster(&"a".into(), report);
        }
    }

    async fn end(mut self) {
        for answer in self.late.drain(..) {
            let _ = answer.send(());
        }
        self.clock.pass(END).await;
        let health = self.seed.get("clusterhealths", "", "a");
        let there = health.map(|health| {
            let owners = health["metadata"]["ownerReferences"].as_array().unwrap();
            let owners: Vec<_> = owners.iter().map(|owner| &owner["uid"]).collect();
            json!([
                owners,
                health["status"]["protection"],
                health["status"]["reason"]
            ])
        });
        let expected = self.reported.map(|(protection, found)| {
            json!([[self.cluster], format!("{protection:?}"), found.reason()])
        });
        assert_eq!(there, expected);
        let protects = self
            .reported
            .is_some_and(|(protection, _)| protection != Protection::None);
        let policy = self.seed.get("probepolicies", "", "p").unwrap();
        let counts = &policy["status"]["clusters"];
        let expected = (i32::from(self.reported.is_some()), i32::from(protects));
        assert_eq!(
            (&counts["selected"], &counts["protected"]),
            (&json!(expected.0), &json!(expected.1))
        );
        let finalizers = policy["metadata"]["finalizers"].as_array();
        let held = finalizers.is_some_and(|it| it.contains(&json!(FINALIZER)));
        assert_eq!(held, protects);
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn watch_records(seed: Seed, reporter: Reporter) {
    let records: Api<PartialObjectMeta<ClusterHealth>> =
        Api::all(seed.unlimited().client().clone());
    let events = watcher(records, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        if let Ok(event) = event {
            reporter.cluster_health(event);
        }
    }
}

async fn watch_policies(seed: Seed, reporter: Reporter, selected: Arc<AtomicBool>) {
    let kind = ApiResource::erase::<ProbePolicy>(&());
    let policies: Api<DynamicObject> = Api::all_with(seed.unlimited().client().clone(), &kind);
    let events = watcher(policies, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let reports = match event {
            Ok(watcher::Event::Apply(policy) | watcher::Event::InitApply(policy)) => {
                vec![known(&policy, selected.load(Ordering::SeqCst))]
            }
            Ok(watcher::Event::Delete(_)) => vec![],
            _ => continue,
        };
        reporter.policies(reports);
    }
}

/// What the fleet tells of a policy.
fn known(policy: &DynamicObject, selected: bool) -> PolicyReport {
    let mut finalizers = policy.metadata.finalizers.iter().flatten();
    PolicyReport {
        name: "p".into(),
        uid: policy.metadata.uid.as_deref().unwrap().into(),
        deleting: false,
        hold: PolicyHold::default(),
        held: finalizers.any(|it| it == FINALIZER),
        generation: 1,
        problems: vec![],
        warnings: vec![],
        selected: selected.then(|| "a".into()).into_iter().collect(),
        kept: vec![],
        lost: BTreeMap::new(),
    }
}

fn report(uid: &str, protection: Protection, found: Found) -> ClusterReport {
    let (reason, message) = (found.reason(), String::new());
    ClusterReport {
        uid: uid.into(),
        policy: Some("p".into()),
        mode: Mode::Enforce,
        finding: match found {
            Found::Skipped => Finding::Skipped { reason, message },
            Found::Unread => Finding::Unread { reason, message },
        },
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
    }
}
