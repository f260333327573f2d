//! Events on dependents: what was done to one, or is amiss with it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use crate::{
    api::{ClusterHealthStatus, DependentRef},
    prober::{
        debts::Problem,
        plan::{Aim, Observed, Step},
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentNews {
    /// The dependent, in the namespace of its cluster.
    pub reference: DependentRef,
    /// Its UID, if it was read.
    pub uid: Option<Arc<str>>,
    /// What it is.
    pub what: Deed,
    /// What was seen that asked for it; may be empty.
    pub why: String,
}

/// What was done to a dependent, or is amiss with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It was scaled to zero from so many replicas.
    ScaledDown {
        /// What it had.
        from: i32,
    },
    /// It was scaled back to so many replicas.
    ScaledUp {
        /// What it has again.
        to: i32,
    },
    /// The mark was removed, and it was left with so many replicas.
    Released {
        /// What it has; `None` where the seed serves no scale, so that nobody knows.
        replicas: Option<i32>,
        /// Since it says `ignore-scaling`.
        ignored: bool,
    },
    /// It is scaled back although the nodes that were silent were not all ready in time.
    NodesNotReady {
        /// For how long it waited.
        after: Duration,
    },
    /// It is not where it should be, since just now or for another reason than before.
    Trouble(Problem),
}

impl Deed {
    /// A step that was carried out for this aim on what was found; `None` if nobody needs to be told: the
    /// mark of what is restored falls later.
    pub fn of(aim: Aim, step: Step, found: Option<&Observed>) -> Option<Self> {
        match step {
            Step::DropMarkAndRecord if aim == Aim::Restore => None,
            Step::ScaleDown { from } => Some(Self::ScaledDown { from }),
            Step::ScaleUp { to } => Some(Self::ScaledUp { to }),
            Step::DropMarkAndRecord | Step::DropMark => Some(Self::Released {
                replicas: found.and_then(Observed::known_replicas),
                ignored: found.is_some_and(|found| found.ignored),
            }),
            Step::Record { .. } | Step::Wait | Step::Nothing(_) => None,
        }
    }
}

/// The object in the cluster's namespace.
pub(in crate::prober::report) fn regarding(
    namespace: &str,
    news: &DependentNews,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(news.reference.api_version.clone()),
        kind: Some(news.reference.kind.clone()),
        name: Some(news.reference.name.clone()),
        namespace: Some(namespace.to_owned()),
        uid: news.uid.as_deref().map(str::to_owned),
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
    let (kind, note) = match &news.what {
        Deed::ScaledDown { from } => (
            &SCALED_DOWN,
            format!("scaled from {from} to 0 replicas{by}{why}"),
        ),
        Deed::ScaledUp { to } => (
            &SCALED_UP,
            format!("scaled from 0 to {to} replicas{by}{why}"),
        ),
        Deed::NodesNotReady { after } => (
            &NODES_NOT_READY,
            format!(
                "scaled up{by}, although not all nodes that were silent in the outage are ready again after \
                 {after:?} (awaitNodes)"
            ),
        ),
        Deed::Released { replicas, ignored } => {
            let cause = if *ignored {
                ": it says ignore-scaling"
            } else {
                &why
            };
            let left = match replicas {
                Some(replicas) => format!("replicas left at {replicas}"),
                None => "replicas left as they are".to_owned(),
            };
            let note = format!("mark removed{by}, {left}{cause}");
            (&RELEASED, note)
        }
        Deed::Trouble(problem) => {
            if told.is_some_and(|told| told.forget(problem)) {
                return None;
            }
            (trouble(problem.reason), problem.message.clone())
        }
    };
    Some(Event::new(kind, note))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::{
        prober::report::{
            ClusterReport,
            finding::Finding,
            fixtures::{self, owed, report},
        },
        status::events::{
            Kind,
            kinds::{CONTENDED, SCALING_FORBIDDEN},
        },
    };

    fn news(what: Deed, why: &str) -> DependentNews {
        DependentNews {
            reference: owed("kcm").r#ref,
            uid: Some("uid-kcm".into()),
            what,
            why: why.to_owned(),
        }
    }

    fn problem(reason: &'static str) -> Problem {
        fixtures::problem("kcm", reason, &format!("Deployment kcm: {reason}"))
    }

    #[rstest]
    #[case::down(
        Deed::ScaledDown { from: 2 }, "3 of 3 are expired", &SCALED_DOWN,
        "scaled from 2 to 0 replicas for policy shoots: 3 of 3 are expired"
    )]
    #[case::up(
        Deed::ScaledUp { to: 2 }, "0 of 3 are expired", &SCALED_UP,
        "scaled from 0 to 2 replicas for policy shoots: 0 of 3 are expired"
    )]
    #[case::unready(
        Deed::NodesNotReady { after: Duration::from_secs(120) }, "0 of 3 are expired", &NODES_NOT_READY,
        "scaled up for policy shoots, although not all nodes that were silent in the outage are ready again \
         after 120s (awaitNodes)"
    )]
    #[case::released(
        Deed::Released { replicas: Some(0), ignored: false }, "the Cluster is gone", &RELEASED,
        "mark removed for policy shoots, replicas left at 0: the Cluster is gone"
    )]
    #[case::released_without_a_scale(
        Deed::Released { replicas: None, ignored: false }, "the Cluster is gone", &RELEASED,
        "mark removed for policy shoots, replicas left as they are: the Cluster is gone"
    )]
    #[case::ignored(
        Deed::Released { replicas: Some(1), ignored: true }, "3 of 3 are expired", &RELEASED,
        "mark removed for policy shoots, replicas left at 1: it says ignore-scaling"
    )]
    #[case::trouble(
        Deed::Trouble(problem("Contended")), "", &CONTENDED, "Deployment kcm: Contended"
    )]
    fn each_is_told(
        #[case] what: Deed,
        #[case] why: &str,
        #[case] kind: &'static Kind,
        #[case] note: &str,
    ) {
        let told = event(&news(what, why), Some("shoots"), None);
        assert_eq!(told, Some(Event::new(kind, note)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_that_an_earlier_run_has_told_is_told_when_it_comes_again() {
        let troubled = ClusterReport {
            problems: vec![problem("ScalingLate"), problem("ScalingForbidden")],
            ..report(Finding::Pending)
        };
        let before = ClusterHealthStatus::default();
        let said = fixtures::written(&troubled, &before, Timestamp::UNIX_EPOCH);
        let forbidden = Some(&SCALING_FORBIDDEN);
        let news = news(Deed::Trouble(problem("ScalingForbidden")), "");
        let tell = |troubles: &mut Option<Troubles>| {
            event(&news, None, troubles.as_mut()).map(|event| event.kind)
        };
        let mut told = Troubles::recorded(&said);
        assert_eq!(tell(&mut told), None);
        assert_eq!(tell(&mut told), forbidden);
        let mut told = Troubles::recorded(&said);
        tokio::time::advance(RECALL).await;
        assert_eq!(tell(&mut told), forbidden);
        assert_eq!(tell(&mut Troubles::recorded(&before)), forbidden);
    }
}
