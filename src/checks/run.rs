//! The checks of one cluster: when they run, and what they have come to.

use std::sync::Arc;

use tokio::{sync::Notify, time::Instant};

use super::{runner::Runner, running::Running};
use crate::api::{CheckResult, CheckRole, CheckStatus, HealthCheck};

/// The checks of one cluster. They run for as long as this lives.
pub struct Checks {
    cluster: Arc<str>,
    runner: Runner,
    policy: Arc<str>,
    checks: Arc<[HealthCheck]>,
    /// In the order of the policy.
    running: Vec<Running>,
    news: Arc<Notify>,
}

/// A command has not ended in time, which is tolerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tolerated {
    /// The name of its check.
    pub check: String,
    /// What would have happened, and what to do about it.
    pub message: String,
}

impl Checks {
    /// None yet, of the cluster of this name, whose control plane is in the namespace of this name.
    ///
    /// Must be used within a tokio runtime, on which the checks then run.
    pub fn new(cluster: Arc<str>, runner: Runner) -> Self {
        Self {
            cluster,
            runner,
            policy: Arc::default(),
            checks: Arc::default(),
            running: Vec::new(),
            news: Arc::default(),
        }
    }

    /// Runs these of this policy from now on. One that was there before, and is the same but for its
    /// role, goes on with what it has come to; any other begins anew.
    pub fn adopt(&mut self, policy: &Arc<str>, checks: &Arc<[HealthCheck]>) {
        if self.policy != *policy {
            self.policy = policy.clone();
            self.runner = self.runner.of(policy);
            for running in &self.running {
                running.hand_over(self.runner.clone());
            }
        }
        if self.checks == *checks {
            return;
        }
        self.checks = checks.clone();
        let mut before = std::mem::take(&mut self.running);
        for check in checks.iter() {
            let known = before.iter().position(|it| is_same(&it.check, check));
            let running = match known {
                Some(place) => before.swap_remove(place).with(check.clone()),
                None => Running::start(
                    check.clone(),
                    self.runner.clone(),
                    (self.cluster.clone(), self.news.clone()),
                ),
            };
            self.running.push(running);
        }
    }

    /// Runs none any more, and forgets what they have come to. What is under way is dropped.
    pub fn stop(&mut self) {
        self.checks = Arc::default();
        self.running.clear();
    }

    /// Waits until the result of a check changes or has to be reported. May return early; never returns if
    /// there are no checks. Nothing is lost if this is dropped.
    pub async fn changed(&self) {
        self.news.notified().await;
    }

    /// What they have come to, in the order of the policy.
    pub fn statuses(&self) -> Vec<CheckStatus> {
        let now = Instant::now();
        self.running.iter().map(|it| it.status(now)).collect()
    }

    /// Why nothing may be scaled up: the first check with the role Gate that does not pass.
    pub fn gate(&self) -> Option<String> {
        let now = Instant::now();
        let closed = |it: &&Running| {
            it.check.role == CheckRole::Gate && it.result(now) != CheckResult::Passing
        };
        self.running.iter().find(closed).map(|it| it.describe(now))
    }

    /// Commands that have not ended in time, which was tolerated: each check once an hour at most.
    pub fn take_tolerated(&mut self) -> Vec<Tolerated> {
        let now = Instant::now();
        let taken = self.running.iter().filter_map(|running| {
            let limit = running.take_tolerated(now)?;
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
}

/// Returns whether a check goes on as another and keeps its result.
fn is_same(one: &HealthCheck, other: &HealthCheck) -> bool {
    let one = HealthCheck {
        role: other.role,
        ..one.clone()
    };
    one == *other
}
