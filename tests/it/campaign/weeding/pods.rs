//! The pods of control planes, played: a kubelet that says what their containers do, and the controllers that replace
//! those that are gone.

use std::{collections::BTreeMap, time::Duration};

use fake::{
    farm::namespace,
    store::{Call, Key, Verb},
};
use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{World, now};

/// The services, as those of a real control plane: nothing needs the other two.
pub const ETCD: &str = "etcd-main-client";
pub const API_SERVER: &str = "kube-apiserver";
pub const SERVICES: [&str; 2] = [ETCD, API_SERVER];
/// The label by which policies find pods of control planes.
const PLANE: &str = "gardener.cloud/role";
/// Waits for its image all the time.
const IMAGELESS: &str = "puller";
/// What a kubelet waits before it starts a container again that crashed twice; it doubles with each crash.
const BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// How long a container runs before it crashes.
const RUNS: Duration = Duration::from_secs(2);

/// Pods of one controller.
#[derive(Debug)]
pub struct App {
    pub name: &'static str,
    /// The label `role`.
    role: &'static str,
    /// The kind of the controller; empty for an owner that is none.
    kind: &'static str,
    replicas: usize,
    /// For which service they are deleted if they crash-loop.
    pub weeded_for: Option<&'static str>,
    /// What they crash without.
    pub needs: Option<&'static str>,
}

const fn app(
    name: &'static str,
    role: &'static str,
    kind: &'static str,
    replicas: usize,
    weeded_for: Option<&'static str>,
    needs: Option<&'static str>,
) -> App {
    App {
        name,
        role,
        kind,
        replicas,
        weeded_for,
        needs,
    }
}

/// All pods of a control plane.
pub const APPS: [App; 8] = {
    let (etcd, api) = (Some(ETCD), Some(API_SERVER));
    [
        app("kube-apiserver", "apiserver", "ReplicaSet", 3, etcd, etcd),
        app("scheduler", "scheduler", "ReplicaSet", 2, api, api),
        app("vpn-seed-server", "vpn", "StatefulSet", 2, api, api),
        app("etcd-main", "main", "StatefulSet", 1, None, None),
        app("compact", "compact", "Job", 1, None, api),
        app("mirror", "mirror", "Node", 1, None, api),
        app("lonely", "lonely", "", 1, None, api),
        app(IMAGELESS, "puller", "ReplicaSet", 1, None, None),
    ]
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// It has crashed, and no more is said of it yet.
    Ended,
    /// It waits for its back-off to end, which is said.
    Waiting,
}

/// A pod, as its kubelet knows it.
#[derive(Debug)]
pub struct Pod {
    pub place: usize,
    pub app: usize,
    uid: String,
    crashes: bool,
    state: State,
    restarts: u32,
    started: Timestamp,
    ended: Timestamp,
    /// When its container does something again.
    due: Option<Timestamp>,
    /// When it is gone, if it is being deleted.
    gone: Option<Timestamp>,
    /// Whether its kubelet tells of a back-off only when it is over.
    is_quiet: bool,
    /// Whether it is an init container that crashes.
    is_init: bool,
}

/// What the seed says of a pod.
struct Found {
    uid: String,
    is_terminating: bool,
}

/// All pods, by place and name.
pub struct Pods {
    random: Rng,
    pub all: BTreeMap<(usize, String), Pod>,
    /// When a controller makes up for a pod that is missing, by place, app and replica.
    missing: BTreeMap<(usize, usize, usize), Timestamp>,
    /// Whose controllers create nothing, by place and app.
    pub idle: Vec<(usize, usize)>,
    /// Whose pods crash whatever is ready.
    pub broken: Vec<(usize, usize)>,
    names: usize,
    /// Up to which version of the seed all is known.
    revision: u64,
}

impl Pods {
    /// All that belong to so many control planes.
    pub fn create(random: Rng, world: &World, places: usize) -> Self {
        let mut pods = Self {
            random,
            all: BTreeMap::new(),
            missing: BTreeMap::new(),
            idle: Vec::new(),
            broken: Vec::new(),
            names: 0,
            revision: 0,
        };
        pods.complete(world, places);
        pods
    }

    /// Creates what is missing.
    pub fn complete(&mut self, world: &World, places: usize) {
        for place in 0..places {
            for (app, it) in APPS.iter().enumerate() {
                self.missing
                    .retain(|(at, of, _), _| (*at, *of) != (place, app));
                for _ in self.count(place, app)..it.replicas {
                    let replica = self.free(place, app);
                    self.add(world, place, app, replica);
                }
            }
        }
    }

    /// Lets kubelets and controllers do what is due.
    pub fn tick(&mut self, world: &World) {
        let now = now();
        // To look at the seed wakes all that watch it.
        let found = world.seed.store(|store, _| {
            let is_new = store.revision() != self.revision;
            self.revision = store.revision();
            is_new.then(|| {
                let pods = store.objects("pods");
                pods.map(|(key, pod)| (key.clone(), Found::of(pod)))
                    .collect::<BTreeMap<_, _>>()
            })
        });
        for key in self.all.keys().cloned().collect::<Vec<_>>() {
            if let Some(found) = &found {
                let place = Key::new("pods", &namespace(key.0), &key.1);
                self.follow(&key, found.get(&place), now);
            }
            self.end(world, &key, now);
            self.run(world, &key, now);
        }
        let due = self.missing.extract_if(.., |_, at| *at <= now);
        for ((place, app, replica), _) in due.collect::<Vec<_>>() {
            self.add(world, place, app, replica);
        }
    }

    /// Has the pods that are meant crash.
    pub fn crash(&mut self, which: impl Fn(&Pod) -> bool) {
        let now = now();
        for pod in self.all.values_mut().filter(|it| which(it)) {
            if !pod.crashes && pod.state == State::Running {
                pod.due = Some(now);
            }
            pod.crashes = true;
        }
    }

    /// Has them have crashed several times by now, and wait for a long time.
    pub fn loop_now(&mut self, world: &World, which: impl Fn(&Pod) -> bool) {
        let now = now();
        for ((_, name), pod) in self.all.iter_mut().filter(|(_, it)| which(it)) {
            pod.crashes = true;
            pod.restarts = self.random.u32(4..7);
            (pod.started, pod.ended) = (now - RUNS, now);
            pod.state = match pod.is_quiet {
                true => State::Ended,
                false => State::Waiting,
            };
            pod.due = Some(now + pod.back_off());
            pod.tell(world, name);
        }
    }

    /// Lets them run at their next start, or at once.
    pub fn recover(&mut self, world: &World, at_once: bool, which: impl Fn(&Pod) -> bool) {
        let now = now();
        for ((_, name), pod) in self.all.iter_mut().filter(|(_, it)| which(it)) {
            pod.crashes = false;
            if pod.state == State::Running {
                pod.due = None;
            } else if at_once {
                pod.start(now);
                pod.tell(world, name);
            }
        }
    }

    /// The name of one of the pods of an app, if there is any.
    pub fn one(&self, place: usize, app: usize) -> Option<&str> {
        let mut own = self.all.iter();
        let found = own.find(|(_, it)| (it.place, it.app) == (place, app) && it.gone.is_none());
        found.map(|((_, name), _)| &**name)
    }

    /// Takes up what others have done to a pod.
    fn follow(&mut self, key: &(usize, String), found: Option<&Found>, now: Timestamp) {
        let Some(pod) = self.all.get_mut(key) else {
            return;
        };
        let (place, app, is_going) = (pod.place, pod.app, pod.gone.is_some());
        let waits = APPS[app].kind == "StatefulSet";
        let Some(found) = found else {
            self.all.remove(key);
            if waits || !is_going {
                self.miss(place, app, now);
            }
            return;
        };
        if found.uid != pod.uid {
            // Somebody has put another in its place.
            (pod.uid, pod.gone) = (found.uid.clone(), None);
        }
        if found.is_terminating && pod.gone.is_none() {
            let most = if self.random.u8(..5) == 0 { 40 } else { 6 };
            pod.gone = Some(now + Duration::from_secs(self.random.u64(..most)));
            if !waits {
                self.miss(place, app, now);
            }
        }
    }

    /// Ends a pod that is being deleted, and whose time is over.
    fn end(&self, world: &World, (place, name): &(usize, String), now: Timestamp) {
        let pod = self.all.get(&(*place, name.clone()));
        if pod.and_then(|it| it.gone).is_some_and(|it| it <= now) {
            let key = Key::new("pods", &namespace(*place), name);
            world.seed.store(|store, now| store.remove(&key, now));
        }
    }

    /// A controller may be one pod short.
    fn miss(&mut self, place: usize, app: usize, now: Timestamp) {
        let coming = self.missing.keys();
        let coming = coming.filter(|(at, of, _)| (*at, *of) == (place, app));
        let is_short = self.count(place, app) + coming.count() < APPS[app].replicas;
        if !is_short || APPS[app].kind.is_empty() || self.idle.contains(&(place, app)) {
            return;
        }
        let pause = Duration::from_millis(self.random.u64(..3_000));
        let replica = self.free(place, app);
        self.missing.insert((place, app, replica), now + pause);
    }

    /// How many pods of an app are there to stay.
    fn count(&self, place: usize, app: usize) -> usize {
        let own = |it: &&Pod| (it.place, it.app) == (place, app) && it.gone.is_none();
        self.all.values().filter(own).count()
    }

    /// The first number that no pod has, nor is to have.
    fn free(&self, place: usize, app: usize) -> usize {
        let is_free = |it: &usize| {
            let name = format!("{}-{it}", APPS[app].name);
            !self.all.contains_key(&(place, name)) && !self.missing.contains_key(&(place, app, *it))
        };
        (0..).find(is_free).unwrap_or_default()
    }

    fn add(&mut self, world: &World, place: usize, app: usize, replica: usize) {
        let it = &APPS[app];
        let mut name = format!("{}-{replica}", it.name);
        if it.kind == "ReplicaSet" {
            self.names += 1;
            name = format!("{}-7d9f-{:05}", it.name, self.names);
        }
        let uid = format!("{}-{place}", it.name);
        let owner = match it.kind {
            "" => json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": it.name, "uid": uid}]),
            kind => json!([{
                "apiVersion": "v1", "kind": kind, "name": it.name, "uid": uid, "controller": true,
            }]),
        };
        world.put(&json!({
            "kind": "Pod",
            "metadata": {
                "name": name, "namespace": namespace(place), "ownerReferences": owner,
                "labels": {PLANE: "controlplane", "role": it.role},
            },
            // One without a node has nobody to wait for when it is deleted.
            "spec": {"nodeName": if self.random.u8(..4) > 0 { "node" } else { "" }},
        }));
        let object = world.get("pods", &namespace(place), &name);
        let crashes = self.broken.contains(&(place, app));
        let now = now();
        let pod = Pod {
            place,
            app,
            uid: object["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            crashes,
            state: State::Running,
            restarts: 0,
            started: now,
            ended: now,
            due: crashes.then_some(now + RUNS),
            gone: None,
            is_quiet: self.random.bool(),
            is_init: self.random.u8(..4) == 0,
        };
        pod.tell(world, &name);
        self.all.insert((place, name), pod);
    }

    /// Has the container of a pod do what is due.
    fn run(&mut self, world: &World, key: &(usize, String), now: Timestamp) {
        let pod = self.all.get_mut(key);
        let Some(pod) = pod.filter(|it| it.due.is_some_and(|due| due <= now)) else {
            return;
        };
        match pod.state {
            State::Running => {
                (pod.state, pod.ended) = (State::Ended, now);
                let waits = match (pod.restarts, pod.is_quiet) {
                    (0, _) | (_, false) => Duration::from_secs(1),
                    _ => pod.back_off(),
                };
                pod.due = Some(now + waits);
            }
            State::Ended if pod.restarts > 0 && !pod.is_quiet => {
                pod.state = State::Waiting;
                pod.due = Some(now + pod.back_off());
            }
            State::Ended | State::Waiting => pod.start(now),
        }
        pod.tell(world, &key.1);
    }
}

impl Found {
    fn of(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            is_terminating: metadata["deletionTimestamp"].is_string(),
        }
    }
}

impl Pod {
    fn start(&mut self, now: Timestamp) {
        (self.state, self.started) = (State::Running, now);
        self.restarts += 1;
        self.due = self.crashes.then(|| now + RUNS);
    }

    fn back_off(&self) -> Duration {
        let doubled = BACK_OFF * 2_u32.pow(self.restarts.saturating_sub(1).min(8));
        doubled.min(LONGEST_BACK_OFF)
    }

    /// Whether its container runs, and goes on to.
    pub fn is_well(&self) -> bool {
        self.state == State::Running && !self.crashes && self.gone.is_none()
    }

    fn tell(&self, world: &World, name: &str) {
        let second = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
        let ended = json!({"terminated": {
            "exitCode": 1, "reason": "Error",
            "startedAt": second(self.started), "finishedAt": second(self.ended),
        }});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        let (state, last) = match self.state {
            _ if APPS[self.app].name == IMAGELESS => (
                json!({"waiting": {"reason": "ImagePullBackOff"}}),
                json!({}),
            ),
            State::Running if self.is_init && !self.crashes => (
                json!({"terminated": {
                    "exitCode": 0, "reason": "Completed",
                    "startedAt": second(self.started), "finishedAt": second(self.started),
                }}),
                json!({}),
            ),
            State::Running => (
                json!({"running": {"startedAt": second(self.started)}}),
                json!({}),
            ),
            State::Ended => (ended, json!({})),
            State::Waiting => (waiting, ended),
        };
        let runs = self.state == State::Running;
        let container = json!([{
            "name": "main", "restartCount": self.restarts, "ready": runs, "state": state, "lastState": last,
        }]);
        let status: Value = match self.is_init {
            true => json!({"phase": "Pending", "initContainerStatuses": container}),
            false => json!({"phase": "Running", "containerStatuses": container}),
        };
        world.edit("pods", &namespace(self.place), name, |it| {
            // Of another with the same name it does not know yet.
            if it["metadata"]["uid"] == *self.uid {
                it["status"] = status;
            }
        });
    }
}

/// Deletes a pod as a person would.
pub fn delete(world: &World, place: usize, name: &str) {
    let call = Call::new(Verb::Delete, &Key::new("pods", &namespace(place), name));
    // It may be gone.
    let _ = world.seed.store(|store, now| store.call(&call, now));
}

/// Has a pod be found by policies, or not.
pub fn show(world: &World, place: usize, name: &str, is_shown: bool) {
    let role = if is_shown { "controlplane" } else { "spared" };
    world.edit("pods", &namespace(place), name, |it| {
        it["metadata"]["labels"][PLANE] = json!(role);
    });
}
