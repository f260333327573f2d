use serde_json::{Value, json};

use super::*;
use crate::api::LeaseCounts;

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
        let nodes = self.observation.nodes_due().map(|due| (due, Look::Nodes));
        let next = [self.observation.next(), nodes].into_iter().flatten();
        let (due, look) = next.min_by_key(|(due, _)| *due)?;
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
