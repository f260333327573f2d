//! What scenarios share: one etcd, one seed, and API servers for shoots that are lent, returned,
//! cleaned and lent again. Everything starts when it is first asked for.

use crate::{
    ApiServer, Assets, ControlPlane, ControllerManager, Etcd, Kubectl, Operator, Seed,
    ShootBuilder, Workloads,
    apiserver::{Site, User},
    audit,
    kubelet::LEASE_NAMESPACE,
    shoot::PROBE,
};
use anyhow::{Context as _, Result};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::OnceCell, time::timeout};
use tokio_util::task::TaskTracker;

/// For taking the last shoots off their seeds.
const LAST_REMOVALS: Duration = Duration::from_secs(10);

/// A handle on what scenarios share; clones are the same.
#[derive(Clone)]
pub struct Env(Arc<Inner>);

struct Inner {
    assets: Assets,
    root: PathBuf,
    etcd: OnceCell<Etcd>,
    seed: OnceCell<Arc<Seed>>,
    operator: OnceCell<Operator>,
    /// Every API server of shoots. One that nobody else holds is free to be lent.
    lent: Mutex<Vec<Arc<ApiServer>>>,
    started: AtomicUsize,
    removals: TaskTracker,
}

impl Env {
    /// Finds the binaries, building them at the first use. Files and logs go below `root`, which
    /// the caller removes in the end.
    pub async fn prepare(root: &Path) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            assets: Assets::find().await?,
            root: root.to_owned(),
            etcd: OnceCell::new(),
            seed: OnceCell::new(),
            operator: OnceCell::new(),
            lent: Mutex::default(),
            started: AtomicUsize::new(0),
            removals: TaskTracker::new(),
        })))
    }

    /// A shoot to be described further and awaited. Its name must be the only one of its kind in a
    /// run; its namespace on the seed is `shoot--e2e--<name>` unless it is given a project.
    pub fn shoot(&self, name: &str) -> ShootBuilder {
        ShootBuilder::new(self.clone(), name)
    }

    /// The seed that scenarios share.
    pub async fn seed(&self) -> Result<Arc<Seed>> {
        let start = async || Ok(Arc::new(self.start_seed("seed").await?));
        self.0.seed.get_or_try_init(start).await.cloned()
    }

    /// The operator that watches over the seed that scenarios share.
    pub async fn operator(&self) -> Result<&Operator> {
        let start = async || {
            let seed = self.seed().await?;
            Operator::start(
                &seed,
                "prober",
                "prober",
                &["--kube-api-qps=200", "--kube-api-burst=200"],
            )
        };
        self.0.operator.get_or_try_init(start).await
    }

    /// A seed of a scenario's own, for one that stops it or runs an operator of its own.
    pub async fn own_seed(&self, name: &str) -> Result<Arc<Seed>> {
        Ok(Arc::new(self.start_seed(&format!("seed-{name}")).await?))
    }

    /// A seed of a scenario's own on an etcd of its own, for one that stops etcd too.
    pub async fn seed_on_own_etcd(&self, name: &str) -> Result<(Etcd, Arc<Seed>)> {
        let (assets, root) = (&self.0.assets, &self.0.root);
        let etcd = Etcd::start(assets, root, &format!("etcd-{name}")).await?;
        let name = format!("seed-{name}");
        let seed = Seed::start(assets, root, &name, &etcd, Site::loopback()).await;
        let seed = seed.with_context(|| format!("cannot start the seed {name}"))?;
        let installed = seed.install().await;
        installed.with_context(|| format!("cannot install on the seed {name}"))?;
        Ok((etcd, Arc::new(seed)))
    }

    /// A seed of a scenario's own whose API server carries out so many requests at the same time.
    pub async fn narrow_seed(&self, name: &str, inflight: u32) -> Result<Arc<Seed>> {
        let mut site = Site::loopback();
        let flags = ["requests", "mutating-requests"];
        let flags = flags.map(|it| format!("--max-{it}-inflight={}", inflight / 2));
        site.args.extend(flags);
        let seed = self.start_seed_at(&format!("seed-{name}"), site).await?;
        let installed = seed.install().await;
        installed.with_context(|| format!("cannot install on the seed {name}"))?;
        Ok(Arc::new(seed))
    }

    /// A seed of a scenario's own on which nothing is installed.
    pub async fn bare_seed(&self, name: &str) -> Result<Arc<Seed>> {
        let seed = self.start_bare_seed(&format!("seed-{name}")).await?;
        Ok(Arc::new(seed))
    }

    /// Brings the ReplicaSets of a seed to life.
    pub async fn workloads(&self, seed: &Arc<Seed>) -> Result<Arc<Workloads>> {
        let (assets, directory) = (&self.0.assets, seed.directory());
        let name = "kube-controller-manager";
        let controllers = ControllerManager::of_seed(assets, directory, name, seed.server())?;
        Workloads::start(seed, controllers).await
    }

    /// The verbs that a user, by its name, has asked of resources and was granted, on any API server so far.
    pub fn used_rights(&self, user: &User) -> Result<BTreeSet<(String, String)>> {
        let mut used = BTreeSet::new();
        for entry in fs::read_dir(&self.0.root)? {
            let directory = entry?.path();
            if !directory.join(audit::LOG).is_file() {
                continue;
            }
            let requests = audit::requests(&directory, |who| who.username == user.name)?;
            for request in requests.into_iter().filter(|it| it.code < 400) {
                // An apply that makes the object needs both rights.
                if (&*request.verb, request.code) == ("patch", 201) {
                    used.insert(("create".to_owned(), request.resource.clone()));
                }
                used.insert((request.verb, request.resource));
            }
        }
        Ok(used)
    }

    async fn start_seed(&self, name: &str) -> Result<Seed> {
        let seed = self.start_bare_seed(name).await?;
        let installed = seed.install().await;
        installed.with_context(|| format!("cannot install on the seed {name}"))?;
        Ok(seed)
    }

    async fn start_bare_seed(&self, name: &str) -> Result<Seed> {
        self.start_seed_at(name, Site::loopback()).await
    }

    async fn start_seed_at(&self, name: &str, site: Site) -> Result<Seed> {
        let (assets, root) = (&self.0.assets, &self.0.root);
        let seed = Seed::start(assets, root, name, self.etcd().await?, site).await;
        seed.with_context(|| format!("cannot start the seed {name}"))
    }

    async fn etcd(&self) -> Result<&Etcd> {
        let start = async || Etcd::start(&self.0.assets, &self.0.root, "etcd").await;
        self.0.etcd.get_or_try_init(start).await
    }

    /// An API server without nodes or leases: one whose shoots are gone, or a new one.
    pub(crate) async fn borrow_api_server(&self) -> Result<Arc<ApiServer>> {
        if let Some(server) = self.free_api_server() {
            server.revive().await?;
            clean(&server)
                .await
                .context("cannot clean a used API server")?;
            return Ok(server);
        }
        let number = self.0.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("shoot-{number}");
        let (assets, root) = (&self.0.assets, &self.0.root);
        let server = ApiServer::start(assets, root, &name, self.etcd().await?, &[PROBE]);
        let server = Arc::new(server.await?);
        self.lent().push(Arc::clone(&server));
        Ok(server)
    }

    fn free_api_server(&self) -> Option<Arc<ApiServer>> {
        let lent = self.lent();
        lent.iter()
            .find(|server| Arc::strong_count(server) == 1)
            .cloned()
    }

    fn lent(&self) -> MutexGuard<'_, Vec<Arc<ApiServer>>> {
        self.0.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An API server on an etcd of its own.
    pub(crate) async fn separate_api_server(&self, name: &str) -> Result<(Etcd, ApiServer)> {
        let (assets, root) = (&self.0.assets, &self.0.root);
        let etcd = Etcd::start(assets, root, &format!("etcd-{name}")).await?;
        let name = format!("shoot-{name}");
        let server = ApiServer::start(assets, root, &name, &etcd, &[PROBE]).await?;
        Ok((etcd, server))
    }

    /// Takes a shoot off its seed, while the next scenario starts.
    pub(crate) fn remove(&self, control_plane: ControlPlane, runtime: &Handle) {
        let removal = async move {
            let namespace = control_plane.namespace().to_owned();
            if let Err(error) = control_plane.remove().await {
                tracing::warn!("{namespace} not taken off its seed: {error:#}");
            }
        };
        self.0.removals.spawn_on(removal, runtime);
    }

    /// Waits until the shoots that are gone are off their seeds, which may end then; not for long,
    /// since a failed scenario may leave one that answers nothing.
    pub async fn finish(&self) {
        self.0.removals.close();
        if timeout(LAST_REMOVALS, self.0.removals.wait())
            .await
            .is_err()
        {
            tracing::warn!("shoots are left on their seeds");
        }
    }

    pub(crate) fn kubectl(&self, server: &ApiServer) -> Result<Kubectl> {
        Kubectl::new(&self.0.assets, server)
    }

    pub(crate) fn controller_manager(
        &self,
        shoot: &str,
        server: &ApiServer,
        grace: Duration,
    ) -> Result<ControllerManager> {
        let name = format!("kube-controller-manager-{shoot}");
        ControllerManager::start(&self.0.assets, &self.0.root, &name, server, grace)
    }
}

/// Deletes what a shoot has left on its API server.
async fn clean(server: &ApiServer) -> Result<()> {
    let (delete, all) = (DeleteParams::default(), ListParams::default());
    let nodes: Api<Node> = Api::all(server.client()?);
    nodes.delete_collection(&delete, &all).await?;
    let leases: Api<Lease> = Api::namespaced(server.client()?, LEASE_NAMESPACE);
    leases.delete_collection(&delete, &all).await?;
    Ok(())
}
