//! A simulated shoot: kubelets, etcd, API servers with caches, and an operator that watches them.
//!
//! Time is a number of seconds. The world is laid out first, write by write; then the operator's
//! [`LeaseJudge`] is driven over it as its loop would drive it, read by read.

mod properties;
mod world;

use std::{collections::BTreeMap, time::Duration};

use dependency_watchdog::{
    prober::{
        lease_judge::LeaseJudge,
        leases::Intake,
        nodes::Facts,
        verdict::{LeaseRules, Verdict},
    },
    shoot::{Consistency, LeaseRead, List, Node, Said},
    util::mono_time::MonoTime,
};
use fastrand::Rng;
use world::World;

/// When the operator starts: every kubelet has renewed by then, and every cache shows it.
pub(crate) const OPERATOR_STARTS: f64 = 25.0;
pub(crate) const HORIZON: f64 = 400.0;
/// The server's clock when the world begins, in Unix seconds.
const EPOCH: f64 = 1_700_000_000.0;
/// What somebody, here kube-controller-manager, writes anyway, in seconds.
const WRITER_PERIOD: f64 = 2.0;
const PROBE_TIMEOUT: f64 = 5.0;
/// The server's stamp follows the node's reading of its clock within this, in seconds.
pub(crate) const MOST_LATENCY: f64 = 0.1;
/// A kubelet's period is up to this share longer than it should be.
pub(crate) const MOST_STRETCH: f64 = 0.04;
/// Seconds that a read takes at the most.
pub(crate) const MOST_READ: f64 = 0.05;

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) lease_seconds: i32,
    pub(crate) grace: f64,
    pub(crate) fraction: f64,
    pub(crate) interval: f64,
    /// Each node's clock against the server's, in seconds.
    pub(crate) skews: Vec<f64>,
    /// Whether the server stamps managedFields.
    pub(crate) stamps: bool,
    /// How far behind each API server's cache is, in seconds. There are as many servers.
    pub(crate) cache_ages: Vec<f64>,
    /// Each API server's clock against the true time, in seconds.
    pub(crate) server_skews: Vec<f64>,
    /// Whether the operator reads from the first of them alone, as over a connection that is kept.
    pub(crate) pinned: bool,
    pub(crate) failure_threshold: u32,
    /// Seconds that it takes to read Nodes and Machines.
    pub(crate) facts_take: f64,
    /// A lease that is new each second, if there is one.
    pub(crate) joins: Option<Joins>,
    /// While Nodes and Machines are refused, and for how long the server asks to wait each time.
    pub(crate) facts_refused: Option<(std::ops::Range<f64>, f64)>,
    pub(crate) faults: Vec<Fault>,
}

/// What is new of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Joins {
    Name,
    Uid,
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) from: f64,
    pub(crate) until: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultKind {
    /// A kubelet loses its way to the API server.
    Cut(u8),
    /// A node's clock steps by so many seconds, for good.
    NodeStep(u8, f64),
    /// A node's lease is created anew.
    NewUid(u8),
    /// A node's lease is deleted, and created again with the node's next renewal.
    Gone(u8),
    /// The API server is away, for kubelets and operator alike.
    ServerDown,
    /// Reads succeed, writes do not.
    WritesRefused,
    /// The operator's reads fail.
    ReadsLost,
    /// The operator starts anew.
    Restart,
    /// etcd is restored from a backup that lacks the writes of as many seconds as the fault lasts.
    Rollback,
    /// The server's clock steps by so many seconds, for good.
    ServerStep(f64),
}

/// What the operator concluded, beside the truth.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) outages: Vec<Outage>,
    pub(crate) estimates: Vec<Estimate>,
    pub(crate) reads: Vec<Read>,
    /// How often Nodes and Machines were read.
    pub(crate) facts_read: usize,
    /// When the operator first saw reason to scale the dependents down.
    pub(crate) acted: Option<f64>,
    /// By when an outage that lasts must have been found.
    pub(crate) deadline: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Outage {
    pub(crate) at: f64,
    pub(crate) expiry: f64,
    pub(crate) period: f64,
    /// For how long the fraction has really been silent.
    pub(crate) truly_silent_for: f64,
    /// By how much the server's clock has stepped since those leases were renewed, but before the
    /// operator was there to see it.
    pub(crate) unwatched_steps: f64,
    /// When the server, its writes or the operator was last away, as far as it can be told.
    pub(crate) last_disturbance: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) at: f64,
    pub(crate) consistent: bool,
    /// Whether it gave reason to look more closely.
    pub(crate) suspect: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    pub(crate) earliest: Option<f64>,
    pub(crate) latest: f64,
    pub(crate) truth: f64,
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

    /// How far apart the clocks of the API servers are, in seconds.
    pub(crate) fn skew(&self) -> f64 {
        let servers = &self.server_skews[..self.cache_ages.len()];
        let most = servers.iter().copied().fold(f64::MIN, f64::max);
        most - servers.iter().copied().fold(f64::MAX, f64::min)
    }

    fn server_clock(&self, server: usize, at: f64) -> f64 {
        let steps = self.steps(at, |kind| match kind {
            FaultKind::ServerStep(by) => by,
            _ => 0.0,
        });
        EPOCH + at + self.server_skews[server] + steps
    }

    /// By how much a clock has stepped until then.
    fn steps(&self, at: f64, by: impl Fn(FaultKind) -> f64) -> f64 {
        let faults = self.faults.iter().filter(|fault| fault.from <= at);
        faults.map(|fault| by(fault.kind)).sum()
    }

    fn unwatched_steps(&self, since: f64, at: f64) -> f64 {
        let restarts = self.restarts().into_iter().filter(|restart| *restart <= at);
        let started = restarts.fold(OPERATOR_STARTS, f64::max);
        let steps = self.faults.iter().filter_map(|fault| match fault.kind {
            FaultKind::ServerStep(by) if since <= fault.from && fault.from <= started => Some(by),
            _ => None,
        });
        steps.map(f64::abs).sum()
    }

    fn node_clock(&self, node: usize, at: f64) -> f64 {
        let steps = self.steps(at, |kind| match kind {
            FaultKind::NodeStep(which, by) if usize::from(which) == node => by,
            _ => 0.0,
        });
        EPOCH + at + self.skews[node] + steps
    }

    fn uid(&self, node: usize, at: f64) -> usize {
        let renewals = self.faults.iter().filter(|fault| {
            matches!(fault.kind, FaultKind::NewUid(which) | FaultKind::Gone(which) if usize::from(which) == node)
                && fault.from <= at
        });
        renewals.count()
    }

    /// When reads or writes were last impossible before `at`, as far as anybody can tell: a pause
    /// that fell between two reads, or was shorter than a server is idle anyway, leaves no trace. And a
    /// backup that is newer than what was there looks like a write.
    fn last_disturbance(&self, at: f64, period: f64, interruptions: &[f64]) -> f64 {
        let write_window = (1.5 * period).max(15.0);
        let told = write_window + period + WRITER_PERIOD;
        let rollbacks = self.faults.iter().filter_map(|fault| match fault.kind {
            FaultKind::Rollback => Some(fault.from),
            _ => None,
        });
        let signs: Vec<f64> = rollbacks.chain(interruptions.iter().copied()).collect();
        let quiet = self
            .faults
            .iter()
            .filter(|fault| fault.from <= at)
            .filter_map(|fault| {
                let until = fault.until.min(at);
                let heard = signs.iter().filter(|sign| **sign < until);
                let watched = heard.copied().fold(fault.from, f64::max);
                match fault.kind {
                    FaultKind::Restart => Some(fault.from),
                    FaultKind::WritesRefused if until - watched > told => Some(until),
                    FaultKind::ServerDown if until - fault.from > period => Some(until),
                    _ => None,
                }
            });
        quiet
            .chain(interruptions.iter().copied())
            .fold(OPERATOR_STARTS, f64::max)
    }
}

/// Lets the operator watch the scenario.
pub(crate) fn run(scenario: &Scenario) -> Findings {
    let mut rng = Rng::with_seed(scenario.seed);
    let world = World::new(scenario, &mut rng);
    let mut operator = Operator::new(scenario);
    let mut findings = Findings::default();
    // When the operator knew that it could not rely on what it had read before.
    let mut interruptions = Vec::new();
    let mut resumed = None;
    let mut now = OPERATOR_STARTS;
    let mut restarts = scenario.restarts().into_iter().peekable();
    // When a read of Nodes and Machines that is under way began, and when the next one may.
    let (mut facts, mut put_off) = (None::<f64>, 0.0);
    loop {
        let next = operator.judge.next(moment(now), rng.f64());
        let due = seconds(next).max(now);
        let ended = facts.map(|began| began + scenario.facts_take);
        let ended = ended.filter(|ended| *ended <= due);
        let due = ended.map_or(due, |ended| ended.max(now));
        if let Some(restart) = restarts.next_if(|restart| *restart <= due) {
            operator = Operator::new(scenario);
            (facts, put_off) = (None, 0.0);
            now = now.max(restart);
            continue;
        }
        if due > HORIZON {
            break;
        }
        now = due;
        let request = operator.judge.request();
        if let Some(began) = facts.take_if(|_| ended.is_some()) {
            match scenario.facts_refused.as_ref() {
                Some((time, wait)) if time.contains(&now) => put_off = now + wait,
                _ => {
                    operator.learn(began);
                    findings.facts_read += 1;
                }
            }
            continue;
        }
        let answered = now + rng.f64() * MOST_READ;
        if !scenario.readable(answered) {
            let hangs = rng.bool();
            let limit = request.limit.as_secs_f64();
            let finished = if hangs { now + limit } else { answered };
            operator
                .judge
                .failed(moment(now), moment(finished), Said::Late);
            interruptions.push(finished);
            resumed = None;
            now = finished;
            continue;
        }
        resumed.get_or_insert(now);
        let server = match scenario.pinned {
            true => 0,
            false => rng.usize(0..scenario.cache_ages.len()),
        };
        let asked = request.consistency == Consistency::Consistent;
        let mut consistent = asked;
        let intake = operator.read(&world, now, answered, server, consistent);
        if intake == Intake::Stale {
            consistent = true;
            operator.read(&world, now, answered, server, consistent);
        }
        let revision = world.at(answered).revision;
        if consistent && revision < operator.newest {
            interruptions.push(now);
        }
        operator.newest = match consistent {
            true => revision,
            false => world.at(answered - scenario.cache_ages[server]).revision,
        };
        operator.believes(&world, answered, &mut findings);
        findings.reads.push(Read {
            at: now,
            consistent: asked,
            suspect: operator.judge.suspect(),
        });
        now = answered;
        operator.conclude(&world, now, &mut findings, &interruptions);
        if operator.judge.wants_facts() && now >= put_off {
            facts = facts.or(Some(now));
        }
    }
    let period = Duration::from_secs_f64(scenario.period().max(1.0));
    if operator.rules.expiry(period).is_some() {
        let silence = world.silent_for(operator.needed(), HORIZON);
        let expired = HORIZON - silence + operator.expiry(period);
        // A second may pass between a write and the read that notices it.
        let proven = |resumed: f64| resumed + WRITER_PERIOD + 1.0 + 1.5 * period.as_secs_f64();
        let resumed = resumed.filter(|_| !interruptions.is_empty());
        findings.deadline = Some(expired.max(resumed.map_or(0.0, proven)));
    }
    findings
}

struct Operator<'a> {
    scenario: &'a Scenario,
    rules: LeaseRules,
    judge: LeaseJudge,
    /// The highest revision that it has been shown since the last rollback that it could notice.
    newest: u64,
}

impl<'a> Operator<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let rules = LeaseRules {
            grace: Duration::from_secs_f64(scenario.grace),
            fraction: scenario.fraction,
            recovery: scenario.fraction,
            minimum: 2,
            interval: Duration::from_secs_f64(scenario.interval),
            jitter_factor: 0.2,
            timeout: Duration::from_secs_f64(PROBE_TIMEOUT),
            failure_threshold: scenario.failure_threshold,
            success_threshold: 1,
        };
        Self {
            scenario,
            rules,
            judge: LeaseJudge::new(rules),
            newest: 0,
        }
    }

    fn expiry(&self, period: Duration) -> f64 {
        self.rules
            .expiry(period)
            .map_or(f64::INFINITY, |expiry| expiry.as_secs_f64())
    }

    fn needed(&self) -> usize {
        let all = self.scenario.nodes + usize::from(self.scenario.joins.is_some());
        self.rules.needed(all).min(all)
    }

    fn read(
        &mut self,
        world: &World<'_>,
        sent: f64,
        answered: f64,
        server: usize,
        consistent: bool,
    ) -> Intake {
        let lag = match consistent {
            true => 0.0,
            false => self.scenario.cache_ages[server],
        };
        let state = world.at(answered - lag);
        self.judge.observe(&LeaseRead {
            started: moment(sent),
            finished: moment(answered),
            date: Some(self.scenario.server_clock(server, answered).floor() as i64),
            consistency: match consistent {
                true => Consistency::Consistent,
                false => Consistency::Cached,
            },
            bytes: 0,
            list: List {
                resource_version: state.revision,
                items: world.leases(state, answered - lag),
            },
        })
    }

    /// Learns of all nodes, by a read that began then.
    fn learn(&mut self, began: f64) {
        let (mut facts, pools) = (Facts::new(moment(began)), BTreeMap::new());
        for node in 0..self.scenario.nodes {
            let node = Node {
                name: name(node),
                ..Node::default()
            };
            facts.take_node(&node, &pools);
        }
        self.judge.learn(&facts);
    }

    /// Concludes from what has been read by then.
    fn conclude(
        &mut self,
        world: &World<'_>,
        now: f64,
        findings: &mut Findings,
        interruptions: &[f64],
    ) {
        let conclusion = self.judge.conclude().expect("leases have been read");
        if conclusion.decides && conclusion.verdict == Verdict::Outage {
            findings.acted.get_or_insert(now);
        }
        let seen = &conclusion.assessment;
        if conclusion.verdict == Verdict::Outage {
            let at = seconds(seen.at);
            let period = seen.period.as_secs_f64();
            let truly_silent_for = world.silent_for(seen.needed, at);
            findings.outages.push(Outage {
                at,
                expiry: self.expiry(seen.period),
                period,
                truly_silent_for,
                unwatched_steps: self.scenario.unwatched_steps(at - truly_silent_for, at),
                last_disturbance: self.scenario.last_disturbance(at, period, interruptions),
            });
        }
    }

    /// Notes what is believed of every lease whose last value has been seen.
    fn believes(&self, world: &World<'_>, at: f64, findings: &mut Findings) {
        for (node, written) in world.at(at).leases.iter().enumerate() {
            let beat = self.judge.leases().get((&*name(node)).into());
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

fn name(node: usize) -> Box<str> {
    format!("node-{node}").into()
}

fn moment(seconds: f64) -> MonoTime {
    MonoTime::from_nanos((seconds * 1e9) as i128)
}

fn seconds(moment: MonoTime) -> f64 {
    moment.nanos() as f64 / 1e9
}
