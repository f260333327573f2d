//! What a flow handles.

use tokio::time::Instant;

use super::{Debts, Entry};
use crate::prober::{flow::Task, plan::Aim};

impl Debts {
    /// The dependents to handle with this aim: none is scaled down that no policy asks for, and hopeless ones
    /// are restored last.
    pub(crate) fn tasks(&self, aim: Aim) -> Vec<Task> {
        self.tasks_of(aim, |entry| entry.asked || aim != Aim::Protect)
    }

    /// Restored dependents whose marks fall now, all on one level: nothing is scaled.
    pub(crate) fn unmarked_tasks(&self, now: Instant) -> Vec<Task> {
        let is_due = |entry: &Entry| entry.unmarked_at.is_some_and(|at| at <= now);
        let mut tasks = self.tasks_of(Aim::Restore, is_due);
        for task in &mut tasks {
            task.dependent.up.level = 0;
        }
        tasks
    }

    fn tasks_of(&self, aim: Aim, is_handled: impl Fn(&Entry) -> bool) -> Vec<Task> {
        let entries = self.entries.values();
        entries
            .filter(|entry| is_handled(entry))
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
}
