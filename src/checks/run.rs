//! The checks of one cluster: when they run, and what they have come to.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    outcome::Outcome,
    runner::{Runner, kind},
    setup,
    spread::{Member, SharedSpread, TriggerHold},
    tally::Tally,
};
use crate::{
    api::{CheckResult, CheckRole, CheckStatus, HealthCheck, MAX_OUTPUT},
    runtime::timer::until,
    util::text::clean,
};

/// First runs are spread over their period, but over no more than this: what hangs on a check waits
/// for them.
const SPREAD: Duration = Duration::from_secs(30);
/// A run may be so much later than its period and its timeout allow, before what the last one has
/// said counts for nothing any more: it waits for its turn.
const SLACK: Duration = Duration::from_secs(5);
/// A command whose timeout is tolerated is told of this often at most.
const TELL: Duration = Duration::from_secs(3600);

/// The checks of one cluster. They run for as long as this lives.
pub struct Checks {
    cluster: Arc<str>,
    runner: Runner,
    spread: SharedSpread,
    policy: Arc<str>,
    checks: Arc<[HealthCheck]>,
    /// In the order of the policy.
    running: Vec<Running>,
    /// What an earlier run of the operator has left of them, until they are first adopted.
    recalled: Vec<CheckStatus>,
    news: Arc<Notify>,
}

/// What the checks with the role Trigger have come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// There are none, or all of them pass.
    None,
    /// One of them fails, and is acted on.
    Failing {
        /// Which, and why.
        why: String,
        /// This counts for so long, if nothing more is heard.
        until: Instant,
    },
    /// One of them fails, and none of those that do is acted on.
    Held {
        /// Which, and why.
        why: String,
        /// Why it is not acted on.
        hold: String,
        /// Because its check fails in many clusters.
        widespread: bool,
    },
    /// None of them fails, and one of them tells nothing.
    Unknown {
        /// Which, and why.
        why: String,
    },
}

/// A command has not ended in time, which is tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tolerated {
    /// The name of its check.
    pub check: String,
    /// What would have happened, and what to do about it.
    pub message: String,
}

struct Running {
    check: HealthCheck,
    /// Of how it is set up.
    hash: Arc<str>,
    state: Arc<Mutex<State>>,
    _task: AbortOnDropHandle<()>,
}

struct State {
    /// Of the policy that asks for it.
    runner: Runner,
    /// One of the clusters of the policy that have it.
    member: Member,
    tally: Tally,
    /// It has passed as it is set up. Before that nobody knows whether it can: its port may be wrong,
    /// or nothing may be let through to it.
    has_passed: bool,
    /// Since when it has come to what it has come to.
    since: Option<Timestamp>,
    /// Until when it counts for something.
    fresh_until: Option<Instant>,
    tolerated: Option<Duration>,
    told: Option<Instant>,
}

impl Checks {
    /// None yet, of the cluster of this name, whose control plane is in the namespace of this name.
    ///
    /// Must be used within a tokio runtime, on which the checks then run.
    pub fn new(cluster: Arc<str>, runner: Runner, spread: SharedSpread) -> Self {
        Self {
            cluster,
            runner,
            spread,
            policy: Arc::default(),
            checks: Arc::default(),
            running: Vec::new(),
            recalled: Vec::new(),
            news: Arc::default(),
        }
    }

    /// The same, which know from what an earlier run of the operator has left which have passed.
    #[must_use]
    pub fn recalling(self, statuses: &[CheckStatus]) -> Self {
        Self {
            recalled: statuses.to_vec(),
            ..self
        }
    }

    /// Runs these of this policy from now on. One that was there before, and is the same but for its
    /// role, goes on with what it has come to; any other begins anew.
    pub fn adopt(&mut self, policy: &Arc<str>, checks: &Arc<[HealthCheck]>) {
        let recalled = std::mem::take(&mut self.recalled);
        if self.policy != *policy {
            self.policy = policy.clone();
            self.runner = self.runner.of(policy);
            for running in &self.running {
                let mut state = running.lock();
                state.runner = self.runner.clone();
                state.member = self.join(&running.hash);
                state.member.ran(state.tally.is_failing());
            }
        }
        if self.checks == *checks {
            return;
        }
        self.checks = checks.clone();
        let mut before = std::mem::take(&mut self.running);
        for check in checks.iter() {
            let known = before
                .iter()
                .position(|it| setup::is_same(&it.check, check));
            let running = match known {
                Some(place) => Running {
                    check: check.clone(),
                    ..before.swap_remove(place)
                },
                None => self.start(check.clone(), &recalled),
            };
            self.running.push(running);
        }
    }

    /// Runs none any more, and forgets what they have come to. What is under way is dropped.
    pub fn stop(&mut self) {
        self.checks = Arc::default();
        self.running.clear();
        self.recalled.clear();
    }

    /// Waits until one of them has come to something else, fails again, is held or held no more, or is to
    /// be told of. May return without that, and never does without checks. Nothing is lost if this is
    /// dropped.
    pub async fn changed(&self) {
        let held = self.failing(None, Instant::now());
        let ends = held.filter_map(|(_, hold)| hold?.until()).min();
        tokio::select! {
            () = self.news.notified() => {}
            () = until(ends) => {}
        }
    }

    /// What they have come to, in the order of the policy.
    pub fn statuses(&self) -> Vec<CheckStatus> {
        let now = Instant::now();
        let status = |running: &Running| {
            let state = running.lock();
            CheckStatus {
                name: running.check.name.clone(),
                role: Some(running.check.role),
                r#type: kind(&running.check),
                hash: Some(running.hash.to_string()),
                result: state.result(now, running.check.role),
                since: state.since.map(Time),
                message: state
                    .message(now, running.check.role)
                    .map(|text| clean(&text, MAX_OUTPUT)),
            }
        };
        self.running.iter().map(status).collect()
    }

    /// Why nothing may be scaled up: the first check with the role Gate that does not pass.
    pub fn gate(&self) -> Option<String> {
        let now = Instant::now();
        let closed = |running: &&Running| running.result(now) != CheckResult::Passing;
        let gates = self.of(CheckRole::Gate);
        gates.into_iter().find(closed).map(|it| it.describe(now))
    }

    /// What those with the role Trigger have come to. `answered` is when the newest list of leases that
    /// succeeded was asked for.
    pub fn trigger(&self, answered: Option<Instant>) -> Trigger {
        let now = Instant::now();
        let failing: Vec<_> = self.failing(answered, now).collect();
        let acted_on = || failing.iter().filter(|(_, hold)| hold.is_none());
        if let Some((first, _)) = acted_on().next() {
            let ends = acted_on().filter_map(|(it, _)| it.lock().fresh_until);
            return Trigger::Failing {
                why: first.describe(now),
                until: ends.max().unwrap_or(now),
            };
        }
        if let Some((first, Some(hold))) = failing.first() {
            return Trigger::Held {
                why: first.describe(now),
                hold: hold.describe(&first.check.name, &self.policy),
                widespread: matches!(hold, TriggerHold::Widespread { .. }),
            };
        }
        let triggers = self.of(CheckRole::Trigger);
        let unknown = |it: &&Running| it.result(now) == CheckResult::Unknown;
        match triggers.into_iter().find(unknown) {
            Some(first) => Trigger::Unknown {
                why: first.describe(now),
            },
            None => Trigger::None,
        }
    }

    /// Commands that have not ended in time, which was tolerated: each check once an hour at most.
    pub fn take_tolerated(&mut self) -> Vec<Tolerated> {
        let now = Instant::now();
        let taken = self.running.iter().filter_map(|running| {
            let mut state = running.lock();
            let limit = state.tolerated.take()?;
            state.told = Some(now);
            let name = &running.check.name;
            Some(Tolerated {
                check: name.clone(),
                message: format!(
                    "the command of check {name} had not ended after {limit:?}, and would have failed \
                     with the feature gate ExecProbeTimeout; give it more timeoutSeconds before you \
                     switch that on"
                ),
            })
        });
        taken.collect()
    }

    fn of(&self, role: CheckRole) -> Vec<&Running> {
        let running = self.running.iter();
        running.filter(|it| it.check.role == role).collect()
    }

    /// The Triggers that fail, and why they are not acted on.
    fn failing(
        &self,
        answered: Option<Instant>,
        now: Instant,
    ) -> impl Iterator<Item = (&Running, Option<TriggerHold>)> {
        let triggers = self.of(CheckRole::Trigger).into_iter();
        let failing = triggers.filter(move |it| it.result(now) == CheckResult::Failing);
        failing.map(move |it| {
            let period = seconds(it.check.period_seconds);
            (it, it.lock().member.hold(period, answered))
        })
    }

    fn join(&self, hash: &Arc<str>) -> Member {
        let check = (self.policy.clone(), hash.clone());
        self.spread.join(check, self.news.clone())
    }

    fn start(&self, check: HealthCheck, recalled: &[CheckStatus]) -> Running {
        let hash: Arc<str> = setup::hash(&check).into();
        let state = Arc::new(Mutex::new(State {
            runner: self.runner.clone(),
            member: self.join(&hash),
            tally: Tally::new(&check),
            has_passed: recalled.iter().any(|it| has_passed(it, &hash)),
            since: None,
            fresh_until: None,
            tolerated: None,
            told: None,
        }));
        let runs = repeat(
            check.clone(),
            self.cluster.clone(),
            state.clone(),
            self.news.clone(),
        );
        Running {
            check,
            hash,
            state,
            _task: AbortOnDropHandle::new(tokio::spawn(runs)),
        }
    }
}

/// Whether this tells that the check that is set up so has passed: a Trigger is `Failing` only once it has, and what is
/// tolerated passes with a message.
fn has_passed(recalled: &CheckStatus, hash: &str) -> bool {
    let told = match recalled.result {
        CheckResult::Passing => recalled.message.is_none(),
        CheckResult::Failing => recalled.role == Some(CheckRole::Trigger),
        CheckResult::Unknown => false,
    };
    told && recalled.hash.as_deref() == Some(hash)
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn result(&self, now: Instant) -> CheckResult {
        self.lock().result(now, self.check.role)
    }

    /// What it has come to, in words.
    fn describe(&self, now: Instant) -> String {
        let state = self.lock();
        let is = match state.result(now, self.check.role) {
            CheckResult::Passing => "passes",
            CheckResult::Failing => "fails",
            CheckResult::Unknown => "tells nothing",
        };
        let role = match self.check.role {
            CheckRole::Observe => "check",
            CheckRole::Gate => "the Gate",
            CheckRole::Trigger => "the Trigger",
        };
        let name = &self.check.name;
        match state.message(now, self.check.role) {
            Some(why) => format!("{role} {name} {is}: {}", clean(&why, MAX_OUTPUT)),
            None => format!("{role} {name} {is}"),
        }
    }
}

impl State {
    fn result(&self, now: Instant, role: CheckRole) -> CheckResult {
        if self.is_stale(now) || self.is_untried(role) {
            return CheckResult::Unknown;
        }
        self.tally.result()
    }

    fn message(&self, now: Instant, role: CheckRole) -> Option<String> {
        if self.is_stale(now) {
            return Some("its next run is overdue".to_owned());
        }
        let message = self.tally.message();
        match message {
            Some(why) if self.is_untried(role) => Some(format!(
                "it has not passed since it was set up, so that its failure is taken for no outage: {why}"
            )),
            message => message,
        }
    }

    /// Whether it fails as a Trigger that may never have been able to pass.
    fn is_untried(&self, role: CheckRole) -> bool {
        role == CheckRole::Trigger
            && !self.has_passed
            && self.tally.result() == CheckResult::Failing
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.fresh_until.is_some_and(|until| until < now)
    }

    /// Counts a run that has ended just now. Whether there is something to tell.
    fn count(&mut self, outcome: Outcome, fresh_for: Duration) -> bool {
        let now = Instant::now();
        let role = CheckRole::Observe;
        let before = (self.result(now, role), self.since.is_some());
        let passed = outcome == Outcome::Success;
        if let Outcome::Tolerated(limit) = &outcome
            && self
                .told
                .is_none_or(|told| now.duration_since(told) >= TELL)
        {
            self.tolerated = Some(*limit);
        }
        self.tally.count(outcome);
        self.member.ran(self.tally.is_failing());
        self.fresh_until = Some(now + fresh_for);
        let result = self.tally.result();
        self.has_passed |= passed && result == CheckResult::Passing;
        if before != (result, true) {
            self.since = Some(Timestamp::now());
        }
        before != (result, true) || result == CheckResult::Failing || self.tolerated.is_some()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a check again and again.
async fn repeat(
    check: HealthCheck,
    cluster: Arc<str>,
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
) {
    let period = seconds(check.period_seconds);
    let fresh_for = period + seconds(check.timeout_seconds) + SLACK;
    let spread = period.min(SPREAD).mul_f64(fastrand::f64());
    let mut due = Instant::now() + seconds(check.initial_delay_seconds) + spread;
    loop {
        sleep_until(due).await;
        let runner = lock(&state).runner.clone();
        let run = runner.run(&cluster, &check).await;
        due = run.began + period;
        if lock(&state).count(run.outcome, fresh_for) {
            news.notify_one();
        }
    }
}

pub(super) fn seconds(number: i32) -> Duration {
    Duration::from_secs(number.unsigned_abs().into())
}
