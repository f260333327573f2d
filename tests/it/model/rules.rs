//! What must never happen, and what must come about in the end. Each rule is one of
//! docs/invariants.md, by its name.

use super::*;

/// What the replicas of a dependent may come to, by what somebody else than the operator wanted last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    counts: Vec<i32>,
    /// The number that the operator has taken, and not given back.
    pub(crate) taken: Option<i32>,
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

    /// Holds what a write has changed against the rules, and whether the dependent was let go when it was sent.
    pub(crate) fn written(&mut self, before: &Object, after: &Object, let_go: bool) -> Checked {
        let scaled = before.replicas != after.replicas;
        let taken = scaled && after.replicas == 0;
        let given = scaled && before.replicas == 0;
        let stays_at_zero = before.replicas == 0 && after.replicas == 0;
        let unmarked = before.marked && !after.marked && stays_at_zero;
        let recorded = after.marked && after.record == Some(before.replicas);
        let exact = self.counts.contains(&after.replicas);
        let rules = [
            (!scaled || !before.ignored, "hands-off"),
            (!scaled || taken || given, "newer-count-wins"),
            (!unmarked || before.record == after.record, "no-count-lost"),
            (!unmarked || before.ignored || let_go, "let-go"),
            (!taken || recorded, "recorded-exactly"),
            (!given || before.marked, "only-own-marks"),
            (!given || exact, "restored-exactly"),
        ];
        let say = || format!("{before:?} becomes {after:?}, {self:?}, let go: {let_go}");
        hold(&rules, say)?;
        if unmarked {
            self.may_stay_at_zero(after);
        }
        if scaled {
            self.taken = taken.then_some(before.replicas);
        }
        Ok(())
    }

    /// It is in the hands of somebody else from now on.
    pub(crate) fn may_stay_at_zero(&mut self, object: &Object) {
        if object.replicas == 0 && !self.counts.contains(&0) {
            self.counts.push(0);
        }
    }
}

/// Nothing, or the name of the rule that is broken, and by what.
pub(crate) type Checked = Result<(), String>;

/// Says what happened, and by which of these rules it must not, if by any.
fn hold(rules: &[(bool, &str)], say: impl FnOnce() -> String) -> Checked {
    let broken = rules.iter().find(|(holds, _)| !holds);
    broken.map_or(Ok(()), |(_, name)| Err(format!("{name}: {}", say())))
}

/// Holds what is sent against the rules, whatever becomes of it. It is its turn if all of lower levels is where it
/// belongs.
pub(crate) fn sent(write: &Write, operator: &Operator, its_turn: bool) -> Checked {
    let patch = patch(write);
    let replicas = patch["spec"]["replicas"].as_i64();
    let marks = patch["metadata"]["annotations"][MARK] == "";
    let takes = marks || replicas == Some(0);
    let restores = !takes && replicas.is_some();
    let unmarks = !takes && !restores && operator.may_unmark();
    let (aim, saw) = (operator.aim, operator.saw);
    let again = operator.decider.protection() == Protection::Active;
    let rules = [
        (!operator.deposed, "one-leader"),
        (unmarks || operator.may_write(aim), "policy-in-force"),
        (!takes || saw == Some(Aim::Down), "no-evidence"),
        (!restores || saw == Some(Aim::Up), "no-evidence"),
        (!takes || operator.confirmed || again, "confirmed-first"),
        (!takes && !restores || its_turn, "level-order"),
    ];
    let say = || format!("{patch} is sent, and the evidence asks for {saw:?}");
    hold(&rules, say)
}

/// Holds what is stored against the rules, whoever may crash now.
pub(crate) fn stored(stored: &Stored) -> Checked {
    for (index, (object, wanted)) in stored.parts.iter().enumerate() {
        if let (Some(object), Some(taken)) = (object, wanted.taken) {
            let say = || format!("d{index} was scaled from {taken} to 0: {object:?}");
            hold(&[(object.record == Some(taken), "no-count-lost")], say)?;
        }
    }
    Ok(())
}

/// Whether a dependent is where it belongs, so that the next level may begin.
pub(crate) fn is_reached(aim: Aim, object: Option<&Object>, owed: bool) -> bool {
    object.is_none_or(|object| {
        object.ignored
            || match aim {
                Aim::Down => object.replicas == 0 && object.present == 0,
                _ if object.replicas == 0 => !object.marked,
                _ => object.present > 0 || !owed,
            }
    })
}

/// Holds what has come of a cluster against the rules, when nothing went wrong any more.
pub(crate) fn at_rest(state: &State) -> Checked {
    let life = state.life;
    // Who decides about the replicas of what is let go is somebody else.
    let restored = matches!(life, Probed | NoWorkers | FallingAsleep);
    let name = match life {
        Probed => "all-restored",
        _ => "let-go",
    };
    let stored = &state.stored;
    for (index, (object, wanted)) in stored.parts.iter().enumerate() {
        let Some(object) = object else {
            continue;
        };
        // What says ignore-scaling is left as it is.
        let as_wanted = wanted.counts.contains(&object.replicas) || object.ignored;
        let say = || format!("d{index} of a cluster that is {life:?} is {object:?}, {wanted:?}");
        hold(&[(!object.marked && (as_wanted || !restored), name)], say)?;
    }
    // Nobody looks after what is owed nothing when the Cluster is gone, or no policy selects it.
    let decider = state.operator.as_ref().map(|operator| &operator.decider);
    let owes = |it: &Decider| it.dependents().owes() || it.protection() != Protection::None;
    let unwanted = life == Gone || state.policy == Deleted;
    let say = || format!("the operator in the end: {decider:?}");
    hold(
        &[(
            unwanted == decider.is_none() && !decider.is_some_and(owes),
            name,
        )],
        say,
    )
}
