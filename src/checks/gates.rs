//! Feature gates: what an operator can switch off for as long as somebody depends on how it was.

use std::str::FromStr;

use crate::util::text::parse_bool;

/// The gate for [`FeatureGates::exec_probe_timeout`].
pub const EXEC_PROBE_TIMEOUT: &str = "ExecProbeTimeout";

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

/// By Kubernetes' syntax: `Name=true,Other=false`. What is not named is as by default, and of several
/// values for one gate the last counts.
impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        let entries = text.split(',').map(str::trim);
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
            let is_known = name.trim() == EXEC_PROBE_TIMEOUT;
            let value = parse_bool(value.trim()).filter(|_| is_known);
            gates.exec_probe_timeout = value.ok_or_else(|| {
                format!(
                    "{entry:?} switches no feature gate: write {EXEC_PROBE_TIMEOUT}=true or \
                     {EXEC_PROBE_TIMEOUT}=false"
                )
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
        for text in [
            "AllAlpha=true",
            "execprobetimeout=true",
            "true",
            "=true",
            "ExecProbeTimeout",
            "ExecProbeTimeout=",
            "ExecProbeTimeout=yes",
            "ExecProbeTimeout=false,Other=1",
        ] {
            let error = text.parse::<FeatureGates>().unwrap_err();
            assert!(
                error.contains("write ExecProbeTimeout=true"),
                "{text}: {error}"
            );
        }
    }
}
