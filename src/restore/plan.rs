//! One cluster: what its dependents are at, what they would be scaled to, and what is passed over.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::messages;
use crate::{
    api::{ClusterHealthStatus, DependentRef},
    cluster::Dependent,
    prober::{
        debts::Debts,
        flow::{FlowPlan, What},
        plan::{self, Aim, Memory, Observed, Purpose, Record, Settled, Step},
        scale::ScaleError,
    },
};

/// A run ends when it is complete, or by whoever began it: nobody waits for longer.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is known of one cluster, and what would be done to its dependents.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name, which is also that of its namespace.
    pub cluster: Arc<str>,
    /// The policy that its ClusterHealth names as responsible.
    pub policy: Option<String>,
    /// Why its ClusterHealth says nothing.
    pub trouble: Option<String>,
    /// Why nothing is done here although something could be.
    pub held_back: Option<String>,
    /// Why gardenlet decides about its replicas, so that only marks are removed.
    pub(super) gardenlets: Option<String>,
    /// The policy by which an operator would scale down again what is restored.
    pub(super) enforced_by: Option<Arc<str>>,
    /// Its dependents, in the order in which they are restored.
    pub rows: Vec<Row>,
    /// What they are owed.
    pub(super) debts: Debts,
}

/// One dependent.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is, and its place in the order.
    pub dependent: Dependent,
    /// Its replicas; `None` if it does not exist, or could not be read.
    pub replicas: Option<i32>,
    /// Whether it is not as it was before the operator took it, as far as is known.
    pub due: bool,
    /// What would be done to it, or why that is refused.
    pub plan: Result<Step, String>,
    /// That, in words.
    pub words: String,
    /// The number that it is owed, if one is known.
    pub(super) number: Option<i32>,
    /// Later levels wait until it is mended.
    stops: bool,
}

impl Plan {
    /// What a ClusterHealth tells of the cluster of this name, and where else to look: dependents
    /// of policies. Nobody insists on any of them: what does not exist is passed over.
    pub fn new(
        cluster: Arc<str>,
        health: &ClusterHealthStatus,
        of_policies: impl IntoIterator<Item = Dependent>,
    ) -> Self {
        let mut debts = Debts::recall(health);
        let further: Vec<Dependent> = of_policies
            .into_iter()
            .filter(|dependent| debts.memory(&dependent.reference).is_none())
            .map(|dependent| Dependent {
                optional: true,
                ..dependent
            })
            .collect();
        debts.adopt(&further);
        Self {
            cluster,
            policy: health.policy.clone(),
            trouble: None,
            held_back: None,
            gardenlets: None,
            enforced_by: None,
            rows: Vec::new(),
            debts,
        }
    }

    /// Where to look.
    pub fn dependents(&self) -> Vec<Dependent> {
        let tasks = self.debts.tasks(Aim::Restore).into_iter();
        tasks.map(|task| task.dependent).collect()
    }

    /// What is done to its dependents.
    pub(super) fn flow_plan(&self) -> FlowPlan {
        FlowPlan {
            purpose: Purpose::of(self.aim()),
            tasks: self.debts.tasks(self.aim()),
            valid_until: Instant::now() + A_YEAR,
            patience: None,
            urgent: false,
            why: String::new(),
            nodes_back: true,
        }
    }

    /// What is wanted of its dependents.
    pub(super) fn aim(&self) -> Aim {
        match self.gardenlets {
            Some(_) => Aim::Release,
            None => Aim::Restore,
        }
    }

    /// Takes in what was read of the dependents.
    pub fn saw(
        &mut self,
        seen: impl IntoIterator<Item = (Dependent, Result<Option<Observed>, ScaleError>)>,
    ) {
        for (dependent, found) in seen {
            let row = self.row(dependent, found);
            self.rows.push(row);
        }
        self.rows.sort_by(|a, b| {
            let place = |row: &Row| (row.dependent.up.level, row.dependent.reference.clone());
            place(a).cmp(&place(b))
        });
        let refused = self.rows.iter().filter(|row| row.stops);
        if let Some(level) = refused.map(|row| row.dependent.up.level).min() {
            let later = self.rows.iter_mut();
            for row in later.filter(|row| row.dependent.up.level > level && row.is_workable()) {
                row.words
                    .push_str(", once what is refused before it is mended");
            }
        }
    }

    fn row(&mut self, dependent: Dependent, found: Result<Option<Observed>, ScaleError>) -> Row {
        let reference = &dependent.reference;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let memory = self.memory(reference);
                return Row {
                    replicas: None,
                    due: memory.owed || !error.is_about_the_kind(),
                    number: memory.replicas,
                    stops: memory.owed || error.is_about_the_attempt(),
                    words: format!("refused: {}", messages::scale(&error)),
                    plan: Err(messages::scale(&error)),
                    dependent,
                };
            }
        };
        let marked = found.as_ref().is_some_and(|found| found.marked);
        if marked {
            let seen = What::Settled(Settled::Seen { marked }, found.clone());
            self.debts.note(&dependent, &seen, Instant::now());
        }
        let memory = self.memory(reference);
        let aim = self.aim();
        let plan = plan::step(Purpose::of(aim), true, found.as_ref(), memory);
        let plan = plan.map_err(|refusal| refusal.to_string());
        let back = match &plan {
            Ok(Step::Nothing(settled)) => is_back(*settled),
            _ => false,
        };
        let recorded = match found.as_ref().map(|found| &found.record) {
            Some(Record::Replicas(replicas)) => Some(*replicas),
            _ => None,
        };
        let number = recorded.or(memory.replicas.filter(|replicas| *replicas > 0));
        let due = !back && memory.owed;
        Row {
            replicas: found.as_ref().map(|it| it.replicas),
            due,
            words: match &plan {
                Ok(Step::ScaleUp { .. }) => source(recorded, number, dependent.up.initial_delay),
                Ok(Step::DropMark | Step::DropMarkAndRecord) if aim == Aim::Release => {
                    "left, and its mark removed".to_owned()
                }
                Ok(Step::DropMarkAndRecord) => {
                    "kept, and its mark removed: it has been scaled up".to_owned()
                }
                Ok(Step::DropMark) => {
                    let why = "left, and its mark removed: it says ignore-scaling";
                    self.by_hand(why, reference, number)
                }
                Ok(Step::Wait) => "scaled already, and waited for".to_owned(),
                Ok(Step::Nothing(settled)) if due => self.left(*settled, reference, number),
                Ok(Step::Nothing(settled)) => passed_over(*settled).to_owned(),
                // Nothing is taken here.
                Ok(Step::ScaleDown { .. } | Step::Record { .. }) => String::new(),
                Err(refusal) => format!("refused: {refusal}"),
            },
            stops: plan.is_err() && memory.owed,
            number,
            plan,
            dependent,
        }
    }

    fn memory(&self, reference: &DependentRef) -> Memory {
        self.debts.memory(reference).unwrap_or_default()
    }

    /// Why a dependent to which something is owed is not restored, and what to do.
    pub(super) fn left(
        &self,
        settled: Settled,
        reference: &DependentRef,
        number: Option<i32>,
    ) -> String {
        let why = match settled {
            Settled::NotOurs => "passed over: somebody has removed its mark",
            settled => passed_over(settled),
        };
        self.by_hand(why, reference, number)
    }

    fn by_hand(&self, why: &str, reference: &DependentRef, number: Option<i32>) -> String {
        let replicas = number.map_or("<replicas>".to_owned(), |number| number.to_string());
        format!(
            "{why}; to have it back: kubectl -n {} scale {} --replicas={replicas}",
            self.cluster,
            reference.kubectl_name()
        )
    }

    /// Whether anything is not as it should be, or is not known to be.
    pub fn is_due(&self) -> bool {
        self.trouble.is_some() || self.rows.iter().any(|row| row.due)
    }

    /// Whether something is owed, or may be: not what somebody else has decided about.
    pub fn owes(&self) -> bool {
        let owed = |row: &Row| row.due && !matches!(row.plan, Ok(Step::Nothing(_)));
        self.trouble.is_some() || self.rows.iter().any(owed)
    }

    /// How many dependents would be written, or waited for.
    pub fn workable(&self) -> usize {
        match self.held_back {
            Some(_) => 0,
            None => self.rows.iter().filter(|row| row.is_workable()).count(),
        }
    }

    /// For people: what is there and what would be done, a line for each dependent.
    pub fn table(&self) -> String {
        let policy = match &self.policy {
            Some(policy) => format!(" (ProbePolicy {policy})"),
            None => String::new(),
        };
        let mut text = format!("{}{policy}\n", self.cluster);
        let told = [&self.trouble, &self.held_back, &self.gardenlets];
        for told in told.into_iter().flatten() {
            text.push_str(&format!("  {told}\n"));
        }
        let columns = |row: &Row| {
            let at = row.replicas.map_or("-".to_owned(), |at| at.to_string());
            let at = match row.plan {
                Ok(Step::ScaleUp { to }) => format!("{at} -> {to}"),
                _ => at,
            };
            (short(&row.dependent.reference), at)
        };
        let lines: Vec<_> = self.rows.iter().map(|row| (columns(row), row)).collect();
        let widths = lines.iter().map(|((name, at), _)| (name.len(), at.len()));
        let (names, ats) = widths.fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        for ((name, at), row) in lines {
            let (level, words) = (row.dependent.up.level, &row.words);
            text.push_str(&format!(
                "  level {level}  {name:names$}  {at:ats$}  {words}\n"
            ));
        }
        text
    }
}

impl Row {
    /// Whether it is written, or waited for.
    pub fn is_workable(&self) -> bool {
        matches!(self.plan, Ok(step) if !matches!(step, Step::Nothing(_)))
    }
}

/// Whether a dependent that is so is as its user wants it, or is not there to be restored.
pub(super) fn is_back(settled: Settled) -> bool {
    match settled {
        Settled::Up | Settled::Missing | Settled::Ignored { at_zero: false } => true,
        // gardenlet decides about what is released; the others are not asked for here.
        Settled::Released | Settled::Down | Settled::Seen { .. } => true,
        Settled::NotOurs | Settled::ZeroedAgain | Settled::Ignored { at_zero: true } => false,
    }
}

/// Where the number comes from to which it is scaled.
fn source(recorded: Option<i32>, number: Option<i32>, delay: Duration) -> String {
    let source = match (recorded, number) {
        (Some(_), _) => "by its annotation",
        (None, Some(_)) => "by ClusterHealth",
        (None, None) => "by default: nothing tells the number",
    };
    match delay {
        Duration::ZERO => source.to_owned(),
        delay => format!("{source}, after {delay:?}"),
    }
}

/// Why nothing is done to a dependent that is so.
fn passed_over(settled: Settled) -> &'static str {
    match settled {
        Settled::Missing => "passed over: it does not exist",
        Settled::Ignored { .. } => "passed over: it says ignore-scaling",
        Settled::NotOurs => "passed over: no mark, so somebody else's zero",
        Settled::Released => "left",
        Settled::ZeroedAgain => "scaled to zero again just after it was restored; run this again",
        Settled::Up | Settled::Down | Settled::Seen { .. } => "as it should be",
    }
}

/// A dependent in few words.
pub(super) fn short(reference: &DependentRef) -> String {
    format!("{}/{}", reference.kind, reference.name)
}
