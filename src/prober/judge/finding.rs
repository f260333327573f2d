//! What was found of a cluster, and why it is not acted on yet.

use std::fmt;

use crate::{
    api::OUTAGE,
    prober::verdict::{Assessment, Doubt, Verdict},
};

/// Something is deliberately not done.
const HELD_BACK: &str = "HeldBack";
/// Nothing is scaled down: the Cluster or its policy may differ from what is known.
const UNCONFIRMED: &str = "Unconfirmed";
/// A restore waits, since the one before is less than an hour ago.
const FLAPPING: &str = "Flapping";
/// A restore waits for its turn among those of other clusters.
pub(crate) const PACED: &str = "Paced";

/// Why a cluster is not probed although it may have to be: its Shoot cannot be read, or its last operation
/// is of a type that is not known.
const NOT_MEANT: [&str; 2] = ["Unreadable", "UnknownOperation"];
/// The finding of a cluster that has not been probed yet.
pub(crate) const PENDING: &str = "Pending";
/// The finding that no lease counts.
pub(crate) const NO_CANDIDATES: &str = "NoCandidates";
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
pub enum HeldBack {
    /// For this reason.
    By(&'static str),
    /// The last restore is less than an hour ago, so that the leases must have been fresh for a while.
    Flapping,
    /// Many clusters are to be restored, so that it waits for its turn.
    Paced,
    /// A check with the role Gate does not pass, so that nothing is restored: which, and why.
    Gate(String),
    /// The Cluster or its policy may not be as they are known, for this reason.
    Unconfirmed(&'static str),
}

impl HeldBack {
    /// In one word, as the condition Protecting says it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Flapping => FLAPPING,
            Self::Paced => PACED,
            Self::Unconfirmed(_) => UNCONFIRMED,
            Self::By(_) | Self::Gate(_) => HELD_BACK,
        }
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(why) | Self::Unconfirmed(why) => f.write_str(why),
            Self::Flapping => f.write_str(
                "it was restored less than an hour ago, so it is restored again once its leases have been \
                 fresh for a minute",
            ),
            Self::Paced => f.write_str(
                "it waits for its turn, 5 minutes at most: many clusters are to be restored",
            ),
            Self::Gate(why) => write!(f, "nothing is restored before each Gate passes, and {why}"),
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
            Doubt::NoCandidates => NO_CANDIDATES,
        },
    }
}
