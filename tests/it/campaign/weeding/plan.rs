//! What may happen, and what of it does.

use std::time::Duration;

use fake::fault::Fate;
use fastrand::Rng;
use serde_json::{Value, json};

use super::pods::{API_SERVER, APPS, SERVICES};
use crate::campaign::pair::End;

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A service is not ready any more, and some that need it crash.
    Away(usize, &'static str),
    /// It is ready, and those that needed it run at their next start.
    Back(usize, &'static str),
    /// It is away for less than a second.
    Flap(usize, &'static str),
    /// Its slices are written for another reason.
    Touch(usize, &'static str),
    /// It has another slice, or that is gone.
    Second(usize, &'static str, bool),
    /// The pods of an app crash for a reason of their own, and go on to until another event.
    Break(usize, usize),
    Mend(usize, usize),
    /// They have crashed for long by now.
    Loop(usize, usize),
    /// Somebody deletes a pod.
    Delete(usize, usize),
    /// A pod is not found by the selectors of policies any more, or is again.
    Hide(usize, usize),
    Show(usize, usize),
    /// A controller creates nothing.
    Idle(usize, usize),
    Busy(usize, usize),
    /// A namespace is no shoot's any more, or is again.
    Place(usize, bool),
    /// A policy is changed, and changed back.
    Edit(usize, Edit),
    Undo(usize),
    /// Something happens to a pod just before it is deleted.
    Interfere(Change),
    /// So many deletions have this fate.
    Fault(Fate, usize),
    CutWatches,
    LateWatches,
    GoneWatches,
    /// Watches are again as they should be.
    HealWatches,
    /// Nothing comes through, until connections are given up.
    Silence,
    Reset,
    RestartSeed,
    /// One that leads, or the other, ends.
    Replace(bool, End),
    Freeze(bool, u64),
    Thaw,
}

/// A change of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    Spec(Spec),
    Delete,
}

/// A change of its spec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spec {
    DryRun,
    Suspended,
    OneZone,
    OneService,
    FewPods,
    Lasts(&'static str),
}

/// What becomes of a pod before a deletion arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Recovers,
    Touched,
    Gone,
    Replaced,
    Deleted,
}

/// How much may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Roughness {
    /// A weeder sees everything at once, and whatever it asks for is done.
    Calm,
    /// Deletions fail.
    Refusing,
    /// So does all else.
    Rough,
}

#[derive(Clone, Copy)]
enum Card {
    Away,
    Flap,
    Touch,
    Second,
    Break,
    Loop,
    Delete,
    Hide,
    Idle,
    Place,
    Edit,
    Interfere,
    Fault,
    Watches,
    Silence,
    RestartSeed,
    Hurt,
}

/// After so many seconds a kernel gives up a connection on which nothing is received.
const SILENCE: u64 = 7;

/// How many there are of each.
const CARDS: [(Card, Roughness, usize); 17] = [
    (Card::Away, Roughness::Calm, 10),
    (Card::Flap, Roughness::Calm, 2),
    (Card::Touch, Roughness::Calm, 1),
    (Card::Second, Roughness::Calm, 2),
    (Card::Break, Roughness::Calm, 3),
    (Card::Loop, Roughness::Calm, 5),
    (Card::Delete, Roughness::Calm, 2),
    (Card::Hide, Roughness::Calm, 2),
    (Card::Idle, Roughness::Calm, 1),
    (Card::Place, Roughness::Calm, 1),
    (Card::Edit, Roughness::Calm, 6),
    (Card::Interfere, Roughness::Calm, 4),
    (Card::Fault, Roughness::Refusing, 8),
    (Card::Watches, Roughness::Rough, 5),
    (Card::Silence, Roughness::Rough, 1),
    (Card::RestartSeed, Roughness::Rough, 1),
    (Card::Hurt, Roughness::Rough, 6),
];
const EDITS: [Edit; 9] = [
    Edit::Spec(Spec::DryRun),
    Edit::Spec(Spec::DryRun),
    Edit::Spec(Spec::Suspended),
    Edit::Spec(Spec::OneZone),
    Edit::Spec(Spec::OneService),
    Edit::Spec(Spec::FewPods),
    Edit::Spec(Spec::Lasts("5s")),
    Edit::Spec(Spec::Lasts("0s")),
    Edit::Delete,
];
const CHANGES: [Change; 5] = [
    Change::Recovers,
    Change::Touched,
    Change::Gone,
    Change::Replaced,
    Change::Deleted,
];
const FATES: [Fate; 9] = [
    Fate::Refuse(409, None),
    Fate::Refuse(429, None),
    Fate::Refuse(429, Some(4)),
    Fate::Refuse(500, None),
    Fate::LostBefore,
    Fate::LostAfter,
    Fate::Hang { committed: false },
    Fate::Hang { committed: true },
    Fate::Late(Duration::from_secs(3)),
];

/// Draws what happens. It knows nothing of what the weeders do, so that the same seed tells the same story.
pub struct Plan {
    random: Rng,
    places: usize,
    policies: usize,
    cards: Vec<Card>,
}

impl Plan {
    pub fn new(random: Rng, places: usize, policies: usize) -> Self {
        Self {
            random,
            places,
            policies,
            cards: Vec::new(),
        }
    }

    /// Has as much go wrong from now on.
    pub fn begin(&mut self, roughness: Roughness) {
        let cards = CARDS.iter().filter(|(_, least, _)| *least <= roughness);
        let cards = cards.flat_map(|(card, _, count)| std::iter::repeat_n(*card, *count));
        self.cards = cards.collect();
    }

    /// What happens next, and for how long nothing does before that.
    pub fn next(&mut self) -> (Duration, Event) {
        let pause = Duration::from_millis(self.random.u64(300..3_500));
        (pause, self.event())
    }

    /// How long it lasts.
    pub fn lasts(&mut self, event: &Event) -> Duration {
        Duration::from_secs(match event {
            Event::Freeze(_, seconds) => *seconds,
            Event::Silence => SILENCE,
            Event::LateWatches | Event::GoneWatches => self.random.u64(2..10),
            _ => self.random.u64(3..25),
        })
    }

    fn event(&mut self) -> Event {
        let random = &mut self.random;
        let card = self.cards[random.usize(..self.cards.len())];
        let place = random.usize(..self.places);
        let service = SERVICES[random.usize(..SERVICES.len())];
        let app = random.usize(..APPS.len());
        match card {
            Card::Away => Event::Away(place, service),
            Card::Flap => Event::Flap(place, service),
            Card::Touch => Event::Touch(place, service),
            Card::Second => Event::Second(place, service, true),
            Card::Break => Event::Break(place, app),
            Card::Loop => Event::Loop(place, app),
            Card::Delete => Event::Delete(place, app),
            Card::Hide => Event::Hide(place, app),
            Card::Idle => Event::Idle(place, app),
            Card::Place => Event::Place(place, false),
            Card::Edit => Event::Edit(
                random.usize(..self.policies),
                EDITS[random.usize(..EDITS.len())],
            ),
            Card::Interfere => Event::Interfere(CHANGES[random.usize(..CHANGES.len())]),
            Card::Fault => Event::Fault(FATES[random.usize(..FATES.len())], random.usize(1..8)),
            Card::Watches => match random.u8(..3) {
                0 => Event::CutWatches,
                1 => Event::LateWatches,
                _ => Event::GoneWatches,
            },
            Card::Silence => Event::Silence,
            Card::RestartSeed => Event::RestartSeed,
            Card::Hurt => {
                // Mostly who does something.
                let leads = random.u8(..4) > 0;
                match random.u8(..6) {
                    0 => Event::Freeze(leads, 4),
                    1 => Event::Freeze(leads, 22),
                    2 | 3 => Event::Replace(leads, End::Terminated),
                    _ => Event::Replace(leads, End::Killed),
                }
            }
        }
    }
}

impl Event {
    /// What makes up for it, if something has to.
    pub fn end(&self) -> Option<Self> {
        Some(match *self {
            Self::Away(place, service) => Self::Back(place, service),
            Self::Second(place, service, true) => Self::Second(place, service, false),
            Self::Break(place, app) | Self::Loop(place, app) => Self::Mend(place, app),
            Self::Hide(place, app) => Self::Show(place, app),
            Self::Idle(place, app) => Self::Busy(place, app),
            Self::Place(place, false) => Self::Place(place, true),
            Self::Edit(policy, _) => Self::Undo(policy),
            Self::LateWatches | Self::GoneWatches => Self::HealWatches,
            Self::Silence => Self::Reset,
            Self::Freeze(..) => Self::Thaw,
            _ => return None,
        })
    }

    /// Whether who loses the Lease for it is not to blame.
    pub fn is_excuse(&self) -> bool {
        matches!(
            self,
            Self::Freeze(..) | Self::Thaw | Self::RestartSeed | Self::Silence | Self::Reset
        )
    }
}

impl Spec {
    /// What is other than in the policy as it should be.
    pub fn patch(self) -> Value {
        let selector = json!({"podSelectors": [{"matchLabels": {"role": "vpn"}}]});
        match self {
            Self::DryRun => json!({"mode": "DryRun"}),
            Self::Suspended => json!({"suspend": true}),
            Self::OneZone => json!({"namespaceSelector": {"matchLabels": {"zone": "a"}}}),
            Self::OneService => json!({"servicesAndDependantSelectors": {API_SERVER: null}}),
            Self::FewPods => json!({"servicesAndDependantSelectors": {API_SERVER: selector}}),
            Self::Lasts(time) => json!({"watchDuration": time}),
        }
    }
}
