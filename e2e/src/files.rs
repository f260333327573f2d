//! The files of a run, and how a run ends.

use crate::process;
use anyhow::{Context as _, Result};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of a run that was interrupted: as a shell reports a process that SIGINT ended.
pub const INTERRUPTED: u8 = 130;

/// The directory of all files and logs of a run. Every process ends with it.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    gone: AtomicBool,
}

impl Files {
    /// A new directory whose name begins with `prefix`, where temporary files go.
    pub fn new(prefix: &str) -> Result<Self> {
        let root = tempfile::Builder::new().prefix(prefix).tempdir();
        Ok(Self {
            root: root.context("cannot make a temporary directory")?.keep(),
            gone: AtomicBool::new(false),
        })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Ends every process and removes the files, or says where they are when they are needed to
    /// understand a failure or `DWD_E2E_KEEP` asks for them.
    pub fn tear_down(&self, failed: bool) {
        if self.gone.swap(true, Ordering::SeqCst) {
            return;
        }
        process::kill_all();
        if failed || std::env::var_os("DWD_E2E_KEEP").is_some() {
            eprintln!("logs kept in {}", self.root.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("cannot remove {}: {error}", self.root.display());
        }
    }

    /// Tears down after what [`unless_interrupted`] has come to, and tells how the program ends.
    pub fn end(&self, ended: &Result<bool>) -> ExitCode {
        if let Err(error) = ended {
            eprintln!("\nerror: {error:#}");
        }
        self.tear_down(ended.is_err());
        match ended {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => exit_interrupted(),
            Err(_) => ExitCode::FAILURE,
        }
    }
}

/// Says that a run was cut short, after everything is torn down.
pub fn exit_interrupted() -> ExitCode {
    eprintln!("\ninterrupted: everything is stopped and removed");
    ExitCode::from(INTERRUPTED)
}

/// Also when preparing fails.
impl Drop for Files {
    fn drop(&mut self) {
        self.tear_down(false);
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub async fn interrupted() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Runs this to its end, unless a signal cuts it short, by which it has not failed: whether it came to
/// its end.
pub async fn unless_interrupted(run: impl Future<Output = Result<()>>) -> Result<bool> {
    tokio::select! {
        biased;
        signal = interrupted() => signal.map(|()| false),
        ended = run => ended.map(|()| true),
    }
}
