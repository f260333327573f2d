//! Properties of scaling over a modelled API server, where crashes, users and controllers interfere
//! between any two requests.

use std::{collections::BTreeMap, time::Duration};

use dependency_watchdog::{
    api::{ClusterHealthStatus, DependentRef},
    cluster::{Dependent, Scale},
    prober::{
        debts::Debts,
        flow::What,
        plan::{
            Aim, Family, IGNORE, MARK, Memory, Observed, Purpose, RECORD, Record, Settled, Step,
            Write, levels, step,
        },
        scale_error::{CONFLICTS, ScaleError},
    },
    util::text::parse_bool,
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use serde_json::Value;
use tokio::time::Instant;

/// The status code of a refused precondition.
const CONFLICT: u16 = 409;
/// More looks than a run without interference needs.
const LOOKS: usize = 8;

/// A dependent on the API server.
#[derive(Clone, Debug, PartialEq)]
struct Object {
    family: Family,
    version: u64,
    annotations: BTreeMap<String, String>,
    replicas: i32,
    /// What the controller has brought about.
    present: i32,
}

/// What may happen between two requests.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// Nothing.
    Calm,
    /// The operator dies.
    Crash,
    /// A controller writes the status, so that the resourceVersion moves.
    Status,
    /// A user or an HPA sets the replicas.
    User(i32),
    /// ClusterHealth is written.
    Saved,
}

/// One run of the operator in one aim.
#[derive(Clone, Debug)]
struct Episode {
    aim: Aim,
    keep_marks: bool,
    between: Vec<Between>,
    /// Whether the next run is another process, and if so whether it finds ClusterHealth.
    restart: Option<bool>,
}

/// Why a run ended before its end.
#[derive(Debug)]
enum Cut {
    Crashed,
    Refused(ScaleError),
    Conflicts,
}

/// What the replicas may be in the end.
#[derive(Clone, Debug, PartialEq)]
struct Expected(Vec<i32>);

impl Object {
    fn marked(&self) -> bool {
        self.annotations.contains_key(MARK)
    }

    fn record(&self) -> Record {
        Record::parse(self.annotations.get(RECORD).map(String::as_str))
    }

    fn observed(&self) -> Observed {
        let annotations = &self.annotations;
        let ignored = annotations.get(IGNORE).and_then(|text| parse_bool(text));
        Observed {
            family: self.family,
            uid: None,
            resource_version: self.version.to_string(),
            replicas: self.replicas,
            marked: annotations.contains_key(MARK),
            record: Record::parse(annotations.get(RECORD).map(String::as_str)),
            ignored: ignored.unwrap_or(false),
            any_left: self.present > 0,
            running: self.present > 0,
        }
    }

    /// The resourceVersion that the write makes, unless it is refused.
    fn apply(&mut self, write: &Write) -> Result<String, u16> {
        let before = (self.annotations.clone(), self.replicas);
        match write {
            Write::Object(patch) => {
                self.check(patch)?;
                if let Some(annotations) = patch["metadata"]["annotations"].as_object() {
                    for (key, value) in annotations {
                        match value.as_str() {
                            Some(text) => self.annotations.insert(key.clone(), text.to_owned()),
                            None => self.annotations.remove(key),
                        };
                    }
                }
                self.set_replicas(patch);
            }
            Write::ScaleMerge(patch) => {
                self.check(patch)?;
                self.set_replicas(patch);
            }
        }
        if before != (self.annotations.clone(), self.replicas) {
            // The write, and the status that its controller answers with.
            self.version += 2;
            return Ok((self.version - 1).to_string());
        }
        Ok(self.version.to_string())
    }

    fn check(&self, patch: &Value) -> Result<(), u16> {
        match patch["metadata"]["resourceVersion"].as_str() {
            Some(version) if version != self.version.to_string() => Err(CONFLICT),
            _ => Ok(()),
        }
    }

    fn set_replicas(&mut self, patch: &Value) {
        if let Some(replicas) = patch["spec"]["replicas"].as_i64() {
            self.replicas = i32::try_from(replicas).expect("a number of replicas");
        }
    }
}

impl Expected {
    /// The user's last word: a number above zero, or a zero without the mark. Under the mark a zero
    /// cannot be told from ours.
    fn after(object: &Object, replicas: i32) -> Self {
        match (replicas, object.marked(), object.record()) {
            (0, true, Record::Replicas(recorded)) => Self(vec![0, recorded]),
            _ => Self(vec![replicas]),
        }
    }
}

/// The operator, the object and those who interfere.
struct World {
    object: Object,
    debts: Debts,
    saved: ClusterHealthStatus,
    expected: Expected,
    between: std::vec::IntoIter<Between>,
}

impl World {
    fn new(object: Object) -> Self {
        let mut debts = Debts::default();
        debts.adopt(&[dependent("d", 0, 0)]);
        Self {
            expected: Expected(vec![object.replicas]),
            object,
            debts,
            saved: ClusterHealthStatus::default(),
            between: Vec::new().into_iter(),
        }
    }

    fn play(&mut self, episodes: Vec<Episode>) {
        for episode in episodes {
            self.between = episode.between.into_iter();
            let cut = self.run(episode.aim, episode.keep_marks);
            let crashed = matches!(cut, Err(Cut::Crashed));
            if let Some(with_health) = episode.restart.or(crashed.then_some(true)) {
                self.debts = match with_health {
                    true => Debts::recall(&self.saved),
                    false => Debts::default(),
                };
                self.debts.adopt(&[dependent("d", 0, 0)]);
            }
        }
        self.between = Vec::new().into_iter();
    }

    /// One flow, up to the point where there is nothing to do.
    fn run(&mut self, aim: Aim, keep_marks: bool) -> Result<(), Cut> {
        let dependent = dependent("d", 0, 0);
        let purpose = Purpose {
            keep_marks,
            ..Purpose::of(aim)
        };
        for _ in 0..LOOKS {
            let (step, found) = self.act(purpose)?;
            match step {
                // It is restored again.
                Step::Nothing(Settled::Down) if aim == Aim::Restore => {
                    let what = What::Settled(Settled::Down, Some(found));
                    self.debts.note(&dependent, &what, Instant::now());
                }
                Step::Nothing(settled) => {
                    let what = What::Settled(settled, Some(found));
                    self.debts.note(&dependent, &what, Instant::now());
                    return Ok(());
                }
                // In time the controller does its work.
                Step::Wait => self.object.present = self.object.replicas,
                _ => self.note(step, found),
            }
        }
        Err(Cut::Conflicts)
    }

    fn note(&mut self, step: Step, found: Observed) {
        let what = What::Did(step, Some(found));
        self.debts
            .note(&dependent("d", 0, 0), &what, Instant::now());
    }

    fn act(&mut self, purpose: Purpose) -> Result<(Step, Observed), Cut> {
        'anew: for _ in 0..=CONFLICTS {
            let mut found = self.read()?;
            let memory = self.memory();
            let step = step(purpose, false, Some(&found), memory).map_err(Cut::Refused)?;
            for place in 0.. {
                let Some(write) = step.writes(&found).into_iter().nth(place) else {
                    return Ok((step, found));
                };
                self.interlude()?;
                match self.object.apply(&write) {
                    Ok(version) => found.resource_version = version,
                    Err(_) => continue 'anew,
                }
            }
        }
        Err(Cut::Conflicts)
    }

    fn memory(&self) -> Memory {
        self.debts
            .memory(&dependent("d", 0, 0).reference)
            .expect("it was adopted")
    }

    /// Other kinds than those of apps/v1 take two reads, of one version.
    fn read(&mut self) -> Result<Observed, Cut> {
        loop {
            self.interlude()?;
            let version = self.object.version;
            if self.object.family == Family::Scalable {
                self.interlude()?;
            }
            if self.object.version == version {
                return Ok(self.object.observed());
            }
        }
    }

    fn interlude(&mut self) -> Result<(), Cut> {
        match self.between.next().unwrap_or(Between::Calm) {
            Between::Calm => {}
            Between::Crash => return Err(Cut::Crashed),
            Between::Status => {
                self.object.present = self.object.replicas;
                self.object.version += 1;
            }
            Between::User(replicas) => {
                if replicas != self.object.replicas {
                    self.object.replicas = replicas;
                    self.object.version += 1;
                    self.expected = Expected::after(&self.object, replicas);
                }
            }
            Between::Saved => {
                self.saved = ClusterHealthStatus {
                    dependents: self.debts.status(),
                    ..ClusterHealthStatus::default()
                };
            }
        }
        Ok(())
    }
}

fn dependent(name: &str, up: u32, down: u32) -> Dependent {
    let scale = |level| Scale {
        level,
        initial_delay: Duration::ZERO,
        timeout: Duration::from_secs(30),
        await_nodes: Duration::ZERO,
    };
    Dependent {
        reference: DependentRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
        },
        optional: false,
        up: scale(up),
        down: scale(down),
    }
}

fn families() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Apps), Just(Family::Scalable)]
}

fn aims() -> impl Strategy<Value = Aim> {
    prop_oneof![Just(Aim::Protect), Just(Aim::Restore)]
}

fn memories() -> impl Strategy<Value = Memory> {
    (any::<bool>(), any::<bool>(), prop::option::of(0..5)).prop_map(
        |(owed, keeps_mark, replicas)| Memory {
            owed,
            keeps_mark,
            replicas,
        },
    )
}

/// Objects as the operator first meets them; the Go tool leaves records everywhere.
fn unmarked() -> impl Strategy<Value = Object> {
    let record = prop::option::weighted(0.3, prop_oneof!["[0-9]", "[a-z]{0,3}"]);
    (families(), 0..6, record).prop_map(|(family, replicas, record)| Object {
        family,
        version: 10,
        annotations: record
            .map(|record| (RECORD.to_owned(), record))
            .into_iter()
            .collect(),
        replicas,
        present: replicas,
    })
}

/// Objects in any state.
fn any_objects() -> impl Strategy<Value = Object> {
    let ignore = prop::option::of(prop_oneof!["true", "false", "1", "no"]);
    (unmarked(), any::<bool>(), ignore, 0..6).prop_map(|(mut object, marked, ignore, present)| {
        if marked {
            object.annotations.insert(MARK.to_owned(), String::new());
        }
        if let Some(ignore) = ignore {
            object.annotations.insert(IGNORE.to_owned(), ignore);
        }
        object.present = present;
        object
    })
}

fn episodes(between: impl Strategy<Value = Between>) -> impl Strategy<Value = Vec<Episode>> {
    let restart = prop::option::weighted(0.3, any::<bool>());
    let between = prop::collection::vec(between, 0..12);
    let episode = (aims(), any::<bool>(), between, restart);
    let episode = episode.prop_map(|(aim, keep_marks, between, restart)| Episode {
        keep_marks,
        aim,
        between,
        restart,
    });
    prop::collection::vec(episode, 0..6)
}

fn faults() -> impl Strategy<Value = Between> {
    prop_oneof![
        4 => Just(Between::Calm),
        1 => Just(Between::Crash),
        1 => Just(Between::Status),
        1 => Just(Between::Saved),
    ]
}

fn faults_and_users() -> impl Strategy<Value = Between> {
    prop_oneof![3 => faults(), 1 => (0..6).prop_map(Between::User)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        ..ProptestConfig::with_failure_persistence(FileFailurePersistence::WithSource("regressions"))
    })]

    #[test]
    fn levels_ascend_and_hold_each_dependent_once(
        places in prop::collection::vec((0_u32..5, 0_u32..5), 0..12),
        aim in aims(),
    ) {
        let dependents: Vec<Dependent> = places.iter().enumerate()
            .map(|(index, (up, down))| dependent(&format!("d{index}"), *up, *down))
            .collect();
        let levels = levels(&dependents, aim);
        prop_assert!(levels.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut names = Vec::new();
        for (level, members) in &levels {
            for member in members {
                let place = match aim {
                    Aim::Restore => member.up.level,
                    Aim::Protect => member.down.level,
                    Aim::Release | Aim::Look => 0,
                };
                prop_assert_eq!(place, *level);
                names.push(member.reference.name.clone());
            }
        }
        names.sort();
        let mut expected: Vec<_> = dependents.iter().map(|d| d.reference.name.clone()).collect();
        expected.sort();
        prop_assert_eq!(names, expected);
    }

    /// Once carried out, a step leaves nothing to write.
    #[test]
    fn a_step_is_needed_once(object in any_objects(), aim in aims()) {
        let mut world = World::new(object);
        let purpose = Purpose { keep_marks: true, ..Purpose::of(aim) };
        let first = world.act(purpose);
        let Ok((step, found)) = first else {
            prop_assert!(matches!(first, Err(Cut::Refused(ScaleError::UnreadableRecord(_)))));
            return Ok(());
        };
        world.note(step, found);
        let mut before = world.object.clone();
        let (mut second, found) = world.act(purpose).expect("it was possible before");
        // What nobody had recorded is recorded once it is back.
        if let (Step::ScaleUp { to }, Step::Record { replicas }) = (step, second) {
            prop_assert_eq!(to, replicas);
            world.note(second, found);
            before = world.object.clone();
            (second, _) = world.act(purpose).expect("it was possible before");
        }
        prop_assert!(matches!(second, Step::Nothing(_) | Step::Wait), "{step:?}, then {second:?}");
        prop_assert_eq!(world.object, before);
    }

    /// Whatever crashes and in whichever order outages and recoveries follow: in the end each
    /// dependent is as it was.
    #[test]
    fn what_was_taken_is_restored_after_any_crash(
        object in unmarked(),
        episodes in episodes(faults()),
    ) {
        let before = object.replicas;
        let mut world = World::new(object);
        world.play(episodes);
        world.run(Aim::Restore, false).expect("nobody interferes");
        prop_assert_eq!(world.object.replicas, before);
        prop_assert!(!world.object.marked());
        prop_assert!(!world.debts.owes());
    }

    /// What a user or an HPA sets meanwhile is what is there in the end, and a zero without the
    /// mark is theirs.
    #[test]
    fn no_change_by_others_is_lost(object in unmarked(), episodes in episodes(faults_and_users())) {
        let mut world = World::new(object);
        world.play(episodes);
        world.run(Aim::Restore, false).expect("nobody interferes any more");
        prop_assert!(
            world.expected.0.contains(&world.object.replicas),
            "{:?}, expected {:?}", world.object, world.expected,
        );
        prop_assert!(!world.object.marked());
    }

    /// While a cluster is protected, the record is the newest number that anybody asked for.
    #[test]
    fn the_record_is_the_newest_number(object in unmarked(), episodes in episodes(faults_and_users())) {
        let mut world = World::new(object);
        world.play(episodes);
        world.run(Aim::Protect, false).expect("nobody interferes any more");
        prop_assert_eq!(world.object.replicas, 0);
        let record = match (world.object.marked(), world.object.record()) {
            (true, Record::Replicas(replicas)) => replicas,
            (true, other) => return Err(TestCaseError::fail(format!("{other:?}"))),
            (false, _) => 0,
        };
        prop_assert!(world.expected.0.contains(&record), "{record}, expected {:?}", world.expected);
    }

    #[test]
    fn an_ignored_dependent_only_loses_the_mark(
        mut object in any_objects(),
        aim in aims(),
        memory in memories(),
    ) {
        object.annotations.insert(IGNORE.to_owned(), "true".to_owned());
        let found = object.observed();
        let purpose = Purpose::of(aim);
        let step = step(purpose, false, Some(&found), memory).expect("no refusal");
        let mut after = object.clone();
        for write in step.writes(&found) {
            prop_assert!(after.apply(&write).is_ok());
        }
        object.annotations.remove(MARK);
        object.version = after.version;
        prop_assert_eq!(after, object);
    }

    #[test]
    fn only_marked_dependents_are_restored(mut object in any_objects(), memory in memories()) {
        object.annotations.remove(MARK);
        let found = object.observed();
        let step = step(Purpose::of(Aim::Restore), false, Some(&found), memory)
            .expect("no refusal");
        prop_assert!(matches!(step, Step::Nothing(_) | Step::Wait));
        if object.replicas == 0 {
            let left = [Settled::NotOurs, Settled::Ignored { at_zero: true }].map(Step::Nothing);
            prop_assert!(left.contains(&step), "{:?}", step);
        }
        prop_assert_eq!(step.writes(&found), []);
    }
}
