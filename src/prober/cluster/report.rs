//! What one cluster's loop reports.

use std::time::Duration;

use super::{ClusterLoop, Treatment};
use crate::{api::Mode, prober::report::ClusterReport, runtime::metrics::in_state, util::now::Now};

/// A protection that lasts longer is reported, since a person must look: nothing replaces its nodes. Judgement:
/// most networks are repaired sooner.
const OVERDUE_AFTER: Duration = Duration::from_secs(30 * 60);

impl ClusterLoop {
    /// Says what is known by now.
    pub(super) fn report(&mut self) {
        for tolerated in self.checks.take_tolerated() {
            let (check, message) = (tolerated.check, tolerated.message);
            let reporter = &self.acting.term.reporter;
            reporter.exec_tolerated(&self.name, check, message);
        }
        let (now, decider) = (Now::read(), &self.acting.decider);
        let told = decider.told();
        let protected = told.protected_since;
        // There are none of a cluster that is not probed.
        let mut checks = self.checks.statuses();
        let providers = self.view.iter().flat_map(|view| &view.providers);
        checks.extend(providers.cloned());
        let state = self.view.as_ref().map(|view| view.state.name());
        let states = &self.acting.term.metrics.observed;
        self.counted = state.map(|state| in_state(states, state));
        let assignment = self.assignment.borrow();
        // Of a Cluster that is gone nobody keeps a record any more.
        if assignment.is_gone() {
            return;
        }
        let dry_run = self.acting.term.scaler.dry_run || assignment.hold().dry_run;
        let dependents = decider.dependents();
        let awaits = decider.awaits_nodes(now.mono);
        let (engaged, looked_at) = (dependents.is_engaged(), dependents.is_looked_at());
        let policy = self.policy.clone();
        let settings = decider.treatment().settings();
        let let_go = match decider.treatment() {
            Treatment::LetGo(_, why) => why.clone(),
            _ => None,
        };
        let report = ClusterReport {
            uid: assignment.uid.clone(),
            policy: policy.filter(|_| assignment.selected.is_some() || engaged || !looked_at),
            mode: Mode::Enforce.or_dry_run(dry_run),
            finding: told.finding.clone(),
            observed: self.view.clone(),
            checks,
            protection: decider.protection(),
            protected_since: protected.map(|since| since.stamp),
            silent_since: told.silent_since.filter(|_| settings.is_some()),
            grace: settings.map(|settings| settings.rules.grace),
            max_protection_reached: decider.cut().map(|(at, _)| at.stamp),
            overdue: protected.is_some_and(|since| since.elapsed(now) >= OVERDUE_AFTER),
            looked_at,
            last_action: told.last_action.clone(),
            awaits: awaits
                .map(|(_, returning)| returning)
                .filter(|it| !it.is_complete()),
            held_back: told.held_back.clone(),
            let_go,
            dependents: dependents.status(),
            problems: dependents.problems().cloned().collect(),
            probed: told.probed,
        };
        self.acting.term.reporter.cluster(&self.name, report);
    }
}
