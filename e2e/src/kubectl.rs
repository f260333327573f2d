//! kubectl, as a user runs it.

use crate::{ApiServer, Assets, apiserver::ADMIN, operator};
use anyhow::{Context as _, Result, bail};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::{Child, Command};

/// kubectl for one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    path: PathBuf,
    kubeconfig: PathBuf,
}

/// kubectl that goes on printing; it ends with this value.
#[derive(Debug)]
pub struct Watching {
    _child: Child,
    output: PathBuf,
}

impl Watching {
    /// What it has printed so far.
    pub fn printed(&self) -> Result<String> {
        let output = fs::read_to_string(&self.output);
        output.with_context(|| format!("cannot read {}", self.output.display()))
    }
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// Whether it ended with status 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Kubectl {
    /// kubectl as the administrator of an API server.
    pub(crate) fn new(assets: &Assets, server: &ApiServer) -> Result<Self> {
        Ok(Self::with(assets, server.kubeconfig_file_of(ADMIN)?))
    }

    /// kubectl with this kubeconfig.
    pub(crate) fn with(assets: &Assets, kubeconfig: PathBuf) -> Self {
        Self {
            path: assets.binary("kubectl"),
            kubeconfig,
        }
    }

    /// Runs it in the repository's root with these arguments, whatever comes of it.
    pub async fn try_run(&self, args: &[&str]) -> Result<Output> {
        self.output(self.command(args)).await
    }

    /// Starts it with these arguments, which have it go on until it is ended. One at a time.
    pub fn watch(&self, args: &[&str]) -> Result<Watching> {
        let output = self.kubeconfig.with_extension("watch");
        let mut command = self.command(args);
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(Stdio::null())
            // Ctrl-C is for this process, which then ends its children itself.
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn();
        Ok(Watching {
            _child: child.with_context(|| format!("cannot run {}", self.path.display()))?,
            output,
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(root())
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.kubeconfig.with_extension("cache"))
            .args(args);
        command
    }

    /// Runs a script in the repository's root, as [`Self::script_in`] does.
    pub async fn script(&self, script: &str, variables: &[(&str, &str)]) -> Result<String> {
        self.script_in(&root(), script, variables).await
    }

    /// Runs a script in a directory, in which `kubectl` is this one, and `dependency-watchdog` the
    /// operator's binary. Returns its standard output.
    pub async fn script_in(
        &self,
        directory: &Path,
        script: &str,
        variables: &[(&str, &str)],
    ) -> Result<String> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let operator = operator::binary()?;
        let ours = [&self.path, &operator].into_iter();
        let ours = ours.filter_map(|path| Some(path.parent()?.to_owned()));
        let paths = std::env::join_paths(ours.chain(std::env::split_paths(&paths)))?;
        let mut command = Command::new("sh");
        command
            .args(["-eu", "-c", script])
            .current_dir(directory)
            .env("PATH", paths)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.kubeconfig.with_extension("cache"))
            .envs(variables.iter().copied());
        let output = self.output(command).await?;
        if !output.success {
            bail!("the script failed: {}", output.stderr.trim());
        }
        Ok(output.stdout)
    }

    async fn output(&self, mut command: Command) -> Result<Output> {
        let output = command
            .stdin(Stdio::null())
            // Ctrl-C is for this process, which then ends its children itself.
            .process_group(0)
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("cannot run {}", self.path.display()))?;
        Ok(Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it, which must succeed, and returns its standard output.
    pub async fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.try_run(args).await?;
        if !output.success {
            bail!(
                "kubectl {} failed: {}",
                args.join(" "),
                output.stderr.trim()
            );
        }
        Ok(output.stdout)
    }

    /// Applies a directory of the repository that has a kustomization, as a user installs it.
    pub async fn apply(&self, directory: &str) -> Result<String> {
        self.run(&["apply", "--server-side", "-k", directory]).await
    }
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The scripts of a document, in their order: what stands in fences with `sh`.
pub fn scripts(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sh\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("```")?.0))
}
