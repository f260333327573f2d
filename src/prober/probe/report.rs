//! What one cluster's loop reports.

use tokio::time::Instant;

use super::{Presence, Probe, Stance};
use crate::{api::Mode, prober::report::ClusterReport};

impl Probe {
    /// Says what is known by now.
    pub(super) fn report(&mut self) {
        for news in self.guard.take_news() {
            self.shared.reporter.dependent(&self.name, news);
        }
        for tolerated in self.checks.take_tolerated() {
            let (check, message) = (tolerated.check, tolerated.message);
            self.shared
                .reporter
                .exec_tolerated(&self.name, check, message);
        }
        let protected = self.guard.protected_since();
        let overdue_in =
            protected.map(|since| self.shared.overdue_after.saturating_sub(since.elapsed()));
        self.overdue_at = overdue_in
            .filter(|rest| !rest.is_zero())
            .map(|rest| Instant::now() + rest);
        let (observed, checks) = match &self.stance {
            Stance::Probe(_) | Stance::LetGo(..) => {
                let mut checks = self.checks.statuses();
                checks.extend_from_slice(&self.providers);
                (self.view.clone(), checks)
            }
            _ => (None, vec![]),
        };
        self.counted.set(observed.as_ref().map(|view| view.state));
        // Held on to until this is sent: see `tell_gone`.
        let presence = self.presence.borrow();
        // Of a Cluster that is gone nobody keeps a record any more.
        let Presence::There(assignment) = &*presence else {
            return;
        };
        let responsible = assignment.selected.as_ref().or(assignment.former.as_ref());
        let dry_run = self.shared.dry_run || responsible.is_some_and(|it| it.brake.dry_run);
        let ledger = self.guard.ledger();
        let (engaged, looked_at) = (self.guard.is_engaged(), ledger.is_looked_at());
        let policy = self.policy.as_ref();
        let let_go = match &self.stance {
            Stance::LetGo(_, why) => why.clone(),
            _ => None,
        };
        let report = ClusterReport {
            uid: assignment.uid.clone(),
            policy: policy
                .filter(|_| assignment.selected.is_some() || engaged || !looked_at)
                .cloned(),
            mode: if dry_run { Mode::DryRun } else { Mode::Enforce },
            finding: self.finding.clone(),
            observed,
            checks,
            protection: self.guard.protection(),
            protected_since: protected.map(|since| since.stamp),
            overdue: overdue_in.is_some_and(|rest| rest.is_zero()),
            looked_at,
            last_action: self.guard.last_action().cloned(),
            held_back: self.held_back.clone(),
            let_go,
            dependents: ledger.status(),
            problems: ledger.problems().cloned().collect(),
            probed: self.probed,
        };
        self.shared.reporter.cluster(&self.name, report);
    }
}
