//! How one run of a check ended.

use std::{fmt, time::Duration};

/// How one run of a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Success,
    /// It failed; why, as a sentence for people.
    Failure(String),
    /// It had not ended after so long a time, which is a failure.
    Timeout(Duration),
    /// The same, but the feature gate ExecProbeTimeout is off, so that it passes.
    Tolerated(Duration),
    /// It could not be made, so that it tells nothing; why, as a sentence for people.
    Unknown(String),
}

/// What the end of a run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// All is well.
    Yes,
    /// It is not.
    No,
    /// Nothing.
    Nothing,
}

impl Outcome {
    /// What it says.
    pub fn said(&self) -> Said {
        match self {
            Self::Success | Self::Tolerated(_) => Said::Yes,
            Self::Failure(_) | Self::Timeout(_) => Said::No,
            Self::Unknown(_) => Said::Nothing,
        }
    }

    /// Why it did not simply pass.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::Success => None,
            Self::Failure(_) | Self::Timeout(_) | Self::Tolerated(_) | Self::Unknown(_) => {
                Some(self.to_string())
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("it passed"),
            Self::Failure(why) | Self::Unknown(why) => f.write_str(why),
            Self::Timeout(limit) => write!(f, "it had not ended after {limit:?}"),
            Self::Tolerated(limit) => write!(
                f,
                "it had not ended after {limit:?}, and would have failed with the feature gate \
                 ExecProbeTimeout"
            ),
        }
    }
}
