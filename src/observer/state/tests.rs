use rstest::rstest;

use super::*;
use crate::api::Duration as Span;

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
        STATES
            .into_iter()
            .find(|state| state.name() == name)
            .unwrap()
    };
    rows.map(|row| {
        let mut cells = row.trim_matches(['|', ' ']).split(" | ");
        let from = state(cells.next().unwrap());
        let to = cells.map(|cell| if cell == "·" { from } else { state(cell) });
        (from, to.collect())
    })
    .collect()
}

fn settings(limit: i32, delay: u16, factor: i32) -> ObserverSettings {
    ObserverSettings {
        backoff: factor,
        backoff_delay: Span::from_secs(delay),
        backoff_limit: limit,
        ..ObserverSettings::default()
    }
}

fn well() -> NodeCounts {
    NodeCounts {
        all: 3,
        well: 3,
        ..NodeCounts::default()
    }
}

fn silent(nodes: usize) -> NodeCounts {
    NodeCounts {
        well: 3 - nodes,
        not_ready: nodes,
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

fn known<'a>(api: &'a Ready, nodes: &'a NodeCounts, failing: &'a [String]) -> Known<'a> {
    Known {
        api: Some(api),
        nodes: Some(nodes),
        silent: None,
        unread: None,
        failing,
    }
}

/// Every state, and everything that can be seen in it.
#[test]
fn every_state_and_every_sight() {
    let now = Instant::now();
    let failing = ["metrics: 503".to_owned()];
    let (no, unknown) = (Ready::No(vec!["etcd".into()]), Ready::Unknown("404".into()));
    let (well, silent, pressed) = (well(), silent(1), pressed());
    let both = NodeCounts {
        not_ready: 1,
        well: 1,
        ..pressed.clone()
    };
    let sights: [Vec<Sight<'_>>; 8] = [
        vec![Sight::Unreached("refused")],
        vec![Sight::Unreached("refused")],
        [
            Known::default(),
            Known {
                nodes: None,
                ..known(&no, &well, &failing)
            },
            Known {
                api: None,
                ..known(&no, &silent, &failing)
            },
            Known {
                unread: Some("403"),
                nodes: None,
                ..known(&Ready::Yes, &well, &[])
            },
        ]
        .map(Sight::Reached)
        .to_vec(),
        [
            known(&no, &well, &[]),
            known(&no, &both, &failing),
            known(&Ready::Yes, &silent, &[]),
            known(&unknown, &both, &failing),
            Known {
                silent: Some((2, 3)),
                ..known(&Ready::Yes, &pressed, &failing)
            },
            Known {
                silent: Some((2, 3)),
                ..Known::default()
            },
        ]
        .map(Sight::Reached)
        .to_vec(),
        [
            known(&Ready::Yes, &pressed, &[]),
            known(&unknown, &pressed, &failing),
        ]
        .map(Sight::Reached)
        .to_vec(),
        vec![Sight::Reached(known(&unknown, &well, &failing))],
        [known(&Ready::Yes, &well, &[]), known(&unknown, &well, &[])]
            .map(Sight::Reached)
            .to_vec(),
        vec![Sight::Reached(Known {
            unread: Some("403"),
            ..known(&Ready::Yes, &well, &[])
        })],
    ];
    let table = table();
    assert!(table.iter().map(|(from, _)| *from).eq(STATES));
    for (from, follow) in table {
        assert_eq!(follow.len(), SIGHTS.len());
        for ((place, sights), to) in sights.iter().enumerate().zip(follow) {
            for sight in sights {
                let limit = if place == 1 { 0 } else { 3 };
                let settings = settings(limit, 1, 1);
                let mut machine = Machine::recalled(&settings, from, "before".to_owned());
                let transition = machine.observe(now, *sight);
                let case = format!("{from:?}, {}: {sight:?}", SIGHTS[place]);
                assert_eq!(machine.state(), to, "{case}");
                let expected = (from != to).then_some(Transition { from, to });
                assert_eq!(transition, expected, "{case}");
                assert!(!machine.message().is_empty(), "{case}");
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
fn retries(#[case] settings: ObserverSettings, #[case] seconds: &[u64], #[case] expected: &str) {
    let mut machine = Machine::recalled(&settings, ClusterState::Online, String::new());
    let begin = Instant::now();
    let states = seconds.iter().map(|second| {
        machine.observe(
            begin + Duration::from_secs(*second),
            Sight::Unreached("refused"),
        );
        match machine.state() {
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
    let settings = settings(3, 1, 1);
    let mut machine = Machine::new(&settings);
    assert_eq!(machine.message(), "it has not been probed yet");
    let failing = ["metrics: it answers 503".to_owned()];
    let nodes = NodeCounts {
        all: 3,
        well: 1,
        not_ready: 1,
        memory_pressure: 1,
        unhealthy: vec![
            crate::api::UnhealthyNode {
                name: "a".into(),
                problems: vec!["NotReady".into()],
            },
            crate::api::UnhealthyNode {
                name: "c".into(),
                problems: vec!["MemoryPressure".into()],
            },
        ],
        ..NodeCounts::default()
    };
    let no = Ready::No(vec!["etcd".into(), "ping".into()]);
    let unknown = Ready::Unknown("it is not served (404)".into());
    let all = well();
    let unread = Known {
        unread: Some("403"),
        ..known(&unknown, &all, &[])
    };
    for (sight, expected) in [
        (
            Sight::Unreached("the connection is refused"),
            "it is not reached: the connection is refused; 0 of 3 retries have failed",
        ),
        (
            Sight::Reached(Known {
                unread: Some("403"),
                ..Known::default()
            }),
            "it answers; its nodes, or whether its API server is ready, have not been seen yet; its \
             nodes could not be read: 403",
        ),
        (
            Sight::Reached(known(&no, &nodes, &failing)),
            "its API server says that it is not ready: etcd, ping failed; 1 of 3 nodes is not ready \
             (a); 1 of 3 nodes is under memory pressure (c); its provider of metrics metrics: it \
             answers 503",
        ),
        (
            Sight::Reached(unread),
            "it answers, and its 3 nodes are well; its nodes could not be read: 403; whether its API \
             server is ready is not known: it is not served (404)",
        ),
        // An outage waits for nothing else to be known.
        (
            Sight::Reached(Known {
                silent: Some((2, 3)),
                ..Known::default()
            }),
            "its kubelets are silent: 2 of 3 node leases that count are expired",
        ),
        (
            Sight::Reached(unread),
            "it answers, and its 3 nodes are well; its nodes could not be read: 403; whether its API \
             server is ready is not known: it is not served (404)",
        ),
        // What is not known does not pile up.
        (
            Sight::Reached(Known {
                nodes: None,
                ..unread
            }),
            "it answers, and its 3 nodes are well; its nodes could not be read: 403; whether its API \
             server is ready is not known: it is not served (404)",
        ),
        (
            Sight::Reached(known(&Ready::Yes, &all, &[])),
            "it answers, and its 3 nodes are well",
        ),
    ] {
        machine.observe(now, sight);
        assert_eq!(machine.message(), expected);
    }
}
