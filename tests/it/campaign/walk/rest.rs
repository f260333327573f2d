//! A rest: all is made healthy and must come to be exactly as it was; then some fall silent, who must be protected.

use std::time::Duration;

use fake::{
    farm::namespace,
    oracle::{DEPENDENTS, MARK, event::Event},
};
use serde_json::Value;

use super::{SIZE, Walk};

/// Until all is well. Another must lead first (15 s), read and judge all; an API server that was dead is tried again
/// within half a minute, and Nodes are looked at once a minute.
const WELL: Duration = Duration::from_secs(240);
/// In which nothing is done, and nothing may be written to a dependent.
const QUIET: Duration = Duration::from_secs(15);
/// Until those that fall silent are protected: their leases expire after 24 s at most, and to watch the silence takes no
/// longer than that.
const PROTECTED: Duration = Duration::from_secs(50);

impl Walk {
    /// Has everything come to rest.
    pub(super) async fn rest(&mut self) -> Result<(), String> {
        self.heal().await?;
        // A silence lasts until the leases are renewed, read and judged.
        self.pass(QUIET).await;
        self.comes_to("not well", WELL, Self::lacks_nothing).await?;
        let versions = self.history().len();
        self.pass(QUIET).await;
        // A read that hung since before may have failed meanwhile.
        self.comes_to("not well again", WELL, Self::lacks_nothing)
            .await?;
        match self.history().len() - versions {
            0 => Ok(()),
            more => Err(format!(
                "{more} writes to dependents while nothing was wrong"
            )),
        }
    }

    /// Cuts some off while all else is well, and waits until they, and no others, are protected.
    pub(super) async fn drill(&mut self, shoots: &[usize]) -> Result<(), String> {
        for shoot in shoots {
            let (shoot, nodes) = (*shoot, SIZE.nodes);
            self.carry_out(&Event::Cut { shoot, nodes }).await?;
        }
        let taken = |walk: &Self| {
            for shoot in Self::shoots() {
                for name in DEPENDENTS {
                    let found = walk.dependent(shoot, name);
                    let is_taken = !found["metadata"]["annotations"][MARK].is_null()
                        && found["spec"]["replicas"] == 0;
                    if is_taken != shoots.contains(&shoot) {
                        return Err(format!("{name} of shoot {shoot} is taken: {is_taken}"));
                    }
                }
            }
            Ok(())
        };
        self.comes_to("a drill", PROTECTED, taken).await
    }

    async fn comes_to(
        &mut self,
        what: &str,
        limit: Duration,
        met: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut left = limit;
        loop {
            match met(self) {
                Ok(()) => return Ok(()),
                Err(lacks) if left.is_zero() => return Err(format!("{what}: {lacks}")),
                Err(_) => {
                    let time = left.min(Duration::from_secs(1));
                    self.pass(time).await;
                    left -= time;
                }
            }
        }
    }

    /// Fails unless all is as people want it, and the operator says so.
    fn lacks_nothing(&self) -> Result<(), String> {
        let policy = self.world.get("probepolicies", "", "shoots");
        let status = &policy["status"];
        let generation = &policy["metadata"]["generation"];
        if status["observedGeneration"] != *generation {
            return Err(format!(
                "the policy's status is not of generation {generation}"
            ));
        }
        let conditions = status["conditions"].as_array();
        let on = conditions
            .into_iter()
            .flatten()
            .filter(|it| it["status"] == "True");
        let on: Vec<&Value> = on.map(|it| &it["type"]).collect();
        if on != ["Ready"] || status["clusters"]["probing"] != SIZE.shoots {
            return Err(format!("the policy says {status}"));
        }
        let finalizers = policy["metadata"]["finalizers"].as_array();
        if finalizers.is_some_and(|it| !it.is_empty()) {
            return Err("the policy is held by its finalizer".to_owned());
        }
        for shoot in Self::shoots() {
            let health = self.world.get("clusterhealths", "", &namespace(shoot));
            let status = &health["status"];
            let is_so = status["protection"] == "None"
                && status["reason"] == "Healthy"
                && status["state"] == "ONLINE";
            if !is_so {
                return Err(format!("shoot {shoot}: {status}"));
            }
            for name in DEPENDENTS {
                let found = self.dependent(shoot, name);
                let wanted = self.wanted[&(shoot, name)];
                let mark = &found["metadata"]["annotations"][MARK];
                if found["spec"]["replicas"] != wanted || !mark.is_null() {
                    let has = &found["spec"]["replicas"];
                    return Err(format!(
                        "{name} of shoot {shoot} has {has}, not {wanted}, with the mark {mark}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn dependent(&self, shoot: usize, name: &str) -> Value {
        self.world.get("deployments", &namespace(shoot), name)
    }
}
