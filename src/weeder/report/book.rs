//! What the weeder's writer knows, and what is to be written next: no client, no task.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use tokio::time::Instant;

use super::{WeedReport, events::transitions, pod, status, writer::Update};
use crate::{
    api::{WeedPolicy, WeedPolicyStatus},
    health::{
        events::{self, Event},
        kept::{Kept, log_problems},
        request::{WriteError, write_status},
        rights::RECOVERY,
        scribe::{Content, Ended},
    },
    runtime::seed::Seed,
};

/// All policies, and what is written of each.
#[derive(Default)]
pub(super) struct WeedBook {
    policies: BTreeMap<Arc<str>, Record>,
    /// Whether it was asked which rights are missing; until then, what an earlier run has left
    /// counts.
    asked: bool,
    /// What is to be said of rights that are missing.
    lacking: Option<String>,
    /// What is to be told.
    news: Vec<(ObjectReference, Event)>,
}

/// A WeedPolicy.
struct Record {
    report: WeedReport,
    kept: Kept<WeedPolicyStatus>,
}

/// A write of a status that has come to an end. The policy is named with its UID: another may have
/// taken its name meanwhile.
pub(super) struct Done {
    name: Arc<str>,
    uid: Arc<str>,
    status: Box<WeedPolicyStatus>,
    written: Result<(), WriteError>,
}

impl Ended for Done {
    fn kind(&self) -> &'static str {
        "WeedPolicy"
    }

    fn succeeded(&self) -> bool {
        self.written.is_ok()
    }
}

impl Content for WeedBook {
    type Update = Update;
    type Object = Arc<str>;
    type Done = Done;

    const CONTROLLER: &'static str = "dependency-watchdog-weeder";

    fn take(&mut self, update: Update) {
        match update {
            Update::Policies(reports) => self.take_policies(reports),
            Update::Pod(news) => self.news.push(pod::event(&news)),
            Update::Rights(missing) => self.take_rights(&missing),
        }
    }

    fn review(&mut self) {}

    fn next(&self) -> Option<(Instant, Arc<str>)> {
        let policies = self.policies.iter();
        let due = policies.filter_map(|(name, record)| Some((record.kept.schedule.due()?, name)));
        let soonest = due.min_by_key(|(due, _)| *due);
        soonest.map(|(due, name)| (due, name.clone()))
    }

    fn due(&self) -> usize {
        let now = Instant::now();
        let policies = self.policies.values();
        let due = policies.filter_map(|record| record.kept.schedule.due());
        due.filter(|due| *due <= now).count()
    }

    fn write(&mut self, seed: &Seed, name: &Arc<str>) -> Option<BoxFuture<'static, Done>> {
        let Record { report, kept } = self.policies.get_mut(name)?;
        let said = &kept.status;
        let lacking = match self.asked {
            true => self.lacking.as_deref(),
            false => RECOVERY.told(&said.conditions),
        };
        let status = status::status(report, lacking, said, Timestamp::now());
        if !kept.is_doubtful() && !status::differs(said, &status) {
            kept.settle();
            return None;
        }
        kept.begin();
        let (seed, name, uid) = (seed.clone(), name.clone(), report.uid.clone());
        Some(Box::pin(async move {
            let written = write_status::<WeedPolicy>(&seed, &name, &status).await;
            Done {
                name,
                uid,
                status: Box::new(status),
                written: written.map(|_| ()),
            }
        }))
    }

    fn written(&mut self, done: Done) {
        let Some(record) = self.policies.get_mut(&done.name) else {
            return;
        };
        if record.report.uid != done.uid {
            record.kept.predecessor_ended();
            return;
        }
        let object = ("WeedPolicy", &*done.name);
        if let Some(before) = record.kept.ended(object, *done.status, done.written) {
            let regarding = events::regarding::<WeedPolicy>(&done.name, Some(&done.uid));
            for event in transitions(&before, &record.kept.status) {
                self.news.push((regarding.clone(), event));
            }
        }
    }

    /// What was done is recorded nowhere else.
    fn close(&mut self) {
        for record in self.policies.values_mut() {
            record.kept.schedule.close();
        }
    }

    fn news(&mut self) -> Vec<(ObjectReference, Event)> {
        std::mem::take(&mut self.news)
    }
}

impl WeedBook {
    fn take_policies(&mut self, reports: Vec<WeedReport>) {
        let mut before = std::mem::take(&mut self.policies);
        for report in reports {
            let name = report.name.clone();
            let known = before.remove(&name);
            let news = known.as_ref().is_none_or(|known| known.report != report);
            if news {
                log_problems(&name, &report.problems);
            }
            // One that was created anew under its name is another.
            let record = match known.filter(|known| known.report.uid == report.uid) {
                Some(mut record) => {
                    if news {
                        record.kept.schedule.hurry(Instant::now());
                    }
                    Record { report, ..record }
                }
                None => Record {
                    kept: Kept::new(report.recorded.clone()),
                    report,
                },
            };
            self.policies.insert(name, record);
        }
    }

    fn take_rights(&mut self, missing: &[String]) {
        let lacking = RECOVERY.lacking(missing);
        let asked = std::mem::replace(&mut self.asked, true);
        if asked && self.lacking == lacking {
            return;
        }
        match &lacking {
            Some(lacking) => tracing::warn!("{lacking}"),
            None if asked => tracing::info!("{}", RECOVERY.suffice),
            None => {}
        }
        self.lacking = lacking;
        for record in self.policies.values_mut() {
            record.kept.schedule.hurry(Instant::now());
        }
    }
}
