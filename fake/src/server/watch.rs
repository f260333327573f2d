//! Watches.

use super::{Answer, Connection, State, reset};
use crate::{
    kinds::Kind,
    store::{Call, Event, Refusal, Select},
};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{collections::BTreeMap, future::pending, io, sync::Arc, time::Duration};
use tokio::{
    sync::watch as channel,
    task::yield_now,
    time::{Instant, sleep_until},
};

/// What a cut watch ends with.
pub(super) const HALF: &[u8] = br#"{"type":"MODIFIED","object":{"kind":"#;
/// For how long a watch goes on that names no time.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Between two bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

struct Watch {
    connection: Connection,
    changed: channel::Receiver<()>,
    select: Select,
    /// Counts it among those that go on.
    _alive: Arc<()>,
    kind: &'static Kind,
    group_version: String,
    only_metadata: bool,
    /// Its place among all watches.
    number: u64,
    since: u64,
    /// What is told at once.
    first: Vec<Event>,
    resets: u64,
    cuts: u64,
    ends: Instant,
    bookmark: Option<Instant>,
    /// Whether it failed in the middle of an event, or has told its last.
    is_cut: bool,
    is_over: bool,
}

/// What a watch does next.
enum Next {
    Tell(Bytes),
    /// Tells it, and then fails.
    Cut,
    /// Tells it, and ends.
    Last(Bytes),
    Fail,
    Wait {
        silent: bool,
    },
    Never,
}

impl Connection {
    /// Begins a watch.
    pub(super) fn watch(&self, state: &mut State, call: &Call) -> Answer {
        let begun = state.store.kind_of(call).and_then(|kind| {
            let select = Select::of(call)?;
            Ok((kind, select))
        });
        let (kind, select) = match begun {
            Ok(begun) => begun,
            Err(refusal) => return Answer::of(Err(refusal)),
        };
        let number = |name| call.parameter(name).and_then(|it| it.parse::<u64>().ok());
        let now = Instant::now();
        let (since, first) = match call.revision() {
            0 => (state.store.revision(), state.store.present(&select)),
            revision => (revision, Vec::new()),
        };
        let alive = Arc::new(());
        state.begun += 1;
        let watches = state.watches.entry(call.plural.clone()).or_default();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&alive));
        let watch = Watch {
            connection: self.clone(),
            changed: self.server.0.changed.subscribe(),
            select,
            _alive: alive,
            kind,
            group_version: call.group_version.clone(),
            only_metadata: call.only_metadata,
            number: state.begun,
            since,
            first,
            resets: state.resets,
            cuts: state.cuts,
            ends: now + number("timeoutSeconds").map_or(LIMIT, Duration::from_secs),
            bookmark: call.is("allowWatchBookmarks").then(|| now + BOOKMARKS),
            is_cut: false,
            is_over: false,
        };
        let lines = futures::stream::unfold(watch, |mut watch| async {
            let line = watch.next().await?;
            Some((line, watch))
        });
        Answer::lines(Box::pin(lines))
    }
}

impl Watch {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.is_over {
                return None;
            }
            if self.is_cut {
                // What was sent goes out first.
                yield_now().await;
            }
            self.changed.mark_unchanged();
            let next = {
                let server = self.connection.server.clone();
                let state = server.lock();
                self.look(&state)
            };
            match next {
                Next::Tell(line) => return Some(Ok(line)),
                Next::Last(line) => {
                    self.is_over = true;
                    return Some(Ok(line));
                }
                Next::Cut => {
                    self.is_cut = true;
                    return Some(Ok(Bytes::from_static(HALF)));
                }
                Next::Fail => {
                    self.is_over = true;
                    return Some(Err(reset()));
                }
                Next::Never => pending().await,
                Next::Wait { silent: true } => {
                    if self.changed.changed().await.is_err() {
                        return None;
                    }
                }
                Next::Wait { silent: false } => {
                    let first = self.bookmark.unwrap_or(self.ends).min(self.ends);
                    tokio::select! {
                        biased;
                        changed = self.changed.changed() => changed.ok()?,
                        () = sleep_until(first) => {
                            if Instant::now() >= self.ends {
                                return None;
                            }
                        }
                    }
                }
            }
        }
    }

    fn look(&mut self, state: &State) -> Next {
        let switches = &state.switches;
        let among = |these: &BTreeMap<String, u64>| {
            let last = these.get(self.kind.plural).copied();
            last.is_some_and(|last| self.number <= last)
        };
        if self.connection.is_dead(state) || among(&state.silenced) {
            return Next::Never;
        }
        if among(&state.ended) {
            return Next::Last(Bytes::new());
        }
        if self.is_cut || switches.away || state.resets != self.resets {
            return Next::Fail;
        }
        if state.cuts != self.cuts {
            return Next::Cut;
        }
        if switches.silent || switches.late_watches {
            return Next::Wait { silent: true };
        }
        if switches.gone_watches {
            return self.gone(&Refusal::too_old(self.since, state.store.revision()));
        }
        let mut events = std::mem::take(&mut self.first);
        match state.store.changes_since(self.since, &self.select) {
            Ok(changes) => events.extend(changes),
            Err(gone) => return self.gone(&Refusal::too_old(gone.asked, gone.oldest)),
        }
        self.since = self.since.max(state.store.revision());
        if !events.is_empty() {
            let lines = events.into_iter().map(|event| self.line(event));
            return Next::Tell(lines.collect::<String>().into());
        }
        match self.bookmark {
            Some(due) if due <= Instant::now() => {
                self.bookmark = Some(due + BOOKMARKS);
                let object = json!({
                    "kind": self.kind.kind, "apiVersion": self.group_version,
                    "metadata": {"resourceVersion": self.since.to_string()},
                });
                Next::Tell(line("BOOKMARK", &object).into())
            }
            _ => Next::Wait { silent: false },
        }
    }

    fn line(&self, event: Event) -> String {
        let mut object = event.object;
        if self.only_metadata {
            object = crate::store::only_metadata(&object);
        } else {
            object["apiVersion"] = self.group_version.clone().into();
        }
        line(event.what, &object)
    }

    fn gone(&self, refusal: &Refusal) -> Next {
        Next::Last(line("ERROR", &refusal.status()).into())
    }
}

fn line(what: &str, object: &Value) -> String {
    // The type first, as API servers write it.
    format!("{{\"type\":\"{what}\",\"object\":{object}}}\n")
}
