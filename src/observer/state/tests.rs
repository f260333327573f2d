use proptest::prelude::*;
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

/// From each state, what follows from each sight; `docs/observer.md` has the same table.
const TABLE: [(ClusterState, [ClusterState; 8]); 8] = {
    use ClusterState::{
        Connecting, Degraded, FailingMetrics, NotReady, Offline, Online, Pending, Unhealthy,
    };
    [
        (
            Pending,
            [
                Degraded,
                Offline,
                Pending,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
        (
            Connecting,
            [
                Offline,
                Offline,
                Connecting,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
        (
            Online,
            [
                Degraded,
                Offline,
                Online,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
        (
            Degraded,
            [
                Degraded,
                Offline,
                Pending,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
        (
            Offline,
            [
                Offline, Offline, Connecting, Connecting, Connecting, Connecting, Connecting,
                Connecting,
            ],
        ),
        (
            Unhealthy,
            [
                Degraded,
                Offline,
                Unhealthy,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
        (
            NotReady,
            [
                Degraded,
                Offline,
                NotReady,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
        (
            FailingMetrics,
            [
                Degraded,
                Offline,
                FailingMetrics,
                NotReady,
                Unhealthy,
                FailingMetrics,
                Online,
                Online,
            ],
        ),
    ]
};

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
    for (from, follow) in TABLE {
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

#[test]
fn the_documentation_has_the_table() {
    let head = format!("| from | {} |", SIGHTS.join(" | "));
    let rule = format!("|---|{}", "---|".repeat(SIGHTS.len()));
    let rows = TABLE.iter().map(|(from, follow)| {
        let follow = follow.map(|to| if to == *from { "·" } else { to.name() });
        format!("| {} | {} |", from.name(), follow.join(" | "))
    });
    let table: Vec<String> = [head, rule].into_iter().chain(rows).collect();
    let table = table.join("\n");
    let document = include_str!("../../../docs/observer.md");
    assert!(document.contains(&table), "docs/observer.md lacks\n{table}");
    assert_eq!(TABLE.map(|(from, _)| from), STATES);
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
fn a_restart_counts_retries_anew_and_shows_what_it_was() {
    let begin = Instant::now();
    let second = |second| begin + Duration::from_secs(second);
    let few = settings(2, 1, 1);
    let mut machine = Machine::recalled(&few, ClusterState::Online, "as it was".to_owned());
    machine.restart(&few);
    assert_eq!(machine.message(), "as it was");
    machine.observe(second(0), Sight::Unreached("refused"));
    machine.observe(second(10), Sight::Unreached("refused"));
    machine.restart(&few);
    assert_eq!(machine.state(), ClusterState::Degraded);
    for (at, expected) in [
        (20, ClusterState::Degraded),
        (30, ClusterState::Degraded),
        (40, ClusterState::Offline),
    ] {
        machine.observe(second(at), Sight::Unreached("refused"));
        assert_eq!(machine.state(), expected, "{at}");
    }
}

#[test]
fn what_is_not_known_does_not_pile_up_over_restarts() {
    let (settings, all, now) = (settings(3, 1, 1), well(), Instant::now());
    let unknown = Ready::Unknown("it is not served (404)".into());
    let sight = |nodes| {
        Sight::Reached(Known {
            unread: Some("403"),
            nodes,
            ..known(&unknown, &all, &[])
        })
    };
    let mut machine = Machine::new(&settings);
    machine.observe(now, sight(Some(&all)));
    let told = machine.message().to_owned();
    assert!(
        told.contains(NODES_UNREAD) && told.contains(API_UNKNOWN),
        "{told}"
    );
    for _ in 0..3 {
        let left = machine.message().to_owned();
        machine = Machine::recalled(&settings, machine.state(), left);
        machine.observe(now, sight(None));
        assert_eq!(machine.message(), told);
    }
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

/// What a probe sees, as a generator makes it up.
#[derive(Clone, Debug)]
enum Seen {
    Unreached,
    Reached {
        api: Option<Ready>,
        nodes: Option<NodeCounts>,
        failing: bool,
    },
}

fn seen() -> impl Strategy<Value = Seen> {
    let api = prop::option::of(prop_oneof![
        Just(Ready::Yes),
        Just(Ready::No(vec!["etcd".to_owned()])),
        Just(Ready::Unknown("403".to_owned())),
    ]);
    let nodes = prop::option::of(prop_oneof![
        Just(well()),
        Just(NodeCounts::default()),
        (0_usize..=3).prop_map(silent),
        Just(pressed()),
    ]);
    prop_oneof![
        Just(Seen::Unreached),
        (api, nodes, any::<bool>()).prop_map(|(api, nodes, failing)| Seen::Reached {
            api,
            nodes,
            failing
        }),
    ]
}

proptest! {
    #[test]
    fn a_state_is_what_was_seen(
        limit in -1_i32..4,
        walk in prop::collection::vec((seen(), 1_u64..40), 1..40),
    ) {
        let settings = settings(limit, 10, 1);
        let mut machine = Machine::new(&settings);
        let failing = ["metrics: 503".to_owned()];
        let mut at = Instant::now();
        // Failures in a row that began at least a delay after the one before that counted.
        let mut counted: Option<(i32, Instant)> = None;
        for (seen, pause) in walk {
            at += Duration::from_secs(pause);
            let before = machine.state();
            match &seen {
                Seen::Unreached => {
                    counted = Some(match counted {
                        None => (0, at),
                        Some((failed, last)) if at - last >= Duration::from_secs(10) => (failed + 1, at),
                        Some(same) => same,
                    });
                    machine.observe(at, Sight::Unreached("refused"));
                    let (failed, _) = counted.unwrap();
                    let used_up = limit >= 0 && failed >= limit;
                    let was = matches!(before, ClusterState::Offline | ClusterState::Connecting);
                    let offline = machine.state() == ClusterState::Offline;
                    prop_assert_eq!(offline, used_up || was);
                    prop_assert!(offline || machine.state() == ClusterState::Degraded);
                }
                Seen::Reached { api, nodes, failing: fails } => {
                    counted = None;
                    let failing: &[String] = if *fails { &failing } else { &[] };
                    let known = Known { api: api.as_ref(), nodes: nodes.as_ref(), silent: None, unread: None, failing };
                    machine.observe(at, Sight::Reached(known));
                    let state = machine.state();
                    prop_assert!(!matches!(state, ClusterState::Offline | ClusterState::Degraded));
                    if state != before {
                        match state {
                            ClusterState::Online => {
                                let nodes = nodes.as_ref().unwrap();
                                prop_assert_eq!(nodes.well, nodes.all);
                                prop_assert!(!matches!(api, Some(Ready::No(_)) | None));
                                prop_assert!(!fails);
                            }
                            ClusterState::FailingMetrics => prop_assert!(*fails),
                            ClusterState::Connecting => prop_assert_eq!(before, ClusterState::Offline),
                            ClusterState::Unhealthy => prop_assert_eq!(nodes, &Some(pressed())),
                            _ => {}
                        }
                    }
                    if api.is_some() && nodes.is_some() && before != ClusterState::Offline {
                        prop_assert!(!matches!(state, ClusterState::Pending | ClusterState::Connecting));
                        let trouble = nodes.as_ref().is_some_and(|nodes| nodes.well < nodes.all);
                        prop_assert!(!(trouble && state == ClusterState::Online));
                        prop_assert!(*fails || state != ClusterState::FailingMetrics);
                    }
                }
            }
        }
    }
}

#[test]
fn names_are_those_of_the_status() {
    for state in STATES {
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
}
