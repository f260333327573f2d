//! What stays outside of the namespaces: it makes and removes what outlives them.

use super::{Cgroups, NAME};
use crate::{Assets, Files, exit_interrupted, interrupted};
use anyhow::{Context as _, Result, ensure};
use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};
use tokio::process::{Child, Command};

/// Locked by the run to which a directory belongs, for as long as it lives.
const LOCK: &str = "lock";
/// What is too large to be kept for its logs.
const LARGE: [&str; 2] = ["containerd", "images"];
/// What a kubelet would change on the machine. Inside, each is covered by a file.
pub(super) const KERNEL: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// The outside of one run.
pub struct Host {
    files: Files,
    lock: File,
    cgroups: Cgroups,
    kernel: Vec<String>,
}

impl Host {
    /// Removes what killed runs have left, and makes a directory for this one.
    pub async fn prepare() -> Result<Self> {
        for run in leftovers(&env::temp_dir())? {
            eprintln!("node: removing what the killed run {run} has left");
            Cgroups::of(&run)?.remove().await?;
            let directory = env::temp_dir().join(&run);
            fs::remove_dir_all(&directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        let files = Files::new(&format!("{NAME}-"))?;
        let lock = lock(files.root())?;
        let run = files.root().file_name().unwrap_or_default();
        let cgroups = Cgroups::of(&run.to_string_lossy())?;
        Ok(Self {
            files,
            lock,
            cgroups,
            kernel: kernel(),
        })
    }

    /// Builds what needs a network, which there is none inside: all servers and tools, and the image
    /// unless one is given. Returns its archive.
    pub async fn build(&self, image: Option<&Path>) -> Result<PathBuf> {
        Assets::find().await?;
        Assets::built_by("node/build.sh").await?;
        script("hack/gitops.sh", &["build"], &[]).await?;
        if let Some(image) = image {
            return Ok(std::path::absolute(image)?);
        }
        let directory = self.files.root().join("images");
        // For no other architecture than this machine's.
        let binary = match env::var("DWD_STATIC") {
            Ok(given) if !given.is_empty() => given,
            _ => script("hack/static.sh", &[], &[]).await?,
        };
        let variables = [
            ("DIST", &*directory),
            ("DWD_STATIC", Path::new(binary.trim())),
        ];
        let archive = script("hack/image.sh", &[], &variables).await?;
        Ok(archive.trim().into())
    }

    /// Runs this program again in namespaces of its own, with these arguments and its directory after
    /// them, until it ends or a signal comes. Whatever becomes of it, nothing stays.
    pub async fn run(self, args: &[&str]) -> Result<ExitCode> {
        let mut child = self.spawn(args)?;
        let ended = tokio::select! {
            signal = interrupted() => signal.map(|()| None),
            status = child.wait() => status.map(Some).map_err(Into::into),
        };
        // With it go all processes of its namespaces.
        let _ = child.start_kill();
        let _ = child.wait().await;
        let removed = self.cgroups.remove().await;
        let after = kernel();
        let failed =
            !matches!(&ended, Ok(None)) && !matches!(&ended, Ok(Some(status)) if status.success());
        self.tear_down(failed || removed.is_err());
        removed?;
        ensure!(
            after == self.kernel,
            "settings of the kernel have changed: {:?} were {:?}",
            after,
            self.kernel
        );
        Ok(match ended? {
            None => exit_interrupted(),
            Some(status) if status.success() => ExitCode::SUCCESS,
            Some(_) => ExitCode::FAILURE,
        })
    }

    /// The first process of the namespaces is a shell, which reaps what is left by others.
    fn spawn(&self, args: &[&str]) -> Result<Child> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "unshare"])
            .args([
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--mount",
                "--net",
                "--",
            ])
            .args(["sh", "-c", "\"$@\"; exit $?", "sh"])
            .arg(env::current_exe()?)
            .arg("node")
            .args(args)
            .arg(self.files.root())
            .stdin(Stdio::null())
            // Ctrl-C is for this process, which then ends all of them.
            .process_group(0)
            .kill_on_drop(true);
        command.spawn().context("cannot run setpriv and unshare")
    }

    fn tear_down(&self, failed: bool) {
        if failed || env::var_os("DWD_E2E_KEEP").is_some() {
            let root = self.files.root();
            for directory in fs::read_dir(root).into_iter().flatten().flatten() {
                for large in LARGE {
                    let _ = fs::remove_dir_all(directory.path().join(large));
                }
            }
            for large in LARGE {
                let _ = fs::remove_dir_all(root.join(large));
            }
            // Kept on purpose: no later run removes it.
            let _ = fs::remove_file(root.join(LOCK));
        }
        let _ = self.lock.unlock();
        self.files.tear_down(failed);
    }
}

/// Runs a script in the repository's root, which says on standard error what it does.
async fn script(path: &str, args: &[&str], env: &[(&str, &Path)]) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(root.join(path));
    let command = command
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let output = command
        .output()
        .await
        .with_context(|| format!("cannot run {path}"))?;
    ensure!(
        output.status.success(),
        "{path} failed: see its messages above"
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn kernel() -> Vec<String> {
    let read =
        |(name, _)| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
    KERNEL.map(read).to_vec()
}

/// Locked before it has its name, so that it is never seen without its lock.
fn lock(directory: &Path) -> Result<File> {
    let new = directory.join("new-lock");
    let file = File::create(&new)?;
    file.lock()?;
    fs::rename(&new, directory.join(LOCK))?;
    Ok(file)
}

/// The names of directories of runs that have ended without removing them.
fn leftovers(temporary: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(temporary)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{NAME}-"))
            && let Ok(file) = File::open(entry.path().join(LOCK))
            && file.try_lock().is_ok()
        {
            found.push(name);
        }
    }
    Ok(found)
}
