//! The streams of watches, which go on whatever happens to them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use kube::runtime::{
    WatchStreamExt,
    utils::Backoff,
    watcher::{self, DefaultBackoff},
};
use tokio::time::timeout;

use super::{Cause, WatchState};

/// Time for one page of a list of what is watched beside a budget, where nothing else limits it.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// One that fails again and again is tried so seldom.
pub(super) const SELDOM: Duration = Duration::from_secs(30);

/// The events of a watch that is taken up again whenever it breaks.
pub(crate) fn events<K>(
    stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    state: WatchState,
) -> impl Stream<Item = watcher::Event<K>> + Unpin
where
    K: Send + 'static,
{
    let what = state.kind();
    let stream = patient(stream).filter_map(move |event| {
        let event = match event {
            Ok(event) => {
                if state.told(&event) {
                    tracing::info!("the watch of {what} is resumed");
                }
                Some(event)
            }
            Err(error) => {
                let news = state.broke(&error);
                let error = Cause::of(&error).words();
                if news {
                    tracing::warn!(error, "the watch of {what} broke; it is resumed");
                } else {
                    // What is tried again and again is told once.
                    tracing::debug!(error, "the watch of {what} is still broken");
                }
                None
            }
        };
        std::future::ready(event)
    });
    Box::pin(stream)
}

/// The stream of a watcher, asked again ever more seldom while it fails, up to [`SELDOM`]. That a list
/// begins is no success: a watcher says so each time before it asks.
pub(crate) fn patient<K>(
    stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send {
    let succeeded = Arc::new(AtomicBool::new(false));
    let patience = Patience {
        backoff: DefaultBackoff::default(),
        succeeded: succeeded.clone(),
    };
    let stream = stream.inspect(move |event| {
        if !matches!(event, Err(_) | Ok(watcher::Event::Init)) {
            succeeded.store(true, Ordering::Relaxed);
        }
    });
    stream.backoff(patience)
}

/// The same for a watcher that is begun anew whenever a page of its list is not answered in time, which is an
/// error like others.
pub(crate) fn renewed<K, S>(
    begin: impl Fn() -> S + Send,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send
where
    K: Send,
    S: Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
{
    let begin = move || Box::pin(patient(begin()));
    stream::unfold(
        (begin(), false, begin),
        async |(mut events, listing, begin)| {
            // A watch is silent while nothing changes.
            let limit = if listing { PAGE_LIMIT } else { Duration::MAX };
            Some(match timeout(limit, events.next()).await {
                Ok(Some(event)) => {
                    let listing = matches!(&event, Ok(event) if is_partial(event));
                    (event, (events, listing, begin))
                }
                Ok(None) | Err(_) => {
                    let why = format!("the list was not answered within {PAGE_LIMIT:?}");
                    let error = watcher::Error::InitialListFailed(kube::Error::Service(why.into()));
                    (Err(error), (begin(), false, begin))
                }
            })
        },
    )
}

/// Whether an event is of a list that is not complete yet.
pub(crate) fn is_partial<K>(event: &watcher::Event<K>) -> bool {
    matches!(event, watcher::Event::Init | watcher::Event::InitApply(_))
}

/// Starts over only after a success.
struct Patience {
    backoff: DefaultBackoff,
    succeeded: Arc<AtomicBool>,
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // Its jitter doubles what it says is the longest.
        self.backoff.next().map(|pause| pause.min(SELDOM))
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        if self.succeeded.swap(false, Ordering::Relaxed) {
            self.backoff.reset();
        }
    }
}
