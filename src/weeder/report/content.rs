//! What the weeder's writer knows, and what is to be written next: no client, no task.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{
    PodNews, WeedReport,
    events::transitions,
    pod,
    status::{self, RIGHTS},
};
use crate::{
    api::{WeedPolicy, WeedPolicyStatus},
    runtime::seed::Seed,
    status::{
        events::Event,
        policies::{Policies, Reported},
        writer::{Content, Next, Write},
    },
    util::now::wall,
};

impl Reported for WeedReport {
    type Policy = WeedPolicy;
    type Status = WeedPolicyStatus;

    const KIND: &'static str = "WeedPolicy";

    fn transitions(before: &Self::Status, after: &Self::Status) -> Vec<Event> {
        transitions(before, after)
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn uid(&self) -> &Arc<str> {
        &self.uid
    }

    fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// All policies, and what is written of each.
#[derive(Default)]
pub(super) struct WeedContent {
    policies: Policies<WeedReport, ()>,
    /// Whether it was asked which rights are missing; until then, what an earlier run has left
    /// counts.
    asked: bool,
    /// What is to be said of rights that are missing.
    lacking: Option<String>,
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
        let lacking = match self.asked {
            true => self.lacking.as_deref(),
            false => RIGHTS.told(&policy.status.conditions),
        };
        let status = status::status(&policy.report, lacking, &policy.status, wall());
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
    pub(super) fn take_pod(&mut self, news: &PodNews) {
        self.news.push(pod::event(news));
    }

    /// The rights that are missing.
    pub(super) fn take_rights(&mut self, missing: &[String]) {
        let lacking = RIGHTS.lacking(missing);
        let asked = std::mem::replace(&mut self.asked, true);
        if asked && self.lacking == lacking {
            return;
        }
        match &lacking {
            Some(lacking) => tracing::warn!("{lacking}"),
            None if asked => tracing::info!("{}", RIGHTS.suffice),
            None => {}
        }
        self.lacking = lacking;
        self.policies.hurry();
    }
}
