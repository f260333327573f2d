//! One check that runs again and again, and what it has come to.

use std::{
    pin::pin,
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
    cuts::{Cuts, Wait},
    outcome::{Outcome, Said},
    runner::{Runner, kind},
    spread::{Member, TriggerHold},
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
/// That the timeout of a command is tolerated is told once in this time at most.
const TELL: Duration = Duration::from_secs(3600);

/// A check, and the task that runs it.
pub(super) struct Running {
    pub(super) check: HealthCheck,
    /// Of how it is set up.
    pub(super) hash: Arc<str>,
    state: Arc<Mutex<State>>,
    _task: AbortOnDropHandle<()>,
}

/// What is known of it.
pub(super) struct State {
    role: CheckRole,
    /// Of the policy that asks for it.
    runner: Runner,
    /// One of the clusters of the policy that have it.
    member: Member,
    tally: Tally,
    /// It has passed with its present settings. Until then it may be unable to: its port may be wrong, or a
    /// NetworkPolicy may block it.
    has_passed: bool,
    /// Since when it has come to what it has come to.
    since: Option<Timestamp>,
    /// Until when it counts for something.
    fresh_until: Option<Instant>,
    /// Until when the last run that said whether it fails counts for the spread.
    said_until: Option<Instant>,
    /// What the next run in the same container waits for.
    wait: Option<Wait>,
    tolerated: Option<Duration>,
    told: Option<Instant>,
}

impl Running {
    /// Runs it from now on, for as long as this lives.
    pub(super) fn start(
        check: HealthCheck,
        hash: Arc<str>,
        state: State,
        (cluster, news): (Arc<str>, Arc<Notify>),
    ) -> Self {
        let role = check.role;
        let state = Arc::new(Mutex::new(State { role, ..state }));
        let runs = repeat(check.clone(), cluster, state.clone(), news);
        Self {
            check,
            hash,
            state,
            _task: AbortOnDropHandle::new(tokio::spawn(runs)),
        }
    }

    /// The same, although the check has another role now.
    pub(super) fn with(self, check: HealthCheck) -> Self {
        self.lock().role = check.role;
        Self { check, ..self }
    }

    /// It is another policy's now.
    pub(super) fn hand_over(&self, runner: Runner, member: Member) {
        let mut state = self.lock();
        state.runner = runner;
        state.member = member;
        state.spread();
    }

    pub(super) fn status(&self, now: Instant) -> CheckStatus {
        let (state, role) = (self.lock(), self.check.role);
        let message = state.message(now, role);
        CheckStatus {
            name: self.check.name.clone(),
            role: Some(role),
            r#type: kind(&self.check),
            hash: Some(self.hash.to_string()),
            result: state.result(now, role),
            since: state.since.map(Time),
            message: message.map(|text| clean(&text, MAX_OUTPUT)),
        }
    }

    /// Why it is not acted on as a Trigger that fails.
    pub(super) fn hold(&self, answered: Option<Instant>) -> Option<TriggerHold> {
        let period = seconds(self.check.period_seconds);
        self.lock().member.hold(period, answered)
    }

    pub(super) fn fresh_until(&self) -> Option<Instant> {
        self.lock().fresh_until
    }

    /// The timeout of a command that has not ended in time, which was tolerated.
    pub(super) fn take_tolerated(&self, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        let limit = state.tolerated.take()?;
        state.told = Some(now);
        Some(limit)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn result(&self, now: Instant) -> CheckResult {
        self.lock().result(now, self.check.role)
    }

    /// What it has come to, in words.
    pub(super) fn describe(&self, now: Instant) -> String {
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
    /// It has not run yet.
    pub(super) fn new(runner: Runner, member: Member, tally: Tally, has_passed: bool) -> Self {
        Self {
            role: CheckRole::Observe,
            runner,
            member,
            tally,
            has_passed,
            since: None,
            fresh_until: None,
            said_until: None,
            wait: None,
            tolerated: None,
            told: None,
        }
    }

    fn result(&self, now: Instant, role: CheckRole) -> CheckResult {
        if self.is_stale(now) || self.is_untried(role) {
            return CheckResult::Unknown;
        }
        self.tally.result()
    }

    fn message(&self, now: Instant, role: CheckRole) -> Option<String> {
        let wait = self.wait.filter(|wait| now < wait.until);
        let wait = wait.map(Wait::describe);
        if self.is_stale(now) {
            return wait.or_else(|| Some("its next run is overdue".to_owned()));
        }
        let message = match (self.tally.message(), wait) {
            (Some(why), Some(wait)) => Some(format!("{why}; {wait}")),
            (message, wait) => message.or(wait),
        };
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

    /// Counts the cluster among those in which the check fails, or passes. A failure where it has never passed, and
    /// a run that was longer ago than the next one may take, say nothing about what many clusters share.
    fn spread(&self) {
        let said = self.said_until.is_some_and(|until| Instant::now() <= until);
        self.member.says(match self.tally.is_failing() {
            _ if !said => Said::Nothing,
            false => Said::Yes,
            true if self.has_passed => Said::No,
            true => Said::Nothing,
        });
    }

    /// Counts a run that has ended just now. Whether there is something to tell.
    fn count(&mut self, outcome: Outcome, fresh_for: Duration, wait: Option<Wait>) -> bool {
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
        let says = outcome.said() != Said::Nothing;
        let put_off = wait.map(|wait| wait.until + fresh_for);
        // What is tolerated does not get truer by another run.
        let put_off = put_off.filter(|_| matches!(outcome, Outcome::Tolerated(_)));
        self.fresh_until = Some(put_off.unwrap_or(now + fresh_for));
        if says {
            self.said_until = Some(now + fresh_for);
        }
        self.wait = wait;
        self.tally.count(outcome);
        let result = self.tally.result();
        self.has_passed |= passed && result == CheckResult::Passing;
        self.spread();
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
    let mut cuts = Cuts::default();
    loop {
        let said_until = lock(&state).said_until;
        let run = {
            let mut run = pin!(async {
                sleep_until(due).await;
                let runner = lock(&state).runner.clone();
                runner.run(&cluster, &check, &mut cuts).await
            });
            let stale_at = said_until.map(|until| until + Duration::from_nanos(1));
            tokio::select! {
                biased;
                run = &mut run => run,
                () = until(stale_at) => {
                    lock(&state).spread();
                    run.await
                }
            }
        };
        let Some(run) = run else {
            due = Instant::now() + period;
            continue;
        };
        due = run.began + period;
        let mut state = lock(&state);
        if state.role == CheckRole::Trigger {
            // Its failure has to be known without a gap: it decides, and a later leader learns of it.
            cuts.reset();
        }
        if state.count(run.outcome, fresh_for, cuts.wait()) {
            news.notify_one();
        }
    }
}

pub(super) fn seconds(number: i32) -> Duration {
    Duration::from_secs(number.unsigned_abs().into())
}
