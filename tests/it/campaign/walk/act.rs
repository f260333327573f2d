//! How each event of a walk is carried out.

use std::time::Duration;

use fake::{
    farm::{Micros, NOTICE, namespace},
    oracle::{
        DEPENDENTS, IGNORE, MARK,
        event::{Event, Hurt},
        policy::Edit,
    },
    store::{Call, Key, Verb},
};
use serde_json::{Value, json};

use super::{SIZE, Walk, is_excuse, place};
use crate::{
    campaign::pair::End,
    world::{self, micros},
};

/// For how long a seed is away that is started again.
const RESTART: Duration = Duration::from_secs(3);
/// The policy that is documented.
const POLICY: &str = "shoots";

impl Walk {
    /// Does it, and notes it.
    pub(super) async fn carry_out(&mut self, event: &Event) -> Result<(), String> {
        let begun = micros();
        if is_excuse(event) {
            self.excuse();
        }
        let is_done = self.act(event, begun).await?;
        if is_excuse(event) {
            self.excuse();
        }
        if let Some(place) = self.open.iter().position(|end| end == event) {
            self.open.remove(place);
        }
        let left_out = if is_done { "" } else { " (left out)" };
        let line = format!("{}: {event:?}{left_out}", world::now());
        self.journal.push(line);
        if is_done {
            self.truth.happened(event, begun, micros());
            self.open.extend(event.end());
        }
        Ok(())
    }

    /// Makes up for all that was done.
    pub(super) async fn heal(&mut self) -> Result<(), String> {
        while let Some(end) = self.open.last().cloned() {
            self.carry_out(&end).await?;
        }
        Ok(())
    }

    /// Whether it was done: it may not be possible or sensible.
    async fn act(&mut self, event: &Event, begun: Micros) -> Result<bool, String> {
        let at = begun + NOTICE;
        match *event {
            Event::Cut { shoot, nodes } => self.shoot(shoot).kubelets().cut(nodes, at),
            Event::Restore { shoot } => self.shoot(shoot).kubelets().restore(at),
            Event::Kill { shoot, how } => fake::farm::Server::die(self.shoot(shoot), how, at),
            Event::Revive { shoot } => fake::farm::Server::revive(self.shoot(shoot), at),
            Event::Hibernate { shoot } => self.hibernate(shoot, true),
            Event::Wake { shoot } => {
                self.give_replicas(shoot);
                self.hibernate(shoot, false);
            }
            Event::Remove { shoot } => {
                let kept = self.world.get("clusters", "", &namespace(shoot));
                self.delete(&Key::new("clusters", "", &namespace(shoot)));
                self.removed.insert(shoot, kept);
            }
            Event::Create { shoot } => {
                if let Some(mut cluster) = self.removed.remove(&shoot) {
                    let metadata = &cluster["metadata"];
                    cluster["metadata"] =
                        json!({"name": metadata["name"], "labels": metadata["labels"]});
                    self.world.put(&cluster);
                }
                self.give_replicas(shoot);
            }
            Event::Rotate { shoot } => {
                self.tokens += 1;
                let token = format!("token-{}", self.tokens);
                self.shoot(shoot).accept_only(token.clone());
                self.world.put_secret(shoot, &token);
            }
            Event::Scale {
                shoot,
                dependent,
                replicas,
            } => {
                self.truth.count(shoot, dependent, replicas.into());
                if !self.is_well(shoot, dependent) {
                    return Ok(false);
                }
                self.edit(shoot, dependent, |it| {
                    it["spec"]["replicas"] = json!(replicas)
                });
                self.wanted.insert((shoot, dependent), replicas.into());
            }
            Event::Annotate { shoot, dependent } => self.edit(shoot, dependent, |it| {
                it["metadata"]["annotations"]["walk/at"] = json!(begun.to_string());
            }),
            Event::Replace { shoot, dependent } => {
                self.delete(&Key::new("deployments", &namespace(shoot), dependent));
                let replicas = self.wanted[&(shoot, dependent)];
                self.world
                    .put_workload(shoot, "Deployment", dependent, replicas);
            }
            Event::Ignore { shoot, dependent } => {
                if !self.is_well(shoot, dependent) {
                    return Ok(false);
                }
                self.edit(shoot, dependent, |it| {
                    it["metadata"]["annotations"][IGNORE] = json!("true");
                });
            }
            Event::Heed { shoot, dependent } => self.edit(shoot, dependent, |it| {
                let annotations = it["metadata"]["annotations"].as_object_mut();
                annotations.map(|all| all.remove(IGNORE));
            }),
            Event::Policy(edit) => self.edit_policy(edit),
            Event::Hurt(hurt, role) => {
                let one = place(role, self.leader().await?);
                match hurt {
                    Hurt::Freeze(_) => self.pair.freeze(one),
                    Hurt::Kill => self.pair.replace(&self.world, one, End::Killed).await,
                    Hurt::Terminate => self.pair.replace(&self.world, one, End::Terminated).await,
                }
            }
            Event::Thaw => self.pair.thaw(),
            Event::RestartSeed => {
                let seed = &self.world.seed;
                seed.switch(|it| it.away = true);
                seed.restart();
                self.world.pass(RESTART).await;
                self.world.seed.switch(|it| it.away = false);
            }
        }
        Ok(true)
    }

    /// Has a shoot sleep, or be awake, as gardenlet says once it has taken that up.
    fn hibernate(&self, shoot: usize, is_on: bool) {
        let change = |cluster: &mut Value| {
            let shoot = &mut cluster["spec"]["shoot"];
            let generation = shoot["metadata"]["generation"].as_i64().unwrap_or(1) + 1;
            shoot["metadata"]["generation"] = json!(generation);
            shoot["status"]["observedGeneration"] = json!(generation);
            shoot["spec"]["hibernation"] = json!({"enabled": is_on});
            shoot["status"]["hibernated"] = json!(is_on);
        };
        self.world.edit("clusters", "", &namespace(shoot), change);
    }

    /// Scales as Gardener does when a shoot is reconciled that nobody protects.
    fn give_replicas(&self, shoot: usize) {
        for name in DEPENDENTS {
            let replicas = self.wanted[&(shoot, name)];
            self.edit(shoot, name, |it| it["spec"]["replicas"] = json!(replicas));
        }
    }

    fn edit(&self, shoot: usize, dependent: &str, change: impl FnOnce(&mut Value)) {
        let namespace = namespace(shoot);
        self.world
            .edit("deployments", &namespace, dependent, change);
    }

    fn delete(&self, key: &Key) {
        let call = Call::new(Verb::Delete, key);
        let deleted = self.world.seed.store(|store, now| store.call(&call, now));
        deleted.expect("it is there");
    }

    /// Whether a dependent is up and without a mark.
    fn is_well(&self, shoot: usize, dependent: &str) -> bool {
        let found = self.world.get("deployments", &namespace(shoot), dependent);
        let annotations = &found["metadata"]["annotations"];
        found["spec"]["replicas"].as_i64() > Some(0)
            && annotations[MARK].is_null()
            && annotations[IGNORE].is_null()
    }

    fn edit_policy(&self, edit: Edit) {
        let spec = self.truth.newest_policy().edited(edit).spec();
        self.world.edit("probepolicies", "", POLICY, |policy| {
            json_patch::merge(&mut policy["spec"], &spec);
        });
    }

    /// All shoots by their numbers.
    pub(super) fn shoots() -> std::ops::Range<usize> {
        0..SIZE.shoots
    }
}
