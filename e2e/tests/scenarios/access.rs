//! How the shoots are reached: kubeconfigs that are broken, and that mean harm.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{ClusterHealth, Protection};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Kubeconfig, Operator, Seed, Shoot,
    wait::{self, Look},
};
use kube::Api;
use rustix::fs::{CWD, Mode, OFlags};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_bad_kubeconfig_is_told_and_harms_nobody,]
}

/// The kubeconfig with which the shoot began.
fn kubeconfig(shoot: &Shoot) -> Result<Kubeconfig> {
    shoot
        .api_server()
        .kubeconfig_of("dependency-watchdog-probe")
}

/// A Cluster on the seed that is nothing but a Secret, or not even that.
pub(super) struct Bad {
    pub(super) name: &'static str,
    /// The data of the Secret, as text; `None`: no Secret.
    pub(super) data: Option<Value>,
    pub(super) reason: &'static str,
    /// What the message names.
    pub(super) says: [&'static str; 2],
}

impl Bad {
    fn namespace(&self) -> String {
        format!("shoot--bad--{}", self.name)
    }

    pub(super) async fn create(&self, seed: &Seed, scenario: &str, secret: &str) -> Result<()> {
        let namespace = self.namespace();
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({
                "apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Cluster",
                "metadata": {"name": namespace, "labels": {"scenario": scenario}},
                "spec": {"cloudProfile": {}, "seed": {}, "shoot": {
                    "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
                    "metadata": {"name": self.name},
                    "spec": {"provider": {"type": "local", "workers": [{"name": "worker"}]}},
                    "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
                }},
            }),
        ];
        if let Some(data) = &self.data {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": secret, "namespace": namespace}, "stringData": data,
            }));
        }
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        seed.apply(&documents.join("\n---\n")).await
    }

    /// Waits until the operator says what is wrong with it.
    pub(super) async fn is_told(&self, seed: &Seed) -> Result<()> {
        self.says_either(seed, &[self.reason]).await
    }

    /// Waits until the operator gives one of these reasons.
    pub(super) async fn says_either(&self, seed: &Seed, reasons: &[&str]) -> Result<()> {
        let api: Api<ClusterHealth> = Api::all(seed.client()?);
        let namespace = self.namespace();
        let what = format!("{namespace} to be found {}", reasons.join(" or "));
        let status = wait::until(&what, async || {
            let health = api.get_opt(&namespace).await?;
            let status = health.and_then(|health| health.status).unwrap_or_default();
            let reason = status.reason.as_deref().unwrap_or_default();
            Ok(if reasons.contains(&reason) {
                Look::Met(status)
            } else {
                Look::Not(serde_json::to_string(&status)?)
            })
        })
        .await?;
        let message = status.message.unwrap_or_default();
        for part in self.says {
            ensure!(
                message.contains(part),
                "{namespace}: {message:?} lacks {part:?}"
            );
        }
        ensure!(status.protection == Protection::None, "{namespace}");
        Ok(())
    }
}

/// A good kubeconfig, with such a cluster and such a user.
fn with(good: &Kubeconfig, cluster: &Value, user: &Value) -> Result<Value> {
    let mut file: Value = serde_saphyr::from_str(&good.to_string())?;
    for (place, patch) in [("/clusters/0/cluster", cluster), ("/users/0/user", user)] {
        json_patch::merge(file.pointer_mut(place).context(place)?, patch);
    }
    Ok(json!({"kubeconfig": file.to_string()}))
}

fn bad(good: &Kubeconfig, foreign: &Kubeconfig, files: &Path) -> Result<Vec<Bad>> {
    let same = &json!({});
    let file = files.join("pipe").display().to_string();
    let touch = format!("touch {}", files.join("ran").display());
    let plugin = json!({
        "token": null,
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh",
            "args": ["-c", touch], "interactiveMode": "Never",
        },
    });
    let old_plugin = json!({
        "token": null,
        "auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh", "cmd-args": touch}},
    });
    let unverified = json!({
        "certificate-authority-data": null, "insecure-skip-tls-verify": true,
    });
    let authority = json!({
        "certificate-authority-data": null, "certificate-authority": file,
    });
    let proxy = json!({"proxy-url": good.server});
    let another = Kubeconfig {
        certificate_authority: foreign.certificate_authority.clone(),
        ..good.clone()
    };
    let case = |name, reason, says, data| Bad {
        name,
        data,
        reason,
        says,
    };
    let refused = "KubeconfigRefused";
    Ok(vec![
        case(
            "plugin",
            refused,
            ["shoot--bad--plugin/", "users[].user.exec"],
            Some(with(good, same, &plugin)?),
        ),
        case(
            "old-plugin",
            refused,
            ["shoot--bad--old-plugin/", "users[].user.auth-provider"],
            Some(with(good, same, &old_plugin)?),
        ),
        case(
            "token-file",
            refused,
            ["shoot--bad--token-file/", "users[].user.tokenFile"],
            Some(with(
                good,
                same,
                &json!({"token": null, "tokenFile": file}),
            )?),
        ),
        case(
            "authority-file",
            refused,
            ["shoot--bad--authority-file/", "of the same name with -data"],
            Some(with(good, &authority, same)?),
        ),
        case(
            "unverified",
            refused,
            ["shoot--bad--unverified/", "insecure-skip-tls-verify"],
            Some(with(good, &unverified, same)?),
        ),
        case(
            "proxy",
            refused,
            ["shoot--bad--proxy/", "proxy-url"],
            Some(with(good, &proxy, same)?),
        ),
        case(
            "garbage",
            "KubeconfigInvalid",
            ["shoot--bad--garbage/", "UTF-8 YAML or JSON"],
            Some(json!({"kubeconfig": "\u{1}{"})),
        ),
        case(
            "no-key",
            "SecretKeyMissing",
            ["shoot--bad--no-key/", "\"kubeconfig\"; put"],
            Some(json!({"config": good.to_string()})),
        ),
        case(
            "no-secret",
            "SecretMissing",
            [
                "shoot--bad--no-secret/",
                "create it, or correct kubeConfigSecretName",
            ],
            None,
        ),
        case(
            "foreign",
            "TlsFailed",
            ["list the leases", "certificate-authority-data"],
            Some(json!({"kubeconfig": another.to_string()})),
        ),
    ])
}

async fn e2e_a_bad_kubeconfig_is_told_and_harms_nobody(env: Env) -> Result<()> {
    let seed = env.own_seed("access").await?;
    let files = tempfile::tempdir()?;
    let pipe = files.path().join("pipe");
    rustix::fs::mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR)?;
    let _operator = Operator::start(&seed, "prober", "prober", &[])?;
    let shoot = env.shoot("access").dependents(DEPENDENTS).on(&seed).await?;
    let foreign = seed.server().kubeconfig_of("dependency-watchdog")?;
    let bad = bad(&kubeconfig(&shoot)?, &foreign, files.path())?;
    for cluster in &bad {
        let secret = shoot.control_plane.kubeconfig_secret();
        cluster.create(&seed, "access", secret).await?;
    }
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    for cluster in &bad {
        cluster.is_told(&seed).await?;
    }

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    for cluster in &bad {
        cluster.is_told(&seed).await?;
    }
    ensure!(!files.path().join("ran").exists(), "a plugin was run");
    // Whoever opens a pipe to read waits for a writer; without a reader nobody can write.
    let opened = rustix::fs::open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    ensure!(
        opened.is_err_and(|error| error == rustix::io::Errno::NXIO),
        "a file was read"
    );
    Ok(())
}
