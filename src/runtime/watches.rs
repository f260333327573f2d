//! How the watches on the seed fare: counted when they break, and not ready while they are broken.

mod cause;
mod heard;
mod stream;

pub(crate) use self::{
    cause::Cause,
    heard::followed,
    stream::{events, is_partial, renewed},
};

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::runtime::watcher;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tokio::time::{Instant, sleep_until};

use super::{health::Health, metrics::Registry, wire::MAX_ANSWER_BYTES};

/// A watch of what the operator has to hear of soon ends after this long, in seconds, and is taken up where
/// it was, by one request: a connection that was lost in silence is found out soon enough for a window of
/// minutes, and for whoever suspends a policy.
pub(crate) const WATCH_SECONDS: u32 = 60;
/// So many objects that may be of any size are in one page of a list. etcd takes none of more than 1.5 MiB,
/// and JSON makes it longer: what is in base64 by a third, line breaks twofold.
pub(crate) const LARGE_OBJECTS_PER_PAGE: u32 = 20;
const _: () = assert!(LARGE_OBJECTS_PER_PAGE as usize * 3 * 1024 * 1024 <= MAX_ANSWER_BYTES);
/// A watch that breaks is resumed; one that cannot be for longer than this is broken.
const BROKEN: Duration = Duration::from_secs(60);
/// A watch that works again says nothing until something changes. One that does not is tried
/// again after [`stream::SELDOM`] at the latest, which takes another 30 s to connect at the most: if it has not
/// failed for longer than this, it works.
const QUIET: Duration = Duration::from_secs(90);

/// All watches of the process. Clones are the same.
#[derive(Clone)]
pub struct Watches {
    restarts: Family<Kind, Counter>,
    health: Health,
    /// By the names of their checks.
    begun: Arc<Mutex<BTreeMap<&'static str, WatchState>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// The watch of one kind. Clones are the same.
#[derive(Clone, Debug)]
pub struct WatchState {
    kind: &'static str,
    state: Arc<Mutex<State>>,
    restarts: Counter,
}

#[derive(Debug)]
struct State {
    /// Since when it is needed; one that is not is neither broken nor blind.
    needed: Option<Instant>,
    listed: bool,
    /// Since when a list is tried that is not complete yet.
    listing: Option<Instant>,
    trouble: Option<Trouble>,
    /// When it last showed that it is up to date, if it is followed.
    heard: Option<Instant>,
}

impl State {
    fn of(needed: bool) -> Self {
        Self {
            needed: needed.then(Instant::now),
            listed: false,
            listing: None,
            trouble: None,
            heard: None,
        }
    }
}

#[derive(Debug)]
struct Trouble {
    first: Instant,
    last: Instant,
    remedy: &'static str,
}

impl Trouble {
    fn is_recent(&self) -> bool {
        self.last.elapsed() <= QUIET
    }
}

impl State {
    /// What went wrong, if it did not work again since.
    fn present_trouble(&self) -> Option<&Trouble> {
        let trouble = self.trouble.as_ref();
        trouble.filter(|trouble| self.listing.is_some() || trouble.is_recent())
    }

    /// For how long it has been broken, and what to do, if it is for longer than [`BROKEN`].
    fn broken(&self) -> Option<(Duration, &'static str)> {
        let trouble = self.present_trouble();
        let began = trouble.map(|trouble| trouble.first);
        let began = began.into_iter().chain(self.listing).min()?;
        let remedy = trouble.map_or("the list is not complete yet", |it| it.remedy);
        let since = began.elapsed();
        (since > BROKEN).then_some((since, remedy))
    }
}

impl Watches {
    /// Watches whose state `health` tells.
    pub fn new(health: Health) -> Self {
        Self {
            restarts: Family::default(),
            health,
            begun: Arc::default(),
        }
    }

    /// None of them, counted by the same metric.
    pub(super) fn anew(&self, health: Health) -> Self {
        let restarts = self.restarts.clone();
        Self {
            restarts,
            ..Self::new(health)
        }
    }

    /// Shows how often they break.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "watch_restarts",
            "Watches on the seed that broke and were resumed, and lists that failed",
            self.restarts.clone(),
        );
    }

    /// How often watches of this kind break.
    pub fn restarts(&self, kind: &'static str) -> Counter {
        self.restarts.get_or_create_owned(&Kind { kind })
    }

    /// The watch of this kind, without which the process is not ready; `check` names it there.
    pub fn begin(&self, kind: &'static str, check: &'static str) -> WatchState {
        self.enter(kind, check, true)
    }

    /// The same for a watch that is needed only from [`WatchState::needed`] on.
    pub fn begin_idle(&self, kind: &'static str, check: &'static str) -> WatchState {
        self.enter(kind, check, false)
    }

    fn enter(&self, kind: &'static str, check: &'static str, needed: bool) -> WatchState {
        let watch = WatchState {
            kind,
            state: Arc::new(Mutex::new(State::of(needed))),
            restarts: self.restarts(kind),
        };
        let asked = watch.clone();
        self.health.check(check, move || asked.check());
        self.begun().insert(check, watch.clone());
        watch
    }

    fn begun(&self) -> MutexGuard<'_, BTreeMap<&'static str, WatchState>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until some kinds have been needed for so long, from now on, and not been listed.
    pub async fn blind(&self, limit: Duration) -> Vec<&'static str> {
        let began = Instant::now();
        loop {
            let now = Instant::now();
            let mut unlisted = self.unlisted();
            for (_, since) in &mut unlisted {
                *since = began.max(*since);
            }
            let blind = unlisted.iter().filter(|(_, since)| now - *since >= limit);
            let blind: Vec<_> = blind.map(|(kind, _)| *kind).collect();
            if !blind.is_empty() {
                return blind;
            }
            // One that is needed later is not due before this either.
            let since = unlisted.iter().map(|(_, since)| *since).min();
            sleep_until(since.unwrap_or(now) + limit).await;
        }
    }

    /// The kinds that are needed, since when, and have not been listed.
    fn unlisted(&self) -> Vec<(&'static str, Instant)> {
        let begun = self.begun();
        let unlisted = begun.values().filter_map(|watch| {
            let state = watch.lock();
            Some((watch.kind, state.needed.filter(|_| !state.listed)?))
        });
        unlisted.collect()
    }
}

impl WatchState {
    /// What is watched.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    /// It is needed from now on, or not any more. What is needed anew has to be listed anew.
    pub fn needed(&self, needed: bool) {
        let mut state = self.lock();
        if state.needed.is_some() != needed {
            *state = State::of(needed);
        }
    }

    /// It has told something; tells whether it was broken until then. That a list begins is told
    /// before it is asked for, and a part of one is of no use: only the whole counts.
    pub fn told<K>(&self, event: &watcher::Event<K>) -> bool {
        let mut state = self.lock();
        match event {
            watcher::Event::Init => {
                state.listing.get_or_insert_with(Instant::now);
                return false;
            }
            watcher::Event::InitApply(_) => return false,
            watcher::Event::InitDone => (state.listed, state.listing) = (true, None),
            watcher::Event::Apply(_) | watcher::Event::Delete(_) => {}
        }
        state.trouble.take().is_some()
    }

    /// It broke, or could not be resumed; tells whether that is new.
    pub fn broke(&self, error: &watcher::Error) -> bool {
        self.restarts.inc();
        let now = Instant::now();
        let mut state = self.lock();
        state.heard = None;
        let before = state.trouble.take();
        let before = before.filter(|trouble| state.listing.is_some() || trouble.is_recent());
        state.trouble = Some(Trouble {
            first: before.as_ref().map_or(now, |trouble| trouble.first),
            last: now,
            remedy: Cause::of(error).remedy(),
        });
        before.is_none()
    }

    /// Something has come, a bookmark or the beginning of an answer at the least.
    fn hear(&self) {
        self.lock().heard = Some(Instant::now());
    }

    /// Whether it is up to date as of so long ago, or less. Only one that is [followed] can be.
    pub(crate) fn is_heard(&self, within: Duration) -> bool {
        let state = self.lock();
        let is_complete = state.listed && state.listing.is_none();
        is_complete && state.heard.is_some_and(|at| at.elapsed() <= within)
    }

    fn check(&self) -> Result<(), String> {
        let state = self.lock();
        if state.needed.is_none() {
            return Ok(());
        }
        if !state.listed {
            return Err(match state.present_trouble() {
                None => "not listed yet".to_owned(),
                Some(trouble) => format!("not listed yet: {}", trouble.remedy),
            });
        }
        match state.broken() {
            Some((since, remedy)) => Err(format!("broken for {} s: {remedy}", since.as_secs())),
            None => Ok(()),
        }
    }

    /// What to do about a watch that is needed and was listed, but has been broken for so long that
    /// what is known is out of date.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        let state = self.lock();
        let broken = state.broken().filter(|_| state.listed);
        broken
            .filter(|_| state.needed.is_some())
            .map(|(_, remedy)| remedy)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use kube::core::Status;
    use tokio::time::{advance, timeout};

    use super::*;

    const STEP: Duration = Duration::from_secs(25);

    fn refused(code: u16) -> watcher::Error {
        let status = Status {
            code,
            ..Status::failure("no", "Refused")
        };
        watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_lists_a_kind_is_blind() {
        let watches = Watches::new(Health::default());
        let (one, two) = (watches.begin("Ones", "one"), watches.begin("Twos", "two"));
        one.told(&watcher::Event::<()>::InitDone);
        two.told(&watcher::Event::<()>::Init);
        let began = Instant::now();
        assert_eq!(watches.blind(STEP).await, ["Twos"]);
        assert_eq!(began.elapsed(), STEP);
        two.told(&watcher::Event::<()>::InitDone);
        // What breaks later was seen: whoever leads knows what to do.
        one.broke(&refused(403));
        assert!(timeout(STEP * 2, watches.blind(STEP)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_needed_is_neither_broken_nor_blind() {
        let checks = Health::default();
        let watches = Watches::new(checks.clone());
        let watch = watches.begin_idle("Widgets", "watch-widgets");
        assert_eq!(result(&checks), Ok(()));
        assert!(timeout(STEP * 5, watches.blind(STEP)).await.is_err());
        watch.needed(true);
        assert_eq!(result(&checks), Err("not listed yet".to_owned()));
        let began = Instant::now();
        assert_eq!(watches.blind(STEP).await, ["Widgets"]);
        assert_eq!(began.elapsed(), STEP);
        watch.told(&watcher::Event::<()>::InitDone);
        // What is needed as before is as before.
        watch.needed(true);
        assert_eq!(result(&checks), Ok(()));
        watch.told(&watcher::Event::<()>::Init);
        watch.broke(&refused(403));
        advance(QUIET).await;
        assert!(result(&checks).is_err());
        watch.needed(false);
        assert_eq!(result(&checks), Ok(()));
    }

    fn begun() -> (WatchState, Health) {
        let checks = Health::default();
        let watch = Watches::new(checks.clone()).begin("Widgets", "watch-widgets");
        (watch, checks)
    }

    fn result(checks: &Health) -> Result<(), String> {
        let [(name, result)] = &checks.results()[..] else {
            panic!("one check");
        };
        assert_eq!(*name, "watch-widgets");
        result.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_once_it_was_listed() {
        let (watch, checks) = begun();
        assert_eq!(result(&checks), Err("not listed yet".to_owned()));
        watch.broke(&refused(404));
        let message = result(&checks).unwrap_err();
        assert!(message.contains("CustomResourceDefinition"), "{message}");
        watch.told(&watcher::Event::<()>::Init);
        assert!(result(&checks).is_err());
        watch.told(&watcher::Event::<()>::InitDone);
        assert_eq!(result(&checks), Ok(()));
        assert_eq!(watch.restarts.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_tried_again_and_again_is_no_success() {
        let (watch, checks) = begun();
        watch.told(&watcher::Event::<()>::InitDone);
        for time in 0..4 {
            assert!(!watch.told(&watcher::Event::<()>::Init));
            watch.told(&watcher::Event::InitApply(()));
            assert_eq!(watch.broke(&refused(403)), time == 0);
            advance(STEP).await;
        }
        let message = result(&checks).unwrap_err();
        let expected = "broken for 100 s: it is forbidden (403): grant list and watch";
        assert_eq!(message, expected);
        // Nor is one that is never answered.
        watch.told(&watcher::Event::<()>::Init);
        advance(QUIET * 2).await;
        assert!(result(&checks).is_err());
        assert!(watch.told(&watcher::Event::<()>::InitDone));
        assert_eq!(result(&checks), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_asked_ever_more_seldom_until_it_succeeds() {
        use watcher::Event::{Init, InitDone};
        let failing = (0..20).flat_map(|_| [Ok(Init::<()>), Err(refused(403))]);
        let events = failing.chain([Ok(Init), Ok(InitDone), Err(refused(403)), Ok(Init)]);
        let mut events = Box::pin(stream::patient(futures::stream::iter(events)));
        let start = tokio::time::Instant::now();
        while !matches!(events.next().await, Some(Ok(InitDone))) {}
        assert!(start.elapsed() > 15 * Duration::from_secs(30));
        let start = tokio::time::Instant::now();
        while events.next().await.is_some() {}
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn it_may_break_but_not_stay_broken() {
        let (watch, checks) = begun();
        watch.told(&watcher::Event::<()>::InitDone);
        for time in 0..3 {
            let new = watch.broke(&refused(503));
            assert_eq!(new, time == 0);
            assert_eq!(result(&checks), Ok(()));
            advance(STEP).await;
        }
        watch.broke(&refused(503));
        let message = result(&checks).unwrap_err();
        assert_eq!(message, "broken for 75 s: the log says why");
        // It works again, and nothing changes.
        advance(QUIET + STEP).await;
        assert_eq!(result(&checks), Ok(()));
        // Breaking again much later is another matter.
        assert!(watch.broke(&refused(503)));
        assert_eq!(result(&checks), Ok(()));
        assert!(watch.told(&watcher::Event::Apply(())));
        assert!(!watch.told(&watcher::Event::Apply(())));
        assert_eq!(result(&checks), Ok(()));
    }
}
