//! What happens when: drawn before anything is started, so that the same seed tells the same story.

use crate::oracle::{
    deck::Deck,
    event::{Event, Hurt, Role},
    policy::{Edit, Hold},
};
use crate::{farm::Death, oracle::DEPENDENTS};
use fastrand::Rng;
use std::{collections::BTreeMap, time::Duration};

/// One thing to do, after a pause.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Since the one before was done.
    pub after: Duration,
    pub event: Event,
}

/// A part of the walk, after which everything is made healthy.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    pub steps: Vec<Step>,
    /// Who is cut off while all else is well, to see that they are protected in time.
    pub drill: Vec<usize>,
}

/// How long the walk is, and over what.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub shoots: usize,
    pub nodes: usize,
    pub legs: usize,
    /// Of the legs, so many at the beginning end processes of the operator.
    pub rough: usize,
    pub leg: Duration,
}

/// How many fall silent in a drill.
const DRILL: usize = 3;
/// Pauses between two things to do, in milliseconds.
const PAUSES: std::ops::Range<u64> = 800..3_500;
/// A shoot is let alone for so long after its trouble is over.
const BREATH: Duration = Duration::from_secs(5);
/// A policy is changed no sooner after a freeze or a restart of the seed, nor these after it: whether
/// the operator has seen the change would be a guess.
const APART: Duration = Duration::from_secs(15);
/// From one process that is hurt to the next, in seconds: the other takes over meanwhile, which takes
/// the lease's duration.
const ROUGH_PAUSES: std::ops::Range<u64> = 15..23;
const GENTLE_PAUSES: std::ops::Range<u64> = 40..60;
/// A lease lasts 15 s: the first is over before, the second is not.
const BLINK: Hurt = Hurt::Freeze(4);
const SLEEP: Hurt = Hurt::Freeze(22);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cut,
    CutFew,
    Kill,
    Hibernate,
    Remove,
    Ignore,
    Rotate,
    Scale,
    Annotate,
    Replace,
    Policy,
    RestartSeed,
}

/// How many cards of each kind there are. Shuffled and dealt to the end, so that each kind comes.
const KINDS: [(Kind, usize); 12] = [
    (Kind::Cut, 8),
    (Kind::CutFew, 3),
    (Kind::Kill, 4),
    (Kind::Hibernate, 2),
    (Kind::Remove, 1),
    (Kind::Ignore, 1),
    (Kind::Rotate, 2),
    (Kind::Scale, 3),
    (Kind::Annotate, 2),
    (Kind::Replace, 2),
    (Kind::Policy, 3),
    (Kind::RestartSeed, 1),
];
const EDITS: [Edit; 8] = [
    Edit::Interval(3),
    Edit::Interval(5),
    Edit::Grace(20),
    Edit::Grace(26),
    Edit::Timeout(10),
    Edit::Hold(Hold::DryRun),
    Edit::Hold(Hold::Suspended),
    Edit::Hold(Hold::Half),
];
const ROUGH: [(Hurt, Role); 8] = [
    (Hurt::Kill, Role::Leader),
    (Hurt::Kill, Role::Follower),
    (Hurt::Terminate, Role::Leader),
    (Hurt::Terminate, Role::Follower),
    (SLEEP, Role::Leader),
    (SLEEP, Role::Follower),
    (BLINK, Role::Leader),
    (Hurt::Kill, Role::Leader),
];
const GENTLE: [(Hurt, Role); 2] = [(BLINK, Role::Leader), (BLINK, Role::Follower)];

/// All that happens.
pub fn plan(seed: u64, size: Size) -> Vec<Leg> {
    let mut walk = Walk::new(seed, size);
    (0..size.legs).map(|leg| walk.leg(leg)).collect()
}

struct Walk {
    size: Size,
    random: Rng,
    kinds: Deck<Kind>,
    edits: Deck<Edit>,
    rough: Deck<(Hurt, Role)>,
    gentle: Deck<(Hurt, Role)>,
}

/// A leg that is being drawn. Times count from its beginning.
#[derive(Default)]
struct Draft {
    begun: Vec<(Duration, Event)>,
    /// When a shoot may have trouble again.
    free: BTreeMap<usize, Duration>,
    /// From when to when a process is frozen.
    freezes: Vec<(Duration, Duration)>,
    /// When the policy, the seed may be touched.
    policy: Duration,
    seed: Duration,
}

impl Walk {
    fn new(seed: u64, size: Size) -> Self {
        let kinds = KINDS.iter();
        let kinds = kinds.flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
        Self {
            size,
            random: Rng::with_seed(seed),
            kinds: Deck::new(kinds.collect()),
            edits: Deck::new(EDITS.to_vec()),
            rough: Deck::new(ROUGH.to_vec()),
            gentle: Deck::new(GENTLE.to_vec()),
        }
    }

    fn leg(&mut self, number: usize) -> Leg {
        let is_rough = number < self.size.rough;
        let mut draft = Draft::default();
        self.hurts(is_rough, &mut draft);
        let mut at = Duration::ZERO;
        while at < self.size.leg {
            let fits = |kind: &Kind| match kind {
                Kind::Policy => draft.is_calm(at),
                // Who leads at the last three rests is the same.
                Kind::RestartSeed => draft.seed <= at && number + 2 < self.size.legs,
                _ => true,
            };
            if let Some(kind) = self.kinds.draw(&mut self.random, fits) {
                self.begin(kind, at, &mut draft);
            }
            at += Duration::from_millis(self.random.u64(PAUSES));
        }
        let mut shoots: Vec<usize> = (0..self.size.shoots).collect();
        self.random.shuffle(&mut shoots);
        shoots.truncate(DRILL);
        Leg {
            steps: draft.steps(self.size.leg),
            drill: shoots,
        }
    }

    /// What is done to the processes of the operator has a time of its own: one after the other.
    fn hurts(&mut self, is_rough: bool, draft: &mut Draft) {
        let (deck, pauses) = if is_rough {
            (&mut self.rough, ROUGH_PAUSES)
        } else {
            (&mut self.gentle, GENTLE_PAUSES)
        };
        let mut at = Duration::from_secs(self.random.u64(3..8));
        while at < self.size.leg {
            let Some((hurt, role)) = deck.draw(&mut self.random, |_| true) else {
                return;
            };
            let event = Event::Hurt(hurt, role);
            let begun = at;
            if let (Hurt::Freeze(seconds), Some(thaw)) = (hurt, event.end()) {
                at += Duration::from_secs(seconds);
                draft.freezes.push((begun, at));
                draft.begun.push((at, thaw));
            }
            draft.begun.push((begun, event));
            at += Duration::from_secs(self.random.u64(pauses.clone()));
        }
    }

    fn begin(&mut self, kind: Kind, at: Duration, draft: &mut Draft) {
        let any = self.random.usize(0..self.size.shoots);
        let dependent = self.random.choice(DEPENDENTS).unwrap_or(DEPENDENTS[0]);
        let shoot = any;
        match kind {
            Kind::Cut => {
                for _ in 0..self.random.usize(1..4) {
                    let Some(shoot) = self.free(at, draft) else {
                        return;
                    };
                    let nodes = self.silent();
                    self.trouble(draft, at, Event::Cut { shoot, nodes }, 12..75);
                }
            }
            Kind::CutFew => {
                let Some(shoot) = self.free(at, draft) else {
                    return;
                };
                let nodes = self.random.usize(1..=(self.size.nodes / 2).max(1));
                self.trouble(draft, at, Event::Cut { shoot, nodes }, 20..60);
            }
            Kind::Kill => {
                let Some(shoot) = self.free(at, draft) else {
                    return;
                };
                let how = self.random.choice(Death::ALL).unwrap_or(Death::Refuses);
                if self.random.u8(..3) > 0 {
                    // In the middle of an outage, in which it is back before, or after.
                    let begin = at + Duration::from_secs(self.random.u64(3..35));
                    let nodes = self.silent();
                    let cut = Event::Cut { shoot, nodes };
                    let back = self.trouble(draft, begin, Event::Kill { shoot, how }, 8..40);
                    let end = back + Duration::from_secs(self.random.u64(0..40));
                    let end = end.saturating_sub(Duration::from_secs(10)).max(begin);
                    draft.free.insert(shoot, end.max(back) + BREATH);
                    draft.begun.extend(cut.end().map(|event| (end, event)));
                    draft.begun.push((at, cut));
                } else {
                    self.trouble(draft, at, Event::Kill { shoot, how }, 5..40);
                }
            }
            Kind::Hibernate | Kind::Remove => {
                let Some(shoot) = self.free(at, draft) else {
                    return;
                };
                let gone = match kind {
                    Kind::Remove => Event::Remove { shoot },
                    _ => Event::Hibernate { shoot },
                };
                let mut begin = at;
                if self.random.bool() {
                    // In the middle of an outage, which ends while it is away.
                    begin += Duration::from_secs(self.random.u64(20..30));
                    let nodes = self.silent();
                    let back = begin + Duration::from_secs(2);
                    draft.begun.push((at, Event::Cut { shoot, nodes }));
                    draft.begun.push((back, Event::Restore { shoot }));
                }
                self.trouble(draft, begin, gone, 10..50);
            }
            Kind::Ignore => {
                let Some(shoot) = self.free(at, draft) else {
                    return;
                };
                let ignore = Event::Ignore { shoot, dependent };
                draft.begun.push((at, ignore.clone()));
                let nodes = self.silent();
                let end = self.trouble(draft, at, Event::Cut { shoot, nodes }, 25..50);
                draft.begun.extend(ignore.end().map(|heed| (end, heed)));
            }
            Kind::Rotate => draft.begun.push((at, Event::Rotate { shoot })),
            Kind::Scale => {
                let replicas = self.random.i32(1..6);
                let scale = Event::Scale {
                    shoot,
                    dependent,
                    replicas,
                };
                draft.begun.push((at, scale));
            }
            Kind::Annotate => draft.begun.push((at, Event::Annotate { shoot, dependent })),
            Kind::Replace => draft.begun.push((at, Event::Replace { shoot, dependent })),
            Kind::Policy => {
                let Some(edit) = self.edits.draw(&mut self.random, |_| true) else {
                    return;
                };
                let event = Event::Policy(edit);
                let end = at + Duration::from_secs(self.random.u64(8..20));
                draft.policy = at + APART;
                draft.seed = draft.seed.max(at + APART);
                if let Some(release) = event.end() {
                    draft.policy = end + APART;
                    draft.begun.push((end, release));
                }
                draft.begun.push((at, event));
            }
            Kind::RestartSeed => {
                draft.policy = draft.policy.max(at + APART);
                draft.seed = at + APART;
                draft.begun.push((at, Event::RestartSeed));
            }
        }
    }

    /// How many kubelets make an outage: all, or as many as any fraction up to 0.7 wants.
    fn silent(&mut self) -> usize {
        let nodes = self.size.nodes;
        match self.random.u8(..3) {
            0 => self.random.usize((nodes * 7).div_ceil(10)..=nodes),
            _ => nodes,
        }
    }

    /// A shoot without trouble.
    fn free(&mut self, at: Duration, draft: &Draft) -> Option<usize> {
        let is_free = |shoot: &usize| draft.free.get(shoot).is_none_or(|free| *free <= at);
        let free: Vec<usize> = (0..self.size.shoots).filter(is_free).collect();
        self.random.choice(free)
    }

    /// Has trouble begin, and end after so many seconds. Tells when.
    fn trouble(
        &mut self,
        draft: &mut Draft,
        at: Duration,
        event: Event,
        seconds: std::ops::Range<u64>,
    ) -> Duration {
        let end = at + Duration::from_secs(self.random.u64(seconds));
        if let Event::Cut { shoot, .. }
        | Event::Kill { shoot, .. }
        | Event::Hibernate { shoot }
        | Event::Remove { shoot } = event
        {
            draft.free.insert(shoot, end + BREATH);
        }
        draft.begun.extend(event.end().map(|event| (end, event)));
        draft.begun.push((at, event));
        end
    }
}

impl Draft {
    /// Whether the operator is sure to see a change of the policy in time.
    fn is_calm(&self, at: Duration) -> bool {
        let mut freezes = self.freezes.iter();
        self.policy <= at
            && freezes.all(|(from, until)| at + APART <= *from || *until + APART <= at)
    }

    /// In order, with pauses. What would end after the leg is ended by the rest.
    fn steps(mut self, leg: Duration) -> Vec<Step> {
        self.begun.retain(|(at, _)| *at < leg);
        self.begun.sort_by_key(|(at, _)| *at);
        let mut before = Duration::ZERO;
        let step = |(at, event)| {
            let after = at - before;
            before = at;
            Step { after, event }
        };
        self.begun.into_iter().map(step).collect()
    }
}
