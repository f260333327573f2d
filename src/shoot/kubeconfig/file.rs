//! The shape of a kubeconfig, and what its current context names.

use serde::{Deserialize, Deserializer};

use super::fields::missing;
use super::given::Given;
use super::{KubeconfigError, Parts};
use crate::util::text::clean;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct File {
    #[serde(deserialize_with = "or_default")]
    current_context: String,
    #[serde(deserialize_with = "without_nulls")]
    contexts: Vec<NamedContext>,
    #[serde(deserialize_with = "without_nulls")]
    clusters: Vec<NamedCluster>,
    #[serde(deserialize_with = "without_nulls")]
    users: Vec<NamedUser>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedContext {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    #[serde(deserialize_with = "or_default")]
    cluster: String,
    #[serde(deserialize_with = "or_default")]
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedCluster {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedUser {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
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

/// Reads a null as the zero value, as Go does.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a list without its nulls, which have no name that a context could refer to.
fn without_nulls<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let items: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
    Ok(items.into_iter().flatten().flatten().collect())
}

impl File {
    /// What the current context needs, if all of it can be used.
    pub(super) fn parts(&self) -> Result<Parts, KubeconfigError> {
        let context = self.context()?;
        let field = "contexts[].context.cluster";
        let cluster = &one(&self.clusters, |it| &it.name, field, &context.cluster)?.cluster;
        let field = "contexts[].context.user";
        let user = &one(&self.users, |it| &it.name, field, &context.user)?.user;
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
        let named = match (self.current_context.as_str(), &*self.contexts) {
            ("", [only]) => only,
            ("", []) => return Err(missing("contexts", "add one")),
            ("", _) => {
                return Err(missing(
                    "current-context",
                    "there are several contexts, name one",
                ));
            }
            (current, contexts) => one(contexts, |it| &it.name, "current-context", current)?,
        };
        Ok(&named.context)
    }
}

/// The one entry of that name. client-go refuses duplicates as well.
fn one<'a, T>(
    entries: &'a [T],
    name_of: fn(&T) -> &str,
    field: &'static str,
    name: &str,
) -> Result<&'a T, KubeconfigError> {
    if name.is_empty() {
        return Err(missing(field, "set the name of an entry"));
    }
    let mut found = entries.iter().filter(|entry| name_of(entry) == name);
    match (found.next(), found.count()) {
        (Some(entry), 0) => Ok(entry),
        (first, more) => Err(KubeconfigError::Reference {
            field,
            name: clean(name, 80),
            found: usize::from(first.is_some()) + more,
        }),
    }
}
