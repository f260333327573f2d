//! Which policy applies to one cluster, and what that comes to.

use std::sync::Arc;

use super::{
    eligibility::{Skip, Then},
    selection::PolicyHold,
    settings::{Dependent, Settings, SettingsError},
};

/// Statement of the objects about a cluster. What was (a protection, a delay since it became eligible)
/// is not known here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The Cluster's `metadata.uid`, for owner references.
    pub uid: Arc<str>,
    /// Why it is not probed, whichever policy applies; `None` if it is.
    pub skip: Option<Skip>,
    /// The policy that applies; `None` if no valid one selects the cluster.
    pub selected: Option<Selected>,
    /// If none does, the one that did last, as it is now. By its settings the cluster is let go.
    pub former: Option<Selected>,
}

/// The policy that applies to a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The name of the policy.
    pub policy: Arc<str>,
    /// Actions that it holds back, also where there are no settings.
    pub hold: PolicyHold,
    /// The settings for the cluster. They are there for a skipped cluster too, since it may have
    /// to be restored by them.
    pub settings: Result<Arc<Settings>, SettingsError>,
    /// The policies that select the cluster as well, in vain, by falling precedence.
    pub outranked: Vec<Arc<str>>,
}

impl Assignment {
    /// The policy that applies, or did last.
    pub fn responsible(&self) -> Option<&Selected> {
        self.selected.as_ref().or(self.former.as_ref())
    }

    /// Hold of the policy that applies, or did last.
    pub fn hold(&self) -> PolicyHold {
        self.responsible().map(|it| it.hold).unwrap_or_default()
    }

    /// The dependents of the policy that applies, as far as it is known how it does.
    pub fn dependents(&self) -> &[Dependent] {
        let settings = self.selected.as_ref().map(|selected| &selected.settings);
        match settings {
            Some(Ok(settings)) => &settings.dependents,
            _ => &[],
        }
    }

    /// Tells whether the Cluster is gone.
    pub fn is_gone(&self) -> bool {
        let skip = self.skip.as_ref();
        skip.is_some_and(|skip| skip.then == Then::Bury)
    }

    /// Notes that the Cluster is gone. The policy that is responsible stays.
    pub fn bury(&mut self) {
        self.skip = Some(Skip {
            reason: "Gone",
            message: "the Cluster is gone".to_owned(),
            then: Then::Bury,
        });
    }
}
