//! What a flow handles.

use super::Debts;
use crate::prober::{flow::Task, plan::Aim};

impl Debts {
    /// The dependents to handle with this aim: none is scaled down that no policy asks for, and hopeless ones
    /// are restored last.
    pub(crate) fn tasks(&self, aim: Aim) -> Vec<Task> {
        let entries = self.entries.values();
        entries
            .filter(|entry| entry.asked || aim != Aim::Protect)
            .map(|entry| {
                let mut dependent = entry.dependent.clone();
                if entry.is_passed_by() {
                    dependent.up.level = u32::MAX;
                }
                let waiting = entry.waiting.filter(|(of, _)| *of == aim);
                Task {
                    dependent,
                    memory: entry.memory,
                    waited: waiting.map(|(_, since)| since),
                    delayed: entry.delayed,
                }
            })
            .collect()
    }

    /// Restored dependents that keep their marks, all on one level: nothing is scaled.
    pub(crate) fn marked_tasks(&self) -> Vec<Task> {
        let mut tasks = self.tasks(Aim::Restore);
        tasks.retain(|task| task.memory.keeps_mark);
        for task in &mut tasks {
            task.dependent.up.level = 0;
        }
        tasks
    }
}
