//! What the operator aims at, by the treatment that it takes.

use std::{collections::BTreeMap, sync::Arc};

use super::{account::State, record::Record};
use crate::{
    api::{CheckResult, CheckRole, DependentStatus, Mode, is_outage},
    cluster::{Selected, Settings},
    prober::{
        plan::{self, Aim},
        report::{Finding, HEALTHY},
        treatment::Treatment,
    },
};

/// What is to be expected of the operator.
#[derive(Clone, Copy)]
pub(super) struct Outlook<'a> {
    /// How the cluster is.
    pub(super) state: State,
    /// What the operator does about it; `None` if too little could be read.
    pub(super) treatment: Option<&'a Treatment>,
    /// The responsible policy.
    pub(super) selected: Option<&'a Selected>,
    /// Its settings for the cluster.
    pub(super) settings: Option<&'a Arc<Settings>>,
    /// The operator's record.
    pub(super) record: Option<&'a Record>,
    /// The dependents in it.
    pub(super) recorded: &'a [DependentStatus],
}

/// Why a cluster is not probed, or cannot be judged by what its objects say.
pub(super) fn finding(treatment: &Treatment) -> Option<&Finding> {
    match treatment {
        Treatment::Hibernate(_, finding)
        | Treatment::Complete(_, finding)
        | Treatment::Hold(finding, _)
        | Treatment::Idle(finding) => Some(finding),
        Treatment::Probe(_) | Treatment::LetGo(..) | Treatment::Gone | Treatment::Done => None,
    }
}

impl Outlook<'_> {
    /// What the operator aims at, as far as it can be told from outside.
    pub(super) fn aim(&self) -> Aim {
        match self.treatment {
            Some(Treatment::Probe(_)) if self.is_silent() => Aim::Protect,
            Some(Treatment::Complete(aim, _)) => *aim,
            Some(Treatment::Gone) => Aim::Release,
            Some(Treatment::Idle(_) | Treatment::Done) | None => Aim::Look,
            Some(
                Treatment::Probe(_)
                | Treatment::LetGo(..)
                | Treatment::Hibernate(..)
                | Treatment::Hold(..),
            ) => Aim::Restore,
        }
    }

    /// Whether what it aims at is not done for the time being.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.treatment, Some(Treatment::Hold(..)))
            || self.is_dry_run()
            || self.record.is_some_and(|record| record.held_back)
    }

    fn is_silent(&self) -> bool {
        self.reason().is_some_and(is_outage)
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.reason() == Some(HEALTHY)
    }

    fn reason(&self) -> Option<&str> {
        self.record.and_then(|record| record.reason.as_deref())
    }

    pub(super) fn is_dry_run(&self) -> bool {
        let probed = matches!(
            self.treatment,
            Some(Treatment::Probe(_) | Treatment::LetGo(..))
        );
        probed
            && self
                .settings
                .is_some_and(|settings| settings.mode == Mode::DryRun)
    }

    /// The checks, as the record has them, without which nothing is restored, and which do not pass.
    pub(super) fn in_the_way(&self) -> String {
        let checks = self.record.map_or(&[][..], |record| &record.checks);
        let closed = checks.iter().filter_map(|check| {
            let role = check.role.filter(|role| *role != CheckRole::Observe)?;
            let passes = check.result == CheckResult::Passing;
            (!passes).then(|| format!("the {role:?} {} ({:?})", check.name, check.result))
        });
        closed.collect::<Vec<_>>().join(", ")
    }

    /// `a, then b and c`: the order in which dependents are scaled, by the policy, or back by the
    /// record where no policy is left.
    pub(super) fn order(&self, aim: Aim) -> String {
        let levels: Vec<Vec<&str>> = match self.settings {
            Some(settings) => plan::levels(&settings.dependents, aim)
                .into_iter()
                .map(|(_, level)| level.iter().map(|it| &*it.reference.name).collect())
                .collect(),
            None => {
                let mut levels: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
                for it in self.recorded {
                    levels.entry(it.level).or_default().push(&it.r#ref.name);
                }
                levels.into_values().collect()
            }
        };
        let levels: Vec<String> = levels.iter().map(|level| level.join(" and ")).collect();
        levels.join(", then ")
    }
}
