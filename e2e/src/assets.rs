//! Where the servers' binaries are, building them at the first use.

use anyhow::{Context as _, Result, ensure};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

/// The binaries of a control plane.
#[derive(Clone, Debug)]
pub struct Assets {
    directory: PathBuf,
}

impl Assets {
    /// Runs `controlplane/build.sh`, which returns at once when everything is there and shows its
    /// progress on stderr when it is not.
    pub async fn find() -> Result<Self> {
        Self::built_by("controlplane/build.sh").await
    }

    /// The binaries that a script of this package builds.
    pub(crate) async fn built_by(script: &str) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let output = tokio::process::Command::new(&script)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("cannot run {}", script.display()))?;
        ensure!(
            output.status.success(),
            "{} failed: see its messages above",
            script.display()
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text
            .lines()
            .last()
            .context("the build script printed no directory")?;
        Ok(Self {
            directory: std::path::absolute(last)?,
        })
    }

    /// Where they are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of `etcd`, `kube-apiserver`, `kube-controller-manager` or `kubectl`.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}
