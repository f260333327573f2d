//! The loop of a writer: what is reported is taken up, and written when its turn comes.
//!
//! Reports are coalesced: the newest is written. A few objects are written at the same time, so that
//! one whose write hangs keeps no other waiting. Events go one at a time, and while statuses are due
//! that matter more, one for every few of these. The [`Desk`] decides what is written, and when.

use std::{future::Future, time::Duration};

use futures::{FutureExt as _, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    desk::{Desk, Next},
    events::outbox::Outbox,
    metrics::{WriterMetrics, set},
    request::{Applied, Write},
    slot::Rank,
};
use crate::runtime::{health::Health, seed::Seed, timer::until};

/// Most objects that are written at the same time.
const WRITES_AT_ONCE: usize = 16;
/// While statuses are due that matter more, an event is begun after so many of these: they may be due
/// without end, and only so many events can wait.
const WRITES_PER_EVENT: usize = 4;
/// Time in which a writer that is stopped may still write what is due, and after that events.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The name of the writer's loop.
const LOOP: &str = "writer";

/// Source of the statuses of a writer.
pub(crate) trait Content: Send + 'static {
    /// Draws conclusions from what was taken up.
    fn review(&mut self, _desk: &mut Desk) {}
}

impl Content for () {}

/// A change of the content, and of what is written.
pub(crate) type Change<C> = Box<dyn FnOnce(&mut C, &mut Desk) + Send>;

/// Hands reports to a writer. Never blocks.
pub(crate) type Sender<C> = UnboundedSender<Change<C>>;

/// Hands a change to the writer.
pub(crate) fn send<C>(to: &Sender<C>, change: impl FnOnce(&mut C, &mut Desk) + Send + 'static) {
    // The writer ends only with the term, and who changes something with it.
    let _ = to.send(Box::new(change));
}

/// Writes statuses and events.
pub struct Writer {
    run: Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>,
}

impl Writer {
    /// A writer in the name of this controller, and who hands it reports.
    pub(crate) fn new<C: Content>(
        seed: Seed,
        controller: &str,
        content: C,
        desk: Desk,
        metrics: WriterMetrics,
        health: Health,
    ) -> (Self, Sender<C>) {
        let (sender, changes) = mpsc::unbounded_channel();
        let writing = Writing {
            outbox: Outbox::new(seed.clone(), controller),
            seed,
            changes,
            content,
            desk,
            metrics,
            health,
            writes: FuturesUnordered::new(),
            overtaken: 0,
        };
        let run = Box::new(|stop| writing.run(stop).boxed());
        (Self { run }, sender)
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
    desk: Desk,
    metrics: WriterMetrics,
    health: Health,
    writes: FuturesUnordered<BoxFuture<'static, (Write, Applied)>>,
    outbox: Outbox,
    /// Number of writes that were begun since the last event was.
    overtaken: usize,
}

impl<C: Content> Writing<C> {
    async fn run(mut self, stop: CancellationToken) {
        let mut timer = interval(Health::BEAT);
        loop {
            self.health.beat(LOOP);
            self.content.review(&mut self.desk);
            set(&self.metrics.writing, self.writes.len());
            let next = self.desk.next();
            // What is only observed may be due without end.
            let waits = |it: &Next| it.due > Instant::now() || it.rank == Rank::Observed;
            let may_send = self.overtaken >= WRITES_PER_EVENT || next.as_ref().is_none_or(waits);
            if may_send && self.outbox.send_next(&mut self.desk.queue) {
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
                        change(&mut self.content, &mut self.desk);
                        self.take_all();
                    }
                    None => break,
                },
                Some((write, result)) = self.writes.next() => self.written(write, result),
                () = until(due) => if let Some(next) = next {
                    self.write(&next);
                },
                // One that is begun is always followed: it may have the turn that all others, of
                // statuses too, wait for.
                () = self.outbox.sent(&self.desk.queue.counts) => {}
                _ = timer.tick() => set(&self.metrics.due, self.desk.due()),
            }
        }
        // Whoever comes next learns from it what was done last. A failure is not tried again.
        let last = async {
            self.write_what_is_due().await;
            self.outbox.send_all(&mut self.desk.queue).await;
        };
        let _ = timeout(LAST_WRITES, last).await;
    }

    async fn write_what_is_due(&mut self) {
        self.take_all();
        self.content.review(&mut self.desk);
        loop {
            self.desk.close();
            let due = self.desk.next().filter(|it| it.due <= Instant::now());
            match due.filter(|_| self.writes.len() < WRITES_AT_ONCE) {
                Some(due) => self.write(&due),
                None if self.writes.is_empty() => return,
                None => tokio::select! {
                    biased;
                    Some((write, result)) = self.writes.next() => self.written(write, result),
                    () = self.outbox.sent(&self.desk.queue.counts) => {}
                },
            }
        }
    }

    fn take_all(&mut self) {
        while let Ok(change) = self.changes.try_recv() {
            change(&mut self.content, &mut self.desk);
        }
    }

    fn write(&mut self, next: &Next) {
        let Some(write) = self.desk.begin(&next.key) else {
            return;
        };
        // Writes that were begun before it may be waiting for their turns.
        let seed = match next.rank {
            Rank::Urgent => self.seed.acting(),
            _ => self.seed.clone(),
        };
        let carried_out = async move {
            let result = write.carry_out(&seed).await;
            (write, result)
        };
        self.writes.push(Box::pin(carried_out));
        self.overtaken = self.overtaken.saturating_add(1);
    }

    fn written(&mut self, write: Write, result: Applied) {
        self.metrics.wrote(write.kind.name(), result.is_ok());
        self.desk.ended(write, result);
    }
}
