//! One run: start, a while in which nothing is wrong, an outage, recovery.

use crate::bench::{
    Settings, host,
    results::{Dead, Host, Outage, PerShootMinute, Recovery, Run, Standby, Start, Steady},
    stats::Spread,
    world::World,
};
use anyhow::{Context as _, Result};
use dependency_watchdog::api::{ClusterState, Protection};
use dependency_watchdog_e2e::{
    Env, Operator, Process,
    farm::{Count, Death, Micros, NOTICE, now},
    usage::{self, Usage},
    wait,
};
use k8s_openapi::api::apps::v1::Deployment;
use std::{collections::BTreeMap, path::Path, time::Duration};
use tokio::time::{Instant, sleep};

/// How the operator is run where it is installed.
const DEPLOYMENT: &str = include_str!("../../../../../manifests/prober/deployment.yaml");
/// Between two looks whether the operator still runs.
const LOOK: Duration = Duration::from_secs(1);

/// Runs so many shoots, and tells what it has measured. Fails only if something does not happen.
pub(crate) async fn run(
    env: &Env,
    root: &Path,
    settings: &Settings,
    shoots: usize,
    nodes: usize,
) -> Result<(Run, Host)> {
    let begun = Instant::now();
    let say = |what: &str| {
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("{shoots} × {nodes}, {seconds:4.0} s: {what}");
    };
    say("starting a seed and a farm");
    let mut world = World::start(env, root, settings, shoots, nodes).await?;
    say("starting the operator");
    let budget = budget()?;
    let budget: Vec<&str> = budget.iter().map(String::as_str).collect();
    let operator = match settings.standby {
        true => replica(&world, "prober", &budget)?,
        false => Operator::start(&world.seed, "prober", "prober", &budget)?,
    };
    let pid = operator.process.pid().context("the operator has ended")?;
    let mut bench = Bench {
        limit: settings.limit(shoots),
        pid,
        standby: None,
        budget: &budget,
        world: &mut world,
    };
    let run = tokio::select! {
        run = bench.phases(settings, say) => run?,
        ended = end(&operator.process) => return Err(ended),
    };
    let server = world.client.apiserver_version().await?.git_version;
    let host = host::describe(pid, server)?;
    say("done");
    Ok((run, host))
}

/// One of two replicas.
fn replica(world: &World, name: &str, budget: &[&str]) -> Result<Operator> {
    let kubeconfig = world.seed.operator_kubeconfig()?;
    Operator::replica(&world.seed, name, "prober", &kubeconfig, budget)
}

/// What the Deployment in the manifests grants the operator of requests to the seed, as flags.
fn budget() -> Result<[String; 2]> {
    let deployment: Deployment = serde_saphyr::from_str(DEPLOYMENT)?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let pod = pod.context("the Deployment in the manifests has no pod")?;
    let variables: Vec<_> = pod
        .containers
        .into_iter()
        .flat_map(|it| it.env.unwrap_or_default())
        .collect();
    let flag = |variable: &str, flag: &str| {
        let found = variables.iter().find(|it| it.name == variable);
        let value = found.and_then(|it| it.value.as_deref());
        let value =
            value.with_context(|| format!("the Deployment in the manifests sets no {variable}"))?;
        anyhow::Ok(format!("--{flag}={value}"))
    };
    Ok([
        flag("DWD_KUBE_API_QPS", "kube-api-qps")?,
        flag("DWD_KUBE_API_BURST", "kube-api-burst")?,
    ])
}

/// Waits for the end of a process, which is a failure here.
async fn end(process: &Process) -> anyhow::Error {
    loop {
        if let Err(ended) = process.ensure_running() {
            return ended;
        }
        sleep(LOOK).await;
    }
}

struct Bench<'a> {
    world: &'a mut World,
    /// Of the operator.
    pid: u32,
    /// The replica that does not lead, if there is one.
    standby: Option<Operator>,
    /// The flags of the operator.
    budget: &'a [&'a str],
    limit: Duration,
}

impl Bench<'_> {
    async fn phases(&mut self, settings: &Settings, say: impl Fn(&str)) -> Result<Run> {
        let shoots = self.world.shoots;
        let (cut, dead) = settings.casualties(shoots);
        let start = self.start().await?;
        if settings.standby {
            say("starting another that stands by");
            self.standby = Some(replica(self.world, "standby", self.budget)?);
        }
        say("waiting until nothing is left of the start");
        self.quiet(settings.quiet()).await?;
        say("measuring while nothing is wrong");
        let all: Vec<usize> = (0..shoots).collect();
        let steady = self.steady(settings.measure, &all).await?;
        let dead = if dead.is_empty() {
            None
        } else {
            say("killing some, and measuring the others");
            Some(self.dead(settings.measure_dead, &dead).await?)
        };
        say("cutting some off");
        let outage = self.outage(&cut).await?;
        say("letting them back");
        let recovery = self.recovery(&cut).await?;
        Ok(Run {
            shoots,
            nodes: self.world.nodes,
            start,
            steady,
            dead,
            outage,
            recovery,
        })
    }

    async fn start(&mut self) -> Result<Start> {
        let begun = Instant::now();
        let asked = self.asked("leases", |count| count.cached + count.consistent > 0);
        asked.await?;
        let asked = begun.elapsed();
        let all: Vec<usize> = (0..self.world.shoots).collect();
        let judged = self.world.report(
            self.limit,
            "every ClusterHealth to say Healthy",
            &all,
            |status| status.reason.as_deref() == Some("Healthy"),
        );
        judged.await?;
        let judged = begun.elapsed();
        self.asked("Nodes", |count| count.nodes > 0).await?;
        // What is reported of each is a part of the start.
        let observed = self.world.report(
            self.limit,
            "every ClusterHealth to say ONLINE",
            &all,
            |status| status.state == Some(ClusterState::Online),
        );
        observed.await?;
        Ok(Start {
            asked: asked.as_secs_f64(),
            judged: judged.as_secs_f64(),
            settled: begun.elapsed().as_secs_f64(),
            computed: usage::computed(self.pid)?.as_secs_f64(),
            peak: usage::memory(self.pid)?.peak,
            seed_requests: self.seed_requests(0, Micros::MAX)?,
        })
    }

    /// Waits until the operator has read nothing from the seed for so long, but by watches.
    async fn quiet(&self, length: Duration) -> Result<()> {
        wait::seldom(self.limit, "the operator to read nothing", async || {
            let requests = self.world.seed.operator_requests()?;
            let reads = requests
                .iter()
                // The Lease is read for as long as somebody stands by.
                .filter(|it| ["get", "list"].contains(&&*it.verb) && it.resource != "leases");
            let last = reads.map(|it| it.received.as_microsecond()).max();
            let since = now() - last.unwrap_or_default();
            let met = since >= length.as_micros() as Micros;
            wait::seen(met, format!("{} s ago", since / 1_000_000))
        })
        .await
    }

    /// Waits until each shoot was asked for this.
    async fn asked(&mut self, what: &str, met: impl Fn(&Count) -> bool) -> Result<()> {
        let what = format!("the {what} of each shoot to be asked for");
        let control = &mut self.world.control;
        wait::seldom(self.limit, &what, async || {
            let counts = control.count().await?;
            let asked = counts.iter().filter(|count| met(count)).count();
            let all = counts.len();
            wait::seen(asked == all, format!("{asked} of {all}"))
        })
        .await
    }

    async fn dead(&mut self, length: Duration, dead: &[(usize, Death)]) -> Result<Dead> {
        let begun = Instant::now();
        self.world.control.kill(dead, now()).await?;
        let shoots: Vec<usize> = dead.iter().map(|(shoot, _)| *shoot).collect();
        let unjudged = self.world.report(
            self.limit,
            "the ClusterHealths of the dead to say something else than Healthy",
            &shoots,
            |status| status.reason.as_deref() != Some("Healthy"),
        );
        unjudged.await?;
        let reported = begun.elapsed().as_secs_f64();
        let all = 0..self.world.shoots;
        let living: Vec<usize> = all.filter(|shoot| !shoots.contains(shoot)).collect();
        Ok(Dead {
            shoots: shoots.len(),
            reported,
            living: self.steady(length, &living).await?,
        })
    }

    /// Measures for so long, and these shoots.
    async fn steady(&mut self, length: Duration, shoots: &[usize]) -> Result<Steady> {
        let farm = self.world.farm.pid().context("the farm has ended")?;
        let server = self.world.seed.server().process().pid();
        let server = server.context("the seed's API server has ended")?;
        let standby = self.standby.as_ref().map(|it| it.process.pid());
        let standby = standby.map(|pid| pid.context("the standby has ended"));
        let standby = standby.transpose()?;
        let pids = [self.pid, farm, server].into_iter().chain(standby);
        let pids: Vec<u32> = pids.collect();
        let (from, before) = (now(), self.world.control.count().await?);
        let usage = Usage::of(&pids)?;
        sleep(length).await;
        let (cores, machine_cores) = Usage::of(&pids)?.cores_since(&usage);
        let (to, after) = (now(), self.world.control.count().await?);
        let seconds = (to - from) as f64 / 1e6;
        let of = |counts: &[Count]| -> Vec<Count> {
            let counts = shoots.iter().filter_map(|shoot| counts.get(*shoot));
            counts.cloned().collect()
        };
        let (before, after) = (of(&before), of(&after));
        let counts: Vec<Count> = after.iter().zip(&before).map(|(a, b)| a.since(b)).collect();
        let seed_requests = self.seed_requests(from, to)?.into_iter();
        let core = |place: usize| cores.get(place).copied().unwrap_or(f64::NAN);
        Ok(Steady {
            length: seconds,
            cores: core(0),
            farm_cores: core(1),
            api_server_cores: core(2),
            machine_cores,
            memory: usage::memory(self.pid)?,
            standby: match standby {
                Some(pid) => Some(Standby {
                    cores: core(3),
                    memory: usage::memory(pid)?,
                }),
                None => None,
            },
            per_shoot_minute: per_shoot_minute(&counts, seconds),
            seed_requests: seed_requests
                .map(|(verb, count)| (verb, count as f64 * 60.0 / seconds))
                .collect(),
        })
    }

    async fn outage(&mut self, shoots: &[usize]) -> Result<Outage> {
        let before = self.world.control.count().await?;
        let usage = Usage::of(&[self.pid])?;
        let cut = now() + NOTICE;
        let nodes = self.world.nodes;
        self.world.control.cut(shoots, nodes, cut).await?;
        let writes = self.world.written(self.limit, shoots, cut).await?;
        let protected = self.world.report(
            self.limit,
            "the ClusterHealths of the silent shoots to say Active",
            shoots,
            |status| status.protection == Protection::Active,
        );
        protected.await?;
        let (cores, machine_cores) = Usage::of(&[self.pid])?.cores_since(&usage);
        let (to, after) = (now(), self.world.control.count().await?);
        self.world.ensure_at_zero(shoots).await?;
        let delays = writes.iter().map(|(shoot, writes)| {
            let certain = self.world.rules.certain(&self.world.kubelets(*shoot), cut);
            certain.and_then(|certain| certain.delay(writes))
        });
        let delays: Option<Vec<_>> = delays.collect();
        let counts = after.iter().zip(&before).map(|(a, b)| a.since(b));
        let silent = counts.enumerate().filter(|(it, _)| shoots.contains(it));
        let silent: Vec<Count> = silent.map(|(_, count)| count).collect();
        let each = |of: fn(&Count) -> u64| {
            let sum: u64 = silent.iter().map(of).sum();
            sum as f64 / silent.len() as f64
        };
        Ok(Outage {
            shoots: shoots.len(),
            delays: delays.context("a silent shoot has no nodes")?,
            reported: (to - cut) as f64 / 1e6,
            cores: cores.first().copied().unwrap_or(f64::NAN),
            machine_cores,
            peak: usage::memory(self.pid)?.peak,
            requests: each(Count::requests),
            to_operator: each(|count| count.sent),
            seed_requests: self.seed_requests(cut, to)?.values().sum(),
        })
    }

    async fn recovery(&mut self, shoots: &[usize]) -> Result<Recovery> {
        let back = now() + NOTICE;
        self.world.control.restore(shoots, back).await?;
        let writes = self.world.written(self.limit, shoots, back).await?;
        let over = self.world.report(
            self.limit,
            "the ClusterHealths of the restored shoots to say None",
            shoots,
            |status| status.protection == Protection::None,
        );
        over.await?;
        let reported = (now() - back) as f64 / 1e6;
        self.world.ensure_at_zero(&[]).await?;
        let after =
            |time: Option<&jiff::Timestamp>| Some((time?.as_microsecond() - back) as f64 / 1e6);
        Ok(Recovery {
            first: Spread::of(
                writes
                    .values()
                    .filter_map(|times| after(times.iter().min())),
            ),
            last: Spread::of(
                writes
                    .values()
                    .filter_map(|times| after(times.iter().max())),
            ),
            reported,
        })
    }

    /// What the operator has asked of the seed in a time, by verb.
    fn seed_requests(&self, from: Micros, to: Micros) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for request in self.world.seed.operator_requests()? {
            if (from..to).contains(&request.received.as_microsecond()) {
                *counts.entry(request.verb).or_default() += 1;
            }
        }
        Ok(counts)
    }
}

fn per_shoot_minute(counts: &[Count], seconds: f64) -> PerShootMinute {
    let rate = |of: fn(&Count) -> u64| {
        let sum: u64 = counts.iter().map(of).sum();
        sum as f64 / counts.len() as f64 * 60.0 / seconds
    };
    PerShootMinute {
        requests: rate(Count::requests),
        lists_of_leases: rate(|count| count.cached + count.consistent),
        lists_of_nodes: rate(|count| count.nodes),
        readiness: rate(|count| count.ready),
        to_operator: rate(|count| count.sent),
        from_operator: rate(|count| count.received),
        handshakes: rate(|count| count.handshakes),
    }
}
