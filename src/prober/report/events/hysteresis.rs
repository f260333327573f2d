//! Whether a cluster can be judged, as events tell it: not for a single probe that came to nothing.

use k8s_openapi::jiff::Timestamp;

use super::super::summary::{Standing, Summary};
use crate::{
    api::ClusterHealthStatus,
    status::conditions::{READY, find},
    status::events::{
        Event,
        kinds::{JUDGED, UNDETERMINED},
    },
};

/// What was told last of whether a cluster can be judged.
#[derive(Debug, Default)]
pub(in crate::prober::report) struct Hysteresis {
    /// It was last reported as one that cannot be judged.
    undetermined: bool,
    /// The first probe in a row that came to nothing.
    since: Option<Timestamp>,
    /// The last probe before that.
    before: Option<Timestamp>,
}

impl Hysteresis {
    /// As an earlier run has left it.
    pub(in crate::prober::report) fn recorded(status: &ClusterHealthStatus) -> Self {
        Self {
            undetermined: Summary::of(status).standing == Standing::Doubtful,
            ..Self::default()
        }
    }

    /// Takes up the newest status: the second probe in a row without a verdict is told, or at once that
    /// it is not even tried; and the first with one after that.
    pub(in crate::prober::report) fn look(
        &mut self,
        status: &ClusterHealthStatus,
    ) -> Option<Event> {
        let seen = Summary::of(status);
        let probed = status.last_probe_time.as_ref().map(|probed| probed.0);
        let again = self.since.is_some_and(|since| probed > Some(since));
        if seen.standing != Standing::Doubtful {
            self.before = probed;
        }
        let ready = find(&status.conditions, READY);
        let evidence = ready.map_or("", |ready| &ready.message);
        match seen.standing {
            Standing::Doubtful if self.undetermined => None,
            Standing::Doubtful if again || probed == self.before => {
                self.undetermined = true;
                Some(Event::new(
                    &UNDETERMINED,
                    format!("{}: {evidence}", seen.reason),
                ))
            }
            Standing::Doubtful => {
                self.since = self.since.or(probed);
                None
            }
            Standing::Judged => {
                self.since = None;
                let found = std::mem::take(&mut self.undetermined);
                found.then(|| Event::new(&JUDGED, evidence))
            }
            Standing::Skipped => {
                (self.undetermined, self.since) = (false, None);
                None
            }
            Standing::Pending => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        prober::{
            report::{
                ClusterReport,
                finding::Finding,
                fixtures::{assessment, report, said_of, skipped},
            },
            verdict::{Doubt, Verdict},
        },
        status::events::Kind,
    };

    fn at(second: i64, finding: Finding) -> ClusterReport {
        ClusterReport {
            probed: Some(Timestamp::from_second(second).unwrap()),
            ..report(finding)
        }
    }

    fn healthy(second: i64) -> ClusterReport {
        let seen = Box::new(assessment(5, 0));
        at(second, Finding::Judged(Verdict::Healthy, seen))
    }

    fn unread(second: i64) -> ClusterReport {
        at(
            second,
            Finding::Unread {
                reason: "Timeout",
                message: "no answer".to_owned(),
            },
        )
    }

    fn no_writes(second: i64) -> ClusterReport {
        let seen = Box::new(assessment(5, 5));
        let verdict = Verdict::Undetermined(Doubt::NoWrites);
        at(second, Finding::Judged(verdict, seen))
    }

    fn told(hysteresis: &mut Hysteresis, reports: &[ClusterReport]) -> Vec<&'static Kind> {
        let events = reports
            .iter()
            .filter_map(|report| hysteresis.look(&said_of(report).status));
        events.map(|event| event.kind).collect()
    }

    #[test]
    fn what_is_told() {
        let cases: [(&str, &[ClusterReport], &[&Kind]); 9] = [
            ("nothing is new", &[healthy(1), healthy(2)], &[]),
            ("a single one", &[healthy(1), unread(2), healthy(3)], &[]),
            ("one that is reported twice", &[unread(2), unread(2)], &[]),
            (
                "it flaps",
                &[unread(1), healthy(2), unread(3), healthy(4), unread(5)],
                &[],
            ),
            (
                "two in a row, and it is over",
                &[unread(1), unread(2), unread(3), healthy(4), healthy(5)],
                &[&UNDETERMINED, &JUDGED],
            ),
            (
                "no probe was tried",
                &[healthy(1), unread(1), unread(1), healthy(2)],
                &[&UNDETERMINED, &JUDGED],
            ),
            (
                "for another reason",
                &[unread(1), no_writes(2), unread(3)],
                &[&UNDETERMINED],
            ),
            (
                "not probed in between",
                &[unread(1), unread(2), skipped("Hibernated"), healthy(3)],
                &[&UNDETERMINED],
            ),
            (
                "pending in between",
                &[unread(1), report(Finding::Pending), unread(2)],
                &[&UNDETERMINED],
            ),
        ];
        for (case, reports, expected) in cases {
            assert_eq!(
                told(&mut Hysteresis::default(), reports),
                expected,
                "{case}"
            );
        }
    }
}
