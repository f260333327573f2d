//! Who looks after the operator of a run: starts it again when it has ended, as a kubelet would, and does what goes
//! wrong beside a write.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use dependency_watchdog::prober;
use fake::{
    chaos::{Course, Fault},
    farm::{Behaviour, micros},
    fault::{Fate, Rule},
    server::Switches,
};
use serde_json::json;
use tokio::{
    sync::{Mutex, mpsc},
    time::{advance, sleep},
};

use crate::world::{Election, Operator, Role, World, now};

/// From a crash until the operator is started again.
const START: Duration = Duration::from_millis(100);
/// For how long one is frozen, and for how long another holds the Lease.
const AWAY: Duration = Duration::from_secs(4);
/// For how long a server of the seed is away that is started again.
const RESTART: Duration = Duration::from_secs(2);

pub struct Attendant {
    fault: Option<Fault>,
    demands: Mutex<mpsc::UnboundedReceiver<()>>,
    operator: RefCell<Option<Operator>>,
    second: RefCell<Option<Operator>>,
    is_busy: Cell<bool>,
    problems: RefCell<Vec<String>>,
}

impl Attendant {
    /// Starts the operator of a run in which this goes wrong whenever it is demanded.
    pub fn begin(
        world: &World,
        fault: Option<Fault>,
        demands: mpsc::UnboundedReceiver<()>,
    ) -> Self {
        let attendant = Self {
            fault,
            demands: Mutex::new(demands),
            operator: RefCell::default(),
            second: RefCell::default(),
            is_busy: Cell::new(false),
            problems: RefCell::default(),
        };
        attendant.start(world);
        attendant
    }

    /// Whether something is yet to be done or undone.
    pub fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// Whether one operator acts. Of two, who is the first to let the cluster go deletes a ClusterHealth that the other
    /// still keeps, and creates again.
    pub fn is_alone(&self) -> bool {
        self.fault != Some(Fault::SecondOperator)
    }

    /// Whether what is said may be older than what is so: a status that a restored etcd does not have is written again
    /// with the next change.
    pub fn may_say_less(&self) -> bool {
        self.fault == Some(Fault::EtcdRestored)
    }

    /// Attends as long as it is let.
    pub async fn attend<T>(&self, world: &World) -> T {
        loop {
            let demand = async { self.demands.lock().await.recv().await };
            tokio::select! {
                Some(()) = demand => {
                    self.is_busy.set(true);
                    if let Some(fault) = self.fault {
                        self.carry_out(fault, world).await;
                    }
                    self.is_busy.set(false);
                }
                () = sleep(START) => self.look(world),
            }
        }
    }

    /// Ends all that runs. Returns what was wrong with it.
    pub async fn finish(&self) -> Vec<String> {
        for operator in [&self.second, &self.operator] {
            if let Some(operator) = operator.take() {
                operator.end().await;
            }
        }
        self.problems.take()
    }

    fn start(&self, world: &World) {
        let election = match self.fault {
            Some(fault) if fault.needs_election() => Election::Stands,
            _ => Election::None,
        };
        self.operator
            .replace(Some(world.start(Role::Prober, election)));
    }

    fn look(&self, world: &World) {
        let has_ended = self
            .operator
            .borrow()
            .as_ref()
            .is_some_and(Operator::has_ended);
        if has_ended {
            let problem = "the operator has ended".to_owned();
            self.problems.borrow_mut().push(problem);
            self.start(world);
        }
    }

    async fn carry_out(&self, fault: Fault, world: &World) {
        let seed = &world.seed;
        let time = match fault.course() {
            Course::While(time) => time,
            _ => Duration::ZERO,
        };
        let while_switched = async |change: &dyn Fn(&mut Switches)| {
            seed.switch(|it| change(it));
            sleep(time).await;
            seed.switch(|it| *it = Switches::default());
        };
        // The write itself is the last that was committed.
        let before = seed.store(|store, _| store.revision()).saturating_sub(1);
        match fault {
            Fault::CrashBefore | Fault::CrashAfter => self.crash(world).await,
            Fault::StaleStart => {
                let stale = |it: &mut Switches| it.stale = Some(before);
                tokio::join!(while_switched(&stale), self.crash(world));
            }
            Fault::StaleReads => while_switched(&|it| it.stale = Some(before)).await,
            Fault::WatchesLate => while_switched(&|it| it.late_watches = true).await,
            Fault::SeedSilent => while_switched(&|it| it.silent = true).await,
            Fault::WatchesCut => seed.cut_watches(),
            Fault::WatchesGone => {
                seed.cut_watches();
                while_switched(&|it| it.gone_watches = true).await;
            }
            Fault::SeedAway => {
                seed.restart();
                while_switched(&|it| it.away = true).await;
            }
            Fault::SeedRestart => {
                seed.restart();
                seed.switch(|it| it.away = true);
                sleep(RESTART).await;
                seed.switch(|it| it.away = false);
            }
            Fault::EtcdRestored => {
                seed.switch(|it| it.away = true);
                seed.store(|store, _| {
                    // A controller may have answered the write by another.
                    let is_answered = store.has_settled_last();
                    store.roll_back(before.saturating_sub(u64::from(is_answered)));
                });
                seed.restart();
                sleep(RESTART).await;
                seed.switch(|it| it.away = false);
            }
            Fault::EtcdRestart => {
                let is_away = Arc::new(AtomicBool::new(true));
                let away = is_away.clone();
                let refused = Fate::Refuse(500, None);
                seed.rule(Rule::always(refused, move |_| away.load(Relaxed)));
                sleep(RESTART).await;
                is_away.store(false, Relaxed);
            }
            Fault::StaleLeases => {
                let lag = |lag: Duration| {
                    let lag = micros(lag);
                    let show = |it: &mut Behaviour| (it.lag, it.cache_age) = (lag, lag);
                    world.shoot(0).behave(show);
                };
                lag(time);
                sleep(time).await;
                lag(Duration::ZERO);
            }
            Fault::ShootAway => {
                world.shoots.gate.sever();
                sleep(time).await;
                world.shoots.gate.open();
            }
            Fault::ShootSilent => {
                world.shoots.gate.shut();
                sleep(time).await;
                world.shoots.gate.open();
            }
            Fault::Frozen => advance(AWAY).await,
            Fault::Terminated => {
                let operator = self.operator.take();
                operator.unwrap().end().await;
                self.start(world);
            }
            Fault::SecondOperator => {
                let second = world.start(Role::Prober, Election::None);
                self.second.replace(Some(second));
            }
            Fault::LeaderLost => world.edit("leases", "garden", prober::LEASE, |lease| {
                lease["spec"]["holderIdentity"] = json!("somebody-else");
                lease["spec"]["leaseDurationSeconds"] = json!(AWAY.as_secs());
                lease["spec"]["renewTime"] = json!(format!("{:.6}", now()));
            }),
            Fault::Conflict
            | Fault::ServerError
            | Fault::Unavailable
            | Fault::TooMany
            | Fault::Reset
            | Fault::Lost
            | Fault::Hang
            | Fault::SeedConnectionsDead => {}
        }
    }

    async fn crash(&self, world: &World) {
        let operator = self.operator.take();
        operator.unwrap().kill();
        sleep(START).await;
        self.start(world);
    }
}
