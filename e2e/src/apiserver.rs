//! kube-apiserver, with users who have a token each.

use crate::{
    Assets, Etcd, Kubeconfig, Process, audit, free_port,
    wait::{self, Look},
};
use anyhow::{Context as _, Result};
use kube::Client;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};
use tokio::time::timeout;

/// The user in system:masters.
pub(crate) const ADMIN: &str = "admin";

/// A user who may do nothing until RBAC says so.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// By which it is known here, and in the audit log: its UID. Two may share a name, and with it
    /// their rights.
    pub id: &'static str,
    /// Its name, to RBAC: `system:serviceaccount:<namespace>:<name>` for a ServiceAccount.
    pub name: &'static str,
    /// Its groups, beside `system:authenticated`.
    pub groups: &'static [&'static str],
}

/// Where an API server listens, and what is particular to its cluster.
pub(crate) struct Site {
    /// The address by which all reach it.
    pub(crate) address: Ipv4Addr,
    /// Users whose requests are not recorded.
    pub(crate) unrecorded: &'static [User],
    /// Flags.
    pub(crate) args: Vec<String>,
}

impl Site {
    /// On loopback, for a cluster without controllers and nodes.
    pub(crate) fn loopback() -> Self {
        let args = [
            "--bind-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            // Without it no pod can be created where no controller makes service accounts.
            "--disable-admission-plugins=ServiceAccount",
            "--authorization-mode=RBAC",
        ];
        Self {
            address: Ipv4Addr::LOCALHOST,
            unrecorded: &[],
            args: args.map(str::to_owned).to_vec(),
        }
    }
}

/// One answer to "are you ready"; a frozen server gives none.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// An API server. Stopped and started again it comes back on the same port, certificate and data.
pub struct ApiServer {
    process: Process,
    directory: PathBuf,
    address: Ipv4Addr,
    port: u16,
    tokens: BTreeMap<String, String>,
    admin: OnceLock<Client>,
}

impl ApiServer {
    /// Starts one on a shared etcd, under a prefix of its own (its name), with an administrator
    /// and these users. Waits until it is ready.
    pub async fn start(
        assets: &Assets,
        root: &Path,
        name: &str,
        etcd: &Etcd,
        users: &[User],
    ) -> Result<Self> {
        Self::start_at(assets, root, name, etcd, users, Site::loopback()).await
    }

    /// As [`Self::start`], at a site of its own.
    pub(crate) async fn start_at(
        assets: &Assets,
        root: &Path,
        name: &str,
        etcd: &Etcd,
        users: &[User],
        site: Site,
    ) -> Result<Self> {
        let directory = root.join(name);
        fs::create_dir_all(&directory)?;
        let port = free_port()?;
        let file = |name: &str| directory.join(name).display().to_string();

        let admin = User {
            id: ADMIN,
            name: ADMIN,
            groups: &["system:masters"],
        };
        let mut tokens = BTreeMap::new();
        let mut lines = String::new();
        for User { id, name, groups } in users.iter().chain(site.unrecorded).chain([&admin]) {
            let token = format!("{:032x}", fastrand::u128(..));
            writeln!(lines, "{token},{name},{id},\"{}\"", groups.join(","))?;
            tokens.insert((*id).to_owned(), token);
        }
        fs::write(file("tokens.csv"), lines)?;
        fs::write(file("audit-policy.yaml"), audit::policy(users))?;

        let process = Process::new(name, assets.binary("kube-apiserver"), &directory)
            .args([
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.0.0.0/24",
            ])
            .args([
                format!("--advertise-address={}", site.address),
                format!("--secure-port={port}"),
                format!("--etcd-servers={}", etcd.url()),
                format!("--etcd-prefix=/{name}"),
                format!("--cert-dir={}", file("certificates")),
                format!("--token-auth-file={}", file("tokens.csv")),
                // It makes this key with its certificate, before it looks for one to sign with.
                format!(
                    "--service-account-key-file={}",
                    file("certificates/apiserver.key")
                ),
                format!(
                    "--service-account-signing-key-file={}",
                    file("certificates/apiserver.key")
                ),
                format!("--audit-policy-file={}", file("audit-policy.yaml")),
                format!("--audit-log-path={}", file(audit::LOG)),
            ])
            .args(site.args);
        let server = Self {
            process,
            directory,
            address: site.address,
            port,
            tokens,
            admin: OnceLock::new(),
        };
        server.start_again().await?;
        Ok(server)
    }

    /// Ends it as a crash would, its port free at once. (A graceful end takes seconds.)
    pub fn stop(&self) {
        self.process.kill();
    }

    /// Starts a stopped one, on the same port and data, and waits until it is ready.
    pub async fn start_again(&self) -> Result<()> {
        self.process.start()?;
        self.is_ready().await
    }

    /// Freezes it: connections stay open, nothing is answered.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Lets a frozen one go on.
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Brings it back from whatever a scenario did to it.
    pub(crate) async fn revive(&self) -> Result<()> {
        if !self.process.is_running() {
            return self.start_again().await;
        }
        self.process.resume()?;
        self.is_ready().await
    }

    /// The address, `https://127.0.0.1:port` unless it is at a site of its own.
    pub fn url(&self) -> String {
        format!("https://{}:{}", self.address, self.port)
    }

    /// A client of the administrator.
    pub fn client(&self) -> Result<Client> {
        self.admin
            .get()
            .cloned()
            .context("the API server was never ready")
    }

    /// A client of a user, by its id.
    pub async fn client_of(&self, user: &str) -> Result<Client> {
        self.kubeconfig_of(user)?.client().await
    }

    /// A kubeconfig of a user, by its id, with inline data.
    pub fn kubeconfig_of(&self, user: &str) -> Result<Kubeconfig> {
        let token = self.tokens.get(user);
        let token = token.with_context(|| format!("{} has no user {user}", self.url()))?;
        // The server signs its certificate itself, at the first start, and keeps it.
        let certificate = self.directory.join("certificates/apiserver.crt");
        Ok(Kubeconfig {
            server: self.url(),
            certificate_authority: fs::read(&certificate)
                .with_context(|| format!("cannot read {}", certificate.display()))?,
            user: user.to_owned(),
            token: token.clone(),
        })
    }

    /// The kubeconfig of a user as a file.
    pub fn kubeconfig_file_of(&self, user: &str) -> Result<PathBuf> {
        let path = self.directory.join(format!("kubeconfig-{user}.yaml"));
        let text = self.kubeconfig_of(user)?.to_string();
        // Somebody may be reading it.
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(path);
        }
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Every request that a user (not the administrator) has sent, by its id, in the order of the
    /// answers.
    pub fn requests_of(&self, user: &str) -> Result<Vec<audit::Request>> {
        audit::requests(&self.directory, |who| who.uid == user)
    }

    /// Every request of a user by its name, of a ServiceAccount for instance.
    pub(crate) fn requests_named(&self, name: &str) -> Result<Vec<audit::Request>> {
        audit::requests(&self.directory, |who| who.username == name)
    }

    /// A file in its directory: of its certificates, or its audit log.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Its process, for its log and exit.
    pub fn process(&self) -> &Process {
        &self.process
    }

    async fn is_ready(&self) -> Result<()> {
        wait::until(&format!("{} to be ready", self.url()), async || {
            if let Err(ended) = self.process.ensure_running() {
                return Ok(Look::Never(ended.to_string()));
            }
            // A client is kept only once it worked: the certificate may just be being written.
            let client = match self.admin.get() {
                Some(client) => client.clone(),
                None => self.kubeconfig_of(ADMIN)?.client().await?,
            };
            let request = http::Request::get("/readyz").body(Vec::new())?;
            timeout(READY_TIMEOUT, client.request_text(request)).await??;
            self.admin.get_or_init(|| client);
            Ok(Look::Met(()))
        })
        .await
    }
}
