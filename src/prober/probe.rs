//! One cluster's loop: observe, act, report.

use std::{pin::Pin, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    evidence::{EvidenceError, Sources},
    guard::{Guard, Order},
    moment::Origin,
    observe::{Observer, Outcome},
    plan::Direction,
    proof::Proof,
    scale::Resources,
    watch::Conclusion,
};
use crate::{
    api::{ClusterHealthStatus, Mode, Protection},
    cluster::{Assignment, Decision, Eligibility, Settings},
    health::{self, ClusterReport, Finding, Reporter},
    runtime::seed::Seed,
};

/// What all loops share.
#[derive(Clone)]
pub struct Shared {
    /// Reads Secrets and Machines from the seed.
    pub seed: Seed,
    /// Reads and writes dependents on the seed, and reads what a scale-down waits for, on a budget
    /// of its own.
    pub scale: Seed,
    /// The kinds of dependents that have been looked up.
    pub resources: Resources,
    /// Takes reports.
    pub reporter: Reporter,
    /// Ties moments to the clock.
    pub origin: Origin,
}

/// One cluster's loop.
pub struct Probe {
    name: Arc<str>,
    shared: Shared,
    assignment: watch::Receiver<Assignment>,
    /// By which the cluster was probed last; by these a protected one is let go when no policy
    /// selects it any more.
    settings: Option<Arc<Settings>>,
    guard: Guard,
    /// `None` while the cluster is not probed.
    round: Option<Round>,
    wake: Arc<Notify>,
    finding: Finding,
    /// An earlier run has left a status: it stands until there is something to say.
    recalled: bool,
    held_back: Option<&'static str>,
    probed: Option<Timestamp>,
    /// Nothing is scaled before.
    act_from: Instant,
    /// Whether the policy's initialDelay does not apply: the cluster was eligible before we were.
    from_the_start: bool,
}

type Round = Pin<Box<dyn Future<Output = (Box<Observer>, Outcome)> + Send>>;

impl Probe {
    /// A loop for the cluster of this name. `known` is what an earlier run has left in its
    /// ClusterHealth; `from_the_start` tells whether the cluster was there before the operator.
    pub fn new(
        name: Arc<str>,
        shared: Shared,
        assignment: watch::Receiver<Assignment>,
        known: Option<&ClusterHealthStatus>,
        from_the_start: bool,
    ) -> Self {
        Self {
            guard: Guard::new(
                name.clone(),
                shared.scale.clone(),
                shared.resources.clone(),
                known,
            ),
            name,
            shared,
            assignment,
            settings: None,
            round: None,
            wake: Arc::default(),
            finding: Finding::Pending,
            recalled: known.is_some(),
            held_back: None,
            probed: None,
            act_from: Instant::now(),
            from_the_start,
        }
    }

    /// Runs until it is stopped, or until no policy selects the cluster and nothing is owed to it.
    /// A flow under way ends between two requests.
    pub async fn run(mut self, stop: CancellationToken) {
        self.reassigned();
        while !self.let_go() {
            let interval = self
                .settings
                .as_ref()
                .map_or(Duration::ZERO, |s| s.interval);
            tokio::select! {
                // To stop comes first; then what was done, before what is to be done next.
                biased;
                () = stop.cancelled() => break,
                () = self.guard.progress(interval) => self.report(),
                changed = self.assignment.changed() => match changed {
                    Ok(()) => self.reassigned(),
                    Err(_) => break,
                },
                (observer, outcome) = finished(&mut self.round) => self.observed(observer, outcome),
            }
        }
        self.guard.shut_down().await;
        // Whoever comes next needs to know what was done last; of a cluster that is gone, nobody.
        if self.assignment.has_changed().is_ok() {
            self.report();
        }
    }

    /// Whether there is nothing left to do for the cluster.
    fn let_go(&self) -> bool {
        let unselected = self.assignment.borrow().decision() == Decision::Unselected;
        unselected && !self.guard.is_engaged()
    }

    /// Takes up what the index says now.
    fn reassigned(&mut self) {
        let assignment = self.assignment.borrow_and_update().clone();
        match assignment.decision() {
            Decision::Probed(settings) if settings.suspend => {
                let message = format!("the policy {} is suspended", settings.policy);
                self.settings = Some(settings.clone());
                self.rest(Finding::Skipped {
                    reason: "Suspended",
                    message,
                });
            }
            Decision::Probed(settings) => self.adopt(settings.clone()),
            Decision::Skipped(skip) => self.rest(Finding::Skipped {
                reason: skip.reason(),
                message: skip.to_string(),
            }),
            Decision::Invalid(error) => self.rest(Finding::Unread {
                reason: "ClusterInvalid",
                message: error.to_string(),
            }),
            // A protected cluster is not dropped: it stays protected until it is healthy.
            Decision::Unselected
                if self.guard.is_engaged() && assignment.eligibility == Eligibility::Probed =>
            {
                self.keep_until_healthy();
            }
            Decision::Unselected => self.rest(Finding::Skipped {
                reason: "Unselected",
                message: "no valid policy selects the cluster".to_owned(),
            }),
        }
        self.report();
    }

    /// Probes by the last settings, if there were any, but for what they held back: nobody is left
    /// who could let go of it.
    fn keep_until_healthy(&mut self) {
        if let Some(last) = self.settings.clone() {
            let settings = Settings {
                mode: Mode::Enforce,
                suspend: false,
                ..(*last).clone()
            };
            self.adopt(Arc::new(settings));
        } else {
            self.rest(Finding::Skipped {
                reason: "Unselected",
                message:
                    "no valid policy selects the cluster, and none is known by which it could \
                          be judged; select it again to have it restored"
                        .to_owned(),
            });
        }
    }

    /// Probes by these settings from now on.
    fn adopt(&mut self, settings: Arc<Settings>) {
        if self.round.is_some() && self.settings.as_ref() == Some(&settings) {
            return;
        }
        self.guard.adopt(&settings.dependents);
        self.settings = Some(settings.clone());
        if self.round.is_some() {
            // The round hands its observer back, which then adopts the settings.
            self.wake.notify_one();
            return;
        }
        if !std::mem::take(&mut self.from_the_start) {
            self.act_from = Instant::now() + settings.initial_delay;
        }
        self.finding = Finding::Pending;
        let secret = settings.secret_name.clone();
        let (seed, urgent) = (self.shared.seed.clone(), self.shared.scale.clone());
        let sources = Sources::new(seed, urgent, self.name.clone(), secret);
        let observer = Observer::new(self.shared.origin, settings, sources);
        self.next_round(Box::new(observer));
    }

    /// Neither reads nor scales; marks stay.
    fn rest(&mut self, finding: Finding) {
        self.round = None;
        self.guard.stop();
        self.held_back = None;
        self.finding = finding;
        self.from_the_start = false;
    }

    fn next_round(&mut self, mut observer: Box<Observer>) {
        observer.set_protected(self.guard.protection() != Protection::None);
        self.round = Some(Box::pin(observer.round(self.wake.clone())));
    }

    fn observed(&mut self, mut observer: Box<Observer>, outcome: Outcome) {
        let Some(settings) = self.settings.clone() else {
            self.round = None;
            return;
        };
        if !observer.follows(&settings) {
            // The verdict, if there is one, was reached by settings that are not in force any more.
            observer.adopt(settings);
            return self.next_round(observer);
        }
        match outcome {
            Outcome::Woken => {}
            Outcome::Judged(conclusion) => self.act(&conclusion, &settings),
            Outcome::NoEvidence(error) => self.doubt(&error),
        }
        self.report();
        self.next_round(observer);
    }

    fn act(&mut self, conclusion: &Conclusion, settings: &Settings) {
        self.probed = Some(Timestamp::now());
        let seen = &conclusion.assessment;
        self.found(Finding::Judged(conclusion.verdict, Box::new(seen.clone())));
        self.held_back = None;
        let Some(direction) = conclusion.act else {
            // Without sufficient evidence nothing is scaled, either way.
            self.guard.stop();
            return;
        };
        if settings.mode == Mode::DryRun {
            self.guard.stop();
        } else if Instant::now() < self.act_from {
            self.held_back = Some("the policy's initialDelay has not passed yet");
        } else if direction == Direction::Down && self.assignment.borrow().selected.is_none() {
            // What is still owed is restored, and nothing more is taken.
            self.held_back = Some("no policy selects the cluster any more");
            self.guard.stop();
        } else {
            let valid_for = match direction {
                Direction::Down => Proof::length(seen.period),
                Direction::Up => 2 * settings.interval + settings.timeout,
            };
            self.guard.act(Order {
                direction,
                restore: settings.restore,
                valid_until: Instant::now() + valid_for,
            });
        }
    }

    fn doubt(&mut self, error: &EvidenceError) {
        self.probed = Some(Timestamp::now());
        self.found(Finding::Unread {
            reason: error.reason(),
            message: error.to_string(),
        });
        self.held_back = None;
        self.guard.stop();
    }

    /// Notes a finding, and logs it if it is another than before.
    fn found(&mut self, finding: Finding) {
        let reason = health::cluster::reason(&finding);
        if reason != health::cluster::reason(&self.finding) {
            let cluster = &*self.name;
            match &finding {
                Finding::Judged(_, seen) => tracing::info!(
                    cluster,
                    candidates = seen.candidates,
                    expired = seen.expired,
                    unknown = seen.unknown,
                    needed = seen.needed,
                    "{reason}"
                ),
                Finding::Unread { message, .. } => tracing::warn!(cluster, "{reason}: {message}"),
                Finding::Pending | Finding::Skipped { .. } => {}
            }
        }
        self.finding = finding;
    }

    fn report(&self) {
        if self.recalled && self.finding == Finding::Pending {
            return;
        }
        let assignment = self.assignment.borrow();
        let ledger = self.guard.ledger();
        let report = ClusterReport {
            uid: assignment.uid.clone(),
            policy: assignment
                .selected
                .as_ref()
                .map(|selected| selected.policy.clone()),
            mode: self
                .settings
                .as_ref()
                .map_or(Mode::Enforce, |settings| settings.mode),
            finding: self.finding.clone(),
            protection: self.guard.protection(),
            protected_since: None,
            overdue: false,
            looked_at: true,
            last_action: None,
            held_back: self.held_back,
            dependents: ledger.status(),
            problems: ledger.problems().cloned().collect(),
            probed: self.probed,
        };
        self.shared.reporter.cluster(&self.name, report);
    }
}

async fn finished(round: &mut Option<Round>) -> (Box<Observer>, Outcome) {
    match round {
        Some(round) => round.await,
        None => std::future::pending().await,
    }
}
