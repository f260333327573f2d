//! One check that runs again and again, and what it has come to.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    cuts::{Cuts, Wait},
    outcome::Outcome,
    runner::{Runner, kind},
    tally::Tally,
};
use crate::{
    api::{CheckResult, CheckStatus, HealthCheck, MAX_OUTPUT},
    util::{now::wall, text::clean},
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
    state: Arc<Mutex<State>>,
    _task: AbortOnDropHandle<()>,
}

/// What is known of it.
struct State {
    /// Of the policy that asks for it.
    runner: Runner,
    tally: Tally,
    /// Since when it has come to what it has come to.
    since: Option<Timestamp>,
    /// Until when it counts for something.
    fresh_until: Option<Instant>,
    /// Pause before the next run.
    wait: Option<Wait>,
    tolerated: Option<Duration>,
    told: Option<Instant>,
}

impl Running {
    /// Runs it from now on, for as long as this lives.
    pub(super) fn start(
        check: HealthCheck,
        runner: Runner,
        (cluster, news): (Arc<str>, Arc<Notify>),
    ) -> Self {
        let state = Arc::new(Mutex::new(State {
            runner,
            tally: Tally::new(&check),
            since: None,
            fresh_until: None,
            wait: None,
            tolerated: None,
            told: None,
        }));
        let runs = repeat(check.clone(), cluster, state.clone(), news);
        Self {
            check,
            state,
            _task: AbortOnDropHandle::new(tokio::spawn(runs)),
        }
    }

    /// The same, although the check has another role now.
    pub(super) fn with(self, check: HealthCheck) -> Self {
        Self { check, ..self }
    }

    /// It is another policy's now.
    pub(super) fn hand_over(&self, runner: Runner) {
        self.state.lock().runner = runner;
    }

    pub(super) fn status(&self, now: Instant) -> CheckStatus {
        let state = self.state.lock();
        let message = state.message(now);
        CheckStatus {
            name: self.check.name.clone(),
            role: Some(self.check.role),
            r#type: kind(&self.check),
            result: state.result(now),
            since: state.since.map(Time),
            message: message.map(|text| clean(&text, MAX_OUTPUT)),
        }
    }

    /// The timeout of a command that has not ended in time, which was tolerated.
    pub(super) fn take_tolerated(&self, now: Instant) -> Option<Duration> {
        let mut state = self.state.lock();
        let limit = state.tolerated.take()?;
        state.told = Some(now);
        Some(limit)
    }

    pub(super) fn result(&self, now: Instant) -> CheckResult {
        self.state.lock().result(now)
    }

    /// Result of this Gate, in words.
    pub(super) fn describe(&self, now: Instant) -> String {
        let state = self.state.lock();
        let is = match state.result(now) {
            CheckResult::Passing => "passes",
            CheckResult::Failing => "fails",
            CheckResult::Unknown => "tells nothing",
        };
        let name = &self.check.name;
        match state.message(now) {
            Some(why) => format!("the Gate {name} {is}: {}", clean(&why, MAX_OUTPUT)),
            None => format!("the Gate {name} {is}"),
        }
    }
}

impl State {
    fn result(&self, now: Instant) -> CheckResult {
        match self.is_stale(now) {
            true => CheckResult::Unknown,
            false => self.tally.result(),
        }
    }

    fn message(&self, now: Instant) -> Option<String> {
        let wait = self.wait.filter(|wait| now < wait.until);
        let wait = wait.map(Wait::describe);
        if self.is_stale(now) {
            return wait.or_else(|| Some("its next run is overdue".to_owned()));
        }
        match (self.tally.message(), wait) {
            (Some(why), Some(wait)) => Some(format!("{why}; {wait}")),
            (message, wait) => message.or(wait),
        }
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.fresh_until.is_some_and(|until| until < now)
    }

    /// Counts a run that has ended just now. Whether there is something to tell.
    fn count(&mut self, outcome: Outcome, fresh_for: Duration, wait: Option<Wait>) -> bool {
        let now = Instant::now();
        let before = (self.result(now), self.since.is_some());
        if let Outcome::Tolerated(limit) = &outcome
            && self
                .told
                .is_none_or(|told| now.duration_since(told) >= TELL)
        {
            self.tolerated = Some(*limit);
        }
        let put_off = wait.map(|wait| wait.until + fresh_for);
        // What is tolerated does not get truer by another run.
        let put_off = put_off.filter(|_| matches!(outcome, Outcome::Tolerated(_)));
        self.fresh_until = Some(put_off.unwrap_or(now + fresh_for));
        self.wait = wait;
        self.tally.count(outcome);
        let is_news = before != (self.tally.result(), true);
        if is_news {
            self.since = Some(wall());
        }
        is_news || self.tolerated.is_some()
    }
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
        sleep_until(due).await;
        let runner = state.lock().runner.clone();
        let run = runner.run(&cluster, &check, &mut cuts).await;
        let waits = cuts.wait().map_or(run.began, |wait| wait.until);
        due = waits.max(run.began + period);
        if state.lock().count(run.outcome, fresh_for, cuts.wait()) {
            news.notify_one();
        }
    }
}

pub(crate) fn seconds(number: i32) -> Duration {
    Duration::from_secs(number.unsigned_abs().into())
}
