//! Walks through whatever may happen to a seed, its shoots, its policy and the operator, in any order and at once. After
//! each leg all is healed, and must come to be as people want it.

mod act;
mod rest;

use std::{collections::BTreeMap, time::Duration};

use fake::{
    farm::{Micros, Shoot, micros as length},
    oracle::{
        event::{Event, Hurt, Role},
        judge,
        plan::{Leg, Size, plan},
        policy::Policy,
        trouble::{Moment, troubles},
        truth::Truth,
        versions::{Version, names},
    },
};
use fastrand::Rng;
use serde_json::Value;

use super::{
    draw::{self, Draw},
    pair::Pair,
};
use crate::world::{self, REPLICAS, World, in_virtual_time, micros, now};

/// How many walks are carried out where not all of the campaign is.
const WALKS: usize = 30;
/// The legs of a walk.
const LEGS: usize = 2;
/// How long and wide a walk is.
const SIZE: Size = Size {
    shoots: 3,
    nodes: 5,
    legs: LEGS,
    rough: 1,
    leg: Duration::from_secs(60),
};
/// Half of a real one's, so that twice as much happens.
const LEASE: Duration = Duration::from_secs(20);
/// One that was frozen, or whose seed was away, may find out so late that it does not lead any more.
const EXCUSED: Duration = Duration::from_secs(45);

#[test]
fn walks() {
    let draw = Draw::new("walks");
    let seeds = match draw.again() {
        Some(seed) => vec![seed.parse().expect("a walk is named by its number")],
        None => draw.seeds(WALKS),
    };
    draw::all(&draw, seeds, |seed| {
        fastrand::seed(*seed);
        (seed.to_string(), in_virtual_time(walk(*seed)))
    });
}

/// Carries out a walk. Returns what is broken.
async fn walk(seed: u64) -> Vec<String> {
    let mut walk = Walk::begin(seed);
    let mut problems = Vec::new();
    // In the last two legs that are drawn no seed is started again.
    let drawn = plan(
        seed,
        Size {
            legs: LEGS + 2,
            ..SIZE
        },
    );
    let legs = drawn.get(..LEGS).unwrap_or_default();
    if let Err(problem) = walk.go(legs).await {
        problems.push(problem);
    }
    // What is broken tells more than what did not come about for it.
    problems.extend(walk.broken());
    if !problems.is_empty() {
        problems.extend(walk.journal);
    }
    problems
}

struct Walk {
    world: World,
    truth: Truth,
    random: Rng,
    pair: Pair,
    /// Until then it may lose the Lease.
    excused: Micros,
    /// How many replicas people want of each dependent.
    wanted: BTreeMap<(usize, &'static str), i64>,
    /// What makes up for what was done and is not yet over.
    open: Vec<Event>,
    /// Clusters that are deleted, to be created again.
    removed: BTreeMap<usize, Value>,
    tokens: usize,
    /// What was done, for whoever reads of a failure.
    journal: Vec<String>,
    problems: Vec<String>,
}

impl Walk {
    fn begin(seed: u64) -> Self {
        let Size { shoots, nodes, .. } = SIZE;
        let world = World::new(shoots, nodes, LEASE);
        let period = LEASE / fake::farm::RENEWALS_PER_LEASE;
        let mut truth = Truth::new(shoots, nodes, period, micros(), Policy::FIRST);
        let mut wanted = BTreeMap::new();
        for shoot in 0..shoots {
            for (name, replicas) in REPLICAS {
                truth.count(shoot, name, replicas);
                wanted.insert((shoot, name), replicas);
            }
        }
        world.put_policy(&Policy::FIRST.spec());
        Self {
            pair: Pair::start(&world, world::Role::Prober),
            world,
            truth,
            random: Rng::with_seed(seed),
            excused: micros(),
            wanted,
            open: Vec::new(),
            removed: BTreeMap::new(),
            tokens: 0,
            journal: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Goes all legs, with a rest before the first and after each.
    async fn go(&mut self, legs: &[Leg]) -> Result<(), String> {
        self.rest().await?;
        for leg in legs {
            let troubles = troubles(self.random.u64(..), SIZE.shoots, SIZE.nodes, SIZE.leg);
            let mut troubles = troubles.into_iter().peekable();
            let mut at = Duration::ZERO;
            for step in &leg.steps {
                let due = at + step.after;
                while let Some(trouble) = troubles.next_if(|it| it.at <= due) {
                    self.pass(trouble.at - at).await;
                    at = trouble.at;
                    self.befall(&trouble);
                }
                self.pass(due - at).await;
                at = due;
                self.carry_out(&step.event).await?;
            }
            troubles.for_each(|trouble| self.befall(&trouble));
            self.rest().await?;
            self.drill(&leg.drill).await?;
            // They recover while the next leg begins.
            self.heal().await?;
        }
        self.rest().await
    }

    /// Has a shoot be in trouble beside outages.
    fn befall(&mut self, moment: &Moment) {
        let Moment { shoot, trouble, .. } = *moment;
        let line = format!("{}: shoot {shoot} {trouble:?}", now());
        self.journal.push(line);
        trouble.befall(shoot, micros(), self.world.shoot(shoot), &mut self.truth);
    }

    /// Lets time pass, and looks after the processes.
    async fn pass(&mut self, time: Duration) {
        self.world.pass(time).await;
        for (at, said) in self.pair.losses() {
            self.truth.deposed(at);
            if at > self.excused {
                self.problems.push(said);
            }
        }
        self.problems.extend(self.pair.ended());
    }

    /// For a while one that loses the Lease is not to blame.
    fn excuse(&mut self) {
        self.excused = micros() + length(EXCUSED);
    }

    /// Every version of the dependents.
    fn history(&self) -> Vec<Version> {
        let names = names(SIZE.shoots);
        self.world.seed.store(|store, _| {
            let changes = store.versions("deployments");
            let seen = changes
                .filter_map(|it| Version::of(it.after.as_deref()?, &names, it.at.as_microsecond()));
            seen.collect()
        })
    }

    /// All that is broken so far.
    fn broken(&self) -> Vec<String> {
        let mut broken = judge(&self.history(), &self.truth, micros());
        broken.extend(self.pair.usurped(&self.world));
        broken.extend(self.problems.iter().cloned());
        broken
    }

    /// Which of the two leads, once one does.
    async fn leader(&self) -> Result<usize, String> {
        let look = || {
            let leader = self.pair.leader(&self.world);
            leader.ok_or("nobody leads".to_owned())
        };
        self.world.until(Duration::from_secs(60), look).await
    }

    fn shoot(&self, shoot: usize) -> &Shoot {
        self.world.shoot(shoot)
    }
}

/// Whether this is done to a process that then is not to blame for what it loses.
fn is_excuse(event: &Event) -> bool {
    matches!(
        event,
        Event::Hurt(Hurt::Freeze(_), _) | Event::Thaw | Event::RestartSeed
    )
}

/// Which of the two, if `leader` leads.
fn place(role: Role, leader: usize) -> usize {
    match role {
        Role::Leader => leader,
        Role::Follower => 1 - leader,
    }
}
