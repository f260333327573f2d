//! Whether the cluster is probed, and why or why not.

use serde::Serialize;

use super::{Answers, Refused, record::Record};
use crate::{
    api,
    cluster::{Eligibility, Selected},
    prober::{
        report::{evidence, reason},
        treatment::Treatment,
    },
};

/// Whether a cluster is probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probing {
    /// Whether it is; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probed: Option<bool>,
    /// Why not, in one word, as in `skipped` of a ClusterHealth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why or why not, as a sentence.
    pub message: String,
}

/// Tells whether the cluster is probed. `treatment` is what the operator does about it, `None` if too
/// little could be read.
pub(super) fn probing(
    answers: &Answers,
    treatment: Option<&Treatment>,
    selected: Option<&Selected>,
    record: Option<&Record>,
) -> Probing {
    let policy = selected.map_or("", |selected| &selected.policy);
    let probed = |message: String| Probing {
        probed: Some(true),
        reason: None,
        message,
    };
    let not = |reason: &str, message: String| Probing {
        probed: Some(false),
        reason: Some(reason.to_owned()),
        message,
    };
    match treatment {
        Some(Treatment::Probe(settings)) => probed(format!(
            "yes, by the policy {policy}, every {}",
            api::Duration::from(settings.rules.interval)
        )),
        Some(Treatment::LetGo(_, Some(why))) => probed(format!(
            "only until it is healthy and restored, by the policy {policy}: {}",
            evidence(why)
        )),
        Some(Treatment::LetGo(_, None)) => probed(format!(
            "yes, although no policy selects it any more: by the policy {policy}, which has yet to \
             let go of it"
        )),
        Some(Treatment::Hibernate(_, finding)) => probed(format!(
            "only to see whether its API server still answers: {}",
            evidence(finding)
        )),
        Some(
            Treatment::Complete(_, finding)
            | Treatment::Hold(finding, _)
            | Treatment::Idle(finding),
        ) => not(reason(finding), evidence(finding)),
        Some(Treatment::Gone) => not("Gone", "the Cluster is gone".to_owned()),
        Some(Treatment::Done) if matches!(answers.objects.cluster, Ok(None)) => {
            not("Gone", "the Cluster is gone".to_owned())
        }
        Some(Treatment::Done) => not(
            "Unselected",
            "no valid policy selects the cluster".to_owned(),
        ),
        None => unknown(answers, record),
    }
}

/// What can be said of it where policies or the Cluster could not be read.
fn unknown(answers: &Answers, record: Option<&Record>) -> Probing {
    let assignment = answers.index.assignment(&answers.cluster);
    let eligibility = assignment.map(|assignment| &assignment.eligibility);
    let (reason, message) = match (eligibility, &answers.objects.policies) {
        (_, Err(Refused::NotServed)) => (
            Some("NotInstalled"),
            "the seed does not serve ProbePolicies, so nothing is probed".to_owned(),
        ),
        (Some(Eligibility::Skipped(skip)), _) => (Some(skip.reason()), skip.to_string()),
        _ => match record.map(|record| (record, &record.policy)) {
            Some((record, _)) if record.is_skipped => (
                record.skipped.as_deref(),
                "by the record; see what could not be read".to_owned(),
            ),
            Some((_, Some(policy))) => {
                return Probing {
                    probed: Some(true),
                    reason: None,
                    message: format!(
                        "yes, by the record, by the policy {policy}; see what could not be read"
                    ),
                };
            }
            _ => (
                None,
                "that cannot be told; see what could not be read".to_owned(),
            ),
        },
    };
    Probing {
        probed: reason.map(|_| false),
        reason: reason.map(str::to_owned),
        message,
    }
}
