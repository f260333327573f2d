//! Moving over from Gardener's tool, by the commands of docs/migration.md and no others.

use super::{
    Scenario,
    garden::Garden,
    prober::{COUNTS, all_are_restored},
    steps::{are, staffed, taken},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{Mode, ProbePolicy, Protection};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Seed, Shoot, scripts,
    wait::{self, seen},
};
use jiff::Timestamp;
use kube::Api;
use serde_json::json;
use std::{
    cell::Cell,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

const GUIDE: &str = include_str!("../../../docs/migration.md");
const INSTALLATION: &str = include_str!("migration/installation.yaml");
/// Who may hold the Leases, by the beginnings of their names.
const TOOL: &str = "dependency-watchdog-";
const OURS: &str = "dwd-";
const ACCOUNTS: [&str; 2] = ["dwd-prober", "dwd-weeder"];

const CONVERT: &str = "1. Convert the configuration";
const REHEARSE: &str = "2. Rehearse";
const STAND_BY: &str = "3. Stand by";
const PROBER: &str = "4. Hand the prober over";
const WEEDER: &str = "5. Hand the weeder over";
const ACTS: &str = "6. See that it acts";
const BACK: &str = "The way back";
/// For a policy that protected a cluster when its operator went.
const LET_GO: &str =
    r#"kubectl patch probepol shoots --type merge -p '{"metadata":{"finalizers":null}}'"#;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_the_guide_moves_an_installation_over_and_back_and_scales_nothing,]
}

/// A reader of the guide, in the root of a fresh clone.
struct Reader<'a> {
    seed: &'a Seed,
    clone: PathBuf,
    followed: Cell<usize>,
}

impl<'a> Reader<'a> {
    fn new(seed: &'a Seed) -> Result<Self> {
        let clone = seed.directory().join("clone");
        fs::create_dir(&clone)?;
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))? {
            let entry = entry?;
            symlink(
                fs::canonicalize(entry.path())?,
                clone.join(entry.file_name()),
            )?;
        }
        let followed = Cell::default();
        Ok(Self {
            seed,
            clone,
            followed,
        })
    }

    /// Runs the commands below a heading, word by word, each block in a shell of its own.
    async fn follows(&self, heading: &str) -> Result<()> {
        let start = format!("\n## {heading}\n");
        let (_, section) = GUIDE.split_once(&start).context(start.clone())?;
        let section = section.split("\n## ").next().unwrap_or_default();
        let blocks: Vec<&str> = scripts(section).collect();
        ensure!(!blocks.is_empty(), "no commands below {heading:?}");
        for block in &blocks {
            let run = self.seed.kubectl().script_in(&self.clone, block, &[]);
            run.await.with_context(|| format!("{heading}:\n{block}"))?;
        }
        self.followed.set(self.followed.get() + blocks.len());
        Ok(())
    }

    /// Runs a command that stands in a sentence of the guide.
    async fn runs(&self, command: &str) -> Result<()> {
        ensure!(GUIDE.contains(&format!("`{command}`")), "{command}");
        let run = self.seed.kubectl().script_in(&self.clone, command, &[]);
        run.await?;
        Ok(())
    }

    /// Fails if there are commands in the guide that were not run.
    fn has_followed_all(&self) -> Result<()> {
        let (run, all) = (self.followed.get(), scripts(GUIDE).count());
        ensure!(run == all, "{run} of {all} blocks of commands were run");
        Ok(())
    }
}

/// A seed with the tool, which acts, and a shoot whose dependents have [`COUNTS`] replicas.
async fn with_the_tool(env: &Env, name: &str) -> Result<Shoot> {
    let seed = env.bare_seed(name).await?;
    seed.apply(INSTALLATION).await?;
    let shoot = staffed(env.shoot(name).on(&seed)).await?;
    // Of the Shoot itself, so that the example need not be changed for kubelets that are this fast.
    let grace = json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "8s"}});
    let patch = json!({"spec": {"shoot": {"spec": {"kubernetes": grace}}}});
    shoot.control_plane.patch_cluster(patch).await?;
    Ok(shoot)
}

async fn policy(seed: &Seed) -> Result<ProbePolicy> {
    let policies: Api<ProbePolicy> = Api::all(seed.client()?);
    Ok(policies.get("shoots").await?)
}

/// The generation of each dependent, which any change of its replicas or annotations raises, whoever
/// makes it.
async fn generations(shoot: &Shoot) -> Result<Vec<Option<i64>>> {
    let mut generations = Vec::new();
    for name in DEPENDENTS {
        let found = shoot.dependent(name).get().await?;
        generations.push(found.metadata.generation);
    }
    Ok(generations)
}

/// Waits until each part of the operator has looked at its Lease a few times, and fails if it has written
/// anything since that time.
async fn stands_by(garden: &Garden<'_>, since: Timestamp) -> Result<()> {
    for account in ACCOUNTS {
        let requests = async || garden.requests(account, since).await;
        wait::until(&format!("{account} to look at its Lease"), async || {
            let requests = requests().await?;
            let looks = requests.iter().filter(|it| it.resource == "leases");
            let looks = looks.count();
            seen(looks > 2, format!("{looks} requests"))
        })
        .await?;
        let requests = requests().await?;
        let write = requests.iter().find(|it| it.is_write());
        ensure!(write.is_none(), "{account} stands by, and wrote: {write:?}");
    }
    Ok(())
}

async fn e2e_the_guide_moves_an_installation_over_and_back_and_scales_nothing(
    env: Env,
) -> Result<()> {
    let shoot = with_the_tool(&env, "migration").await?;
    let garden = Garden::new(shoot.control_plane.seed())?;
    tokio::select! {
        ended = garden.run() => match ended? {},
        told = over_and_back(&garden, &shoot) => told,
    }
}

async fn over_and_back(garden: &Garden<'_>, shoot: &Shoot) -> Result<()> {
    let seed = shoot.control_plane.seed();
    let reader = Reader::new(seed)?;
    let beginning = Timestamp::now();
    garden.were_held_by(&[TOOL]).await?;
    let before = generations(shoot).await?;

    reader.follows(CONVERT).await?;
    reader.follows(REHEARSE).await?;
    let rehearsed = policy(seed).await?;
    ensure!(rehearsed.spec.mode == Mode::Enforce, "{rehearsed:?}");
    // Of the ConfigMap that is in use.
    ensure!(
        rehearsed.spec.dependent_resource_infos.len() == DEPENDENTS.len(),
        "{rehearsed:?}"
    );
    shoot.is_found("Healthy").await?;
    // It is only told, whatever the policy says.
    shoot.cut_all();
    shoot.is_found("Outage").await?;
    shoot.restore_all();
    shoot.is_found("Healthy").await?;
    ensure!(generations(shoot).await? == before);

    reader.follows(STAND_BY).await?;
    let since = Timestamp::now();
    stands_by(garden, since).await?;
    garden.were_held_by(&[TOOL]).await?;

    reader.follows(PROBER).await?;
    let prober = "dwd-prober-leader-election";
    garden.was_held_by(prober, &[TOOL, OURS]).await?;
    let weeder = "dwd-weeder-leader-election";
    garden.was_held_by(weeder, &[TOOL]).await?;
    reader.follows(WEEDER).await?;
    garden.were_held_by(&[TOOL, OURS]).await?;
    reader.follows(ACTS).await?;
    shoot.is_found("Healthy").await?;

    // Nobody has written to a dependent on the way.
    ensure!(generations(shoot).await? == before);
    let prober = garden.requests("dwd-prober", beginning).await?;
    ensure!(!prober.is_empty(), "nothing is known of what it asked");
    let write = prober
        .iter()
        .find(|it| it.is_write() && it.resource.starts_with("deployments"));
    ensure!(write.is_none(), "{write:?}");

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(shoot, COUNTS.map(taken)).await?;
    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    all_are_restored(shoot).await?;

    // Back in the middle of an outage: what is scaled down is left to the tool, as it is.
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(shoot, COUNTS.map(taken)).await?;
    let before = generations(shoot).await?;
    reader.follows(BACK).await?;
    garden.were_held_by(&[TOOL, OURS, TOOL]).await?;
    let delete = ["delete", "probepol", "shoots", "--wait=false"];
    seed.kubectl().run(&delete).await?;
    policy(seed).await.context("nothing held the policy")?;
    reader.runs(LET_GO).await?;
    ensure!(policy(seed).await.is_err(), "something holds the policy");
    ensure!(generations(shoot).await? == before);
    reader.has_followed_all()
}
