//! What must never happen, and what must come about in the end. Each rule is one of
//! docs/invariants.md, by its name.

use dependency_watchdog::{
    api::Protection,
    prober::plan::{Aim, MARK, Write},
};

use super::{
    action::Life,
    object::{Object, patch},
    operator::Operator,
};

/// What the replicas of a dependent may come to, by what somebody else than the operator wanted last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    counts: Vec<i32>,
    /// The number that the operator has taken, and not given back.
    taken: Option<i32>,
}

/// Who sends a write.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) leads: bool,
    /// What its evidence asks for.
    pub(crate) saw: Option<Aim>,
    /// Whether the policy lets it.
    pub(crate) may_write: bool,
    /// Whether the Cluster and its policy were read, and are as it sees them; or all was down before.
    pub(crate) confirmed: bool,
    /// What is of a lower level, and is not where it belongs yet.
    pub(crate) waits_for: Vec<usize>,
}

impl Wanted {
    pub(crate) fn new(replicas: i32) -> Self {
        Self {
            counts: vec![replicas],
            taken: None,
        }
    }

    /// Somebody is about to scale this to so many.
    pub(crate) fn scaled(&mut self, object: &Object, replicas: i32) {
        // Under the mark a zero cannot be told from ours.
        let recorded = object.record.filter(|_| object.marked && replicas == 0);
        self.counts = [replicas].into_iter().chain(recorded).collect();
        self.taken = None;
    }

    /// gardenlet has deployed it with so many, which it had read before.
    pub(crate) fn deployed(&mut self, replicas: i32) {
        self.taken = self.taken.filter(|_| replicas == 0);
    }

    /// Somebody has removed the mark.
    pub(crate) fn unmarked(&mut self, object: &Object) {
        if object.replicas == 0 {
            self.counts = vec![0];
            self.taken = None;
        }
    }

    /// Somebody has set or removed `ignore-scaling`.
    pub(crate) fn ignored(&mut self, object: &Object) {
        if object.replicas == 0 {
            self.may_stay_at_zero();
        }
    }

    /// It is in the hands of somebody else from now on.
    fn may_stay_at_zero(&mut self) {
        if !self.counts.contains(&0) {
            self.counts.push(0);
        }
    }
}

fn rule(holds: bool, name: &str, detail: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(format!("{name}: {}", detail())),
    }
}

/// Holds what is sent against the rules, whatever becomes of it.
pub(crate) fn sent(index: usize, write: &Write, sender: &Sender) -> Result<(), String> {
    let patch = patch(write);
    let say = || format!("d{index} is written, {patch}, by {sender:?}");
    rule(sender.leads, "one-leader", say)?;
    rule(sender.may_write, "policy-in-force", say)?;
    let scales = patch["spec"]["replicas"].as_i64();
    let marks = patch["metadata"]["annotations"][MARK] == "";
    if marks || scales == Some(0) {
        rule(sender.saw == Some(Aim::Protect), "no-evidence", say)?;
        rule(sender.confirmed, "confirmed-first", say)?;
    } else if scales.is_some() {
        rule(sender.saw == Some(Aim::Restore), "no-evidence", say)?;
    }
    if marks || scales.is_some() {
        rule(sender.waits_for.is_empty(), "level-order", say)?;
    }
    Ok(())
}

/// Holds what a write has changed against the rules. `sender` is `None` if it was given up.
pub(crate) fn written(
    index: usize,
    before: &Object,
    after: &Object,
    wanted: &mut Wanted,
    sender: Option<&Sender>,
) -> Result<(), String> {
    let counts = wanted.counts.clone();
    let say =
        || format!("d{index}, by {sender:?}: {before:?} becomes {after:?}, wanted {counts:?}");
    if before.replicas != after.replicas {
        rule(!before.ignored, "hands-off", say)?;
        let either = before.replicas == 0 || after.replicas == 0;
        rule(either, "newer-count-wins", say)?;
    }
    if before.marked && !after.marked && before.replicas == 0 && after.replicas == 0 {
        // What was given up by its sender was let go when it was sent.
        let let_go = sender.is_none_or(|sender| sender.saw == Some(Aim::Release));
        rule(before.record == after.record, "no-count-lost", say)?;
        rule(before.ignored || let_go, "let-go", say)?;
        wanted.may_stay_at_zero();
    }
    if before.replicas > 0 && after.replicas == 0 {
        let recorded = after.marked && after.record == Some(before.replicas);
        rule(recorded, "recorded-exactly", say)?;
        wanted.taken = Some(before.replicas);
    }
    if before.replicas == 0 && after.replicas > 0 {
        rule(before.marked, "only-own-marks", say)?;
        let exact = counts.contains(&after.replicas);
        rule(exact, "restored-exactly", say)?;
        wanted.taken = None;
    }
    Ok(())
}

/// Holds what is stored against the rules, whoever may crash now.
pub(crate) fn stored(objects: &[Option<Object>], wanted: &[Wanted]) -> Result<(), String> {
    for (index, (object, wanted)) in objects.iter().zip(wanted).enumerate() {
        let (Some(object), Some(taken)) = (object, wanted.taken) else {
            continue;
        };
        let say = || format!("d{index} was scaled from {taken} to 0: {object:?}");
        let recorded = object.record == Some(taken);
        rule(recorded, "no-count-lost", say)?;
    }
    Ok(())
}

/// Whether a dependent is where it belongs, so that the next level may begin.
pub(crate) fn is_reached(aim: Aim, object: Option<&Object>, owed: bool) -> bool {
    let Some(object) = object else {
        return true;
    };
    object.ignored
        || match aim {
            Aim::Protect => object.replicas == 0 && object.present == 0,
            _ if object.replicas == 0 => !object.marked,
            _ => object.present > 0 || !owed,
        }
}

/// Holds what has come of a cluster against the rules, when nothing went wrong any more.
pub(crate) fn at_rest(
    objects: &[Option<Object>],
    wanted: &[Wanted],
    (operator, unwanted): (Option<&Operator>, bool),
    (life, answers): (Life, bool),
) -> Result<(), String> {
    // Who decides about the replicas of what is let go is somebody else.
    let restored = match life {
        Life::Probed | Life::NoWorkers => true,
        Life::FallingAsleep => answers,
        Life::Deleting | Life::Gone => false,
    };
    let name = match life {
        Life::Probed => "all-restored",
        _ => "let-go",
    };
    for (index, (object, wanted)) in objects.iter().zip(wanted).enumerate() {
        let Some(object) = object else {
            continue;
        };
        let say = || format!("d{index} of a cluster that is {life:?} is {object:?}, {wanted:?}");
        rule(!object.marked, name, say)?;
        let as_wanted = wanted.counts.contains(&object.replicas);
        // What says ignore-scaling is left as it is.
        rule(as_wanted || object.ignored || !restored, name, say)?;
    }
    match operator {
        // Nobody looks after what is owed nothing when the Cluster is gone, or no policy selects it.
        None => rule(unwanted, name, || "no operator in the end".to_owned()),
        Some(operator) => {
            let machine = &operator.machine;
            let say = || format!("the operator in the end: {machine:?}");
            let nothing_owed = !machine.debts().owes() && machine.protection() == Protection::None;
            rule(nothing_owed && !unwanted, name, say)
        }
    }
}
