//! What must hold at every moment of a run, whatever goes wrong. Each check says in words what it
//! found; an empty answer is a run without fault.

use super::{Entry, Seen};
use jiff::Timestamp;

/// A dependent of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Dependent {
    /// Its name.
    pub name: &'static str,
    /// The replicas that it has before the outage.
    pub replicas: i64,
    /// The level in which it is scaled down.
    pub down: u32,
    /// The level in which it is scaled up.
    pub up: u32,
}

/// An object that must stay as it is, and the replicas that it has.
#[derive(Clone, Copy, Debug)]
pub struct Bystander {
    /// Its name.
    pub name: &'static str,
    /// Its replicas.
    pub replicas: i64,
}

/// All that is broken, by an operator that acts alone or by two that know nothing of each other.
pub fn broken(
    history: &[Seen],
    journal: &[Entry],
    dependents: &[Dependent],
    bystanders: &[Bystander],
    provable: Option<Timestamp>,
    alone: bool,
) -> Vec<String> {
    let mut broken = Vec::new();
    broken.extend(journal.iter().filter_map(spared));
    broken.extend(too_early(journal, provable));
    for dependent in dependents {
        broken.extend(lost(history, dependent));
        broken.extend(restless(history, dependent, alone));
    }
    broken.extend(out_of_order(history, dependents));
    for bystander in bystanders {
        broken.extend(touched(history, bystander));
    }
    broken
}

fn versions<'a>(history: &'a [Seen], name: &'a str) -> impl Iterator<Item = &'a Seen> {
    history.iter().filter(move |seen| seen.name == name)
}

/// What is to go wrong at a write does: the operator is not sent the answer of a write that went well.
fn spared(entry: &Entry) -> Option<String> {
    let (fault, code) = (entry.fault?, entry.code?);
    (!fault.allows(code)).then(|| {
        let write = &entry.write;
        format!("{fault} at {write} did not happen: it was answered with {code}")
    })
}

/// Nothing is taken, or marked, before the leases are provably expired.
fn too_early(journal: &[Entry], provable: Option<Timestamp>) -> Option<String> {
    let takes = |entry: &&Entry| entry.write.contains(":down#") || entry.write.contains(":mark#");
    let first = journal.iter().find(takes)?;
    match provable {
        Some(provable) if first.at >= provable => None,
        Some(provable) => Some(format!(
            "{} at {}, before the outage was provable at {provable}",
            first.write, first.at
        )),
        None => Some(format!("{} without an outage", first.write)),
    }
}

/// At zero there is a mark and the true count, and a mark never comes without it.
fn lost(history: &[Seen], dependent: &Dependent) -> Option<String> {
    let count = dependent.replicas.to_string();
    let wrong = |seen: &&Seen| {
        let recorded = seen.record.as_deref() == Some(count.as_str());
        match (seen.replicas, seen.marked) {
            (0, false) => true,
            (_, true) => !recorded,
            (_, false) => false,
        }
    };
    let wrong = versions(history, dependent.name).find(wrong)?;
    Some(format!("the count {count} is not on record: {wrong:?}"))
}

/// It is scaled down once and up once, to what it had: nothing in between, nothing again. The first of
/// two that sees the recovery restores what the other, until it has seen it, takes again.
fn restless(history: &[Seen], dependent: &Dependent, alone: bool) -> Option<String> {
    let mut counts: Vec<i64> = versions(history, dependent.name)
        .map(|seen| seen.replicas)
        .collect();
    counts.dedup();
    let way = [dependent.replicas, 0].into_iter().cycle();
    let longest = if alone { 3 } else { usize::MAX };
    let sound = counts.len() <= longest && way.take(counts.len()).eq(counts.iter().copied());
    (!sound).then(|| {
        let name = dependent.name;
        let count = dependent.replicas;
        format!("{name} went through {counts:?} replicas, not [{count}, 0, {count}]")
    })
}

/// Nothing is scaled before the lower levels: down before they are scaled to zero, of which the effect is not
/// waited for long, up before they report replicas.
fn out_of_order(history: &[Seen], dependents: &[Dependent]) -> Vec<String> {
    let mut broken = Vec::new();
    for (later, earlier) in dependents
        .iter()
        .flat_map(|later| dependents.iter().map(move |earlier| (later, earlier)))
    {
        if earlier.down < later.down {
            let gone = |seen: &Seen| seen.replicas == 0;
            let taken = versions(history, later.name).find(|seen| seen.replicas == 0);
            broken.extend(taken.and_then(|taken| before(history, earlier, gone, taken)));
        }
        if earlier.up < later.up {
            // What it had before the outage does not count.
            let taken = versions(history, earlier.name).find(|seen| seen.replicas == 0);
            let since = taken.map_or(u64::MAX, |taken| taken.version);
            let back = |seen: &Seen| seen.version > since && seen.replicas > 0 && seen.actual > 0;
            let mut of_later = versions(history, later.name);
            let was_taken = of_later.any(|seen| seen.replicas == 0);
            let given = of_later.find(|seen| seen.replicas > 0);
            if let (true, Some(given)) = (was_taken, given) {
                broken.extend(before(history, earlier, back, given));
            }
        }
    }
    broken
}

/// A complaint unless the earlier one was so before this version of the later one.
fn before(
    history: &[Seen],
    earlier: &Dependent,
    is_done: impl Fn(&Seen) -> bool,
    later: &Seen,
) -> Option<String> {
    let done = versions(history, earlier.name).any(|it| it.version < later.version && is_done(it));
    (!done).then(|| {
        format!(
            "{} was scaled to {} before {}, whose level is lower, was done",
            later.name, later.replicas, earlier.name
        )
    })
}

/// What nobody took stays as it is, and without an annotation of the operator.
fn touched(history: &[Seen], bystander: &Bystander) -> Option<String> {
    let is_touched =
        |seen: &&Seen| seen.replicas != bystander.replicas || seen.marked || seen.record.is_some();
    let touched = versions(history, bystander.name).find(is_touched)?;
    Some(format!("a bystander was touched: {touched:?}"))
}
