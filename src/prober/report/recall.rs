//! What checks had come to when an earlier run ended: it stands until they have been run, since a
//! restart alone is not worth a write for each cluster.

use std::{collections::HashSet, hash::Hash};

use crate::api::{CheckResult, CheckStatus};

/// Results that an earlier run has left, of checks that have no other result since, each with whether the check
/// has been run since.
#[derive(Debug, Default)]
pub(super) struct Recalled(Vec<(CheckStatus, bool)>);

impl Recalled {
    /// What a status says of them. Of one that somebody has edited: what it says first of a check that it
    /// names twice, or it would answer itself.
    pub(super) fn new(checks: &[CheckStatus]) -> Self {
        let mut seen = HashSet::new();
        let kept = checks.iter().filter(|it| seen.insert(key(it)));
        Self(kept.map(|it| (it.clone(), false)).collect())
    }

    /// Fills in the results of checks that have not been run yet; a check with the same result has had it since
    /// then. A check that was run and is not any more was set up anew: its result is open.
    pub(super) fn fill_in(&mut self, checks: &mut [CheckStatus]) {
        self.0.retain_mut(|(recalled, has_run)| {
            let found = checks.iter_mut().find(|it| key(it) == key(recalled));
            let Some(check) = found else {
                // It may not have been taken up yet.
                return true;
            };
            let unrun = check.result == CheckResult::Unknown && check.since.is_none();
            if unrun && *has_run {
                return false;
            }
            if unrun {
                check.clone_from(recalled);
            } else if check.result == recalled.result {
                check.since.clone_from(&recalled.since);
                *has_run = true;
            } else {
                return false;
            }
            true
        });
    }
}

/// The identity of a check.
fn key(it: &CheckStatus) -> impl Eq + Hash + '_ {
    (&it.name, it.role, it.r#type)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use proptest::{prelude::*, sample::select};

    use super::*;
    use crate::{
        api::{
            CheckResult::{Failing, Passing, Unknown},
            CheckRole, CheckType,
        },
        prober::report::fixtures::check,
    };

    fn since(result: CheckResult, second: i64) -> CheckStatus {
        CheckStatus {
            since: Some(Time(Timestamp::from_second(second).unwrap())),
            ..check("a", result)
        }
    }

    fn filled_in(recalled: &mut Recalled, report: CheckStatus) -> CheckStatus {
        let mut checks = [report];
        recalled.fill_in(&mut checks);
        let [check] = checks;
        check
    }

    #[test]
    fn what_was_stands_until_there_is_something_else() {
        let mut recalled = Recalled::new(&[since(Passing, 1)]);
        let mut told = |report| filled_in(&mut recalled, report);
        assert_eq!(told(check("a", Unknown)), since(Passing, 1));
        assert_eq!(told(since(Passing, 9)), since(Passing, 1));
        assert_eq!(told(since(Failing, 10)), since(Failing, 10));
        assert_eq!(told(since(Passing, 11)), since(Passing, 11));
        assert_eq!(told(check("a", Unknown)), check("a", Unknown));
    }

    /// Any check of a few, so that many are alike.
    fn any_check() -> impl Strategy<Value = CheckStatus> {
        (
            select(vec!["a", "b", "a\u{0}"]),
            select(vec![None, Some(CheckRole::Gate), Some(CheckRole::Observe)]),
            select(vec![CheckType::Exec, CheckType::HttpGet]),
            select(vec![Unknown, Passing, Failing]),
            prop::option::of(-4_i64..4),
            prop::option::of("\\PC{0,9}"),
        )
            .prop_map(|(name, role, r#type, result, since, message)| CheckStatus {
                name: name.to_owned(),
                role,
                r#type,
                result,
                since: since.map(|it| Time(Timestamp::from_second(it).unwrap())),
                message,
            })
    }

    proptest! {
        /// Whatever a record says, or says twice: it stands for that check alone, and only until that
        /// has come to something.
        #[test]
        fn what_is_recalled_is_about_no_other_check(
            before in prop::collection::vec(any_check(), 0..6),
            reports in prop::collection::vec(prop::collection::vec(any_check(), 0..4), 1..4),
        ) {
            let key = |it: &CheckStatus| (it.name.clone(), it.role, it.r#type);
            let mut recalled = Recalled::new(&before);
            for report in reports {
                let mut filled = report.clone();
                recalled.fill_in(&mut filled);
                prop_assert!(recalled.0.len() <= before.len());
                for (said, check) in report.iter().zip(&filled) {
                    prop_assert_eq!(key(said), key(check));
                    let unrun = said.result == Unknown && said.since.is_none();
                    let was = before.iter().any(|it| it == check);
                    let (result, message) = (check.result, &check.message);
                    let same = result == said.result && *message == said.message;
                    prop_assert!(same || unrun && was, "{:?} became {:?}", said, check);
                }
            }
        }
    }
}
