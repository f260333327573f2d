//! Watches on the seed, which go on whatever happens to them.

use std::{future::pending, mem, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    health::Health,
    metrics::{Counters, metrics},
    seed::CallError,
    wire::{BEGINS, MAX_ANSWER_BYTES},
};

/// The duration of each request for a watch, in seconds: a connection that was lost in silence is found out
/// soon enough for a window of minutes, and for whoever suspends a policy.
const WATCH_SECONDS: u32 = 60;
/// The number of objects of any size in one page of a list. etcd takes none of more than 1.5 MiB, and JSON makes
/// it longer: what is in base64 by a third, line breaks twofold.
const LARGE_OBJECTS_PER_PAGE: u32 = 20;
const _: () = assert!(LARGE_OBJECTS_PER_PAGE as usize * 3 * 1024 * 1024 <= MAX_ANSWER_BYTES);
/// Time after which a watch that does not work is broken.
const BROKEN: Duration = Duration::from_secs(60);
/// Shortest pause before a watch that broke is asked for again. It doubles each time.
const SOON: Duration = Duration::from_secs(1);
/// Longest such pause.
const SELDOM: Duration = Duration::from_secs(30);
/// Time after which a watch that was asked for again works if it has not failed. It says nothing until something
/// changes; its answer begins earlier, or it fails.
const QUIET: Duration = BEGINS.saturating_add(Duration::from_secs(5));

/// Settings of a watch.
pub(crate) fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

/// Settings of a watch of objects that may be of any size.
pub(crate) fn large_watch_config() -> watcher::Config {
    watch_config().page_size(LARGE_OBJECTS_PER_PAGE)
}

/// Change of the objects that are watched. A list takes effect as a whole.
#[derive(Debug)]
pub enum Change<T> {
    /// These objects are there, and no others.
    All(Vec<T>),
    /// Object that came or changed.
    Put(T),
    /// Object that is gone, or of no concern any more.
    Gone(T),
}

/// Changes that a watch tells, one after the other.
pub(crate) type Changes<T> = BoxStream<'static, Change<T>>;

metrics! {
    /// All watches of the process. Clones are the same.
    pub struct Watches {
        /// Watches on the seed that broke and were resumed, and lists that failed.
        restarts: Counters<1> as "watch_restarts",
        /// Health that their state is a part of.
        pub(super) health: Health,
        /// Watches without which the process is not ready.
        begun: Arc<Mutex<Vec<WatchState>>>,
    }
}

impl Watches {
    /// Forgets all of them and their health: the next candidacy has its own.
    pub(super) fn clear(&self) {
        self.health.clear();
        self.begun.lock().clear();
    }

    /// Begins the watch of a kind without which the process is not ready; `check` names it there.
    pub fn begin(&self, kind: &'static str, check: &'static str) -> WatchState {
        let watch = self.one_of(kind, kind.to_owned());
        let asked = watch.clone();
        self.health.check(check, move || asked.check());
        self.begun.lock().push(watch.clone());
        watch
    }

    /// Begins one of several watches of a kind, which logs call `what`. The process is ready without it.
    pub(crate) fn one_of(&self, kind: &'static str, what: String) -> WatchState {
        WatchState {
            what: what.into(),
            state: watch::Sender::default(),
            restarts: self.restarts.get_or_create_owned(&[("kind", kind)]),
        }
    }

    /// Returns, after this time, the kinds without which the process is not ready and that are not listed then; pends
    /// for ever if there is none.
    pub(crate) async fn blind(&self, limit: Duration) -> Vec<String> {
        sleep(limit).await;
        let unlisted: Vec<_> = {
            let begun = self.begun.lock();
            let unlisted = begun.iter().filter(|watch| {
                let state = watch.state.borrow();
                // What has been needed for a moment only may be listed in the next.
                !state.listed && state.since.is_none_or(|since| since.elapsed() >= BROKEN)
            });
            unlisted.map(|watch| watch.what().to_owned()).collect()
        };
        match unlisted.is_empty() {
            true => pending().await,
            false => unlisted,
        }
    }
}

/// State of one watch. Clones are the same.
#[derive(Clone, Debug)]
pub struct WatchState {
    what: Arc<str>,
    state: watch::Sender<State>,
    restarts: Counter,
}

/// Knowledge about a watch.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Set once everything was listed.
    listed: bool,
    /// Set while a list is not complete.
    listing: bool,
    /// Time since which it has not been up to date.
    since: Option<Instant>,
    /// Reason why it broke, if it does not work again.
    pub(crate) cause: Option<CallError>,
    /// Pause before it was last asked for again; zero while it works.
    pause: Duration,
}

impl WatchState {
    /// Returns the name of what is watched.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Returns the state, and each change of what it says of troubles.
    pub(crate) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Forgets what is known. A watch that is not needed is as good as listed, so that nobody waits for it.
    pub(crate) fn begin_anew(&self, is_needed: bool) {
        self.state.send_replace(State {
            listed: !is_needed,
            since: is_needed.then(Instant::now),
            ..State::default()
        });
    }

    /// Follows a watcher, which is asked again ever more seldom while it fails. `read` returns what is kept of an
    /// object, and whether that is of concern.
    pub(crate) fn follow<K: Send + 'static, T: Send + 'static>(
        &self,
        watcher: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
        read: impl Fn(K) -> (T, bool) + Send + 'static,
    ) -> Changes<T> {
        let following = (watcher.boxed(), self.clone(), read, Vec::new());
        let changes = stream::unfold(following, async |(mut watcher, watch, read, mut list)| {
            loop {
                let change = match timeout(watch.patience(), watcher.next()).await {
                    Ok(Some(Ok(Event::Init))) => {
                        watch.listing();
                        list.clear();
                        continue;
                    }
                    Ok(Some(Ok(Event::InitApply(object)))) => {
                        let (object, concerns) = read(object);
                        list.extend(concerns.then_some(object));
                        continue;
                    }
                    Ok(Some(Ok(Event::InitDone))) => Change::All(mem::take(&mut list)),
                    Ok(Some(Ok(Event::Apply(object)))) => match read(object) {
                        (object, true) => Change::Put(object),
                        (object, false) => Change::Gone(object),
                    },
                    Ok(Some(Ok(Event::Delete(object)))) => Change::Gone(read(object).0),
                    Ok(Some(Err(error))) => {
                        sleep(watch.broke(error)).await;
                        continue;
                    }
                    Ok(None) => return None,
                    Err(_) => {
                        watch.resumed();
                        continue;
                    }
                };
                watch.resumed();
                return Some((change, (watcher, watch, read, list)));
            }
        });
        changes.boxed()
    }

    /// Returns for how long nothing has to be told before the watch counts as resumed.
    fn patience(&self) -> Duration {
        let state = self.state.borrow();
        let is_resumed = state.cause.is_some() && !state.listing;
        if is_resumed { QUIET } else { Duration::MAX }
    }

    /// Notes that a list has begun. A watcher says so each time before it asks, and a part of a list is of no use.
    fn listing(&self) {
        self.state.send_if_modified(|state| {
            state.listing = true;
            state.since.get_or_insert_with(Instant::now);
            false
        });
    }

    fn resumed(&self) {
        self.state.send_if_modified(|state| {
            let trouble = state.cause.take();
            *state = State {
                listed: true,
                ..State::default()
            };
            if trouble.is_some() {
                tracing::info!("the watch of {} is resumed", self.what);
            }
            trouble.is_some()
        });
    }

    /// Returns the pause before it is asked for again.
    fn broke(&self, error: watcher::Error) -> Duration {
        self.restarts.inc();
        let (what, cause) = (&self.what, cause(error));
        let error = cause.to_string();
        self.state.send_modify(|state| {
            match state.cause {
                None => tracing::warn!(error, "the watch of {what} broke; it is resumed"),
                // What is tried again and again is told once.
                Some(_) => tracing::debug!(error, "the watch of {what} is still broken"),
            }
            state.since.get_or_insert_with(Instant::now);
            state.cause = Some(cause);
            state.pause = (state.pause * 2).clamp(SOON, SELDOM);
        });
        self.state.borrow().pause
    }

    /// Returns whether it shows what there is, as far as is known: all was listed, and nothing has failed since the last
    /// list, event or resumption.
    pub(crate) fn works(&self) -> bool {
        let state = self.state.borrow();
        state.listed && state.cause.is_none()
    }

    /// Returns why it broke, if it does not work again; unless it was listed and is taken up where it was, which takes a
    /// second or two.
    pub(crate) fn outage(&self) -> Option<String> {
        let state = self.state.borrow();
        let cause = state.cause.as_ref().map(CallError::to_string);
        cause.filter(|_| !state.listed || state.pause > SOON)
    }

    /// Returns what to do about a watch that is not listed, or has been broken for so long that what is known is out of
    /// date.
    fn trouble(&self) -> Option<&'static str> {
        let state = self.state.borrow();
        let is_broken = state.since.is_some_and(|since| since.elapsed() > BROKEN);
        let cause = state.cause.as_ref();
        let remedy = cause.map_or("the list is not complete yet", remedy);
        (!state.listed || is_broken).then_some(remedy)
    }

    fn check(&self) -> Result<(), String> {
        let trouble = self.trouble();
        trouble.map_or(Ok(()), |remedy| Err(format!("not up to date: {remedy}")))
    }

    /// Returns the same of a watch that was listed.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        self.trouble().filter(|_| self.state.borrow().listed)
    }
}

/// Returns why a watch breaks.
pub(crate) fn cause(error: watcher::Error) -> CallError {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    let error = match error {
        WatchError(status) => return CallError::Refused(status),
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => error,
        NoResourceVersion => return CallError::Failed(error.to_string()),
    };
    match error {
        // What came may be a Secret, and is not quoted.
        kube::Error::SerdeError(error) => CallError::Failed(format!(
            "what came cannot be read at line {}, column {}; check what answers there",
            error.line(),
            error.column()
        )),
        error => error.into(),
    }
}

/// Returns what to do, for everybody: nothing of what was read.
fn remedy(cause: &CallError) -> &'static str {
    match cause.code() {
        Some(401) => "the credentials are not accepted (401)",
        Some(403) => "it is forbidden (403): grant list and watch",
        Some(404) => "the kind is not served (404): apply its CustomResourceDefinition",
        _ => "the log says why",
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::time::advance;

    use super::*;

    fn refused(code: u16) -> watcher::Result<Event<()>> {
        let status = kube::core::Status::failure("no", "Refused").with_code(code);
        let refused = kube::Error::Api(Box::new(status));
        Err(watcher::Error::InitialListFailed(refused))
    }

    /// A watch that is told these and no more, its check, and all watches.
    fn begun() -> (WatchState, Health, Watches) {
        let watches = Watches::default();
        let watch = watches.begin("Widgets", "watch-widgets");
        (watch, watches.health.clone(), watches)
    }

    fn result(health: &Health) -> Result<(), String> {
        health.results().pop().unwrap().1
    }

    /// Tells the watch these, with whatever pauses it makes between them.
    async fn told(watch: &WatchState, events: Vec<watcher::Result<Event<()>>>) {
        let changes = watch.follow(stream::iter(events), |()| ((), true));
        changes.for_each(|_| ready(())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_lists_a_kind_is_blind_and_not_ready() {
        let (watch, health, watches) = begun();
        assert!(result(&health).is_err());
        told(&watch, vec![Ok(Event::Init), refused(404)]).await;
        let message = result(&health).unwrap_err();
        assert!(message.contains("CustomResourceDefinition"), "{message}");
        assert_eq!(watches.blind(BROKEN).await, ["Widgets"]);
        let is_blind = async || timeout(BROKEN * 2, watches.blind(BROKEN)).await.is_ok();
        watch.begin_anew(false);
        assert!(result(&health).is_ok() && !is_blind().await);
        watch.begin_anew(true);
        assert!(result(&health).is_err() && is_blind().await);
        told(&watch, vec![Ok(Event::InitDone), refused(403)]).await;
        assert!(result(&health).is_ok() && !is_blind().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_tried_again_and_again_is_no_success() {
        let (watch, health, _) = begun();
        told(&watch, vec![Ok(Event::InitDone)]).await;
        let began = Instant::now();
        let failing = (0..20).flat_map(|_| [Ok(Event::Init), refused(403)]);
        told(&watch, failing.collect()).await;
        assert!(began.elapsed() > SELDOM * 15, "ever more seldom");
        let message = result(&health).unwrap_err();
        let remedy = "it is forbidden (403): grant list and watch";
        assert!(message.ends_with(remedy), "{message}");
        assert_eq!(watch.broken(), Some(remedy));
        // Nor is one that is never answered.
        told(&watch, vec![Ok(Event::InitDone), Ok(Event::Init)]).await;
        assert!(result(&health).is_ok());
        advance(BROKEN * 2).await;
        assert!(result(&health).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_resumed_and_has_nothing_to_tell_works() {
        let (watch, health, _) = begun();
        let broken = vec![Ok(Event::InitDone), refused(503), refused(503)];
        let events = stream::iter(broken).chain(stream::pending());
        let mut changes = watch.follow(events, |()| ((), true));
        assert!(timeout(SELDOM, changes.next()).await.unwrap().is_some());
        assert!(timeout(QUIET, changes.next()).await.is_err());
        assert!(watch.outage().is_some());
        assert!(timeout(SOON * 4, changes.next()).await.is_err());
        assert!(watch.works() && result(&health).is_ok());
    }
}
