//! Whether every outage was met that had to be.

use crate::farm::{Micros, micros};
use crate::oracle::{
    truth::{Excuse, Outage, Reason, Truth},
    versions::Version,
};
use jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};

/// From the expiry until a dependent is at zero, on an idle machine.
const USUAL: Duration = Duration::from_secs(5);
/// What a machine that is busy may take longer, with no excuse in all that time.
const BUSY: Duration = Duration::from_secs(15);
/// What was begun in an outage may be written so much later.
const LATE: Duration = Duration::from_secs(15);

/// What became of the outages that are over.
#[derive(Debug, Default)]
pub struct Outages {
    pub all: usize,
    /// That lasted until the leases were expired.
    pub long: usize,
    /// Of these, that were met by a scale-down.
    pub met: usize,
    /// That had to be.
    pub due: usize,
    /// That were not met, and were over too soon to say that they had to be.
    pub brief: usize,
    /// That were not met, and what excused it last.
    pub excused: Vec<(Outage, Reason)>,
    /// That had to be met, and were not in time.
    pub broken: Vec<String>,
}

impl Outages {
    /// By the versions of all dependents that were written until then, and have been seen.
    pub fn new(truth: &Truth, history: &[Version], until: Micros) -> Self {
        let mut outages = Self::default();
        for outage in truth.outages() {
            outages.all += 1;
            match outage.until {
                Some(end) if end + micros(LATE) <= until => {
                    outages.judge(outage, end, truth, history);
                }
                _ => {}
            }
        }
        outages
    }

    fn judge(&mut self, outage: Outage, end: Micros, truth: &Truth, history: &[Version]) {
        let expired = truth.expires(&outage);
        if end <= expired {
            return;
        }
        self.long += 1;
        let mut excuses = truth.excuses(outage.shoot);
        excuses.retain(|it| it.from < end && expired < it.until);
        let met = met(&outage, end, history);
        self.met += usize::from(met.is_some());
        match (due(expired, end, &mut excuses), met) {
            (Some(due), Some(met)) if met <= due => self.due += 1,
            (Some(due), met) => {
                self.due += 1;
                self.broken.push(late(&outage, expired, due, met));
            }
            (None, Some(_)) => {}
            (None, None) => match excuses.iter().max_by_key(|it| it.until) {
                Some(last) => self.excused.push((outage, last.reason)),
                None => self.brief += 1,
            },
        }
    }

    /// How many were excused by each reason.
    pub fn reasons(&self) -> BTreeMap<Reason, usize> {
        let mut reasons = BTreeMap::new();
        for (_, reason) in &self.excused {
            *reasons.entry(*reason).or_default() += 1;
        }
        reasons
    }
}

/// Until when an outage must be met: the end of the first such time that nothing excuses.
fn due(expired: Micros, end: Micros, excuses: &mut [Excuse]) -> Option<Micros> {
    excuses.sort_by_key(|it| it.from);
    let mut due = expired + micros(USUAL + BUSY);
    for excuse in excuses {
        if excuse.from < due {
            due = due.max(excuse.until.saturating_add(micros(BUSY)));
        }
    }
    (due <= end).then_some(due)
}

/// When a dependent of the shoot was at zero for the first time in an outage that ended then: from its beginning on if it
/// was before.
fn met(outage: &Outage, end: Micros, history: &[Version]) -> Option<Micros> {
    // By name: one may have been replaced by another, which nobody has taken.
    let mut taken: BTreeMap<&str, bool> = BTreeMap::new();
    for version in history.iter().filter(|it| it.shoot == outage.shoot) {
        let is_taken = version.marked && version.replicas == 0;
        let is_met = taken.values().any(|it| *it);
        // Whoever else gives it replicas leaves the date of what the operator wrote.
        let (at, last) = match is_taken {
            true => (version.written, end + micros(LATE)),
            false => (version.seen, end),
        };
        if at > last {
            continue;
        }
        if is_taken && !is_met && at >= outage.from {
            return Some(at);
        }
        taken.insert(&version.name, is_taken);
    }
    // It has not been given back since the outage before.
    taken.values().any(|it| *it).then_some(outage.from)
}

fn late(outage: &Outage, expired: Micros, due: Micros, met: Option<Micros>) -> String {
    let Outage {
        shoot, nodes, from, ..
    } = outage;
    let until = outage.until.map_or("now".to_owned(), time);
    let met = met.map_or("it never was".to_owned(), |at| {
        format!("it was at {}", time(at))
    });
    format!(
        "protected-in-time: {nodes} nodes of shoot {shoot} were silent from {} to {until}, expired at \
         {}, and had to be met by {}: {met}",
        time(*from),
        time(expired),
        time(due),
    )
}

fn time(at: Micros) -> String {
    Timestamp::from_microsecond(at)
        .unwrap_or_default()
        .to_string()
}
