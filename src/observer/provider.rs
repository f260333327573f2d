//! Something that serves the metrics of a cluster: what the looks at it come to.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use tokio::time::Instant;

use std::time::Duration;

use crate::api::{CheckResult, CheckStatus, CheckType, MAX_OUTPUT, MetricsProvider};

/// What a look at a provider has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It answers.
    Passed,
    /// It does not, and how.
    Failed(String),
    /// It may not or cannot be asked, and why: that is no evidence.
    Unknown(String),
    /// It was not asked this time, for a reason of the way to it: what was known stands.
    Missed,
}

/// One provider of metrics.
#[derive(Clone, Debug)]
pub struct Provider {
    settings: MetricsProvider,
    /// When it is looked at next.
    pub(super) due: Instant,
    /// When the last look began.
    began: Instant,
    /// How many looks in a row have failed.
    failures: i32,
    result: CheckResult,
    since: Option<Time>,
    message: Option<String>,
}

impl Provider {
    /// One that has not been looked at since `recalled` was written of it.
    pub fn new(settings: MetricsProvider, recalled: Option<&CheckStatus>, now: Instant) -> Self {
        let mut provider = Self {
            settings,
            due: now,
            began: now,
            failures: 0,
            result: CheckResult::Unknown,
            since: None,
            message: None,
        };
        let kind = provider.kind();
        if let Some(known) = recalled.filter(|known| known.r#type == kind) {
            provider.result = known.result;
            provider.since.clone_from(&known.since);
            provider.message.clone_from(&known.message);
        }
        provider
    }

    /// A look at it begins.
    pub(super) fn began(&mut self, at: Instant) {
        self.began = at;
        // None begins before it has ended, or waited for its turn for as long again.
        self.due = at + self.period().max(2 * timeout_of(&self.settings));
    }

    /// Takes in what a look has come to; whether its result is another.
    pub(super) fn take(&mut self, answer: Answer, at: Instant, now: Timestamp) -> bool {
        self.due = at.max(self.began + self.period());
        let before = self.result;
        self.message = match answer {
            Answer::Passed => {
                self.failures = 0;
                self.result = CheckResult::Passing;
                None
            }
            Answer::Failed(how) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= self.settings.failure_threshold {
                    self.result = CheckResult::Failing;
                }
                Some(bounded(how))
            }
            Answer::Unknown(why) => {
                self.result = CheckResult::Unknown;
                Some(bounded(why))
            }
            Answer::Missed => return false,
        };
        let changed = self.result != before;
        if changed || self.since.is_none() {
            self.since = Some(Time(now));
        }
        changed
    }

    /// Its name and how it fails, if it does.
    pub(super) fn failing(&self) -> Option<String> {
        let how = self.message.as_deref().unwrap_or("fails");
        (self.result == CheckResult::Failing).then(|| format!("{}: {how}", self.settings.name))
    }

    /// What is reported of it.
    pub(super) fn status(&self) -> CheckStatus {
        CheckStatus {
            name: self.settings.name.clone(),
            role: None,
            r#type: self.kind(),
            result: self.result,
            since: self.since.clone(),
            message: self.message.clone(),
        }
    }

    fn period(&self) -> Duration {
        seconds(self.settings.period_seconds)
    }

    fn kind(&self) -> CheckType {
        match self.settings.api_service {
            Some(_) => CheckType::ApiService,
            None => CheckType::HttpGet,
        }
    }
}

/// The time that a look at one may take.
pub(super) fn timeout_of(provider: &MetricsProvider) -> Duration {
    seconds(provider.timeout_seconds)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(1))
}

fn bounded(text: String) -> String {
    match text.char_indices().nth(MAX_OUTPUT) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn provider(threshold: i32, recalled: Option<CheckResult>) -> Provider {
        let settings = serde_json::from_value(serde_json::json!({
            "name": "metrics", "apiService": "v1beta1.metrics.k8s.io",
            "failureThreshold": threshold,
        }));
        let settings: MetricsProvider = settings.unwrap();
        let recalled = recalled.map(|result| CheckStatus {
            name: "metrics".to_owned(),
            role: None,
            r#type: CheckType::ApiService,
            result,
            since: None,
            message: None,
        });
        Provider::new(settings, recalled.as_ref(), Instant::now())
    }

    /// `+` passed, `-` failed, `?` could not be asked, `.` was not; the results after each: Passing, Failing,
    /// Unknown.
    #[rstest]
    #[case::dies_and_returns(1, None, "+-+", "PFP")]
    #[case::unknown_until_there_is_a_result(3, None, "---+", "UUFP")]
    #[case::in_a_row(3, None, "+--+---+", "PPPPPPFP")]
    #[case::fails_until_it_passes(2, None, "----+", "UFFFP")]
    #[case::no_evidence(1, None, "-?-?+", "FUFUP")]
    #[case::no_evidence_resets_nothing(2, None, "+-?-", "PPUF")]
    #[case::missed(2, None, "-.+.-.-.", "UUPPPPFF")]
    #[case::as_it_was(2, Some(CheckResult::Failing), "-+", "FP")]
    #[case::as_it_was_till_the_threshold(2, Some(CheckResult::Passing), "--", "PF")]
    fn results(
        #[case] threshold: i32,
        #[case] recalled: Option<CheckResult>,
        #[case] looks: &str,
        #[case] expected: &str,
    ) {
        let mut provider = provider(threshold, recalled);
        let mut seen = String::new();
        for (second, look) in (0..).zip(looks.chars()) {
            let answer = match look {
                '+' => Answer::Passed,
                '-' => Answer::Failed("503".to_owned()),
                '.' => Answer::Missed,
                _ => Answer::Unknown("403".to_owned()),
            };
            let before = provider.result;
            let now = Timestamp::from_second(second).unwrap();
            let changed = provider.take(answer, provider.began, now);
            assert_eq!(changed, provider.result != before);
            if changed {
                assert_eq!(provider.since, Some(Time(now)));
            }
            let failing = provider.result == CheckResult::Failing;
            assert_eq!(provider.failing().is_some(), failing);
            seen.push(match provider.result {
                CheckResult::Passing => 'P',
                CheckResult::Failing => 'F',
                CheckResult::Unknown => 'U',
            });
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_it_says_is_bounded() {
        let mut provider = provider(1, None);
        provider.take(
            Answer::Failed("ä".repeat(MAX_OUTPUT + 1)),
            Instant::now(),
            Timestamp::UNIX_EPOCH,
        );
        let message = provider.status().message.unwrap();
        assert_eq!(message.chars().count(), MAX_OUTPUT);
    }
}
