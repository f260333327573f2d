//! What happens, and what must follow from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use dependency_watchdog::{
    health::PodDeed,
    weeder::{
        news::News,
        now::Now,
        scopes::PodWatch,
        services::ServiceNames,
        state::{Sizes, State},
        weeds::{Deletion, DeletionError},
    },
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use proptest::prelude::*;
use tokio::time::Instant;

use super::objects::{
    Flaw, Namespace, Owner, Pod, Policy, SELECTORS, SERVICES, Slice, namespace_name, policy_name,
};

const POLICIES: usize = 3;
/// The limits of the weeder.
const MAX_WATCHES: usize = 21;
const MAX_IN_FLIGHT: usize = 32;
const MAX_IN_NAMESPACE: usize = 4;
const MAX_LAST_WEEDS: usize = 10;
const MAX_RETRY: Duration = Duration::from_secs(30);
/// Longer than any window.
const LONG: Duration = Duration::from_secs(100_000);

/// Something happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A policy is created or changed.
    Policy(usize, Policy),
    /// A policy goes; one that comes later under its name is another.
    NoPolicy(usize),
    Namespace(usize, Namespace),
    NoNamespace(usize),
    Slice(usize, usize, usize, bool),
    NoSlice(usize, usize),
    /// All services of a kind become ready, or not ready, in all namespaces.
    Everywhere(usize, bool),
    NewPod(usize, usize, bool, Owner),
    /// A pod begins or ceases to loop, or has another label.
    ChangePod(usize, bool, Option<usize>),
    /// Somebody else deletes a pod, at once or with grace.
    DeletePod(usize, bool),
    /// A watch tells up to so many events, after a list if it has to begin with one.
    Deliver(usize, usize),
    /// All watches tell all.
    DeliverAll,
    /// A watch breaks, and is to list again.
    Break(usize),
    /// Deletions are begun.
    Delete,
    /// A deletion ends.
    Answer(usize, Answer),
    /// Milliseconds pass.
    Pass(u64),
}

/// How a deletion ends.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// As the server decides.
    Honest,
    Throttled(u64),
    Refused,
    /// The server has not got the request.
    Lost,
    /// The server has deleted the pod, and its answer is lost.
    AnswerLost,
}

pub fn steps(namespaces: usize) -> impl Strategy<Value = Vec<Step>> {
    let policy = (
        prop::collection::btree_map(
            0..2_usize,
            prop::collection::btree_set(0..3_usize, 1..3),
            1..3,
        ),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.75),
        prop::bool::weighted(0.1),
        prop_oneof![8 => Just(Flaw::None), 1 => Just(Flaw::Invalid), 1 => Just(Flaw::Unreadable)],
        prop::bool::weighted(0.05),
        prop_oneof![1..20_u64, Just(3_600)],
    )
        .prop_map(
            |(services, zoned, enforce, suspend, flaw, deleting, lasts)| Policy {
                uid: 0,
                services: services
                    .into_iter()
                    .map(|(service, selectors)| (service, selectors.into_iter().collect()))
                    .collect(),
                zoned,
                enforce,
                suspend,
                flaw,
                deleting,
                lasts,
            },
        );
    let namespace = || 0..namespaces;
    let any_bool = any::<bool>;
    let owner = prop_oneof![
        6 => Just(Owner::ReplicaSet),
        1 => Just(Owner::None),
        1 => Just(Owner::Node),
    ];
    let answer = prop_oneof![
        6 => Just(Answer::Honest),
        1 => (0..40_u64).prop_map(Answer::Throttled),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Lost),
        1 => Just(Answer::AnswerLost),
    ];
    let step = prop_oneof![
        4 => (0..POLICIES, policy).prop_map(|(name, policy)| Step::Policy(name, policy)),
        1 => (0..POLICIES).prop_map(Step::NoPolicy),
        1 => (namespace(), prop::bool::weighted(0.7), prop::bool::weighted(0.1)).prop_map(
            |(name, zoned, deleting)| Step::Namespace(name, Namespace { zoned, deleting })
        ),
        1 => namespace().prop_map(Step::NoNamespace),
        6 => (namespace(), 0..2_usize, 0..SERVICES.len(), any_bool())
            .prop_map(|(namespace, slice, service, ready)| {
                Step::Slice(namespace, slice, service, ready)
            }),
        1 => (namespace(), 0..2_usize).prop_map(|(namespace, slice)| Step::NoSlice(namespace, slice)),
        1 => (0..2_usize, any_bool()).prop_map(|(service, ready)| Step::Everywhere(service, ready)),
        6 => (namespace(), 0..3_usize, prop::bool::weighted(0.8), owner)
            .prop_map(|(namespace, app, looping, owner)| {
                Step::NewPod(namespace, app, looping, owner)
            }),
        4 => (any::<usize>(), any_bool(), prop::option::weighted(0.2, 0..3_usize))
            .prop_map(|(pod, looping, app)| Step::ChangePod(pod, looping, app)),
        1 => (any::<usize>(), any_bool()).prop_map(|(pod, grace)| Step::DeletePod(pod, grace)),
        12 => (any::<usize>(), 1..4_usize).prop_map(|(stream, count)| Step::Deliver(stream, count)),
        3 => Just(Step::DeliverAll),
        2 => any::<usize>().prop_map(Step::Break),
        6 => Just(Step::Delete),
        6 => (any::<usize>(), answer).prop_map(|(deletion, answer)| Step::Answer(deletion, answer)),
        3 => prop_oneof![0..1_500_u64, 0..15_000_u64].prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

/// A change of an object, for the watches that have yet to tell of it.
#[derive(Clone, Debug)]
enum Entry {
    Policy(usize, Option<Policy>),
    Namespace(usize, Option<Namespace>),
    Slice((usize, usize), Option<Slice>),
    Pod(u32, Option<Pod>),
}

/// How far a watch has told of the changes.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// `None`: it has yet to list.
    position: Option<usize>,
}

/// What the watches have told.
#[derive(Debug, Default)]
struct Told {
    policies: Option<BTreeMap<usize, Policy>>,
    namespaces: Option<BTreeMap<usize, Namespace>>,
    slices: BTreeMap<(usize, usize), Slice>,
    /// The services of which all slices have been told.
    listed: BTreeSet<usize>,
    pods: BTreeMap<PodWatch, BTreeMap<u32, Pod>>,
    /// Every version of a pod that any watch has told.
    versions: BTreeMap<(u32, u64), Pod>,
}

/// A window: the policy by its name and its UID, the namespace and the service.
type Key = (usize, u32, usize, usize);

pub struct World {
    state: State,
    now: Now,
    version: u64,
    uids: u32,
    policies: BTreeMap<usize, Policy>,
    namespaces: BTreeMap<usize, Namespace>,
    slices: BTreeMap<(usize, usize), Slice>,
    pods: BTreeMap<u32, Pod>,
    log: Vec<Entry>,
    policy_stream: Stream,
    namespace_stream: Stream,
    slice_stream: Stream,
    names: ServiceNames,
    pod_streams: BTreeMap<PodWatch, Stream>,
    told: Told,
    /// By the rules.
    windows: BTreeMap<Key, Instant>,
    covered: BTreeSet<Key>,
    /// By what the state has told, with the names of the policy, the namespace and the service.
    opened: BTreeSet<(String, String, String)>,
    in_flight: Vec<Deletion>,
    /// The pods that the server has deleted on request.
    deleted: BTreeSet<u32>,
    /// The pods that the state says were deleted, and how many for each policy by its UID.
    weeded: BTreeSet<String>,
    credits: BTreeMap<String, i64>,
}

impl World {
    pub fn new(namespaces: usize) -> Self {
        let calm = |_| Namespace {
            zoned: true,
            deleting: false,
        };
        let mut world = Self {
            state: State::default(),
            now: Now {
                instant: Instant::now(),
                time: Timestamp::UNIX_EPOCH,
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
            opened: BTreeSet::new(),
            in_flight: Vec::new(),
            deleted: BTreeSet::new(),
            weeded: BTreeSet::new(),
            credits: BTreeMap::new(),
        };
        world.review(&BTreeSet::new());
        world
    }

    pub fn step(&mut self, step: Step) {
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
            Step::Slice(namespace, slice, service, ready) => {
                self.put_slice((namespace, slice), service, ready);
            }
            Step::NoSlice(namespace, slice) => {
                if self.slices.remove(&(namespace, slice)).is_some() {
                    self.log.push(Entry::Slice((namespace, slice), None));
                }
            }
            Step::Everywhere(service, ready) => {
                let namespaces: Vec<usize> = self.namespaces.keys().copied().collect();
                for namespace in namespaces {
                    self.put_slice((namespace, service), service, ready);
                }
            }
            Step::NewPod(namespace, app, looping, owner) => {
                self.new_pod(namespace, app, looping, owner);
            }
            Step::ChangePod(pod, looping, app) => {
                if let Some(mut pod) = pick(&self.pods, pod).filter(|pod| !pod.terminating) {
                    pod.looping = looping;
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
    pub fn calm_down(&mut self) {
        while let Some(deletion) = self.in_flight.pop() {
            self.answer(deletion, Answer::Honest);
        }
        self.deliver_all();
        let until = self.now.instant + MAX_RETRY;
        let claimed: Vec<u32> = self
            .pods
            .values()
            .filter(|pod| pod.is_weed() && self.is_claimed(pod, until))
            .map(|pod| pod.uid)
            .collect();
        while self.now.instant <= until {
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
    pub fn end(&mut self) {
        self.pass(LONG);
        assert_eq!(self.state.sizes(), Sizes::default());
        assert_eq!(self.state.due(), None);
        assert_eq!(self.windows, BTreeMap::new());
    }

    fn is_claimed(&self, pod: &Pod, until: Instant) -> bool {
        self.windows.iter().any(|(key, opened)| {
            let (name, _, namespace, service) = *key;
            let policy = &self.policies[&name];
            let selectors = policy.selectors(service).unwrap_or_default();
            namespace == pod.namespace
                && policy.enforce
                && *opened + Duration::from_secs(policy.lasts) > until
                && selectors.iter().any(|it| pod.matches(SELECTORS[*it].0))
        })
    }

    fn uid(&mut self) -> u32 {
        self.uids += 1;
        self.uids
    }

    fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn put_slice(&mut self, place: (usize, usize), service: usize, ready: bool) {
        let slice = Slice {
            service,
            version: self.version(),
            ready,
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
        let mut again = BTreeSet::new();
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
                // Who was ready and is, but for slices that have changed.
                let steady = |pair: &(usize, usize)| {
                    shown.iter().any(|(place, slice)| {
                        slice.ready
                            && (place.0, slice.service) == *pair
                            && self.told.slices.get(place) == Some(slice)
                    })
                };
                again.extend(
                    ready(&self.told.slices)
                        .intersection(&ready(&shown))
                        .copied(),
                );
                again.retain(|pair| !steady(pair));
                self.told.slices = shown;
                self.told.listed = watched;
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
        self.review(&again);
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

    /// A deletion is one that the rules allow.
    fn check_deletion(&self, deletion: &Deletion) {
        let of_uid = |it: &&Deletion| it.uid == deletion.uid;
        assert_eq!(self.in_flight.iter().find(of_uid), None, "twice at once");
        assert!(!self.weeded.contains(&*deletion.uid), "twice");
        let near = |it: &&Deletion| it.namespace == deletion.namespace;
        assert!(self.in_flight.len() < MAX_IN_FLIGHT);
        assert!(self.in_flight.iter().filter(near).count() < MAX_IN_NAMESPACE);

        let uid: u32 = deletion.uid.parse().expect("a UID of the model");
        let version: u64 = deletion.resource_version.parse().expect("one of the model");
        let pod = self.told.versions.get(&(uid, version));
        let pod = pod.expect("a version that was told");
        assert!(pod.is_weed(), "{pod:?}");
        let policies = self.told.policies.as_ref().expect("listed");
        let is_it = |it: &&usize| policy_name(**it) == *deletion.policy;
        let name = policies.keys().find(is_it).expect("a policy that is there");
        let policy = &policies[name];
        assert!(policy.enforce, "{policy:?}");
        let service = SERVICES.iter().position(|it| **it == *deletion.service);
        let service = service.expect("a service of the model");
        let key = (*name, policy.uid, pod.namespace, service);
        assert!(
            self.windows.contains_key(&key),
            "no window for {deletion:?}"
        );
        let selectors = policy.selectors(service).unwrap_or_default();
        let shown = self.told.pods.iter().any(|(watch, pods)| {
            let texts = selectors.iter().map(|it| SELECTORS[*it].0);
            texts.clone().any(|it| it == watch.selector.as_str()) && pods.contains_key(&uid)
        });
        assert!(shown, "no watch for {policy:?} shows {pod:?}");
    }

    /// The server answers.
    fn answer(&mut self, deletion: Deletion, answer: Answer) {
        let result = match answer {
            Answer::Honest => self.execute(&deletion),
            Answer::Throttled(seconds) => Err(DeletionError::Throttled(
                (seconds > 0).then(|| Duration::from_secs(seconds)),
            )),
            Answer::Refused => Err(DeletionError::Refused("no (403)".to_owned())),
            Answer::Lost => Err(DeletionError::Unanswered("no answer".to_owned())),
            Answer::AnswerLost => {
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
        let until = self.now.instant + time;
        while let Some(due) = self.state.due().filter(|due| *due <= until) {
            self.set_time(due);
            self.state.tick(self.now);
            self.review(&BTreeSet::new());
        }
        self.set_time(until);
    }

    fn set_time(&mut self, instant: Instant) {
        let passed = instant.duration_since(self.now.instant);
        self.now.instant = instant;
        self.now.time += SignedDuration::try_from(passed).expect("not that long");
    }

    /// After each event: the windows are those of the rules, and all else follows from them. `again`
    /// are the services whose windows begin anew.
    fn review(&mut self, again: &BTreeSet<(usize, usize)>) {
        self.follow_names();
        self.expect_windows(again);
        self.follow_news();
        let expected: BTreeSet<_> = self
            .windows
            .keys()
            .map(|(policy, _, namespace, service)| {
                let service = SERVICES[*service].to_owned();
                (policy_name(*policy), namespace_name(*namespace), service)
            })
            .collect();
        assert_eq!(self.opened, expected);
        assert_eq!(self.state.sizes().windows, expected.len());
        self.check_watches();
        self.check_reports();
    }

    fn follow_names(&mut self) {
        let policies = self.told.policies.iter().flat_map(BTreeMap::values);
        let expected: BTreeSet<usize> = policies
            .filter(|policy| policy.in_force())
            .flat_map(|policy| policy.services.iter().map(|(service, _)| *service))
            .collect();
        assert_eq!(watched(self.state.service_names()), expected);
        if *self.state.service_names() != self.names {
            self.names = self.state.service_names().clone();
            self.slice_stream = Stream::default();
        }
        // What was dropped in passing has to be listed again, too.
        self.told
            .listed
            .retain(|service| expected.contains(service));
        let slices = &mut self.told.slices;
        slices.retain(|_, slice| expected.contains(&slice.service));
    }

    fn expect_windows(&mut self, again: &BTreeSet<(usize, usize)>) {
        let mut covered = BTreeSet::new();
        let ready = ready(&self.told.slices);
        let policies = self.told.policies.iter().flatten();
        for (name, policy) in policies.filter(|(_, policy)| policy.in_force()) {
            for (id, namespace) in self.told.namespaces.iter().flatten() {
                if namespace.deleting || (policy.zoned && !namespace.zoned) {
                    continue;
                }
                let services = policy.services.iter().map(|(service, _)| *service);
                let services = services.filter(|it| self.told.listed.contains(it));
                let ready = services.filter(|service| ready.contains(&(*id, *service)));
                covered.extend(ready.map(|service| (*name, policy.uid, *id, service)));
            }
        }
        for key in &covered {
            if !self.covered.contains(key) || again.contains(&(key.2, key.3)) {
                self.windows.insert(*key, self.now.instant);
            }
        }
        let policies = &self.told.policies;
        self.windows.retain(|key, opened| {
            covered.contains(key) && {
                let policy = &policies.as_ref().expect("covered by one")[&key.0];
                *opened + Duration::from_secs(policy.lasts) > self.now.instant
            }
        });
        self.covered = covered;
    }

    fn follow_news(&mut self) {
        for news in self.state.take_news() {
            let key = |pair: dependency_watchdog::weeder::news::Pair, policy: &str| {
                let (namespace, service) = (pair.namespace.to_string(), pair.service.to_string());
                (policy.to_owned(), namespace, service)
            };
            match news {
                News::Opened { pair, policy, .. } => {
                    self.opened.insert(key(pair, &policy));
                }
                News::Closed { pair, policy, .. } => {
                    assert!(self.opened.remove(&key(pair, &policy)), "closed twice");
                }
                News::Pod { news, .. } => {
                    if let PodDeed::Weeded { .. } = news.what {
                        assert!(self.weeded.insert(news.uid.to_string()), "told twice");
                        let uid: u32 = news.uid.parse().expect("a UID of the model");
                        // By us, or by somebody else while the answer to us was lost.
                        assert!(self.pods.get(&uid).is_none_or(|pod| pod.terminating));
                        *self.credits.entry(news.policy.to_string()).or_default() += 1;
                    }
                }
            }
        }
    }

    /// The watches are those that windows need, and few.
    fn check_watches(&mut self) {
        let wanted = self.state.pod_watches();
        self.pod_streams.retain(|watch, _| wanted.contains(watch));
        self.told.pods.retain(|watch, _| wanted.contains(watch));
        for watch in wanted {
            self.pod_streams.entry(watch.clone()).or_default();
        }
        let mut needs = BTreeMap::<&str, BTreeSet<String>>::new();
        for (name, _, namespace, service) in self.windows.keys() {
            let policy = &self.told.policies.as_ref().expect("listed")[name];
            for selector in policy.selectors(*service).unwrap_or_default() {
                let namespaces = needs.entry(SELECTORS[*selector].0).or_default();
                namespaces.insert(namespace_name(*namespace));
            }
        }
        for (selector, namespaces) in &needs {
            let of_it = wanted.iter().filter(|it| it.selector.as_str() == *selector);
            let scopes: Vec<_> = of_it.map(|it| it.namespace.as_deref()).collect();
            assert!(scopes.len() <= MAX_WATCHES, "{} watches", scopes.len());
            let all = wanted.iter().find(|it| {
                it.selector.as_str() == *selector
                    && it.namespace.is_none()
                    && self.pod_streams[*it].position.is_some()
            });
            assert!(
                all.is_none() || scopes.len() == 1,
                "others stay: {scopes:?}"
            );
            for namespace in namespaces {
                let served = scopes.contains(&None) || scopes.contains(&Some(namespace));
                assert!(served, "nobody watches {selector} in {namespace}");
            }
        }
        for watch in wanted {
            let namespaces = needs.get(watch.selector.as_str());
            let namespaces = namespaces.unwrap_or_else(|| panic!("{watch:?} is not needed"));
            let needed = watch.namespace.as_deref();
            assert!(needed.is_none_or(|it| namespaces.contains(it)), "{watch:?}");
        }
    }

    fn check_reports(&self) {
        for report in self.state.reports() {
            let times: Vec<_> = report.last_weeds.iter().map(|it| it.time.0).collect();
            assert!(times.len() <= MAX_LAST_WEEDS);
            assert!(
                times.is_sorted_by(|newer, older| newer >= older),
                "{times:?}"
            );
            let credited = self.credits.get(&*report.name).copied();
            assert!(report.weeded <= credited.unwrap_or_default());
            let windows = self.windows.keys();
            let of_it = windows.filter(|key| policy_name(key.0) == *report.name);
            assert_eq!(report.windows, of_it.count());
            assert!(report.ready <= report.services);
        }
    }
}

fn watched(names: &ServiceNames) -> BTreeSet<usize> {
    let index = |name: &str| SERVICES.iter().position(|it| *it == name);
    names.iter().filter_map(|name| index(name)).collect()
}

/// The namespaces and services that are ready by these slices.
fn ready(slices: &BTreeMap<(usize, usize), Slice>) -> BTreeSet<(usize, usize)> {
    let ready = slices.iter().filter(|(_, slice)| slice.ready);
    ready
        .map(|((namespace, _), slice)| (*namespace, slice.service))
        .collect()
}

fn pick(pods: &BTreeMap<u32, Pod>, index: usize) -> Option<Pod> {
    let index = index.checked_rem(pods.len())?;
    pods.values().nth(index).cloned()
}
