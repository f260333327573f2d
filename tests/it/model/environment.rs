//! The seed, the shoot and whoever acts on them, and what comes of all that may happen.

use super::*;

/// What etcd holds, and what people wanted by then.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Stored {
    pub(super) parts: Vec<(Option<Object>, Wanted)>,
    pub(super) saved: Option<Rc<Saved>>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct State {
    pub(super) stored: Stored,
    pub(super) backup: Option<Box<Stored>>,
    /// The writes that were given up by their senders, and to which dependents.
    pub(super) late: Vec<(usize, Write)>,
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
            stored: Stored {
                parts: self.bounds.parts.iter().map(part).collect(),
                saved: None,
            },
            backup: None,
            late: vec![],
            decided: None,
            operator: Some(Rc::new(Operator::start(None, seen, &self.bounds))),
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
                Some(Need::Write) => {
                    let write = Operator::clone(operator).send(*index);
                    format!("{action:?}: writes {}", patch(&write))
                }
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
        let Some(run) = &operator.flow else {
            return false;
        };
        let down = run.machine.aim() == Aim::Protect;
        let level = |it: &Part| if down { it.levels.1 } else { it.levels.0 };
        let parts = &self.bounds.parts;
        let mut places = parts.iter().zip(&run.reached).zip(stored);
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
            Some(Need::Read(_)) if fate == Fate::Fails => {
                let unread = |place| FlowInput::Read(place, Err(failure()));
                operator.tell(index, unread, false);
            }
            Some(Need::Read(_)) => {
                let family = self.bounds.parts[index].family;
                let object = state.stored.parts[index].0.as_ref();
                let seen = object.map(|object| object.observed(family));
                operator.read(index, seen, fate == Fate::AnsweredLate);
            }
            Some(Need::Write) => {
                let write = self.bounds.flaw.spoil(operator.send(index));
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
                    (Fate::Answered, Some(version)) => Written::Done(Some(version)),
                    (Fate::Answered | Fate::Conflict, _) => {
                        Written::Overtaken(ScaleError::Conflicts)
                    }
                    (Fate::Forbidden, _) => Written::Failed(failure()),
                    _ => Written::Unanswered(failure()),
                };
                operator.sent(index, written);
                match fate {
                    Fate::Crash => state.operator = None,
                    Fate::Late => state.late.push((index, write)),
                    _ => {}
                }
            }
            Some(Need::Answer(_)) => operator.answered(index),
        }
        Ok(())
    }

    /// What each part of the model is after whatever has happened.
    fn settle(&self, state: &mut State) {
        let Some(operator) = &mut state.operator else {
            return;
        };
        for (index, (object, _)) in state.stored.parts.iter().enumerate() {
            if let Some(flow) = &operator.flow
                && !flow.reached[index]
                && rules::is_reached(flow.machine.aim(), object.as_ref(), flow.owed[index])
            {
                Rc::make_mut(operator).run().reached[index] = true;
            }
        }
        if operator.machine.is_over() || operator.ending && operator.flow.is_none() {
            state.let_go = !operator.ending && operator.machine.debts().is_looked_at();
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
            Away(away) => state.away = away,
            Arrive(place, arrives) => {
                let (index, write) = state.late.remove(place);
                if arrives {
                    // If it lets go, that was right when it was sent.
                    self.write(&mut state.stored.parts[index], &write, true)?;
                }
            }
            Start => {
                let before = Some(state.stored.saved.as_deref());
                state.operator = Some(Rc::new(Operator::start(before, seen, bounds)));
                state.let_go = false;
            }
            Crash => state.operator = None,
            End => state.operator().learn(Input::ShutDown),
            // It sends nothing any more, and ends.
            Depose if bounds.flaw != Flaw::OutlivesItsLease => state.operator = None,
            Depose => state.operator().deposed = true,
            Freeze => drop(
                state
                    .operator()
                    .tell_flow(FlowInput::Extend(moment(false)), true),
            ),
            See => state.operator().see(seen),
            Probe(later) => {
                let may_arrive = !state.late.is_empty();
                let operator = state.operator();
                let now = match (later, may_arrive) {
                    (false, _) => operator.now(),
                    (true, true) => operator.now() + LETS_GO,
                    (true, false) => moment(true) + operator.damping(),
                };
                operator.aged |= later && !may_arrive;
                operator.probe(shoot, now);
            }
            Check => state.operator().check(shoot),
            Resume => state.operator().resume(),
            Confirm => state.operator().confirm((!away).then_some(seen)),
            Report => state.stored.saved = Some(Rc::new(state.operator().report())),
            Request(index, fate) => self.request(state, index, fate)?,
        }
        self.settle(state);
        rules::stored(&state.stored)
    }
}
