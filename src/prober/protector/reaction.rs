//! The time from the moment at which an outage could be proven to the first write, measured once.

use tokio::time::Instant;

use crate::prober::verdict::Verdict;

/// How far the reaction to the outage at hand has come, which is measured once.
#[derive(Default)]
pub(super) struct Reaction {
    /// When the outage could be proven, unless that was in a dry run.
    provable: Option<Instant>,
    /// When a verdict was last reached in mode DryRun: what was provable by then was not to be acted
    /// on.
    dry_run_at: Option<Instant>,
    /// The flow under way is to scale down, and nothing was owed when it began.
    pub(super) awaited: bool,
    /// What there was to write has been written. What is written later is for another reason, such as
    /// somebody who scales up what is down.
    pub(super) over: bool,
}

impl Reaction {
    /// The leases were judged; if they are an outage, it could be proven at this moment.
    pub(super) fn verdict(&mut self, dry_run: bool, verdict: Verdict, provable: Option<Instant>) {
        if dry_run {
            self.dry_run_at = Some(Instant::now());
        }
        if verdict == Verdict::Healthy {
            self.over = false;
        }
        if !self.awaited {
            self.provable = provable.filter(|at| self.dry_run_at < Some(*at));
        }
    }

    /// A flow begins, of a cluster that something is owed to or not.
    pub(super) fn begins(&mut self, protects: bool, owes: bool) {
        self.over &= protects;
        self.awaited = protects && !owes && !self.over;
    }

    /// Something was scaled to zero: since when that could have been done, if it is the first.
    pub(super) fn scaled_down(&mut self) -> Option<Instant> {
        self.over = true;
        std::mem::take(&mut self.awaited)
            .then_some(self.provable)
            .flatten()
    }
}
