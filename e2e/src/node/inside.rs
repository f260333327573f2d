//! The mounts and the network of a run, in namespaces that have just been made.

use super::{Cgroups, host::KERNEL, run};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

/// The bridge to which nodes are connected, and the address of its own side.
pub(super) const BRIDGE: &str = "nodes";
/// The address of the first node, and of the API server.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Covered by empty directories: what programs write there regardless of their flags.
const COVERED: [&str; 3] = ["/run", "/var/lib", "/var/log"];
/// Where `ip` and containerd keep network namespaces.
const NETWORKS: &str = "/run/netns";

/// The inside of a run: its directory and its cgroups, with mounts and the network prepared.
#[derive(Clone, Debug)]
pub struct Inside {
    /// Where files and logs go.
    pub root: PathBuf,
    /// Where containers go.
    pub cgroups: Cgroups,
}

impl Inside {
    /// Prepares the namespaces in which this process is. It must be one of its own.
    pub async fn prepare(root: &Path) -> Result<Self> {
        // The first process of its own namespace has started this one.
        ensure!(
            rustix::process::getppid().is_some_and(rustix::process::Pid::is_init),
            "this is not inside a namespace of its own: start it without --inside"
        );
        let name = root.file_name().context("a directory without a name")?;
        let cgroups = Cgroups::of(&name.to_string_lossy())?;
        for directory in COVERED {
            ensure!(
                !root.starts_with(directory),
                "{} would be covered: set TMPDIR",
                root.display()
            );
            run("mount", &["-t", "tmpfs", "tmpfs", directory]).await?;
        }
        for directory in [
            NETWORKS,
            "/run/lock",
            "/var/lib/cni",
            "/var/log/containers",
            "/var/log/pods",
        ] {
            fs::create_dir_all(directory)?;
        }
        // A mount of its own from the beginning: the first `ip netns add` would make it one, on top of the
        // networks of pods that are there by then, which could not be removed any more.
        run("mount", &["--bind", NETWORKS, NETWORKS]).await?;
        let covers = root.join("kernel");
        fs::create_dir(&covers)?;
        for (setting, value) in KERNEL {
            let cover = covers.join(setting.replace('/', "."));
            fs::write(&cover, format!("{value}\n"))?;
            let setting = Path::new("/proc/sys").join(setting);
            run(
                "mount",
                &[
                    "--bind",
                    &cover.to_string_lossy(),
                    &setting.to_string_lossy(),
                ],
            )
            .await?;
        }
        for link in [
            "link set lo up",
            &format!("link add {BRIDGE} type bridge"),
            &format!("addr add {ADDRESS}/24 dev {BRIDGE}"),
            &format!("link set {BRIDGE} up"),
            // Without one a kubelet finds no address of its own. It leads nowhere.
            &format!("route add default via 10.77.0.254 dev {BRIDGE}"),
        ] {
            ip(link).await?;
        }
        fs::write("/proc/sys/net/ipv4/ip_forward", "1")
            .context("cannot have this namespace forward packets")?;
        Ok(Self {
            root: root.to_owned(),
            cgroups,
        })
    }
}

/// Runs ip with these words.
pub(super) async fn ip(words: &str) -> Result<String> {
    run("ip", &words.split(' ').collect::<Vec<_>>()).await
}
