//! Whether the operator may do to pods what a recovery calls for, asked before there is one: they are
//! watched and deleted only then.
//!
//! What is missing is reported. Nothing is withheld for it, nor told where it cannot be asked.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::api::ApiResource;
use tokio::{sync::watch, time::Instant};

use super::report::WeedReporter;
use crate::runtime::{
    rights::{Review, Right},
    seed::Seed,
    timer::until,
};

/// What a window takes, in whatever namespace it opens. What is listed and watched all the time is
/// missed at once.
const VERBS: [&str; 3] = ["list", "watch", "delete"];

/// The policies in force: the generation of each, by its UID. Whoever changes one may look for an
/// answer.
pub type InForce = BTreeMap<Arc<str>, i64>;

/// Asks the seed for rights, and reports which are missing.
pub struct Reviewer {
    /// Where it asks, by and by.
    pub seed: Seed,
    /// Whom it tells.
    pub reporter: WeedReporter,
}

impl Reviewer {
    /// Asks when a policy comes into force or changes, and at intervals while one is in force. Ends with
    /// the sender.
    pub async fn run(self, mut policies: watch::Receiver<InForce>) {
        let mut due = None;
        loop {
            tokio::select! {
                // A change first: it may be that nothing is due any more.
                biased;
                changed = policies.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let any = !policies.borrow_and_update().is_empty();
                    due = any.then(Instant::now);
                }
                () = until(due) => {
                    let review = self.review().await;
                    due = Some(Instant::now() + review.again());
                    if let Some(missing) = review.news() {
                        self.reporter.rights(missing);
                    }
                },
            }
        }
    }

    async fn review(&self) -> Review {
        let mut review = Review::default();
        let pods = ApiResource::erase::<Pod>(&());
        let rights = VERBS.map(|verb| Right::new(verb, &pods));
        review.ask(&self.seed, None, rights).await;
        review
    }
}
