//! The records of all clusters, and which of them are to be written next.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    sync::Arc,
};

use tokio::time::Instant;

use super::record::ClusterRecord;

/// The records of all clusters, by name.
///
/// It is asked after each report what is due first. A thousand clusters send a hundred reports a second,
/// of which hardly any changes that, so it is not found by looking at each.
#[derive(Default)]
pub(super) struct Clusters {
    /// In boxes, since half of the places in a tree are empty.
    records: BTreeMap<Arc<str>, Box<ClusterRecord>>,
    /// When each is due that is to be written.
    due: BTreeSet<(Instant, Arc<str>)>,
}

/// A record that may be changed. With the end of this it is in its place among those that are due.
pub(super) struct Edited<'a> {
    name: Arc<str>,
    record: &'a mut ClusterRecord,
    due: &'a mut BTreeSet<(Instant, Arc<str>)>,
    was_due: Option<Instant>,
}

impl Clusters {
    pub(super) fn get(&self, name: &str) -> Option<&ClusterRecord> {
        self.records.get(name).map(|record| &**record)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<Edited<'_>> {
        let (name, _) = self.records.get_key_value(name)?;
        let name = name.clone();
        let record = self.records.get_mut(&name)?;
        Some(Edited::new(name, record, &mut self.due))
    }

    /// The record of this cluster, which is made if there is none.
    pub(super) fn get_or_new(&mut self, name: &Arc<str>) -> Edited<'_> {
        let record = self.records.entry(name.clone());
        let record = record.or_insert_with(|| Box::new(ClusterRecord::new()));
        Edited::new(name.clone(), record, &mut self.due)
    }

    pub(super) fn remove(&mut self, name: &str) {
        let removed = self.records.remove_entry(name);
        if let Some((name, Some(due))) = removed.map(|(name, record)| (name, record.due())) {
            self.due.remove(&(due, name));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &ClusterRecord)> {
        self.records.iter().map(|(name, record)| (name, &**record))
    }

    /// Those that are due by then, or else the one that is due next.
    pub(super) fn soonest(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (Instant, &Arc<str>, &ClusterRecord)> {
        let due = self.due.iter().enumerate();
        let soonest = due.take_while(move |(place, (due, _))| *place == 0 || *due <= now);
        soonest.filter_map(|(_, (due, name))| Some((*due, name, self.get(name)?)))
    }

    /// How many are due by then.
    pub(super) fn due(&self, now: Instant) -> usize {
        self.due.iter().take_while(|(due, _)| *due <= now).count()
    }
}

impl FromIterator<(Arc<str>, ClusterRecord)> for Clusters {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, ClusterRecord)>>(records: I) -> Self {
        let records = records.into_iter();
        let records: BTreeMap<_, _> = records
            .map(|(name, record)| (name, Box::new(record)))
            .collect();
        let due = records.iter();
        let due = due.filter_map(|(name, record)| Some((record.due()?, name.clone())));
        Self {
            due: due.collect(),
            records,
        }
    }
}

impl<'a> Edited<'a> {
    fn new(
        name: Arc<str>,
        record: &'a mut ClusterRecord,
        due: &'a mut BTreeSet<(Instant, Arc<str>)>,
    ) -> Self {
        let was_due = record.due();
        Self {
            name,
            record,
            due,
            was_due,
        }
    }
}

impl Deref for Edited<'_> {
    type Target = ClusterRecord;

    fn deref(&self) -> &ClusterRecord {
        self.record
    }
}

impl DerefMut for Edited<'_> {
    fn deref_mut(&mut self) -> &mut ClusterRecord {
        self.record
    }
}

impl Drop for Edited<'_> {
    fn drop(&mut self) {
        let due = self.record.due();
        if due == self.was_due {
            return;
        }
        if let Some(was_due) = self.was_due {
            self.due.remove(&(was_due, self.name.clone()));
        }
        self.due.extend(due.map(|due| (due, self.name.clone())));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::prober::report::{finding::Finding, fixtures::report};

    #[derive(Clone, Debug)]
    enum Step {
        Report,
        Hurry(u64),
        Relax,
        Begin,
        Settle,
        Fail,
        Unselect,
        Remove,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Report),
            3 => (0..20_u64).prop_map(Step::Hurry),
            1 => Just(Step::Relax),
            2 => Just(Step::Begin),
            1 => Just(Step::Settle),
            1 => Just(Step::Fail),
            1 => Just(Step::Unselect),
            1 => Just(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn those_that_are_due_are_found_without_a_look_at_each(
            steps in prop::collection::vec((0..4_usize, step()), 1..40), later in 0..30_u64
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
            let _guard = runtime.enter();
            let start = Instant::now();
            let names: [Arc<str>; 4] = ["a", "b", "c", "d"].map(Into::into);
            let mut clusters = Clusters::default();
            for (name, step) in steps {
                let name = &names[name];
                if let Step::Remove = step {
                    clusters.remove(name);
                    continue;
                }
                let mut record = clusters.get_or_new(name);
                match step {
                    Step::Report => { record.take(report(Finding::Pending)); }
                    Step::Hurry(seconds) => record.schedule.hurry(start + Duration::from_secs(seconds)),
                    Step::Relax => record.schedule.relax(),
                    Step::Begin => record.begin(),
                    Step::Settle => { record.schedule.settle(Duration::ZERO); }
                    Step::Fail => record.schedule.failed(),
                    Step::Unselect => record.unselect(),
                    Step::Remove => {}
                }
            }
            let now = start + Duration::from_secs(later);
            let mut expected: Vec<(Instant, &Arc<str>)> = clusters
                .iter()
                .filter_map(|(name, record)| Some((record.due()?, name)))
                .collect();
            expected.sort();
            let due = expected.iter().filter(|(due, _)| *due <= now).count();
            prop_assert_eq!(clusters.due(now), due);
            expected.truncate(due.max(1));
            let found: Vec<_> = clusters.soonest(now).map(|(due, name, _)| (due, name)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
