//! What is done to a shoot beside outages, of which nobody may make one.

use super::{
    Change, Truth,
    excuses::{AFRESH, Reason},
};
use crate::farm::{Kubelets, Micros, micros};
use std::time::Duration;

/// A server that takes no writes is known to do so once nothing was written for so long, or for one and a half
/// renewal periods.
const UNWRITTEN: Duration = Duration::from_secs(15);
/// Somebody writes to each server so often.
const WRITES: Duration = Duration::from_secs(2);

impl Change<bool> {
    fn at(at: Micros, to: bool) -> Self {
        Self {
            begun: at,
            done: at,
            to,
        }
    }
}

impl Truth {
    /// The kubelets of a shoot, to do to them what is done to the shoot's: to set clocks, replace or delete
    /// leases, or restore a backup.
    pub fn kubelets(&mut self, shoot: usize) -> Option<&mut Kubelets> {
        self.kubelets.get_mut(shoot)
    }

    /// The API server of a shoot refuses all writes from then on, or takes them again.
    pub fn refused(&mut self, shoot: usize, at: Micros, to: bool) {
        match self.kubelets.get_mut(shoot) {
            Some(kubelets) if to => kubelets.refuse_writes(at),
            Some(kubelets) => kubelets.accept_writes(at),
            None => {}
        }
        self.refused
            .entry(shoot)
            .or_default()
            .push(Change::at(at, to));
    }

    /// The API server of a shoot answers some of the reads otherwise than it should from then on, or none any
    /// more.
    pub fn unread(&mut self, shoot: usize, at: Micros, to: bool) {
        self.unread
            .entry(shoot)
            .or_default()
            .push(Change::at(at, to));
    }

    /// From then to then something about a shoot was such that an outage may be found later, as long as it takes
    /// to watch all leases expire anew.
    pub fn disturbed(&mut self, shoot: usize, from: Micros, until: Micros) {
        let most = self.period.mul_f64(super::JITTER);
        let until = until + micros(self.newest_policy().expiry(most) + AFRESH);
        self.excuse(Some(shoot), Reason::Disturbed, from, until);
    }

    /// A process of the operator was started then.
    pub fn started(&mut self, at: Micros) {
        self.starts.push(at);
    }

    /// When one was started last by then.
    pub(super) fn newest_start(&self, at: Micros) -> Micros {
        let starts = self.starts.iter().copied();
        starts.filter(|it| *it <= at).max().unwrap_or(Micros::MIN)
    }

    /// From when to when it could be told of the API server of a shoot that it took no writes.
    pub(super) fn refusals(&self, shoot: usize) -> impl Iterator<Item = (Micros, Micros)> {
        let told = self.period.mul_f64(super::PROOF_PERIODS).max(UNWRITTEN) + self.period + WRITES;
        let changes = self.refused.get(&shoot).map(Vec::as_slice);
        let spans = super::spans(changes.unwrap_or_default());
        spans
            .map(move |(from, until)| (from + micros(told), until))
            .filter(|(from, until)| from < until)
    }

    /// How many leases of a shoot are deleted then.
    pub(super) fn gone(&self, shoot: usize, at: Micros) -> usize {
        let kubelets = self.kubelets.get(shoot).into_iter();
        let leases = kubelets.flat_map(|it| it.renewals(at));
        leases.filter(Option::is_none).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::oracle::policy::Policy;

    const SECOND: Micros = 1_000_000;
    const START: Micros = 1_800_000_000 * SECOND;

    fn after(seconds: i64) -> Micros {
        START + seconds * SECOND
    }

    fn truth() -> Truth {
        Truth::new(1, 10, Duration::from_secs(5), START, Policy::FIRST)
    }

    /// Refused from 100 s to 160 s, which can be told from 122 s on.
    #[test]
    fn who_takes_no_writes_is_not_taken_for_silent() {
        let mut truth = truth();
        truth.refused(0, after(100), true);
        truth.refused(0, after(160), false);
        for (at, expected) in [(110, false), (118, true), (140, false), (170, false)] {
            assert_eq!(truth.may_be_taken(0, after(at)), expected, "{at}");
        }
    }

    #[test]
    fn who_was_heard_is_not_silent_in_a_backup() {
        let mut truth = truth();
        truth
            .kubelets(0)
            .unwrap()
            .roll_back(60 * SECOND, after(100));
        for at in 100..130 {
            assert!(!truth.may_be_taken(0, after(at)), "{at}");
            assert!(truth.may_be_given_back(0, after(at)), "{at}");
        }
    }

    /// Cut off at 100 s, with a backup of a minute before or a clock that steps by a minute.
    #[test]
    fn who_is_silent_looks_so_for_longer_in_a_backup_or_to_who_saw_no_step() {
        type Change = fn(&mut Truth);
        let cases: [(Change, i64); 3] = [
            (
                |it| it.kubelets(0).unwrap().roll_back(60 * SECOND, after(101)),
                107,
            ),
            (
                |it| it.kubelets(0).unwrap().step_server(60 * SECOND, after(101)),
                117,
            ),
            (
                |it| {
                    it.kubelets(0).unwrap().step_server(60 * SECOND, after(101));
                    it.started(after(102));
                },
                107,
            ),
        ];
        for (change, expected) in cases {
            let mut truth = truth();
            truth.cut(0, 10, after(100));
            change(&mut truth);
            let first = (100..130).find(|at| truth.may_be_taken(0, after(*at)));
            assert!(
                first.is_some_and(|it| (expected - 5..=expected).contains(&it)),
                "{first:?}"
            );
        }
    }

    /// Seven of ten are silent; four of these lose their leases later, and three of six are left.
    #[test]
    fn leases_that_are_gone_count_neither_way_or_as_silent() {
        let mut truth = truth();
        truth.cut(0, 7, after(100));
        assert!(truth.may_be_taken(0, after(130)) && !truth.may_be_given_back(0, after(130)));
        for node in 0..4 {
            truth.kubelets(0).unwrap().delete_lease(node, after(140));
        }
        assert!(truth.may_be_taken(0, after(170)) && truth.may_be_given_back(0, after(170)));
    }

    #[test]
    fn what_disturbs_is_an_excuse_until_leases_expire_anew() {
        let mut truth = truth();
        truth.disturbed(0, after(100), after(101));
        let excuses = truth.excuses(0);
        // 3 × 5.2 s, and what it takes to judge afresh.
        let until = after(101) + micros(Duration::from_millis(15_600));
        assert!(excuses.len() == 1 && excuses[0].from == after(100));
        assert!(excuses[0].until > until && excuses[0].until < until + 15 * SECOND);
    }
}
