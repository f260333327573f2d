//! Kubeconfigs with inline data: a server, the authority to trust, a token.

use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use kube::{Client, Config, config::KubeConfigOptions};
use std::fmt;

/// How one user reaches one API server. Its text (`to_string`) is a kubeconfig file.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// `https://host:port`.
    pub server: String,
    /// The authority that signed the server's certificate, PEM.
    pub certificate_authority: Vec<u8>,
    /// The name of the user's entry.
    pub user: String,
    /// A bearer token.
    pub token: String,
}

impl Kubeconfig {
    /// A client that fails at once where a retry would hide what a scenario wants to see.
    pub async fn client(&self) -> Result<Client> {
        let parsed = kube::config::Kubeconfig::from_yaml(&self.to_string())?;
        let mut config =
            Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        // The servers are on this machine, whatever HTTPS_PROXY says.
        config.proxy_url = None;
        Ok(Client::try_from(config)?)
    }
}

impl fmt::Display for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            certificate_authority,
            user,
            token,
        } = self;
        let authority = BASE64_STANDARD.encode(certificate_authority);
        writeln!(
            f,
            "apiVersion: v1
kind: Config
current-context: default
clusters:
- name: default
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: default
  context:
    cluster: default
    user: {user}"
        )
    }
}
