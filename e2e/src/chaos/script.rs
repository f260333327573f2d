//! What goes wrong in one run, and the journal of what the operator wrote.

use super::Fault;
use crate::Operator;
use fake::chaos::{
    Course::{Answer, Beside, While},
    Entry,
};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

/// Shared by the proxies of a run, which ask it, and the run, which arms it and carries out what no
/// proxy can.
#[derive(Debug)]
pub(super) struct Script {
    state: Mutex<State>,
    /// The fault while it is at work, if it lasts for a while.
    mode: watch::Sender<Option<Fault>>,
    /// How often all connections to the seed have died.
    deaths: watch::Sender<usize>,
    beside: mpsc::UnboundedSender<Fault>,
}

#[derive(Debug, Default)]
struct State {
    /// What is still to go wrong, and at which write.
    armed: Option<(Fault, String)>,
    seen: BTreeMap<String, usize>,
    journal: Vec<Entry>,
    operator: Option<Arc<Operator>>,
    crashes: usize,
}

impl Script {
    /// The script by which this goes wrong at this write, and what is to be done beside the proxies.
    pub(super) fn new(fault: Fault, write: &str) -> (Arc<Self>, mpsc::UnboundedReceiver<Fault>) {
        let (beside, demands) = mpsc::unbounded_channel();
        let state = State {
            armed: Some((fault, write.to_owned())),
            ..State::default()
        };
        let script = Self {
            state: Mutex::new(state),
            mode: watch::Sender::default(),
            deaths: watch::Sender::default(),
            beside,
        };
        (Arc::new(script), demands)
    }

    /// Tells whom to kill.
    pub(super) fn cast(&self, operator: &Arc<Operator>) {
        self.lock().operator = Some(Arc::clone(operator));
    }

    /// The operator writes; this is what goes wrong at it, with its place in the journal.
    pub(super) fn writes(self: &Arc<Self>, says: &str) -> (usize, Option<Fault>) {
        let (place, fault) = self.lock().writes(says);
        if fault == Some(Fault::SeedConnectionsDead) {
            self.deaths.send_modify(|deaths| *deaths += 1);
        }
        if let Some(fault) = fault {
            match fault.course() {
                Answer => {}
                Beside => {
                    self.begin(fault);
                    // Nobody is there to do it any more once the run is over.
                    let _ = self.beside.send(fault);
                }
                While(time) => {
                    self.begin(fault);
                    let script = Arc::clone(self);
                    tokio::spawn(async move {
                        sleep(time).await;
                        script.end();
                    });
                }
            }
        }
        (place, fault)
    }

    fn begin(&self, fault: Fault) {
        self.mode.send_replace(Some(fault));
    }

    /// What was to be done beside the proxies is done, or what lasts is over.
    pub(super) fn end(&self) {
        self.mode.send_replace(None);
    }

    /// What was to go wrong at this write has not, since the API server refused it, as the object was another
    /// by then: it does when the operator writes it again.
    pub(super) fn spare(&self, place: usize) {
        self.lock().spare(place);
    }

    /// The operator is sent this answer to a write.
    pub(super) fn answered(&self, place: usize, code: u16) {
        if let Some(entry) = self.lock().journal.get_mut(place) {
            entry.code = Some(code);
        }
    }

    /// Kills the operator.
    pub(super) fn crash(&self) {
        let operator = {
            let mut state = self.lock();
            state.crashes += 1;
            state.operator.clone()
        };
        if let Some(operator) = operator {
            operator.process.kill();
        }
    }

    /// How often it was killed.
    pub(super) fn crashes(&self) -> usize {
        self.lock().crashes
    }

    /// What lasts, now and from now on.
    pub(super) fn mode(&self) -> watch::Receiver<Option<Fault>> {
        self.mode.subscribe()
    }

    /// How often all connections to the seed have died, of which those that are made later know nothing.
    pub(super) fn deaths(&self) -> watch::Receiver<usize> {
        self.deaths.subscribe()
    }

    /// Whether this is at work now.
    pub(super) fn is_on(&self, fault: Fault) -> bool {
        *self.mode.borrow() == Some(fault)
    }

    /// Whether nothing has gone wrong yet.
    pub(super) fn is_armed(&self) -> bool {
        self.lock().armed.is_some()
    }

    /// Whether something lasts now, or is yet to be done.
    pub(super) fn is_disturbed(&self) -> bool {
        self.mode.borrow().is_some()
    }

    /// Every write so far.
    pub(super) fn journal(&self) -> Vec<Entry> {
        self.lock().journal.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn writes(&mut self, says: &str) -> (usize, Option<Fault>) {
        let count = self.seen.entry(says.to_owned()).or_default();
        *count += 1;
        let write = format!("{says}#{count}");
        let armed = self.armed.take_if(|(_, at)| *at == write);
        let fault = armed.map(|(fault, _)| fault);
        self.journal.push(Entry {
            at: Timestamp::now(),
            write,
            code: None,
            fault,
        });
        (self.journal.len() - 1, fault)
    }

    fn spare(&mut self, place: usize) {
        let entry = self.journal.get_mut(place);
        let Some((entry, fault)) = entry.and_then(|it| it.fault.take().map(|fault| (it, fault)))
        else {
            return;
        };
        self.armed = Some((fault, entry.write.clone()));
        // The next of its like has the same name.
        let says = entry.write.rsplit_once('#').map(|(says, _)| says);
        if let Some(count) = says.and_then(|says| self.seen.get_mut(says)) {
            *count = count.saturating_sub(1);
        }
    }
}
