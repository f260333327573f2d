//! Walks through whatever may happen to a cluster, its policies and the operator, in any order,
//! against a scripted seed: nothing that was taken is ever lost, and in the end all of it is back.
//!
//! `PROPTEST_CASES` raises the number of walks.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::time::Duration;

use dependency_watchdog::prober::plan::RECORD;
use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{FileFailurePersistence, TestRunner},
};
use serde_json::{Value, json};
use support::{
    DEPENDENTS, Failure, LONG, RUNNING, Runs, World, change_policy, change_shoot, condition,
    deleting, deselect, is_marked, policy, run, scale_by_hand,
};

/// How many walks there are by default.
const WALKS: u32 = 40;
/// The steps of a walk at most.
const STEPS: usize = 20;

/// The policies: the first is for every walk, the other ranks higher, and comes and goes.
const POLICIES: [&str; 2] = ["p", "q"];

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// The kubelets are heard.
    Renew,
    /// The kubelets have been silent for long.
    Silence,
    /// The operator is started anew.
    Restart,
    /// Somebody applies this policy.
    Apply(&'static str, Spec),
    /// Somebody asks for the deletion of this policy: the finalizer holds it.
    Delete(&'static str),
    /// Somebody removes this policy with its finalizer.
    Strip(&'static str),
    /// The Shoot has workers, or none.
    Workers(bool),
    /// The Shoot's owner wants it to sleep.
    Hibernate,
    /// gardenlet has put it to sleep.
    Asleep,
    /// The Shoot's owner wants it to be awake.
    WakeUp,
    /// The Shoot is being deleted.
    DeleteShoot,
    /// The Shoot is awake and not being deleted, and gardenlet has seen to its control plane.
    Reconcile,
    /// The Cluster is gone for that many seconds; so is its record, if the garbage collector was
    /// quick.
    Recreate { seconds: u64, collected: bool },
    /// Somebody scales a dependent up.
    ScaleUp(usize),
    /// The next requests to the dependents fail.
    Fail(Failure),
    /// The next writes to dependents are carried out and not answered.
    Unanswered,
    /// What is wanted of a dependent does not come about.
    Stick(usize),
    /// It comes about again.
    Follow,
}

/// What a policy says.
#[derive(Clone, Copy, Debug)]
enum Spec {
    /// All there is.
    Whole,
    /// It names the first of its dependents alone.
    Named(usize),
    /// It does not select the cluster.
    Elsewhere,
    /// `spec.suspend`.
    Suspended,
    /// It writes to no dependent.
    DryRun,
}

/// How much time passes after an action.
#[derive(Clone, Copy, Debug)]
enum Pause {
    /// Not even so much that the operator has seen it.
    None,
    /// So much that the operator has seen it, and this.
    Seen(Duration),
}

fn specs() -> impl Strategy<Value = Spec> {
    prop_oneof![
        Just(Spec::Whole),
        (1..DEPENDENTS.len()).prop_map(Spec::Named),
        Just(Spec::Elsewhere),
        Just(Spec::Suspended),
        Just(Spec::DryRun),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let policies = || prop::sample::select(POLICIES.to_vec());
    let failures = [Failure::Status(403), Failure::Status(500), Failure::Hang].to_vec();
    let dependents = || 0..DEPENDENTS.len();
    let recreate = (prop::sample::select(vec![0, 1, 8, 45]), any::<bool>())
        .prop_map(|(seconds, collected)| Action::Recreate { seconds, collected });
    prop_oneof![
        2 => Just(Action::Renew),
        5 => Just(Action::Silence),
        2 => Just(Action::Restart),
        5 => (policies(), specs()).prop_map(|(name, spec)| Action::Apply(name, spec)),
        2 => policies().prop_map(Action::Delete),
        1 => policies().prop_map(Action::Strip),
        1 => any::<bool>().prop_map(Action::Workers),
        1 => Just(Action::Hibernate),
        1 => Just(Action::Asleep),
        1 => Just(Action::WakeUp),
        1 => Just(Action::DeleteShoot),
        2 => Just(Action::Reconcile),
        2 => recreate,
        1 => dependents().prop_map(Action::ScaleUp),
        1 => prop::sample::select(failures).prop_map(Action::Fail),
        1 => Just(Action::Unanswered),
        1 => dependents().prop_map(Action::Stick),
        1 => Just(Action::Follow),
    ]
}

fn pauses() -> impl Strategy<Value = Pause> {
    let seen = |millis| Just(Pause::Seen(Duration::from_millis(millis)));
    prop_oneof![
        2 => Just(Pause::None),
        1 => seen(0),
        1 => seen(250),
        1 => seen(3_000),
        3 => seen(20_000),
    ]
}

fn walks() -> impl Strategy<Value = Vec<(Action, Pause)>> {
    prop::collection::vec((actions(), pauses()), 0..STEPS)
}

fn config() -> ProptestConfig {
    let kept = FileFailurePersistence::WithSource("regressions");
    let default = ProptestConfig::with_failure_persistence(kept);
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => default.cases,
        None => WALKS,
    };
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_is_lost_whatever_happens(
        steps in walks(),
    ) {
        run(walk(steps));
    }
}

/// The same walks every time, so that they can be recorded.
#[test]
fn recorded_walks() {
    let _runs = Runs::begin();
    let mut runner = TestRunner::deterministic();
    for _ in 0..WALKS {
        let steps = walks().new_tree(&mut runner).unwrap().current();
        // The output of a test is shown if it fails.
        println!("{steps:?}");
        run(walk(steps));
    }
}

async fn walk(steps: Vec<(Action, Pause)>) {
    let mut walk = Walk::begin().await;
    for (action, pause) in steps {
        walk.step(action, pause).await;
    }
    walk.end().await;
}

struct Walk {
    world: World,
    /// How many policies and Clusters there have been.
    created: usize,
    /// Something has happened for which dependents are left to gardenlet.
    left_to_gardenlet: bool,
    /// Something has happened for which the operator may have no policy to go by, or may not know
    /// where to look.
    bereft: bool,
}

impl Walk {
    async fn begin() -> Self {
        let world = World::running(&["a"]).await;
        world.reason("a", "Healthy").await;
        Self {
            world,
            created: 0,
            left_to_gardenlet: false,
            bereft: false,
        }
    }

    async fn step(&mut self, action: Action, pause: Pause) {
        self.act(action).await;
        if let Pause::Seen(time) = pause {
            self.pass(time).await;
        }
    }

    /// Lets the operator see what has happened, and then that much time pass. While it is held
    /// back, it writes to no dependent from then on.
    async fn pass(&self, time: Duration) {
        self.world.clock.settle().await;
        let writes = self.world.seed.writes().len();
        self.world.clock.pass(time).await;
        if self.is_held_back() {
            let more = self.world.seed.writes().split_off(writes);
            assert!(more.is_empty(), "held back, and yet: {more:?}");
        }
    }

    /// Whether the responsible policy is suspended, or in DryRun. Where none selects the cluster
    /// any more, nothing is said.
    fn is_held_back(&self) -> bool {
        let policies = POLICIES.iter().rev();
        let mut policies = policies.filter_map(|name| self.policy(name));
        let responsible = policies.find(|policy| {
            policy["metadata"]["deletionTimestamp"].is_null()
                && policy["spec"]["clusterSelector"].is_null()
        });
        responsible.is_some_and(|policy| {
            policy["spec"]["suspend"] == true || policy["spec"]["mode"] == "DryRun"
        })
    }

    /// Each version that a dependent ever had is as it was at first, or at zero and says what it
    /// had.
    fn assert_nothing_lost(&self) {
        for object in self.world.seed.versions("deployments") {
            let name = object["metadata"]["name"].as_str().unwrap();
            let index = DEPENDENTS.iter().position(|it| *it == name).unwrap();
            let wanted = RUNNING[index].to_string();
            let replicas = object["spec"]["replicas"].to_string();
            let recorded = object["metadata"]["annotations"][RECORD].as_str();
            assert!(
                replicas == wanted || replicas == "0" && recorded == Some(&wanted),
                "{name} has lost its replicas: {object}"
            );
        }
    }

    fn policy(&self, name: &str) -> Option<Value> {
        self.world.seed.get("probepolicies", "", name)
    }

    async fn act(&mut self, action: Action) {
        let world = &mut self.world;
        match action {
            Action::Renew => world.shoot("a").renew(),
            Action::Silence => world.shoot("a").silence(100),
            Action::Restart => {
                world.stop().await;
                world.start();
            }
            Action::Apply(name, spec) => self.apply(name, spec),
            Action::Delete(name) => world.seed.ask_to_delete("probepolicies", "", name),
            Action::Strip(name) => {
                self.bereft = true;
                world.seed.delete("probepolicies", "", name);
            }
            Action::Workers(some) => change_shoot(world, |shoot| {
                let workers = if some {
                    json!([{"name": "w"}])
                } else {
                    json!([])
                };
                shoot["spec"]["provider"]["workers"] = workers;
            }),
            Action::Hibernate => change_shoot(world, |shoot| {
                shoot["spec"]["hibernation"] = json!({"enabled": true});
            }),
            Action::Asleep => {
                self.left_to_gardenlet = true;
                change_shoot(world, |shoot| shoot["status"]["hibernated"] = json!(true));
            }
            Action::WakeUp => change_shoot(world, |shoot| {
                shoot["spec"]["hibernation"] = json!({"enabled": false});
            }),
            Action::DeleteShoot => {
                self.left_to_gardenlet = true;
                change_shoot(world, deleting);
            }
            Action::Reconcile => self.reconcile().await,
            Action::Recreate { seconds, collected } => self.recreate(seconds, collected).await,
            Action::ScaleUp(index) => {
                scale_by_hand(world, DEPENDENTS[index], RUNNING[index], false);
            }
            Action::Fail(failure) => {
                world
                    .seed
                    .fail(failure, (0, 4), |call| call.resource == "deployments");
            }
            Action::Unanswered => world.seed.fail_committed(Failure::Reset, (0, 2), |call| {
                call.resource == "deployments" && call.method == "PATCH"
            }),
            Action::Stick(index) => world.seed.follow(DEPENDENTS[index], false),
            Action::Follow => self.follow(),
        }
    }

    fn follow(&self) {
        for name in DEPENDENTS {
            self.world.seed.follow(name, true);
        }
    }

    /// Creates a policy, or changes the one that there is, also one that is being deleted.
    fn apply(&mut self, name: &str, spec: Spec) {
        let mut wanted = policy(name);
        self.created += 1;
        wanted["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.created));
        wanted["spec"]["priority"] = json!(if name == "q" { 1 } else { 0 });
        match spec {
            Spec::Whole => {}
            Spec::Named(count) => {
                let infos = wanted["spec"]["dependentResourceInfos"].as_array_mut();
                infos.unwrap().truncate(count);
            }
            Spec::Elsewhere => deselect(&mut wanted),
            Spec::Suspended => wanted["spec"]["suspend"] = json!(true),
            Spec::DryRun => wanted["spec"]["mode"] = json!("DryRun"),
        }
        if self.policy(name).is_some() {
            change_policy(&self.world, name, |policy| {
                policy["spec"] = wanted["spec"].clone();
            });
        } else {
            self.world.seed.put(&wanted);
        }
    }

    /// gardenlet scales up what is left to it. What is marked it leaves as it is.
    async fn reconcile(&mut self) {
        let world = &self.world;
        change_shoot(world, |shoot| {
            shoot["spec"]["hibernation"] = json!({});
            shoot["status"]["hibernated"] = json!(false);
            shoot["metadata"]["deletionTimestamp"] = Value::Null;
        });
        // Nothing more is left to it once this has been seen.
        world.clock.settle().await;
        if std::mem::take(&mut self.left_to_gardenlet) {
            let replicas = world.replicas("a");
            for (index, marked) in is_marked(world).into_iter().enumerate() {
                if !marked && replicas[index] == 0 {
                    scale_by_hand(world, DEPENDENTS[index], RUNNING[index], false);
                }
            }
        }
    }

    async fn recreate(&mut self, seconds: u64, collected: bool) {
        let seed = &self.world.seed;
        let mut cluster = seed.get("clusters", "", "a").unwrap();
        self.created += 1;
        cluster["metadata"]["uid"] = json!(format!("uid-a-{}", self.created));
        seed.delete("clusters", "", "a");
        if seconds > 0 {
            self.pass(Duration::from_secs(seconds)).await;
            // After so long it is not expected back.
            self.left_to_gardenlet |= seconds > 30;
            self.bereft |= seconds > 30;
        }
        if collected {
            seed.delete("clusterhealths", "", "a");
        }
        seed.put(&cluster);
    }

    /// Nothing goes wrong and nobody holds back any more: what the policies are like, or are not,
    /// makes no difference to what comes back.
    async fn end(mut self) {
        self.world.seed.heal();
        self.follow();
        self.act(Action::Workers(true)).await;
        self.world.shoot("a").renew();
        let left = POLICIES
            .into_iter()
            .filter(|name| self.policy(name).is_some());
        let left: Vec<&str> = left.collect();
        for name in &left {
            change_policy(&self.world, name, |policy| {
                policy["spec"]["suspend"] = json!(false);
                policy["spec"]["mode"] = json!("Enforce");
            });
        }
        self.reconcile().await;
        self.world.clock.pass(LONG * 2).await;
        self.assert_nothing_lost();
        for name in &left {
            let policy = self.policy(name);
            let deleting = |it: &Value| !it["metadata"]["deletionTimestamp"].is_null();
            assert!(!policy.as_ref().is_some_and(deleting), "held: {policy:?}");
        }
        if !self.bereft && !left.is_empty() {
            self.assert_all_back();
        }
        // However it was, a policy that names all of it has it brought back.
        self.act(Action::Strip("q")).await;
        self.apply("p", Spec::Whole);
        self.world.clock.pass(LONG * 4).await;
        self.assert_nothing_lost();
        self.assert_all_back();
        let status = self.world.health("a");
        assert_eq!(status["protection"], "None", "{status}");
        assert_eq!(
            condition(&status, "Degraded")["status"],
            "False",
            "{status}"
        );
        self.world.stop().await;
    }

    fn assert_all_back(&self) {
        let status = self.world.health("a");
        assert_eq!(self.world.replicas("a"), RUNNING, "{status}");
        assert_eq!(is_marked(&self.world), [false; 3], "{status}");
    }
}
