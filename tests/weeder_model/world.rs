//! What happens, and what must follow from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use dependency_watchdog::{
    util::now::Now,
    weeder::{
        attempts::{Deletion, DeletionError},
        scopes::PodWatch,
        services::ServiceNames,
        state::{Sizes, State},
    },
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::{
    objects::{Namespace, Owner, Pod, Policy, Slice, namespace_name},
    rules::{ready, watched},
    steps::{Answer, Step},
};

/// The longest time after which a refused deletion is tried again.
const MAX_RETRY: Duration = Duration::from_secs(30);
/// Longer than any window.
const LONG: Duration = Duration::from_secs(100_000);

/// A change of an object, for the watches that have yet to tell of it.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Policy(usize, Option<Policy>),
    Namespace(usize, Option<Namespace>),
    Slice((usize, usize), Option<Slice>),
    Pod(u32, Option<Pod>),
}

/// How far a watch has told of the changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// `None`: it has yet to list.
    pub(super) position: Option<usize>,
}

/// What the watches have told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) policies: Option<BTreeMap<usize, Policy>>,
    pub(super) namespaces: Option<BTreeMap<usize, Namespace>>,
    pub(super) slices: BTreeMap<(usize, usize), Slice>,
    /// The services of which all slices have been told.
    pub(super) listed: BTreeSet<usize>,
    /// Whether all slices of all services have been told that are watched.
    pub(super) current: bool,
    pub(super) pods: BTreeMap<PodWatch, BTreeMap<u32, Pod>>,
    /// Every version of a pod that any watch has told.
    pub(super) versions: BTreeMap<(u32, u64), Pod>,
}

/// A window: the policy by its name and its UID, the namespace and the service.
pub(super) type Key = (usize, u32, usize, usize);

pub(crate) struct World {
    pub(super) state: State,
    pub(super) now: Now,
    pub(super) version: u64,
    pub(super) uids: u32,
    pub(super) policies: BTreeMap<usize, Policy>,
    pub(super) namespaces: BTreeMap<usize, Namespace>,
    pub(super) slices: BTreeMap<(usize, usize), Slice>,
    pub(super) pods: BTreeMap<u32, Pod>,
    pub(super) log: Vec<Entry>,
    pub(super) policy_stream: Stream,
    pub(super) namespace_stream: Stream,
    pub(super) slice_stream: Stream,
    pub(super) names: ServiceNames,
    pub(super) pod_streams: BTreeMap<PodWatch, Stream>,
    pub(super) told: Told,
    /// By the rules.
    pub(super) windows: BTreeMap<Key, Instant>,
    pub(super) covered: BTreeSet<Key>,
    /// Whether policies, namespaces and slices were all told once.
    pub(super) began: bool,
    /// By what the state has told, with the names of the policy, the namespace and the service.
    pub(super) opened: BTreeSet<(String, String, String)>,
    pub(super) in_flight: Vec<Deletion>,
    /// The pods whose labels have changed.
    pub(super) relabelled: BTreeSet<u32>,
    /// The pods to the deletion of which there was no answer.
    pub(super) lost: BTreeSet<u32>,
    /// The pods that the server has deleted on request.
    pub(super) deleted: BTreeSet<u32>,
    /// The pods that the state says were deleted, and how many for each policy by its UID.
    pub(super) weeded: BTreeSet<String>,
    pub(super) credits: BTreeMap<String, i64>,
}

impl World {
    pub(crate) fn new(namespaces: usize) -> Self {
        let calm = |_| Namespace {
            zoned: true,
            deleting: false,
        };
        let mut world = Self {
            state: State::default(),
            now: Now {
                mono: Instant::now(),
                wall: Timestamp::UNIX_EPOCH,
            },
            version: 0,
            uids: 0,
            policies: BTreeMap::new(),
            namespaces: (0..namespaces).map(|it| (it, calm(it))).collect(),
            slices: BTreeMap::new(),
            pods: BTreeMap::new(),
            log: Vec::new(),
            policy_stream: Stream::default(),
            namespace_stream: Stream::default(),
            slice_stream: Stream::default(),
            names: ServiceNames::default(),
            pod_streams: BTreeMap::new(),
            told: Told::default(),
            windows: BTreeMap::new(),
            covered: BTreeSet::new(),
            began: false,
            opened: BTreeSet::new(),
            in_flight: Vec::new(),
            relabelled: BTreeSet::new(),
            lost: BTreeSet::new(),
            deleted: BTreeSet::new(),
            weeded: BTreeSet::new(),
            credits: BTreeMap::new(),
        };
        world.review(&BTreeSet::new());
        world
    }

    pub(crate) fn step(&mut self, step: Step) {
        match step {
            Step::Policy(name, mut policy) => {
                policy.uid = match self.policies.get(&name) {
                    Some(known) => known.uid,
                    None => self.uid(),
                };
                self.policies.insert(name, policy.clone());
                self.log.push(Entry::Policy(name, Some(policy)));
            }
            Step::NoPolicy(name) => {
                if self.policies.remove(&name).is_some() {
                    self.log.push(Entry::Policy(name, None));
                }
            }
            Step::Namespace(name, namespace) => {
                self.namespaces.insert(name, namespace.clone());
                self.log.push(Entry::Namespace(name, Some(namespace)));
            }
            Step::NoNamespace(name) => {
                if self.namespaces.remove(&name).is_some() {
                    self.log.push(Entry::Namespace(name, None));
                }
            }
            Step::Slice(namespace, slice, service, ready, unchanged) => {
                let changed = unchanged.map(|it| self.now.wall - SignedDuration::from_secs(it));
                self.put_slice((namespace, slice), service, ready, changed);
            }
            Step::NoSlice(namespace, slice) => {
                if self.slices.remove(&(namespace, slice)).is_some() {
                    self.log.push(Entry::Slice((namespace, slice), None));
                }
            }
            Step::Everywhere(service, ready) => {
                let namespaces: Vec<usize> = self.namespaces.keys().copied().collect();
                for namespace in namespaces {
                    self.put_slice((namespace, service), service, ready, None);
                }
            }
            Step::NewPod(namespace, app, looping, owner) => {
                self.new_pod(namespace, app, looping, owner);
            }
            Step::ChangePod(pod, looping, app) => {
                if let Some(mut pod) = pick(&self.pods, pod).filter(|pod| !pod.terminating) {
                    pod.looping = looping;
                    if app.is_some_and(|app| app != pod.app) {
                        self.relabelled.insert(pod.uid);
                    }
                    pod.app = app.unwrap_or(pod.app);
                    self.put_pod(pod);
                }
            }
            Step::DeletePod(pod, grace) => {
                if let Some(pod) = pick(&self.pods, pod) {
                    self.end_pod(pod, grace);
                }
            }
            Step::Deliver(stream, count) => self.deliver(stream, count),
            Step::DeliverAll => self.deliver_all(),
            Step::Break(stream) => self.stream(stream).position = None,
            Step::Delete => self.delete(),
            Step::Answer(deletion, answer) => {
                if !self.in_flight.is_empty() {
                    let deletion = self.in_flight.remove(deletion % self.in_flight.len());
                    self.answer(deletion, answer);
                }
            }
            Step::Pass(millis) => self.pass(Duration::from_millis(millis)),
        }
    }

    /// The watches work, and the server accepts what it is asked for: every pod that an enforcing
    /// window claims, and has the time to, is deleted.
    pub(crate) fn calm_down(&mut self) {
        while let Some(deletion) = self.in_flight.pop() {
            self.answer(deletion, Answer::Honest);
        }
        self.deliver_all();
        let until = self.now.mono + MAX_RETRY;
        let claimed: Vec<u32> = self
            .pods
            .values()
            .filter(|pod| self.is_claimed(pod, until))
            .map(|pod| pod.uid)
            .collect();
        while self.now.mono <= until {
            self.delete();
            while let Some(deletion) = self.in_flight.pop() {
                self.answer(deletion, Answer::Honest);
            }
            self.deliver_all();
            if !self.state.may_delete() {
                self.pass(Duration::from_secs(1));
            }
        }
        for uid in claimed {
            let pod = self.pods.get(&uid);
            assert!(
                pod.is_none_or(|pod| pod.terminating),
                "{pod:?} is left, with {:?}",
                self.state.sizes()
            );
        }
    }

    /// Time passes, and nothing is left.
    pub(crate) fn end(&mut self) {
        self.pass(LONG);
        assert_eq!(self.state.sizes(), Sizes::default());
        assert_eq!(self.state.due(), None);
        assert_eq!(self.windows, BTreeMap::new());
    }

    fn uid(&mut self) -> u32 {
        self.uids += 1;
        self.uids
    }

    fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn put_slice(
        &mut self,
        place: (usize, usize),
        service: usize,
        ready: bool,
        changed: Option<Timestamp>,
    ) {
        let slice = Slice {
            service,
            version: self.version(),
            ready,
            changed,
        };
        self.slices.insert(place, slice.clone());
        self.log.push(Entry::Slice(place, Some(slice)));
    }

    fn new_pod(&mut self, namespace: usize, app: usize, looping: bool, owner: Owner) {
        let pod = Pod {
            namespace,
            uid: self.uid(),
            version: 0,
            app,
            looping,
            terminating: false,
            owner,
        };
        self.put_pod(pod);
    }

    fn put_pod(&mut self, mut pod: Pod) {
        pod.version = self.version();
        self.pods.insert(pod.uid, pod.clone());
        self.log.push(Entry::Pod(pod.uid, Some(pod)));
    }

    /// A pod is deleted; one that was terminating already is gone then.
    fn end_pod(&mut self, mut pod: Pod, grace: bool) {
        if grace && !pod.terminating {
            pod.terminating = true;
            self.put_pod(pod);
        } else {
            self.pods.remove(&pod.uid);
            self.log.push(Entry::Pod(pod.uid, None));
        }
    }

    fn stream(&mut self, index: usize) -> &mut Stream {
        let count = self.pod_streams.len() + 3;
        match index % count {
            0 => &mut self.policy_stream,
            1 => &mut self.namespace_stream,
            2 => &mut self.slice_stream,
            pods => self
                .pod_streams
                .values_mut()
                .nth(pods - 3)
                .expect("one of them"),
        }
    }

    fn deliver_all(&mut self) {
        // To tell all of one may begin others.
        for _ in 0..3 {
            for index in 0..3 + self.pod_streams.len() {
                self.deliver(index, usize::MAX);
            }
        }
    }

    fn deliver(&mut self, index: usize, count: usize) {
        let count = count.min(self.log.len() + 1);
        match index % (self.pod_streams.len() + 3) {
            0 => (0..count).for_each(|_| self.deliver_policy()),
            1 => (0..count).for_each(|_| self.deliver_namespace()),
            2 => (0..count).for_each(|_| self.deliver_slice()),
            pods => {
                let watch = self.pod_streams.keys().nth(pods - 3).cloned();
                let watch = watch.expect("one of them");
                for _ in 0..count {
                    // What it tells may end it.
                    if self.pod_streams.contains_key(&watch) {
                        self.deliver_pod(&watch);
                    }
                }
            }
        }
    }

    fn deliver_policy(&mut self) {
        match self.policy_stream.position {
            None => {
                self.policy_stream.position = Some(self.log.len());
                self.state.policy_event(Event::Init, self.now);
                self.review(&BTreeSet::new());
                for (name, policy) in &self.policies {
                    let event = Event::InitApply(policy.object(*name));
                    self.state.policy_event(event, self.now);
                }
                self.review(&BTreeSet::new());
                self.told.policies = Some(self.policies.clone());
                self.state.policy_event(Event::InitDone, self.now);
            }
            Some(position) => {
                let Some(entry) = self.log.get(position) else {
                    return;
                };
                self.policy_stream.position = Some(position + 1);
                let told = self.told.policies.get_or_insert_default();
                match entry {
                    Entry::Policy(name, Some(policy)) => {
                        told.insert(*name, policy.clone());
                        let event = Event::Apply(policy.object(*name));
                        self.state.policy_event(event, self.now);
                    }
                    Entry::Policy(name, None) => {
                        let Some(policy) = told.remove(name) else {
                            return;
                        };
                        let event = Event::Delete(policy.object(*name));
                        self.state.policy_event(event, self.now);
                    }
                    _ => return,
                }
            }
        }
        self.review(&BTreeSet::new());
    }

    fn deliver_namespace(&mut self) {
        match self.namespace_stream.position {
            None => {
                self.namespace_stream.position = Some(self.log.len());
                self.state.namespace_event(Event::Init, self.now);
                for (name, namespace) in &self.namespaces {
                    let event = Event::InitApply(namespace.object(*name));
                    self.state.namespace_event(event, self.now);
                }
                self.review(&BTreeSet::new());
                self.told.namespaces = Some(self.namespaces.clone());
                self.state.namespace_event(Event::InitDone, self.now);
            }
            Some(position) => {
                let Some(entry) = self.log.get(position) else {
                    return;
                };
                self.namespace_stream.position = Some(position + 1);
                let told = self.told.namespaces.get_or_insert_default();
                match entry {
                    Entry::Namespace(name, Some(namespace)) => {
                        told.insert(*name, namespace.clone());
                        let event = Event::Apply(namespace.object(*name));
                        self.state.namespace_event(event, self.now);
                    }
                    Entry::Namespace(name, None) => {
                        let Some(namespace) = told.remove(name) else {
                            return;
                        };
                        let event = Event::Delete(namespace.object(*name));
                        self.state.namespace_event(event, self.now);
                    }
                    _ => return,
                }
            }
        }
        self.review(&BTreeSet::new());
    }

    fn deliver_slice(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let names = self.names.clone();
        let watched = watched(&names);
        let (before, listed) = (ready(&self.told.slices), self.told.listed.clone());
        match self.slice_stream.position {
            None => {
                self.slice_stream.position = Some(self.log.len());
                let mut tell = |event| self.state.slice_event(&names, event, self.now);
                tell(Event::Init);
                let shown = self.slices.iter();
                let shown: BTreeMap<_, _> = shown
                    .filter(|(_, slice)| watched.contains(&slice.service))
                    .map(|(place, slice)| (*place, slice.clone()))
                    .collect();
                for (place, slice) in &shown {
                    tell(Event::InitApply(slice.object(*place)));
                }
                tell(Event::InitDone);
                // Who was ready and is, but all of whose ready slices have changed.
                let steady = |pair: &(usize, usize)| {
                    shown.iter().any(|(place, slice)| {
                        slice.ready
                            && (place.0, slice.service) == *pair
                            && self.told.slices.get(place) == Some(slice)
                    })
                };
                let mut unseen = &before & &ready(&shown);
                unseen.retain(|pair| !steady(pair));
                // They count as new to their policies.
                self.covered
                    .retain(|(_, _, namespace, service)| !unseen.contains(&(*namespace, *service)));
                self.told.slices = shown;
                self.told.listed = watched;
                self.told.current = true;
            }
            Some(position) => {
                let Some(entry) = self.log.get(position) else {
                    return;
                };
                self.slice_stream.position = Some(position + 1);
                let Entry::Slice(place, slice) = entry else {
                    return;
                };
                let shown = slice.as_ref().filter(|it| watched.contains(&it.service));
                let event = match shown {
                    Some(slice) => {
                        self.told.slices.insert(*place, slice.clone());
                        Event::Apply(slice.object(*place))
                    }
                    None => match self.told.slices.remove(place) {
                        Some(slice) => Event::Delete(slice.object(*place)),
                        None => return,
                    },
                };
                self.state.slice_event(&names, event, self.now);
            }
        }
        let recovered = ready(&self.told.slices).into_iter();
        let recovered = recovered.filter(|pair| listed.contains(&pair.1) && !before.contains(pair));
        self.review(&recovered.collect());
    }

    fn deliver_pod(&mut self, watch: &PodWatch) {
        let stream = self.pod_streams.get_mut(watch).expect("it is wanted");
        let matches = |pod: &Pod| {
            let namespace = watch.namespace.as_deref();
            namespace.is_none_or(|it| it == namespace_name(pod.namespace))
                && pod.matches(watch.selector.as_str())
        };
        let told = self.told.pods.entry(watch.clone()).or_default();
        match stream.position {
            None => {
                stream.position = Some(self.log.len());
                *told = self.pods.clone();
                told.retain(|_, pod| matches(pod));
                for pod in told.values() {
                    let key = (pod.uid, pod.version);
                    self.told.versions.insert(key, pod.clone());
                }
                let told = told.clone();
                self.state.pod_event(watch, Event::Init, self.now);
                for pod in told.values() {
                    let event = Event::InitApply(pod.object());
                    self.state.pod_event(watch, event, self.now);
                }
                self.state.pod_event(watch, Event::InitDone, self.now);
            }
            Some(position) => {
                let Some(entry) = self.log.get(position) else {
                    return;
                };
                stream.position = Some(position + 1);
                let Entry::Pod(uid, pod) = entry else {
                    return;
                };
                let event = match pod.as_ref().filter(|pod| matches(pod)) {
                    Some(pod) => {
                        told.insert(*uid, pod.clone());
                        let key = (pod.uid, pod.version);
                        self.told.versions.insert(key, pod.clone());
                        Event::Apply(pod.object())
                    }
                    None => match told.remove(uid) {
                        Some(pod) => Event::Delete(pod.object()),
                        None => return,
                    },
                };
                self.state.pod_event(watch, event, self.now);
            }
        }
        self.review(&BTreeSet::new());
    }

    fn delete(&mut self) {
        while let Some(deletion) = self.state.next_deletion(self.now) {
            self.check_deletion(&deletion);
            self.in_flight.push(deletion);
        }
        self.review(&BTreeSet::new());
        assert!(!self.state.may_delete());
    }

    /// The server answers.
    fn answer(&mut self, deletion: Deletion, answer: Answer) {
        if matches!(answer, Answer::Lost | Answer::Unheard) {
            self.lost
                .insert(deletion.uid.parse().expect("a UID of the model"));
        }
        let result = match answer {
            Answer::Honest => self.execute(&deletion),
            Answer::Throttled(seconds) => Err(DeletionError::Throttled(
                (seconds > 0).then(|| Duration::from_secs(seconds)),
            )),
            Answer::Refused => Err(DeletionError::Refused("no (403)".to_owned())),
            Answer::Lost => Err(DeletionError::Unanswered("no answer".to_owned())),
            Answer::Unheard => {
                let _ = self.execute(&deletion);
                Err(DeletionError::Unanswered("no answer".to_owned()))
            }
        };
        self.state.deletion_ended(deletion, result, self.now);
        self.review(&BTreeSet::new());
    }

    fn execute(&mut self, deletion: &Deletion) -> Result<(), DeletionError> {
        let uid: u32 = deletion.uid.parse().expect("a UID of the model");
        let Some(pod) = self.pods.get(&uid).cloned() else {
            return Err(DeletionError::Gone);
        };
        if pod.version.to_string() != *deletion.resource_version {
            return Err(DeletionError::Changed);
        }
        assert!(self.deleted.insert(uid), "{pod:?} is deleted twice");
        // Some need no time to end. The controller replaces them at once.
        self.end_pod(pod.clone(), uid.is_multiple_of(2));
        self.new_pod(pod.namespace, pod.app, false, pod.owner);
        Ok(())
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now.mono + time;
        while let Some(due) = self.state.due().filter(|due| *due <= until) {
            self.set_time(due);
            self.state.tick(self.now);
            self.review(&BTreeSet::new());
        }
        self.set_time(until);
    }

    fn set_time(&mut self, instant: Instant) {
        let passed = instant.duration_since(self.now.mono);
        self.now.mono = instant;
        self.now.wall += SignedDuration::try_from(passed).expect("not that long");
    }
}

fn pick(pods: &BTreeMap<u32, Pod>, index: usize) -> Option<Pod> {
    let index = index.checked_rem(pods.len())?;
    pods.values().nth(index).cloned()
}
