//! Images, as archives that containerd imports: no registry is asked.

use super::{requirements::find, run};
use anyhow::{Context as _, Result};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// An image with a shell and some tools.
pub const TOOLS: &str = "dwd-tools:1";
/// What a sandbox of a pod runs.
pub const PAUSE: &str = "dwd-pause:1";
/// What the shell of [`TOOLS`] finds.
const APPLETS: [&str; 19] = [
    "cat", "date", "echo", "false", "head", "httpd", "kill", "ls", "mkdir", "nc", "ps", "rm", "sh",
    "sleep", "timeout", "touch", "true", "wget", "yes",
];
/// It ends when it is asked to, and never of itself.
const PAUSING: &str = r#"{"Entrypoint":["/bin/sh","-c","trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"]}"#;

/// Writes the archives of [`TOOLS`] and [`PAUSE`] into a directory.
pub(super) async fn make(directory: &Path) -> Result<Vec<PathBuf>> {
    let root = directory.join("root");
    let binaries = root.join("bin");
    fs::create_dir_all(&binaries)?;
    fs::create_dir_all(root.join("tmp"))?;
    let busybox = find("busybox").context("there is no busybox")?;
    fs::copy(busybox, binaries.join("busybox"))?;
    for applet in APPLETS {
        symlink("busybox", binaries.join(applet))?;
    }
    let mut archives = Vec::new();
    for (name, config) in [(TOOLS, r#"{"Env":["PATH=/bin"]}"#), (PAUSE, PAUSING)] {
        let archive = directory.join(format!("{}.tar", name.replace(':', "-")));
        let (output, root) = (archive.to_string_lossy(), root.to_string_lossy());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/oci-archive.sh");
        let args = [&output, name, architecture(), &root, config];
        run(&script.to_string_lossy(), &args).await?;
        archives.push(archive);
    }
    Ok(archives)
}

/// This machine's, by the name that images have for it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
