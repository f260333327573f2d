//! What installs the chart, and what GitOps tools make of an object.

use crate::{Output, Seed};
use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// Runs either; the first use builds both.
const SCRIPT: &str = "hack/gitops.sh";

/// Helm as the administrator of a seed.
#[derive(Clone, Debug)]
pub struct Helm {
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// How an object fares.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// To Flux: a status of kstatus.
    pub flux: String,
    /// To Argo CD, by the scripts of its ConfigMap.
    pub argo: String,
    /// What Argo CD shows.
    pub message: String,
}

impl Helm {
    /// Helm on this seed.
    pub fn of(seed: &Seed) -> Result<Self> {
        let kubeconfig = seed.server().kubeconfig_file_of("admin")?;
        Ok(Self {
            kubeconfig,
            home: seed.directory().join("helm"),
        })
    }

    /// Runs it in the repository's root with these arguments, whatever comes of it.
    pub async fn try_run(&self, args: &[&str]) -> Result<Output> {
        let mut command = command("helm");
        let command = command
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            // Nothing of the user's own plays a part.
            .env("HELM_CACHE_HOME", self.home.join("cache"))
            .env("HELM_CONFIG_HOME", self.home.join("config"))
            .env("HELM_DATA_HOME", self.home.join("data"))
            .stdin(Stdio::null());
        output(command.output().await)
    }

    /// Runs it, which must succeed, and returns its standard output.
    pub async fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.try_run(args).await?;
        if !output.success {
            bail!("helm {} failed: {}", args.join(" "), output.stderr.trim());
        }
        Ok(output.stdout)
    }
}

/// What is made of these objects, in their order, with the scripts of this ConfigMap of Argo CD, a path
/// from the repository's root.
pub async fn verdicts(config: &str, objects: &[Value]) -> Result<Vec<Verdict>> {
    let mut child = command("health")
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {SCRIPT}"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // It reads all of it before it writes.
    stdin.write_all(&serde_json::to_vec(objects)?).await?;
    drop(stdin);
    let output = output(child.wait_with_output().await)?;
    ensure!(output.success, "{SCRIPT} failed: {}", output.stderr.trim());
    let verdicts: Vec<Verdict> = serde_json::from_str(&output.stdout)?;
    ensure!(verdicts.len() == objects.len(), "{verdicts:?}");
    Ok(verdicts)
}

/// The CustomResourceDefinitions of the kinds of Flux and Argo CD, as they publish them.
pub async fn gitops_definitions() -> Result<String> {
    let output = output(command("definitions").stdin(Stdio::null()).output().await)?;
    ensure!(output.success, "{SCRIPT} failed: {}", output.stderr.trim());
    Ok(output.stdout)
}

fn command(tool: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(root.join(SCRIPT));
    command
        .arg(tool)
        .current_dir(root)
        // Ctrl-C is for this process, which then ends its children itself.
        .process_group(0)
        .kill_on_drop(true);
    command
}

fn output(output: std::io::Result<std::process::Output>) -> Result<Output> {
    let output = output.with_context(|| format!("cannot run {SCRIPT}"))?;
    Ok(Output {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
