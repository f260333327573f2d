//! How much of a campaign is carried out, what of it, and what failed.
//!
//! `CAMPAIGN=all` carries out all of it, with other random walks each time. Otherwise it is a part, always the same; with
//! `CAMPAIGN=first` no more of it is carried out once one has failed. `CAMPAIGN_SEED` has the same drawn again, and
//! `CAMPAIGN_AGAIN` carries out nothing but one that failed, by its name.

use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use fastrand::Rng;

/// What is drawn.
pub struct Draw {
    what: &'static str,
    seed: u64,
    is_all: bool,
    /// Whether the first failure is enough.
    is_first: bool,
    again: Option<String>,
}

impl Draw {
    /// A draw for one part of the campaign.
    pub fn new(what: &'static str) -> Self {
        let campaign = env::var("CAMPAIGN").unwrap_or_default();
        let is_all = campaign == "all";
        let seed =
            env::var("CAMPAIGN_SEED").map(|it| it.parse().expect("CAMPAIGN_SEED is a number"));
        Self {
            what,
            seed: seed.unwrap_or_else(|_| {
                if is_all {
                    fastrand::u64(..1_000_000)
                } else {
                    1
                }
            }),
            is_all,
            is_first: campaign == "first",
            again: env::var("CAMPAIGN_AGAIN").ok(),
        }
    }

    /// The one that is to be carried out again.
    pub fn again(&self) -> Option<&str> {
        self.again.as_deref()
    }

    /// An eighth of these, or all.
    pub fn share<T>(&self, mut all: Vec<T>) -> Vec<T> {
        let mut random = Rng::with_seed(self.seed);
        random.shuffle(&mut all);
        if !self.is_all {
            all.truncate(all.len() / 8);
        }
        all
    }

    /// Seeds of so many, or of ten times as many in all of the campaign.
    pub fn seeds(&self, count: usize) -> Vec<u64> {
        let mut random = Rng::with_seed(self.seed);
        let count = if self.is_all { 10 * count } else { count };
        (0..count).map(|_| random.u64(..1_000_000)).collect()
    }
}

/// Carries out all of these, on all cores. One returns its name and what is broken.
pub fn all<T: Sync>(draw: &Draw, all: Vec<T>, one: impl Fn(&T) -> (String, Vec<String>) + Sync) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(it) = all.get(next.fetch_add(1, Relaxed)) {
                    // Of which all jitter follows.
                    fastrand::seed(draw.seed);
                    let (name, broken) = one(it);
                    if !broken.is_empty() {
                        println!("{name}:\n  {}", broken.join("\n  "));
                        failed.lock().unwrap().push(name);
                        if draw.is_first {
                            next.store(all.len(), Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (failed, Draw { what, seed, .. }) = (failed.into_inner().unwrap(), draw);
    assert!(
        failed.is_empty(),
        "{} of {} {what} failed: {failed:?}; the same again with CAMPAIGN_SEED={seed}, one of them with \
         CAMPAIGN_AGAIN={}",
        failed.len(),
        all.len(),
        failed[0]
    );
}
