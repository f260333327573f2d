//! The second act: the etcd of a control plane goes down, what needs it crash-loops, etcd comes back,
//! and the weeder restarts what would have waited for minutes.

use crate::demo::{
    Findings,
    evidence::seconds,
    narrator::{Narrator, Prompt},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{WeedPolicy, WeedPolicyStatus};
use dependency_watchdog_e2e::{
    API_SERVER, App, BACK_OFF, ETCD, Env, KCM, Operator, SCHEDULER, Stack,
    wait::{self, Look},
};
use jiff::Timestamp;
use kube::Api;
use std::{collections::BTreeSet, io::Write, time::Duration};

/// Applied with kubectl from the repository's root.
const POLICY_FILE: &str = "e2e/src/bin/lab/demo/weed-policy.yaml";
const POLICY: &str = include_str!("weed-policy.yaml");
const POLICY_NAME: &str = "control-planes";

const NAMESPACE: &str = "shoot--garden--paris";
/// What crashes without etcd, sooner or later.
const DEPENDANTS: [App<'_>; 3] = [API_SERVER, KCM, SCHEDULER];
/// How many pods these are.
const PODS: usize = 4;

/// Whatever a step waits for. Several times as long as the slowest takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// All that plays a part.
struct Stage {
    stack: Stack,
    weeder: Operator,
    at_seed: Prompt,
    findings: Findings,
}

/// Tells it. Fails with what did not happen, in which part.
pub(crate) async fn tell<W: Write>(env: &Env, narrator: &mut Narrator<W>) -> Result<Findings> {
    let mut stage = start(env, narrator)
        .await
        .context("the start of the second act failed")?;
    let crashed = stage
        .breaks(narrator)
        .await
        .context("the second act failed, when etcd went down")?;
    stage
        .recovers(narrator, crashed)
        .await
        .context("the second act failed, when etcd came back")?;
    Ok(stage.findings)
}

async fn start<W: Write>(env: &Env, narrator: &mut Narrator<W>) -> Result<Stage> {
    narrator.step("Another control plane: what needs a service crashes without it")?;
    narrator.note(
        "The API servers of a shoot crash without etcd, and its controllers without an API server.\n\
         real       the seed's kube-controller-manager, which makes the pods of the ReplicaSets and the\n\
         \x20          EndpointSlices of the Services, and the operator\n\
         simulated  the pods: a container crashes as soon as what it needs is not ready, and is then at\n\
         \x20          the longest back-off, 5 minutes, which a real one reaches after some six minutes",
    )?;
    let seed = env.seed().await?;
    let stack = env.workloads(&seed).await?.stack(NAMESPACE).await?;
    for app in [&ETCD].into_iter().chain(&DEPENDANTS) {
        stack.run(app).await?;
    }
    narrator.now(&format!("etcd runs in {NAMESPACE}, and all that needs it"))?;
    let stage = Stage {
        weeder: Operator::start(&seed, "weeder", "weeder", &[])?,
        stack,
        at_seed: Prompt {
            cluster: "seed",
            kubectl: seed.kubectl().clone(),
        },
        findings: Findings::new(),
    };
    narrator.now("the operator's weeder starts, with the rights that manifests/weeder grants")?;
    narrator.note("A policy names the services, and who needs them:")?;
    narrator.file(POLICY_FILE, POLICY)?;
    let apply = format!("apply -f {POLICY_FILE}");
    narrator.run(&stage.at_seed, &apply).await?;
    let ready = |status: &WeedPolicyStatus| status.services.ready == 2;
    stage.reports("both services to be ready", ready).await?;
    stage.show(narrator).await?;
    Ok(stage)
}

impl Stage {
    /// Tells from when on the first containers wait for their restart.
    async fn breaks<W: Write>(&self, narrator: &mut Narrator<W>) -> Result<Timestamp> {
        narrator.step("etcd goes down")?;
        let down = Timestamp::now();
        self.stack.down(&ETCD);
        narrator.at(down, "no pod of etcd is ready any more")?;
        for app in &DEPENDANTS {
            self.stack.is_looping(app).await?;
            narrator.now(&format!("{} is in CrashLoopBackOff", app.name))?;
        }
        let none = |it: &WeedPolicyStatus| (it.services.ready, it.open_windows) == (0, 0);
        self.reports("no service to be ready", none).await?;
        self.show(narrator).await?;
        Ok(down)
    }

    async fn recovers<W: Write>(
        &mut self,
        narrator: &mut Narrator<W>,
        crashed: Timestamp,
    ) -> Result<()> {
        narrator.step("etcd is back")?;
        let mut waiting = BTreeSet::new();
        for app in &DEPENDANTS {
            waiting.extend(self.stack.uids(app).await?);
        }
        let before = self.deletions()?.len();
        let back = Timestamp::now();
        self.stack.up(&ETCD);
        narrator.at(back, "the pods of etcd are ready again")?;
        let deletions = self.are_deleted(before, &waiting).await?;
        for (pod, _, time) in &deletions {
            narrator.at(*time, &format!("{pod} is deleted"))?;
        }
        for app in &DEPENDANTS {
            self.stack.is_ready(app).await?;
        }
        let ready = Timestamp::now();
        narrator.at(ready, "new pods are there, and all of them are ready")?;
        let took = seconds("ready before etcd", back, ready)?;
        let waited = seconds("the crash", crashed, ready)?;
        let saved = BACK_OFF.as_secs_f64() - waited;
        ensure!(saved > 0.0, "the back-off was over after {waited:.0} s");
        let weeded = self.deletions()?.len();
        let all = |status: &WeedPolicyStatus| usize::try_from(status.weeded) == Ok(weeded);
        self.reports("what was weeded", all).await?;
        self.show(narrator).await?;
        let events = format!("get events -n {NAMESPACE} --field-selector reason=PodWeeded");
        narrator.run(&self.at_seed, &events).await?;
        narrator.note(&format!(
            "The control plane is back {took:.1} s after etcd; real containers take their time to start,\n\
             and no more. The back-off of the API servers would have lasted {saved:.0} s from now on."
        ))?;
        self.findings = vec![
            (
                "deleted, once each, when etcd was back".to_owned(),
                format!("{PODS} pods in CrashLoopBackOff, and no other"),
            ),
            (
                "from etcd to all pods ready".to_owned(),
                format!("{took:.1} s; their back-off would have lasted {saved:.0} s more"),
            ),
        ];
        Ok(())
    }

    /// The pods that the weeder has deleted: name, UID, and when the API server received it.
    fn deletions(&self) -> Result<Vec<(String, String, Timestamp)>> {
        let requests = self.stack.seed().weeder_requests()?.into_iter();
        let deletions = requests.filter(|request| request.verb == "delete" && request.code == 200);
        deletions
            .map(|request| {
                let uid = request.options.pointer("/preconditions/uid");
                let uid = uid.and_then(|uid| uid.as_str());
                let uid = uid.context("a pod was deleted, whichever it was")?;
                Ok((request.name, uid.to_owned(), request.received))
            })
            .collect()
    }

    /// Waits until these pods, each once, and no others are deleted.
    async fn are_deleted(
        &self,
        before: usize,
        uids: &BTreeSet<String>,
    ) -> Result<Vec<(String, String, Timestamp)>> {
        self.until("the deletions", async || {
            let deletions = self.deletions()?.split_off(before);
            let found: BTreeSet<_> = deletions.iter().map(|(_, uid, _)| uid.clone()).collect();
            Ok(if !found.is_subset(uids) || found.len() < deletions.len() {
                Look::Never(format!("others were deleted, or twice: {deletions:?}"))
            } else if found == *uids {
                Look::Met(deletions)
            } else {
                Look::Not(format!("{deletions:?}"))
            })
        })
        .await
    }

    async fn show<W: Write>(&self, narrator: &mut Narrator<W>) -> Result<()> {
        let pods = format!("get pods -n {NAMESPACE}");
        narrator.run(&self.at_seed, &pods).await?;
        narrator.run(&self.at_seed, "get weedpolicies").await
    }

    /// Waits until the status of the policy is of this kind.
    async fn reports(&self, what: &str, met: impl Fn(&WeedPolicyStatus) -> bool) -> Result<()> {
        let policies: Api<WeedPolicy> = Api::all(self.stack.seed().client()?);
        self.until(what, async || {
            let status = policies.get(POLICY_NAME).await?.status.unwrap_or_default();
            wait::seen(met(&status), format!("{status:?}"))
        })
        .await
    }

    /// Waits, though not for a weeder that has ended.
    async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Result<Look<T>>) -> Result<T> {
        self.weeder.until(LIMIT, what, look).await
    }
}
