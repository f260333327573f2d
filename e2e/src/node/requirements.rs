//! What a machine must have, and be, for real nodes to run on it.

use super::Cgroups;
use std::{
    env, fs,
    path::{Path, PathBuf},
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

/// Why no real node can run here, in one sentence; nothing if one can.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(
            "real nodes need root: run this as root, in a container or a virtual machine".into(),
        );
    }
    if !is_allowed(env::var(ON_HOST).ok().as_deref(), is_disposable()) {
        return Some(format!(
            "this is neither a container nor CI (no CI, no /.dockerenv, no /run/.containerenv): kubelets would run on \
             this machine. They keep to namespaces, cgroups and files of their own; {ON_HOST}=1 allows it"
        ));
    }
    let absent = PROGRAMS
        .iter()
        .filter(|(program, _)| find(program).is_none());
    let mut absent: Vec<(&str, &str)> = absent.copied().collect();
    if let Some(busybox) = find("busybox")
        && !is_static(&busybox)
    {
        absent.push(("a static busybox", "busybox-static"));
    }
    if cni().is_none() {
        absent.push((
            "plugins of the container network",
            "containernetworking-plugins",
        ));
    }
    if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|(name, _)| *name).collect();
        let mut packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
        packages.dedup();
        return Some(format!(
            "{} missing: on Debian, apt-get install {}",
            names.join(", "),
            packages.join(" ")
        ));
    }
    Cgroups::of("probe").err().map(|error| format!("{error:#}"))
}

fn is_allowed(on_host: Option<&str>, disposable: bool) -> bool {
    disposable || on_host == Some("1")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_used_only_when_told() {
        for (on_host, disposable, expected) in [
            (None, false, false),
            (Some(""), false, false),
            (Some("0"), false, false),
            (Some("1"), false, true),
            (None, true, true),
        ] {
            assert_eq!(
                is_allowed(on_host, disposable),
                expected,
                "{on_host:?} {disposable}"
            );
        }
    }

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        fs::write(&path, b"\x7fELF..../lib64/ld-linux-x86-64.so.2").unwrap();
        assert!(!is_static(&path));
        fs::write(&path, b"\x7fELF....").unwrap();
        assert!(is_static(&path));
    }
}
