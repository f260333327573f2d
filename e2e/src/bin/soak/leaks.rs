//! Whether what a process uses grows: judged between rests, at which all is the same.

use std::{collections::BTreeMap, fmt::Display};

/// What a process uses at a rest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Which rest it was.
    pub(crate) rest: usize,
    pub(crate) name: &'static str,
    pub(crate) pid: u32,
    pub(crate) leads: bool,
    /// Bytes resident.
    pub(crate) memory: u64,
    pub(crate) threads: u64,
    /// Of its runtime.
    pub(crate) tasks: usize,
    pub(crate) files: usize,
    /// Connections to shoots, to the seed.
    pub(crate) to_shoots: usize,
    pub(crate) to_seed: usize,
}

const MIB: u64 = 1024 * 1024;
/// What the allocator keeps of what was used for a while, and what differs from rest to rest.
const SLACK: u64 = 4 * MIB;

/// How much memory a process may have, of which a rest has seen it with so much.
fn most(before: u64) -> u64 {
    before + before / 10 + SLACK
}

/// What is open beside connections: three streams, epoll, eventfd, the pairs by which signals are told,
/// and a listener, with room for what the runtime may need twice.
const FILES_BESIDE: usize = 24;
/// Watches (policies, ClusterHealths, Clusters, Secrets), the Lease, and what a burst has left open for
/// the next: as many as requests may be under way at once.
const TO_SEED: usize = 40;
/// Beside a worker for each core: those that look up names and write, which come and go.
const THREADS_BESIDE: u64 = 12;
/// What is under way for a moment at a rest: looks at the Nodes and the readiness of shoots, lists of
/// Machines, requests to the seed.
const PASSING_TASKS: usize = 8;
/// In one that leads: signals, the server of the endpoints, its listener, the answer that tells how many there
/// are; the client's queue; statuses, deletions of ClusterHealths, rights, Secrets; and for each of four watches
/// one more while its answer goes on.
const TASKS_BESIDE: usize = 16 + PASSING_TASKS;

impl Sample {
    /// Tasks but for those that drive a connection to the seed each: bursts leave these open for a while.
    /// Connections to shoots have none.
    fn tasks_beside(&self) -> usize {
        self.tasks.saturating_sub(self.to_seed)
    }
}

/// What is too much at once: to each shoot one connection is kept, and while two requests are under way
/// there is a second.
pub(crate) fn excess(sample: &Sample, shoots: usize, cores: u64) -> Vec<String> {
    let connections = sample.to_shoots + sample.to_seed;
    let shoots = if sample.leads { shoots } else { 0 };
    let bounds = [
        ("connections to shoots", sample.to_shoots, shoots),
        ("connections to the seed", sample.to_seed, TO_SEED),
        (
            "files that are no connections",
            sample.files.saturating_sub(connections),
            FILES_BESIDE,
        ),
        (
            "tasks of no cluster and no connection",
            sample.tasks_beside().saturating_sub(shoots),
            TASKS_BESIDE,
        ),
    ];
    let over = bounds.into_iter().filter(|(_, value, most)| value > most);
    let over = over.map(|(what, value, most)| said(sample, what, value, most));
    let most = cores + THREADS_BESIDE;
    let threads = (sample.threads > most).then(|| said(sample, "threads", sample.threads, most));
    over.chain(threads).collect()
}

fn said(sample: &Sample, what: &str, value: impl Display, most: impl Display) -> String {
    let Sample { name, rest, .. } = sample;
    format!("{name} has {value} {what} at rest {rest}, where {most} are enough")
}

/// What the memory and the tasks of processes have come to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Growth {
    /// How many lives of processes that led were long enough to be compared.
    pub(crate) compared: usize,
    /// Over how many legs, at most.
    pub(crate) legs: usize,
    /// Those that have grown, whether they led or not.
    pub(crate) grown: Vec<String>,
}

/// Of each process, as long as it has the same role, the memory at the second rest is compared with that at
/// the last: before the second it has not yet met all there is. Tasks are compared from the first on, since
/// nothing has to be met for them. One that only waits does nothing that would leak: that it was compared
/// says nothing.
pub(crate) fn growth(samples: &[Sample]) -> Growth {
    let mut lives: BTreeMap<(u32, bool), Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let life = lives.entry((sample.pid, sample.leads)).or_default();
        life.push(sample);
    }
    let mut growth = Growth::default();
    for ((_, leads), life) in lives {
        if let [first, .., last] = life.as_slice() {
            let (before, after) = (first.tasks_beside(), last.tasks_beside());
            let is_more = after > before + PASSING_TASKS;
            let grown = is_more.then(|| grew(first, last, "tasks of no connection", before, after));
            growth.grown.extend(grown);
        }
        let [_, second, .., last] = life.as_slice() else {
            continue;
        };
        if leads {
            growth.compared += 1;
            growth.legs = growth.legs.max(last.rest - second.rest);
        }
        if last.memory > most(second.memory) {
            let mib = |it: &Sample| format!("{:.1}", it.memory as f64 / MIB as f64);
            let grown = grew(second, last, "MiB", mib(second), mib(last));
            growth.grown.push(grown);
        }
    }
    growth
}

fn grew<T: Display>(earlier: &Sample, later: &Sample, what: &str, before: T, after: T) -> String {
    let Sample { name, rest, .. } = later;
    let since = earlier.rest;
    format!("{name} has {after} {what} at rest {rest}, and had {before} at rest {since}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rest: usize, pid: u32, leads: bool, mib: u64) -> Sample {
        Sample {
            rest,
            name: "prober-a",
            pid,
            leads,
            memory: mib * MIB,
            threads: 4,
            tasks: if leads { 33 } else { 20 },
            files: 40,
            to_shoots: if leads { 10 } else { 0 },
            to_seed: 10,
        }
    }

    #[test]
    fn growth_counts_from_the_second_rest_of_a_life() {
        for (memory, legs, expected) in [
            (&[30_u64, 40, 48][..], Some(1), false),
            (&[30, 40, 49][..], Some(1), true),
            (&[30, 40, 80, 48][..], Some(2), false),
            (&[30, 80][..], None, false),
            (&[30][..], None, false),
        ] {
            for leads in [true, false] {
                let rests = memory.iter().enumerate();
                let samples: Vec<_> = rests
                    .map(|(rest, mib)| sample(rest, 1, leads, *mib))
                    .collect();
                let Growth {
                    compared,
                    legs: over,
                    grown,
                } = growth(&samples);
                // Whoever waits may not grow either, but shows nothing.
                let counted = legs.filter(|_| leads);
                assert_eq!(compared, usize::from(counted.is_some()), "{memory:?}");
                assert_eq!(over, counted.unwrap_or(0), "{memory:?}");
                assert_eq!(!grown.is_empty(), expected, "{memory:?}");
            }
        }
    }

    #[test]
    fn who_is_started_anew_or_begins_to_lead_begins_anew() {
        let samples = [
            sample(0, 1, false, 10),
            sample(1, 1, false, 10),
            sample(2, 1, true, 40),
            sample(3, 1, true, 40),
            sample(4, 2, true, 90),
        ];
        assert_eq!(growth(&samples), Growth::default());
    }

    /// Connections that a burst has left open count as little as what is under way.
    #[test]
    fn tasks_grow_by_no_more_than_is_under_way() {
        // Tasks and connections to the seed at each rest.
        for (rests, expected) in [
            (&[(40, 5), (48, 5)][..], ""),
            (
                &[(40, 5), (49, 5)],
                "44 tasks of no connection at rest 1, and had 35 at rest 0",
            ),
            (&[(40, 5), (90, 5), (48, 5)], ""),
            (&[(40, 5), (80, 45)], ""),
            (&[(80, 45), (49, 5)], "44 tasks"),
            (&[(40, 5)], ""),
        ] {
            let samples: Vec<_> = rests
                .iter()
                .enumerate()
                .map(|(rest, (tasks, to_seed))| {
                    let sample = sample(rest, 1, true, 27);
                    let (tasks, to_seed) = (*tasks, *to_seed);
                    Sample {
                        tasks,
                        to_seed,
                        ..sample
                    }
                })
                .collect();
            let grown = growth(&samples).grown.join("; ");
            assert_eq!(grown.is_empty(), expected.is_empty(), "{rests:?}: {grown}");
            assert!(grown.contains(expected), "{rests:?}: {grown}");
        }
    }

    /// What docs/soak.md says: of 150 events and 2,000 requests a leg, over three and over one.
    #[test]
    fn a_leak_is_found_as_small_as_is_said() {
        for (kib, found) in [
            (3 * 2_000, false),
            (3 * 2_000 * 5 / 4, true),
            (3 * 150 * 12, false),
            (3 * 150 * 16, true),
            (2_000 * 3, false),
            (2_000 * 4, true),
            (150 * 40, false),
            (150 * 50, true),
        ] {
            let mut samples = [2, 3, 6].map(|rest| sample(rest, 1, true, 27));
            samples[2].memory += kib * 1024;
            assert_eq!(!growth(&samples).grown.is_empty(), found, "{kib}");
        }
    }

    #[test]
    fn what_is_open_is_bounded() {
        type Spoil = fn(&mut Sample);
        let cases: [(Spoil, &str); 7] = [
            (|_| {}, ""),
            (|it| it.to_shoots = 11, "11 connections to shoots"),
            (|it| it.to_seed = 41, "41 connections to the seed"),
            (|it| it.files = 45, "25 files that are no connections"),
            (|it| it.threads = 15, "15 threads"),
            (|it| it.tasks = 10 + 10 + TASKS_BESIDE, ""),
            (
                |it| it.tasks = 10 + 10 + TASKS_BESIDE + 1,
                "tasks of no cluster and no connection",
            ),
        ];
        for (spoil, expected) in cases {
            let mut sample = sample(1, 1, true, 40);
            spoil(&mut sample);
            let said = excess(&sample, 10, 2).join("; ");
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
            assert!(said.contains(expected), "{said}");
        }
        let mut follower = sample(1, 1, false, 10);
        (follower.to_shoots, follower.files) = (1, 30);
        assert_eq!(excess(&follower, 10, 2).len(), 1);
        // It has no clusters.
        follower.tasks = 10 + TASKS_BESIDE + 1;
        assert_eq!(excess(&follower, 10, 2).len(), 2);
    }
}
