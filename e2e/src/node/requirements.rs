//! What a machine must have, and be, for real nodes to run on it.

use super::Cgroups;
use anyhow::{Context as _, Result, ensure};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Programs, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 9] = [
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("ss", "iproute2"),
    ("mount", "mount"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("busybox", "busybox-static"),
];
/// Plugins of the container network, and where packages put them.
const CNI: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];
const CNI_DIRECTORIES: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
/// Set to run on a machine that is neither a container nor CI.
const ON_HOST: &str = "NODE_ON_HOST";

/// Why no real node can run here, in one sentence: the first thing that is lacking, since without root the others
/// cannot be tried. Nothing if one can.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(
            "real nodes need root: run this as root, in a container or a virtual machine"
                .to_owned(),
        );
    }
    if !is_disposable() && env::var(ON_HOST).as_deref() != Ok("1") {
        return Some(format!(
            "this is neither a container nor CI (no CI, no /.dockerenv, no /run/.containerenv): kubelets would \
             run on this machine. They keep to namespaces, cgroups and files of their own; {ON_HOST}=1 allows it"
        ));
    }
    let absent = absent();
    if !absent.is_empty() {
        let (names, mut packages): (Vec<&str>, Vec<&str>) = absent.into_iter().unzip();
        packages.dedup();
        return Some(format!(
            "{} missing: on Debian, apt-get install {}",
            names.join(", "),
            packages.join(" ")
        ));
    }
    let cgroups = || Cgroups::of("probe").and_then(|it| it.try_out());
    let failed = namespaces().and_then(|()| cgroups()).err();
    failed.map(|error| format!("{error:#}"))
}

/// What is not found of programs and of plugins of the container network, with the packages that have them.
fn absent() -> Vec<(&'static str, &'static str)> {
    let programs = PROGRAMS
        .iter()
        .filter(|(program, _)| find(program).is_none());
    let mut absent: Vec<(&str, &str)> = programs.copied().collect();
    if find("busybox").is_some_and(|it| !is_static(&it)) {
        absent.push(("a static busybox", "busybox-static"));
    }
    if cni().is_none() {
        absent.push((
            "plugins of the container network",
            "containernetworking-plugins",
        ));
    }
    absent
}

/// Root of a container may make none.
fn namespaces() -> Result<()> {
    const WORDS: [&str; 6] = [
        "--pid",
        "--fork",
        "--mount-proc",
        "--mount",
        "--net",
        "true",
    ];
    let output = Command::new("unshare").args(WORDS).output();
    let output = output.context("cannot run unshare")?;
    ensure!(
        output.status.success(),
        "no namespaces: {} (a container must be privileged)",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn is_disposable() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty())
        || ["/.dockerenv", "/run/.containerenv"]
            .iter()
            .any(|path| Path::new(path).exists())
}

/// A program in PATH.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths)
        // Where a user's PATH may not lead.
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// Where the plugins of the container network are.
pub(super) fn cni() -> Option<&'static str> {
    let has_all = |directory: &&str| CNI.iter().all(|it| Path::new(directory).join(it).is_file());
    CNI_DIRECTORIES.iter().find(|it| has_all(it)).copied()
}

/// Whether a program names no loader, since its image has none.
fn is_static(program: &Path) -> bool {
    const LOADER: &[u8] = b"/ld-linux";
    fs::read(program).is_ok_and(|bytes| !bytes.windows(LOADER.len()).any(|it| it == LOADER))
}
