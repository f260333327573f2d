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

/// When it is asked, and for whom.
#[derive(Default)]
struct Agenda {
    policies: InForce,
    due: Option<Instant>,
}

fn needed() -> impl Iterator<Item = Right> {
    let pods = ApiResource::erase::<Pod>(&());
    VERBS.into_iter().map(move |verb| Right::new(verb, &pods))
}

impl Agenda {
    /// Takes up which policies are in force by now. If that is new it is due; without any, nothing is.
    fn adopt(&mut self, policies: &InForce, now: Instant) {
        if self.policies != *policies {
            self.policies.clone_from(policies);
            self.due = (!policies.is_empty()).then_some(now);
        }
    }

    fn postpone(&mut self, until: Instant) {
        self.due = Some(until);
    }
}

impl Reviewer {
    /// Asks when a policy comes into force, goes or changes, and now and then while there is one. Ends
    /// when nobody can tell any more which there are.
    pub async fn run(self, mut policies: watch::Receiver<InForce>) {
        let mut agenda = Agenda::default();
        loop {
            agenda.adopt(&policies.borrow_and_update(), Instant::now());
            tokio::select! {
                // A change first: it may be that nothing is due any more.
                biased;
                changed = policies.changed() => if changed.is_err() {
                    return;
                },
                () = until(agenda.due) => {
                    let review = self.review().await;
                    agenda.postpone(Instant::now() + review.again());
                    if let Some(missing) = review.news() {
                        self.reporter.rights(missing);
                    }
                },
            }
        }
    }

    async fn review(&self) -> Review {
        let mut review = Review::default();
        let rights = needed().map(|right| (right, &[][..]));
        review.ask(&self.seed, None, rights).await;
        review
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LATER: Duration = Duration::from_secs(60);

    fn policies(generations: &[(&str, i64)]) -> InForce {
        let policies = generations.iter();
        policies.map(|(uid, it)| (Arc::from(*uid), *it)).collect()
    }

    #[test]
    fn what_is_new_or_changed_is_due() {
        let start = Instant::now();
        let mut agenda = Agenda::default();
        agenda.adopt(&policies(&[]), start);
        assert_eq!(agenda.due, None);
        agenda.adopt(&policies(&[("a", 1)]), start);
        assert_eq!(agenda.due, Some(start));

        // The same again changes nothing.
        let next = start + LATER * 2;
        agenda.postpone(next);
        agenda.adopt(&policies(&[("a", 1)]), start);
        assert_eq!(agenda.due, Some(next));

        // Another generation, another policy, another one of that name.
        let later = start + LATER;
        for changed in [&[("a", 2)][..], &[("a", 2), ("b", 1)], &[("c", 1)]] {
            agenda.adopt(&policies(changed), later);
            assert_eq!(agenda.due, Some(later));
            agenda.postpone(next);
        }

        // The last is gone, or suspended.
        agenda.adopt(&policies(&[]), later);
        assert_eq!(agenda.due, None);
    }

    #[test]
    fn what_a_window_needs() {
        let needed: Vec<String> = needed().map(|right| right.to_string()).collect();
        assert_eq!(needed, ["list pods", "watch pods", "delete pods"]);
    }
}
