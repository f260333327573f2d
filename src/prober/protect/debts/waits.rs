//! What a restore waits for, and since when.

use tokio::time::Instant;

use super::Debts;

impl Debts {
    /// Notes that a restore is allowed; returns since when, if a dependent waits for nodes.
    pub fn await_nodes(&mut self, now: Instant) -> Option<Instant> {
        let mut entries = self.entries.values();
        let waits =
            entries.any(|entry| entry.memory.owed && !entry.dependent.up.await_nodes.is_zero());
        self.awaits = waits.then(|| self.awaits.unwrap_or(now));
        self.awaits
    }

    /// Since when a restore has been allowed, if a dependent still waits for nodes.
    pub fn awaits(&self, now: Instant) -> Option<Instant> {
        let since = self.awaits?;
        let mut entries = self.entries.values();
        let waits = entries.any(|entry| {
            let is_down = entry.memory.owed && !entry.memory.keeps_mark;
            is_down && now < since + entry.dependent.up.await_nodes
        });
        waits.then_some(since)
    }

    /// Later restores have another reason, so their delays begin anew.
    pub fn reset_delays(&mut self) {
        self.awaits = None;
        for entry in self.entries.values_mut() {
            entry.delayed = None;
        }
    }
}
