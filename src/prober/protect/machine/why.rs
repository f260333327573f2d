//! Why something is done, in words.

use super::ClusterMachine;
use crate::prober::{finding::Finding, plan::Aim, treatment::Treatment};

impl ClusterMachine {
    /// Why a flow of this aim begins.
    pub(super) fn why(&self, aim: Aim) -> String {
        match (&self.treatment, aim) {
            (Treatment::Complete(_, finding), _) => message(finding),
            (_, Aim::Look) => String::new(),
            (Treatment::Gone, _) => "the Cluster is gone".to_owned(),
            _ => match &self.told.finding {
                Finding::Judged(..) if self.cut.is_at_hand && aim == Aim::Restore => {
                    "it was protected for as long as the policy's maxProtection lets it be"
                        .to_owned()
                }
                Finding::Judged(_, seen) => format!(
                    "{} of {} node leases that count were expired",
                    seen.expired, seen.candidates
                ),
                finding => message(finding),
            },
        }
    }
}

/// A finding without a verdict, in words.
fn message(finding: &Finding) -> String {
    match finding {
        Finding::Unread { message, .. } | Finding::Skipped { message, .. } => message.clone(),
        Finding::Pending | Finding::Judged(..) => String::new(),
    }
}
