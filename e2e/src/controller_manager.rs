//! kube-controller-manager: of a shoot, to mark its nodes Unknown as the real one does; of a seed, to
//! make the pods of ReplicaSets, and the EndpointSlices of Services.

use crate::{ApiServer, Assets, Process, apiserver::ADMIN, free_port};
use anyhow::Result;
use std::{path::Path, time::Duration};

/// How often it looks at the nodes; its own default is 5 s.
const NODE_MONITOR_PERIOD: Duration = Duration::from_secs(1);

/// A running controller manager; it ends with this value.
#[derive(Debug)]
pub struct ControllerManager {
    process: Process,
}

impl ControllerManager {
    /// Starts one with the node lifecycle controller, which calls a node Unknown after `grace`.
    pub fn start(
        assets: &Assets,
        root: &Path,
        name: &str,
        server: &ApiServer,
        grace: Duration,
    ) -> Result<Self> {
        Self::run(
            assets,
            root,
            name,
            server,
            &[
                "--controllers=node-lifecycle-controller,taint-eviction-controller".to_owned(),
                format!("--node-monitor-grace-period={}ms", grace.as_millis()),
                format!(
                    "--node-monitor-period={}ms",
                    NODE_MONITOR_PERIOD.as_millis()
                ),
            ],
        )
    }

    /// Starts one with the controllers of ReplicaSets and EndpointSlices.
    pub(crate) fn of_seed(
        assets: &Assets,
        root: &Path,
        name: &str,
        server: &ApiServer,
    ) -> Result<Self> {
        let args = [
            "--controllers=replicaset-controller,endpointslice-controller",
            // Its own default would keep a scenario with many pods waiting.
            "--kube-api-qps=200",
            "--kube-api-burst=200",
        ];
        Self::run(assets, root, name, server, &args.map(str::to_owned))
    }

    /// Starts one with all controllers, for a cluster with nodes and ServiceAccounts.
    pub(crate) fn whole(
        assets: &Assets,
        root: &Path,
        name: &str,
        server: &ApiServer,
    ) -> Result<Self> {
        let file = |name: &str| server.file("certificates").join(name).display().to_string();
        let args = [
            format!("--root-ca-file={}", file("apiserver.crt")),
            format!(
                "--service-account-private-key-file={}",
                file("apiserver.key")
            ),
        ];
        Self::run(assets, root, name, server, &args)
    }

    fn run(
        assets: &Assets,
        root: &Path,
        name: &str,
        server: &ApiServer,
        args: &[String],
    ) -> Result<Self> {
        let kubeconfig = server.kubeconfig_file_of(ADMIN)?;
        let process = Process::new(name, assets.binary("kube-controller-manager"), root)
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
            .args([
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--secure-port={}", free_port()?),
                format!(
                    "--cert-dir={}",
                    root.join(format!("{name}-certificates")).display()
                ),
            ])
            .args(args);
        process.start()?;
        Ok(Self { process })
    }

    /// Its process, to stop, freeze or wake it.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
