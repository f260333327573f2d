//! One instance of the operator: the machine of production, driven one request at a time.

use super::*;

/// The present. Time is not counted: what takes time may happen at any moment.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
const AGES: Duration = Duration::from_secs(24 * 3600);
/// So long it waits for its turn, where restores are paced.
const TURN: Duration = Duration::from_secs(1);
/// As the machine has them.
const COMES_BACK: Duration = Duration::from_secs(30);
const FRESH: Duration = Duration::from_secs(60);
/// A write that was given up may arrive for so long after the seed has answered again.
pub(crate) const LETS_GO: Duration = Duration::from_secs(15);

/// A moment at which all that waits is due, or one at which nothing is yet.
pub(crate) fn moment(late: bool) -> Instant {
    *NOW + if late { AGES } else { Duration::ZERO }
}

fn at(mono: Instant) -> Now {
    let wall = Timestamp::UNIX_EPOCH;
    Now { mono, wall }
}

/// What a ClusterHealth says: whether the dependents are down, and what they are owed.
pub(crate) type Saved = (Protection, Debts);

fn status((protection, debts): &Saved) -> ClusterHealthStatus {
    ClusterHealthStatus {
        protection: *protection,
        dependents: debts.status(),
        ..ClusterHealthStatus::default()
    }
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Operator {
    pub(super) bounds: Rc<Bounds>,
    pub(crate) machine: ClusterMachine,
    pub(crate) flow: Option<Run>,
    /// The policy and the Cluster as it knows them.
    pub(crate) seen: (Policy, Life),
    /// What the evidence asks for that it has now.
    pub(crate) saw: Option<Aim>,
    /// What the last read of the leases asks for.
    leases: Option<Aim>,
    /// Why the Gate does not pass, as far as it knows.
    gate: Option<String>,
    /// Since when it probes, and whether the initialDelay has passed since.
    probing: (Option<Instant>, bool),
    /// How many of those delays have passed.
    delays: u32,
    /// It wants the Cluster and its policy read past every cache.
    pub(crate) asks: bool,
    /// They were as it sees them when they were last read, and nothing else was seen since.
    pub(crate) confirmed: bool,
    /// The Cluster has been gone for so long that it does not come back.
    buried: bool,
    /// So much time has passed since it started, or gave a write up, that none of those arrives any more.
    pub(crate) aged: bool,
    /// Its Lease may be somebody else's.
    pub(crate) deposed: bool,
    /// It was asked to end.
    pub(crate) ending: bool,
}

impl Operator {
    /// A new process; there may have been one before, of which the ClusterHealth tells this.
    pub(crate) fn start(
        before: Option<Option<&Saved>>,
        seen: (Policy, Life),
        bounds: &Rc<Bounds>,
    ) -> Self {
        let known = before.flatten().map(status);
        let at_once = bounds.initial_delay.is_zero() || bounds.flaw == Flaw::ActsAtOnce;
        let (start, now) = ((false, at_once), at(moment(false)));
        let mut machine = ClusterMachine::recall(known.as_ref(), bounds.presence(seen), start, now);
        // What the one before has given up may still arrive, if anything does.
        if before.is_some() && bounds.budget.late > 0 {
            machine.distrust();
        }
        let mut operator = Self {
            bounds: bounds.clone(),
            machine,
            flow: None,
            seen,
            saw: None,
            leases: None,
            gate: None,
            probing: (None, false),
            delays: 0,
            asks: false,
            confirmed: false,
            buried: false,
            aged: false,
            deposed: false,
            ending: false,
        };
        operator.see(seen);
        operator
    }

    /// The moment at which it learns of something.
    pub(super) fn now(&self) -> Instant {
        let aged = 2 * u32::from(self.aged);
        moment(false) + aged * LETS_GO + self.delays * self.bounds.initial_delay
    }

    /// How much later it is restored that was restored before.
    pub(super) fn damping(&self) -> Duration {
        match self.machine.held_back() {
            Some(HeldBack::Flapping) => FRESH,
            _ => Duration::ZERO,
        }
    }

    /// What it writes to the ClusterHealth.
    pub(crate) fn report(&self) -> Saved {
        let told = (self.machine.protection(), self.machine.debts().clone());
        // What it does not say is nothing that a later one could know.
        (told.0, Debts::recall(&status(&told)))
    }

    pub(crate) fn is_probing(&self) -> bool {
        self.machine.treatment().settings().is_some()
    }

    /// Whether it may write to dependents, as far as the policy goes that it knows.
    pub(crate) fn may_write(&self, aim: Aim) -> bool {
        match (self.machine.treatment(), aim) {
            (Treatment::Probe(_) | Treatment::LetGo(..), _) if !self.probing.1 => false,
            (Treatment::Probe(settings), _) => settings.mode == Mode::Enforce,
            (Treatment::LetGo(settings, _), Aim::Restore) => settings.mode == Mode::Enforce,
            (Treatment::Complete(settled, _), aim) => *settled == aim,
            (Treatment::Gone, aim) => aim == Aim::Release,
            _ => false,
        }
    }

    /// Whether marks may fall, whatever is known of the cluster.
    pub(crate) fn may_unmark(&self) -> bool {
        matches!(self.seen.0, Policy::Enforce | Policy::Deleted)
    }

    /// Learns of the policy and the Cluster.
    pub(crate) fn see(&mut self, seen: (Policy, Life)) {
        self.seen = seen;
        self.confirmed = false;
        self.learn(Input::Objects(self.bounds.presence(seen)));
    }

    /// Whether somebody else decides about a dependent at zero.
    pub(crate) fn lets_go(&self) -> bool {
        self.saw == Some(Aim::Release)
    }

    /// Reads the leases, and acts on what they say.
    pub(crate) fn probe(&mut self, shoot: Shoot, mut now: Instant) {
        let flaw = self.bounds.flaw;
        let owes = self.machine.debts().owes();
        let asks = match shoot.leases() {
            None if flaw == Flaw::TakesDoubtForOutage => Some(Aim::Protect),
            // After a restart nothing is owed, as far as it looks.
            Some(Aim::Restore) if flaw == Flaw::TrustsItsRecord && !owes => None,
            asks => asks,
        };
        let protected = self.machine.protection() != Protection::None;
        let conclusion = asks.map(|aim| conclusion(aim, protected));
        let unread = Leases::Unread {
            reason: "Unreachable",
            message: "",
        };
        let leases = conclusion.as_ref().map_or(unread, Leases::Judged);
        if flaw == Flaw::BelievesForEver {
            now = moment(false);
        }
        // The delay runs from when it was first probed; after that it does not come again.
        let (since, is_over) = &mut self.probing;
        if !*is_over && since.map(|since| since + self.bounds.initial_delay) <= Some(now) {
            *is_over = true;
            self.delays += 1;
        }
        self.learn_at(Input::Leases(leases, shoot.gate()), now);
        self.leases = shoot.leases();
        self.gate = shoot.gate();
        self.judge();
    }

    /// Learns what the policy and the Cluster are; `None` if they could not be read.
    pub(crate) fn confirm(&mut self, found: Option<(Policy, Life)>) {
        let is_as_seen = found.map(|found| found == self.seen);
        self.asks = false;
        self.confirmed = is_as_seen == Some(true);
        let confirmation = match is_as_seen {
            Some(true) => Confirmation::AsKnown,
            _ if self.bounds.flaw == Flaw::BelievesTheWatch => Confirmation::AsKnown,
            Some(false) => Confirmation::Otherwise,
            None => Confirmation::Unknown,
        };
        // It counts for the verdict that comes next, be that much later.
        let counts_at = moment(true) + self.damping();
        self.learn_at(Input::Confirmed(confirmation), counts_at);
    }

    /// Whether the checks have come to something that it does not know.
    pub(crate) fn may_check(&self, shoot: Shoot) -> bool {
        let treatment = self.machine.treatment();
        let has_checks = matches!(treatment, Treatment::Probe(_) | Treatment::LetGo(..));
        has_checks && self.gate != shoot.gate()
    }

    /// Learns what the checks have come to.
    pub(crate) fn check(&mut self, shoot: Shoot) {
        self.gate = shoot.gate();
        self.learn(Input::Gate(shoot.gate()));
        self.judge();
    }

    /// What the leases and the checks ask for together.
    fn judge(&mut self) {
        self.saw = match (self.leases, &self.gate) {
            (Some(Aim::Restore), Some(_)) => None,
            (leases, _) => leases,
        };
    }

    /// What it waits for is due: as much time has passed.
    pub(crate) fn resume(&mut self) {
        let due = self.machine.due();
        self.aged |= due > Some(moment(false) + LETS_GO);
        if *self.machine.treatment() == Treatment::Gone {
            let is_over = due >= Some(moment(false) + COMES_BACK);
            self.buried |= is_over && self.bounds.flaw != Flaw::BuriesAtOnce;
            self.saw = self.buried.then_some(Aim::Release);
        }
        let now = due.unwrap_or(moment(false)).max(self.now());
        self.learn_at(Input::Time, now);
    }

    pub(crate) fn learn(&mut self, input: Input<'_>) {
        self.learn_at(input, self.now());
    }

    fn learn_at(&mut self, input: Input<'_>, now: Instant) {
        let told = self.decide(input, now);
        self.take_down(told);
    }

    /// Takes up what is learnt, and does what follows. Returns what the flow has told of it.
    pub(super) fn decide(&mut self, input: Input<'_>, now: Instant) -> Vec<FlowEffect> {
        let flaw = self.bounds.flaw;
        self.ending |= matches!(input, Input::ShutDown);
        let keeps_flow = match &input {
            Input::Leases(..) => flaw == Flaw::KeepsOn,
            Input::Objects(_) => flaw == Flaw::DisregardsPolicy && self.is_probing(),
            _ => false,
        };
        let before = self.machine.treatment().clone();
        let wait = if self.bounds.paced {
            TURN
        } else {
            Duration::ZERO
        };
        let effects = self.machine.step(input, at(now), || now + wait);
        // Also what was found of a dependent may have it probed.
        if !self.is_probing() {
            self.probing = (None, false);
        } else if self.probing.0.is_none() {
            self.probing = (Some(now), self.bounds.initial_delay.is_zero());
        }
        if !before.is_like(self.machine.treatment()) {
            self.saw = None;
            self.leases = None;
            self.buried = false;
        }
        if let Treatment::Complete(aim, _) = self.machine.treatment() {
            self.saw = Some(*aim);
        }
        let mut told = vec![];
        for effect in effects {
            match effect {
                Effect::Start(plan) => told.extend(self.begin(plan)),
                Effect::Flow(FlowInput::Withdraw) if keeps_flow => {}
                // A flow is valid until it is frozen.
                Effect::Flow(FlowInput::Extend(_)) => {}
                Effect::Flow(FlowInput::Finish(_)) => {
                    told.extend(self.flow_learns(FlowInput::Finish(ever()), false));
                }
                Effect::Flow(input) => told.extend(self.flow_learns(input, false)),
                Effect::Confirm => self.asks = true,
                Effect::Tell { .. } => {}
            }
        }
        told
    }
}

/// Leases that ask for this, and did so often enough in a row.
fn conclusion(aim: Aim, protected: bool) -> Conclusion {
    let silent = aim == Aim::Protect;
    Conclusion {
        verdict: if silent {
            Verdict::Outage
        } else {
            Verdict::Healthy
        },
        assessment: Assessment {
            expired: usize::from(silent),
            protected,
            period: Duration::from_secs(10),
            ..Assessment::default()
        },
        provable: None,
        onset: None,
        returning: Returning::default(),
        decides: true,
    }
}
