//! The seed, the shoot and whoever acts on them, and what comes of all that may happen.

use super::*;

/// What etcd holds, and what people wanted by then.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(super) parts: Vec<(Option<Object>, Wanted)>,
    pub(super) saved: Option<Rc<Saved>>,
}

impl Hash for Stored {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.hash(state);
        let saved = self.saved.as_ref();
        saved.map(|saved| saved.0).hash(state);
        for it in saved.iter().flat_map(|saved| &saved.1) {
            let told = (&it.r#ref.name, it.owed, it.keeps_mark);
            (told, it.recorded_replicas).hash(state);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    /// As long as there is no operator, time stands still.
    pub(super) now: Instant,
    pub(super) stored: Stored,
    pub(super) backup: Option<Box<Stored>>,
    /// The writes that were given up by their senders, to which dependents, and until when they may arrive.
    pub(super) late: Vec<(usize, Write, Instant)>,
    /// The replicas that gardenlet is about to write, and to which dependent. It does so within the minute.
    pub(super) decided: Option<(usize, i32)>,
    pub(super) operator: Option<Rc<Operator>>,
    pub(super) shoot: Shoot,
    pub(super) policy: Policy,
    pub(super) life: Life,
    pub(super) away: bool,
    /// An instance saw that nobody had any use for the cluster any more, and that nothing was left
    /// marked; and none has started since.
    pub(super) let_go: bool,
    pub(super) budget: Budget,
}

/// By the distance of each moment from now.
impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            now: _,
            stored,
            backup,
            late,
            decided,
            operator,
            shoot,
            policy,
            life,
            away,
            let_go,
            budget,
        } = self;
        (stored, backup, decided, operator, shoot).hash(state);
        for (index, write, _) in late {
            (index, write).hash(state);
        }
        (policy, life, away, let_go, budget).hash(state);
    }
}

impl State {
    /// What an operator that looks now sees.
    pub(super) fn seen(&self) -> (Policy, Life) {
        (self.policy, self.life)
    }

    /// Nobody would know that there was such a cluster. A policy that is deleted is there until the
    /// cluster is let go.
    pub(super) fn is_forgotten(&self) -> bool {
        let unknown = self.life == Gone || self.policy == Deleted && self.let_go;
        unknown && self.stored.saved.is_none()
    }

    /// The operator, which is there.
    fn operator(&mut self) -> &mut Operator {
        Rc::make_mut(self.operator.as_mut().expect("it is there"))
    }

    /// A dependent that somebody else changes.
    fn object(&mut self, index: usize) -> (&mut Object, &mut Wanted) {
        let (object, wanted) = &mut self.stored.parts[index];
        (object.as_mut().expect("it is there"), wanted)
    }
}

/// A model, and which of its states are known to end well.
pub(crate) struct World {
    pub(super) bounds: Rc<Bounds>,
    pub(super) well: HashSet<u64>,
}

impl World {
    pub(crate) fn initial(&self) -> State {
        let part = |part: &Part| (Some(Object::new(part.replicas)), Wanted::new(part.replicas));
        let seen = (Policy::Enforce, Life::Probed);
        State {
            now: start(),
            stored: Stored {
                parts: self.bounds.parts.iter().map(part).collect(),
                saved: None,
            },
            backup: None,
            late: vec![],
            decided: None,
            operator: Some(Rc::new(Operator::start(None, seen, &self.bounds, start()))),
            shoot: Shoot::Silent,
            policy: seen.0,
            life: seen.1,
            away: false,
            let_go: false,
            budget: self.bounds.budget,
        }
    }

    /// What happens, in words.
    pub(crate) fn describe(&self, state: &State, action: &Action) -> String {
        match (action, &state.operator) {
            (Probe(_), _) => format!("{action:?}, the shoot is {:?}", state.shoot),
            (Request(index, _), Some(operator)) => match operator.need(*index) {
                Some(Need::Write) => match Operator::clone(operator).send(*index) {
                    Some(write) => format!("{action:?}: writes {}", patch(&write)),
                    None => format!("{action:?}: writes nothing"),
                },
                Some(Need::Answer(written)) => format!("{action:?}: learns {written:?}"),
                _ => format!("{action:?}: reads"),
            },
            _ => format!("{action:?}"),
        }
    }

    /// Carries a write out, and holds it against the rules. Returns the resourceVersion that it makes;
    /// none if it is refused.
    fn write(
        &self,
        (object, wanted): &mut (Option<Object>, Wanted),
        write: &Write,
        let_go: bool,
    ) -> Result<Option<String>, String> {
        let after = object.as_ref();
        let after = after.and_then(|it| it.after(write, self.bounds.slow));
        if let (Some(before), Some(after)) = (object.as_ref(), &after) {
            wanted.written(before, after, let_go)?;
            *object = Some(after.clone());
        }
        Ok(after.map(|after| after.version()))
    }

    /// Whether all that is of a lower level than this is where it belongs, or is let go.
    fn is_its_turn(
        &self,
        operator: &Operator,
        stored: &[(Option<Object>, Wanted)],
        index: usize,
    ) -> bool {
        let down = operator.aim == Aim::Down;
        let level = |it: &Part| if down { it.levels.1 } else { it.levels.0 };
        let parts = &self.bounds.parts;
        let mut places = parts.iter().zip(&operator.reached).zip(stored);
        places.all(|((part, reached), (object, _))| {
            let at_zero = object.as_ref().is_some_and(|it| it.replicas == 0);
            let is_left = at_zero && operator.lets_go();
            *reached || level(part) >= level(&parts[index]) || is_left
        })
    }

    /// Its next request for a dependent is sent, or answered.
    fn request(&self, state: &mut State, index: usize, fate: Fate) -> Checked {
        let fate = if state.away { Fate::Fails } else { fate };
        let operator = Rc::make_mut(state.operator.as_mut().expect("it is there"));
        match operator.need(index) {
            None => {}
            Some(Need::Read(_)) if fate == Fate::Fails => operator.unread(index),
            Some(Need::Read(_)) => {
                let family = self.bounds.parts[index].family;
                let object = state.stored.parts[index].0.as_ref();
                let seen = object.map(|object| object.observed(family));
                operator.read(index, seen, fate == Fate::AnsweredLate);
            }
            Some(Need::Write) => {
                let Some(write) = operator.send(index) else {
                    return Ok(());
                };
                let write = self.bounds.flaw.spoil(write);
                let its_turn = self.is_its_turn(operator, &state.stored.parts, index);
                rules::sent(&write, operator, its_turn)?;
                let version = match fate {
                    Fate::Answered | Fate::Unanswered | Fate::Crash => {
                        let let_go = operator.lets_go();
                        self.write(&mut state.stored.parts[index], &write, let_go)?
                    }
                    _ => None,
                };
                let written = match (fate, version) {
                    (Fate::Answered, Some(_)) => Written::Done,
                    (Fate::Answered | Fate::Conflict, _) => {
                        Written::Overtaken(ScaleError::Conflicts)
                    }
                    (Fate::Forbidden, _) => Written::Failed(failure()),
                    _ => Written::Unanswered(failure()),
                };
                operator.sent(index, written);
                let until = operator.now + LETS_GO;
                match fate {
                    Fate::Crash => state.operator = None,
                    Fate::Late => state.late.push((index, write, until)),
                    _ => {}
                }
            }
            Some(Need::Answer(_)) => operator.answered(index),
        }
        Ok(())
    }

    /// What is only looked at is read at once: nothing is written by it.
    fn look(&self, state: &mut State) -> Checked {
        for index in 0..self.bounds.parts.len() {
            while state
                .operator
                .as_ref()
                .is_some_and(|it| it.only_looks(index))
            {
                self.request(state, index, Fate::Answered)?;
            }
        }
        Ok(())
    }

    /// What each part of the model is after whatever has happened.
    fn settle(&self, state: &mut State) {
        let Some(operator) = &mut state.operator else {
            return;
        };
        state.now = operator.now;
        for (index, (object, _)) in state.stored.parts.iter().enumerate() {
            if !operator.reached[index]
                && rules::is_reached(operator.aim, object.as_ref(), operator.owed[index])
            {
                Rc::make_mut(operator).reached[index] = true;
            }
        }
        let decider = &operator.decider;
        if decider.is_over() || operator.ending && !decider.dependents().is_writing() {
            state.let_go = !operator.ending && decider.dependents().is_looked_at();
            // Its last report, or the removal of the ClusterHealth.
            if !state.away {
                let kept = operator.ending && state.life != Gone;
                state.stored.saved = kept.then(|| Rc::new(operator.report()));
            }
            state.operator = None;
        }
    }

    pub(super) fn apply(&self, state: &mut State, action: &Action) -> Checked {
        let bounds = &self.bounds;
        let (seen, shoot, away) = (state.seen(), state.shoot, state.away);
        if let Some(left) = state.budget.of(action) {
            *left -= 1;
        }
        match *action {
            Turn(shoot) => state.shoot = shoot,
            Scale(index, replicas) => {
                let (object, wanted) = state.object(index);
                wanted.scaled(object, replicas);
                object.scale(replicas, bounds.slow);
            }
            Unmark(index) => {
                let (object, wanted) = state.object(index);
                object.marked = false;
                if object.replicas == 0 {
                    wanted.scaled(object, 0);
                }
            }
            Ignore(index) => {
                let (object, wanted) = state.object(index);
                object.ignored = !object.ignored;
                wanted.may_stay_at_zero(object);
            }
            Delete(index) => {
                state.stored.parts[index] = (None, Wanted::new(bounds.parts[index].replicas))
            }
            Create(index) => {
                let mut object = Object::new(bounds.parts[index].replicas);
                object.created = 1;
                state.stored.parts[index].0 = Some(object);
            }
            Decide(index) => {
                let object = state.stored.parts[index].0.as_ref();
                let marked = object.filter(|it| it.marked);
                let replicas = marked.map_or(bounds.parts[index].replicas, |it| it.replicas);
                state.decided = Some((index, replicas));
            }
            Deploy => {
                if let Some((index, replicas)) = state.decided.take()
                    && let (Some(object), wanted) = &mut state.stored.parts[index]
                {
                    object.scale(replicas, bounds.slow);
                    wanted.taken = wanted.taken.filter(|_| replicas == 0);
                }
            }
            Follow(index) => {
                let (object, _) = state.object(index);
                object.present = object.replicas;
            }
            SetPolicy(policy) => state.policy = policy,
            SetCluster(life) => {
                state.life = life;
                // It goes with the Cluster that owns it.
                if life == Gone {
                    state.stored.saved = None;
                }
            }
            Save => state.backup = Some(Box::new(state.stored.clone())),
            RollBack => state.stored = *state.backup.take().expect("it was saved"),
            Away(away) => {
                state.away = away;
                for (_, _, until) in &mut state.late {
                    *until = state.now + LETS_GO;
                }
            }
            Arrive(place, arrives) => {
                let (index, write, _) = state.late.remove(place);
                if arrives {
                    // If it lets go, that was right when it was sent.
                    self.write(&mut state.stored.parts[index], &write, true)?;
                }
            }
            Start => {
                let before = Some(state.stored.saved.as_deref());
                state.operator = Some(Rc::new(Operator::start(before, seen, bounds, state.now)));
                state.let_go = false;
            }
            Crash => state.operator = None,
            End => drop(state.operator().learn(Input::ShutDown)),
            // It sends nothing any more, and ends.
            Depose if bounds.flaw != Flaw::OutlivesItsLease => state.operator = None,
            Depose => state.operator().deposed = true,
            Freeze => state.operator().freeze(),
            See => state.operator().see(seen),
            Probe(later) => {
                let until = state.late.iter().map(|(_, _, until)| *until).min();
                let operator = state.operator();
                if later {
                    operator.age(until);
                }
                operator.probe(shoot, AGELESS);
            }
            Check => state.operator().check(shoot),
            Resume => state.operator().resume(),
            Confirm => state.operator().confirm((!away).then_some(seen)),
            Report => state.stored.saved = Some(Rc::new(state.operator().report())),
            Request(index, fate) => self.request(state, index, fate)?,
        }
        self.look(state)?;
        self.settle(state);
        rules::stored(&state.stored)
    }
}
