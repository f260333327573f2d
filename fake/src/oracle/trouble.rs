//! Troubles of a shoot beside outages: each is done to the shoot and noted as true at once.

use super::{deck::Deck, truth::Truth};
use crate::farm::{Answer, Kubelets, Micros, Read, Shoot};
use fastrand::Rng;
use std::{collections::BTreeMap, ops::Range, time::Duration};

const SECOND: Micros = 1_000_000;
/// Seconds by which a clock steps: more than the rounding of two stamps hides.
const STEPS: Range<i64> = 5..90;
const SERVER_STEPS: Range<i64> = 5..3_600;
/// Seconds that a backup is old, or a cache behind.
const DEPTHS: Range<i64> = 1..90;
const LAGS: Range<i64> = 1..12;
/// Seconds that a trouble lasts.
const LENGTHS: Range<u64> = 1..90;
/// Milliseconds from one to the next.
const PAUSES: Range<u64> = 2_000..12_000;
/// What is answered instead.
const ANSWERS: [Answer; 6] = [
    Answer::Truncated,
    Answer::Html,
    Answer::Nothing,
    Answer::Refused(403, None),
    Answer::Refused(429, Some(7)),
    Answer::Refused(500, None),
];
const READS: [Read; 4] = [Read::Cached, Read::Consistent, Read::Nodes, Read::Ready];

/// What happens to a shoot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The clock of its API server steps.
    Clock(Micros),
    /// The clock of a node does.
    NodeClock(usize, Micros),
    /// The lease of a node is created anew.
    NewUid(usize),
    /// The lease of a node is deleted, and not renewed.
    Gone(usize),
    /// Its node creates it again.
    Back(usize),
    /// Its API server refuses all writes.
    Refuses,
    /// It takes them again.
    Accepts,
    /// Its etcd is restored from a backup that is so old.
    RollBack(Micros),
    /// The cache of its API server is so far behind.
    Lag(Micros),
    /// A kind of read is answered so.
    Answers(Read, Answer),
    /// A kind of read is answered as it should be.
    AnswersWell(Read),
}

/// A trouble at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub at: Duration,
    pub shoot: usize,
    pub trouble: Trouble,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Clock,
    NodeClock,
    NewUid,
    Gone,
    Refuses,
    RollBack,
    Lag,
    Answers,
}

const KINDS: [Kind; 10] = [
    Kind::Clock,
    Kind::NodeClock,
    Kind::NewUid,
    Kind::Gone,
    Kind::Refuses,
    Kind::RollBack,
    Kind::Lag,
    Kind::Answers,
    Kind::Answers,
    Kind::Answers,
];

/// What happens to so many shoots of so many nodes in such a time, in order. A shoot has one trouble at a time,
/// and all are over in the end.
pub fn troubles(seed: u64, shoots: usize, nodes: usize, length: Duration) -> Vec<Moment> {
    let mut random = Rng::with_seed(seed);
    let mut kinds = Deck::new(KINDS.to_vec());
    let mut free = BTreeMap::new();
    let mut moments = Vec::new();
    let mut at = Duration::ZERO;
    while at < length && shoots > 0 && nodes > 0 {
        let shoot = random.usize(..shoots);
        if free.get(&shoot).is_none_or(|free| *free <= at)
            && let Some(kind) = kinds.draw(&mut random, |_| true)
        {
            let trouble = draw(kind, nodes, &mut random);
            let lasts = Duration::from_secs(random.u64(LENGTHS));
            let over = (at + lasts).min(length);
            moments.push(Moment { at, shoot, trouble });
            moments.extend(trouble.end().map(|trouble| Moment {
                at: over,
                shoot,
                trouble,
            }));
            free.insert(shoot, over);
        }
        at += Duration::from_millis(random.u64(PAUSES));
    }
    moments.sort_by_key(|it| it.at);
    moments
}

fn draw(kind: Kind, nodes: usize, random: &mut Rng) -> Trouble {
    let node = random.usize(..nodes);
    let mut step = |most| {
        let by = random.i64(most) * SECOND;
        if random.bool() { by } else { -by }
    };
    match kind {
        Kind::Clock => Trouble::Clock(step(SERVER_STEPS)),
        Kind::NodeClock => Trouble::NodeClock(node, step(STEPS)),
        Kind::NewUid => Trouble::NewUid(node),
        Kind::Gone => Trouble::Gone(node),
        Kind::Refuses => Trouble::Refuses,
        Kind::RollBack => Trouble::RollBack(random.i64(DEPTHS) * SECOND),
        Kind::Lag => Trouble::Lag(random.i64(LAGS) * SECOND),
        Kind::Answers => {
            let read = random.choice(READS).unwrap_or(Read::Cached);
            let answer = random.choice(ANSWERS).unwrap_or(Answer::Nothing);
            Trouble::Answers(read, answer)
        }
    }
}

impl Trouble {
    /// What makes up for it, if something has to.
    pub fn end(self) -> Option<Self> {
        Some(match self {
            Self::Gone(node) => Self::Back(node),
            Self::Refuses => Self::Accepts,
            Self::Lag(1..) => Self::Lag(0),
            Self::Answers(read, _) => Self::AnswersWell(read),
            _ => return None,
        })
    }

    /// Happens to a shoot then, and is so from then on.
    pub fn befall(self, number: usize, at: Micros, shoot: &Shoot, truth: &mut Truth) {
        let mut both = |change: &dyn Fn(&mut Kubelets)| {
            change(&mut shoot.kubelets());
            if let Some(kubelets) = truth.kubelets(number) {
                change(kubelets);
            }
        };
        match self {
            Self::Clock(by) => both(&|it| it.step_server(by, at)),
            Self::NodeClock(node, by) => both(&|it| it.step_node(node, by, at)),
            Self::NewUid(node) => both(&|it| it.renew_uid(node, at)),
            Self::Gone(node) => both(&|it| it.delete_lease(node, at)),
            Self::Back(node) => both(&|it| it.return_lease(node, at)),
            Self::RollBack(depth) => both(&|it| it.roll_back(depth, at)),
            Self::Refuses => {
                shoot.kubelets().refuse_writes(at);
                truth.refused(number, at, true);
            }
            Self::Accepts => {
                shoot.kubelets().accept_writes(at);
                truth.refused(number, at, false);
            }
            Self::Lag(age) => shoot.behave(|it| it.cache_age = age),
            Self::Answers(read, answer) => {
                shoot.behave(|it| _ = it.answers.insert(read, answer));
                truth.unread(number, at, true);
            }
            Self::AnswersWell(read) => {
                shoot.behave(|it| _ = it.answers.remove(&read));
                truth.unread(number, at, false);
            }
        }
        match self {
            Self::Refuses | Self::Accepts | Self::Answers(..) | Self::AnswersWell(_) => {}
            _ => truth.disturbed(number, at, at),
        }
    }
}
