//! The two processes of the operator, of which one leads; and who starts them again when they have
//! ended, as a kubelet would.

use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    Operator, Process, Seed, ask,
    farm::{Micros, now},
    free_port,
    wait::{self, Look},
};
use fake::oracle::event::{Hurt, Role};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// For an answer of one that may be frozen.
const ANSWER: Duration = Duration::from_secs(2);
/// Kubernetes grants it by default.
const TERMINATION: Duration = Duration::from_secs(30);
/// The lease's duration, and time to be started: as long as this nobody may lead.
const FAILOVER: Duration = Duration::from_secs(60);
/// One that was frozen, or whose seed was away, may find out so late that it does not lead any more.
const EXCUSED: Duration = Duration::from_secs(45);

/// What the log of one says that does not lead any more.
const LOST: &str = "leadership was lost";

/// A process of the operator.
pub(crate) struct Replica {
    operator: Operator,
    name: &'static str,
    port: u16,
    is_frozen: bool,
    /// How often it has lost the leadership.
    losses: usize,
    /// Until then it may lose it.
    excused: Instant,
}

/// Both of them.
pub(crate) struct Replicas {
    both: [Replica; 2],
    /// What they did that they must not.
    pub(crate) problems: Vec<String>,
    /// When one lost the leadership, until somebody takes note of it.
    pub(crate) deposed: Vec<Micros>,
}

impl Replica {
    fn start(seed: &Seed, name: &'static str, second: bool) -> Result<Self> {
        let port = free_port()?;
        let args = [
            "--kube-api-qps=20".to_owned(),
            "--kube-api-burst=40".to_owned(),
            format!("--metrics-bind-addr=127.0.0.1:{port}"),
            format!("--health-bind-addr=127.0.0.1:{port}"),
        ];
        let kubeconfig = if second {
            seed.other_kubeconfig()?
        } else {
            seed.operator_kubeconfig()?
        };
        let args = args.each_ref().map(String::as_str);
        Ok(Self {
            operator: Operator::replica(seed, name, "prober", &kubeconfig, &args)?,
            name,
            port,
            is_frozen: false,
            losses: 0,
            excused: Instant::now(),
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        let pid = self.process().pid();
        pid.with_context(|| format!("{} does not run", self.name))
    }

    fn process(&self) -> &Process {
        &self.operator.process
    }

    /// The value of a metric without labels, or with these as they are written.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let (_, body) = timeout(ANSWER, ask(self.port, "/metrics")).await??;
        let line = format!("dependency_watchdog_{name} ");
        let value = body.lines().find_map(|it| it.strip_prefix(&line));
        let value = value.with_context(|| format!("{} has no metric {name}", self.name))?;
        Ok(value.trim().parse()?)
    }

    /// Whether it leads; one that does not answer is not known to.
    pub(crate) async fn leads(&self) -> bool {
        let leader = self.metric("leader").await;
        !self.is_frozen && leader.is_ok_and(|it| it > 0.0)
    }
}

impl Replicas {
    /// Starts both.
    pub(crate) fn start(seed: &Seed) -> Result<Self> {
        let first = Replica::start(seed, "prober-a", false)?;
        let second = Replica::start(seed, "prober-b", true)?;
        Ok(Self {
            both: [first, second],
            problems: Vec::new(),
            deposed: Vec::new(),
        })
    }

    pub(crate) fn both(&self) -> &[Replica; 2] {
        &self.both
    }

    /// The one that leads, once one does.
    pub(crate) async fn leader(&mut self) -> Result<&mut Replica> {
        let leader = wait::until_within(FAILOVER, "one to lead", async || {
            self.attend()?;
            for (place, replica) in self.both.iter().enumerate() {
                if replica.leads().await {
                    return Ok(Look::Met(place));
                }
            }
            Ok(Look::Not("nobody does".to_owned()))
        })
        .await?;
        self.both.get_mut(leader).context("no leader")
    }

    /// Starts again what has ended. To end without being asked is a problem, and so is to lose the
    /// leadership, unless it was kept from renewing the Lease.
    pub(crate) fn attend(&mut self) -> Result<()> {
        for replica in &mut self.both {
            let losses = replica.process().log()?.matches(LOST).count();
            if losses > replica.losses {
                replica.losses = losses;
                match Instant::now() < replica.excused {
                    true => self.deposed.push(now()),
                    false => self.problems.push(format!("{}: {LOST}", replica.name)),
                }
            }
            if replica.process().is_running() {
                continue;
            }
            let ended = replica.process().ensure_running();
            let ended = ended.err().map_or(String::new(), |it| it.to_string());
            self.problems.push(ended);
            replica.is_frozen = false;
            replica.process().start()?;
        }
        Ok(())
    }

    /// For a while one that loses the leadership is not to blame.
    pub(crate) fn excuse(&mut self) {
        for replica in &mut self.both {
            replica.excused = Instant::now() + EXCUSED;
        }
    }

    /// Does this to the one or to the other. Tells which it was.
    pub(crate) async fn hurt(&mut self, hurt: Hurt, role: Role) -> Result<&'static str> {
        let leader = self.leader().await?.name;
        let wanted = |it: &&mut Replica| (it.name == leader) == (role == Role::Leader);
        let replica = self.both.iter_mut().find(wanted).context("no replica")?;
        match hurt {
            Hurt::Kill => {
                replica.process().kill();
                replica.process().start()?;
            }
            Hurt::Terminate => {
                let ended = replica.process().terminate(TERMINATION).await;
                match ended {
                    Ok(status) if status.success() => {}
                    Ok(status) => {
                        let name = replica.name;
                        let said = format!("asked to end, {name} ended with {status}");
                        self.problems.push(said);
                    }
                    Err(error) => self.problems.push(format!("{error:#}")),
                }
                replica.process().kill();
                replica.process().start()?;
            }
            Hurt::Freeze(_) => {
                replica.process().pause()?;
                replica.is_frozen = true;
            }
        }
        Ok(replica.name)
    }

    /// Lets the frozen one go on.
    pub(crate) fn thaw(&mut self) -> Result<()> {
        for replica in self.both.iter_mut().filter(|it| it.is_frozen) {
            replica.excused = Instant::now() + EXCUSED;
            replica.process().resume()?;
            replica.is_frozen = false;
        }
        Ok(())
    }

    /// Fails if a log tells of a panic.
    pub(crate) fn ensure_calm(&self) -> Result<()> {
        for replica in &self.both {
            let log = replica.process().log()?;
            let panic = log.lines().find(|line| line.contains("panicked at"));
            ensure!(panic.is_none(), "{}: {panic:?}", replica.name);
        }
        Ok(())
    }
}
