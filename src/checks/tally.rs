//! How many runs in a row make a result, as for the probes of a Kubernetes container.
//!
//! A run that could not be made is no evidence: the result is unknown until the next one that could,
//! which goes on counting where the last one stopped.

use super::outcome::{Outcome, Said};
use crate::api::{CheckResult, HealthCheck, MetricsProvider};

/// How many runs in a row it takes. At least 1 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// To fail.
    pub failures: u32,
    /// To pass.
    pub successes: u32,
}

impl From<&HealthCheck> for Thresholds {
    fn from(check: &HealthCheck) -> Self {
        Self {
            failures: check.failure_threshold.unsigned_abs(),
            successes: check.success_threshold.unsigned_abs(),
        }
    }
}

impl From<&MetricsProvider> for Thresholds {
    fn from(provider: &MetricsProvider) -> Self {
        Self {
            failures: provider.failure_threshold.unsigned_abs(),
            successes: 1,
        }
    }
}

/// What the runs of one check have come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    thresholds: Thresholds,
    /// Result that enough runs in a row have given last.
    settled: CheckResult,
    /// What the last run said that said something: whether it passed.
    passed: bool,
    /// How many in a row have said so.
    count: u32,
    last: Option<Outcome>,
}

impl Tally {
    /// Before the first run.
    pub fn new(thresholds: impl Into<Thresholds>) -> Self {
        Self {
            thresholds: thresholds.into(),
            settled: CheckResult::Unknown,
            passed: false,
            count: 0,
            last: None,
        }
    }

    /// Counts a run.
    pub fn count(&mut self, outcome: Outcome) {
        let passed = match outcome.said() {
            Said::Yes => Some(true),
            Said::No => Some(false),
            Said::Nothing => None,
        };
        if let Some(passed) = passed {
            if self.passed != passed {
                self.count = 0;
            }
            self.passed = passed;
            self.count = self.count.saturating_add(1);
            let (needed, result) = if passed {
                (self.thresholds.successes, CheckResult::Passing)
            } else {
                (self.thresholds.failures, CheckResult::Failing)
            };
            if self.count >= needed {
                self.settled = result;
            }
        }
        self.last = Some(outcome);
    }

    /// What they have come to.
    pub fn result(&self) -> CheckResult {
        match self.last {
            Some(Outcome::Unknown(_)) => CheckResult::Unknown,
            _ => self.settled,
        }
    }

    /// Why it does not simply pass.
    pub fn message(&self) -> Option<String> {
        let Some(last) = &self.last else {
            return Some("it has not been run yet".to_owned());
        };
        let Thresholds {
            failures,
            successes,
        } = self.thresholds;
        match (last.said(), self.settled) {
            (Said::Yes, CheckResult::Passing) | (Said::Nothing, _) => last.message(),
            (Said::Yes, _) => Some(format!("passed {} of {successes} times", self.count)),
            (Said::No, CheckResult::Failing) => last.message(),
            (Said::No, _) => Some(format!("failed {} of {failures} times: {last}", self.count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    /// `+` passes, `-` fails, `t` is late, `~` is late and tolerated, `?` could not be made. `P`, `F`
    /// and `U` are results.
    fn outcome(sign: char) -> Outcome {
        match sign {
            '+' => Outcome::Success,
            '-' => Outcome::Failure("no".to_owned()),
            't' => Outcome::Timeout(LIMIT),
            '~' => Outcome::Tolerated(LIMIT),
            '?' => Outcome::Unknown("no pod".to_owned()),
            _ => panic!("{sign}"),
        }
    }

    fn sign(result: CheckResult) -> char {
        match result {
            CheckResult::Unknown => 'U',
            CheckResult::Passing => 'P',
            CheckResult::Failing => 'F',
        }
    }

    fn results(failures: u32, successes: u32, runs: &str) -> String {
        let mut tally = Tally::new(Thresholds {
            failures,
            successes,
        });
        assert_eq!(tally.result(), CheckResult::Unknown);
        runs.chars()
            .map(|run| {
                tally.count(outcome(run));
                sign(tally.result())
            })
            .collect()
    }

    #[rstest]
    #[case::each_counts(1, 1, "+-+-", "PFPF")]
    #[case::defaults_of_kubernetes(3, 1, "+--+---+", "PPPPPPFP")]
    #[case::nothing_before_a_threshold(3, 2, "--+-+++", "UUUUUPP")]
    #[case::failing_from_the_start(3, 1, "---", "UUF")]
    #[case::slow_to_recover(1, 3, "-++-+++", "FFFFFFP")]
    #[case::a_timeout_is_a_failure(2, 1, "+-t+t-", "PPFPPF")]
    #[case::a_tolerated_one_is_none(1, 1, "-~~", "FPP")]
    #[case::unmade_is_unknown_and_resets_nothing(3, 1, "+?+-?--?-+", "PUPPUPFUFP")]
    #[case::unmade_from_the_start(1, 1, "???+", "UUUP")]
    #[case::successes_are_counted_across_it(1, 2, "+?+", "UUP")]
    fn results_by_runs(
        #[case] failures: u32,
        #[case] successes: u32,
        #[case] runs: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(results(failures, successes, runs), expected);
    }

    #[rstest]
    #[case("", Some("it has not been run yet"))]
    #[case("+", Some("passed 1 of 2 times"))]
    #[case("++", None)]
    #[case("++-", Some("failed 1 of 3 times: no"))]
    #[case("++--t", Some("it had not ended after 1s"))]
    #[case("---+", Some("passed 1 of 2 times"))]
    #[case("++?", Some("no pod"))]
    #[case(
        "~~",
        Some(
            "it had not ended after 1s, and would have failed with the feature gate ExecProbeTimeout"
        )
    )]
    fn messages_by_runs(#[case] runs: &str, #[case] expected: Option<&str>) {
        let mut tally = Tally::new(Thresholds {
            failures: 3,
            successes: 2,
        });
        runs.chars().for_each(|run| tally.count(outcome(run)));
        assert_eq!(tally.message().as_deref(), expected, "{runs}");
    }
}
