//! A rest: all is made healthy and must come to be exactly as it was; then it is measured what the
//! operator uses, and some fall silent, who must be protected.

use crate::{
    leaks::Sample,
    well::{ensure_health, ensure_policy},
    world::{NAME, World},
};
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::{ClusterHealth, ProbePolicy};
use dependency_watchdog_e2e::{
    farm::{Count, now},
    usage,
    wait::{self, Look},
};
use fake::oracle::{self, event::Event, outages::Outages, versions::names};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _, api::ListParams};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Until all is well. Another must lead first (15 s), read and judge all; an API server that was dead
/// is tried again within half a minute, and Nodes are looked at once a minute.
const WELL: Duration = Duration::from_secs(240);
/// In which nothing is done, and nothing may be written to a dependent.
const QUIET: Duration = Duration::from_secs(15);
/// Until those that fall silent are protected: their leases expire after 24 s at most, and to watch
/// the silence takes no longer than that. The rest is for a machine that is busy.
const PROTECTED: Duration = Duration::from_secs(60);
/// Connections that are not used are closed after 90 s.
const CLOSED: Duration = Duration::from_secs(150);

/// What a rest has shown.
pub(crate) struct Rest {
    /// Seconds until all was well.
    pub(crate) well: f64,
    /// Of both processes.
    pub(crate) samples: Vec<Sample>,
    /// Requests for each shoot and minute while nothing was wrong.
    pub(crate) requests: f64,
    /// Seconds until those that fell silent were protected.
    pub(crate) protected: Option<f64>,
}

impl World {
    /// Has everything come to rest. Fails if it does not, or if a rule was broken before.
    pub(crate) async fn rest(&mut self, number: usize) -> Result<Rest> {
        let begun = Instant::now();
        // What is broken already may be why it would never be well.
        self.judge()?;
        self.heal().await?;
        let well = wait::seldom(WELL, "all to be as people want it", async || {
            self.attend()?;
            self.is_well().await?;
            self.nothing_hangs().await?;
            Ok(Look::Met(()))
        })
        .await;
        self.judge()?;
        well?;
        let well = begun.elapsed().as_secs_f64();
        let versions = self.versions.history().len();
        let (from, before) = (Instant::now(), self.control.count().await?);
        self.pass(QUIET).await?;
        let (after, passed) = (self.control.count().await?, from.elapsed());
        self.is_well().await?;
        let written = self.versions.history().len() - versions;
        ensure!(
            written == 0,
            "{written} writes to dependents while nothing was wrong"
        );
        let requests: u64 = after.iter().zip(&before).map(requests).sum();
        Ok(Rest {
            well,
            samples: self.samples(number).await?,
            requests: requests as f64 * 60.0 / passed.as_secs_f64() / self.shoots as f64,
            protected: None,
        })
    }

    /// Cuts some off while all else is well, and waits until they, and no others, are protected.
    pub(crate) async fn drill(&mut self, shoots: &[usize]) -> Result<f64> {
        for shoot in shoots {
            let event = Event::Cut {
                shoot: *shoot,
                nodes: self.nodes,
            };
            self.carry_out(&event).await?;
        }
        let begun = Instant::now();
        let what = format!("the silent shoots {shoots:?} to be protected, and no others");
        wait::seldom(PROTECTED, &what, async || {
            self.attend()?;
            let (dependents, _) = self.dependents().await?;
            for it in dependents {
                let is_silent = shoots.contains(&it.shoot);
                let is_taken = it.marked && it.replicas == 0;
                if is_taken && !is_silent {
                    return Ok(Look::Never(format!(
                        "shoot {} is not silent: {it}",
                        it.shoot
                    )));
                }
                ensure!(
                    is_taken == is_silent,
                    "{} of shoot {}: {it}",
                    it.name,
                    it.shoot
                );
            }
            Ok(Look::Met(()))
        })
        .await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Fails if anything was done that must not be.
    pub(crate) fn judge(&self) -> Result<()> {
        let history = self.versions.history();
        let mut broken = oracle::judge(&history, &self.truth, now());
        broken.extend(self.replicas.problems.iter().cloned());
        ensure!(
            broken.is_empty(),
            "{} broken:\n{}",
            broken.len(),
            broken.join("\n")
        );
        self.replicas.ensure_calm()
    }

    /// Fails unless everything is exactly as people want it, and reported so.
    pub(crate) async fn is_well(&self) -> Result<()> {
        let names = names(self.shoots);
        let (dependents, listed) = self.dependents().await?;
        ensure!(
            dependents.len() == self.wanted.len(),
            "{} dependents",
            dependents.len()
        );
        for it in &dependents {
            let mut wanted = self.wanted.iter();
            let wanted = wanted.find(|((shoot, name), _)| *shoot == it.shoot && *name == it.name);
            let wanted = wanted.map(|(_, replicas)| i64::from(*replicas));
            let is_so = wanted == Some(it.replicas) && !it.marked && !it.ignored;
            ensure!(
                is_so,
                "{} of shoot {}: wanted {wanted:?}, {it}",
                it.name,
                it.shoot
            );
        }
        if let Some(other) = listed.iter().find(|it| !has_settled(it, &names)) {
            bail!("pods of {} in {:?}", other.name_any(), other.namespace());
        }
        self.versions.ensure_newest(&dependents)?;
        let healths: Api<ClusterHealth> = Api::all(self.client.clone());
        let healths = healths.list(&ListParams::default()).await?.items;
        ensure!(
            healths.len() == self.shoots,
            "{} ClusterHealths",
            healths.len()
        );
        for health in &healths {
            ensure_health(health)?;
        }
        let policies: Api<ProbePolicy> = Api::all(self.client.clone());
        ensure_policy(&policies.get(NAME).await?, self.shoots)?;
        let mut leaders = 0;
        for replica in self.replicas.both() {
            if !replica.leads().await {
                continue;
            }
            leaders += 1;
            let judged = replica.metric(r#"clusters{state="judged"}"#).await?;
            ensure!(judged as usize == self.shoots, "{judged} clusters judged");
            for gauge in ["owed_dependents", "protected_clusters", "flows_in_flight"] {
                let value = replica.metric(gauge).await?;
                ensure!(value == 0.0, "{gauge} of {}: {value}", replica.name());
            }
        }
        ensure!(leaders == 1, "{leaders} lead");
        Ok(())
    }

    /// Fails while a probe is under way: it may hang since its API server was dead, and what was found
    /// before it stands until it is given up.
    async fn nothing_hangs(&self) -> Result<()> {
        for replica in self.replicas.both() {
            let probes = replica.metric("probes_in_flight").await?;
            ensure!(probes == 0.0, "{probes} probes of {}", replica.name());
        }
        Ok(())
    }

    /// What both processes use.
    pub(crate) async fn samples(&self, rest: usize) -> Result<Vec<Sample>> {
        let seed = self.seed.server().url();
        let seed = seed
            .rsplit(':')
            .next()
            .and_then(|it| it.parse::<u16>().ok());
        let seed = seed.context("the seed has no port")?;
        let mut samples = Vec::new();
        for replica in self.replicas.both() {
            let pid = replica.pid()?;
            let (files, peers) = usage::files(pid)?;
            let to_shoots = peers
                .iter()
                .filter(|it| self.description.ports.contains(it));
            samples.push(Sample {
                rest,
                name: replica.name(),
                pid,
                leads: replica.leads().await,
                memory: usage::memory(pid)?.resident,
                threads: usage::threads(pid)?,
                tasks: replica.metric("tasks").await? as usize,
                files,
                to_shoots: to_shoots.count(),
                to_seed: peers.iter().filter(|it| **it == seed).count(),
            });
        }
        Ok(samples)
    }

    /// Waits until no more is open than there has to be: what the walk has left is closed in time.
    pub(crate) async fn closes(&mut self, rest: usize) -> Result<Vec<Sample>> {
        let cores = std::thread::available_parallelism()?.get() as u64;
        wait::seldom(CLOSED, "what is not needed to be closed", async || {
            self.attend()?;
            let samples = self.samples(rest).await?;
            let excess = |it: &Sample| crate::leaks::excess(it, self.shoots, cores);
            let excess: Vec<String> = samples.iter().flat_map(excess).collect();
            Ok(if excess.is_empty() {
                Look::Met(samples)
            } else {
                Look::Not(excess.join("; "))
            })
        })
        .await
    }

    /// What has become of the outages so far.
    pub(crate) fn outages(&self) -> Outages {
        Outages::new(&self.truth, &self.versions.history(), now())
    }
}

fn requests((after, before): (&Count, &Count)) -> u64 {
    after.requests() - before.requests()
}

/// Whether its pods are those that it should have; the operator's own installation has none.
fn has_settled(deployment: &Deployment, names: &BTreeMap<String, usize>) -> bool {
    let of_shoot = deployment
        .namespace()
        .is_some_and(|it| names.contains_key(&it));
    let wanted = deployment.spec.as_ref().and_then(|it| it.replicas);
    let ready = deployment.status.as_ref().and_then(|it| it.ready_replicas);
    !of_shoot || ready.unwrap_or(0) == wanted.unwrap_or(1)
}
