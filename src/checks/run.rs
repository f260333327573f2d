//! The checks of one cluster: when they run, and what they have come to.

use std::sync::Arc;

use tokio::{sync::Notify, time::Instant};

use super::{
    runner::Runner,
    running::{Running, State},
    setup,
    spread::{Member, SharedSpread, TriggerHold},
    tally::Tally,
};
use crate::{
    api::{CheckResult, CheckRole, CheckStatus, HealthCheck},
    runtime::timer::until,
};

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

/// What the checks of a cluster have come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResults {
    /// Those with the role Trigger.
    pub trigger: Trigger,
    /// Why the first Gate that does not pass does not.
    pub gate: Option<String>,
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
                running.hand_over(self.runner.clone(), self.join(&running.hash));
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
                Some(place) => before.swap_remove(place).with(check.clone()),
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
        self.running.iter().map(|it| it.status(now)).collect()
    }

    /// What they have come to. `answered` is when the newest list of leases that succeeded was asked for.
    pub fn results(&self, answered: Option<Instant>) -> CheckResults {
        CheckResults {
            trigger: self.trigger(answered),
            gate: self.gate(),
        }
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
            let ends = acted_on().filter_map(|(it, _)| it.fresh_until());
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
        failing.map(move |it| (it, it.hold(answered)))
    }

    fn join(&self, hash: &Arc<str>) -> Member {
        let check = (self.policy.clone(), hash.clone());
        self.spread.join(check, self.news.clone())
    }

    fn start(&self, check: HealthCheck, recalled: &[CheckStatus]) -> Running {
        let hash: Arc<str> = setup::hash(&check).into();
        let has_passed = recalled.iter().any(|it| has_passed(it, &hash));
        let member = self.join(&hash);
        let state = State::new(self.runner.clone(), member, Tally::new(&check), has_passed);
        Running::start(
            check,
            hash,
            state,
            (self.cluster.clone(), self.news.clone()),
        )
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
