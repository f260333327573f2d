//! What happens in a simulated shoot, write by write.

use dependency_watchdog::shoot::Lease;
use fastrand::Rng;

use super::{FaultKind, HORIZON, Joins, MOST_LATENCY, MOST_STRETCH, Scenario, WRITER_PERIOD, name};

#[derive(Clone, Debug)]
pub(super) struct Written {
    /// When the server took the renewal.
    pub(super) renewed: f64,
    pub(super) resource_version: u64,
    pub(super) uid: usize,
    pub(super) renew_micros: i64,
    pub(super) stamp: i64,
}

/// The whole state from a moment on.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) from: f64,
    pub(super) revision: u64,
    pub(super) leases: Vec<Option<Written>>,
}

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    history: Vec<State>,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, rng: &mut Rng) -> Self {
        let mut world = Self {
            scenario,
            history: vec![State {
                from: 0.0,
                revision: 1_000,
                leases: vec![None; scenario.nodes],
            }],
        };
        let mut events = world.attempts(rng);
        events.extend(scenario.faults.iter().filter_map(|fault| {
            let event = match fault.kind {
                FaultKind::Rollback => Event::Rollback {
                    to: fault.from - (fault.until - fault.from),
                },
                FaultKind::Gone(node) => Event::Deletion {
                    node: usize::from(node),
                },
                _ => return None,
            };
            Some((fault.from, event))
        }));
        let mut tick = 0.0;
        while tick < HORIZON {
            events.push((tick, Event::SomebodyWrites));
            tick += WRITER_PERIOD;
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, event) in events {
            world.play(at, event);
        }
        world
    }

    /// Every kubelet's attempts to renew, whether or not they arrive.
    fn attempts(&self, rng: &mut Rng) -> Vec<(f64, Event)> {
        let mut attempts = Vec::new();
        for node in 0..self.scenario.nodes {
            let mut at = rng.f64() * self.scenario.period();
            while at < HORIZON {
                let latency = rng.f64() * MOST_LATENCY;
                let renewal = Event::Renewal {
                    node,
                    sent: at,
                    server: rng.usize(0..self.scenario.cache_ages.len()),
                };
                attempts.push((at + latency, renewal));
                at += self.scenario.period() * (1.0 + MOST_STRETCH * rng.f64());
            }
        }
        attempts
    }

    fn play(&mut self, at: f64, event: Event) {
        let scenario = self.scenario;
        let mut state = self.at(at).clone();
        state.from = at;
        match event {
            Event::Rollback { to } => {
                let backup = self.at(to);
                state.revision = backup.revision;
                state.leases = backup.leases.clone();
            }
            _ if !scenario.writable(at) => return,
            Event::SomebodyWrites => state.revision += 1,
            Event::Deletion { node } => {
                state.revision += 1;
                if let Some(lease) = state.leases.get_mut(node) {
                    *lease = None;
                }
            }
            Event::Renewal { node, sent, server } => {
                let cut = |kind: &FaultKind| matches!(kind, FaultKind::Cut(which) | FaultKind::Gone(which) if usize::from(*which) == node);
                if scenario.active(at, cut) {
                    return;
                }
                state.revision += 1;
                state.leases[node] = Some(Written {
                    renewed: at,
                    resource_version: state.revision,
                    uid: scenario.uid(node, sent),
                    renew_micros: (scenario.node_clock(node, sent) * 1e6) as i64,
                    stamp: scenario.server_clock(server, at).floor() as i64,
                });
            }
        }
        self.history.push(state);
    }

    pub(super) fn at(&self, at: f64) -> &State {
        let index = self.history.partition_point(|state| state.from <= at);
        &self.history[index.saturating_sub(1)]
    }

    pub(super) fn leases(&self, state: &State, at: f64) -> Vec<Lease> {
        let joined = self.scenario.joins.map(|joins| {
            let (name, uid) = match joins {
                Joins::Name => (format!("joined-{at:.0}"), "joined".to_owned()),
                Joins::Uid => ("joined".to_owned(), format!("joined-{at:.0}")),
            };
            let stamp = self.scenario.server_clock(0, at.floor()).floor() as i64;
            Lease {
                name: (&*name).into(),
                uid: (*uid).into(),
                resource_version: state.revision,
                renew_time: jiff::Timestamp::from_second(stamp).ok(),
                stamp: self.scenario.stamps.then_some(stamp),
                duration_seconds: Some(self.scenario.lease_seconds),
            }
        });
        let written = state.leases.iter().enumerate();
        written
            .filter_map(|(node, written)| {
                let written = written.as_ref()?;
                Some(Lease {
                    name: (&*name(node)).into(),
                    uid: (*format!("{node}-{}", written.uid)).into(),
                    resource_version: written.resource_version,
                    renew_time: jiff::Timestamp::from_microsecond(written.renew_micros).ok(),
                    stamp: self.scenario.stamps.then_some(written.stamp),
                    duration_seconds: Some(self.scenario.lease_seconds),
                })
            })
            .chain(joined)
            .collect()
    }

    /// For how long `count` leases have really been silent.
    pub(super) fn silent_for(&self, count: usize, at: f64) -> f64 {
        let mut renewed: Vec<f64> = self
            .at(at)
            .leases
            .iter()
            .flatten()
            .map(|w| w.renewed)
            .collect();
        renewed.sort_by(f64::total_cmp);
        at - renewed[count - 1]
    }
}

enum Event {
    Renewal {
        node: usize,
        sent: f64,
        server: usize,
    },
    Deletion {
        node: usize,
    },
    SomebodyWrites,
    Rollback {
        /// The time of the backup.
        to: f64,
    },
}
