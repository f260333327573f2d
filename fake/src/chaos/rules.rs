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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::Fault;

    const FIRST: Dependent = Dependent {
        name: "first",
        replicas: 2,
        down: 0,
        up: 1,
    };
    const SECOND: Dependent = Dependent {
        name: "second",
        replicas: 3,
        down: 1,
        up: 0,
    };
    const IDLE: Bystander = Bystander {
        name: "idle",
        replicas: 0,
    };

    fn entry(write: &str, at: i64) -> Entry {
        Entry {
            at: Timestamp::from_second(at).unwrap(),
            write: write.to_owned(),
            code: Some(200),
            fault: None,
        }
    }

    fn seen(name: &str, replicas: i64, actual: i64, record: Option<&str>) -> Seen {
        Seen {
            name: name.to_owned(),
            version: 0,
            replicas,
            actual,
            marked: record.is_some(),
            record: record.map(str::to_owned),
        }
    }

    /// As it should be: both down in order, and up.
    fn sound() -> Vec<Seen> {
        vec![
            seen("idle", 0, 0, None),
            seen("first", 2, 2, None),
            seen("second", 3, 3, None),
            seen("first", 0, 2, Some("2")),
            seen("first", 0, 0, Some("2")),
            // Its annotations come first.
            seen("second", 3, 3, Some("3")),
            seen("second", 0, 3, Some("3")),
            seen("second", 0, 0, Some("3")),
            seen("second", 3, 0, Some("3")),
            seen("second", 3, 3, Some("3")),
            seen("second", 3, 3, None),
            seen("first", 2, 0, None),
            seen("first", 2, 2, None),
        ]
    }

    fn judge(mut history: Vec<Seen>, journal: &[Entry]) -> Vec<String> {
        for (version, seen) in (1..).zip(&mut history) {
            seen.version = version;
        }
        let provable = Some(Timestamp::from_second(10).unwrap());
        broken(&history, journal, &[FIRST, SECOND], &[IDLE], provable, true)
    }

    #[test]
    fn a_run_as_it_should_be_breaks_nothing() {
        let journal = [entry("deployments/first:down#1", 11)];
        assert_eq!(judge(sound(), &journal), Vec::<String>::new());
        // Nor one that ends in the middle.
        for until in 0..sound().len() {
            assert_eq!(judge(sound()[..until].to_vec(), &[]), Vec::<String>::new());
        }
    }

    #[test]
    fn whatever_is_broken_is_said() {
        type Break = fn(&mut Vec<Seen>);
        let cases: [(Break, &str); 9] = [
            (|it| it[3].marked = false, "not on record"),
            (|it| it[3].record = Some("0".to_owned()), "not on record"),
            (|it| it[5].record = None, "not on record"),
            (|it| it[11].replicas = 1, "went through"),
            (|it| it.push(seen("first", 0, 2, Some("2"))), "went through"),
            (|it| it.swap(3, 6), "whose level is lower"),
            (|it| it.swap(9, 11), "whose level is lower"),
            (|it| it.push(seen("idle", 1, 0, None)), "a bystander"),
            (|it| it.push(seen("idle", 0, 0, Some("1"))), "a bystander"),
        ];
        for (place, (spoil, expected)) in cases.into_iter().enumerate() {
            let mut history = sound();
            spoil(&mut history);
            let said = judge(history, &[]).join("; ");
            assert!(said.contains(expected), "{place}: {said:?}");
        }
    }

    #[test]
    fn two_may_restore_again_and_nothing_else() {
        let way = |counts: &[i64]| -> Vec<Seen> {
            let record = |count: &i64| (*count == 0).then_some("2");
            let seen = |count: &i64| seen("first", *count, 0, record(count));
            counts.iter().map(seen).collect()
        };
        for (counts, alone, sound) in [
            (&[2, 0, 2, 0, 2][..], false, true),
            (&[2, 0, 2, 0, 2], true, false),
            (&[2, 0, 1, 0, 2], false, false),
            (&[0, 2], false, false),
        ] {
            let complaint = restless(&way(counts), &FIRST, alone);
            assert_eq!(complaint.is_none(), sound, "{counts:?} {alone}");
        }
    }

    #[test]
    fn what_did_not_go_wrong_is_said() {
        for (fault, code, expected) in [
            (Fault::Conflict, Some(200), 1),
            (Fault::Conflict, Some(409), 0),
            (Fault::Lost, Some(200), 1),
            (Fault::Lost, None, 0),
            (Fault::Frozen, Some(200), 0),
        ] {
            let entry = Entry {
                fault: Some(fault),
                code,
                ..entry("deployments/first:down#1", 11)
            };
            assert_eq!(judge(sound(), &[entry]).len(), expected, "{fault}");
        }
    }

    #[test]
    fn what_is_taken_too_early_is_said() {
        for write in ["deployments/first:down#1", "etcds/second:mark#1"] {
            let said = judge(sound(), &[entry("events:A#1", 1), entry(write, 9)]);
            assert!(said.len() == 1 && said[0].contains("before the outage"));
        }
    }
}
