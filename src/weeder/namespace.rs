//! The rules: which windows are open in a namespace, and what becomes of each pod there that crashes.
//!
//! All of that is computed anew whenever something changes. What was tried is remembered until no window is open.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    case::{Case, Deed, News, Window},
    delete::DeletionError,
    pod::{Looping, Pod, Reason, left_alone},
    policy::Policy,
    service::{Service, Slice},
};
use crate::{api::Mode, util::now::Now};

/// The most deletions at once in one namespace.
const MAX_IN_FLIGHT: usize = 4;
/// The first time after which a refused deletion is tried again; it doubles with each refusal.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest time after which it is tried again, whatever the server asks for.
const MAX_RETRY: Duration = Duration::from_secs(30);
/// The pause before the first successor of a deleted pod is deleted; it doubles with each, as that of a kubelet does.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A namespace with its services, and the pods that crash in it.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    /// Its labels. Without any it is gone, being deleted or not listed yet, and nothing is done in it.
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) services: BTreeMap<Arc<str>, Service>,
    /// By UID.
    pods: BTreeMap<Arc<str>, Looping>,
    /// Sorted by policy and service.
    pub(super) windows: Vec<Window>,
    /// What was tried on pods, by UID.
    tried: BTreeMap<Arc<str>, Tried>,
    /// What was deleted, by the UID of the controller.
    deleted: BTreeMap<String, Series>,
    /// The pods that may be deleted now: those that have looped for longest come first.
    due: BTreeMap<(Instant, Arc<str>), Case>,
    in_flight: usize,
    /// When it is to be reviewed again.
    pub(super) wake: Option<Instant>,
}

#[derive(Debug, Default)]
struct Tried {
    in_flight: bool,
    /// It is deleted, or gone: nothing is left to do.
    done: bool,
    failures: u32,
    /// It is not tried again before.
    not_before: Option<Instant>,
    /// Why it could not be deleted, until it can.
    trouble: Option<String>,
    /// What was told of it, and the UID of the policy for which it was.
    told: BTreeSet<(&'static str, Arc<str>)>,
}

/// The deletions of pods of one controller. A pod that crashes although its predecessor was deleted with the service
/// ready waits for something else, or is broken. Its own back-off has just begun, so to delete it gains little, and
/// takes its logs.
#[derive(Clone, Copy, Debug)]
struct Series {
    first: Instant,
    last: Instant,
    /// How many of the pods had begun to loop after the first deletion.
    successors: u32,
}

impl Namespace {
    /// Takes up that a slice has changed; without `is_there`, it is gone.
    pub(super) fn put_slice(&mut self, slice: Slice, is_there: bool, now: Instant) {
        for (service, known) in &mut self.services {
            if !is_there || *service != slice.service {
                known.put(&slice.name, None, now);
            }
        }
        if is_there {
            let service = self.services.entry(slice.service.clone()).or_default();
            service.put(&slice.name.clone(), Some(slice), now);
        }
        self.services.retain(|_, it| !it.is_empty());
    }

    /// Takes up all slices from a list. The services in `listed` were listed before.
    pub(super) fn put_slices(&mut self, slices: Vec<Slice>, listed: &BTreeSet<Arc<str>>, now: Now) {
        let mut services: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for slice in slices {
            self.services.entry(slice.service.clone()).or_default();
            let slices = services.entry(slice.service.clone()).or_default();
            slices.insert(slice.name.clone(), slice);
        }
        for (name, service) in &mut self.services {
            let slices = services.remove(name).unwrap_or_default();
            service.replace(slices, listed.contains(name), now);
        }
        self.services.retain(|_, it| !it.is_empty());
    }

    /// Takes up what a watch shows of a pod that loops.
    pub(super) fn put_pod(&mut self, pod: Pod, now: Instant) {
        let since = self.pods.get(pod.uid()).map_or(now, |it| it.since);
        let pod = pod.looping_since(since);
        self.pods.insert(pod.uid.clone(), pod);
    }

    /// Takes up that a pod is gone, or does not loop any more.
    pub(super) fn remove_pod(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    /// Takes up the pods that a list shows.
    pub(super) fn put_pods(&mut self, pods: Vec<Pod>, now: Instant) {
        let listed: BTreeSet<_> = pods.iter().map(Pod::uid).collect();
        self.pods.retain(|uid, _| listed.contains(&**uid));
        for pod in pods {
            self.put_pod(pod, now);
        }
    }

    /// Forgets the pods, which are not watched any more.
    pub(super) fn forget_pods(&mut self) {
        self.pods.clear();
    }

    /// Returns whether nothing is known of it.
    pub(super) fn is_empty(&self) -> bool {
        let known = self.labels.is_some() || !self.services.is_empty() || !self.pods.is_empty();
        !known && self.in_flight == 0
    }

    /// Computes the windows, and what becomes of each pod: what is due, and when to look again.
    pub(super) fn review<'a>(
        &mut self,
        name: &Arc<str>,
        policies: impl Iterator<Item = &'a Arc<Policy>>,
        now: Instant,
    ) -> Vec<News> {
        let windows = self.covered(name, policies, now);
        let before = std::mem::replace(&mut self.windows, windows);
        let closed = before.iter().filter(|it| !it.is_among(&self.windows));
        let opened = self.windows.iter().filter(|it| !it.is_among(&before));
        let closed = closed.cloned().map(News::Closed);
        let mut news: Vec<News> = closed.chain(opened.cloned().map(News::Opened)).collect();
        self.due.clear();
        self.wake = self.windows.iter().map(|it| it.end).min();
        if self.windows.is_empty() {
            self.tried.retain(|_, it| it.in_flight);
            self.deleted.clear();
            return news;
        }
        for (uid, pod) in &self.pods {
            let claims = self.windows.iter();
            let mut claims = claims.filter(|it| it.policy.needs(&it.service, &pod.labels));
            let mut enforcing = claims
                .clone()
                .filter(|it| it.policy.mode() == Mode::Enforce);
            let tried = self.tried.entry(uid.clone()).or_default();
            let controller = match (&pod.controller, left_alone(pod.controller.as_ref())) {
                (Some(controller), None) => controller,
                (_, reason) => {
                    let reason = reason.unwrap_or(Reason::NoController);
                    let claims = claims.filter(|it| tried.tell(reason.as_str(), &it.policy));
                    let cases = claims.map(|it| it.case(pod, it.opened));
                    news.extend(cases.map(|it| News::Pod(Box::new(it), Deed::LeftAlone(reason))));
                    continue;
                }
            };
            let Some(opened) = enforcing.clone().map(|it| it.opened).max() else {
                let first = claims
                    .next()
                    .filter(|it| tried.tell("would_weed", &it.policy));
                let case = first.map(|it| it.case(pod, it.opened));
                news.extend(case.map(|it| News::Pod(Box::new(it), Deed::WouldWeed)));
                continue;
            };
            if tried.in_flight || tried.done {
                continue;
            }
            let series = self.deleted.get(&controller.uid);
            let pause = series.and_then(|it| it.pause(pod.since, opened));
            match pause.max(tried.not_before).filter(|until| *until > now) {
                Some(until) => self.wake = self.wake.min(Some(until)),
                None => {
                    let case = enforcing.next().map(|it| {
                        let case = it.case(pod, opened);
                        let called_for = case.called_for.max(pause.unwrap_or(opened));
                        Case { called_for, ..case }
                    });
                    self.due
                        .extend(case.map(|it| ((pod.since, uid.clone()), it)));
                }
            }
        }
        news
    }

    /// Returns the windows: those of policies that select the namespace, for their services that became ready a short
    /// while ago.
    fn covered<'a>(
        &self,
        name: &Arc<str>,
        policies: impl Iterator<Item = &'a Arc<Policy>>,
        now: Instant,
    ) -> Vec<Window> {
        let selects = |it: &&Arc<Policy>| {
            self.labels
                .as_ref()
                .is_some_and(|labels| it.selects(labels))
        };
        let windows = policies.filter(selects).flat_map(|policy| {
            policy.services().filter_map(|service| {
                let (service, known) = self.services.get_key_value(service.as_str())?;
                let ready = known.ready?;
                let end = ready.end(policy.lasts()).filter(|end| *end > now)?;
                Some(Window {
                    namespace: name.clone(),
                    policy: policy.clone(),
                    service: service.clone(),
                    opened: ready.seen,
                    end,
                })
            })
        });
        windows.collect()
    }

    /// Returns how urgent its next deletion is, if one may begin: the fewest under way come first, then the pod that
    /// has looped for longest.
    pub(super) fn urgency(&self) -> Option<(usize, Instant)> {
        let ((since, _), _) = self.due.first_key_value()?;
        (self.in_flight < MAX_IN_FLIGHT).then_some((self.in_flight, *since))
    }

    /// Begins the next deletion.
    pub(super) fn begin(&mut self) -> Option<Case> {
        let ((_, uid), case) = self.due.pop_first()?;
        self.tried.entry(uid).or_default().in_flight = true;
        self.in_flight += 1;
        Some(case)
    }

    /// A deletion has ended. Returns what is to be told of it.
    pub(super) fn ended(
        &mut self,
        case: &Case,
        result: Result<(), DeletionError>,
        now: Instant,
    ) -> Option<Deed> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let tried = self.tried.entry(case.pod.uid.clone()).or_default();
        tried.in_flight = false;
        tried.done = matches!(result, Ok(()) | Err(DeletionError::Gone));
        let Err(error) = result else {
            tried.trouble = None;
            let controller = case.pod.controller.as_ref().map(|it| it.uid.clone());
            let known = controller.as_ref().and_then(|it| self.deleted.get(it));
            let series = Series::after(known, case, now);
            self.deleted.extend(controller.map(|it| (it, series)));
            return Some(Deed::Weeded);
        };
        let name = error.name();
        let (message, wait) = match error {
            DeletionError::Gone => {
                tried.trouble = None;
                return None;
            }
            // By then the watch has told what it is now.
            DeletionError::Changed => {
                tried.not_before = Some(now + FIRST_RETRY);
                return None;
            }
            DeletionError::Throttled(wait) => (
                "the API server asks for fewer requests (429)".to_owned(),
                wait,
            ),
            DeletionError::Refused(message) | DeletionError::Unanswered(message) => (message, None),
        };
        let doubled = FIRST_RETRY.saturating_mul(1 << tried.failures.min(8));
        tried.failures = tried.failures.saturating_add(1);
        tried.not_before = Some(now + wait.unwrap_or(doubled).clamp(FIRST_RETRY, MAX_RETRY));
        let message = format!("delete pod {}/{}: {message}", case.namespace, case.pod.name);
        tried.trouble = Some(message.clone());
        let is_new = tried.tell(name, &case.policy);
        is_new.then_some(Deed::Refused(message))
    }

    /// Returns why pods could not be deleted that are to be, with the policies that ask for it.
    pub(super) fn troubles(&self) -> impl Iterator<Item = (&Arc<Policy>, &str)> {
        let tried = self.tried.iter();
        tried.filter_map(|(uid, tried)| {
            let (trouble, pod) = (tried.trouble.as_deref()?, self.pods.get(uid)?);
            let mut claims = self.windows.iter().filter(|it| {
                it.policy.mode() == Mode::Enforce && it.policy.needs(&it.service, &pod.labels)
            });
            Some((&claims.next()?.policy, trouble))
        })
    }

    /// Returns how many pods wait for their turn to be deleted.
    pub(super) fn waiting(&self) -> usize {
        self.due.len()
    }
}

impl Tried {
    /// Returns whether this has not been told before for this policy; it is now.
    fn tell(&mut self, what: &'static str, policy: &Policy) -> bool {
        self.told.insert((what, policy.uid.clone()))
    }
}

impl Series {
    /// Returns the series with this deletion. It begins anew in a window that was opened later.
    fn after(known: Option<&Self>, deletion: &Case, now: Instant) -> Self {
        match known.filter(|it| it.first >= deletion.opened) {
            None => Self {
                first: now,
                last: now,
                successors: 0,
            },
            Some(known) => Self {
                last: now,
                successors: known.successors + u32::from(deletion.pod.since > known.first),
                ..*known
            },
        }
    }

    /// Returns until when a pod waits that loops since then, in a window that was opened then; `None` if it is no
    /// successor of one that was deleted in the window.
    fn pause(&self, looping_since: Instant, opened: Instant) -> Option<Instant> {
        let is_successor = self.first >= opened && looping_since > self.first;
        let pause = FIRST_PAUSE.saturating_mul(1 << self.successors.min(8));
        is_successor.then(|| self.last + pause.min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weeder::report::case;

    /// Replicas that looped before the first was deleted do not wait, nor does anything in a later window.
    #[test]
    fn successors_wait() {
        let seconds = Duration::from_secs;
        let (opened, mut now) = (Instant::now(), Instant::now() + seconds(5));
        let mut deletion = Case {
            opened,
            ..case(&["a"])
        };
        let mut series = Series::after(None, &deletion, now);
        assert_eq!(series.pause(now, opened), None);
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            let looping = now + seconds(3);
            assert_eq!(series.pause(looping, opened), Some(now + seconds(pause)));
            assert_eq!(series.pause(looping, now + seconds(1)), None);
            deletion.pod.since = looping;
            now += seconds(pause);
            series = Series::after(Some(&series), &deletion, now);
        }
        deletion.opened = now;
        let anew = Series::after(Some(&series), &deletion, now + seconds(1));
        assert_eq!(anew.successors, 0);
    }
}
