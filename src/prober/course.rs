//! What is done about a cluster that is probed, by its leases and by the checks of its policy that
//! have a role.
//!
//! - Leases that are an outage are one, whatever the checks say.
//! - A Trigger that fails is an outage, whatever the leases say. It needs no proof: it has a
//!   failureThreshold of its own.
//! - A Trigger that fails may be held, as while its check fails in many clusters. Then nothing is scaled,
//!   either way.
//! - A restore needs healthy leases, and each Trigger and each Gate to pass. One that tells nothing
//!   does not pass: after a restart of the operator none does before it has been run.
//! - Else nothing is scaled, either way. A Trigger that tells nothing takes nothing.

use tokio::time::Instant;

use super::plan::Aim;
use crate::{api::CheckRole, checks::Trigger, prober::report::HeldBack};

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// The leases are an outage.
    Protect,
    /// A Trigger fails.
    Triggered {
        /// Which, and why.
        why: String,
        /// This counts for so long without another run.
        until: Instant,
    },
    /// A Trigger fails, and is not acted on.
    Held {
        /// Which, and why.
        why: String,
        /// Why it is not acted on.
        held: HeldBack,
    },
    /// Nothing speaks against it.
    Restore,
    /// It is to be restored, and a check does not pass.
    Wait(HeldBack),
    /// There is not enough evidence.
    Nothing,
}

impl Course {
    /// By what the leases ask for, if anything, what the Triggers have come to, and the Gate that does
    /// not pass, if there is one.
    pub fn new(leases: Option<Aim>, trigger: Trigger, gate: Option<String>) -> Self {
        let wait = |role, why| Self::Wait(HeldBack::Check { role, why });
        match (leases, trigger, gate) {
            (Some(Aim::Protect), _, _) => Self::Protect,
            (_, Trigger::Failing { why, until }, _) => Self::Triggered { why, until },
            (
                _,
                Trigger::Held {
                    why,
                    hold,
                    widespread,
                },
                _,
            ) => Self::Held {
                why,
                held: HeldBack::Trigger {
                    why: hold,
                    widespread,
                },
            },
            (Some(Aim::Restore), Trigger::Unknown { why }, _) => wait(CheckRole::Trigger, why),
            (Some(Aim::Restore), Trigger::None, Some(why)) => wait(CheckRole::Gate, why),
            (Some(Aim::Restore), Trigger::None, None) => Self::Restore,
            (Some(Aim::Release | Aim::Look) | None, _, _) => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use Aim::{Protect, Restore};

    /// Every state of the leases, of the Triggers and of the Gates: `+` all pass, if there are any, `!`
    /// one fails, `h` one fails and is held, `?` one tells nothing.
    #[rstest]
    #[case(Some(Protect), "+!h?", "+!", "protect")]
    #[case(Some(Restore), "+", "+", "restore")]
    #[case(Some(Restore), "+", "!", "wait for Gate")]
    #[case(Some(Restore), "?", "+!", "wait for Trigger")]
    #[case(Some(Restore), "!", "+!", "triggered")]
    #[case(Some(Restore), "h", "+!", "held")]
    #[case(None, "!", "+!", "triggered")]
    #[case(None, "h", "+!", "held")]
    #[case(None, "+?", "+!", "nothing")]
    fn what_is_done(
        #[case] leases: Option<Aim>,
        #[case] triggers: &str,
        #[case] gates: &str,
        #[case] expected: &str,
    ) {
        let until = Instant::now();
        let each = |trigger| gates.chars().map(move |gate| (trigger, gate));
        for (trigger, gate) in triggers.chars().flat_map(each) {
            let why = "why".to_owned();
            let trigger = match trigger {
                '!' => Trigger::Failing { why, until },
                'h' => Trigger::Held {
                    why,
                    hold: "many".to_owned(),
                    widespread: true,
                },
                '?' => Trigger::Unknown { why },
                _ => Trigger::None,
            };
            let gate = (gate == '!').then(|| "why".to_owned());
            let case = format!("{leases:?} {trigger:?} {gate:?}");
            let wait = |role| {
                let why = "why".to_owned();
                Course::Wait(HeldBack::Check { role, why })
            };
            let expected = match expected {
                "protect" => Course::Protect,
                "restore" => Course::Restore,
                "wait for Gate" => wait(CheckRole::Gate),
                "wait for Trigger" => wait(CheckRole::Trigger),
                "triggered" => {
                    let why = "why".to_owned();
                    Course::Triggered { why, until }
                }
                "held" => Course::Held {
                    why: "why".to_owned(),
                    held: HeldBack::Trigger {
                        why: "many".to_owned(),
                        widespread: true,
                    },
                },
                "nothing" => Course::Nothing,
                other => panic!("{other}"),
            };
            assert_eq!(Course::new(leases, trigger, gate), expected, "{case}");
        }
    }
}
