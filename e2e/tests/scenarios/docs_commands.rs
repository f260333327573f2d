//! The commands of documents, run as they stand there, in their order: for a first policy, what one
//! asks during an outage, and what one does by hand. Those of docs/install.md have scenarios of their own.

use super::{
    Scenario,
    failover::PROBER,
    prober::COUNTS,
    steps::{ELECTION, KCM, are, becomes, plain, staffed, taken},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{api::Protection, prober::step::IGNORE};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Seed, Shoot, scripts,
    wait::{self, seen},
};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What a document leaves to be filled in, and what cannot be done on a seed without nodes, on which
/// no container runs.
///
/// In this order, since a later one may be part of an earlier.
const FILLED: [(&str, &str); 15] = [
    // Of pods that there are on a seed with a weeder's work.
    ("kubectl -n <namespace> describe replicaset ", ": "),
    ("<hash>", "0"),
    ("<namespace>", "shoot--foo--bar"),
    ("<cluster>", "shoot--foo--bar"),
    ("shoot--project--name", "shoot--foo--bar"),
    ("<name>", KCM),
    ("<the recorded number>", "2"),
    ("<policy>", "shoots"),
    // Asked in the pod: with the rights that it has.
    (
        "kubectl -n garden exec deploy/dwd-prober -- ",
        "DWD_KUBECONFIG=\"$PROBER\" ",
    ),
    ("kubectl -n garden port-forward ", ": "),
    (
        "kubectl -n garden logs -l app.kubernetes.io/component=prober --tail=-1 | grep",
        ": grep",
    ),
    // It goes on until it is ended.
    (" --watch", ""),
    (
        "kubectl delete probepol canary",
        "kubectl delete probepol canary --ignore-not-found",
    ),
    // No garbage collector runs there.
    (" --cascade=foreground", ""),
    // It asks a terminal otherwise.
    (
        "dependency-watchdog restore ",
        "dependency-watchdog restore --yes ",
    ),
];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_the_commands_of_documents_do_what_they_say]
}

/// The prober, as soon as it leads.
async fn prober(seed: &Seed, name: &str) -> Result<Operator> {
    let rights = seed.operator_kubeconfig()?;
    let operator = Operator::replica(seed, name, "prober", &rights, &ELECTION)?;
    wait::until("the prober to lead", async || {
        seed.is_held_by(PROBER, name).await
    })
    .await?;
    Ok(operator)
}

/// A document, whose scripts are run one after the other.
struct Document<'a> {
    name: &'static str,
    scripts: std::vec::IntoIter<String>,
    desk: &'a Desk<'a>,
    /// Where it is read.
    here: PathBuf,
}

/// Where somebody sits who reads documents.
struct Desk<'a> {
    seed: &'a Seed,
    /// Holds files of their own.
    directory: PathBuf,
}

impl<'a> Desk<'a> {
    fn new(seed: &'a Seed) -> Result<Self> {
        let directory = seed.directory().join("documents");
        fs::create_dir_all(directory.join("policies"))?;
        let kubeconfig = seed.operator_kubeconfig()?.to_string();
        fs::write(directory.join("prober.kubeconfig"), kubeconfig)?;
        Ok(Self { seed, directory })
    }

    /// A document, read in the root of the repository.
    fn opens(&'a self, name: &'static str) -> Result<Document<'a>> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(here.join(name)).context(name)?;
        let scripts: Vec<String> = scripts(&text).map(str::to_owned).collect();
        ensure!(!scripts.is_empty(), "{name} has no commands");
        Ok(Document {
            name,
            scripts: scripts.into_iter(),
            desk: self,
            here,
        })
    }
}

impl Document<'_> {
    /// The same, read where files of the reader's own are.
    fn among_own_files(mut self) -> Self {
        self.here.clone_from(&self.desk.directory);
        self
    }

    /// The next script, which is to be run.
    fn script(&mut self) -> Result<String> {
        let script = self.scripts.next();
        script.with_context(|| format!("{} has fewer commands", self.name))
    }

    /// Runs the next script, and returns what it printed.
    async fn next(&mut self) -> Result<String> {
        let script = self.script()?;
        self.run(&script).await
    }

    async fn run(&self, script: &str) -> Result<String> {
        let fill = |script: String, (from, to)| script.replace(from, to);
        let filled = FILLED.into_iter().fold(script.to_owned(), fill);
        let prober = self.desk.directory.join("prober.kubeconfig");
        let variables = [("PROBER", &*prober.display().to_string())];
        let kubectl = self.desk.seed.kubectl();
        let printed = kubectl.script_in(&self.here, &filled, &variables);
        printed
            .await
            .with_context(|| format!("{}:\n{script}", self.name))
    }

    /// Runs all that is left.
    async fn rest(&mut self) -> Result<()> {
        while self.scripts.len() > 0 {
            self.next().await?;
        }
        Ok(())
    }
}

async fn e2e_the_commands_of_documents_do_what_they_say(env: Env) -> Result<()> {
    let seed = env.own_seed("documented").await?;
    let shoot = staffed(env.shoot("bar").project("foo").on(&seed)).await?;
    // Of the Shoot itself, so that the first policy is right as it is.
    let grace = json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "8s"}});
    let patch = json!({"spec": {"shoot": {"spec": {"kubernetes": grace}}}});
    shoot.control_plane.patch_cluster(patch).await?;
    let operator = prober(&seed, "prober-0").await?;

    let desk = Desk::new(&seed)?;
    a_pipeline_waits(&desk).await?;
    a_newcomer_reads(&desk, &shoot).await?;
    files_are_made_and_checked(&desk).await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    for name in ["docs/alerts.md", "docs/events.md", "docs/security.md"] {
        desk.opens(name)?.rest().await?;
    }
    one_dependent_is_restored(&desk, &shoot).await?;
    all_is_restored_and_uninstalled(&desk, &shoot, operator).await
}

/// Of a pipeline that applies policies, and removes them in the end.
async fn a_pipeline_waits(desk: &Desk<'_>) -> Result<()> {
    let (seed, kubectl) = (desk.seed, desk.seed.kubectl());
    let _weeder = Operator::start(seed, "weeder-0", "weeder", &[])?;
    kubectl.run(&["create", "namespace", "argocd"]).await?;
    let mut gitops = desk.opens("docs/gitops.md")?;
    for _ in 0..4 {
        gitops.next().await?;
    }
    let apply = ["apply", "--server-side", "-k", "docs/examples"];
    kubectl.run(&apply).await?;
    gitops.rest().await?;
    let delete = ["delete", "-k", "docs/examples", "--ignore-not-found"];
    kubectl.run(&delete).await?;
    Ok(())
}

async fn a_newcomer_reads(desk: &Desk<'_>, shoot: &Shoot) -> Result<()> {
    let mut first = desk.opens("docs/first-policy.md")?;
    first.rest().await?;
    shoot.is_found("Healthy").await?;
    let mode = ["get", "probepol", "shoots", "-o", "jsonpath={.spec.mode}"];
    let mode = desk.seed.kubectl().run(&mode).await?;
    ensure!(mode == "Enforce", "{mode}");

    let mut explain = desk.opens("docs/commands/explain.md")?;
    for _ in 0..2 {
        let told = explain.next().await?;
        ensure!(told.contains("shoot--foo--bar is Healthy"), "{told}");
    }
    explain.rest().await?;
    the_plugin_is_used(desk).await?;
    fields_are_selected_by(desk).await?;
    for name in [
        "docs/operating.md",
        "docs/status.md",
        "docs/observer.md",
        "docs/checks.md",
        "docs/compatibility.md",
        "docs/troubleshooting.md",
    ] {
        desk.opens(name)?.rest().await?;
    }
    Ok(())
}

async fn fields_are_selected_by(desk: &Desk<'_>) -> Result<()> {
    for (selector, is_selected) in [
        ("status.protection=None", true),
        ("status.policy=shoots,status.reason=Healthy", true),
        ("status.reason!=Healthy", false),
        // Absent.
        ("status.skipped=", true),
        ("status.state=OFFLINE", false),
    ] {
        let get = ["get", "clusterhealths", "-o", "name", "--field-selector"];
        let get = [&get[..], &[selector]].concat();
        let listed = desk.seed.kubectl().run(&get).await?;
        ensure!(listed.is_empty() != is_selected, "{selector}: {listed}");
    }
    Ok(())
}

/// As kubectl calls it: by the name of its file.
async fn the_plugin_is_used(desk: &Desk<'_>) -> Result<()> {
    let home = desk.directory.join("home");
    fs::create_dir_all(home.join(".local/bin"))?;
    let mut plugin = desk.opens("docs/commands/plugin.md")?;
    while plugin.scripts.len() > 0 {
        let script = plugin.script()?;
        let home = home.display();
        plugin.run(&format!("HOME='{home}'\n{script}")).await?;
    }
    let path = format!("PATH='{}':$PATH\n", home.join(".local/bin").display());
    let told = plugin
        .run(&format!("{path}kubectl dwd explain shoot--foo--bar"))
        .await?;
    ensure!(told.contains("shoot--foo--bar is Healthy"), "{told}");
    Ok(())
}

async fn files_are_made_and_checked(desk: &Desk<'_>) -> Result<()> {
    let former = include_str!("../../../tests/fixtures/gardener/prober.yaml");
    fs::write(desk.directory.join("prober-config.yaml"), former)?;
    let mut convert = desk.opens("docs/commands/convert.md")?.among_own_files();
    convert.rest().await?;
    let policy = desk.directory.join("policy.yaml");
    fs::copy(policy, desk.directory.join("policies/converted.yaml"))?;
    let mut check = desk.opens("docs/commands/check.md")?.among_own_files();
    let said = check.next().await?;
    ensure!(said.contains("policies: 1, problems: 0"), "{said}");
    check.rest().await
}

async fn one_dependent_is_restored(desk: &Desk<'_>, shoot: &Shoot) -> Result<()> {
    let mut concepts = desk.opens("docs/concepts.md")?;
    let recorded = concepts.next().await?;
    let count = COUNTS[0];
    ensure!(
        recorded.contains(&format!("{count}deployment")),
        "{recorded}"
    );
    let dependent = shoot.dependent(KCM);
    dependent.is_ready(count).await?;
    ensure!(dependent.annotation(IGNORE).await?.is_some(), "no {IGNORE}");
    // The cluster is not healthy yet, so it is scaled down anew, as is said there.
    concepts.rest().await?;
    all_are_taken(shoot).await
}

async fn all_is_restored_and_uninstalled(
    desk: &Desk<'_>,
    shoot: &Shoot,
    operator: Operator,
) -> Result<()> {
    let mut restore = desk.opens("docs/commands/restore.md")?.among_own_files();
    // With an operator, it is held back.
    operator.process.terminate(wait::LIMIT).await?;
    restore.next().await?;
    are(shoot, COUNTS.map(plain)).await?;
    // What --overrule prints.
    restore.next().await?;
    let operator = prober(desk.seed, "prober-1").await?;
    all_are_taken(shoot).await?;

    let uninstall = restore.script()?;
    let last = "dependency-watchdog restore --all";
    let (before, then) = uninstall.split_at(uninstall.find(last).context(last)?);
    restore.run(before).await?;
    // No kubelet ends it here when its Deployment is scaled down.
    operator.process.terminate(wait::LIMIT).await?;
    restore.run(then).await?;
    are(shoot, COUNTS.map(plain)).await?;
    wait::until("the policy to be gone", async || {
        let left = desk
            .seed
            .kubectl()
            .run(&["get", "probepol", "-o", "name"])
            .await?;
        seen(left.is_empty(), left)
    })
    .await?;
    restore.rest().await
}

async fn all_are_taken(shoot: &Shoot) -> Result<()> {
    for (name, count) in DEPENDENTS.into_iter().zip(COUNTS) {
        becomes(shoot, name, taken(count)).await?;
    }
    Ok(())
}
