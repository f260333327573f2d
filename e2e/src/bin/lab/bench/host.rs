//! The machine that a bench ran on.

use crate::bench::results::Host;
use anyhow::{Context as _, Result, ensure};
use std::{fs, path::Path, process::Command};

/// Describes it, and the operator that runs as this process on it.
pub(crate) fn describe(operator: u32, api_server: String) -> Result<Host> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let memory = field(&memory, "MemTotal").and_then(|it| it.strip_suffix(" kB")?.parse().ok());
    let memory: u64 = memory.context("no MemTotal in /proc/meminfo")?;
    Ok(Host {
        processor: field(&cpus, "model name").unwrap_or("unknown").to_owned(),
        cores: std::thread::available_parallelism()?.get(),
        memory: memory * 1024,
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned(),
        operator: version(&fs::read_link(format!("/proc/{operator}/exe"))?)?,
        api_server,
    })
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// What a binary says of itself, and the profile it was built with, which is its directory's name.
fn version(binary: &Path) -> Result<String> {
    let output = Command::new(binary).arg("--version").output()?;
    ensure!(
        output.status.success(),
        "{} --version failed",
        binary.display()
    );
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let profile = binary
        .parent()
        .and_then(Path::file_name)
        .unwrap_or_default();
    Ok(format!("{said} ({})", profile.display()))
}
