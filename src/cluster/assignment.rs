//! Which policy applies to one cluster, and what that comes to.

use std::sync::Arc;

use super::{
    eligibility::Skip,
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

    /// The dependents of the policy that applies, as far as it is known how it does.
    pub fn dependents(&self) -> &[Dependent] {
        let selected = self.selected.as_ref();
        let settings = selected.and_then(|selected| selected.settings.as_ref().ok());
        settings.map(|it| &*it.dependents).unwrap_or_default()
    }
}
