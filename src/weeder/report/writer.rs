//! The writer of the weeder: the statuses of WeedPolicies, and events. No other task writes these.

use super::{WeedReport, pod, status::status};
use crate::{
    report::{
        WriterMetrics,
        desk::Desk,
        object::{Kind, Status},
        writer::{Sender, Writer, send},
    },
    runtime::{health::Health, seed::Seed},
    weeder::case::{Case, Deed},
};

/// The name of the controller in events.
const CONTROLLER: &str = "dependency-watchdog-weeder";

/// Hands reports to the weeder's writer. Never blocks.
#[derive(Clone, Debug)]
pub(in crate::weeder) struct WeedReporter(Sender<()>);

impl WeedReporter {
    /// The writer, with these metrics and this health, and who hands it reports.
    pub(in crate::weeder) fn new(
        seed: Seed,
        metrics: WriterMetrics,
        health: Health,
    ) -> (Writer, Self) {
        let desk = Desk::new(metrics.events.clone());
        let (writer, sender) = Writer::new(seed, CONTROLLER, (), desk, metrics, health);
        (writer, Self(sender))
    }

    /// Reports all policies that there are, once all that they are about has been listed: what a report does
    /// not tell is over.
    pub(in crate::weeder) fn policies(&self, policies: Vec<WeedReport>) {
        send(&self.0, move |(), desk| {
            for report in &policies {
                let (name, uid) = (&report.policy.name, &report.policy.uid);
                desk.left(name, uid, Status::Weed(Box::new(report.recorded.clone())));
                desk.want(name, uid, Status::Weed(Box::new(status(report))), true);
            }
            let is_there = |name: &str| policies.iter().any(|it| *it.policy.name == *name);
            desk.retain(&[Kind::WeedPolicy], is_there);
        });
    }

    /// Reports what was done to a pod, or deliberately not.
    pub(in crate::weeder) fn pod(&self, case: Box<Case>, deed: Deed) {
        send(&self.0, move |(), desk| {
            let (regarding, event) = pod::event(&case, &deed);
            let (namespace, pod) = (&*case.namespace, &*case.pod.name);
            let (policy, reason, note) = (&*case.policy.name, &*event.reason, &event.note);
            match deed {
                Deed::Refused(_) => tracing::warn!(namespace, pod, policy, reason, "{note}"),
                _ => tracing::info!(namespace, pod, policy, reason, "{note}"),
            }
            desk.tell_of(regarding, event);
        });
    }
}
