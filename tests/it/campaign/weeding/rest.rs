//! A rest: all is made well and must come to rest; then pods crash, and those whose service becomes ready are deleted.

use std::time::Duration;

use fake::{
    farm::namespace,
    fault::{Fate, Rule},
};

use super::{
    Weeding,
    act::is_deletion,
    plan::{Edit, Spec},
    pods::{APPS, SERVICES},
};

/// Until all is well. A pod may take 40 s to end, another must lead first (15 s), and a weeder may try its watches
/// again only after 30 s.
const WELL: Duration = Duration::from_secs(150);
/// Until pods are deleted for a service that is ready.
const WEEDED: Duration = Duration::from_secs(5);
/// Until an answer, if they are slow: where more are to be deleted than may be at once, it is waited for one.
const SLOW: Duration = Duration::from_secs(4);
/// So many deletions are refused: each of another pod, so that it is asked for again after a second.
const REFUSED: usize = 3;
/// Until a change is seen while nothing is wrong.
const SEEN: Duration = Duration::from_secs(1);

impl Weeding {
    /// Has everything come to rest, no sooner than after this time, with no service ready and no pod crashing.
    pub(super) async fn rest(&mut self, after: Duration) -> Result<(), String> {
        self.note("rest".to_owned());
        while let Some((_, end)) = self.open.pop() {
            self.carry_out(&end).await;
        }
        self.world.seed.heal();
        for policy in 0..self.policies.len() {
            self.put_policy(policy);
        }
        for place in 0..self.places {
            for service in SERVICES {
                self.set_ready(place, service, false);
            }
        }
        self.pods.complete(&self.world, self.places);
        self.pods.recover(&self.world, true, |_| true);
        self.pass(after).await;
        let mut left = WELL;
        while let Err(lacks) = self.lacks_nothing() {
            if left.is_zero() {
                return Err(format!("not well: {lacks}"));
            }
            self.pass(SEEN).await;
            left -= SEEN;
        }
        Ok(())
    }

    fn lacks_nothing(&self) -> Result<(), String> {
        for policy in &self.policies {
            let name = policy["metadata"]["name"].as_str().unwrap_or_default();
            let found = self.world.get("weedpolicies", "", name);
            let status = &found["status"];
            let conditions = status["conditions"].as_array();
            let is = |what: &str, wanted: &str| {
                let mut all = conditions.into_iter().flatten();
                all.any(|it| it["type"] == what && it["status"] == wanted)
            };
            let is_so = status["observedGeneration"] == found["metadata"]["generation"]
                && is("Ready", "True")
                && is("Degraded", "False")
                && status["openWindows"] == 0
                && status["services"]["ready"] == 0;
            if !is_so {
                return Err(format!("the policy {name} says {status}"));
            }
        }
        match self.pods.all.iter().find(|(_, it)| !it.is_well()) {
            Some((_, pod)) => Err(format!("{pod:?}")),
            None => Ok(()),
        }
    }

    /// Has all pods crash, and some services become ready.
    pub(super) async fn drill(&mut self) -> Result<(), String> {
        let is_dry = self.random.u8(..4) == 0;
        let fate = [
            None,
            Some((Fate::Late(SLOW), usize::MAX)),
            Some((Fate::Refuse(500, None), REFUSED)),
        ][self.random.usize(..3)];
        self.note(format!("drill, in DryRun: {is_dry}, with {fate:?}"));
        if let Some((fate, times)) = fate {
            let always = Rule::always(fate, is_deletion);
            self.world.seed.rule(Rule { times, ..always });
        }
        if is_dry {
            for policy in 0..self.policies.len() {
                self.edit(policy, Edit::Spec(Spec::DryRun));
            }
        }
        self.pods.loop_now(&self.world, |_| true);
        let uids = self.pods.all.keys().map(|key| (key.clone(), self.uid(key)));
        let uids: Vec<_> = uids.collect();
        let apps = self.pods.all.values().map(|it| it.app);
        let apps: Vec<_> = apps.collect();
        self.pass(SEEN).await;
        for place in 0..self.places {
            for service in SERVICES {
                if self.random.u8(..4) > 0 {
                    self.set_ready(place, service, true);
                    self.note(format!("{service} of {} is ready", namespace(place)));
                }
            }
        }
        self.pass(WEEDED).await;
        self.world.seed.heal();
        for ((key, uid), app) in uids.into_iter().zip(apps) {
            let service = APPS[app].weeded_for;
            let is_due = service.is_some_and(|it| !self.away.contains(&(key.0, it))) && !is_dry;
            let is_done = self.uid(&key) != uid;
            if is_due != is_done {
                return Err(format!("in a drill, {key:?} is deleted: {is_done}"));
            }
        }
        Ok(())
    }

    /// The UID of a pod that is not in deletion.
    fn uid(&self, (place, name): &(usize, String)) -> Option<String> {
        let metadata = &self.world.get("pods", &namespace(*place), name)["metadata"];
        let uid = metadata["uid"].as_str();
        uid.filter(|_| metadata["deletionTimestamp"].is_null())
            .map(str::to_owned)
    }
}
