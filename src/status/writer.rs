//! The loop of a writer: what is reported is taken up, and written when its turn comes.
//!
//! Reports are coalesced: the newest is written. A few objects are written at the same time, so that
//! one whose write hangs keeps no other waiting. Events go one at a time, and while statuses are due
//! that matter more, one for every few of these. The [`Content`] decides what is written, and when.

use std::{future::Future, time::Duration};

use futures::{FutureExt as _, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    events::{Event, EventCounts, outbox::Outbox},
    metrics::{WriterMetrics, set},
    request::WriteError,
};
use crate::runtime::{health::Health, seed::Seed, timer::until};

/// So many objects are written at once.
const WRITES_AT_ONCE: usize = 16;
/// While statuses are due that matter more, an event is begun after so many of these: they may be due
/// without end, and only so many events can wait.
const WRITES_PER_EVENT: usize = 4;
/// When the writer is stopped, what is due may still be written within this, and after that events.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The name of the writer's loop.
const LOOP: &str = "writer";

/// What a writer knows, and what is to be written next.
pub(crate) trait Content: Send + Sized + 'static {
    /// What can be written.
    type Object: Send;

    /// The controller in whose name events are published.
    const CONTROLLER: &'static str;

    /// Draws conclusions from what was taken up.
    fn review(&mut self) {}

    /// What is due first, of what is not being written.
    fn next(&mut self) -> Option<Next<Self::Object>>;

    /// How many objects are due to be written and are not being written.
    fn due(&self) -> usize;

    /// Begins to write an object; `None` if there is nothing to say.
    fn write(&mut self, seed: &Seed, object: &Self::Object) -> Option<Write<Self>>;

    /// Nothing more is reported: what was put off, so as not to be written too often, is due now.
    fn close(&mut self) {}

    /// The events since this was last asked, with the objects that they are about.
    fn news(&mut self) -> Vec<(ObjectReference, Event)>;
}

/// What is written next.
pub(crate) struct Next<O> {
    pub(crate) due: Instant,
    /// Events go before it: it may be due without end.
    pub(crate) minor: bool,
    pub(crate) object: O,
}

/// A change of the content.
pub(crate) type Change<C> = Box<dyn FnOnce(&mut C) + Send>;

/// A write under way, of an object of this kind: whether it succeeded, and what to do then.
pub(crate) type Write<C> = BoxFuture<'static, (&'static str, bool, Change<C>)>;

/// Writes an object of this kind, and hands the result to the content. The object may have gone
/// meanwhile.
pub(crate) fn write<C: 'static, T: Send + 'static>(
    kind: &'static str,
    request: impl Future<Output = Result<T, WriteError>> + Send + 'static,
    then: impl FnOnce(&mut C, Result<T, WriteError>) + Send + 'static,
) -> Write<C> {
    Box::pin(async move {
        let result = request.await;
        let succeeded = result.is_ok();
        let then: Change<C> = Box::new(move |content| then(content, result));
        (kind, succeeded, then)
    })
}

/// Hands reports to a writer. Never blocks.
pub(crate) type Sender<C> = UnboundedSender<Change<C>>;

/// Hands a change to the writer.
pub(crate) fn send<C>(to: &Sender<C>, change: impl FnOnce(&mut C) + Send + 'static) {
    // The writer ends only with the term, and who changes something with it.
    let _ = to.send(Box::new(change));
}

/// Writes statuses and events.
pub struct Writer {
    events: EventCounts,
    run: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>,
}

impl Writer {
    /// A writer of this content, and who hands it reports.
    pub(crate) fn new<C: Content>(
        seed: Seed,
        content: C,
        metrics: WriterMetrics,
        health: Health,
    ) -> (Self, Sender<C>) {
        let (sender, changes) = mpsc::unbounded_channel();
        let events = metrics.events.clone();
        let writing = Writing {
            outbox: Outbox::new(seed.clone(), C::CONTROLLER, events.clone()),
            seed,
            changes,
            content,
            metrics,
            health,
            writes: FuturesUnordered::new(),
            overtaken: 0,
        };
        let run = Box::new(|stop| writing.run(stop).boxed());
        (Self { events, run }, sender)
    }

    /// How many events were written, and how many were not.
    pub fn event_counts(&self) -> EventCounts {
        self.events.clone()
    }

    /// Writes until this work has ended, and then what is due at that moment: its end may cause the last reports.
    pub async fn beside(self, work: impl Future<Output = ()>) {
        let ended = CancellationToken::new();
        let work = work.map(|()| ended.cancel());
        tokio::join!((self.run)(ended.clone()), work);
    }
}

struct Writing<C: Content> {
    seed: Seed,
    changes: UnboundedReceiver<Change<C>>,
    content: C,
    metrics: WriterMetrics,
    health: Health,
    writes: FuturesUnordered<Write<C>>,
    outbox: Outbox,
    /// How many writes were begun since the last event was.
    overtaken: usize,
}

impl<C: Content> Writing<C> {
    async fn run(mut self, stop: CancellationToken) {
        let mut timer = interval(Health::BEAT);
        loop {
            self.health.beat(LOOP);
            self.review();
            set(&self.metrics.writing, self.writes.len());
            let next = self.content.next();
            let waits = |it: &Next<C::Object>| it.due > Instant::now() || it.minor;
            let may_send = self.overtaken >= WRITES_PER_EVENT || next.as_ref().is_none_or(waits);
            if may_send && self.outbox.send_next() {
                self.overtaken = 0;
            }
            let next = next.filter(|_| self.writes.len() < WRITES_AT_ONCE);
            let due = next.as_ref().map(|it| it.due);
            tokio::select! {
                // What is newest is worth more than what is due.
                biased;
                () = stop.cancelled() => break,
                change = self.changes.recv() => match change {
                    Some(change) => {
                        change(&mut self.content);
                        self.take_all();
                    }
                    None => break,
                },
                Some(ended) = self.writes.next() => self.written(ended),
                () = until(due) => if let Some(next) = next {
                    self.write(&next.object);
                },
                // One that is begun is always followed: it may have the turn that all others, of
                // statuses too, wait for.
                () = self.outbox.sent() => {}
                _ = timer.tick() => set(&self.metrics.due, self.content.due()),
            }
        }
        // Whoever comes next learns from it what was done last. A failure is not tried again.
        let last = async {
            self.write_what_is_due().await;
            self.outbox.send_all().await;
        };
        let _ = timeout(LAST_WRITES, last).await;
    }

    async fn write_what_is_due(&mut self) {
        self.take_all();
        self.review();
        loop {
            self.content.close();
            let next = self.content.next();
            let due = next.filter(|it| it.due <= Instant::now());
            match due.filter(|_| self.writes.len() < WRITES_AT_ONCE) {
                Some(due) => self.write(&due.object),
                None if self.writes.is_empty() => return,
                None => tokio::select! {
                    biased;
                    Some(ended) = self.writes.next() => self.written(ended),
                    () = self.outbox.sent() => {}
                },
            }
        }
    }

    fn take_all(&mut self) {
        while let Ok(change) = self.changes.try_recv() {
            change(&mut self.content);
        }
    }

    fn review(&mut self) {
        self.content.review();
        self.tell();
    }

    fn write(&mut self, object: &C::Object) {
        if let Some(write) = self.content.write(&self.seed, object) {
            self.writes.push(write);
            self.overtaken = self.overtaken.saturating_add(1);
        }
    }

    fn written(&mut self, (kind, succeeded, then): (&'static str, bool, Change<C>)) {
        self.metrics.wrote(kind, succeeded);
        then(&mut self.content);
        self.tell();
    }

    fn tell(&mut self) {
        for (regarding, event) in self.content.news() {
            self.outbox.queue.push(regarding, event);
        }
    }
}
