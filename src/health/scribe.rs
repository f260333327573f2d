//! The loop of a writer: what is reported is taken up, and written when its turn comes.
//!
//! Reports are coalesced: what is written is the newest that is known. A few objects are written at
//! once, so that one whose write hangs keeps no other waiting. Events go one at a time, and while
//! statuses are due that matter more, one for every few of these. What is written, and when, is up to
//! the [`Content`].

use std::time::Duration;

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    events::{Event, outbox::Outbox},
    metrics::WriterMetrics,
};
use crate::runtime::{pulse::Pulses, seed::Seed, timer::until};

/// So many objects are written at once.
const WRITES_AT_ONCE: usize = 16;
/// While statuses are due that matter more, an event is begun after so many of these: they may be due
/// without end, and only so many events can wait.
const WRITES_PER_EVENT: usize = 4;
/// When the writer is stopped, what is due may still be written within this, and after that events.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The name of the writer's pulse.
const PULSE: &str = "writer";

/// What a writer knows, and what is to be written next.
pub(crate) trait Content: Send + 'static {
    /// What is reported.
    type Update: Send;
    /// What can be written.
    type Object: Send;
    /// A write that has come to an end.
    type Done: Ended;

    /// By which name events are told.
    const CONTROLLER: &'static str;

    /// Takes up what was reported.
    fn take(&mut self, update: Self::Update);

    /// Sees what all that was taken up comes to.
    fn review(&mut self);

    /// What is due first, of what is not being written.
    fn next(&self) -> Option<(Instant, Self::Object)>;

    /// Whether events go before this, which may be due without end.
    fn is_minor(&self, _: &Self::Object) -> bool {
        false
    }

    /// How many objects are due to be written and are not being written.
    fn due(&self) -> usize;

    /// Begins to write an object; `None` if there is nothing to say.
    fn write(
        &mut self,
        seed: &Seed,
        object: &Self::Object,
    ) -> Option<BoxFuture<'static, Self::Done>>;

    /// Takes down how a write ended. What it was about may have gone meanwhile.
    fn written(&mut self, done: Self::Done);

    /// Nothing more is reported: what would be written later, so as not to be written too often, is
    /// due now.
    fn close(&mut self) {}

    /// What has become otherwise, and was not told yet, with the objects that it is about.
    fn news(&mut self) -> Vec<(ObjectReference, Event)>;
}

/// What metrics show of a write.
pub(crate) trait Ended: Send + 'static {
    /// The kind of the object.
    fn kind(&self) -> &'static str;

    /// Whether it came to what it was meant to.
    fn succeeded(&self) -> bool;
}

/// What a writer begins with.
pub(crate) struct Desk<C: Content> {
    seed: Seed,
    updates: UnboundedReceiver<C::Update>,
    /// What it writes.
    pub(crate) content: C,
    /// What it tells of itself.
    pub(crate) metrics: WriterMetrics,
    /// Whether it moves.
    pub(crate) pulses: Pulses,
}

impl<C: Content> Desk<C> {
    /// With what hands it reports.
    pub(crate) fn new(seed: Seed, content: C) -> (Self, UnboundedSender<C::Update>) {
        let (sender, updates) = mpsc::unbounded_channel();
        let desk = Self {
            seed,
            updates,
            content,
            metrics: WriterMetrics::default(),
            pulses: Pulses::default(),
        };
        (desk, sender)
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let counts = self.metrics.events().clone();
        let scribe = Scribe {
            outbox: Outbox::new(self.seed.clone(), C::CONTROLLER, counts),
            writes: FuturesUnordered::new(),
            overtaken: 0,
            desk: self,
        };
        scribe.run(stop).await;
    }
}

struct Scribe<C: Content> {
    desk: Desk<C>,
    writes: FuturesUnordered<BoxFuture<'static, C::Done>>,
    outbox: Outbox,
    /// How many writes were begun since the last event was.
    overtaken: usize,
}

impl<C: Content> Scribe<C> {
    async fn run(mut self, stop: CancellationToken) {
        let mut pulse = self.desk.pulses.begin(PULSE);
        loop {
            pulse.beat();
            self.review();
            self.desk.metrics.writing(self.writes.len());
            let next = self.desk.content.next();
            let waits = |(due, object): &(Instant, C::Object)| {
                *due > Instant::now() || self.desk.content.is_minor(object)
            };
            let may_send = self.overtaken >= WRITES_PER_EVENT || next.as_ref().is_none_or(waits);
            if may_send && self.outbox.send_next() {
                self.overtaken = 0;
            }
            let next = next.filter(|_| self.writes.len() < WRITES_AT_ONCE);
            let due = next.as_ref().map(|(due, _)| *due);
            tokio::select! {
                // What is newest is worth more than what is due.
                biased;
                () = stop.cancelled() => break,
                update = self.desk.updates.recv() => match update {
                    Some(update) => {
                        self.desk.content.take(update);
                        self.take_all();
                    }
                    None => break,
                },
                Some(done) = self.writes.next() => self.written(done),
                () = until(due) => if let Some((_, object)) = next {
                    self.write(&object);
                },
                // One that is begun is always followed: it may have the turn that all others, of
                // statuses too, wait for.
                () = self.outbox.sent() => {}
                () = pulse.due() => self.desk.metrics.due(self.desk.content.due()),
            }
        }
        // Whoever comes next learns from it what was done last. A failure is not tried again.
        let last = async {
            self.write_what_is_due().await;
            self.outbox.send_all().await;
        };
        let _ = timeout(LAST_WRITES, last).await;
        self.outbox.give_up();
    }

    async fn write_what_is_due(&mut self) {
        self.take_all();
        self.review();
        loop {
            self.desk.content.close();
            let next = self.desk.content.next();
            let due = next.filter(|(due, _)| *due <= Instant::now());
            match due.filter(|_| self.writes.len() < WRITES_AT_ONCE) {
                Some((_, object)) => self.write(&object),
                None if self.writes.is_empty() => return,
                None => tokio::select! {
                    biased;
                    Some(done) = self.writes.next() => self.written(done),
                    () = self.outbox.sent() => {}
                },
            }
        }
    }

    fn take_all(&mut self) {
        while let Ok(update) = self.desk.updates.try_recv() {
            self.desk.content.take(update);
        }
    }

    fn review(&mut self) {
        self.desk.content.review();
        self.tell();
    }

    fn write(&mut self, object: &C::Object) {
        if let Some(write) = self.desk.content.write(&self.desk.seed, object) {
            self.writes.push(write);
            self.overtaken = self.overtaken.saturating_add(1);
        }
    }

    fn written(&mut self, done: C::Done) {
        self.desk.metrics.wrote(done.kind(), done.succeeded());
        self.desk.content.written(done);
        self.tell();
    }

    fn tell(&mut self) {
        for (regarding, event) in self.desk.content.news() {
            self.outbox.push(regarding, event);
        }
    }
}
