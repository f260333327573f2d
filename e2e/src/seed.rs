//! A seed: an API server with Gardener's kinds, and the controller of Deployments played.

use crate::{
    ApiServer, Assets, DeploymentController, Etcd, Kubeconfig, Kubectl, Request,
    apiserver::{Site, User},
    apply,
    apply::served,
    wait::{self, Look, seen},
};
use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The prober comes as its ServiceAccount of the manifests, so it may do what they say, and no more.
pub const PROBER: User = User {
    id: "dependency-watchdog",
    name: "system:serviceaccount:garden:dwd-prober",
    groups: &["system:serviceaccounts", "system:serviceaccounts:garden"],
};
/// The same, for a second replica: so each can be told by what it asks.
const OTHER: User = User {
    id: "dependency-watchdog-other",
    ..PROBER
};
/// The weeder likewise.
pub const WEEDER: User = User {
    id: "dwd-weeder",
    name: "system:serviceaccount:garden:dwd-weeder",
    ..PROBER
};
/// Where the operator is installed.
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: garden}\n";
/// What is installed.
const MANIFESTS: &str = "manifests";

/// A seed cluster.
pub struct Seed {
    server: ApiServer,
    deployments: DeploymentController,
    kubectl: Kubectl,
    directory: PathBuf,
}

impl Seed {
    /// Starts one. The kinds that Gardener owns are there; nothing is installed.
    pub(crate) async fn start(
        assets: &Assets,
        root: &Path,
        name: &str,
        etcd: &Etcd,
        site: Site,
    ) -> Result<Self> {
        let users = [PROBER, OTHER, WEEDER];
        let server = ApiServer::start_at(assets, root, name, etcd, &users, site).await?;
        let kubectl = Kubectl::new(assets, &server)?;
        let deployments = DeploymentController::start(&server.client()?);
        let seed = Self {
            server,
            deployments,
            kubectl,
            directory: root.join(name),
        };
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        seed.apply_directory(&here.join("crds")).await?;
        Ok(seed)
    }

    /// Installs the operator, short of running it.
    pub(crate) async fn install(&self) -> Result<()> {
        self.apply(NAMESPACE).await?;
        self.kubectl.apply(MANIFESTS).await?;
        served(&self.client()?).await
    }

    /// A client of the administrator.
    pub fn client(&self) -> Result<Client> {
        self.server.client()
    }

    /// The API server, to stop and start it and for kubeconfigs.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Applies YAML as the administrator.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        apply(&self.client()?, yaml).await
    }

    /// Applies every YAML file of a directory, in the order of their names. One that is not there
    /// has none.
    pub async fn apply_directory(&self, directory: &Path) -> Result<()> {
        let Ok(entries) = fs::read_dir(directory) else {
            return Ok(());
        };
        let files: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut files: Vec<PathBuf> = files.map_err(|error: std::io::Error| error)?;
        files.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "yaml")
        });
        files.sort();
        for file in files {
            let context = || format!("cannot apply {}", file.display());
            let yaml = fs::read_to_string(&file).with_context(context)?;
            self.apply(&yaml).await.with_context(context)?;
        }
        Ok(())
    }

    /// The kubeconfig of the prober.
    pub fn operator_kubeconfig(&self) -> Result<Kubeconfig> {
        self.server.kubeconfig_of(PROBER.id)
    }

    /// What the prober has asked of this seed so far.
    pub fn operator_requests(&self) -> Result<Vec<Request>> {
        self.server.requests_of(PROBER.id)
    }

    /// The kubeconfig of another replica of the prober.
    pub fn other_kubeconfig(&self) -> Result<Kubeconfig> {
        self.server.kubeconfig_of(OTHER.id)
    }

    /// What the other replica has asked of this seed so far.
    pub fn other_requests(&self) -> Result<Vec<Request>> {
        self.server.requests_of(OTHER.id)
    }

    /// The kubeconfig of the weeder.
    pub fn weeder_kubeconfig(&self) -> Result<Kubeconfig> {
        self.server.kubeconfig_of(WEEDER.id)
    }

    /// What the weeder has asked of this seed so far.
    pub fn weeder_requests(&self) -> Result<Vec<Request>> {
        self.server.requests_of(WEEDER.id)
    }

    /// The Lease by which the replicas of a Deployment of the manifests, such as `dwd-prober`, elect one of them.
    pub async fn lease(&self, deployment: &str) -> Result<LeaseSpec> {
        let leases: Api<Lease> = Api::namespaced(self.client()?, "garden");
        let lease = leases.get(&format!("{deployment}-leader-election")).await?;
        lease.spec.context("no spec")
    }

    /// Whether the replica of this name holds that Lease.
    pub async fn is_held_by(&self, deployment: &str, replica: &str) -> Result<Look<()>> {
        let holder = self.lease(deployment).await?.holder_identity;
        let holder = holder.unwrap_or_default();
        seen(holder.starts_with(&format!("{replica}_")), holder)
    }

    /// Waits until it does.
    pub async fn is_led_by(&self, deployment: &str, replica: &str) -> Result<()> {
        let what = format!("{replica} to lead");
        wait::until(&what, async || self.is_held_by(deployment, replica).await).await
    }

    /// The stand-in for the Deployment controller.
    pub fn deployments(&self) -> &DeploymentController {
        &self.deployments
    }

    /// Where its files and logs are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}
