//! The metrics of a whole run, what is said of them, and readiness.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    files::is_generated,
    support::{
        Exposition, Failure, Family, Garden, LONG, Read, World, change_policy, put_pod, put_slice,
        weed_policy,
    },
};
use dependency_watchdog::{
    prober::instruments::Instruments,
    runtime::{health::Health, metrics::Registry},
    weeder,
};
use serde_json::json;

const P: &str = "dependency_watchdog_";
const SECOND: Duration = Duration::from_secs(1);

struct Run {
    world: World,
    registry: Registry,
}

impl Run {
    async fn new(clusters: &[&str]) -> Self {
        let mut world = World::new(clusters).await;
        let (instruments, registry) = Instruments::new();
        world.instruments = instruments;
        Self { world, registry }
    }

    /// What is shown when nothing more happens at this moment.
    async fn shown(&self) -> Exposition {
        self.world.clock.settle().await;
        Exposition::of(&self.registry)
    }

    async fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.shown().await.value(&format!("{P}{name}"), labels)
    }

    /// How often leases were read.
    fn lease_reads(&self) -> usize {
        let shoots = self.world.shoots.values();
        shoots
            .map(|it| it.count(Read::Cached) + it.count(Read::Consistent))
            .sum()
    }

    /// Has the leases of `b` fail in this way, and tells how many reads did.
    async fn fail_b(&self, failure: Failure, reason: &str) -> usize {
        let shoot = self.world.shoot("b");
        let before = shoot.count(Read::Cached);
        shoot.fail(Read::Cached, failure);
        self.world.reason("b", reason).await;
        self.world.clock.pass(20 * SECOND).await;
        shoot.heal();
        let failed = shoot.count(Read::Cached) - before;
        self.world.reason("b", "Healthy").await;
        failed
    }
}

#[tokio::test]
async fn policies_are_counted_by_what_holds_them_back() {
    let mut run = Run::new(&["a"]).await;
    run.world.start();
    for (field, value, expected) in [
        ("mode", json!("Enforce"), "enforcing"),
        ("mode", json!("DryRun"), "dry_run"),
        ("suspend", json!(true), "suspended"),
        ("mode", json!(null), "invalid"),
    ] {
        change_policy(&run.world, "p", |it| it["spec"][field] = value.clone());
        run.world.clock.pass(SECOND).await;
        for state in ["enforcing", "dry_run", "suspended", "invalid", "deleting"] {
            let count = run.value("probe_policies", &[("state", state)]).await;
            assert_eq!(count, f64::from(state == expected), "{state}");
        }
    }
}

#[tokio::test]
async fn a_run_is_counted_as_it_was() {
    let mut run = Run::new(&["a", "b"]).await;
    run.world.start();
    for name in ["a", "b"] {
        run.world.reason(name, "Healthy").await;
    }
    run.world.clock.pass(30 * SECOND).await;
    assert_eq!(run.value("clusters", &[("state", "judged")]).await, 2.0);

    // An outage, and its end.
    run.world.shoot("a").silence(0);
    run.world.protection("a", "Active").await;
    assert_eq!(run.value("protected_clusters", &[]).await, 1.0);
    assert_eq!(run.value("owed_dependents", &[]).await, 3.0);
    run.world.clock.pass(LONG).await;
    run.world.shoot("a").renew();
    run.world.protection("a", "None").await;

    // Failures of a shoot and of a watch.
    let failed = run.fail_b(Failure::Status(503), "ServerError").await;
    let throttled = run.fail_b(Failure::RetryAfter(2), "TooManyRequests").await;
    run.world.seed.compact();
    run.world.seed.end_watches("clusters");
    run.world.clock.pass(30 * SECOND).await;

    let shown = run.shown().await;
    let value = |name: &str, labels: &[(&str, &str)]| shown.value(&format!("{P}{name}"), labels);
    let sum = |name: &str, labels: &[(&str, &str)]| shown.sum(&format!("{P}{name}"), labels);

    // What is read before the term begins, once of each cluster, is not of a leader.
    let succeeded = run.lease_reads() - failed - throttled - 2;
    for (result, count) in [
        ("success", succeeded),
        ("failure", failed),
        ("throttled", throttled),
    ] {
        assert!(count > 0, "{result}");
        let labels = [("type", "leases"), ("result", result)];
        assert_eq!(
            value("probe_duration_seconds_count", &labels),
            count as f64,
            "{result}"
        );
    }
    assert_eq!(value("probes_in_flight", &[]), 0.0);
    let all = succeeded + failed + throttled;
    assert_eq!(sum("verdicts_total", &[]), all as f64);
    assert!(
        value(
            "verdicts_total",
            &[("verdict", "outage"), ("reason", "Outage")]
        ) > 1.0
    );
    let unread = |reason: &str| {
        value(
            "verdicts_total",
            &[("verdict", "unread"), ("reason", reason)],
        )
    };
    assert_eq!(unread("ServerError"), failed as f64);
    assert_eq!(unread("TooManyRequests"), throttled as f64);

    // The marks fall a minute after the restore.
    for direction in ["down", "up", "release"] {
        let labels = [("direction", direction), ("result", "success")];
        assert_eq!(value("scale_operations_total", &labels), 3.0, "{direction}");
    }
    assert_eq!(sum("scale_operations_total", &[]), 9.0);
    assert_eq!(sum("scale_failures_total", &[]), 0.0);

    // One decision, 30 s after the last renewal, and a write within one step of the clock.
    assert_eq!(value("reaction_seconds_count", &[]), 1.0);
    assert_eq!(value("reaction_seconds_bucket", &[("le", "0.3")]), 1.0);
    assert_eq!(value("protection_duration_seconds_count", &[]), 1.0);
    let length = value("protection_duration_seconds_sum", &[]);
    assert!((60.0..70.0).contains(&length), "{length}");
    for gauge in [
        "protected_clusters",
        "overdue_clusters",
        "owed_dependents",
        "status_writes_in_flight",
        "status_writes_due",
    ] {
        assert_eq!(value(gauge, &[]), 0.0, "{gauge}");
    }
    for (state, count) in [
        ("pending", 0.0),
        ("skipped", 0.0),
        ("judged", 2.0),
        ("undetermined", 0.0),
    ] {
        assert_eq!(value("clusters", &[("state", state)]), count, "{state}");
    }

    // Of the seed's side of it the seed knows best.
    let events = run.world.seed.events();
    assert_eq!(value("events_written_total", &[]), events.len() as f64);
    assert_eq!(value("events_dropped_total", &[]), 0.0);
    let calls = [run.world.seed.calls(), events].concat();
    assert_eq!(sum("api_requests_total", &[]), calls.len() as f64);
    let patches = calls.iter().filter(|call| call.method == "PATCH").count();
    assert_eq!(
        sum("api_requests_total", &[("verb", "patch")]),
        patches as f64
    );
    let statuses = calls
        .iter()
        .filter(|call| call.resource == "clusterhealths/status");
    let labels = [("kind", "ClusterHealth"), ("result", "success")];
    assert_eq!(
        value("status_writes_total", &labels),
        statuses.count() as f64
    );
    assert_eq!(value("watch_restarts_total", &[("kind", "Clusters")]), 1.0);
    assert_eq!(sum("watch_restarts_total", &[]), 1.0);
    assert_eq!(value("leader", &[]), 1.0);
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    assert_eq!(value("build_info", &version), 1.0);
    assert!(shown.value("process_open_fds", &[]) < shown.value("process_max_fds", &[]));
}

/// The names of the checks that fail.
fn failing(health: &Health) -> Vec<(&'static str, String)> {
    let results = health.results().into_iter();
    results
        .filter_map(|(name, result)| Some((name, result.err()?)))
        .collect()
}

#[tokio::test]
async fn readiness_follows_the_watches() {
    let mut run = Run::new(&["a"]).await;
    let health = run.world.instruments.common.health().clone();
    assert_eq!(failing(&health), []);
    let absent = |call: &crate::support::Call| call.resource == "clusterhealths";
    run.world
        .seed
        .fail(Failure::Status(404), (0, usize::MAX), absent);
    run.world.start();
    run.world.clock.pass(5 * SECOND).await;
    let [(name, message)] = &failing(&health)[..] else {
        panic!("{:?}", failing(&health));
    };
    assert_eq!(*name, "watch-clusterhealths");
    assert!(
        message.contains("apply its CustomResourceDefinition"),
        "{message}"
    );
    run.world.seed.heal();
    run.world.reason("a", "Healthy").await;
    assert_eq!(failing(&health), []);
    // A watch that cannot be resumed.
    let broken = |call: &crate::support::Call| call.resource == "clusters";
    run.world
        .seed
        .fail(Failure::Status(503), (0, usize::MAX), broken);
    run.world.seed.end_watches("clusters");
    run.world.clock.pass(50 * SECOND).await;
    assert_eq!(failing(&health), []);
    run.world.clock.pass(60 * SECOND).await;
    let [(name, message)] = &failing(&health)[..] else {
        panic!("{:?}", failing(&health));
    };
    assert_eq!(*name, "watch-clusters");
    assert!(message.starts_with("not up to date: "), "{message}");
    run.world.seed.heal();
    run.world.clock.pass(2 * LONG).await;
    assert_eq!(failing(&health), []);
}

#[tokio::test]
async fn idle_loops_are_alive_and_ended_ones_are_not() {
    let mut run = Run::new(&["a"]).await;
    let health = run.world.instruments.common.health().clone();
    run.world.clock.pass(2 * LONG).await;
    assert_eq!(health.stale(), []);
    run.world.start();
    run.world.reason("a", "Healthy").await;
    run.world.clock.pass(5 * LONG).await;
    assert_eq!(health.stale(), []);
    run.world.stop().await;
    run.world.clock.pass(2 * LONG).await;
    let stale = health.stale();
    let names: Vec<_> = stale.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["fleet", "writer"]);
}

/// A recovery: three pods are deleted, two of them at the second try; one is left alone.
#[tokio::test]
async fn a_run_of_the_weeder_is_counted_as_it_was() {
    let mut garden = Garden::new(&["a", "b"]);
    let (instruments, registry) = weeder::instruments::Instruments::new();
    garden.instruments = instruments;
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    let mut dry = weed_policy("q", "web", "web");
    dry["spec"]["mode"] = json!("DryRun");
    garden.seed.put(&dry);
    let mut suspended = weed_policy("r", "web", "web");
    suspended["spec"]["suspend"] = json!(true);
    garden.seed.put(&suspended);
    for name in ["api-1", "api-2", "api-3"] {
        put_pod(&garden.seed, "a", name, "api", true);
    }
    put_pod(&garden.seed, "a", "bare", "api", true);
    garden.seed.change("pods", "a", "bare", |pod| {
        pod["metadata"]["ownerReferences"] = json!([]);
    });
    put_pod(&garden.seed, "a", "web-1", "web", true);
    put_slice(&garden.seed, "a", "etcd", false);
    put_slice(&garden.seed, "b", "etcd", false);
    put_slice(&garden.seed, "a", "web", true);
    for (pod, failure) in [
        ("api-1", Failure::Status(403)),
        ("api-2", Failure::Status(409)),
    ] {
        let fails = move |call: &crate::support::Call| call.brief() == format!("DELETE pods/{pod}");
        garden.seed.fail(failure, (0, 1), fails);
    }
    garden.start();
    garden
        .status_where("all is seen", |status| status["services"]["watched"] == 2)
        .await;
    put_slice(&garden.seed, "a", "etcd", true);
    garden.clock.settle().await;
    garden.seed.change("pods", "a", "api-2", |pod| {
        pod["metadata"]["annotations"] = json!({"changed": "indeed"});
    });
    garden.gone("api-1").await;
    garden.gone("api-2").await;
    garden.pass(5).await;
    let shown = || Exposition::of(&registry);
    let now = shown();
    for (name, labels, expected) in [
        ("weed_policies", [("state", "watching")].as_slice(), 1.0),
        ("weed_policies", &[("state", "dry_run")], 1.0),
        ("weed_policies", &[("state", "suspended")], 1.0),
        ("weed_policies", &[("state", "invalid")], 0.0),
        ("services", &[("state", "ready")], 2.0),
        ("services", &[("state", "not_ready")], 1.0),
        ("open_windows", &[], 2.0),
        ("windows_opened_total", &[], 2.0),
        ("pod_watches", &[], 1.0),
        ("pod_deletions_waiting", &[], 0.0),
        ("pod_deletions_total", &[("result", "accepted")], 3.0),
        ("pod_deletions_total", &[("result", "refused")], 1.0),
        ("pod_deletions_total", &[("result", "changed")], 1.0),
        ("pod_deletions_total", &[("result", "unanswered")], 0.0),
        ("pods_weeded_total", &[], 3.0),
        ("pods_left_alone_total", &[("reason", "NoController")], 1.0),
        ("pods_left_alone_total", &[("reason", "StaticPod")], 0.0),
        ("pods_left_alone_total", &[("reason", "JobPod")], 0.0),
        ("weed_delay_seconds_count", &[], 3.0),
        (
            "api_requests_total",
            &[("verb", "delete"), ("code", "200")],
            3.0,
        ),
        (
            "api_requests_total",
            &[("verb", "delete"), ("code", "403")],
            1.0,
        ),
        (
            "api_requests_total",
            &[("verb", "delete"), ("code", "409")],
            1.0,
        ),
        ("leader", &[], 1.0),
    ] {
        assert_eq!(
            now.value(&format!("{P}{name}"), labels),
            expected,
            "{name} {labels:?}"
        );
    }
    // One at once, two after a second.
    let delay = now.value(&format!("{P}weed_delay_seconds_sum"), &[]);
    assert!((2.0..3.0).contains(&delay), "{delay}");
    let calls = [garden.seed.calls(), garden.seed.events()].concat();
    assert_eq!(
        now.sum(&format!("{P}api_requests_total"), &[]),
        calls.len() as f64
    );
    assert_eq!(now.sum(&format!("{P}watch_restarts_total"), &[]), 0.0);

    // All of it goes with the windows.
    garden.pass(60).await;
    let now = shown();
    for name in ["open_windows", "pod_watches"] {
        assert_eq!(now.value(&format!("{P}{name}"), &[]), 0.0, "{name}");
    }
}

const BEGIN: &str = "<!-- Generated by `make docs` from the registry. -->\n";
const END: &str = "<!-- End of what is generated. -->\n";

/// The row of a metric.
fn row((name, family): (&String, &Family), shown: &Exposition) -> String {
    let suffix = match &*family.kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    let labels = shown.labels(name).into_iter();
    let labels: Vec<String> = labels.map(|it| format!("`{it}`")).collect();
    let (labels, help) = (labels.join(" "), family.help.trim_end_matches('.'));
    format!(
        "| `{name}{suffix}` | {} | {labels} | {help} |\n",
        family.kind
    )
}

/// The tables of all metrics in docs/metrics.md are what is shown from the start; `make docs` writes them.
#[test]
fn every_metric_is_described() {
    let shown = [
        Instruments::new().1,
        weeder::instruments::Instruments::new().1,
    ]
    .map(|it| Exposition::of(&it));
    let [prober, weeder] = [&shown[0], &shown[1]]
        .map(|shown| -> BTreeSet<String> { shown.0.iter().map(|it| row(it, shown)).collect() });
    let table = |rows: Vec<&String>| {
        let rows: String = rows.into_iter().map(String::as_str).collect();
        format!("\n| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}")
    };
    let tables = [
        "\nBoth components show:\n".to_owned(),
        table(prober.intersection(&weeder).collect()),
        "\nThe prober alone:\n".to_owned(),
        table(prober.difference(&weeder).collect()),
        "\nThe weeder alone:\n".to_owned(),
        table(weeder.difference(&prober).collect()),
    ];
    is_generated("docs/metrics.md", BEGIN, END, &tables.concat());
}
