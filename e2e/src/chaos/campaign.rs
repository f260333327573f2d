//! All runs of a campaign: the undisturbed ones first, then every point, several at once.

use super::{
    Fault, Point, Tally, point,
    run::{self, Expected, Outcome},
    stage::Stage,
};
use crate::Env;
use anyhow::{Context as _, Result, ensure};
use fake::chaos::snapshot;
use futures::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// A fault whose write was not made is tried again so often: the writes of statuses and events are
/// not the same in every run.
const ATTEMPTS: usize = 2;
/// So many seeds are restarted, with one run on each at a time.
const FRAGILE_SEEDS: usize = 4;

/// What a campaign tries.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From which everything follows that is drawn.
    pub seed: u64,
    /// Only a sample: twelve kinds of faults that need no seed of their own, each at another write.
    pub sample: bool,
    /// The kinds of faults. Empty for all.
    pub kinds: Vec<Fault>,
    /// So many pairs of faults at random besides.
    pub pairs: usize,
    /// Not more points than this, at random.
    pub points: Option<usize>,
    /// These points alone.
    pub only: Vec<Point>,
    /// How many runs at once.
    pub parallel: usize,
}

impl Settings {
    /// Whether it is the whole campaign or the sample, so that each fault at a write to a dependent has to
    /// happen. Of a part that somebody has picked that is not asked: it may hold none.
    pub fn are_thorough(&self) -> bool {
        self.kinds.is_empty() && self.points.is_none() && self.only.is_empty()
    }
}

/// A campaign that is prepared: it knows what an undisturbed run writes.
pub struct Campaign {
    stage: Stage,
    expected: Expected,
    settings: Settings,
    runs: AtomicUsize,
}

impl Campaign {
    /// Starts the servers, and records two undisturbed runs, which must be alike.
    pub async fn prepare(env: &Env, name: &str, settings: Settings) -> Result<Self> {
        let stage = Stage::new(env, name).await?;
        let undisturbed = Point::none();
        let record = async |name| {
            let outcome = run::run(&stage, name, &undisturbed, None).await?;
            let problems = outcome.problems.join("\n");
            ensure!(problems.is_empty(), "undisturbed:\n{problems}");
            Ok(outcome.seen)
        };
        let (mut expected, other) = tokio::try_join!(record("first"), record("second"))?;
        for (one, other) in expected.states.iter().zip(&other.states) {
            let differences = snapshot::differences(one, other);
            ensure!(
                differences.is_empty(),
                "two undisturbed runs differ: {differences:?}"
            );
        }
        // What only one of them wrote is no place to rely on.
        expected.order.retain(|it| other.writes.contains_key(it));
        // Nor what a busy machine had both write again.
        let is_again = |it: &mut String| point::is_again_to_a_dependent(it);
        for again in expected.order.extract_if(.., is_again) {
            eprintln!("{again} in both undisturbed runs: no fault is tried there");
        }
        Ok(Self {
            stage,
            expected,
            settings,
            runs: AtomicUsize::new(0),
        })
    }

    /// What an undisturbed run writes, in order.
    pub fn writes(&self) -> &[String] {
        &self.expected.order
    }

    /// The points that are tried.
    pub fn points(&self) -> Vec<Point> {
        let settings = &self.settings;
        if !settings.only.is_empty() {
            return settings.only.clone();
        }
        let real: Vec<_> = Fault::real().collect();
        let kinds = match settings.kinds.as_slice() {
            [] => &real,
            kinds => kinds,
        };
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let writes = self.writes();
        let mut points = match settings.sample {
            true => point::sample(writes, kinds, &mut random),
            false => point::every(writes, kinds),
        };
        points.extend(point::pairs(writes, kinds, settings.pairs, &mut random));
        random.shuffle(&mut points);
        points.truncate(settings.points.unwrap_or(usize::MAX));
        points
    }

    /// Tries them. Each is counted, and told of, as soon as its run has ended, so that the tally of a
    /// campaign that is cut short is true as well.
    pub async fn run(&self, tally: &Mutex<Tally>, told: impl Fn(&Point, &str)) -> Result<()> {
        let is_fragile = |point: &Point| point.any(Fault::needs_own_seed);
        let (fragile, robust): (Vec<_>, Vec<_>) = self.points().into_iter().partition(is_fragile);
        let many = async {
            let runs = stream::iter(robust).map(Ok::<_, anyhow::Error>);
            let parallel = Some(self.settings.parallel.max(1));
            runs.try_for_each_concurrent(parallel, async |point| {
                self.attempt(&self.stage, point, tally, &told).await;
                Ok(())
            })
            .await
        };
        let fragile = Mutex::new(fragile);
        let next = || fragile.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let restarted = (0..FRAGILE_SEEDS).map(async |place| {
            let Some(mut point) = next() else {
                return Ok(());
            };
            let stage = self.stage.fragile(&format!("fragile-{place}")).await?;
            loop {
                self.attempt(&stage, point, tally, &told).await;
                match next() {
                    Some(other) => point = other,
                    None => return Ok(()),
                }
            }
        });
        tokio::try_join!(many, try_join_all(restarted))?;
        Ok(())
    }

    async fn attempt(
        &self,
        stage: &Stage,
        point: Point,
        tally: &Mutex<Tally>,
        told: &impl Fn(&Point, &str),
    ) {
        for attempt in 1.. {
            let number = self.runs.fetch_add(1, Ordering::Relaxed);
            let name = format!("p{number}");
            let ended = run::run(stage, &name, &point, Some(&self.expected)).await;
            let ended = ended.with_context(|| format!("the run {name} could not be made"));
            let outcome = ended.unwrap_or_else(|error| Outcome {
                problems: vec![format!("{error:#}")],
                ..Outcome::default()
            });
            let again =
                outcome.problems.is_empty() && !outcome.unreached.is_empty() && attempt < ATTEMPTS;
            if !again {
                let said = match (outcome.problems.as_slice(), outcome.unreached.as_slice()) {
                    ([], []) => format!("{name}: as it should be"),
                    ([], unreached) => format!("{name}: not written: {}", unreached.join(", ")),
                    (problems, _) => format!("{name}: {}", problems.join("; ")),
                };
                told(&point, &said);
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                tally.add(point, outcome.took, outcome.unreached, outcome.problems);
                return;
            }
        }
    }
}
