//! Feature gates: what an operator can switch off for as long as somebody depends on how it was.

use std::str::FromStr;

use crate::util::text::parse_bool;

/// The gate for [`FeatureGates::exec_probe_timeout`].
pub const EXEC_PROBE_TIMEOUT: &str = "ExecProbeTimeout";
/// All of them.
const KNOWN: [&str; 1] = [EXEC_PROBE_TIMEOUT];

/// Which features are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// Whether a command of a check that takes longer than its timeout has failed. If not, it is
    /// stopped all the same, passes, and is told of.
    pub exec_probe_timeout: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            exec_probe_timeout: true,
        }
    }
}

/// A text says nothing about feature gates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is no such gate.
    #[error("there is no feature gate {name:?}; those known are {}", KNOWN.join(", "))]
    Unknown {
        /// What was taken for its name.
        name: String,
    },
    /// It does not say whether a gate is on.
    #[error(
        "{entry:?} does not say whether a feature gate is on; write {EXEC_PROBE_TIMEOUT}=true or {EXEC_PROBE_TIMEOUT}=false"
    )]
    NoValue {
        /// What was said of one gate.
        entry: String,
    },
    /// A gate is neither on nor off.
    #[error("feature gate {name} must be true or false, not {value:?}")]
    NoBool {
        /// Its name.
        name: String,
        /// What was said.
        value: String,
    },
}

/// By Kubernetes' syntax: `Name=true,Other=false`. What is not named is as by default, and of several
/// values for one gate the last counts.
impl FromStr for FeatureGates {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        let entries = text.split(',').map(str::trim);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let (name, value) = match entry.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (entry, None),
            };
            if name != EXEC_PROBE_TIMEOUT {
                let name = name.to_owned();
                return Err(GateError::Unknown { name });
            }
            let Some(value) = value else {
                let entry = entry.to_owned();
                return Err(GateError::NoValue { entry });
            };
            gates.exec_probe_timeout = parse_bool(value).ok_or_else(|| GateError::NoBool {
                name: name.to_owned(),
                value: value.to_owned(),
            })?;
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_which_features_are_on() {
        for (text, on) in [
            ("", true),
            (" , ", true),
            ("ExecProbeTimeout=true", true),
            ("ExecProbeTimeout=false", false),
            (" ExecProbeTimeout = 0 ,", false),
            ("ExecProbeTimeout=T", true),
            ("ExecProbeTimeout=false,ExecProbeTimeout=true", true),
        ] {
            let expected = FeatureGates {
                exec_probe_timeout: on,
            };
            assert_eq!(text.parse(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_gate_is_an_error_that_helps() {
        for (text, said) in [
            ("AllAlpha=true", "ExecProbeTimeout"),
            ("execprobetimeout=true", "ExecProbeTimeout"),
            ("true", "those known are ExecProbeTimeout"),
            ("=true", "those known are ExecProbeTimeout"),
            ("ExecProbeTimeout", "write ExecProbeTimeout=true"),
            ("ExecProbeTimeout=", "must be true or false, not \"\""),
            ("ExecProbeTimeout=yes", "must be true or false, not \"yes\""),
            ("ExecProbeTimeout=false,Other=1", "\"Other\""),
        ] {
            let error = text.parse::<FeatureGates>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
