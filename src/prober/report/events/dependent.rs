//! Events on dependents: what was done to one, or is amiss with it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use crate::{
    api::ClusterHealthStatus,
    prober::{
        dependents::{Event as Met, Problem, What},
        step::Step,
    },
    status::{
        conditions::DEGRADED,
        events::{
            Event, holding,
            kinds::{NODES_NOT_READY, RELEASED, SCALED_DOWN, SCALED_UP, trouble},
        },
    },
};

/// What an earlier run may have told counts for so long: by then each dependent has been looked at.
const RECALL: Duration = Duration::from_secs(10 * 60);

/// Something that was done to a dependent, or was found to be amiss with it.
#[derive(Clone, Debug)]
pub struct DependentNews {
    /// What was done to it, or met there.
    pub event: Met,
    /// What was seen that asked for it; may be empty.
    pub why: String,
}

/// The object in the cluster's namespace.
pub(in crate::prober::report) fn regarding(
    namespace: &str,
    news: &DependentNews,
) -> ObjectReference {
    let reference = &news.event.dependent;
    ObjectReference {
        api_version: Some(reference.api_version.clone()),
        kind: Some(reference.kind.clone()),
        name: Some(reference.name.clone()),
        namespace: Some(namespace.to_owned()),
        uid: news.event.uid.as_deref().map(str::to_owned),
        ..ObjectReference::default()
    }
}

/// The troubles that an earlier run has told.
#[derive(Debug)]
pub(in crate::prober::report) struct Troubles {
    messages: String,
    until: Instant,
}

impl Troubles {
    /// By the status that it has left.
    pub(in crate::prober::report) fn recorded(status: &ClusterHealthStatus) -> Option<Self> {
        let degraded = holding(&status.conditions, DEGRADED)?;
        Some(Self {
            messages: degraded.message.clone(),
            until: Instant::now() + RECALL,
        })
    }

    /// Whether this one is among them; when it comes again it is another.
    fn forget(&mut self, problem: &Problem) -> bool {
        let known = self.messages.find(&problem.message);
        let Some(from) = known.filter(|_| Instant::now() < self.until) else {
            return false;
        };
        let to = from + problem.message.len();
        self.messages.replace_range(from..to, "");
        true
    }
}

/// What to tell of it, unless an earlier run has.
pub(in crate::prober::report) fn event(
    news: &DependentNews,
    policy: Option<&str>,
    told: Option<&mut Troubles>,
) -> Option<Event> {
    let by = policy.map_or_else(String::new, |policy| format!(" for policy {policy}"));
    let why = match &*news.why {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let (kind, note) = match &news.event.what {
        What::Troubled(problem) => {
            let known = told.is_some_and(|told| told.forget(problem));
            return (!known).then(|| Event::new(trouble(problem.reason), &*problem.message));
        }
        What::Did(Step::ScaleDown { from }, _) => (
            &SCALED_DOWN,
            format!("scaled from {from} to 0 replicas{by}{why}"),
        ),
        What::Did(Step::ScaleUp { to }, _) => (
            &SCALED_UP,
            format!("scaled from 0 to {to} replicas{by}{why}"),
        ),
        What::Unready(after) => (
            &NODES_NOT_READY,
            format!(
                "scaled up{by}, although not all nodes that count are ready after \
                 {after:?} (awaitNodes)"
            ),
        ),
        What::Did(_, found) if news.event.is_release() => {
            let cause = match found.ignored {
                true => ": it says ignore-scaling",
                false => &why,
            };
            let replicas = found.replicas;
            let note = format!("mark removed{by}, replicas left at {replicas}{cause}");
            (&RELEASED, note)
        }
        _ => return None,
    };
    Some(Event::new(kind, note))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{
        prober::{
            fixtures::{dependent, observed},
            report::fixtures,
            step::{Aim, Observed},
        },
        status::events::{Kind, kinds::SCALING_LATE},
    };

    fn news(what: What, why: &str) -> DependentNews {
        DependentNews {
            event: Met {
                dependent: dependent("kcm", 0, 0).reference,
                uid: Some("uid-kcm".into()),
                aim: Aim::Up,
                what,
                again: 0,
            },
            why: why.to_owned(),
        }
    }

    fn did(step: Step, replicas: i32, ignored: bool) -> What {
        let found = Observed {
            ignored,
            ..observed(replicas)
        };
        What::Did(step, found)
    }

    #[rstest]
    #[case::down(
        did(Step::ScaleDown { from: 2 }, 2, false), "3 of 3 are expired", &SCALED_DOWN,
        "scaled from 2 to 0 replicas for policy shoots: 3 of 3 are expired"
    )]
    #[case::up(
        did(Step::ScaleUp { to: 2 }, 0, false), "0 of 3 are expired", &SCALED_UP,
        "scaled from 0 to 2 replicas for policy shoots: 0 of 3 are expired"
    )]
    #[case::unready(
        What::Unready(Duration::from_secs(120)), "0 of 3 are expired", &NODES_NOT_READY,
        "scaled up for policy shoots, although not all nodes that count are ready \
         after 120s (awaitNodes)"
    )]
    #[case::released(
        did(Step::Unmark { with_record: false }, 0, false), "the Cluster is gone", &RELEASED,
        "mark removed for policy shoots, replicas left at 0: the Cluster is gone"
    )]
    #[case::ignored(
        did(Step::Unmark { with_record: false }, 1, true), "3 of 3 are expired", &RELEASED,
        "mark removed for policy shoots, replicas left at 1: it says ignore-scaling"
    )]
    #[case::trouble(
        What::Troubled(fixtures::problem("kcm", "ScalingLate", "Deployment kcm: late")), "", &SCALING_LATE,
        "Deployment kcm: late"
    )]
    fn each_is_told(
        #[case] what: What,
        #[case] why: &str,
        #[case] kind: &'static Kind,
        #[case] note: &str,
    ) {
        let told = event(&news(what, why), Some("shoots"), None);
        assert_eq!(told, Some(Event::new(kind, note)));
    }
}
