//! Whether every outage was met that had to be.

use crate::farm::{Micros, micros};
use crate::oracle::{
    truth::{Excuse, Outage, Reason, Truth},
    versions::Version,
};
use jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};

/// From the expiry until a dependent is at zero, on an idle machine.
const USUAL: Duration = Duration::from_secs(5);
/// What a machine that is busy may take longer, with no excuse in all that time.
const BUSY: Duration = Duration::from_secs(15);
/// What was begun in an outage may be written so much later.
const LATE: Duration = Duration::from_secs(15);

/// What became of the outages that are over.
#[derive(Debug, Default)]
pub struct Outages {
    pub all: usize,
    /// That lasted until the leases were expired.
    pub long: usize,
    /// Of these, that were met by a scale-down.
    pub met: usize,
    /// That had to be.
    pub due: usize,
    /// That were not met, and were over too soon to say that they had to be.
    pub brief: usize,
    /// That were not met, and what excused it last.
    pub excused: Vec<(Outage, Reason)>,
    /// That had to be met, and were not in time.
    pub broken: Vec<String>,
}

impl Outages {
    /// By the versions of all dependents that were written until then, and have been seen.
    pub fn new(truth: &Truth, history: &[Version], until: Micros) -> Self {
        let mut outages = Self::default();
        for outage in truth.outages() {
            outages.all += 1;
            match outage.until {
                Some(end) if end + micros(LATE) <= until => {
                    outages.judge(outage, end, truth, history);
                }
                _ => {}
            }
        }
        outages
    }

    fn judge(&mut self, outage: Outage, end: Micros, truth: &Truth, history: &[Version]) {
        let expired = truth.expires(&outage);
        if end <= expired {
            return;
        }
        self.long += 1;
        let mut excuses = truth.excuses(outage.shoot);
        excuses.retain(|it| it.from < end && expired < it.until);
        let met = met(&outage, end, history);
        self.met += usize::from(met.is_some());
        match (due(expired, end, &mut excuses), met) {
            (Some(due), Some(met)) if met <= due => self.due += 1,
            (Some(due), met) => {
                self.due += 1;
                self.broken.push(late(&outage, expired, due, met));
            }
            (None, Some(_)) => {}
            (None, None) => match excuses.iter().max_by_key(|it| it.until) {
                Some(last) => self.excused.push((outage, last.reason)),
                None => self.brief += 1,
            },
        }
    }

    /// How many were excused by each reason.
    pub fn reasons(&self) -> BTreeMap<Reason, usize> {
        let mut reasons = BTreeMap::new();
        for (_, reason) in &self.excused {
            *reasons.entry(*reason).or_default() += 1;
        }
        reasons
    }
}

/// Until when an outage must be met: the end of the first such time that nothing excuses.
fn due(expired: Micros, end: Micros, excuses: &mut [Excuse]) -> Option<Micros> {
    excuses.sort_by_key(|it| it.from);
    let mut due = expired + micros(USUAL + BUSY);
    for excuse in excuses {
        if excuse.from < due {
            due = due.max(excuse.until.saturating_add(micros(BUSY)));
        }
    }
    (due <= end).then_some(due)
}

/// When a dependent of the shoot was at zero for the first time in an outage that ended then: from its beginning on if it
/// was before.
fn met(outage: &Outage, end: Micros, history: &[Version]) -> Option<Micros> {
    // By name: one may have been replaced by another, which nobody has taken.
    let mut taken: BTreeMap<&str, bool> = BTreeMap::new();
    for version in history.iter().filter(|it| it.shoot == outage.shoot) {
        let is_taken = version.marked && version.replicas == 0;
        let is_met = taken.values().any(|it| *it);
        // Whoever else gives it replicas leaves the date of what the operator wrote.
        let (at, last) = match is_taken {
            true => (version.written, end + micros(LATE)),
            false => (version.seen, end),
        };
        if at > last {
            continue;
        }
        if is_taken && !is_met && at >= outage.from {
            return Some(at);
        }
        taken.insert(&version.name, is_taken);
    }
    // It has not been given back since the outage before.
    taken.values().any(|it| *it).then_some(outage.from)
}

fn late(outage: &Outage, expired: Micros, due: Micros, met: Option<Micros>) -> String {
    let Outage {
        shoot, nodes, from, ..
    } = outage;
    let until = outage.until.map_or("now".to_owned(), time);
    let met = met.map_or("it never was".to_owned(), |at| {
        format!("it was at {}", time(at))
    });
    format!(
        "protected-in-time: {nodes} nodes of shoot {shoot} were silent from {} to {until}, expired at \
         {}, and had to be met by {}: {met}",
        time(*from),
        time(expired),
        time(due),
    )
}

fn time(at: Micros) -> String {
    Timestamp::from_microsecond(at)
        .unwrap_or_default()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::Death;
    use crate::oracle::{
        event::{Event, Hurt, Role},
        plan::{Size, plan},
        policy::{Edit, Hold, Policy},
    };

    const SECOND: Micros = 1_000_000;
    const START: Micros = 1_800_000_000 * SECOND;
    const PERIOD: Duration = Duration::from_secs(5);

    fn after(seconds: i64) -> Micros {
        START + seconds * SECOND
    }

    /// Each event takes a second.
    fn truth(events: &[(i64, Event)]) -> Truth {
        let mut truth = Truth::new(4, 10, PERIOD, START, Policy::FIRST);
        for (at, event) in events {
            truth.happened(event, after(*at), after(at + 1));
        }
        truth
    }

    fn taken(shoot: usize, at: i64, is_taken: bool) -> Version {
        Version {
            shoot,
            name: "a".to_owned(),
            uid: format!("{at}"),
            version: 0,
            written: after(at),
            seen: after(at),
            replicas: if is_taken { 0 } else { 2 },
            marked: is_taken,
            record: None,
            ignored: false,
        }
    }

    /// Another dependent.
    fn other(shoot: usize, at: i64, is_taken: bool) -> Version {
        let name = "b".to_owned();
        Version {
            name,
            ..taken(shoot, at, is_taken)
        }
    }

    /// One that is given replicas by somebody else than who has taken it then.
    fn undated(shoot: usize, at: i64, taken_at: i64) -> Version {
        Version {
            written: after(taken_at),
            ..taken(shoot, at, false)
        }
    }

    /// Shoot 1 is silent from 100.5 s on, which is expired at 116.1 s and has to be met by 136.1 s.
    fn with(end: i64, more: &[(i64, Event)]) -> Truth {
        let mut events = vec![
            (
                100,
                Event::Cut {
                    shoot: 1,
                    nodes: 10,
                },
            ),
            (end, Event::Restore { shoot: 1 }),
        ];
        events.extend_from_slice(more);
        events.sort_by_key(|(at, _)| *at);
        truth(&events)
    }

    fn outages(truth: &Truth, history: &[Version]) -> Outages {
        Outages::new(truth, history, after(1_000))
    }

    #[test]
    fn an_outage_that_nothing_excuses_must_be_met() {
        for (end, history, met, broken) in [
            (160, &[][..], 0, true),
            (160, &[taken(1, 118, true)], 1, false),
            (160, &[taken(1, 136, true)], 1, false),
            (160, &[taken(1, 137, true)], 1, true),
            (160, &[taken(2, 118, true)], 0, true),
            (160, &[taken(1, 118, false)], 0, true),
            (160, &[taken(1, 99, true)], 1, false),
            (160, &[taken(1, 90, true), taken(1, 99, false)], 0, true),
            // Held since before, replaced and taken again; of two, one.
            (
                160,
                &[
                    taken(1, 99, true),
                    other(1, 138, false),
                    other(1, 140, true),
                ],
                1,
                false,
            ),
            // Given back in it, and taken again in time or not.
            (
                160,
                &[
                    taken(1, 99, true),
                    taken(1, 101, false),
                    taken(1, 136, true),
                ],
                1,
                false,
            ),
            (
                160,
                &[
                    taken(1, 99, true),
                    taken(1, 101, false),
                    taken(1, 137, true),
                ],
                1,
                true,
            ),
            (160, &[taken(1, 99, true), taken(1, 101, false)], 0, true),
            // Given back after it, by whoever does not date it.
            (160, &[taken(1, 99, true), undated(1, 162, 99)], 1, false),
            (160, &[taken(1, 99, true), undated(1, 120, 99)], 0, true),
            (135, &[], 0, false),
        ] {
            let found = outages(&with(end, &[]), history);
            assert_eq!((found.all, found.long, found.met), (1, 1, met), "{found:?}");
            assert_eq!(!found.broken.is_empty(), broken, "{history:?}: {found:?}");
            assert_eq!(found.due, usize::from(end == 160), "{found:?}");
            assert_eq!(found.brief, usize::from(end == 135), "{found:?}");
        }
        let found = outages(&with(160, &[]), &[]);
        assert!(found.broken[0].contains("shoot 1") && found.broken[0].contains("never"));
        assert_eq!(outages(&with(115, &[]), &[]).long, 0);
        let early = Outages::new(&with(160, &[]), &[], after(170));
        assert!(early.broken.is_empty(), "{early:?}");
    }

    #[test]
    fn an_excuse_counts_while_it_lasts_and_a_while_longer() {
        let how = Death::Drips;
        let leader = |hurt| Event::Hurt(hurt, Role::Leader);
        let follower = |hurt| Event::Hurt(hurt, Role::Follower);
        let hold = |hold| Event::Policy(Edit::Hold(hold));
        for (begin, excused) in [
            (Event::Kill { shoot: 1, how }, Some((42, "dead"))),
            (Event::Kill { shoot: 2, how }, None),
            (Event::Hibernate { shoot: 1 }, Some((22, "let go"))),
            (Event::Remove { shoot: 1 }, Some((22, "let go"))),
            (Event::Remove { shoot: 2 }, None),
            (Event::Rotate { shoot: 1 }, Some((22, "token"))),
            (Event::Rotate { shoot: 2 }, None),
            (hold(Hold::DryRun), Some((12, "held back"))),
            (hold(Hold::Suspended), Some((12, "held back"))),
            (hold(Hold::Half), Some((12, "held back"))),
            (Event::Policy(Edit::Interval(3)), None),
            (Event::Policy(Edit::Timeout(10)), None),
            (Event::RestartSeed, Some((5, "seed"))),
            (leader(Hurt::Kill), Some((32, "led"))),
            (leader(Hurt::Terminate), Some((32, "led"))),
            (leader(Hurt::Freeze(4)), Some((12, "frozen"))),
            (leader(Hurt::Freeze(22)), Some((12, "frozen"))),
            (follower(Hurt::Kill), None),
            (follower(Hurt::Freeze(22)), None),
        ] {
            let mut events = vec![(130, begin.clone())];
            if let Some(over) = begin.end() {
                events = vec![(106, begin.clone()), (130, over)];
            }
            // Over at 131 s, but for a while; then 15 s are left, or not.
            let (lasts, reason) = excused.unwrap_or((0, ""));
            let free = 131 + lasts + 15;
            for (end, is_due) in [(free - 1, excused.is_none()), (free + 1, true)] {
                let found = outages(&with(end, &events), &[]);
                let is_broken = !found.broken.is_empty();
                assert_eq!(is_broken, is_due, "{begin:?} {end}: {found:?}");
                if !is_due {
                    assert!(found.excused[0].1.to_string().contains(reason), "{found:?}");
                    assert_eq!(found.reasons().into_values().sum::<usize>(), 1);
                }
            }
        }
    }

    #[test]
    fn who_is_not_held_back_or_was_before_is_not_excused() {
        let half = Event::Policy(Edit::Hold(Hold::Half));
        let mut truth = with(160, &[(20, half), (22, Event::Policy(Edit::Release))]);
        assert_eq!(outages(&truth, &[]).broken.len(), 1);
        let half = Event::Policy(Edit::Hold(Hold::Half));
        truth.happened(&half, after(200), after(201));
        for shoot in [2, 3] {
            truth.happened(&Event::Cut { shoot, nodes: 10 }, after(300), after(301));
            truth.happened(&Event::Restore { shoot }, after(400), after(401));
        }
        let found = outages(&truth, &[]);
        assert!(
            found.broken.len() == 2 && found.broken[1].contains("shoot 2"),
            "{found:?}"
        );
        assert_eq!(found.excused.len(), 1);
    }

    #[test]
    fn a_longer_grace_or_a_lost_leadership_has_it_met_later() {
        let grace = Event::Policy(Edit::Grace(40));
        let found = outages(&with(149, &[(20, grace)]), &[]);
        assert!(found.broken.is_empty() && found.brief == 1, "{found:?}");
        let mut truth = with(160, &[]);
        truth.deposed(after(125));
        let found = outages(&truth, &[]);
        assert!(found.broken.is_empty() && found.reasons().contains_key(&Reason::NobodyLed));
    }

    /// Otherwise the rule would say nothing.
    #[test]
    fn a_story_has_outages_that_nothing_excuses() {
        let size = Size {
            shoots: 30,
            nodes: 20,
            legs: 6,
            rough: 2,
            leg: Duration::from_secs(155),
        };
        for seed in 0..20 {
            let mut truth = Truth::new(size.shoots, size.nodes, PERIOD, START, Policy::FIRST);
            let mut at = START;
            for leg in plan(seed, size) {
                at += 60 * SECOND;
                let mut open: Vec<Event> = Vec::new();
                for step in leg.steps {
                    at += micros(step.after);
                    truth.happened(&step.event, at, at);
                    open.retain(|end| *end != step.event);
                    open.extend(step.event.end());
                }
                for end in open.into_iter().rev() {
                    truth.happened(&end, at, at);
                }
            }
            let found = Outages::new(&truth, &[], at + micros(LATE) + SECOND);
            let (due, long) = (found.broken.len(), found.long);
            assert!(due >= 20, "{seed}: {due} of {long}");
        }
    }
}
