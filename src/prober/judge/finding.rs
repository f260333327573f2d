//! What was found of a cluster, and why it is not acted on yet.

use std::borrow::Cow;

use crate::{
    api::OUTAGE,
    prober::verdict::{Assessment, Doubt, Verdict},
};

/// Why a cluster is not probed although it may have to be: its Shoot cannot be read, or its last operation
/// is of a type that is not known.
const NOT_MEANT: [&str; 2] = ["Unreadable", "UnknownOperation"];
/// The finding of a cluster that has not been probed yet.
pub(crate) const PENDING: &str = "Pending";
/// The finding that too few leases are expired.
pub const HEALTHY: &str = "Healthy";

/// Finding about a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Finding {
    /// Not probed yet.
    #[default]
    Pending,
    /// Its leases were read and judged.
    Judged(Verdict, Box<Assessment>),
    /// There is no evidence.
    Unread {
        /// CamelCase.
        reason: &'static str,
        /// Names the object and the remedy.
        message: String,
    },
    /// Not probed.
    Skipped {
        /// CamelCase.
        reason: &'static str,
        /// Description of what was seen.
        message: String,
    },
}

/// Why what was found is not acted on yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Word for it, as the condition Protecting says it.
    pub reason: &'static str,
    /// Sentence for it.
    pub message: Cow<'static, str>,
}

impl HeldBack {
    /// A restore waits, since the one before is less than an hour ago.
    pub const FLAPPING: Self = Self::new(
        "Flapping",
        "it was restored less than an hour ago, so it is restored again once its leases have been \
         fresh for a minute",
    );
    /// A restore waits for its turn among those of other clusters.
    pub const PACED: Self = Self::new(
        "Paced",
        "it waits for its turn, 5 minutes at most: many clusters are to be restored",
    );

    /// Says why in one word and as a sentence.
    pub const fn new(reason: &'static str, message: &'static str) -> Self {
        let message = Cow::Borrowed(message);
        Self { reason, message }
    }

    /// Something is deliberately not done, for this reason.
    pub const fn by(message: &'static str) -> Self {
        Self::new("HeldBack", message)
    }

    /// A check with the role Gate does not pass, so that nothing is restored: which, and why.
    pub fn gate(why: &str) -> Self {
        let message = format!("nothing is restored before each Gate passes, and {why}");
        Self {
            message: message.into(),
            ..Self::by("")
        }
    }
}

/// Returns whether a probed cluster could be judged; a suspect one is about to be.
pub(crate) fn judged(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Judged(
            Verdict::Healthy
                | Verdict::Outage
                | Verdict::Undetermined(
                    Doubt::Unproven(_) | Doubt::FactsOutdated | Doubt::Recovering
                ),
            _
        )
    )
}

/// Returns whether a cluster is skipped on purpose for this reason, so that nothing is wrong.
pub(crate) fn is_meant(skipped: &str) -> bool {
    !NOT_MEANT.contains(&skipped)
}

/// The finding in one word.
pub fn reason(finding: &Finding) -> &'static str {
    match finding {
        Finding::Pending => PENDING,
        Finding::Unread { reason, .. } | Finding::Skipped { reason, .. } => reason,
        Finding::Judged(verdict, _) => verdict_reason(*verdict),
    }
}

/// A verdict in one word.
pub fn verdict_reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Outage => OUTAGE,
        Verdict::Healthy => HEALTHY,
        Verdict::Undetermined(doubt) => match doubt {
            Doubt::Unproven(_) => "Suspect",
            Doubt::FactsOutdated => "FactsOutdated",
            Doubt::NoWrites => "NoWrites",
            Doubt::TooFewSilent => "TooFewSilent",
            Doubt::Recovering => "Recovering",
            Doubt::UnknownLeases => "LeasesUnknown",
            Doubt::NoCandidates => "NoCandidates",
        },
    }
}
