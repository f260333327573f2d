//! The shape of a kubeconfig, and what its current context names.

use serde::Deserialize;

use super::fields::{missing, non_empty};
use super::given::Given;
use super::{KubeconfigError, Parts};
use crate::util::text::clean;

#[derive(Deserialize)]
pub(super) struct File {
    #[serde(rename = "current-context")]
    current_context: Option<String>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    #[serde(default)]
    context: Context,
}

#[derive(Default, Deserialize)]
struct Context {
    cluster: Option<String>,
    user: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    #[serde(default)]
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: Option<String>,
    pub(super) tls_server_name: Option<String>,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) certificate_authority: Given,
    pub(super) insecure_skip_tls_verify: Given,
    pub(super) proxy_url: Given,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct User {
    pub(super) token: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<String>,
    pub(super) exec: Given,
    pub(super) auth_provider: Given,
    #[serde(rename = "tokenFile")]
    pub(super) token_file: Given,
    pub(super) client_certificate: Given,
    pub(super) client_key: Given,
    pub(super) username: Given,
    pub(super) password: Given,
    pub(super) r#as: Given,
    pub(super) as_uid: Given,
    pub(super) as_groups: Given,
    pub(super) as_user_extra: Given,
}

impl File {
    /// What the current context needs, if all of it can be used.
    pub(super) fn parts(&self) -> Result<Parts, KubeconfigError> {
        let context = self.context()?;
        let cluster = context.cluster.as_deref();
        let (field, clusters) = ("contexts[].context.cluster", self.clusters.as_deref());
        let cluster = &one(clusters, |it| &it.name, field, cluster)?.cluster;
        let (field, users) = ("contexts[].context.user", self.users.as_deref());
        let user = &one(users, |it| &it.name, field, context.user.as_deref())?.user;
        cluster.refuse()?;
        user.refuse()?;
        let (token, identity) = (user.token()?, user.identity()?);
        if token.is_none() && identity.is_none() {
            return Err(missing(
                "users[].user.token",
                "set it, or client-certificate-data and client-key-data",
            ));
        }
        Ok(Parts {
            server: cluster.server()?,
            tls_server_name: cluster.tls_server_name()?,
            roots: cluster.roots()?,
            token,
            identity,
        })
    }

    fn context(&self) -> Result<&Context, KubeconfigError> {
        let contexts = self.contexts.as_deref();
        let named = match (non_empty(self.current_context.as_deref()), contexts) {
            (None, Some([only])) => only,
            (None, None | Some([])) => return Err(missing("contexts", "add one")),
            (None, Some(_)) => {
                return Err(missing(
                    "current-context",
                    "there are several contexts, name one",
                ));
            }
            (current, _) => one(contexts, |it| &it.name, "current-context", current)?,
        };
        Ok(&named.context)
    }
}

/// The one entry of that name. client-go refuses duplicates as well.
fn one<'a, T>(
    entries: Option<&'a [T]>,
    name_of: fn(&T) -> &str,
    field: &'static str,
    name: Option<&str>,
) -> Result<&'a T, KubeconfigError> {
    let name = non_empty(name).ok_or_else(|| missing(field, "set the name of an entry"))?;
    let mut found = entries
        .unwrap_or_default()
        .iter()
        .filter(|entry| name_of(entry) == name);
    match (found.next(), found.count()) {
        (Some(entry), 0) => Ok(entry),
        (first, more) => Err(KubeconfigError::Reference {
            field,
            name: clean(name, 80),
            found: usize::from(first.is_some()) + more,
        }),
    }
}
