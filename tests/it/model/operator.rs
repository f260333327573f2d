//! One instance of the operator: the decider of production, driven one request at a time.

use super::*;

/// When everything begins.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// So long after something all is due that waits.
const AGES: Duration = Duration::from_secs(24 * 3600);
/// No evidence ages within it.
const EVER: Duration = Duration::from_secs(10_000 * 24 * 3600);
/// So long it waits for its turn, where restores are paced.
const TURN: Duration = Duration::from_secs(10);
/// What waits for no longer is due at once: it may be answered at any moment.
const SHORTLY: Duration = Duration::from_secs(1);
/// The operator has it.
const COMES_BACK: Duration = Duration::from_secs(30);
/// A write that was given up may arrive for so long after the seed has answered again.
pub(crate) const LETS_GO: Duration = Duration::from_secs(15);

pub(crate) fn start() -> Instant {
    *START
}

fn at(mono: Instant) -> Now {
    let wall = Timestamp::UNIX_EPOCH;
    Now { mono, wall }
}

/// What a ClusterHealth says: whether the dependents are down, and of each if it is owed, if it keeps its mark, and its
/// number.
pub(crate) type Saved = (Protection, Vec<DependentStatus>);

fn status((protection, dependents): &Saved) -> ClusterHealthStatus {
    ClusterHealthStatus {
        protection: *protection,
        dependents: dependents.clone(),
        ..ClusterHealthStatus::default()
    }
}

/// What a dependent needs next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// To be read, in one or two requests, of which the first has shown this.
    Read(Option<Observed>),
    /// Its turn to be written.
    Write,
    /// The answer to its write.
    Answer(Written),
}

#[derive(Clone, Debug)]
pub(crate) struct Operator {
    pub(super) bounds: Rc<Bounds>,
    pub(crate) decider: Decider,
    /// Its clock.
    pub(crate) now: Instant,
    /// What each dependent needs next.
    needs: Vec<Option<Need>>,
    /// What it wants of the dependents.
    pub(crate) aim: Aim,
    /// Which dependents have been where they belong since it wants that, or were given up.
    pub(crate) reached: Vec<bool>,
    /// Which have to be really back before the next level.
    pub(crate) owed: Vec<bool>,
    /// Which it knows to be owed, where it trusts its record.
    listed: Option<Vec<bool>>,
    /// The policy and the Cluster as it knows them.
    pub(crate) seen: (Policy, Life),
    /// What the evidence asks for that it has now.
    pub(crate) saw: Option<Aim>,
    /// What the last read of the leases asks for.
    leases: Option<Aim>,
    /// Why the Gate does not pass, as far as it knows.
    gate: Option<String>,
    /// Since when it probes.
    probing: Option<Instant>,
    /// Since when the Cluster is gone.
    gone: Option<Instant>,
    /// It wants the Cluster and its policy read past every cache.
    pub(crate) asks: bool,
    /// They were as it sees them when they were last read, and nothing else was seen since.
    pub(crate) confirmed: bool,
    /// Its Lease may be somebody else's.
    pub(crate) deposed: bool,
    /// It was asked to end.
    pub(crate) ending: bool,
}

/// By the distance of each moment from now.
impl Hash for Operator {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            bounds: _,
            decider,
            now,
            needs,
            aim,
            reached,
            owed,
            listed,
            seen,
            saw,
            leases,
            gate,
            probing: _,
            gone: _,
            asks,
            confirmed,
            deposed,
            ending,
        } = self;
        decider.digest(*now, state);
        (needs, aim, reached, owed, listed).hash(state);
        (seen, saw, leases, gate).hash(state);
        (self.is_watched(), self.is_buried()).hash(state);
        (asks, confirmed, deposed, ending).hash(state);
    }
}

impl Operator {
    /// A new process; there may have been one before, of which the ClusterHealth tells this.
    pub(crate) fn start(
        before: Option<Option<&Saved>>,
        seen: (Policy, Life),
        bounds: &Rc<Bounds>,
        now: Instant,
    ) -> Self {
        let known = before.flatten().map(status);
        let count = bounds.parts.len();
        let at_once = bounds.initial_delay.is_zero() || bounds.flaw == Flaw::ActsAtOnce;
        let (flags, assignment) = ((false, at_once), bounds.assignment(seen));
        let mut decider = Decider::recall(known.as_ref(), assignment, flags, at(now));
        // What the one before has given up may still arrive, if anything does.
        if before.is_some() && bounds.budget.late > 0 {
            decider.distrust();
        }
        let owed = owed(&decider, count);
        let mut operator = Self {
            bounds: bounds.clone(),
            decider,
            now,
            needs: vec![None; count],
            aim: Aim::Leave,
            reached: vec![false; count],
            listed: before.map(|_| owed.clone()),
            owed,
            seen,
            saw: None,
            leases: None,
            gate: None,
            probing: None,
            gone: None,
            asks: false,
            confirmed: false,
            deposed: false,
            ending: false,
        };
        operator
            .listed
            .take_if(|_| bounds.flaw != Flaw::TrustsItsRecord);
        operator.see(seen);
        operator
    }

    /// What it writes to the ClusterHealth.
    pub(crate) fn report(&self) -> Saved {
        let decider = &self.decider;
        (decider.protection(), decider.dependents().status())
    }

    pub(crate) fn is_probing(&self) -> bool {
        self.decider.treatment().settings().is_some()
    }

    /// Whether the policy's initialDelay has passed since it was first probed.
    fn is_watched(&self) -> bool {
        let since = self.probing.unwrap_or(self.now);
        self.now >= since + self.bounds.initial_delay
    }

    /// Whether the Cluster has been gone for so long that it does not come back.
    fn is_buried(&self) -> bool {
        let since = self.gone.filter(|_| self.bounds.flaw != Flaw::BuriesAtOnce);
        since.is_some_and(|since| self.now >= since + COMES_BACK)
    }

    /// Whether it may write to dependents, as far as the policy and the Cluster go that it knows.
    pub(crate) fn may_write(&self, aim: Aim) -> bool {
        let (policy, life) = self.seen;
        match (life, aim) {
            _ if matches!(policy, Policy::DryRun | Policy::Suspended) => false,
            (Probed | FallingAsleep, _) if !self.is_watched() => false,
            (Probed, Aim::Down) => policy == Enforce,
            (Probed | FallingAsleep | NoWorkers, Aim::Up) => true,
            (Deleting | Gone, Aim::Release) => true,
            _ => false,
        }
    }

    /// Whether marks may fall, whatever is known of the cluster.
    pub(crate) fn may_unmark(&self) -> bool {
        matches!(self.seen.0, Policy::Enforce | Policy::Deleted)
    }

    /// Learns of the policy and the Cluster.
    pub(crate) fn see(&mut self, seen: (Policy, Life)) {
        let probes = self.is_probing();
        self.seen = seen;
        self.confirmed = false;
        self.gone = (seen.1 == Gone).then_some(self.gone.unwrap_or(self.now));
        if !(probes && self.bounds.flaw == Flaw::DisregardsPolicy) {
            self.learn(Input::Objects(self.bounds.assignment(seen)));
        }
    }

    /// Whether somebody else decides about a dependent at zero.
    pub(crate) fn lets_go(&self) -> bool {
        self.saw == Some(Aim::Release)
    }

    /// Reads the leases, and acts on what they say. They count `for` so long, if that asks for a scale-down.
    pub(crate) fn probe(&mut self, shoot: Shoot, period: Duration) {
        let flaw = self.bounds.flaw;
        self.leases = shoot.leases();
        self.gate = shoot.gate();
        let asks = match shoot.leases() {
            None if flaw == Flaw::TakesDoubtForOutage => Some(Aim::Down),
            None if flaw == Flaw::KeepsOn => return self.judge(),
            asks => asks,
        };
        let protected = self.decider.protection() != Protection::None;
        let conclusion = asks.map(|aim| conclusion(aim, protected, period));
        let unread = Unread::new("Unreachable", String::new());
        let leases = conclusion.as_ref().ok_or(&unread);
        self.learn(Input::Leases(leases, shoot.gate()));
        self.judge();
    }

    /// Was frozen for so long that what it read does not count any more.
    pub(crate) fn freeze(&mut self) {
        self.probe(Silent, Duration::ZERO);
        self.now += Duration::from_nanos(1);
        self.learn(Input::Time);
        (self.leases, self.saw) = (None, None);
    }

    /// Lets so much time pass that all is due, or only so much that what may arrive still may.
    pub(crate) fn age(&mut self, until: Option<Instant>) {
        if self.bounds.flaw != Flaw::BelievesForEver {
            self.now = until.unwrap_or(self.now + AGES);
        }
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
        self.learn(Input::Confirmed(confirmation));
    }

    /// Whether the checks have come to something that it does not know.
    pub(crate) fn may_check(&self, shoot: Shoot) -> bool {
        let treatment = self.decider.treatment();
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
            (Some(Aim::Up), Some(_)) => None,
            (leases, _) => leases,
        };
    }

    /// What it waits for is due.
    pub(crate) fn resume(&mut self) {
        let due = self.decider.due();
        if let Some(due) = due.filter(|_| self.bounds.flaw != Flaw::BelievesForEver) {
            self.now = self.now.max(due);
        }
        self.learn(Input::Time);
    }

    /// Takes up what is learnt, and does what follows. Returns the write that it sends.
    pub(crate) fn learn(&mut self, input: Input<'_>) -> Option<Write> {
        self.ending |= matches!(input, Input::ShutDown);
        let before = self.decider.treatment().clone();
        let mut sent = self.decide(input);
        while self
            .decider
            .due()
            .is_some_and(|due| due <= self.now + SHORTLY)
        {
            self.now = self.now.max(self.decider.due().unwrap_or(self.now));
            sent = self.decide(Input::Time).or(sent);
        }
        // Also what was found of a dependent may have it probed.
        self.probing = self
            .is_probing()
            .then_some(self.probing.unwrap_or(self.now));
        if before != *self.decider.treatment() {
            (self.saw, self.leases) = (None, None);
        }
        if let Treatment::Complete(aim, _) = self.decider.treatment() {
            let waits = self.seen.1 == Gone && !self.is_buried();
            self.saw = Some(*aim).filter(|_| !waits);
        }
        sent
    }

    fn decide(&mut self, input: Input<'_>) -> Option<Write> {
        let (now, flaw) = (self.now, self.bounds.flaw);
        let wait = if self.bounds.paced {
            TURN
        } else {
            Duration::ZERO
        };
        let effects = self.decider.step(input, at(now), || now + wait);
        let aim = self.decider.dependents().aim();
        if aim != self.aim {
            self.aim = aim;
            self.reached.fill(false);
            self.owed = owed(&self.decider, self.needs.len());
        }
        let completes = matches!(self.decider.treatment(), Treatment::Complete(..));
        let mut sent = None;
        for effect in effects {
            match effect {
                Effect::Request(..) if completes && flaw == Flaw::KeepsMarks => {}
                Effect::Request(of, request) => {
                    let need = &mut self.needs[index_of(&of)];
                    match request {
                        Request::Read { .. } => *need = Some(Need::Read(None)),
                        Request::Queue => *need = Some(Need::Write),
                        Request::Write(write) => sent = Some(write),
                    }
                }
                Effect::Confirm => self.asks = true,
                Effect::Tell(event) => {
                    if let What::Late = event.what {
                        self.reached[index_of(&event.dependent)] = true;
                    }
                }
            }
        }
        sent
    }

    /// What a dependent needs next.
    pub(crate) fn need(&self, index: usize) -> Option<&Need> {
        self.needs[index].as_ref()
    }

    /// Whether it reads a dependent of which it wants nothing.
    pub(crate) fn only_looks(&self, index: usize) -> bool {
        self.aim == Aim::Leave && matches!(self.needs[index], Some(Need::Read(_)))
    }

    /// It is the turn of the write that a dependent needs; none if that is not wanted any more.
    pub(crate) fn send(&mut self, index: usize) -> Option<Write> {
        self.needs[index] = None;
        self.tell(index, Answer::Turn)
    }

    /// The answer to a read has come, perhaps when all that it was waited for is overdue.
    pub(crate) fn read(&mut self, index: usize, seen: Option<Observed>, late: bool) {
        let mut seen = seen.map(|seen| self.bounds.flaw.blur(seen));
        if let (Some(listed), Some(seen)) = (&self.listed, &mut seen) {
            seen.marked &= listed[index];
        }
        let half = self.needs[index].take();
        match (&seen, half) {
            (Some(now), Some(Need::Read(None))) if now.family == Family::Scalable => {
                self.needs[index] = Some(Need::Read(seen));
            }
            // The first of two has told the annotations, the second tells the replicas. If there was a
            // change in between, both are read again.
            (Some(now), Some(Need::Read(Some(half))))
                if half.resource_version != now.resource_version =>
            {
                self.needs[index] = Some(Need::Read(None));
            }
            _ => {
                if late {
                    self.now += AGES;
                }
                self.tell(index, Answer::Read(Ok(seen)));
            }
        }
    }

    /// The read has failed.
    pub(crate) fn unread(&mut self, index: usize) {
        self.needs[index] = None;
        self.tell(index, Answer::Read(Err(failure())));
    }

    /// The write was sent, and this became of it. It learns of that later where answers take their time.
    pub(crate) fn sent(&mut self, index: usize, written: Written) {
        let may_be_done = matches!(written, Written::Done | Written::Unanswered(_));
        self.owed[index] |= may_be_done && self.aim == Aim::Up;
        if let Some(listed) = &mut self.listed {
            listed[index] |= may_be_done;
        }
        self.needs[index] = Some(Need::Answer(written));
        if !self.bounds.slow_answers {
            self.answered(index);
        }
    }

    /// The answer to the write has come.
    pub(crate) fn answered(&mut self, index: usize) {
        if let Some(Need::Answer(mut written)) = self.needs[index].take() {
            if let (Flaw::WaitsForNothing, Written::Unanswered(error)) =
                (self.bounds.flaw, &written)
            {
                written = Written::Failed(error.clone());
            }
            self.tell(index, Answer::Written(written));
        }
    }

    fn tell(&mut self, index: usize, answer: Answer) -> Option<Write> {
        let of = reference(index);
        self.learn(Input::Answer(of, answer))
    }
}

fn reference(index: usize) -> DependentRef {
    DependentRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: format!("d{index}"),
    }
}

fn index_of(dependent: &DependentRef) -> usize {
    dependent.name[1..].parse().expect("a number")
}

/// Which of so many dependents are owed their replicas.
fn owed(decider: &Decider, count: usize) -> Vec<bool> {
    let mut owed = vec![false; count];
    for dependent in decider.dependents().status() {
        owed[index_of(&dependent.r#ref)] = dependent.owed;
    }
    owed
}

/// A request that failed.
pub(crate) fn failure() -> ScaleError {
    ScaleError::Request {
        verb: "patch",
        message: String::new(),
    }
}

/// Leases that ask for this, and did so often enough in a row.
fn conclusion(aim: Aim, protected: bool, period: Duration) -> Conclusion {
    let silent = aim == Aim::Down;
    Conclusion {
        verdict: if silent {
            Verdict::Outage
        } else {
            Verdict::Healthy
        },
        assessment: Assessment {
            expired: usize::from(silent),
            protected,
            period,
            ..Assessment::default()
        },
        provable: None,
        onset: None,
        returning: Returning::default(),
        decides: true,
    }
}

/// The renewal period of leases that count for ever.
pub(crate) const AGELESS: Duration = EVER;
