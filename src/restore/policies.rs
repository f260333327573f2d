//! Lets go of policies whose deletion waits until what they took is given back, when it is and no
//! operator is there to see it.

use super::{
    Restorer,
    look::{LookError, Scope},
    messages,
    plan::Plan,
};
use crate::status::{WriteError, set_finalizer};

/// What became of the policies whose deletion waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LetGo {
    /// Those that are gone now, unless somebody else's finalizer holds them too.
    pub freed: Vec<String>,
    /// Those that stay, and why.
    pub left: Vec<String>,
}

impl Restorer {
    /// Takes the finalizer off each policy that is being deleted and to which nothing is owed any
    /// more. Only to be asked while no operator is alive. All is looked at anew: what was restored
    /// may have been taken again.
    pub async fn let_go(&self) -> LetGo {
        let mut done = LetGo::default();
        let looked = async {
            let policies = self.policies().await?;
            let plans = self.plans(&Scope::All, &policies, &|_| ()).await?;
            Ok::<_, LookError>((policies, plans))
        };
        let (policies, plans) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                done.left.push(error.to_string());
                return done;
            }
        };
        let waiting = policies.iter().map(|known| &known.policy);
        for policy in waiting.filter(|policy| policy.deleting && policy.held) {
            let name = &*policy.name;
            if let Some(plan) = plans.iter().find(|plan| holds(plan, name)) {
                done.left.push(format!(
                    "ProbePolicy {name}: keeps its finalizer, since something is owed to {}",
                    plan.cluster
                ));
                continue;
            }
            match set_finalizer(&self.seed, name, &policy.uid, false).await {
                Ok(()) => done.freed.push(name.to_owned()),
                // Somebody else was faster.
                Err(error) if error.is_not_found() => done.freed.push(name.to_owned()),
                Err(error) => {
                    let why = match &error {
                        WriteError::Call(error) => messages::call("patch the ProbePolicy", error),
                        error => error.to_string(),
                    };
                    done.left
                        .push(format!("ProbePolicy {name}: keeps its finalizer: {why}"));
                }
            }
        }
        done
    }
}

/// Whether this policy may have taken what is not back there.
fn holds(plan: &Plan, policy: &str) -> bool {
    plan.owes() && plan.policy.as_deref().is_none_or(|known| known == policy)
}
