//! How much may go wrong in one exploration.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use dependency_watchdog::{
    api::{DependentRef, Mode, Restore},
    cluster::{Dependent, Scale, Settings},
    prober::plan::Family,
};

use super::{
    action::{Action, Fate},
    flaws::Flaw,
};

/// A dependent of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) family: Family,
    /// The level at which it is scaled up, and that at which it is scaled down.
    pub(crate) levels: (u32, u32),
    pub(crate) replicas: i32,
    /// What it waits for before it is scaled.
    pub(crate) delayed: bool,
}

impl Part {
    pub(crate) const fn new(family: Family, up: u32, down: u32, replicas: i32) -> Self {
        Self {
            family,
            levels: (up, down),
            replicas,
            delayed: false,
        }
    }
}

/// How often what may happen, over a whole history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// The leases fall silent, are fresh again, or cannot be judged; a check comes to something else.
    pub(crate) turns: u8,
    /// A request fails or is carried out unanswered.
    pub(crate) faults: u8,
    /// A write is given up by its sender, and arrives later.
    pub(crate) late: u8,
    /// The process ends, by a crash, in order, or since it does not lead any more.
    pub(crate) ends: u8,
    /// The evidence gets too old, since the process was frozen.
    pub(crate) freezes: u8,
    /// A person or an HPA writes a dependent.
    pub(crate) people: u8,
    /// gardenlet reads the replicas of a dependent, and writes them later.
    pub(crate) deploys: u8,
    /// Somebody changes the policy.
    pub(crate) policies: u8,
    /// The Cluster is deleted, hibernated, loses its workers, is gone, or comes back.
    pub(crate) lives: u8,
    /// etcd is restored to what was saved of it.
    pub(crate) rollbacks: u8,
    /// The seed's API server is away, and comes back.
    pub(crate) outages: u8,
}

impl Budget {
    /// From which of them an action is paid, unless it is free.
    pub(crate) fn of(&mut self, action: &Action) -> Option<&mut u8> {
        Some(match action {
            Action::Turn(_) => &mut self.turns,
            Action::Scale(..) | Action::Unmark(_) | Action::Ignore(_) | Action::Delete(_) => {
                &mut self.people
            }
            Action::Decide(_) => &mut self.deploys,
            Action::SetPolicy(_) => &mut self.policies,
            Action::SetCluster(_) => &mut self.lives,
            Action::RollBack => &mut self.rollbacks,
            Action::Away(true) => &mut self.outages,
            Action::Crash | Action::End | Action::Depose => &mut self.ends,
            Action::Freeze => &mut self.freezes,
            Action::Request(_, Fate::Answered | Fate::AnsweredLate) => return None,
            Action::Request(_, Fate::Crash) => &mut self.ends,
            Action::Request(_, Fate::Late) => &mut self.late,
            Action::Request(..) => &mut self.faults,
            _ => return None,
        })
    }
}

/// One exploration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) parts: Vec<Part>,
    pub(crate) budget: Budget,
    /// Whether a Trigger and a Gate are part of the policy.
    pub(crate) checks: bool,
    /// The policy's `initialDelay`, of a cluster that comes after the operator: longer than a write that was
    /// given up may take.
    pub(crate) initial_delay: Duration,
    /// Whether controllers take their time, so that it matters whether replicas are there or gone.
    pub(crate) slow: bool,
    /// Whether something may happen between a write and the answer to it.
    pub(crate) slow_answers: bool,
    /// Whether other clusters are restored at the same time, so that its turn comes at some moment.
    pub(crate) paced: bool,
    pub(crate) flaw: Flaw,
    /// By mode, made once.
    pub(crate) settings: [OnceCell<Arc<Settings>>; 2],
}

/// They are the same in all states of an exploration.
impl Hash for Bounds {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Bounds {
    pub(crate) fn settings(&self, mode: Mode) -> Arc<Settings> {
        let settings = &self.settings[usize::from(mode == Mode::DryRun)];
        let settings = settings.get_or_init(|| Arc::new(self.made_settings(mode)));
        settings.clone()
    }

    fn made_settings(&self, mode: Mode) -> Settings {
        let parts = self.parts.iter().enumerate();
        let dependents = parts.map(|(index, part)| match self.flaw {
            Flaw::NoOrder => dependent(
                index,
                &Part {
                    levels: (0, 0),
                    ..*part
                },
            ),
            _ => dependent(index, part),
        });
        Settings {
            policy: "shoots".into(),
            mode,
            secret_name: "dwd".into(),
            interval: Duration::from_secs(10),
            initial_delay: self.initial_delay,
            timeout: Duration::from_secs(30),
            jitter_factor: 0.0,
            grace: Duration::from_secs(40),
            fraction: 0.6,
            recovery: 0.6,
            minimum_silent: 2,
            max_protection: None,
            failure_threshold: 1,
            success_threshold: 1,
            restore: Restore::Marked,
            dependents: dependents.collect(),
            pools: BTreeMap::new(),
            observer: Arc::default(),
            checks: Arc::default(),
        }
    }
}

fn dependent(index: usize, part: &Part) -> Dependent {
    let scale = |level| Scale {
        level,
        initial_delay: Duration::from_secs(u64::from(part.delayed)),
        timeout: Duration::from_secs(30),
        await_nodes: Duration::ZERO,
    };
    let (api_version, kind) = match part.family {
        Family::Apps => ("apps/v1", "Deployment"),
        Family::Scalable | Family::Unscalable => ("druid.gardener.cloud/v1alpha1", "Etcd"),
    };
    Dependent {
        reference: DependentRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: format!("d{index}"),
        },
        optional: false,
        up: scale(part.levels.0),
        down: scale(part.levels.1),
    }
}
