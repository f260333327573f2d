use rstest::rstest;
use serde_json::json;

use super::*;
use crate::api::{CheckResult, Duration as Span, LeaseCounts};

/// What can be seen, as the head of the table calls it.
const SIGHTS: [&str; 8] = [
    "not reached, retries left",
    "not reached, none left",
    "reached, not all known",
    "a node or the API server not ready",
    "a node under pressure",
    "a provider of metrics fails",
    "all is well",
    "nodes unreadable, known before",
];

/// From each state, what follows from each sight, as `docs/observer.md` has it.
fn table() -> Vec<(ClusterState, Vec<ClusterState>)> {
    let document = include_str!("../../../docs/observer.md");
    let head = format!("| from | {} |", SIGHTS.join(" | "));
    let rows = document.lines().skip_while(|line| *line != head).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let state = |name| {
        let mut states = STATES.into_iter();
        states.find(|state| state.name() == name).unwrap()
    };
    rows.map(|row| {
        let mut cells = row.trim_matches(['|', ' ']).split(" | ");
        let from = state(cells.next().unwrap());
        let to = cells.map(|cell| if cell == "·" { from } else { state(cell) });
        (from, to.collect())
    })
    .collect()
}

const READY: Result<Readiness, String> = Ok(Readiness::Ready);

fn settings(limit: i32, delay: u16, factor: i32) -> Arc<ObserverSettings> {
    Arc::new(ObserverSettings {
        backoff: factor,
        backoff_delay: Span::from_secs(delay),
        backoff_limit: limit,
        ..ObserverSettings::default()
    })
}

/// Observed in this state, with a provider of metrics that fails or passes.
fn observed(from: ClusterState, limit: i32, fails: bool, known: Known) -> Observation {
    let settings: ObserverSettings = serde_json::from_value(json!({
        "backoffLimit": limit,
        "metricsProviders": [{"name": "metrics", "apiService": "v1beta1.metrics.k8s.io"}],
    }))
    .unwrap();
    let result = match fails {
        true => CheckResult::Failing,
        false => CheckResult::Passing,
    };
    let check =
        json!({"name": "metrics", "type": "ApiService", "result": result, "message": "503"});
    let status = ClusterHealthStatus {
        state: Some(from),
        state_message: Some("before".to_owned()),
        checks: vec![serde_json::from_value(check).unwrap()],
        ..ClusterHealthStatus::default()
    };
    Observation {
        known,
        ..Observation::new(Arc::new(settings), Some(&status), Instant::now(), 0.5)
    }
}

fn well() -> NodeCounts {
    NodeCounts {
        all: 3,
        well: 3,
        ..NodeCounts::default()
    }
}

fn silent() -> NodeCounts {
    NodeCounts {
        well: 2,
        not_ready: 1,
        ..well()
    }
}

fn pressed() -> NodeCounts {
    NodeCounts {
        well: 2,
        disk_pressure: 1,
        ..well()
    }
}

fn no() -> Result<Readiness, String> {
    Ok(Readiness::NotReady(vec!["etcd".to_owned()]))
}

fn unknown() -> Result<Readiness, String> {
    Err("404".to_owned())
}

fn known(api: Result<Readiness, String>, nodes: NodeCounts) -> Known {
    Known {
        api: Some(api),
        nodes: Some(nodes),
        ..Known::default()
    }
}

fn outage(of: Known) -> Known {
    Known {
        silent: Some((2, 3)),
        ..of
    }
}

fn unread(of: Known) -> Known {
    Known {
        unread: Some("403".to_owned()),
        ..of
    }
}

/// Every state, and everything that can be seen in it.
#[test]
fn every_state_and_every_sight() {
    let now = Instant::now();
    // Whether the provider of metrics fails, and what else is known.
    let reached = [
        vec![
            (false, Known::default()),
            (
                true,
                Known {
                    nodes: None,
                    ..known(no(), well())
                },
            ),
            (
                true,
                Known {
                    api: None,
                    ..known(no(), silent())
                },
            ),
            (
                false,
                unread(Known {
                    nodes: None,
                    ..known(READY, well())
                }),
            ),
        ],
        vec![
            (false, known(no(), well())),
            (true, known(no(), pressed())),
            (false, known(READY, silent())),
            (true, known(unknown(), silent())),
            (true, outage(known(READY, pressed()))),
            (false, outage(Known::default())),
        ],
        vec![
            (false, known(READY, pressed())),
            (true, known(unknown(), pressed())),
        ],
        vec![(true, known(unknown(), well()))],
        vec![
            (false, known(READY, well())),
            (false, known(unknown(), well())),
        ],
        vec![(false, unread(known(READY, well())))],
    ];
    let table = table();
    assert!(table.iter().map(|(from, _)| *from).eq(STATES));
    for (from, follow) in table {
        assert_eq!(follow.len(), SIGHTS.len());
        for (limit, to) in [(3, follow[0]), (0, follow[1])] {
            let mut it = observed(from, limit, false, known(READY, well()));
            it.unreached(now, "refused");
            assert_eq!(it.state, to, "{from:?}, not reached, {limit}");
        }
        for (sights, to) in reached.iter().zip(&follow[2..]) {
            for (fails, known) in sights {
                let mut it = observed(from, 3, *fails, known.clone());
                it.reached(now);
                assert_eq!(it.state, *to, "{from:?}, {fails}: {known:?}");
                assert!(!it.message.is_empty(), "{from:?}, {fails}: {known:?}");
            }
        }
    }
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
fn retries(
    #[case] settings: Arc<ObserverSettings>,
    #[case] seconds: &[u64],
    #[case] expected: &str,
) {
    let begin = Instant::now();
    let mut observation = Observation::new(settings, None, begin, 0.0);
    let states = seconds.iter().map(|second| {
        observation.unreached(begin + Duration::from_secs(*second), "refused");
        match observation.state {
            ClusterState::Degraded => 'D',
            ClusterState::Offline => 'O',
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(states.collect::<String>(), expected);
}

#[test]
fn the_message_says_why() {
    let now = Instant::now();
    let mut it = observed(ClusterState::Pending, 3, true, Known::default());
    it.unreached(now, "the connection is refused");
    assert_eq!(
        it.message,
        "it is not reached: the connection is refused; 0 of 3 retries have failed"
    );
    let unseen =
        "it answers; its nodes, or whether its API server is ready, have not been seen yet";
    let left =
        "; its nodes could not be read: 403; whether its API server is ready is not known: 404";
    let fails = "its provider of metrics metrics: 503";
    let silent_leases = "its kubelets are silent: 2 of 3 node leases that count are expired";
    for (known, expected) in [
        (
            unread(Known::default()),
            format!("{unseen}; its nodes could not be read: 403"),
        ),
        (
            known(no(), silent()),
            format!(
                "its API server says that it is not ready: etcd failed; 1 of 3 nodes is not ready; {fails}"
            ),
        ),
        (
            known(READY, pressed()),
            format!("1 of 3 nodes is under disk pressure; {fails}"),
        ),
        // An outage waits for nothing else to be known.
        (
            outage(Known::default()),
            format!("{silent_leases}; {fails}"),
        ),
        (unread(known(unknown(), well())), format!("{fails}{left}")),
        // What is not known does not pile up.
        (
            unread(Known {
                api: Some(unknown()),
                ..Known::default()
            }),
            format!("{fails}{left}"),
        ),
    ] {
        it.known = known;
        it.reached(now);
        assert_eq!(it.message, expected);
    }
}

/// The seconds of the observation at which Nodes, and whether it is ready, are looked at next.
fn next_of(observation: &Observation, begin: Instant) -> (u64, u64) {
    let since = |due: Instant| (due - begin).as_secs();
    (since(observation.nodes_due), since(observation.api_due))
}

#[test]
fn nodes_are_seldom_read_while_all_is_well_and_often_while_not() {
    let begin = Instant::now();
    let at = |second| begin + Duration::from_secs(second);
    let mut it = Observation::new(settings(-1, 1, 1), None, begin, 0.5);
    it.reached(begin);
    assert_eq!(it.begin(begin).len(), 1);
    assert_eq!(it.begin(begin).len(), 0, "it is under way");
    let mut take = |found, second| {
        let news = it.take(found, at(second), Timestamp::UNIX_EPOCH, 0.0);
        (news, next_of(&it, begin))
    };
    let nodes = |nodes| Found::Nodes(Ok(nodes));
    assert_eq!(take(nodes(well()), 0), (true, (300, 60)));
    assert_eq!(take(Found::Ready(READY), 5), (true, (300, 65)));
    assert_eq!(take(nodes(pressed()), 300), (true, (360, 65)));
    assert!(!take(nodes(pressed()), 360).0, "nothing is new");
    let unread = || Found::Nodes(Err("403".to_owned()));
    assert_eq!(take(unread(), 420), (true, (480, 65)));
    assert!(!take(unread(), 480).0);
    assert_eq!(take(Found::Ready(no()), 500).1, (540, 510));
}

/// The silence may have ended while nobody watched, or its proof may not have come about again.
#[rstest]
#[case::an_outage(ClusterState::NotReady, "Outage", Protection::Active, true)]
#[case::perhaps_one(ClusterState::NotReady, "Suspect", Protection::None, true)]
#[case::protected(ClusterState::Online, "Healthy", Protection::Restoring, true)]
#[case::well(ClusterState::Online, "Healthy", Protection::None, false)]
fn what_is_left_of_a_silence_is_looked_at_when_it_is_over(
    #[case] state: ClusterState,
    #[case] reason: &str,
    #[case] protection: Protection,
    #[case] ends: bool,
) {
    let begin = Instant::now();
    let status = ClusterHealthStatus {
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
    let mut it = Observation::new(settings(-1, 1, 1), Some(&status), begin, 0.5);
    it.reached(begin);
    assert_eq!((it.state, it.nodes_due), (state, begin + OFTEN / 2));
    // Other settings forget no silence.
    it.restart(settings(3, 1, 1), begin, 0.5);
    let later = begin + Duration::from_secs(10);
    it.judged(later, None);
    it.reached(later);
    let due = if ends { later } else { begin + OFTEN / 2 };
    assert_eq!(it.nodes_due, due);
    let left = state == ClusterState::NotReady;
    assert_eq!(it.state, if left { ClusterState::Pending } else { state });
    // That is so once.
    it.judged(later + OFTEN, None);
    assert_eq!(it.nodes_due, due);
}
