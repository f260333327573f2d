//! A cluster of one node: its control plane as processes beside it.

use super::{Inside, Node, image, inside::ADDRESS, machine::Plan};
use crate::{
    ApiServer, Assets, ControllerManager, Etcd, Kubectl, Process, Request, User, apiserver::Site,
    apply, free_port,
};
use anyhow::Result;
use kube::Client;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The authority of the certificate by which API servers ask kubelets, in the directory of a run.
pub(super) const AUTHORITY: &str = "pki/authority.pem";
/// The first node.
const NODE: &str = "seed";
const KUBELET: User = User {
    id: "kubelet",
    name: "system:node:seed",
    groups: &["system:nodes"],
};
const SCHEDULER: User = User {
    id: "scheduler",
    name: "system:kube-scheduler",
    groups: &[],
};
const PROXY: User = User {
    id: "proxy",
    name: "system:kube-proxy",
    groups: &[],
};
/// Their machinery would fill the audit log.
const MACHINERY: [User; 3] = [KUBELET, SCHEDULER, PROXY];
/// What is installed runs as these; only what they ask is recorded. The tokens that they get besides are
/// not used: the kubelet gives them their own.
const OURS: [User; 2] = [
    User {
        id: "prober",
        name: "system:serviceaccount:garden:dwd-prober",
        groups: &["system:serviceaccounts"],
    },
    User {
        id: "weeder",
        name: "system:serviceaccount:garden:dwd-weeder",
        groups: &["system:serviceaccounts"],
    },
];

/// A running cluster.
pub struct Cluster {
    /// Its directory and cgroups.
    pub inside: Inside,
    /// Where its control plane's binaries are.
    pub assets: Assets,
    /// Where those of nodes are.
    pub servers: Assets,
    /// The images that every node has.
    pub images: Vec<PathBuf>,
    /// The only node.
    pub node: Node,
    server: ApiServer,
    kubectl: Kubectl,
    _etcd: Etcd,
    _processes: [Process; 2],
    _controllers: ControllerManager,
}

impl Cluster {
    /// Starts one, with this archive of an image besides those of [`super::TOOLS`] and [`super::PAUSE`].
    pub async fn start(inside: Inside, image: &Path) -> Result<Self> {
        let root = inside.root.clone();
        let assets = Assets::find().await?;
        let servers = Assets::built_by("node/build.sh").await?;
        let directory = root.join("images");
        fs::create_dir_all(&directory)?;
        let mut images = image::make(&directory).await?;
        images.push(image.to_owned());

        let etcd = Etcd::start(&assets, &root, "etcd").await?;
        let pki = root.join("pki");
        let authority = client_authority(&pki)?;
        let file = |name: &str| pki.join(name).display().to_string();
        let site = Site {
            address: ADDRESS,
            unrecorded: &MACHINERY,
            args: vec![
                "--authorization-mode=Node,RBAC".to_owned(),
                "--allow-privileged".to_owned(),
                format!("--kubelet-client-certificate={}", file("client.crt")),
                format!("--kubelet-client-key={}", file("client.key")),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
            ],
        };
        let server = ApiServer::start_at(&assets, &root, "api-server", &etcd, &OURS, site).await?;
        let controllers = ControllerManager::whole(&assets, &root, "controllers", &server)?;
        let kubeconfig = server.kubeconfig_file_of(SCHEDULER.id)?;
        let scheduler = Process::new("kube-scheduler", servers.binary("kube-scheduler"), &root)
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
            .args([
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--secure-port={}", free_port()?),
                format!(
                    "--cert-dir={}",
                    root.join("scheduler-certificates").display()
                ),
            ]);
        scheduler.start()?;
        let kubeconfig = server.kubeconfig_file_of(PROXY.id)?;
        let proxy = Process::new("kube-proxy", servers.binary("kube-proxy"), &root)
            .args([
                "--proxy-mode=iptables",
                "--cluster-cidr=10.88.0.0/24",
                // Settings of the kernel that all namespaces share.
                "--conntrack-max-per-core=0",
                "--conntrack-tcp-timeout-established=0",
                "--conntrack-tcp-timeout-close-wait=0",
            ])
            .args([
                format!("--hostname-override={NODE}"),
                format!("--kubeconfig={}", kubeconfig.display()),
            ]);
        let plan = Plan {
            name: NODE,
            address: ADDRESS,
            pods: "10.88.0",
            apart: false,
            kubeconfig: &server.kubeconfig_of(KUBELET.id)?,
            authority: &authority,
            images: &images,
        };
        let node = Node::start(&inside, &servers, &plan).await?;
        let client = server.client()?;
        node.is_ready(&client).await?;
        proxy.start()?;
        let kubectl = Kubectl::new(&assets, &server)?;
        let cluster = Self {
            inside,
            assets,
            servers,
            images,
            node,
            server,
            kubectl,
            _etcd: etcd,
            _processes: [scheduler, proxy],
            _controllers: controllers,
        };
        let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
        for entry in fs::read_dir(kinds)? {
            cluster.apply(&fs::read_to_string(entry?.path())?).await?;
        }
        Ok(cluster)
    }

    /// A client of the administrator.
    pub fn client(&self) -> Result<Client> {
        self.server.client()
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Applies YAML as the administrator.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        apply(&self.client()?, yaml).await
    }

    /// What the prober has asked for, whatever pod it runs in.
    pub fn prober_requests(&self) -> Result<Vec<Request>> {
        self.requests(0)
    }

    /// What the weeder has asked for.
    pub fn weeder_requests(&self) -> Result<Vec<Request>> {
        self.requests(1)
    }

    fn requests(&self, of: usize) -> Result<Vec<Request>> {
        let name = OURS.get(of).map_or("", |it| it.name);
        self.server.requests_named(name)
    }
}

/// The certificate of an authority as PEM, by which a client certificate in this directory is signed:
/// that of an API server, which may do everything on kubelets.
fn client_authority(directory: &Path) -> Result<String> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "api-server");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    fs::create_dir_all(directory)?;
    fs::write(directory.join("authority.pem"), authority.pem())?;
    fs::write(directory.join("client.crt"), certificate.pem())?;
    fs::write(directory.join("client.key"), key.serialize_pem())?;
    Ok(authority.pem())
}
