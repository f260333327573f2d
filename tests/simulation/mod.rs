//! A simulated shoot: kubelets, etcd, API servers with caches, and an operator that watches them.
//!
//! Time is a number of seconds. The world is laid out first, write by write; then the operator's
//! [`Watch`] is driven over it as its loop would drive it, read by read.

use std::time::Duration;

use dependency_watchdog::{
    prober::{
        candidates::{PoolConditions, Roster},
        heartbeat::LeaseSnapshot,
        moment::Moment,
        schedule::Pace,
        verdict::{Thresholds, Verdict},
        watch::{Rules, Taken, Watch},
    },
    shoot::{Lease, Node, RenewTime},
};
use fastrand::Rng;

/// When the operator starts: every kubelet has renewed by then.
const OPERATOR_STARTS: f64 = 20.0;
const HORIZON: f64 = 400.0;
/// The server's clock when the world begins, in Unix seconds.
const EPOCH: f64 = 1_700_000_000.0;
/// What somebody, here kube-controller-manager, writes anyway, in seconds.
const WRITER_PERIOD: f64 = 2.0;
/// A restored etcd has lost the writes of that many seconds.
const ROLLBACK: f64 = 5.0;
const PROBE_TIMEOUT: f64 = 5.0;
/// The server's stamp follows the node's reading of its clock within this, in seconds.
const MOST_LATENCY: f64 = 0.1;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: usize,
    pub lease_seconds: i32,
    pub grace: f64,
    pub fraction: f64,
    pub interval: f64,
    /// Each node's clock against the server's, in seconds.
    pub skews: Vec<f64>,
    /// Whether the server stamps managedFields.
    pub stamps: bool,
    /// How far behind each API server's cache is, in seconds.
    pub cache_ages: Vec<f64>,
    pub faults: Vec<Fault>,
}

#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    pub from: f64,
    pub until: f64,
}

#[derive(Clone, Debug)]
pub enum FaultKind {
    /// A kubelet loses its way to the API server.
    Cut(u8),
    /// A node's clock steps by so many seconds, for good.
    NodeStep(u8, f64),
    /// A node's lease is created anew.
    NewUid(u8),
    /// The API server is away, for kubelets and operator alike.
    ServerDown,
    /// Reads succeed, writes do not.
    WritesRefused,
    /// The operator's reads fail.
    ReadsLost,
    /// The operator starts anew.
    Restart,
    /// etcd is restored from a backup.
    Rollback,
    /// The server's clock steps by so many seconds, for good.
    ServerStep(f64),
}

/// What the operator concluded, beside the truth.
#[derive(Debug, Default)]
pub struct Findings {
    outages: Vec<Outage>,
    estimates: Vec<Estimate>,
    /// By when an outage that lasts must have been found.
    pub deadline: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Outage {
    pub at: f64,
    pub expiry: f64,
    pub period: f64,
    /// For how long the fraction has really been silent.
    pub truly_silent_for: f64,
    /// When the server, its writes or the operator was last away, as far as it can be told.
    pub last_disturbance: f64,
}

#[derive(Clone, Debug)]
pub struct Estimate {
    pub earliest: Option<f64>,
    pub latest: f64,
    pub truth: f64,
}

impl Findings {
    pub fn outages(&self) -> impl Iterator<Item = &Outage> {
        self.outages.iter()
    }

    pub fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        self.estimates.iter()
    }
}

/// The state of one lease from a moment on.
#[derive(Clone, Debug)]
struct Written {
    /// When the server took the renewal.
    renewed: f64,
    resource_version: u64,
    uid: usize,
    renew_micros: i64,
    stamp: i64,
}

/// The whole state from a moment on.
#[derive(Clone, Debug)]
struct State {
    from: f64,
    revision: u64,
    leases: Vec<Option<Written>>,
}

struct World<'a> {
    scenario: &'a Scenario,
    history: Vec<State>,
}

impl Scenario {
    fn period(&self) -> f64 {
        f64::from(self.lease_seconds) / 4.0
    }

    fn active(&self, at: f64, kind: impl Fn(&FaultKind) -> bool) -> bool {
        self.faults
            .iter()
            .any(|fault| kind(&fault.kind) && fault.from <= at && at < fault.until)
    }

    fn restarts(&self) -> Vec<f64> {
        let restarts = self
            .faults
            .iter()
            .filter(|f| matches!(f.kind, FaultKind::Restart));
        let mut restarts: Vec<f64> = restarts.map(|fault| fault.from).collect();
        restarts.sort_by(f64::total_cmp);
        restarts
    }

    fn readable(&self, at: f64) -> bool {
        !self.active(at, |kind| {
            matches!(kind, FaultKind::ServerDown | FaultKind::ReadsLost)
        })
    }

    fn writable(&self, at: f64) -> bool {
        !self.active(at, |kind| {
            matches!(kind, FaultKind::ServerDown | FaultKind::WritesRefused)
        })
    }

    fn server_clock(&self, at: f64) -> f64 {
        let steps = self.faults.iter().filter(|fault| fault.from <= at);
        EPOCH
            + at
            + steps
                .filter_map(|fault| match fault.kind {
                    FaultKind::ServerStep(by) => Some(by),
                    _ => None,
                })
                .sum::<f64>()
    }

    fn node_clock(&self, node: usize, at: f64) -> f64 {
        let steps = self.faults.iter().filter(|fault| fault.from <= at);
        EPOCH
            + at
            + self.skews[node]
            + steps
                .filter_map(|fault| match fault.kind {
                    FaultKind::NodeStep(which, by) if usize::from(which) == node => Some(by),
                    _ => None,
                })
                .sum::<f64>()
    }

    fn uid(&self, node: usize, at: f64) -> usize {
        let renewals = self.faults.iter().filter(|fault| {
            matches!(fault.kind, FaultKind::NewUid(which) if usize::from(which) == node)
                && fault.from <= at
        });
        renewals.count()
    }

    /// When reads or writes were last impossible before `at`, as far as anybody can tell: a pause
    /// that fell between two reads, or was shorter than a server is idle anyway, leaves no trace.
    fn last_disturbance(&self, at: f64, period: f64, failed_reads: &[f64]) -> f64 {
        let write_window = (1.5 * period).max(15.0);
        let told = write_window + period + WRITER_PERIOD;
        let quiet = self
            .faults
            .iter()
            .filter(|fault| fault.from <= at)
            .filter_map(|fault| {
                let until = fault.until.min(at);
                let heard = failed_reads.iter().filter(|failed| **failed < until);
                let watched = heard.copied().fold(fault.from, f64::max);
                match fault.kind {
                    FaultKind::Restart | FaultKind::Rollback => Some(fault.from),
                    FaultKind::WritesRefused if until - watched > told => Some(until),
                    FaultKind::ServerDown if until - fault.from > period => Some(until),
                    _ => None,
                }
            });
        quiet
            .chain(failed_reads.iter().copied())
            .fold(OPERATOR_STARTS, f64::max)
    }
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, rng: &mut Rng) -> Self {
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
            matches!(fault.kind, FaultKind::Rollback).then_some((fault.from, None))
        }));
        let mut tick = 0.0;
        while tick < HORIZON {
            events.push((tick, Some(Event::SomebodyWrites)));
            tick += WRITER_PERIOD;
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, event) in events {
            world.play(at, event);
        }
        world
    }

    /// Every kubelet's attempts to renew, whether or not they arrive.
    fn attempts(&self, rng: &mut Rng) -> Vec<(f64, Option<Event>)> {
        let mut attempts = Vec::new();
        for node in 0..self.scenario.nodes {
            let mut at = rng.f64() * self.scenario.period();
            while at < HORIZON {
                let latency = rng.f64() * MOST_LATENCY;
                attempts.push((at + latency, Some(Event::Renewal { node, sent: at })));
                at += self.scenario.period() * (1.0 + 0.04 * rng.f64());
            }
        }
        attempts
    }

    fn play(&mut self, at: f64, event: Option<Event>) {
        let scenario = self.scenario;
        let mut state = self.at(at).clone();
        state.from = at;
        match event {
            None => {
                let backup = self.at(at - ROLLBACK);
                state.revision = backup.revision;
                state.leases = backup.leases.clone();
            }
            Some(_) if !scenario.writable(at) => return,
            Some(Event::SomebodyWrites) => state.revision += 1,
            Some(Event::Renewal { node, sent }) => {
                let cut = |kind: &FaultKind| matches!(kind, FaultKind::Cut(which) if usize::from(*which) == node);
                if scenario.active(at, cut) {
                    return;
                }
                state.revision += 1;
                state.leases[node] = Some(Written {
                    renewed: at,
                    resource_version: state.revision,
                    uid: scenario.uid(node, sent),
                    renew_micros: (scenario.node_clock(node, sent) * 1e6) as i64,
                    stamp: scenario.server_clock(at).floor() as i64,
                });
            }
        }
        self.history.push(state);
    }

    fn at(&self, at: f64) -> &State {
        let index = self.history.partition_point(|state| state.from <= at);
        &self.history[index.saturating_sub(1)]
    }

    fn leases(&self, state: &State) -> Vec<Lease> {
        let written = state.leases.iter().enumerate();
        written
            .filter_map(|(node, written)| {
                let written = written.as_ref()?;
                Some(Lease {
                    name: name(node),
                    uid: format!("{node}-{}", written.uid).into(),
                    resource_version: written.resource_version,
                    renew_time: Some(RenewTime::from_micros(written.renew_micros)),
                    stamp: self.scenario.stamps.then_some(written.stamp),
                    duration_seconds: Some(self.scenario.lease_seconds),
                })
            })
            .collect()
    }

    /// For how long `count` leases have really been silent.
    fn silent_for(&self, count: usize, at: f64) -> f64 {
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
    Renewal { node: usize, sent: f64 },
    SomebodyWrites,
}

/// Lets the operator watch the scenario.
pub fn run(scenario: &Scenario) -> Findings {
    let mut rng = Rng::with_seed(scenario.seed);
    let world = World::new(scenario, &mut rng);
    let mut operator = Operator::new(scenario);
    let mut findings = Findings::default();
    let mut failed_reads = Vec::new();
    let mut resumed = None;
    let mut now = OPERATOR_STARTS;
    let mut restarts = scenario.restarts().into_iter().peekable();
    loop {
        let due = seconds(operator.watch.next(moment(now), rng.f64()).at).max(now);
        if let Some(restart) = restarts.next_if(|restart| *restart <= due) {
            operator = Operator::new(scenario);
            now = now.max(restart);
            continue;
        }
        if due > HORIZON {
            break;
        }
        now = due;
        let request = operator.watch.request();
        let answered = now + rng.f64() * 0.05;
        if !scenario.readable(answered) {
            let hangs = rng.bool();
            let limit = request.limit.as_secs_f64();
            let finished = if hangs { now + limit } else { answered };
            operator.watch.failed(moment(now), moment(finished));
            failed_reads.push(finished);
            resumed = None;
            now = finished;
            continue;
        }
        resumed.get_or_insert(now);
        let age = scenario.cache_ages[rng.usize(0..scenario.cache_ages.len())];
        let mut taken = operator.read(&world, now, answered, (!request.consistent).then_some(age));
        if taken == Taken::ReadAgain {
            taken = operator.read(&world, now, answered, None);
        }
        operator.believes(&world, answered, &mut findings);
        if taken == Taken::NeedsFacts {
            operator.watch.learn(roster(scenario), moment(answered));
        }
        let conclusion = operator.watch.conclude().expect("leases have been read");
        let seen = &conclusion.assessment;
        if conclusion.verdict == Verdict::Outage {
            let period = seen.period.as_secs_f64();
            findings.outages.push(Outage {
                at: now,
                expiry: operator.expiry(seen.period),
                period,
                truly_silent_for: world.silent_for(seen.needed, answered),
                last_disturbance: scenario.last_disturbance(now, period, &failed_reads),
            });
        }
        now = answered;
    }
    let period = Duration::from_secs_f64(scenario.period().max(1.0));
    if operator.thresholds().expiry(period).is_some() {
        let silence = world.silent_for(operator.needed(), HORIZON);
        let expired = HORIZON - silence + operator.expiry(period);
        // A second may pass between a write and the read that notices it.
        let proven = |resumed: f64| resumed + WRITER_PERIOD + 1.0 + 1.5 * period.as_secs_f64();
        let resumed = resumed.filter(|_| !failed_reads.is_empty());
        findings.deadline = Some(expired.max(resumed.map_or(0.0, proven)));
    }
    findings
}

struct Operator<'a> {
    scenario: &'a Scenario,
    watch: Watch,
}

impl<'a> Operator<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let rules = Rules {
            thresholds: Thresholds {
                grace: Duration::from_secs_f64(scenario.grace),
                fraction: scenario.fraction,
            },
            pace: Pace {
                interval: Duration::from_secs_f64(scenario.interval),
                jitter_factor: 0.2,
                timeout: Duration::from_secs_f64(PROBE_TIMEOUT),
            },
            failure_threshold: 1,
            success_threshold: 1,
        };
        Self {
            scenario,
            watch: Watch::new(rules),
        }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds {
            grace: Duration::from_secs_f64(self.scenario.grace),
            fraction: self.scenario.fraction,
        }
    }

    fn expiry(&self, period: Duration) -> f64 {
        self.thresholds()
            .expiry(period)
            .map_or(f64::INFINITY, |expiry| expiry.as_secs_f64())
    }

    fn needed(&self) -> usize {
        let all = self.scenario.nodes;
        (1..=all)
            .find(|some| self.thresholds().reached(*some, all))
            .unwrap_or(all)
    }

    fn read(
        &mut self,
        world: &World<'_>,
        sent: f64,
        answered: f64,
        cache_age: Option<f64>,
    ) -> Taken {
        let state = world.at(answered - cache_age.unwrap_or(0.0));
        self.watch.observe(&LeaseSnapshot {
            started: moment(sent),
            finished: moment(answered),
            date: Some(self.scenario.server_clock(answered).floor() as i64),
            consistent: cache_age.is_none(),
            resource_version: state.revision,
            leases: &world.leases(state),
        })
    }

    /// Notes what is believed of every lease whose last value has been seen.
    fn believes(&self, world: &World<'_>, at: f64, findings: &mut Findings) {
        for (node, written) in world.at(at).leases.iter().enumerate() {
            let beat = self.watch.leases().get(&name(node));
            if let (Some(beat), Some(written)) = (beat, written)
                && beat.resource_version() == written.resource_version
                && let Some(window) = beat.renewed()
            {
                findings.estimates.push(Estimate {
                    earliest: window.earliest.map(seconds),
                    latest: seconds(window.latest),
                    truth: written.renewed,
                });
            }
        }
    }
}

fn roster(scenario: &Scenario) -> Roster {
    let nodes: Vec<Node> = (0..scenario.nodes)
        .map(|node| Node {
            name: name(node),
            ..Node::default()
        })
        .collect();
    Roster::new(&nodes, None, &PoolConditions::new())
}

fn name(node: usize) -> Box<str> {
    format!("node-{node}").into()
}

fn moment(seconds: f64) -> Moment {
    Moment::from_nanos((seconds * 1e9) as i128)
}

fn seconds(moment: Moment) -> f64 {
    moment.nanos() as f64 / 1e9
}
