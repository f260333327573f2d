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

    use super::*;
    use crate::{
        api::CheckResult::{Failing, Passing, Unknown},
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
}
