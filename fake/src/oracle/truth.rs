//! What is so, by what was done: the farm's kubelets are a function of time, and all else is noted as
//! it is done. It tells what the operator may have seen at a moment, so that nothing it does can be
//! excused by how busy the machine was.
//!
//! Whatever is done has begun before it is answered, and what comes of it shows in between. A change is
//! noted with both moments, and between them either may be so.

mod disturbed;
mod excuses;
mod happened;

pub use self::excuses::{Excuse, Reason};

use crate::farm::{Kubelets, Micros, NOTICE, micros};
use crate::oracle::policy::Policy;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

/// The share of silent leases that makes an outage, as in the documented policy.
const FRACTION: f64 = 0.6;
/// Kubelets wait up to so much longer than their period, so leases may be expired that much later.
const JITTER: f64 = 1.04;
/// For so many renewal periods a verdict is a reason to go on with what it began.
const VERDICT_PERIODS: f64 = 1.5;
/// Silence is acted on once it was watched for so many renewal periods by reads that succeeded.
const PROOF_PERIODS: f64 = 1.5;
/// A read that shows it may have begun so many periods before it was answered.
const READ_PERIODS: f64 = 1.0 / 3.0;
/// What was asked for in time may be written so much later, by a seed and a machine that are busy.
const UNDERWAY: Duration = Duration::from_secs(5);
/// Within this time the operator has seen a change of an object.
const SEEN: Duration = Duration::from_secs(10);
/// How closely the past is looked at.
const STEP: usize = 100_000;
/// Writes are dated in whole seconds.
const STAMP: Micros = 1_000_000;

/// What was done so far.
pub struct Truth {
    period: Duration,
    kubelets: Vec<Kubelets>,
    nodes: usize,
    cuts: Vec<Outage>,
    policies: Vec<Change<Policy>>,
    dead: BTreeMap<usize, Vec<Change<bool>>>,
    /// When processes of the operator were started, who have not seen what was before.
    starts: Vec<Micros>,
    /// Whose API server answers some of the reads otherwise than it should.
    unread: BTreeMap<usize, Vec<Change<bool>>>,
    /// Whose API server takes no writes.
    refused: BTreeMap<usize, Vec<Change<bool>>>,
    let_go: BTreeMap<usize, Vec<Change<bool>>>,
    counts: BTreeSet<(usize, String, i64)>,
    /// What keeps the operator from acting, for a shoot or for all, and follows from nothing else here.
    excused: Vec<(Option<usize>, Excuse)>,
}

/// From the beginning of a request to its answer something becomes so.
struct Change<T> {
    begun: Micros,
    done: Micros,
    to: T,
}

/// Kubelets that were cut off.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub shoot: usize,
    pub nodes: usize,
    pub from: Micros,
    pub until: Option<Micros>,
}

impl Truth {
    /// Of shoots whose kubelets renew so often, and of this policy.
    pub fn new(
        shoots: usize,
        nodes: usize,
        period: Duration,
        started: Micros,
        policy: Policy,
    ) -> Self {
        let kubelets = (0..shoots).map(|shoot| Kubelets::new(shoot, nodes, period, started));
        Self {
            period,
            kubelets: kubelets.collect(),
            nodes,
            cuts: Vec::new(),
            policies: vec![Change {
                begun: started,
                done: started,
                to: policy,
            }],
            dead: BTreeMap::new(),
            starts: Vec::new(),
            unread: BTreeMap::new(),
            refused: BTreeMap::new(),
            let_go: BTreeMap::new(),
            counts: BTreeSet::new(),
            excused: Vec::new(),
        }
    }

    /// So many kubelets of a shoot are cut off from then on.
    pub fn cut(&mut self, shoot: usize, nodes: usize, from: Micros) {
        if let Some(kubelets) = self.kubelets.get_mut(shoot) {
            kubelets.cut(nodes, from);
        }
        self.cuts.push(Outage {
            shoot,
            nodes,
            from,
            until: None,
        });
    }

    /// They are back from then on.
    pub fn restore(&mut self, shoot: usize, at: Micros) {
        if let Some(kubelets) = self.kubelets.get_mut(shoot) {
            kubelets.restore(at);
        }
        let open = |it: &&mut Outage| it.shoot == shoot && it.until.is_none();
        for cut in self.cuts.iter_mut().filter(open) {
            cut.until = Some(at);
        }
    }

    /// The policy was changed to this between then and then.
    pub fn policy(&mut self, begun: Micros, done: Micros, to: Policy) {
        self.policies.push(Change { begun, done, to });
    }

    /// The API server of a shoot has died, to which nobody writes any more, or is back.
    pub fn dead(&mut self, shoot: usize, begun: Micros, done: Micros, to: bool) {
        let at = begun + NOTICE;
        match self.kubelets.get_mut(shoot) {
            Some(kubelets) if to => kubelets.die(at),
            Some(kubelets) => kubelets.revive(at),
            None => {}
        }
        let changes = self.dead.entry(shoot).or_default();
        changes.push(Change { begun, done, to });
    }

    /// A shoot was hibernated, or its Cluster deleted; or no more.
    pub fn let_go(&mut self, shoot: usize, begun: Micros, done: Micros, to: bool) {
        let changes = self.let_go.entry(shoot).or_default();
        changes.push(Change { begun, done, to });
    }

    /// Somebody is about to give a dependent so many replicas.
    pub fn count(&mut self, shoot: usize, dependent: &str, replicas: i64) {
        self.counts.insert((shoot, dependent.to_owned(), replicas));
    }

    /// Whether somebody has given it so many.
    pub fn was_counted(&self, shoot: usize, dependent: &str, replicas: i64) -> bool {
        self.counts
            .contains(&(shoot, dependent.to_owned(), replicas))
    }

    /// The outages of which the kubelets that were cut off are enough for one.
    pub fn outages(&self) -> impl Iterator<Item = Outage> {
        let is_outage = |it: &&Outage| it.nodes as f64 >= FRACTION * self.nodes as f64;
        self.cuts.iter().filter(is_outage).copied()
    }

    /// When the leases of an outage are expired by every policy that was in force in it.
    pub fn expires(&self, outage: &Outage) -> Micros {
        let most = self.period.mul_f64(JITTER);
        let policies = self.policies_in(outage.from..=outage.until.unwrap_or(Micros::MAX));
        let expiry = policies.map(|it| it.expiry(most)).max();
        outage.from + micros(expiry.unwrap_or_default())
    }

    /// The policy as it was changed last.
    pub fn newest_policy(&self) -> Policy {
        self.policies.last().map_or(Policy::FIRST, |it| it.to)
    }

    /// Whether a scale-down of this shoot that was written in the second from then on may have been
    /// decided in an outage, by a policy that takes it.
    pub fn may_be_taken(&self, shoot: usize, at: Micros) -> bool {
        let protecting = |policy: &Policy| policy.protects(shoot);
        let policies: Vec<Policy> = self.policies_at(at).filter(protecting).collect();
        let least = policies.iter().map(|it| it.expiry(self.period)).min();
        let watched = self.period.mul_f64(PROOF_PERIODS - READ_PERIODS);
        let silent = |share| share >= FRACTION;
        least.is_some_and(|expiry| self.was(shoot, at, silent, expiry, watched))
    }

    /// Whether a restore that was written then may have been decided while the shoot was healthy, or
    /// let go, by a policy that writes.
    pub fn may_be_given_back(&self, shoot: usize, at: Micros) -> bool {
        let most = self.period.mul_f64(JITTER);
        let expiry = self.policies_at(at).map(|it| it.expiry(most)).max();
        let heard = |silent| silent < FRACTION;
        let healthy =
            expiry.is_some_and(|expiry| self.was(shoot, at, heard, expiry, Duration::ZERO));
        self.may_write(at) && (healthy || self.may_be_let_go(shoot, at))
    }

    /// Whether a policy that writes was in force as far as the operator may have known then.
    pub fn may_write(&self, at: Micros) -> bool {
        self.policies_at(at).any(Policy::acts)
    }

    /// Whether the operator may have seen then that nobody is to judge the shoot any more.
    pub fn may_be_let_go(&self, shoot: usize, at: Micros) -> bool {
        let span = at - micros(SEEN + UNDERWAY)..=at + STAMP;
        let changes = self.let_go.get(&shoot).map(Vec::as_slice);
        states(changes.unwrap_or_default(), &false, span).any(|gone| *gone)
    }

    fn policies_at(&self, at: Micros) -> impl Iterator<Item = Policy> {
        self.policies_in(at - micros(SEEN + UNDERWAY)..=at + STAMP)
    }

    fn policies_in(&self, span: RangeInclusive<Micros>) -> impl Iterator<Item = Policy> {
        states(&self.policies, &Policy::FIRST, span).copied()
    }

    /// Whether the share of the leases that are older than this was so at any moment at which a
    /// verdict may have been reached that led to a write at that time, after reads of such a length.
    fn was(
        &self,
        shoot: usize,
        at: Micros,
        so: impl Fn(f64) -> bool,
        expiry: Duration,
        watched: Duration,
    ) -> bool {
        let Some(kubelets) = self.kubelets.get(shoot) else {
            return false;
        };
        let verdict = self.period.mul_f64(VERDICT_PERIODS * JITTER) + UNDERWAY;
        let span = at - micros(verdict)..=at + STAMP;
        let steps = span.clone().step_by(STEP);
        // Most are silent just before a renewal.
        let renewals = steps.clone().flat_map(|at| kubelets.last_written(at));
        let before = renewals.map(|at| at - 1).filter(|at| span.contains(at));
        steps.chain(before).any(|at| {
            let silences = kubelets.silences(at, self.newest_start(at));
            let old = silences.filter(|(heard, looks)| {
                let age = if watched.is_zero() { heard } else { looks };
                *age >= micros(expiry) && *heard >= micros(watched)
            });
            let silent = old.count();
            // Nobody who is silent without a lease can be seen to be.
            let gone = self.gone(shoot, at);
            let share = |without: usize| {
                let silent = silent.saturating_sub(without);
                silent as f64 / self.nodes.saturating_sub(without) as f64
            };
            (so(share(0)) || so(share(gone))) && self.was_read(shoot, at, watched)
        })
    }

    /// Whether the API server of a shoot may have answered then, and every read for so long before.
    fn was_read(&self, shoot: usize, at: Micros, watched: Duration) -> bool {
        // In a shorter time it may be that nobody has asked: only a period without a read is a gap.
        let unseen = micros(self.period.mul_f64(1.0 + READ_PERIODS));
        let from = at - micros(watched);
        let mut unread = self.deaths(shoot).chain(self.refusals(shoot));
        !unread.any(|(died, revived)| {
            let is_now = died < at && at < revived;
            let was_then = died < at && from < revived && revived - died > unseen;
            is_now || was_then
        })
    }

    /// From when to when the API server of a shoot was surely dead.
    fn deaths(&self, shoot: usize) -> impl Iterator<Item = (Micros, Micros)> {
        spans(self.dead.get(&shoot).map(Vec::as_slice).unwrap_or_default())
    }
}

/// From when to when something was surely so.
fn spans(changes: &[Change<bool>]) -> impl Iterator<Item = (Micros, Micros)> {
    let nexts = changes.iter().skip(1).map(|it| it.begun);
    let spans = changes.iter().zip(nexts.chain([Micros::MAX]));
    spans
        .filter(|(change, _)| change.to)
        .map(|(change, next)| (change.done, next))
}

/// All that may have been so in a time.
fn states<'a, T>(
    changes: &'a [Change<T>],
    first: &'a T,
    span: RangeInclusive<Micros>,
) -> impl Iterator<Item = &'a T> {
    let begins = std::iter::once((Micros::MIN, first));
    let begins = begins.chain(changes.iter().map(|it| (it.begun, &it.to)));
    let ends = changes.iter().map(|it| it.done).chain([Micros::MAX]);
    begins
        .zip(ends)
        .filter(move |((begun, _), done)| begun <= span.end() && done >= span.start())
        .map(|((_, state), _)| state)
}
