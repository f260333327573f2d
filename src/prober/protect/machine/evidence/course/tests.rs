use rstest::rstest;

use super::*;
use Verdict::{Healthy, Outage};

/// Every state of the leases, of the Triggers and of the Gates: `+` all pass, if there are any, `!`
/// one fails, `h` one fails and is held, `?` one tells nothing.
#[rstest]
#[case(Some(Outage), "+!h?", "+!", "protect")]
#[case(Some(Healthy), "+", "+", "restore")]
#[case(Some(Healthy), "+", "!", "wait for Gate")]
#[case(Some(Healthy), "?", "+!", "wait for Trigger")]
#[case(Some(Healthy), "!", "+!", "triggered")]
#[case(Some(Healthy), "h", "+!", "held")]
#[case(None, "!", "+!", "triggered")]
#[case(None, "h", "+!", "held")]
#[case(None, "+?", "+!", "nothing")]
fn what_is_done(
    #[case] leases: Option<Verdict>,
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
                Course::Triggered(why, Ok(until))
            }
            "held" => Course::Triggered(
                "why".to_owned(),
                Err(HeldBack::Trigger {
                    why: "many".to_owned(),
                    widespread: true,
                }),
            ),
            "nothing" => Course::Nothing,
            other => panic!("{other}"),
        };
        assert_eq!(
            course(leases, CheckResults { trigger, gate }),
            expected,
            "{case}"
        );
    }
}
