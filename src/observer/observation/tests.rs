use serde_json::{Value, json};

use super::*;
use crate::api::{CheckResult, LeaseCounts};

const SECOND: Duration = Duration::from_secs(1);

fn settings(value: Value) -> Arc<ObserverSettings> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn provider(threshold: i32) -> Value {
    json!({"metricsProviders": [{
        "name": "metrics", "apiService": "v1beta1.metrics.k8s.io",
        "failureThreshold": threshold, "periodSeconds": 30,
    }]})
}

fn well() -> NodeCounts {
    NodeCounts {
        all: 3,
        well: 3,
        ..NodeCounts::default()
    }
}

fn pressed() -> NodeCounts {
    NodeCounts {
        well: 2,
        pid_pressure: 1,
        ..well()
    }
}

/// One that is followed by the test's clock.
struct Story {
    observation: Observation,
    begin: Instant,
}

impl Story {
    fn new(value: Value, recalled: Option<&ClusterHealthStatus>) -> Self {
        let begin = Instant::now();
        Self {
            observation: Observation::new(settings(value), recalled, begin, 0.5),
            begin,
        }
    }

    fn at(&self, second: u32) -> Instant {
        self.begin + SECOND * second
    }

    fn reached(&mut self, second: u32) {
        self.observation.reached(self.at(second));
    }

    fn unreached(&mut self, second: u32) {
        self.observation.unreached(self.at(second), "refused");
    }

    fn take(&mut self, second: u32, found: Found) -> bool {
        let now = Timestamp::from_second(i64::from(second)).unwrap();
        self.observation.take(found, self.at(second), now, 0.0)
    }

    fn nodes(&mut self, second: u32, nodes: NodeCounts) -> bool {
        self.take(second, Found::Nodes(Ok(nodes)))
    }

    fn ready(&mut self, second: u32) -> bool {
        self.take(second, Found::Ready(Ready::Yes))
    }

    fn state(&self) -> ClusterState {
        self.observation.view().state
    }

    /// What is looked at next, and at which second.
    fn next(&self) -> Option<(u64, Look)> {
        let (due, look) = self.observation.next()?;
        Some(((due - self.begin).as_secs(), look))
    }

    fn online(value: Value) -> Self {
        let mut story = Self::new(value, None);
        story.reached(0);
        story.ready(0);
        story.nodes(0, well());
        assert_eq!(story.state(), ClusterState::Online);
        story
    }
}

/// One that was not ready and now says neither is not well for that, but what it said grows old.
#[test]
fn that_it_is_not_ready_holds_until_it_says_otherwise_or_for_five_minutes() {
    let no = || Found::Ready(Ready::No(vec!["etcd".to_owned()]));
    let neither = || Found::Ready(Ready::Unknown("timed out".to_owned()));
    let mut story = Story::online(json!({}));
    // Without it, to say neither is no evidence.
    story.take(60, neither());
    assert_eq!(story.state(), ClusterState::Online);
    story.take(120, no());
    for second in [130, 140, 419] {
        story.take(second, neither());
        assert_eq!(story.state(), ClusterState::NotReady, "{second}");
        assert_eq!(story.observation.api_due, story.at(second + 10));
    }
    story.take(420, neither());
    assert_eq!(story.state(), ClusterState::Online);
    assert_eq!(story.observation.api_due, story.at(480));
    story.take(480, no());
    story.take(490, neither());
    assert_eq!(story.state(), ClusterState::NotReady);
    story.ready(500);
    assert_eq!(story.state(), ClusterState::Online);
    // Another that says so does so from then on.
    story.take(560, no());
    story.take(570, no());
    story.take(869, neither());
    assert_eq!(story.state(), ClusterState::NotReady);
}

#[test]
fn a_new_cluster_is_looked_at_at_once() {
    let mut story = Story::new(json!({}), None);
    assert_eq!(story.observation.view().nodes, None);
    assert_eq!(story.next(), None, "it is not known to answer");
    story.reached(0);
    assert_eq!(story.state(), ClusterState::Pending);
    assert_eq!(story.next(), Some((0, Look::Ready)));
    story.ready(0);
    assert_eq!(story.next(), Some((0, Look::Nodes)));
    assert!(story.nodes(0, well()));
    assert_eq!(story.state(), ClusterState::Online);
}

#[test]
fn nodes_are_seldom_read_while_all_is_well_and_often_while_not() {
    let mut story = Story::online(json!({"nodeInterval": "5m"}));
    story.ready(290);
    assert_eq!(story.next(), Some((300, Look::Nodes)));
    assert!(story.nodes(300, pressed()));
    assert_eq!(story.state(), ClusterState::Unhealthy);
    story.ready(350);
    assert_eq!(story.next(), Some((360, Look::Nodes)));
    assert!(!story.nodes(360, pressed()), "nothing is new");
    story.take(360, Found::Nodes(Err("403".to_owned())));
    story.ready(410);
    assert_eq!(story.next(), Some((420, Look::Nodes)));
    let mut story = Story::online(json!({"nodeInterval": "10s"}));
    assert_eq!(story.next(), Some((10, Look::Nodes)));
    story.nodes(10, pressed());
    assert_eq!(story.next(), Some((20, Look::Nodes)));
}

#[test]
fn an_api_server_is_asked_sooner_while_it_is_not_ready() {
    let mut story = Story::online(json!({}));
    assert_eq!(story.next(), Some((60, Look::Ready)));
    let no = || Found::Ready(Ready::No(vec!["etcd".to_owned()]));
    assert!(story.take(60, no()));
    assert_eq!(story.next(), Some((70, Look::Ready)));
    story.ready(70);
    assert_eq!(story.next(), Some((130, Look::Ready)));
    assert_eq!(story.state(), ClusterState::Online);
}

#[test]
fn nodes_that_cannot_be_read_change_no_state() {
    let mut story = Story::online(json!({}));
    let view = story.observation.view();
    let refused = || Found::Nodes(Err("it may not list nodes (403)".to_owned()));
    assert!(story.take(60, refused()), "that is told once");
    assert!(!story.take(120, refused()));
    let now = story.observation.view();
    assert_eq!((now.state, &now.nodes), (view.state, &view.nodes));
    assert!(
        now.message
            .ends_with("could not be read: it may not list nodes (403)")
    );
    story.nodes(180, well());
    assert_eq!(story.observation.view(), view);
    // Nor is one that was never seen as a whole given a state by what is known of it.
    let mut story = Story::new(json!({}), None);
    story.reached(0);
    story.ready(0);
    story.take(0, refused());
    assert_eq!(story.state(), ClusterState::Pending);
    assert_eq!(story.next(), Some((60, Look::Ready)));
}

#[test]
fn a_cluster_that_was_away_is_looked_at_anew() {
    let mut story = Story::online(json!({"backoffLimit": 0}));
    story.unreached(10);
    assert_eq!(story.state(), ClusterState::Offline);
    assert_eq!(story.next(), None);
    story.reached(20);
    assert_eq!(story.state(), ClusterState::Connecting);
    assert_eq!(story.observation.view().nodes, Some(well()), "as last seen");
    assert_eq!(story.next(), Some((20, Look::Ready)));
    story.ready(20);
    assert_eq!(story.next(), Some((20, Look::Nodes)));
    story.reached(30);
    assert_eq!(story.state(), ClusterState::Connecting);
    story.nodes(30, pressed());
    assert_eq!(story.state(), ClusterState::Unhealthy);
}

#[test]
fn after_a_failure_that_passes_what_was_known_holds() {
    let mut story = Story::online(json!({}));
    story.unreached(10);
    assert_eq!(story.state(), ClusterState::Degraded);
    // What was under way when it failed says nothing against that.
    story.nodes(11, pressed());
    assert_eq!(story.state(), ClusterState::Degraded);
    story.reached(20);
    assert_eq!(story.state(), ClusterState::Unhealthy);
}

#[test]
fn metrics_fail_only_while_their_provider_does() {
    let mut story = Story::online(provider(2));
    let failed = || Found::Provider(0, Answer::Failed("503".to_owned()));
    assert_eq!(story.observation.statuses()[0].result, CheckResult::Unknown);
    story.take(0, Found::Provider(0, Answer::Passed));
    assert!(!story.take(30, failed()));
    assert_eq!(story.state(), ClusterState::Online);
    assert!(story.take(60, failed()));
    assert_eq!(story.state(), ClusterState::FailingMetrics);
    assert!(story.observation.view().message.contains("metrics: 503"));
    story.nodes(70, pressed());
    assert_eq!(story.state(), ClusterState::Unhealthy, "that is worse");
    story.nodes(80, well());
    assert_eq!(story.state(), ClusterState::FailingMetrics);
    assert!(story.take(90, Found::Provider(0, Answer::Passed)));
    assert_eq!(story.state(), ClusterState::Online);
}

#[test]
fn providers_have_periods_of_their_own() {
    let mut story = Story::online(provider(1));
    assert_eq!(story.next(), Some((0, Look::Provider(0))));
    story.observation.began(Look::Provider(0), story.at(0));
    story.take(1, Found::Provider(0, Answer::Passed));
    assert_eq!(story.next(), Some((30, Look::Provider(0))));
    assert!(
        !story.take(2, Found::Provider(7, Answer::Passed)),
        "none of these settings"
    );
}

/// What an earlier run has left stands until there is something else to say.
#[test]
fn an_earlier_run_is_recalled() {
    let story = Story::online(provider(1));
    let mut statuses = story.observation.statuses();
    statuses[0].result = CheckResult::Failing;
    let recalled = ClusterHealthStatus {
        state: Some(ClusterState::Unhealthy),
        state_message: Some("1 of 3 nodes is under PID pressure".to_owned()),
        nodes: Some("2/3".to_owned()),
        nodes_pid_pressure: Some("1/3".to_owned()),
        nodes_memory_pressure: Some("0/3".to_owned()),
        nodes_disk_pressure: Some("0/3".to_owned()),
        checks: statuses.clone(),
        ..ClusterHealthStatus::default()
    };
    let mut story = Story::new(provider(1), Some(&recalled));
    story.reached(0);
    let view = story.observation.view();
    assert_eq!(view.state, ClusterState::Unhealthy);
    assert_eq!(Some(view.message), recalled.state_message);
    assert_eq!(view.nodes, Some(pressed()));
    assert_eq!(story.observation.statuses(), statuses);
    // A thousand clusters are not looked at at once.
    assert_eq!(story.next(), Some((30, Look::Ready)));
    story.ready(30);
    assert_eq!(
        story.state(),
        ClusterState::Unhealthy,
        "not all is known yet"
    );
    story.nodes(30, well());
    assert_eq!(story.state(), ClusterState::FailingMetrics);
    // One that was DEGRADED is not, once it is reached.
    let degraded = ClusterHealthStatus {
        state: Some(ClusterState::Degraded),
        ..recalled
    };
    let mut story = Story::new(json!({}), Some(&degraded));
    story.reached(0);
    assert_eq!(story.state(), ClusterState::Pending);
    assert_eq!(story.next(), Some((0, Look::Ready)));
}

/// Nobody marks a silent node while kube-controller-manager is down.
#[test]
fn a_cluster_whose_kubelets_are_silent_is_not_ready() {
    let mut story = Story::online(json!({"backoffLimit": 0}));
    story.observation.judged(story.at(10), Some((2, 3)));
    story.reached(10);
    assert_eq!(story.state(), ClusterState::NotReady);
    let message = story.observation.view().message;
    assert!(message.contains("2 of 3 node leases"), "{message}");
    // It stands until the leases are judged otherwise.
    story.unreached(20);
    story.reached(30);
    story.ready(30);
    story.nodes(30, well());
    assert_eq!(story.state(), ClusterState::NotReady);
    story.observation.judged(story.at(40), None);
    story.reached(40);
    // They may have been marked meanwhile.
    assert_eq!(story.state(), ClusterState::NotReady);
    let view = story.observation.view();
    assert!(view.message.contains("are heard again"), "{view:?}");
    assert_eq!(view.nodes, Some(well()));
    assert_eq!(story.next(), Some((40, Look::Ready)));
    story.ready(40);
    assert_eq!(story.state(), ClusterState::NotReady);
    assert_eq!(story.next(), Some((40, Look::Nodes)));
    story.nodes(40, well());
    assert_eq!(story.state(), ClusterState::Online);
}

/// Whatever it was before, and whatever else is known of it: nothing is looked at during a proof.
#[test]
fn an_outage_waits_for_no_look() {
    use ClusterState::{Connecting, Degraded, Online, Unhealthy};
    for before in [
        None,
        Some(Online),
        Some(Unhealthy),
        Some(Degraded),
        Some(Connecting),
    ] {
        let recalled = before.map(|state| ClusterHealthStatus {
            state: Some(state),
            ..ClusterHealthStatus::default()
        });
        let mut story = Story::new(json!({}), recalled.as_ref());
        story.reached(0);
        story.observation.judged(story.at(10), Some((2, 3)));
        story.reached(10);
        assert_eq!(story.state(), ClusterState::NotReady, "{before:?}");
        let message = story.observation.view().message;
        assert!(message.contains("2 of 3 node leases"), "{message}");
        // And when it is over, what is known no more is looked at.
        story.observation.judged(story.at(20), None);
        story.reached(20);
        assert_eq!(story.next(), Some((20, Look::Ready)), "{before:?}");
        story.ready(20);
        assert_eq!(story.next(), Some((20, Look::Nodes)), "{before:?}");
        story.nodes(20, well());
        assert_eq!(story.state(), Online, "{before:?}");
    }
}

/// The silence may have ended while nobody watched, or its proof may not have come about again.
#[test]
fn what_is_left_of_a_silence_is_looked_at_when_it_is_over() {
    let recalled = |state, reason: &str, protection| ClusterHealthStatus {
        state: Some(state),
        reason: Some(reason.to_owned()),
        protection,
        leases: Some(LeaseCounts {
            candidates: 3,
            expired: 2,
            unknown: 0,
        }),
        ..ClusterHealthStatus::default()
    };
    let (online, not_ready) = (ClusterState::Online, ClusterState::NotReady);
    for (status, due) in [
        (recalled(not_ready, "Outage", Protection::Active), 10),
        (recalled(not_ready, "Suspect", Protection::None), 10),
        (recalled(online, "Healthy", Protection::Restoring), 10),
        (recalled(online, "Healthy", Protection::None), 30),
    ] {
        let mut story = Story::new(json!({}), Some(&status));
        story.reached(0);
        assert_eq!(story.next(), Some((30, Look::Ready)), "{status:?}");
        story.observation.judged(story.at(10), None);
        story.reached(10);
        assert_eq!(story.next(), Some((due, Look::Ready)), "{status:?}");
        story.ready(10);
        assert_eq!(story.next(), Some((due, Look::Nodes)), "{status:?}");
        story.nodes(10, well());
        assert_eq!(story.state(), online, "{status:?}");
        // That is so once.
        story.observation.judged(story.at(20), None);
        assert_eq!(story.next(), Some((70, Look::Ready)), "{status:?}");
    }
    // Other settings in the middle of an outage.
    let mut story = Story::online(json!({}));
    story.observation.judged(story.at(10), Some((2, 3)));
    story.reached(10);
    let other = settings(provider(1));
    story.observation.restart(other, story.at(20), 0.5);
    story.observation.judged(story.at(30), None);
    story.reached(30);
    assert_eq!(story.state(), not_ready);
    assert_eq!(story.next(), Some((30, Look::Ready)));
    story.ready(30);
    story.nodes(30, well());
    assert_eq!(story.state(), online);
}

/// The proof begins anew, and may not be had for a while.
#[test]
fn a_restart_forgets_no_silence() {
    let recalled = |reason: &str| ClusterHealthStatus {
        state: Some(ClusterState::NotReady),
        reason: Some(reason.to_owned()),
        leases: Some(LeaseCounts {
            candidates: 3,
            expired: 2,
            unknown: 0,
        }),
        ..ClusterHealthStatus::default()
    };
    for (reason, expected) in [
        ("Outage", ClusterState::NotReady),
        ("Suspect", ClusterState::Online),
    ] {
        let mut story = Story::new(json!({}), Some(&recalled(reason)));
        story.reached(0);
        story.ready(0);
        story.nodes(0, well());
        assert_eq!(story.state(), expected, "{reason}");
    }
}

/// It waits for nothing else.
#[test]
fn one_that_was_connecting_is_looked_at_at_once() {
    let recalled = ClusterHealthStatus {
        state: Some(ClusterState::Connecting),
        ..ClusterHealthStatus::default()
    };
    let mut story = Story::new(json!({}), Some(&recalled));
    story.reached(0);
    assert_eq!(story.next(), Some((0, Look::Ready)));
}

#[test]
fn a_restart_shows_what_was_and_counts_on_nothing() {
    let mut story = Story::online(json!({}));
    let (view, draw) = (story.observation.view(), 0.5);
    let (same, at) = (settings(provider(1)), story.at(10));
    story.observation.restart(same, at, draw);
    assert_eq!(story.observation.view(), view);
    assert_eq!(story.next(), Some((40, Look::Ready)));
    story.take(40, Found::Ready(Ready::No(vec!["etcd".to_owned()])));
    assert_eq!(
        story.observation.view(),
        view,
        "its nodes are not known anew"
    );
    story.nodes(40, well());
    assert_eq!(story.state(), ClusterState::NotReady);
    assert_eq!(story.observation.statuses().len(), 1);
}
