//! How each event is carried out.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fake::{
    farm::namespace,
    fault::Rule,
    store::{Call, Key, Store, Verb},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Weeding,
    plan::{Change, Edit, Event},
    pods::{self, APPS},
    services::{self, Unready},
};
use crate::world::{micros, now};

/// For how long a seed is away that is started again.
const RESTART: Duration = Duration::from_secs(3);
/// One that was frozen, or whose seed was away, may find out so late that it does not lead any more.
const EXCUSED: Duration = Duration::from_secs(45);
const UNREADY: [Unready; 3] = [Unready::Told, Unready::Terminating, Unready::Empty];

impl Weeding {
    /// Does it, and notes it.
    pub(super) async fn carry_out(&mut self, event: &Event) {
        self.note(format!("{event:?}"));
        self.excuse(event);
        self.act(event).await;
        self.excuse(event);
    }

    fn excuse(&mut self, event: &Event) {
        if event.is_excuse() {
            self.excused = micros() + fake::farm::micros(EXCUSED);
        }
    }

    async fn act(&mut self, event: &Event) {
        let seed = self.world.seed.clone();
        match *event {
            Event::Away(place, service) => {
                self.set_ready(place, service, false);
                let chance = self.random.u64(..);
                self.pods.crash(|it| {
                    let is_hit = chance >> (it.app * 4) & 3 > 0;
                    it.place == place && APPS[it.app].needs == Some(service) && is_hit
                });
            }
            Event::Back(place, service) => {
                self.set_ready(place, service, true);
                let broken = self.pods.broken.clone();
                self.pods.recover(&self.world, false, |it| {
                    let needs_it = it.place == place && APPS[it.app].needs == Some(service);
                    needs_it && !broken.contains(&(it.place, it.app))
                });
            }
            Event::Flap(place, service) => {
                self.set_ready(place, service, false);
                self.pass(Duration::from_millis(300)).await;
                self.set_ready(place, service, true);
            }
            Event::Touch(place, service) => services::touch(&self.world, place, service),
            Event::Second(place, service, true) => {
                let is_ready = !self.away.contains(&(place, service));
                let unready = (!is_ready).then_some(Unready::Told);
                services::tell(&self.world, place, service, 1, unready);
                self.second.insert((place, service));
            }
            Event::Second(place, service, false) => {
                services::remove(&self.world, place, service, 1);
                self.second.remove(&(place, service));
            }
            Event::Break(place, app) => {
                self.pods.broken.push((place, app));
                self.pods.crash(|it| (it.place, it.app) == (place, app));
            }
            Event::Loop(place, app) => {
                let is_it = |it: &pods::Pod| (it.place, it.app) == (place, app);
                self.pods.loop_now(&self.world, is_it);
            }
            Event::Mend(place, app) => {
                self.pods.broken.retain(|it| *it != (place, app));
                let is_it = |it: &pods::Pod| (it.place, it.app) == (place, app);
                self.pods.recover(&self.world, true, is_it);
            }
            Event::Delete(place, app) => {
                if let Some(name) = self.pods.one(place, app) {
                    pods::delete(&self.world, place, name);
                }
            }
            Event::Hide(place, app) => {
                if let Some(name) = self.pods.one(place, app) {
                    pods::show(&self.world, place, name, false);
                }
            }
            Event::Show(place, app) => {
                let all = self.pods.all.iter();
                for ((_, name), _) in all.filter(|(_, it)| (it.place, it.app) == (place, app)) {
                    pods::show(&self.world, place, name, true);
                }
            }
            Event::Idle(place, app) => self.pods.idle.push((place, app)),
            Event::Busy(place, app) => self.pods.idle.retain(|it| *it != (place, app)),
            Event::Place(place, is_shoot) => self.label(place, is_shoot),
            Event::Edit(policy, edit) => self.edit(policy, edit),
            Event::Undo(policy) => self.put_policy(policy),
            Event::Interfere(change) => {
                let key = Arc::new(Mutex::new(None));
                let found = key.clone();
                let is_deletion = move |call: &Call| {
                    *found.lock().unwrap() = Some(Key::new("pods", &call.namespace, &call.name));
                    is_deletion(call)
                };
                seed.interfere(1, is_deletion, move |store, now| {
                    let key = key.lock().unwrap().clone();
                    befall(store, now, &key.unwrap(), change);
                });
            }
            Event::Fault(fate, times) => seed.rule(Rule {
                times,
                ..Rule::always(fate, is_deletion)
            }),
            Event::CutWatches => seed.cut_watches(),
            Event::LateWatches => seed.switch(|it| it.late_watches = true),
            Event::GoneWatches => seed.switch(|it| it.gone_watches = true),
            Event::HealWatches => seed.switch(|it| {
                (it.late_watches, it.gone_watches) = (false, false);
            }),
            Event::Silence => seed.switch(|it| it.silent = true),
            Event::Reset => {
                seed.switch(|it| it.silent = false);
                seed.restart();
            }
            Event::RestartSeed => {
                seed.switch(|it| it.away = true);
                seed.restart();
                self.pass(RESTART).await;
                seed.switch(|it| it.away = false);
            }
            Event::Replace(leads, end) => {
                let one = self.one(leads);
                self.pair.replace(&self.world, one, end).await;
            }
            Event::Freeze(leads, _) => self.pair.freeze(self.one(leads)),
            Event::Thaw => self.pair.thaw(),
        }
    }

    /// The weeder that leads, or the other; any while none does.
    fn one(&self, leads: bool) -> usize {
        let leader = self.pair.leader(&self.world).unwrap_or_default();
        if leads { leader } else { 1 - leader }
    }

    /// Has a service be ready, or not. Of two slices it may be one that is.
    pub(super) fn set_ready(&mut self, place: usize, service: &'static str, is_ready: bool) {
        match is_ready {
            true => self.away.remove(&(place, service)),
            false => self.away.insert((place, service)),
        };
        let slices = 1 + usize::from(self.second.contains(&(place, service)));
        let ready = self.random.usize(..slices);
        let unready = UNREADY[self.random.usize(..UNREADY.len())];
        for slice in 0..slices {
            let unready = (!is_ready || slice != ready).then_some(unready);
            services::tell(&self.world, place, service, slice, unready);
        }
    }

    pub(super) fn label(&self, place: usize, is_shoot: bool) {
        let role = if is_shoot { "shoot" } else { "none" };
        let zone = if place.is_multiple_of(2) { "a" } else { "b" };
        self.world.edit("namespaces", "", &namespace(place), |it| {
            it["metadata"]["labels"] = json!({"gardener.cloud/role": role, "zone": zone});
        });
    }

    /// Has a policy be as it should.
    pub(super) fn put_policy(&self, policy: usize) {
        let wanted = &self.policies[policy];
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        if self.world.get("weedpolicies", "", name).is_null() {
            self.world.put(wanted);
        }
        let spec = wanted["spec"].clone();
        self.world
            .edit("weedpolicies", "", name, |it| it["spec"] = spec);
    }

    pub(super) fn edit(&self, policy: usize, edit: Edit) {
        let name = self.policies[policy]["metadata"]["name"].as_str();
        let name = name.unwrap_or_default();
        match edit {
            Edit::Spec(spec) => self.world.edit("weedpolicies", "", name, |it| {
                json_patch::merge(&mut it["spec"], &spec.patch());
            }),
            Edit::Delete => {
                let key = Key::new("weedpolicies", "", name);
                self.world.seed.store(|store, now| store.remove(&key, now));
            }
        }
    }

    pub(super) fn note(&mut self, what: String) {
        self.journal.push((now(), what));
    }
}

pub(super) fn is_deletion(call: &Call) -> bool {
    call.verb == Verb::Delete && call.plural == "pods"
}

/// Has something happen to a pod.
fn befall(store: &mut Store, now: Timestamp, key: &Key, change: Change) {
    match change {
        Change::Recovers => {
            let running = |it: &mut Value| {
                let state = json!({"running": {"startedAt": now.to_string()}});
                let container = json!([{"name": "main", "restartCount": 5, "state": state}]);
                it["status"] = json!({"phase": "Running", "containerStatuses": container});
            };
            store.edit(key, now, running);
        }
        Change::Touched => {
            let touch = |it: &mut Value| {
                it["metadata"]["annotations"]["touched"] = json!(now.to_string());
            };
            store.edit(key, now, touch);
        }
        Change::Gone => {
            store.remove(key, now);
        }
        Change::Replaced => {
            if let Some(mut pod) = store.get(key).cloned() {
                store.remove(key, now);
                pod["metadata"]["uid"] = Value::Null;
                store.put(now, pod);
            }
        }
        Change::Deleted => {
            let _ = store.call(&Call::new(Verb::Delete, key), now);
        }
    }
}
