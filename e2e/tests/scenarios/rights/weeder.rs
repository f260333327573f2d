//! Each right of the weeder is taken away in turn.

use super::{super::Scenario, apply, create_lease, delete_lease, is_granted, is_logged, without};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{WeedPolicy, WeedPolicyStatus};
use dependency_watchdog_e2e::{
    App, Env, Operator, Policy, Stack,
    wait::{self, seen},
};
use serde_json::json;
use std::collections::BTreeSet;

use Given::{Away, Changed, Elected, Looping, Nothing, Recovery};
use Told::{Blind, Degraded, InLog};

pub(super) const ROLES: &str = include_str!("../../../../manifests/weeder/rbac.yaml");
const LEASE: &str = "dwd-weeder-leader-election";
const WEEDER: &str = "system:serviceaccount:garden:dwd-weeder";

const BACKEND: App<'_> = App {
    name: "backend",
    replicas: 1,
    labels: &[],
    service: Some("backend"),
    needs: None,
};
/// Crashes when it is told to.
const FRONTEND: App<'_> = App {
    name: "frontend",
    service: None,
    ..BACKEND
};

pub(super) fn all() -> Vec<Scenario> {
    super::super::scenarios![e2e_each_right_of_the_weeder_is_needed_and_missed_aloud]
}

/// In which the right would be used by a weeder that starts.
enum Given {
    /// A service that is ready, and a policy that names it.
    Nothing,
    /// The policy has just been changed.
    Changed,
    /// The service is not ready, so that no window is open.
    Away,
    /// A pod that needs the service is in CrashLoopBackOff.
    Looping,
    /// The service goes and comes back twice while it runs, so that what is told is told again.
    Recovery,
    /// It stands for election. The Lease is there, and free, if so it says.
    Elected { free: bool },
}

/// Where it is told that the right is missing.
enum Told {
    /// In a line of the log.
    InLog,
    /// There, and on the policy, which is not ready.
    Blind,
    /// On the policy, for this reason.
    Degraded(&'static str),
}

/// Of what is asked ahead.
const AHEAD: Told = Degraded("RightsMissing");

struct Row(&'static str, &'static str, Given, Told);

/// By resource and verb, in the order of the roles.
const ROWS: [Row; 18] = [
    Row("namespaces", "list", Nothing, Blind),
    Row("namespaces", "watch", Nothing, InLog),
    Row("pods", "delete", Away, AHEAD),
    Row("pods", "delete", Looping, Degraded("DeletionRefused")),
    Row("pods", "list", Away, AHEAD),
    Row("pods", "list", Looping, Degraded("PodsUnwatched")),
    Row("pods", "watch", Away, AHEAD),
    Row("pods", "watch", Looping, Degraded("PodsUnwatched")),
    Row("weedpolicies", "list", Nothing, InLog),
    Row("weedpolicies", "watch", Nothing, InLog),
    Row("weedpolicies/status", "patch", Changed, InLog),
    Row("endpointslices", "list", Nothing, Blind),
    Row("endpointslices", "watch", Nothing, InLog),
    Row("events", "create", Looping, InLog),
    Row("events", "patch", Recovery, InLog),
    Row("leases", "create", Elected { free: false }, InLog),
    Row("leases", "get", Elected { free: true }, InLog),
    Row("leases", "update", Elected { free: true }, InLog),
];

/// Resource and verb of each row.
pub(super) fn tried() -> BTreeSet<(&'static str, &'static str)> {
    ROWS.iter().map(|row| (row.0, row.1)).collect()
}

async fn e2e_each_right_of_the_weeder_is_needed_and_missed_aloud(env: Env) -> Result<()> {
    let seed = env.own_seed("weeder-withdrawn").await?;
    let workloads = env.workloads(&seed).await?;
    let stack = workloads.stack("shoot--e2e--weeder-withdrawn").await?;
    stack.run(&BACKEND).await?;
    stack.run(&FRONTEND).await?;
    let selector = json!([{"matchLabels": {"app": FRONTEND.name}}]);
    let policy = stack.policy(&[("backend", selector)])?;
    policy.apply().await?;
    let bed = Bed { stack, policy };
    bed.is_well("weeder-first").await?;
    for (place, row) in ROWS.iter().enumerate() {
        let Row(resource, verb, ..) = row;
        let what = || format!("without {verb} {resource}");
        bed.misses(row, place).await.with_context(what)?;
    }
    bed.is_well("weeder-last").await
}

/// A service, a pod that needs it, and the policy for them.
struct Bed {
    stack: Stack,
    policy: Policy<WeedPolicy>,
}

impl Bed {
    /// Waits until a weeder with all its rights has nothing to complain of.
    async fn is_well(&self, name: &str) -> Result<()> {
        let _operator = Operator::start(self.stack.seed(), name, "weeder", &[])?;
        self.policy.says("Ready", "Watching").await?;
        self.policy.says("Degraded", "AsExpected").await?;
        Ok(())
    }

    async fn misses(&self, Row(resource, verb, given, told): &Row, place: usize) -> Result<()> {
        let before = self.stack.uids(&FRONTEND).await?;
        self.prepare(given, place).await?;
        let seed = self.stack.seed();
        let client = seed.client()?;
        apply(&client, &without(ROLES, resource, verb)?).await?;
        is_granted(&client, WEEDER, (ROLES, resource, verb), false).await?;

        let name = &format!("weeder-{place}");
        let operator = match given {
            Elected { .. } => {
                let kubeconfig = seed.weeder_kubeconfig()?;
                Operator::replica(seed, name, "weeder", &kubeconfig, &[])?
            }
            _ => Operator::start(seed, name, "weeder", &[])?,
        };
        if let Recovery = given {
            for _ in 0..2 {
                self.stack.down(&BACKEND);
                self.has_windows(0).await?;
                self.stack.up(&BACKEND);
                self.has_windows(1).await?;
            }
        }
        let lacks = match told {
            Degraded("RightsMissing") => format!("{verb} {resource}"),
            _ => format!("cannot {verb} resource \"{resource}\""),
        };
        let words = [&*lacks, "grant", "manifests/weeder/rbac.yaml"];
        match told {
            InLog => is_logged(&operator, &words).await?,
            Blind => {
                is_logged(&operator, &words).await?;
                self.policy.says("Ready", "Listing").await?;
            }
            Degraded(reason) => self.is_degraded(reason, &words).await?,
        }
        // The same process goes on when it has the right, or the next that is started.
        apply(&client, ROLES).await?;
        is_granted(&client, WEEDER, (ROLES, resource, verb), true).await?;
        match given {
            Looping => {
                wait::until("the pod to be replaced", async || {
                    let now = self.stack.uids(&FRONTEND).await?;
                    seen(now.is_disjoint(&before), format!("{now:?}"))
                })
                .await?;
                self.stack.is_ready(&FRONTEND).await?;
            }
            Away => {
                self.stack.up(&BACKEND);
                self.stack.is_ready(&BACKEND).await?;
            }
            Elected { .. } => delete_lease(seed, LEASE).await?,
            Nothing | Changed | Recovery => {
                let now = self.stack.uids(&FRONTEND).await?;
                ensure!(now == before, "{now:?} instead of {before:?}");
            }
        }
        Ok(())
    }

    async fn prepare(&self, given: &Given, place: usize) -> Result<()> {
        match given {
            Nothing | Recovery => {}
            Changed => {
                // Another spec for each row, so that there is something new to say of it.
                let duration = json!({"watchDuration": format!("300.{place:03}s")});
                self.policy.clone().with(&duration).apply().await?;
            }
            Away => {
                self.stack.down(&BACKEND);
                self.stack.serves("backend", false).await?;
            }
            Looping => {
                self.stack.crash(&FRONTEND);
                self.stack.is_looping(&FRONTEND).await?;
            }
            Elected { free } => {
                if *free {
                    create_lease(self.stack.seed(), LEASE).await?;
                }
            }
        }
        Ok(())
    }

    async fn has_windows(&self, count: i32) -> Result<()> {
        let open = |status: &WeedPolicyStatus| status.open_windows == count;
        let what = format!("{count} windows");
        self.policy.reports(&what, open).await?;
        Ok(())
    }

    /// Waits until the policy is degraded for this reason, with all of these words.
    async fn is_degraded(&self, reason: &str, words: &[&str]) -> Result<()> {
        wait::until(&format!("the policy to tell: {words:?}"), async || {
            let message = self.policy.says("Degraded", reason).await?;
            let told = words.iter().all(|word| message.contains(word));
            seen(told, message)
        })
        .await
    }
}
