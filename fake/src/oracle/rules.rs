//! What must hold at every moment, whatever is done: each version of a dependent is compared with the
//! one before. docs/invariants.md says why.

use crate::oracle::{truth::Truth, versions::Version};
use std::collections::BTreeMap;

/// All that is broken in the history of the dependents, in the order of their versions.
pub fn broken(history: &[Version], truth: &Truth) -> Vec<String> {
    let said = pairs(history).filter_map(|(before, now)| {
        let said = match before {
            Some(before) => step(before, now, truth),
            None => first(now),
        }?;
        let Version { shoot, name, .. } = now;
        let before = before.map_or("nothing".to_owned(), Version::to_string);
        Some(format!(
            "{said}: {name} of shoot {shoot}, {before}, then {now}"
        ))
    });
    said.collect()
}

/// Each version, after the one before of the same object.
fn pairs(history: &[Version]) -> impl Iterator<Item = (Option<&Version>, &Version)> {
    let mut newest = BTreeMap::new();
    history
        .iter()
        .map(move |now| (newest.insert(now.uid.as_str(), now), now))
}

/// One that is created is nobody's yet.
fn first(now: &Version) -> Option<&'static str> {
    (now.marked || now.replicas == 0).then_some("a new dependent is at zero or marked")
}

fn step(before: &Version, now: &Version, truth: &Truth) -> Option<&'static str> {
    let (shoot, at) = (now.shoot, now.written);
    let counted = || truth.was_counted(shoot, &now.name, now.replicas);
    match (before.replicas, now.replicas) {
        (1.., 0) if !now.marked => Some("no-count-lost: at zero without a mark"),
        (from @ 1.., 0) if now.record != Some(from) => {
            Some("recorded-exactly: the record is not what it had")
        }
        (1.., 0) if before.ignored => Some("hands-off: scaled down although it is to be ignored"),
        (1.., 0) if !truth.may_be_taken(shoot, at) => {
            Some("no-evidence: scaled down without an outage, or by no policy that does so")
        }
        (1.., 0) => None,
        (0, to @ 1..) if before.marked && before.record == Some(to) => {
            // Somebody else may have given it as many, and left the mark and the date of the operator's last write.
            let is_by_another = now.marked && now.written <= before.written && counted();
            let allowed = truth.may_be_given_back(shoot, at) || is_by_another;
            (!allowed).then_some("no-evidence: restored in an outage, or by a policy that is held")
        }
        (0, 1..) if now.marked => (!counted()).then_some("newer-count-wins: nobody has set this"),
        (0, 1..) => (!counted()).then_some("restored-exactly: not what was recorded or set"),
        (from @ 1.., to @ 1..) if from != to && !counted() => {
            Some("newer-count-wins: neither to zero nor from zero, and set by nobody")
        }
        (0, 0) if before.marked && !now.marked => {
            let allowed = now.ignored || truth.may_be_let_go(shoot, now.seen);
            (!allowed).then_some("no-count-lost: the mark is gone, and it is at zero")
        }
        _ if now.marked && !before.marked => Some("recorded-exactly: marked and not scaled"),
        (_, 1..) if before.marked && !now.marked => {
            let dropped = truth.may_write(now.seen);
            (!dropped).then_some("policy-in-force: a mark dropped by a policy that is held")
        }
        // One that somebody has set under the mark that is kept after a restore.
        (_, to @ 1..) if now.marked && before.marked && now.record == Some(to) => None,
        _ if now.marked && before.marked && now.record != before.record => {
            Some("recorded-exactly: another record, and nothing scaled")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::Micros;
    use crate::oracle::policy::{Edit, Hold, Policy};
    use std::time::Duration;

    const SECOND: Micros = 1_000_000;
    const START: Micros = 1_800_000_000 * SECOND;

    /// Shoot 0 is silent from 100 s on, shoot 1 never. From 500 s on the policy is suspended, and both
    /// are silent. Somebody has set 3 and 5.
    fn truth() -> Truth {
        let period = Duration::from_secs(5);
        let mut truth = Truth::new(2, 10, period, START, Policy::FIRST);
        truth.cut(0, 10, START + 100 * SECOND);
        truth.restore(0, START + 200 * SECOND);
        truth.let_go(1, START + 300 * SECOND, START + 301 * SECOND, true);
        for shoot in 0..2 {
            truth.cut(shoot, 10, START + 450 * SECOND);
        }
        let held = Policy::FIRST.edited(Edit::Hold(Hold::Suspended));
        truth.policy(START + 499 * SECOND, START + 500 * SECOND, held);
        truth.count(0, "a", 3);
        truth.count(0, "a", 5);
        truth
    }

    fn version(shoot: usize, second: i64, replicas: i64, record: Option<i64>) -> Version {
        Version {
            shoot,
            name: "a".to_owned(),
            uid: "u".to_owned(),
            version: 0,
            written: START + second * SECOND,
            seen: START + second * SECOND,
            replicas,
            marked: record.is_some(),
            record,
            ignored: false,
        }
    }

    fn ignored(version: Version) -> Version {
        Version {
            ignored: true,
            ..version
        }
    }

    /// The marked one, without its mark.
    fn released(version: Version) -> Version {
        Version {
            marked: false,
            ..version
        }
    }

    #[test]
    fn each_step_is_judged() {
        let one = |second, replicas, record| version(0, second, replicas, record);
        let other = |second, replicas, record| version(1, second, replicas, record);
        for (before, now, expected) in [
            // As it should be.
            (one(90, 2, None), one(140, 0, Some(2)), None),
            (one(140, 0, Some(2)), one(205, 2, None), None),
            (one(140, 0, Some(2)), one(205, 2, Some(2)), None),
            (one(205, 2, Some(2)), one(265, 2, None), None),
            (one(210, 5, Some(2)), one(215, 5, Some(5)), None),
            (one(140, 0, Some(2)), one(150, 3, Some(2)), None),
            (one(140, 0, Some(3)), one(140, 3, Some(3)), None),
            (one(150, 3, Some(2)), one(151, 0, Some(3)), None),
            (one(150, 3, Some(2)), one(220, 3, None), None),
            (one(10, 3, None), one(20, 5, None), None),
            (one(10, 3, None), ignored(one(20, 3, None)), None),
            (
                one(140, 0, Some(2)),
                released(ignored(one(141, 0, Some(2)))),
                None,
            ),
            (
                other(140, 0, Some(2)),
                released(other(310, 0, Some(2))),
                None,
            ),
            (released(one(310, 0, Some(2))), one(320, 3, None), None),
            // What is not.
            (one(90, 2, None), one(140, 0, None), Some("no-count-lost")),
            (
                one(90, 2, None),
                one(140, 0, Some(3)),
                Some("recorded-exactly"),
            ),
            (
                ignored(one(90, 2, None)),
                one(140, 0, Some(2)),
                Some("hands-off"),
            ),
            (one(90, 2, None), one(110, 0, Some(2)), Some("no-evidence")),
            (
                other(90, 2, None),
                other(140, 0, Some(2)),
                Some("no-evidence"),
            ),
            (one(440, 2, None), one(530, 0, Some(2)), Some("no-evidence")),
            (one(140, 0, Some(2)), one(160, 2, None), Some("no-evidence")),
            (
                one(140, 0, Some(2)),
                one(160, 2, Some(2)),
                Some("no-evidence"),
            ),
            (
                one(140, 0, Some(3)),
                one(160, 3, Some(3)),
                Some("no-evidence"),
            ),
            (one(490, 0, Some(2)), one(530, 2, None), Some("no-evidence")),
            (
                one(140, 0, Some(2)),
                one(160, 4, Some(2)),
                Some("newer-count-wins"),
            ),
            (
                one(140, 0, Some(2)),
                one(205, 4, None),
                Some("restored-exactly"),
            ),
            (one(10, 3, None), one(20, 4, None), Some("newer-count-wins")),
            (
                one(140, 0, Some(2)),
                released(one(141, 0, Some(2))),
                Some("no-count-lost"),
            ),
            (
                one(10, 3, None),
                one(20, 3, Some(3)),
                Some("recorded-exactly"),
            ),
            (
                one(510, 3, Some(3)),
                one(530, 3, None),
                Some("policy-in-force"),
            ),
            (
                one(510, 3, Some(3)),
                one(511, 3, Some(4)),
                Some("recorded-exactly"),
            ),
        ] {
            let said = step(&before, &now, &truth());
            let rule = said.and_then(|it| it.split(':').next());
            assert_eq!(rule, expected, "{before} then {now}: {said:?}");
        }
    }
}
