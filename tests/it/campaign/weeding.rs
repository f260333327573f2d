//! Walks of the weeder through whatever may happen to services, pods, policies, the seed and two weeders. Each deletion
//! must be one that was called for, and after each leg all is healed and those that crash are deleted in time.

mod act;
mod plan;
mod pods;
mod rest;
mod services;

use std::{collections::BTreeSet, time::Duration};

use fake::{
    farm::{Micros, namespace},
    fault::Fate,
    oracle::weeder::{Deletion, Seed, Span},
    server::Asked,
    store::Verb,
};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::{
    plan::{Event, Plan, Roughness},
    pods::{Pods, SERVICES},
};
use super::{
    draw::{self, Draw},
    pair::Pair,
};
use crate::world::{Role, World, in_virtual_time, micros, now};

/// How many walks are carried out where not all of the campaign is.
const WALKS: usize = 16;
const LEG: Duration = Duration::from_secs(60);
/// Between two looks of kubelets and controllers.
const TICK: Duration = Duration::from_millis(500);
/// How long a change may take to be seen where nothing is wrong with watches and processes, and elsewhere: a watch that
/// broke may be tried again only after 30 s.
const LAG: SignedDuration = SignedDuration::from_secs(1);
const LONG_LAG: SignedDuration = SignedDuration::from_secs(60);
/// Until a pod is deleted, where nothing is wrong.
const WITHIN: SignedDuration = SignedDuration::from_secs(5);
/// A weeder waits no less for an answer to a deletion.
const PATIENCE: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(1);
/// How long something may be in the way after a leg: an answer is waited for, or a watch is not tried again yet.
const AFTER: [(Roughness, Duration); 3] = [
    (Roughness::Calm, Duration::ZERO),
    (Roughness::Refusing, Duration::from_secs(11)),
    (Roughness::Rough, Duration::from_secs(31)),
];
/// The kinds that a weeder reads.
const KINDS: [&str; 4] = ["weedpolicies", "namespaces", "endpointslices", "pods"];
/// The documented policy.
const POLICY: &str = include_str!("../../../docs/examples/weed-policy.yaml");

#[test]
fn weedings() {
    let draw = Draw::new("weedings");
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
    let mut walk = Weeding::begin(seed);
    let mut problems = Vec::new();
    if let Err(problem) = walk.go().await {
        problems.push(problem);
    }
    problems.extend(walk.broken());
    if !problems.is_empty() {
        problems.extend(walk.story());
    }
    problems
}

struct Weeding {
    world: World,
    pair: Pair,
    pods: Pods,
    plan: Plan,
    random: Rng,
    places: usize,
    /// The policies as they should be.
    policies: Vec<Value>,
    /// The services that are not ready, and those with two slices.
    away: BTreeSet<(usize, &'static str)>,
    second: BTreeSet<(usize, &'static str)>,
    /// What makes up for what was done and is not yet over, and when.
    open: Vec<(Instant, Event)>,
    /// Until then a weeder may lose the Lease.
    excused: Micros,
    /// When something was wrong with watches or processes, and when nothing at all was.
    rough: Vec<Span>,
    calm: Vec<Span>,
    /// What was done, for whoever reads of a failure.
    journal: Vec<(Timestamp, String)>,
    problems: Vec<String>,
}

impl Weeding {
    fn begin(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let places = random.usize(2..4);
        let world = World::new(0, 0, Duration::from_secs(40));
        for place in 0..places {
            world.put(&json!({"kind": "Namespace", "metadata": {"name": namespace(place)}}));
        }
        let lasts = random.u32(8..40);
        let mut shoots: Value = serde_saphyr::from_str(POLICY).unwrap();
        let spec = json!({"mode": "Enforce", "watchDuration": format!("{lasts}s")});
        json_patch::merge(&mut shoots["spec"], &spec);
        let mut more = shoots.clone();
        more["metadata"] = json!({"name": "more"});
        more["spec"] = json!({
            "mode": if random.bool() { "Enforce" } else { "DryRun" },
            "watchDuration": "25s",
            "namespaceSelector": {"matchLabels": {"zone": "a"}},
            "servicesAndDependantSelectors": {pods::API_SERVER: {"podSelectors": [
                {"matchLabels": {"role": "scheduler"}},
                {"matchLabels": {"role": "compact"}},
            ]}},
        });
        let mut policies = vec![shoots, more];
        policies.truncate(random.usize(1..3));
        let walk = Self {
            pair: Pair::start(&world, Role::Weeder),
            pods: Pods::create(random.fork(), &world, places),
            plan: Plan::new(random.fork(), places, policies.len()),
            world,
            random,
            places,
            policies,
            away: BTreeSet::new(),
            second: BTreeSet::new(),
            open: Vec::new(),
            excused: micros(),
            rough: Vec::new(),
            calm: Vec::new(),
            journal: Vec::new(),
            problems: Vec::new(),
        };
        (0..places).for_each(|place| walk.label(place, true));
        walk
    }

    /// Goes a leg of each roughness in any order, with a rest and a drill before the first and after each.
    async fn go(&mut self) -> Result<(), String> {
        let mut legs = AFTER;
        self.random.shuffle(&mut legs);
        self.rest(Duration::ZERO).await?;
        let mut calm_since = now();
        self.drill().await?;
        for (roughness, after) in legs {
            let begun = now();
            self.leg(roughness).await;
            self.rest(after).await?;
            let over = now();
            if roughness != Roughness::Calm {
                self.calm.push((calm_since, begun));
                calm_since = over;
            }
            if roughness == Roughness::Rough {
                self.rough.push((begun, over));
            }
            self.drill().await?;
        }
        self.calm.push((calm_since, now()));
        Ok(())
    }

    async fn leg(&mut self, roughness: Roughness) {
        self.note(format!("{roughness:?}"));
        for policy in 0..self.policies.len() {
            self.put_policy(policy);
        }
        self.pods.recover(&self.world, true, |_| true);
        for place in 0..self.places {
            for service in SERVICES {
                self.set_ready(place, service, true);
            }
        }
        self.plan.begin(roughness);
        let end = Instant::now() + LEG;
        while Instant::now() < end {
            let (pause, event) = self.plan.next();
            self.pass(pause).await;
            let over = self.open.extract_if(.., |(end, _)| *end <= Instant::now());
            for (_, end) in over.collect::<Vec<_>>() {
                self.carry_out(&end).await;
            }
            // Nothing is done a second time that is not over.
            let is_open = event
                .end()
                .is_some_and(|end| self.open.iter().any(|it| it.1 == end));
            if is_open {
                continue;
            }
            self.carry_out(&event).await;
            if let Some(end) = event.end() {
                self.open
                    .push((Instant::now() + self.plan.lasts(&event), end));
            }
        }
    }

    /// Lets time pass, in which kubelets and controllers work, and looks after the processes.
    async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.world.pass(left.min(TICK)).await;
            self.pods.tick(&self.world);
        }
        let lost = self.pair.losses().into_iter();
        let lost = lost.filter(|(at, _)| *at > self.excused);
        self.problems.extend(lost.map(|(_, said)| said));
        self.problems.extend(self.pair.ended());
    }

    /// All that is broken.
    fn broken(&self) -> Vec<String> {
        let calls = self.world.seed.calls();
        let deletions: Vec<Deletion> = calls.iter().filter_map(deletion).collect();
        let lists = calls.iter().filter(|it| it.call.verb == Verb::List);
        let looks: Vec<Timestamp> = lists.map(|it| it.at).collect();
        let is_rough = |it: &&Asked| {
            let mut rough = self.rough.iter();
            rough.any(|(from, until)| (*from..=*until).contains(&it.at))
        };
        let calm = calls.iter().filter(|it| !is_rough(it));
        let calm: Vec<Deletion> = calm.filter_map(lasting).collect();
        let mut broken = self.world.seed.store(|store, _| {
            let seed = |lag| {
                let history = KINDS.iter().flat_map(|it| store.versions(it));
                Seed::new(history, &looks, lag)
            };
            let mut broken = seed(LONG_LAG).broken(&deletions);
            let strict = seed(LAG);
            broken.extend(strict.broken(&calm));
            broken.extend(strict.missed(&deletions, &self.calm, WITHIN));
            broken
        });
        broken.sort();
        broken.dedup();
        broken.extend(self.pair.usurped(&self.world));
        broken.extend(self.problems.iter().cloned());
        broken
    }

    /// What was done, and what the weeders did.
    fn story(&self) -> Vec<String> {
        let calls = self.world.seed.calls();
        let deletions = calls.iter().filter(|it| Deletion::of(it).is_some());
        let mut story = self.journal.clone();
        story.extend(deletions.map(|it| {
            let Asked {
                at,
                call,
                carried_out,
                fate,
            } = it;
            let wanted = &call.body["preconditions"];
            let brief = call.brief();
            (*at, format!("  {brief} {wanted}: {carried_out:?} {fate:?}"))
        }));
        story.sort_by_key(|(at, _)| at.as_millisecond());
        let told = story
            .into_iter()
            .map(|(at, what)| format!("{at:.3}: {what}"));
        told.collect()
    }
}

/// A deletion of a pod, if this is one. It counts a moment later than it was noted: what happens at the same time is
/// noted with some nanoseconds between.
fn deletion(asked: &Asked) -> Option<Deletion> {
    let mut deletion = Deletion::of(asked)?;
    deletion.at += MOMENT;
    Some(deletion)
}

/// The same, with the time until which it was under way at least, if it was not held up on its way.
fn lasting(asked: &Asked) -> Option<Deletion> {
    let mut deletion = deletion(asked)?;
    deletion.until += match asked.fate {
        Some(Fate::Hang { .. }) => PATIENCE,
        Some(Fate::Late(time)) => time.min(PATIENCE),
        _ => Duration::ZERO,
    };
    Some(deletion)
}
