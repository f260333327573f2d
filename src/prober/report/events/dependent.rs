//! Events on dependents: what was done to one, or is amiss with it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use crate::{
    api::ClusterHealthStatus,
    prober::{
        debts::Problem,
        flow::{FlowEvent, What},
        plan::Step,
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
    pub event: FlowEvent,
    /// Why it is not where it should be, if that is the news.
    pub problem: Option<Problem>,
    /// What was seen that asked for it; may be empty.
    pub why: String,
}

/// The object in the cluster's namespace.
pub(in crate::prober::report) fn regarding(
    namespace: &str,
    news: &DependentNews,
) -> ObjectReference {
    let reference = &news.event.dependent.reference;
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
    if let Some(problem) = &news.problem {
        let known = told.is_some_and(|told| told.forget(problem));
        return (!known).then(|| Event::new(trouble(problem.reason), &*problem.message));
    }
    let (kind, note) = match &news.event.what {
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
        What::Did(Step::DropMark | Step::DropMarkAndRecord, found) => {
            let cause = match found {
                Some(found) if found.ignored => ": it says ignore-scaling",
                _ => &why,
            };
            let left = match found.as_ref().map(|it| it.replicas) {
                Some(replicas) => format!("replicas left at {replicas}"),
                None => "replicas left as they are".to_owned(),
            };
            let note = format!("mark removed{by}, {left}{cause}");
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
            fixtures::dependent,
            plan::{Family, Observed, Record},
            report::fixtures,
        },
        status::events::{Kind, kinds::SCALING_LATE},
    };

    fn news(what: What, problem: Option<Problem>, why: &str) -> DependentNews {
        DependentNews {
            event: FlowEvent {
                at: Instant::now(),
                dependent: dependent("kcm", 0, 0),
                uid: Some("uid-kcm".into()),
                what,
            },
            problem,
            why: why.to_owned(),
        }
    }

    fn problem(reason: &'static str) -> Problem {
        fixtures::problem("kcm", reason, &format!("Deployment kcm: {reason}"))
    }

    /// A dependent that is found so.
    fn found(family: Family, replicas: i32, ignored: bool) -> Option<Observed> {
        Some(Observed {
            family,
            uid: None,
            resource_version: String::new(),
            replicas,
            marked: true,
            record: Record::Absent,
            ignored,
            any_left: false,
            running: false,
        })
    }

    #[rstest]
    #[case::down(
        What::Did(Step::ScaleDown { from: 2 }, None), None, "3 of 3 are expired", &SCALED_DOWN,
        "scaled from 2 to 0 replicas for policy shoots: 3 of 3 are expired"
    )]
    #[case::up(
        What::Did(Step::ScaleUp { to: 2 }, None), None, "0 of 3 are expired", &SCALED_UP,
        "scaled from 0 to 2 replicas for policy shoots: 0 of 3 are expired"
    )]
    #[case::unready(
        What::Unready(Duration::from_secs(120)), None, "0 of 3 are expired", &NODES_NOT_READY,
        "scaled up for policy shoots, although not all nodes that count are ready \
         after 120s (awaitNodes)"
    )]
    #[case::released(
        What::Did(Step::DropMark, found(Family::Apps, 0, false)), None, "the Cluster is gone", &RELEASED,
        "mark removed for policy shoots, replicas left at 0: the Cluster is gone"
    )]
    #[case::ignored(
        What::Did(Step::DropMark, found(Family::Apps, 1, true)), None, "3 of 3 are expired", &RELEASED,
        "mark removed for policy shoots, replicas left at 1: it says ignore-scaling"
    )]
    #[case::trouble(
        What::Late(Duration::from_secs(1)), Some(problem("ScalingLate")), "", &SCALING_LATE,
        "Deployment kcm: ScalingLate"
    )]
    fn each_is_told(
        #[case] what: What,
        #[case] problem: Option<Problem>,
        #[case] why: &str,
        #[case] kind: &'static Kind,
        #[case] note: &str,
    ) {
        let told = event(&news(what, problem, why), Some("shoots"), None);
        assert_eq!(told, Some(Event::new(kind, note)));
    }
}
