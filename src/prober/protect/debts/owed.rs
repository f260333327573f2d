//! What a dependent is owed after what a flow has done to it.

use crate::prober::plan::{Memory, Observed, Record, Settled, Step};

/// After a step that may be written in part or in full. A dependent that may be scaled down is owed until
/// it is seen up; one that may be restored stays owed until that is seen.
pub(super) fn begin(step: Step, memory: Memory) -> Memory {
    let replicas = match step {
        Step::ScaleDown { from } => from,
        Step::ScaleUp { to } => to,
        Step::Record { .. }
        | Step::DropMarkAndRecord
        | Step::DropMark
        | Step::Wait
        | Step::Nothing(_) => return memory,
    };
    Memory {
        owed: true,
        keeps_mark: false,
        replicas: Some(replicas),
    }
}

/// After a step that was carried out.
pub(super) fn after(step: Step, found: Option<&Observed>, memory: Memory) -> Memory {
    match step {
        Step::DropMark => Memory::default(),
        Step::DropMarkAndRecord => Memory {
            keeps_mark: false,
            replicas: found.map(|found| found.replicas),
            ..memory
        },
        Step::ScaleUp { .. } => Memory {
            keeps_mark: true,
            ..begin(step, memory)
        },
        // Its mark may have been unknown.
        Step::Record { replicas } => Memory {
            keeps_mark: memory.keeps_mark || !memory.owed,
            replicas: Some(replicas),
            ..memory
        },
        _ => begin(step, memory),
    }
}

pub(super) fn settle(settled: Settled, found: Option<&Observed>, memory: Memory) -> Memory {
    let replicas = match found.map(|found| &found.record) {
        Some(Record::Replicas(replicas)) => Some(*replicas),
        _ => memory.replicas,
    };
    let up_and_marked = found.filter(|found| found.marked && found.replicas > 0);
    match (settled, up_and_marked) {
        // It comes up.
        (Settled::Seen { .. }, Some(found)) if memory.owed && !found.running => memory,
        // Whoever has scaled it up: somebody else, if it was only read.
        (Settled::Up | Settled::Seen { .. }, Some(_)) => Memory {
            owed: false,
            keeps_mark: true,
            replicas,
        },
        (Settled::Down | Settled::Seen { marked: true }, _) => Memory {
            owed: true,
            keeps_mark: false,
            replicas,
        },
        // Gone, ignored or without a mark: it is owed nothing.
        (
            Settled::Seen { marked: false }
            | Settled::Up
            | Settled::NotOurs
            | Settled::Missing
            | Settled::Released
            | Settled::Ignored { .. },
            _,
        ) => Memory::default(),
    }
}
