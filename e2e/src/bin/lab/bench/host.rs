//! The machine that a bench ran on.

use anyhow::{Context as _, Result, ensure};
use std::{fs, path::Path, process::Command};

/// Describes it in a sentence, and what runs on it: the operator as this process, and this API server.
pub(crate) fn describe(operator: u32, api_server: &str) -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let memory = field(&memory, "MemTotal").and_then(|it| it.strip_suffix(" kB")?.parse().ok());
    let memory: f64 = memory.context("no MemTotal in /proc/meminfo")?;
    Ok(format!(
        "Machine: {} cores ({}), {:.0} GiB, Linux {}. Operator: {}. Seed: kube-apiserver {api_server}.",
        std::thread::available_parallelism()?,
        field(&cpus, "model name").unwrap_or("unknown"),
        memory / 1024.0 / 1024.0,
        fs::read_to_string("/proc/sys/kernel/osrelease")?.trim(),
        version(&fs::read_link(format!("/proc/{operator}/exe"))?)?,
    ))
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
