//! One cluster's loop: observe, act, report.

use std::{mem, pin::Pin, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    evidence::Evidence,
    guard::Guard,
    metrics::ProberMetrics,
    moment::Origin,
    observe::{Observer, Outcome},
    plan::Aim,
    scale::Resources,
    stance::{Known, Presence, Stance},
};
use crate::{
    api::{CheckStatus, ClusterHealthStatus, Protection},
    checks::{Checks, Runner, SharedSpread},
    cluster::{Eligibility, Settings},
    observer::{
        View,
        look::{Looks, Means},
        metrics::Counted,
    },
    prober::report::{Finding, HeldBack, Reporter, evidence},
    runtime::{seed::Seed, timer::until},
};

mod act;
mod report;

/// A Cluster that is gone may be created anew, by somebody who replaces it.
const COMES_BACK: Duration = Duration::from_secs(30);
/// For how long the marks of one that does not come back are tried to be removed.
const BURIAL: Duration = Duration::from_secs(10 * 60);

/// What all loops share.
#[derive(Clone)]
pub struct Shared {
    /// Reads what is needed for verdicts.
    pub evidence: Evidence,
    /// Reads and writes dependents on the seed, on a budget of its own.
    pub scale: Seed,
    /// Whether no dependent is written, whatever policies say.
    pub dry_run: bool,
    /// The kinds of dependents that have been looked up.
    pub resources: Resources,
    /// Makes the runs of the policies' checks.
    pub checks: Runner,
    /// Counts in how many clusters a check fails.
    pub spread: SharedSpread,
    /// Takes reports.
    pub reporter: Reporter,
    /// By which clusters are looked at beside their leases.
    pub looks: Means,
    /// What is counted.
    pub metrics: Arc<ProberMetrics>,
    /// Ties moments to the clock.
    pub origin: Origin,
    /// A protection that lasts for longer is reported: somebody must look.
    pub overdue_after: Duration,
}

/// One cluster's loop. What it does by the evidence is in `act`, what it reports in `report`.
pub struct Probe {
    name: Arc<str>,
    shared: Shared,
    presence: watch::Receiver<Presence>,
    stance: Stance,
    /// By which the cluster was probed last; by these a protected one is let go when the policy is
    /// gone.
    last: Option<Arc<Settings>>,
    /// The policy that was responsible last.
    policy: Option<Arc<str>>,
    guard: Guard,
    /// `None` while the cluster is not probed.
    round: Option<Round>,
    wake: Arc<Notify>,
    finding: Finding,
    held_back: Option<HeldBack>,
    /// What the last read of the leases asks for.
    asked: Option<Aim>,
    checks: Checks,
    /// When the newest list of leases that came was asked for.
    answered: Option<Instant>,
    probed: Option<Timestamp>,
    /// Nothing is scaled before.
    act_from: Instant,
    /// When a verdict was last reached in mode DryRun: what was provable by then was not to be acted
    /// on.
    dry_run_at: Option<Instant>,
    /// Whether the policy's initialDelay does not apply: the cluster was eligible before we were.
    from_the_start: bool,
    /// How many reads in a row an API server that is being hibernated has not answered, and since
    /// when.
    unanswered: Option<(u32, Instant)>,
    /// When the protection will have lasted for too long.
    overdue_at: Option<Instant>,
    /// When the marks of a Cluster that is gone are given up.
    give_up_at: Option<Instant>,
    /// What an earlier run has left, until the cluster is observed.
    recalled: Option<Box<ClusterHealthStatus>>,
    /// The UID of the Cluster that is observed.
    uid: Option<Arc<str>>,
    /// It is another, so that it is to be observed anew.
    replaced: bool,
    /// The state of the cluster, as it was last observed.
    view: Option<View>,
    /// What the looks at its providers of metrics have come to.
    providers: Vec<CheckStatus>,
    counted: Counted,
}

type Round = Pin<Box<dyn Future<Output = (Box<Observer>, Outcome)> + Send>>;

impl Probe {
    /// A loop for the cluster of this name, which is told what the index says of it. `known` is what
    /// an earlier run has left in its ClusterHealth; `from_the_start` tells whether the cluster was there before the operator.
    pub fn new(
        name: Arc<str>,
        shared: Shared,
        presence: watch::Receiver<Presence>,
        known: Option<&ClusterHealthStatus>,
        from_the_start: bool,
    ) -> Self {
        let mut guard = Guard::new(
            name.clone(),
            shared.scale.clone(),
            shared.resources.clone(),
            known,
        )
        .measured(shared.metrics.clone())
        .dry_run(shared.dry_run);
        if let Presence::There(assignment) = &*presence.borrow()
            && let policy = assignment.selected.as_ref().or(assignment.former.as_ref())
            && let Some(Ok(settings)) = policy.map(|it| &it.settings)
            && (known.is_none() || assignment.selected.is_none())
        {
            // No record tells what may be marked, or it may be older than the mark, and nobody selects
            // the cluster, by whom it would be looked at. One that is not probed is looked at all the same.
            guard.adopt(&settings.dependents);
        }
        if from_the_start || known.is_some() {
            guard.distrust();
        }
        let recalled = known.map_or(&[][..], |known| &known.checks);
        let (runner, spread) = (shared.checks.clone(), shared.spread.clone());
        let checks = Checks::new(name.clone(), runner, spread).recalling(recalled);
        Self {
            recalled: known.cloned().map(Box::new),
            uid: None,
            replaced: false,
            view: None,
            providers: vec![],
            counted: shared.metrics.observer.cluster(),
            guard,
            name,
            shared,
            presence,
            stance: Stance::Idle(Finding::Pending),
            last: None,
            policy: known.and_then(|known| Some(known.policy.as_deref()?.into())),
            round: None,
            wake: Arc::default(),
            finding: Finding::Pending,
            held_back: None,
            asked: None,
            checks,
            answered: None,
            probed: None,
            act_from: Instant::now(),
            dry_run_at: None,
            from_the_start,
            unanswered: None,
            overdue_at: None,
            give_up_at: None,
        }
    }

    /// Runs until it is stopped, or until nobody has any use for it and nothing is owed: since no
    /// policy selects the cluster, or since the Cluster is gone. A flow under way ends between two
    /// requests.
    pub async fn run(mut self: Box<Self>, stop: CancellationToken) {
        self.take_stance();
        self.report();
        while self.stance != Stance::Forget {
            let interval = self.last.as_ref().map_or(Duration::ZERO, |s| s.interval);
            tokio::select! {
                // To stop comes first; then what was done, before what is to be done next.
                biased;
                () = stop.cancelled() => break,
                () = self.guard.progress(interval) => {
                    self.take_stance();
                    self.report();
                }
                changed = self.presence.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.take_stance();
                    // They may be others.
                    self.checked();
                    self.report();
                }
                () = self.checks.changed() => {
                    self.checked();
                    self.report();
                }
                (observer, outcome) = finished(&mut self.round) => self.observed(observer, outcome),
                () = until(self.overdue_at) => self.report(),
                () = until(self.give_up_at) => {
                    tracing::warn!(
                        cluster = &*self.name,
                        "the Cluster is gone, and marks may be left on its dependents"
                    );
                    break;
                }
            }
        }
        self.guard.shut_down().await;
        // Whoever comes next needs to know what was done last.
        self.report();
    }

    /// Takes up what the index and the guard say now.
    fn take_stance(&mut self) {
        let presence = self.presence.borrow_and_update().clone();
        match &presence {
            Presence::There(assignment) => {
                let responsible = assignment.selected.as_ref().or(assignment.former.as_ref());
                if let Some(responsible) = responsible {
                    self.policy = Some(responsible.policy.clone());
                }
                self.guard
                    .named_by(|dependent| assignment.may_name(dependent));
                let before = self.uid.replace(assignment.uid.clone());
                if before.is_some() && before != self.uid {
                    self.replaced = true;
                    self.wake.notify_one();
                    // What they have come to is about the other.
                    self.checks.stop();
                }
            }
            // No policy has a say in what is gone.
            Presence::Gone(_) => self.guard.named_by(|_| false),
        }
        let known = Known {
            last: self.last.as_ref(),
            engaged: self.guard.is_engaged(),
            looked_at: self.guard.ledger().is_looked_at(),
            dry_run: self.shared.dry_run,
        };
        let stance = Stance::new(&presence, known);
        match &stance {
            Stance::Probe(settings) | Stance::LetGo(settings, _) => {
                self.checks.adopt(&settings.policy, &settings.checks);
            }
            _ => self.checks.stop(),
        }
        if stance == self.stance {
            return;
        }
        let changed = !stance.is_like(&self.stance);
        if changed {
            self.guard.stop();
            self.held_back = None;
            self.give_up_at = None;
        }
        match &stance {
            Stance::Probe(settings) => {
                if changed || self.last.as_ref() != Some(settings) {
                    self.guard.adopt(&settings.dependents);
                }
                self.probe(settings);
            }
            Stance::LetGo(settings, _) => {
                self.ask_for_nothing(changed);
                self.probe(settings);
            }
            Stance::Hibernate(settings, finding) => {
                self.unanswered = None;
                self.ask_for_nothing(changed);
                self.probe(settings);
                self.found(finding.clone());
            }
            Stance::Settle(aim, finding) => {
                self.ask_for_nothing(changed);
                let why = evidence(finding);
                self.guard.insist(*aim, why, Instant::now());
                self.rest(finding.clone());
            }
            Stance::Hold(finding, why) => {
                self.held_back = Some(HeldBack::By(why));
                if changed {
                    self.guard.hold();
                }
                self.rest(finding.clone());
            }
            Stance::Idle(finding) => {
                self.rest(finding.clone());
                // What cannot be scaled in the cluster's state need not be remembered. What a policy
                // holds back may be marked: it was never looked at.
                self.guard.adopt(match &presence {
                    Presence::There(it) if it.eligibility == Eligibility::Probed => it.dependents(),
                    _ => &[],
                });
            }
            Stance::Bury => {
                self.round = None;
                self.ask_for_nothing(changed);
                let from = Instant::now() + COMES_BACK;
                let why = "the Cluster is gone".to_owned();
                self.guard.insist(Aim::Release, why, from);
                self.give_up_at = Some(from + BURIAL);
            }
            Stance::Forget => self.round = None,
        }
        self.stance = stance;
    }

    /// No policy asks for any dependent any more: only what is owed is handled, or may be.
    fn ask_for_nothing(&mut self, changed: bool) {
        if changed {
            self.guard.adopt(&[]);
        }
    }

    /// Probes by these settings from now on.
    fn probe(&mut self, settings: &Arc<Settings>) {
        if matches!(self.finding, Finding::Skipped { .. }) {
            self.finding = Finding::Pending;
        }
        let same = self.last.as_ref() == Some(settings);
        self.last = Some(settings.clone());
        if self.round.is_some() {
            if !same {
                self.asked = None;
                // The round hands its observer back, which then adopts the settings.
                self.wake.notify_one();
            }
            return;
        }
        if !mem::take(&mut self.from_the_start) {
            self.act_from = Instant::now() + settings.initial_delay;
        }
        self.finding = Finding::Pending;
        let sources = self
            .shared
            .evidence
            .of(self.name.clone(), &settings.secret_name);
        let metrics = self.shared.metrics.clone();
        let looks = Looks::new(self.name.clone(), self.shared.looks.clone());
        let recalled = self.recalled.take();
        let observer = Observer::new(
            self.shared.origin,
            settings.clone(),
            (sources, looks),
            metrics,
            recalled.as_deref(),
        );
        self.next_round(Box::new(observer));
    }

    /// Does not read any more.
    fn rest(&mut self, finding: Finding) {
        self.round = None;
        self.asked = None;
        self.recalled = None;
        self.found(finding);
        self.from_the_start = false;
    }

    fn next_round(&mut self, mut observer: Box<Observer>) {
        observer.set_protected(self.guard.protection() != Protection::None);
        if mem::take(&mut self.replaced) {
            observer.observe_anew();
        }
        self.view = Some(observer.view());
        self.providers = observer.providers();
        self.round = Some(Box::pin(observer.round(self.wake.clone())));
    }

    fn observed(&mut self, mut observer: Box<Observer>, outcome: Outcome) {
        self.answered = observer.answered().max(self.answered);
        let Some(settings) = self.stance.settings().cloned() else {
            self.round = None;
            return;
        };
        if !observer.follows(&settings) {
            // The verdict, if there is one, was reached by settings that are not in force any more.
            observer.adopt(settings);
            return self.next_round(observer);
        }
        let hibernating = matches!(self.stance, Stance::Hibernate(..));
        match outcome {
            Outcome::Woken | Outcome::Looked => {}
            Outcome::Judged(_) | Outcome::LeasesAlone(_) if hibernating => self.answered(&settings),
            Outcome::NoEvidence(error) if hibernating => self.not_answered(&error),
            Outcome::Judged(conclusion) => self.judged(&conclusion, &settings),
            Outcome::LeasesAlone(error) | Outcome::NoEvidence(error) => {
                self.unread(&error, &settings);
            }
        }
        self.next_round(observer);
        self.report();
    }
}

async fn finished(round: &mut Option<Round>) -> (Box<Observer>, Outcome) {
    match round {
        Some(round) => round.await,
        None => std::future::pending().await,
    }
}
