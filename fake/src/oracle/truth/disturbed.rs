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
