//! Who looks after the operator of a run: starts it again when it has ended, as a kubelet would, and
//! does to it what the script asks for.

use super::super::{Fault, script::Script, stage::Stage};
use crate::{Kubeconfig, Operator, Seed, wait};
use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{Api, api::PostParams};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::sleep};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);
/// For how long one is frozen, and for how long another holds the Lease.
const AWAY: Duration = Duration::from_secs(4);
const STOLEN_SECONDS: i32 = 4;

/// Few seconds, and still enough on a machine that is busy: who leads is not what a run is about.
const ELECTION: [&str; 4] = [
    "--enable-leader-election",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];
const LEASE: &str = "dwd-prober-leader-election";

/// Starts an operator, with an election in this namespace if any.
pub(super) fn start(
    seed: &Seed,
    name: &str,
    kubeconfig: &Kubeconfig,
    election: Option<&str>,
) -> Result<Arc<Operator>> {
    let mut args = vec![
        "prober".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=200".to_owned(),
    ];
    if let Some(namespace) = election {
        args.extend(ELECTION.map(str::to_owned));
        args.push(format!("--leader-election-namespace={namespace}"));
    }
    let env = vec![("HOSTNAME".to_owned(), name.to_owned())];
    let operator = Operator::exactly(seed, name, kubeconfig, &args, env)?;
    Ok(Arc::new(operator))
}

pub(super) struct Attendant<'a> {
    pub(super) stage: &'a Stage,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) kubeconfig: Kubeconfig,
    pub(super) script: Arc<Script>,
    pub(super) operator: Arc<Operator>,
    pub(super) second: Option<Arc<Operator>>,
    pub(super) demands: mpsc::UnboundedReceiver<Fault>,
    /// The crashes that were seen.
    pub(super) accounted: usize,
    pub(super) problems: Vec<String>,
}

impl Attendant<'_> {
    /// Attends as long as it is let.
    pub(super) async fn attend(&mut self) -> Result<Infallible> {
        loop {
            tokio::select! {
                demand = self.demands.recv() => {
                    let demand = demand.context("the script is gone")?;
                    self.carry_out(demand).await?;
                    self.script.end();
                }
                () = sleep(LOOK) => self.look()?,
            }
        }
    }

    fn look(&mut self) -> Result<()> {
        if let Some(second) = &self.second
            && !second.process.is_running()
        {
            self.problems
                .push("the second operator has ended".to_owned());
            self.second = None;
        }
        if self.operator.process.is_running() {
            return Ok(());
        }
        if self.script.crashes() > self.accounted {
            self.accounted += 1;
        } else {
            let ended = self.operator.process.ensure_running();
            let ended = ended.err().map_or(String::new(), |it| it.to_string());
            self.problems.push(ended);
        }
        self.operator.process.start()
    }

    async fn carry_out(&mut self, fault: Fault) -> Result<()> {
        let process = &self.operator.process;
        match fault {
            Fault::Frozen => {
                process.pause()?;
                sleep(AWAY).await;
                process.resume()
            }
            Fault::SecondOperator => {
                let name = format!("{}-second", self.name);
                let second = start(&self.stage.seed, &name, &self.kubeconfig, None)?;
                self.second = Some(second);
                Ok(())
            }
            Fault::LeaderLost => self.steal().await,
            other => bail!("{other} is none of the attendant's business"),
        }
    }

    /// Takes the Lease by force: somebody did not wait for it to run out.
    async fn steal(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.stage.seed.client()?, &self.namespace);
        wait::until("the Lease to be taken", async || {
            let mut lease = leases.get(LEASE).await?;
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some("somebody-else".to_owned());
            spec.lease_duration_seconds = Some(STOLEN_SECONDS);
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            // It is refused if the holder has just renewed it.
            leases
                .replace(LEASE, &PostParams::default(), &lease)
                .await?;
            Ok(wait::Look::Met(()))
        })
        .await
    }

    /// Asks the operator to end, which must do so in order.
    async fn ends(&mut self, limit: Duration) -> Result<()> {
        let ended = self.operator.process.terminate(limit).await;
        match ended {
            Ok(status) if status.success() => {}
            Ok(status) => {
                let problem = format!("asked to end, the operator ended with {status}");
                self.problems.push(problem);
            }
            Err(error) => self.problems.push(format!("{error:#}")),
        }
        Ok(())
    }

    /// Ends all that runs.
    pub(super) async fn finish(&mut self, limit: Duration) -> Result<()> {
        if let Some(second) = self.second.take() {
            second.process.terminate(limit).await?;
        }
        // It may have crashed at its very last write.
        self.look()?;
        self.ends(limit).await
    }
}
