//! One run: start, a while in which nothing is wrong, an outage, recovery.

use crate::bench::{
    Settings,
    delay::Delay,
    host,
    table::{Rows, hundredths, mib, spread, tenths},
    world::World,
};
use anyhow::{Context as _, Result};
use dependency_watchdog::api::{ClusterHealthStatus, ClusterState, Protection};
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
) -> Result<(Rows, String)> {
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
    let host = host::describe(pid, &server)?;
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
    async fn phases(&mut self, settings: &Settings, say: impl Fn(&str)) -> Result<Rows> {
        let (cut, dead) = settings.casualties(self.world.shoots);
        let mut rows = self.start().await?;
        if settings.standby {
            say("starting another that stands by");
            self.standby = Some(replica(self.world, "standby", self.budget)?);
        }
        say("waiting until nothing is left of the start");
        self.quiet(settings.quiet()).await?;
        say("measuring while nothing is wrong");
        let (steady, beside) = self.steady(settings.measure).await?;
        rows.extend(steady);
        say("killing some, and measuring the others");
        rows.extend(self.dead(settings.measure_dead, &dead).await?);
        say("cutting some off");
        rows.extend(self.outage(&cut).await?);
        say("letting them back");
        rows.extend(self.recovery(&cut).await?);
        rows.extend(beside);
        Ok(rows)
    }

    /// From the start of the operator until nothing is left to be learned.
    async fn start(&mut self) -> Result<Rows> {
        let begun = Instant::now();
        self.asked("leases", |count| count.leases() > 0).await?;
        let all: Vec<usize> = (0..self.world.shoots).collect();
        let what = "every ClusterHealth to say Healthy";
        let is_healthy = |it: &ClusterHealthStatus| it.reason.as_deref() == Some("Healthy");
        self.world
            .report(self.limit, what, &all, is_healthy)
            .await?;
        self.asked("Nodes", |count| count.nodes > 0).await?;
        // What is reported of each is a part of the start.
        let what = "every ClusterHealth to say ONLINE";
        let is_online = |it: &ClusterHealthStatus| it.state == Some(ClusterState::Online);
        self.world.report(self.limit, what, &all, is_online).await?;
        let asked = self.seed_requests(0, Micros::MAX)?;
        let asked = asked.iter().map(|(verb, count)| format!("{verb} {count}"));
        Ok(vec![
            ("**start**", String::new()),
            (
                "every ClusterHealth Healthy and ONLINE, s",
                tenths(begun.elapsed().as_secs_f64()),
            ),
            (
                "resident memory, peak, MiB",
                mib(usage::memory(self.pid)?.peak),
            ),
            ("requests to the seed", told(asked)),
        ])
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

    /// While nothing is wrong: of the operator, and of what is beside it.
    async fn steady(&mut self, length: Duration) -> Result<(Rows, Rows)> {
        let standby = self.standby.as_ref().map(|it| it.process.pid());
        let standby = standby.map(|pid| pid.context("the standby has ended"));
        let standby = standby.transpose()?;
        let pids: Vec<u32> = [self.pid].into_iter().chain(standby).collect();
        let (from, before) = (now(), self.world.control.count().await?);
        let usage = Usage::of(&pids)?;
        sleep(length).await;
        let (cores, machine) = Usage::of(&pids)?.cores_since(&usage);
        let (to, after) = (now(), self.world.control.count().await?);
        let minutes = (to - from) as f64 / 60e6;
        let counts: Vec<Count> = after.iter().zip(&before).map(|(a, b)| a.since(b)).collect();
        let each = |of: fn(&Count) -> u64| {
            let sum: u64 = counts.iter().map(of).sum();
            sum as f64 / counts.len() as f64 / minutes
        };
        let asked = self.seed_requests(from, to)?;
        let rate = |count: &usize| hundredths(*count as f64 / minutes);
        let asked = asked
            .iter()
            .map(|(verb, count)| format!("{verb} {}", rate(count)));
        let core = |place: usize| {
            cores
                .get(place)
                .map_or("none".to_owned(), |it| format!("{it:.4}"))
        };
        let memory = standby.map(usage::memory).transpose()?;
        let memory = memory.map_or("none".to_owned(), |it| mib(it.resident));
        let rows = vec![
            ("**nothing is wrong**", String::new()),
            ("cores", core(0)),
            (
                "resident memory, MiB",
                mib(usage::memory(self.pid)?.resident),
            ),
            (
                "per shoot and minute: requests",
                hundredths(each(Count::requests)),
            ),
            ("… KiB to the operator", tenths(each(|it| it.sent) / 1024.0)),
            ("… TLS handshakes", hundredths(each(|it| it.handshakes))),
            ("requests to the seed per minute", told(asked)),
        ];
        let beside = vec![
            (
                "**beside the operator, while nothing is wrong**",
                String::new(),
            ),
            ("cores of the standby", core(1)),
            ("… its resident memory, MiB", memory),
            ("cores of the whole machine", hundredths(machine)),
        ];
        Ok((rows, beside))
    }

    /// Some API servers die, in all ways alike, and stay dead for the rest of the run.
    async fn dead(&mut self, length: Duration, dead: &[(usize, Death)]) -> Result<Rows> {
        let begun = Instant::now();
        self.world.control.kill(dead, now()).await?;
        let shoots: Vec<usize> = dead.iter().map(|(shoot, _)| *shoot).collect();
        let what = "the ClusterHealths of the dead to say something else than Healthy";
        let is_told = |it: &ClusterHealthStatus| it.reason.as_deref() != Some("Healthy");
        self.world
            .report(self.limit, what, &shoots, is_told)
            .await?;
        let reported = begun.elapsed().as_secs_f64();
        let usage = Usage::of(&[self.pid])?;
        sleep(length).await;
        let (cores, _) = Usage::of(&[self.pid])?.cores_since(&usage);
        Ok(vec![
            (
                "**some API servers are dead**",
                format!("{} shoots", shoots.len()),
            ),
            (
                "death → every ClusterHealth of theirs says so, s",
                tenths(reported),
            ),
            ("cores", four(&cores)),
        ])
    }

    /// Some shoots lose their network at once.
    async fn outage(&mut self, shoots: &[usize]) -> Result<Rows> {
        let usage = Usage::of(&[self.pid])?;
        let cut = now() + NOTICE;
        let nodes = self.world.nodes;
        self.world.control.cut(shoots, nodes, cut).await?;
        let writes = self.world.written(self.limit, shoots, cut).await?;
        let what = "the ClusterHealths of the silent shoots to say Active";
        let is_active = |it: &ClusterHealthStatus| it.protection == Protection::Active;
        self.world
            .report(self.limit, what, shoots, is_active)
            .await?;
        let (cores, _) = Usage::of(&[self.pid])?.cores_since(&usage);
        let reported = (now() - cut) as f64 / 1e6;
        self.world.ensure_at_zero(shoots).await?;
        let delays = writes.iter().map(|(shoot, writes)| {
            let certain = self.world.rules.certain(&self.world.kubelets(*shoot), cut);
            certain.and_then(|certain| certain.delay(writes))
        });
        let delays: Option<Vec<Delay>> = delays.collect();
        let delays = delays.context("a silent shoot has no nodes")?;
        let left = delays.iter().map(|delay| delay.left);
        let least = left.clone().fold(f64::INFINITY, f64::min);
        let in_time = match left.filter(|left| *left < 0.0).count() {
            0 => "yes".to_owned(),
            late => format!("no, {late} late"),
        };
        Ok(vec![
            (
                "**outage of several at once**",
                format!("{} shoots", delays.len()),
            ),
            (
                "stamps certain → first write, s",
                spread(delays.iter().map(|delay| delay.first)),
            ),
            (
                "stamps certain → last write, s",
                spread(delays.iter().map(|delay| delay.last)),
            ),
            (
                "left before the first node is lost, least, s",
                hundredths(least),
            ),
            ("all written before that", in_time),
            ("cut → every ClusterHealth Active, s", tenths(reported)),
            ("cores", four(&cores)),
            (
                "resident memory, peak, MiB",
                mib(usage::memory(self.pid)?.peak),
            ),
        ])
    }

    /// They get it back.
    async fn recovery(&mut self, shoots: &[usize]) -> Result<Rows> {
        let back = now() + NOTICE;
        self.world.control.restore(shoots, back).await?;
        let writes = self.world.written(self.limit, shoots, back).await?;
        let what = "the ClusterHealths of the restored shoots to say None";
        let is_over = |it: &ClusterHealthStatus| it.protection == Protection::None;
        self.world.report(self.limit, what, shoots, is_over).await?;
        let reported = (now() - back) as f64 / 1e6;
        self.world.ensure_at_zero(&[]).await?;
        let last = writes.values().filter_map(|times| times.iter().max());
        Ok(vec![
            ("**recovery**", String::new()),
            (
                "network back → last write, s",
                spread(last.map(|it| (it.as_microsecond() - back) as f64 / 1e6)),
            ),
            (
                "network back → every ClusterHealth None, s",
                tenths(reported),
            ),
        ])
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

/// The cores of the one process that was looked at.
fn four(cores: &[f64]) -> String {
    format!("{:.4}", cores.first().copied().unwrap_or(f64::NAN))
}

/// Requests by verb, in words.
fn told(counts: impl Iterator<Item = String>) -> String {
    let counts: Vec<String> = counts.collect();
    match counts.is_empty() {
        true => "none".to_owned(),
        false => counts.join(", "),
    }
}
