use ClusterState::{
    Connecting, Degraded, FailingMetrics, NotReady, Offline, Online, Pending, Unhealthy,
};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{api::Duration as Span, shoot::Node};

/// Time from one event to the next.
const STEP: Duration = Duration::from_secs(10);

fn settings(limit: i32, delay: u16, factor: i32) -> ObserverSettings {
    ObserverSettings {
        backoff: factor,
        backoff_delay: Span::from_secs(delay),
        backoff_limit: limit,
        ..ObserverSettings::default()
    }
}

/// Three nodes, one of which has these conditions.
fn nodes(conditions: &[&str]) -> NodeCounts {
    let node = |name: &str, conditions: &[&str]| Node {
        name: name.into(),
        true_conditions: conditions.iter().map(ToString::to_string).collect(),
        ..Node::default()
    };
    let mut counts = NodeCounts::default();
    counts.take(&node("a", &["Ready"]));
    counts.take(&node("b", conditions));
    counts.take(&node("c", &["Ready"]));
    counts
}

/// A cluster with one retry and one provider of metrics, after these events.
///
/// A probe does not reach it (`x`) or does (`r`), its leases are an outage (`o`) or healthy (`h`). Its nodes are read:
/// all are well (`N`), one is not ready (`n`), one is under pressure (`p`), they cannot be read (`e`). Its API server
/// is ready (`R`), is not (`f`), does not say (`u`). Its provider passes (`M`) or fails (`m`).
fn after(events: &str) -> View {
    let provider = json!({
        "name": "metrics", "apiService": "v1beta1.metrics.k8s.io", "failureThreshold": 1,
    });
    let settings = ObserverSettings {
        metrics_providers: vec![serde_json::from_value(provider).unwrap()],
        ..settings(1, 1, 1)
    };
    let mut at = Instant::now();
    let mut it = Observation::new(Arc::new(settings));
    for event in events.chars() {
        at += STEP;
        let found = match event {
            'N' => Found::Nodes(Ok(nodes(&["Ready"]))),
            'n' => Found::Nodes(Ok(nodes(&[]))),
            'p' => Found::Nodes(Ok(nodes(&["Ready", "DiskPressure"]))),
            'e' => Found::Nodes(Err("403".to_owned())),
            'R' => Found::Ready(Ok(Readiness::Ready)),
            'f' => Found::Ready(Ok(Readiness::NotReady(vec!["etcd".to_owned()]))),
            'u' => Found::Ready(Err("404".to_owned())),
            'M' => Found::Provider(0, Some(Outcome::Success)),
            'm' => Found::Provider(0, Some(Outcome::Failure("503".to_owned()))),
            probe => {
                match probe {
                    'x' => it.unreached(at, "refused"),
                    'r' => it.reached(),
                    'o' => it.judged(Some((2, 3))),
                    'h' => it.judged(None),
                    _ => panic!("{probe}"),
                }
                continue;
            }
        };
        it.take(found, at, Timestamp::UNIX_EPOCH, 0.0);
    }
    it.view()
}

#[rstest]
#[case::new(Pending, &["", "r", "rR", "rN", "rm", "rRe", "xr", "xrR", "xrN"])]
#[case::not_reached(Degraded, &["x", "rx", "rRNx", "rRnx", "orx", "xxrRNx"])]
#[case::without_retries(Offline, &["xx", "xxx", "rRNxx", "xxrx", "xxrRx", "orxx"])]
#[case::back(Connecting, &["xxr", "xxrr", "xxrR", "xxrN", "xxrRe", "rRNxxr", "rRNxxrR", "orxxr"])]
#[case::well(Online, &["rRN", "ruN", "rRNM", "rRNmM", "rRNe", "rRnN", "xxrRN"])]
#[case::only_away_for_a_moment(Online, &["rRNxr", "xrRN"])]
#[case::under_pressure(Unhealthy, &["rRp", "rup", "rRpm", "rRnp", "rRpe"])]
#[case::metrics_fail(FailingMetrics, &["rRNm", "rmRN", "ruNm"])]
#[case::not_ready(NotReady, &["rRn", "run", "rfN", "rfpm", "rRNf", "rRpn", "rRne"])]
#[case::silent(NotReady, &["or", "orRN", "orRNm", "rRNor", "rRNorxr", "orxxrr"])]
#[case::no_more(Online, &["orRNhr", "rRNorhr"])]
#[case::no_more_and_marked(NotReady, &["orRnhr"])]
fn a_state_by_what_was_seen(#[case] state: ClusterState, #[case] all: &[&str]) {
    for events in all {
        let view = after(events);
        assert_eq!(view.state, state, "{events}");
        assert!(!view.message.is_empty(), "{events}");
    }
}

#[rstest]
#[case(
    "",
    "its nodes, or whether its API server is ready, have not been seen yet"
)]
#[case("x", "it is not reached: refused; 0 of 1 retries have failed")]
#[case("xx", "it is not reached: refused; no retries are left")]
#[case(
    "rue",
    "its nodes, or whether its API server is ready, have not been seen yet; its nodes could not be read: 403; \
     whether its API server is ready is not known: 404"
)]
#[case("rRN", "it answers, and all its nodes are well")]
#[case(
    "rfnm",
    "its API server says that it is not ready: etcd failed; 1 of 3 nodes is not ready (b); its provider of metrics \
     metrics: 503"
)]
#[case("rRp", "1 of 3 nodes is under disk pressure (b)")]
#[case(
    "or",
    "its kubelets are silent: 2 of 3 node leases that count are expired"
)]
fn the_message_says_why(#[case] events: &str, #[case] expected: &str) {
    assert_eq!(after(events).message, expected);
}

/// Probes that fail at these seconds: D is DEGRADED, O is OFFLINE.
#[rstest]
#[case::infinite(settings(-1, 1, 1), &[0, 10, 20, 3600], "DDDD")]
#[case::at_once(settings(0, 1, 1), &[0, 10], "OO")]
#[case::three_retries(settings(3, 1, 1), &[0, 10, 20, 30, 40], "DDDOO")]
#[case::none_out_of_turn(settings(2, 30, 1), &[0, 10, 20, 30, 40, 50, 60], "DDDDDDO")]
#[case::the_delay_itself_is_enough(settings(1, 10, 1), &[0, 10], "DO")]
#[case::from_the_retry_before(settings(2, 15, 1), &[0, 10, 20, 30, 35], "DDDDO")]
#[case::longer_and_longer(settings(3, 10, 2), &[0, 10, 20, 30, 60, 70], "DDDDDO")]
#[case::an_hour_at_most(settings(3, 3600, 10), &[0, 3600, 7200, 10_800], "DDDO")]
fn retries(#[case] settings: ObserverSettings, #[case] seconds: &[u64], #[case] expected: &str) {
    let begin = Instant::now();
    let mut observation = Observation::new(Arc::new(settings));
    let states = seconds.iter().map(|second| {
        observation.unreached(begin + Duration::from_secs(*second), "refused");
        match observation.state {
            Degraded => 'D',
            Offline => 'O',
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(states.collect::<String>(), expected);
}

#[test]
fn nodes_are_seldom_read_while_all_is_well_and_often_while_not() {
    let begin = Instant::now();
    let at = |second| begin + Duration::from_secs(second);
    let settings = Arc::new(settings(-1, 1, 1));
    let mut it = Observation::new(settings.clone());
    assert!(it.nodes_due(begin));
    let unread = || Err("403".to_owned());
    for (found, second, due) in [
        (Ok(nodes(&["Ready"])), 0, 300),
        (Ok(nodes(&[])), 300, 360),
        (unread(), 360, 420),
        (Ok(nodes(&["Ready"])), 420, 720),
    ] {
        it.take(Found::Nodes(found), at(second), Timestamp::UNIX_EPOCH, 0.0);
        assert!(!it.nodes_due(at(due - 1)) && it.nodes_due(at(due)), "{due}");
    }
    // Other settings, and the end of a silence, let none wait for as long.
    it.restart(settings, at(420), 0.5);
    assert!(!it.nodes_due(at(449)) && it.nodes_due(at(450)));
    it.judged(Some((2, 3)));
    assert!(!it.nodes_due(at(430)));
    it.judged(None);
    assert!(it.nodes_due(at(430)));
}

#[test]
fn an_api_server_is_asked_once_a_minute_and_with_each_probe_while_it_is_not_ready() {
    let begin = Instant::now();
    let at = |second| begin + Duration::from_secs(second);
    let mut it = Observation::new(Arc::default());
    assert_eq!(it.begin(begin), [Look::Ready]);
    it.restart(Arc::default(), begin, 0.5);
    assert_eq!(it.begin(begin), [Look::Ready], "it was broken off");
    assert_eq!(it.begin(at(60)), [], "it has not answered yet");
    let ready = Found::Ready(Ok(Readiness::Ready));
    it.take(ready, at(50), Timestamp::UNIX_EPOCH, 0.0);
    assert_eq!(it.begin(at(59)), []);
    assert_eq!(it.begin(at(60)), [Look::Ready]);
    let refused = Ok(Readiness::NotReady(vec!["etcd".to_owned()]));
    it.take(Found::Ready(refused), at(61), Timestamp::UNIX_EPOCH, 0.0);
    assert_eq!(it.begin(at(70)), [Look::Ready]);
}
