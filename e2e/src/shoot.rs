//! A shoot: its API server with its kubelets, and its control plane's side on a seed.

use crate::{
    ApiServer, ControlPlane, ControllerManager, Dependent, Env, Etcd, Kubectl, Kubelet, Request,
    Seed, apiserver::User, control_plane::WORKER_POOL, kubelet::Registration, wait,
};
use anyhow::{Context as _, Result};
use futures::future::LocalBoxFuture;
use kube::Client;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// The user of the kubeconfig in the seed: the ServiceAccount of the manifests.
pub const PROBE: User = User {
    id: "dependency-watchdog-probe",
    name: "system:serviceaccount:kube-system:dependency-watchdog-probe",
    groups: &[
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
    ],
};

/// Short, so that a scenario sees an outage within seconds: kubelets renew every second.
const LEASE_DURATION: Duration = Duration::from_secs(4);

/// The zones over which nodes are spread in turn.
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// The API server makes these itself, a moment after it is ready.
const NAMESPACES: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: kube-node-lease}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}
";
/// What a shoot grants, whoever had its API server before.
const RIGHTS: &str = include_str!("../../manifests/shoot/rbac.yaml");

/// A running shoot. At its end the kubelets stop, the seed forgets it, and its API server is lent
/// to the next one.
pub struct Shoot {
    /// Its side on the seed.
    pub control_plane: ControlPlane,
    /// One a node, in the order of their names.
    pub kubelets: Vec<Kubelet>,
    controller_manager: Option<ControllerManager>,
    server: Arc<ApiServer>,
    own_etcd: Option<Etcd>,
    env: Env,
    runtime: Handle,
}

/// What a scenario wants of a shoot; awaiting it makes it so.
#[derive(Clone)]
pub struct ShootBuilder {
    env: Env,
    project: String,
    name: String,
    nodes: usize,
    labels: BTreeMap<String, String>,
    lease_duration: Duration,
    dependents: Vec<String>,
    grace: Option<Duration>,
    own_etcd: bool,
    neighbour: Option<Arc<ApiServer>>,
    seed: Option<Arc<Seed>>,
}

impl ShootBuilder {
    pub(crate) fn new(env: Env, name: &str) -> Self {
        Self {
            env,
            project: "e2e".to_owned(),
            name: name.to_owned(),
            nodes: 3,
            labels: BTreeMap::from([("scenario".to_owned(), name.to_owned())]),
            lease_duration: LEASE_DURATION,
            dependents: Vec::new(),
            grace: None,
            own_etcd: false,
            neighbour: None,
            seed: None,
        }
    }

    /// The Gardener project it belongs to, which is part of its namespace's name. `e2e` unless
    /// said.
    #[must_use]
    pub fn project(mut self, project: &str) -> Self {
        project.clone_into(&mut self.project);
        self
    }

    /// How many nodes, each with a kubelet and a Machine. 3 unless said.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// A label of the Shoot inside the Cluster, beside `scenario: <the shoot's name>`.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The duration of the nodes' leases, of which kubelets renew every quarter. 4 s unless said,
    /// 40 s in real life; whole seconds.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.lease_duration = duration;
        self
    }

    /// Deployments in its namespace, one replica each.
    #[must_use]
    pub fn dependents<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.dependents.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// A real kube-controller-manager, which calls a silent node Unknown after this long.
    #[must_use]
    pub fn controller_manager(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// An etcd and an API server of its own, for a scenario that stops etcd.
    #[must_use]
    pub fn own_etcd(mut self) -> Self {
        self.own_etcd = true;
        self
    }

    /// On the API server of another shoot, which costs none of its own. To the operator they are
    /// clusters of their own: the leases there are of both, but each has Machines for its own nodes
    /// alone, and a lease without a Machine does not count.
    #[must_use]
    pub fn beside(mut self, shoot: &Shoot) -> Self {
        self.neighbour = Some(Arc::clone(&shoot.server));
        self
    }

    /// Its control plane on a seed other than the shared one.
    #[must_use]
    pub fn on(mut self, seed: &Arc<Seed>) -> Self {
        self.seed = Some(Arc::clone(seed));
        self
    }

    async fn start(self) -> Result<Shoot> {
        let Self { env, name, .. } = &self;
        let seed = async {
            match &self.seed {
                Some(seed) => Ok(Arc::clone(seed)),
                None => env.seed().await,
            }
        };
        let server = async {
            if self.own_etcd {
                let (etcd, server) = env.separate_api_server(name).await?;
                Ok((Some(etcd), Arc::new(server)))
            } else if let Some(neighbour) = &self.neighbour {
                Ok((None, Arc::clone(neighbour)))
            } else {
                Ok((None, env.borrow_api_server().await?))
            }
        };
        let (seed, (own_etcd, server)) = tokio::try_join!(seed, server)?;

        let client = server.client()?;
        crate::apply(&client, NAMESPACES).await?;
        crate::apply(&client, RIGHTS)
            .await
            .context("cannot grant the probe its rights")?;
        let control_plane = ControlPlane::create(seed, &self.project, name, &self.labels).await?;
        let mut shoot = Shoot {
            control_plane,
            kubelets: Vec::new(),
            controller_manager: None,
            server,
            own_etcd,
            env: env.clone(),
            runtime: Handle::current(),
        };
        let kubeconfig = shoot.server.kubeconfig_of(PROBE.id)?.to_string();
        shoot.control_plane.write_kubeconfig(&kubeconfig).await?;
        for (index, zone) in (0..self.nodes).zip(ZONES.iter().cycle()) {
            let node = format!("{name}-{index}");
            shoot.control_plane.create_machine(&node).await?;
            shoot
                .kubelets
                .push(Kubelet::start(&client, self.registration(node, zone)));
        }
        for dependent in &self.dependents {
            shoot.control_plane.create_dependent(dependent, 1).await?;
        }
        shoot.all_renew().await?;
        if let Some(grace) = self.grace {
            shoot.controller_manager = Some(env.controller_manager(name, &shoot.server, grace)?);
        }
        Ok(shoot)
    }

    fn registration(&self, node: String, zone: &str) -> Registration {
        let labels = [
            ("kubernetes.io/hostname", node.as_str()),
            ("topology.kubernetes.io/zone", zone),
            ("worker.gardener.cloud/pool", WORKER_POOL),
        ];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        Registration {
            node,
            labels,
            lease_duration: self.lease_duration,
        }
    }
}

impl IntoFuture for ShootBuilder {
    type Output = Result<Shoot>;
    type IntoFuture = LocalBoxFuture<'static, Result<Shoot>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let name = self.name.clone();
            self.start()
                .await
                .with_context(|| format!("cannot start the shoot {name}"))
        })
    }
}

impl Shoot {
    /// A client of the administrator of its API server.
    pub fn client(&self) -> Result<Client> {
        self.server.client()
    }

    /// A client with the rights of the kubeconfig in the seed.
    pub async fn probe_client(&self) -> Result<Client> {
        self.server.client_of(PROBE.id).await
    }

    /// kubectl as the administrator of its API server.
    pub fn kubectl(&self) -> Result<Kubectl> {
        self.env.kubectl(&self.server)
    }

    /// What came with the kubeconfig in the seed so far. The API server may have served other
    /// shoots before: filter by time where it matters.
    pub fn probe_requests(&self) -> Result<Vec<Request>> {
        self.server.requests_of(PROBE.id)
    }

    /// Its namespace on the seed.
    pub fn namespace(&self) -> &str {
        self.control_plane.namespace()
    }

    /// One of its Deployments on the seed.
    pub fn dependent(&self, name: &str) -> Dependent {
        self.control_plane.dependent(name)
    }

    /// One of its kubelets, from 0.
    pub fn kubelet(&self, index: usize) -> Result<&Kubelet> {
        let count = self.kubelets.len();
        self.kubelets
            .get(index)
            .with_context(|| format!("{} has no kubelet {index}, only {count}", self.namespace()))
    }

    /// Cuts all kubelets off the API server, as a broken NAT gateway does.
    pub fn cut_all(&self) {
        self.cut(self.kubelets.len());
    }

    /// Cuts the first so many.
    pub fn cut(&self, count: usize) {
        self.kubelets.iter().take(count).for_each(Kubelet::cut);
    }

    /// Lets all kubelets reach the API server again.
    pub fn restore_all(&self) {
        self.kubelets.iter().for_each(Kubelet::restore);
    }

    /// Waits until each kubelet has renewed its lease once more.
    pub async fn all_renew(&self) -> Result<()> {
        for kubelet in &self.kubelets {
            let before = kubelet.renewals().len();
            wait::until(
                &format!("{} to renew its lease", kubelet.name()),
                async || {
                    let renewals = kubelet.renewals().len();
                    wait::seen(renewals > before, format!("{renewals} renewals"))
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Ends its API server, as a crash would.
    pub fn stop_api_server(&self) {
        self.server.stop();
    }

    /// Starts a stopped API server, on the same port and data, and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        self.server.start_again().await
    }

    /// Freezes its API server: connections stay open, nothing is answered.
    pub fn pause_api_server(&self) -> Result<()> {
        self.server.pause()
    }

    /// Lets a frozen API server go on.
    pub fn resume_api_server(&self) -> Result<()> {
        self.server.resume()
    }

    /// Its API server.
    pub fn api_server(&self) -> &ApiServer {
        &self.server
    }

    /// Its own etcd, if it was asked for.
    pub fn etcd(&self) -> Result<&Etcd> {
        self.own_etcd
            .as_ref()
            .with_context(|| format!("{} shares its etcd: ask for own_etcd()", self.namespace()))
    }

    /// Its real kube-controller-manager, if it was asked for.
    pub fn controller_manager(&self) -> Result<&ControllerManager> {
        self.controller_manager.as_ref().with_context(|| {
            format!(
                "{} has none: ask for controller_manager(grace)",
                self.namespace()
            )
        })
    }
}

impl Drop for Shoot {
    fn drop(&mut self) {
        self.kubelets.clear();
        self.controller_manager = None;
        self.env.remove(self.control_plane.clone(), &self.runtime);
    }
}
