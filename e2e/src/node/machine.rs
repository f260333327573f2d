//! One node: containerd, a kubelet, and in the first network kube-proxy.

use super::{
    Cgroups, PAUSE,
    inside::{BRIDGE, Inside, ip},
    requirements::{cni, find},
    run,
};
use crate::{
    Assets, Kubeconfig, Process,
    wait::{self, Look, seen},
};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

/// What a node is to be.
pub(super) struct Plan<'a> {
    pub(super) name: &'a str,
    pub(super) address: Ipv4Addr,
    /// The network of its pods, `10.88.0` for instance.
    pub(super) pods: &'a str,
    /// Whether it has a network namespace of its own, connected to the first one by a cable.
    pub(super) apart: bool,
    /// By what it reaches its API server.
    pub(super) kubeconfig: &'a Kubeconfig,
    /// Who may ask its kubelet, by certificates.
    pub(super) authority: &'a str,
    /// Archives of images.
    pub(super) images: &'a [PathBuf],
}

/// A running node. Its containers outlive this value, and end with the namespaces.
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The kubelet, to freeze it.
    pub kubelet: Process,
    containerd: Process,
    cgroups: Cgroups,
    servers: Assets,
    socket: String,
}

impl Node {
    /// Starts one, with images imported.
    pub(super) async fn start(inside: &Inside, servers: &Assets, plan: &Plan<'_>) -> Result<Self> {
        let Plan { name, address, .. } = *plan;
        let directory = inside.root.join(name);
        fs::create_dir_all(directory.join("cni"))?;
        inside.cgroups.make(name)?;
        if plan.apart {
            connect(name, address).await?;
        }
        let wrapped = |program: &str| {
            let path = servers.binary(program);
            if plan.apart {
                Process::new(program, find("nsenter").unwrap_or_default(), &directory)
                    .args([format!("--net=/run/netns/{name}"), "--".to_owned()])
                    .args([path])
            } else {
                Process::new(program, path, &directory)
            }
        };
        let file = |name: &str| directory.join(name).display().to_string();

        fs::write(
            file("cni/10-pods.conflist"),
            network(&directory, plan.pods).to_string(),
        )?;
        fs::write(file("containerd.toml"), containerd_config(&directory)?)?;
        let containerd = wrapped("containerd")
            .args(["--config", &file("containerd.toml")])
            // It starts shims from there.
            .env("PATH", path_with(servers)?);
        containerd.start()?;
        let node = Self {
            name: name.to_owned(),
            address,
            kubelet: wrapped("kubelet").args(kubelet_args(&directory, plan)),
            containerd,
            cgroups: inside.cgroups.clone(),
            servers: servers.clone(),
            socket: file("containerd.sock"),
        };
        // A kubelet gives up immediately without it.
        wait::until(&format!("containerd of {name}"), async || {
            if let Err(ended) = node.containerd.ensure_running() {
                return Ok(Look::Never(ended.to_string()));
            }
            node.ctr(&["version"]).await.map(|_| Look::Met(()))
        })
        .await?;
        for image in plan.images {
            node.ctr(&["images", "import", &image.to_string_lossy()])
                .await?;
        }
        fs::write(file("authority.pem"), plan.authority)?;
        fs::write(file("kubeconfig.yaml"), plan.kubeconfig.to_string())?;
        // Copied into pods; no name is resolved by it.
        fs::write(file("resolv.conf"), "")?;
        let config = kubelet_config(&directory, plan, &inside.cgroups.root_of(name));
        fs::write(file("kubelet.yaml"), config.to_string())?;
        node.kubelet.start()?;
        Ok(node)
    }

    /// Runs ctr on it, in the namespace of Kubernetes.
    pub async fn ctr(&self, args: &[&str]) -> Result<String> {
        let program = self.servers.binary("ctr").display().to_string();
        let all = ["--address", &self.socket, "--namespace", "k8s.io"];
        let all: Vec<&str> = all.into_iter().chain(args.iter().copied()).collect();
        run(&program, &all).await
    }

    /// The processes of a container by its id, in the namespace of this process.
    pub fn processes(&self, container: &str) -> Result<Vec<i32>> {
        self.cgroups.processes(container)
    }

    /// Fails with the end of a log when one of its processes has ended.
    pub fn ensure_running(&self) -> Result<()> {
        self.containerd.ensure_running()?;
        self.kubelet.ensure_running()
    }

    /// Cuts its way out, or lets it back: what it sends and what is sent to it is dropped on the way, so
    /// no connection is closed.
    pub async fn cut(&self, cut: bool) -> Result<()> {
        let address = self.address.to_string();
        for side in ["-s", "-d"] {
            drop_packets(cut, &[side, &address]).await?;
        }
        Ok(())
    }

    /// Waits until its Node is Ready.
    pub(super) async fn is_ready(&self, client: &kube::Client) -> Result<()> {
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client.clone());
        wait::until(&format!("the node {} to be ready", self.name), async || {
            if let Err(ended) = self.ensure_running() {
                return Ok(Look::Never(ended.to_string()));
            }
            let node = nodes.get(&self.name).await?;
            let conditions = node.status.and_then(|it| it.conditions).unwrap_or_default();
            let ready = conditions.iter().find(|it| it.type_ == "Ready");
            seen(
                ready.is_some_and(|it| it.status == "True"),
                format!("{ready:?}"),
            )
        })
        .await
    }
}

/// Where what is routed passes, before kube-proxy's own rules.
async fn drop_packets(cut: bool, of: &[&str]) -> Result<()> {
    let action = if cut { "-I" } else { "-D" };
    let args = ["-w", action, "FORWARD"]
        .into_iter()
        .chain(of.iter().copied());
    let args: Vec<&str> = args.chain(["-j", "DROP"]).collect();
    run("iptables", &args).await.map(|_| ())
}

/// A network namespace, with a cable to the bridge.
async fn connect(name: &str, address: Ipv4Addr) -> Result<()> {
    for words in [
        &format!("netns add {name}"),
        &format!("link add {name} type veth peer name eth0 netns {name}"),
        &format!("link set {name} master {BRIDGE} up"),
        &format!("-n {name} link set lo up"),
        &format!("-n {name} addr add {address}/24 dev eth0"),
        &format!("-n {name} link set eth0 up"),
        &format!("-n {name} route add default via {}", super::inside::ADDRESS),
    ] {
        ip(words).await?;
    }
    Ok(())
}

fn path_with(servers: &Assets) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::env::split_paths(&path);
    let ours = [servers.directory().to_owned()];
    Ok(std::env::join_paths(
        ours.into_iter().chain(paths).chain(["/usr/sbin".into()]),
    )?)
}

fn network(directory: &Path, pods: &str) -> serde_json::Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods",
                "isGateway": true,
                "ipMasq": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": directory.join("cni-addresses"),
                    "ranges": [[{"subnet": format!("{pods}.0/24")}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn containerd_config(directory: &Path) -> Result<String> {
    let runc = find("runc").context("there is no runc")?;
    let cni = cni().context("there are no plugins of the container network")?;
    let (directory, runc) = (directory.display(), runc.display());
    Ok(format!(
        "version = 3
root = '{directory}/containerd'
state = '{directory}/containerd-state'
# Of all containerds of a machine there can be one socket of it.
disabled_plugins = ['io.containerd.nri.v1.nri']
[grpc]
address = '{directory}/containerd.sock'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'docker.io/library/{PAUSE}'
[plugins.'io.containerd.cri.v1.runtime']
# Otherwise no pod starts in a container without CAP_SYS_RESOURCE.
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{runc}'
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{cni}']
conf_dir = '{directory}/cni'
"
    ))
}

fn kubelet_config(directory: &Path, plan: &Plan<'_>, cgroup: &str) -> serde_json::Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": plan.address,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": directory.join("authority.pem")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": format!("unix://{}", directory.join("containerd.sock").display()),
        "podLogsDir": directory.join("pod-logs"),
        "resolvConf": directory.join("resolv.conf"),
        "volumePluginDir": directory.join("volume-plugins"),
        // A machine whose disk is nearly full still runs these few pods.
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
    })
}

fn kubelet_args(directory: &Path, plan: &Plan<'_>) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--config={}", file("kubelet.yaml")),
        format!("--kubeconfig={}", file("kubeconfig.yaml")),
        format!("--root-dir={}", file("kubelet")),
        format!("--cert-dir={}", file("certificates")),
        format!("--hostname-override={}", plan.name),
        format!("--node-ip={}", plan.address),
    ]
}
