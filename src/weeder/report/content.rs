//! What the weeder's writer knows, and what is to be written next: no client, no task.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{WeedReport, events::transitions, pod, status};
use crate::{
    api::{WeedPolicy, WeedPolicyStatus},
    runtime::seed::Seed,
    status::{
        events::Event,
        policies::{Policies, Reported},
        writer::{Content, Next, Write},
    },
    util::now::wall,
    weeder::case::{Case, Deed},
};

impl Reported for WeedReport {
    type Policy = WeedPolicy;
    type Status = WeedPolicyStatus;

    const KIND: &'static str = "WeedPolicy";

    fn transitions(before: &Self::Status, after: &Self::Status) -> Vec<Event> {
        transitions(before, after)
    }

    fn name(&self) -> &Arc<str> {
        &self.policy.name
    }

    fn uid(&self) -> &Arc<str> {
        &self.policy.uid
    }

    fn problems(&self) -> &[String] {
        &self.policy.problems
    }
}

/// All policies, and what is written of each.
#[derive(Default)]
pub(super) struct WeedContent {
    policies: Policies<WeedReport, ()>,
    /// What is to be told.
    news: Vec<(ObjectReference, Event)>,
}

impl Content for WeedContent {
    type Object = Arc<str>;

    const CONTROLLER: &'static str = "dependency-watchdog-weeder";

    fn next(&mut self) -> Option<Next<Arc<str>>> {
        let policies = self.policies.0.iter();
        let due = policies.filter_map(|(name, policy)| Some((policy.schedule.due()?, name)));
        let soonest = due.min_by_key(|(due, _)| *due);
        soonest.map(|(due, name)| Next {
            due,
            minor: false,
            object: name.clone(),
        })
    }

    fn due(&self) -> usize {
        let now = Instant::now();
        let policies = self.policies.0.iter();
        let due = policies.filter_map(|(_, policy)| policy.schedule.due());
        due.filter(|due| *due <= now).count()
    }

    fn write(&mut self, seed: &Seed, name: &Arc<str>) -> Option<Write<Self>> {
        let policy = self.policies.0.get(name)?;
        let status = status::status(&policy.report, &policy.status, wall());
        self.policies.write(
            seed,
            name,
            status,
            |content: &mut Self| &mut content.policies,
            |content: &mut Self, events| content.news.extend(events),
        )
    }

    /// What was done is recorded nowhere else.
    fn close(&mut self) {
        for policy in self.policies.0.values_mut() {
            policy.schedule.close();
        }
    }

    fn news(&mut self) -> Vec<(ObjectReference, Event)> {
        std::mem::take(&mut self.news)
    }
}

impl WeedContent {
    /// All policies that there are.
    pub(super) fn take_policies(&mut self, reports: Vec<WeedReport>) {
        self.policies.take(reports, |it| (it.recorded.clone(), ()));
    }

    /// What was done to a pod.
    pub(super) fn take_pod(&mut self, case: &Case, deed: &Deed) {
        self.news.push(pod::event(case, deed));
    }
}
