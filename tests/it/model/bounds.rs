//! How much may go wrong in one exploration.

use super::*;

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
            Turn(_) => &mut self.turns,
            Scale(..) | Unmark(_) | Ignore(_) | Delete(_) => &mut self.people,
            Decide(_) => &mut self.deploys,
            SetPolicy(_) => &mut self.policies,
            SetCluster(_) => &mut self.lives,
            RollBack => &mut self.rollbacks,
            Away(true) => &mut self.outages,
            Action::Crash | End | Depose | Request(_, Fate::Crash) => &mut self.ends,
            Freeze => &mut self.freezes,
            Request(_, Fate::Answered | Fate::AnsweredLate) => return None,
            Request(_, Fate::Late) => &mut self.late,
            Request(..) => &mut self.faults,
            _ => return None,
        })
    }
}

/// One exploration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) parts: Vec<Part>,
    pub(crate) budget: Budget,
    /// Whether a Gate is part of the policy.
    pub(crate) checks: bool,
    /// The policy's `initialDelay`, of a cluster that comes after the operator: longer than a write that was
    /// given up may take.
    pub(crate) initial_delay: Duration,
    /// Whether controllers take their time, so that it matters whether replicas are there or gone.
    pub(crate) slow: bool,
    /// Whether something may happen between a write and the answer to it.
    pub(crate) slow_answers: bool,
    /// Whether other clusters are restored at the same time, so that its turn comes later.
    pub(crate) paced: bool,
    pub(crate) flaw: Flaw,
    /// By the mode Enforce and by DryRun, made once.
    pub(crate) settings: OnceCell<[Arc<Settings>; 2]>,
}

/// They are the same in all states of an exploration.
impl Hash for Bounds {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Bounds {
    /// What the index says of a cluster, by what has become of its policy and of it.
    pub(crate) fn assignment(&self, (policy, life): (Policy, Life)) -> Box<Assignment> {
        let made = || [Mode::Enforce, Mode::DryRun].map(|mode| Arc::new(self.made(mode)));
        let dry_run = policy == Policy::DryRun;
        let hold = PolicyHold {
            suspended: policy == Policy::Suspended,
            dry_run,
            ..PolicyHold::default()
        };
        let then = match life {
            Probed => None,
            Gone => Some(Then::Bury),
            NoWorkers => Some(Then::Restore),
            FallingAsleep => Some(Then::LetGo),
            Deleting => Some(Then::Release),
        };
        let skip = then.map(|then| Skip {
            reason: "Skipped",
            message: String::new(),
            then,
        });
        let by = Some(Selected {
            policy: "shoots".into(),
            hold,
            settings: Ok(self.settings.get_or_init(made)[usize::from(dry_run)].clone()),
            outranked: vec![],
        });
        let (selected, former) = match policy {
            Policy::Deleted => (None, by),
            _ => (by, None),
        };
        Box::new(Assignment {
            uid: "uid".into(),
            skip,
            selected,
            former,
        })
    }

    fn made(&self, mode: Mode) -> Settings {
        let parts = self.parts.iter().enumerate();
        let dependents: Vec<Value> = parts.map(|(index, part)| self.info(index, part)).collect();
        let spec = serde_json::from_value(json!({
            "mode": mode, "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
            "backoffJitterFactor": 0.0, "initialDelay": format!("{}s", self.initial_delay.as_secs()),
            "dependentResourceInfos": dependents,
        }));
        let template = Settings::of_policy("shoots".into(), &spec.expect("a policy"));
        let cluster = json!({"metadata": {"name": "a"}, "spec": {"shoot": {}}});
        let cluster = serde_json::from_value(cluster).expect("a Cluster");
        let mut settings = template.for_cluster(&cluster).expect("valid");
        // No evidence ages by itself.
        settings.rules.timeout = AGELESS;
        settings
    }

    /// A dependent, as the policy lists it.
    fn info(&self, index: usize, part: &Part) -> Value {
        let ordered = u32::from(self.flaw != Flaw::NoOrder);
        let (up, down) = (part.levels.0 * ordered, part.levels.1 * ordered);
        let delay = format!("{}s", u8::from(part.delayed));
        json!({
            "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("d{index}")},
            "optional": false,
            "scaleUp": {"level": up, "initialDelay": delay},
            "scaleDown": {"level": down, "initialDelay": delay},
        })
    }
}
