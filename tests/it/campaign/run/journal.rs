//! What the operator writes to the seed, and the fault at one of these writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use fake::{
    chaos::{Entry, Fault, says},
    fault::{Fate, Rule},
    server::{Asked, Server},
    store::{Call, Verb},
};
use tokio::{sync::mpsc, time::Instant};

use super::Point;

/// All writes so far; clones are the same.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<State>>);

struct State {
    point: Option<Point>,
    has_happened: bool,
    counts: BTreeMap<String, usize>,
    last: Instant,
}

impl Journal {
    /// Begins to note what is written to this seed. What is received says that the fault happens now.
    pub fn begin(seed: &Server, point: Option<&Point>) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (demand, demands) = mpsc::unbounded_channel();
        let journal = Self(Arc::new(Mutex::new(State {
            point: point.cloned(),
            has_happened: false,
            counts: BTreeMap::new(),
            last: Instant::now(),
        })));
        let noted = journal.clone();
        let is_hit = move |call: &Call| {
            let is_hit = noted.0.lock().unwrap().note(call);
            if is_hit {
                // Nobody listens once the run is over.
                let _ = demand.send(());
            }
            is_hit
        };
        let fate = point.map_or(Fate::Late(Duration::ZERO), |it| fate(it.0));
        seed.rule(Rule::always(fate, is_hit));
        (journal, demands)
    }

    /// Whether the fault has happened.
    pub fn has_happened(&self) -> bool {
        self.0.lock().unwrap().has_happened
    }

    /// Whether nothing was written for so long.
    pub fn is_quiet_for(&self, time: Duration) -> bool {
        self.0.lock().unwrap().last.elapsed() > time
    }

    /// All writes, of these requests.
    pub fn entries(&self, calls: &[Asked]) -> Vec<Entry> {
        let point = self.0.lock().unwrap().point.clone();
        let mut counts = BTreeMap::new();
        let entries = calls.iter().filter_map(|asked| {
            let write = name(&asked.call, &mut counts)?;
            let fault = point.as_ref().filter(|it| it.1 == write);
            Some(Entry {
                at: asked.at,
                write,
                code: match asked.fate {
                    Some(Fate::Refuse(code, _)) => Some(code),
                    Some(Fate::Late(_)) | None => asked.carried_out,
                    Some(_) => None,
                },
                fault: fault.map(|it| it.0),
            })
        });
        entries.collect()
    }
}

impl State {
    /// Notes a request. Tells whether the fault happens at it.
    fn note(&mut self, call: &Call) -> bool {
        let Some(write) = name(call, &mut self.counts) else {
            return false;
        };
        self.last = Instant::now();
        let point = self.point.as_ref().filter(|_| !self.has_happened);
        let is_hit = point.is_some_and(|it| it.1 == write);
        self.has_happened |= is_hit;
        is_hit
    }
}

/// The name of a write, with the how manieth of its like it is. Who leads is not what a run is about.
fn name(call: &Call, counts: &mut BTreeMap<String, usize>) -> Option<String> {
    let resource = call.resource();
    if !call.verb.is_write() || resource.ends_with("reviews") || resource == "leases" {
        return None;
    }
    let said = says(call.verb == Verb::Delete, &resource, &call.name, &call.body);
    let count = counts.entry(said.clone()).or_default();
    *count += 1;
    Some(format!("{said}#{count}"))
}

/// What becomes of the write itself.
fn fate(fault: Fault) -> Fate {
    match fault {
        Fault::CrashBefore => Fate::Hang { committed: false },
        Fault::CrashAfter | Fault::StaleStart | Fault::Hang => Fate::Hang { committed: true },
        Fault::Conflict => Fate::Refuse(409, None),
        Fault::ServerError => Fate::Refuse(500, None),
        Fault::Unavailable => Fate::Refuse(503, None),
        Fault::TooMany => Fate::Refuse(429, Some(1)),
        Fault::Reset => Fate::LostBefore,
        Fault::Lost => Fate::LostAfter,
        Fault::SeedConnectionsDead => Fate::DeadConnections,
        // It goes through.
        _ => Fate::Late(Duration::ZERO),
    }
}
