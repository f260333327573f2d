//! The settings that a prober runs on: a policy, converted and checked once, with what the cluster
//! itself overrides.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    api::{
        self, DependentRef, DependentResourceInfo, HealthCheck, Mode, ObserverSettings,
        ProbePolicySpec, ScaleInfo,
    },
    gardener::{Cluster, Shoot},
};

/// The node conditions for which a node is replaced anyway, so that its silence is no evidence of
/// an outage; the default of Gardener's machine-controller-manager.
pub const DEFAULT_NODE_CONDITIONS: [&str; 4] = [
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "DiskPressure",
    "NetworkUnavailable",
];

/// Settings by which a cluster is probed and protected. Two equal values ask for the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The name of the policy.
    pub policy: Arc<str>,
    /// Mode: whether dependents are written to.
    pub mode: Mode,
    /// The Secret with the kubeconfig of the shoot, in the cluster's namespace.
    pub secret_name: Arc<str>,
    /// Rules by which its leases are read and judged.
    pub rules: LeaseRules,
    /// Time for which a cluster that has become eligible is observed before anything is scaled.
    pub initial_delay: Duration,
    /// Longest time for a protection.
    pub max_protection: Option<Duration>,
    /// Dependents, ordered by reference, so that the order in the policy makes no difference.
    pub dependents: Arc<[Dependent]>,
    /// Node conditions that take a node out of the count, by the name of the worker pool;
    /// nodes of no known pool go by [`DEFAULT_NODE_CONDITIONS`].
    pub pools: BTreeMap<String, Vec<String>>,
    /// Settings by which its state is observed.
    pub observer: Arc<ObserverSettings>,
    /// Further evidence, and what hangs on it.
    pub checks: Arc<[HealthCheck]>,
}

/// The policy's rules by which leases are read and judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeaseRules {
    /// kube-controller-manager's node-monitor-grace-period.
    pub grace: Duration,
    /// The share of expired leases that is an outage, in (0, 1].
    pub fraction: f64,
    /// The share below which the expired leases of a protected cluster must fall to be no outage any more,
    /// in (0, fraction].
    pub recovery: f64,
    /// Least number of expired leases with which an outage begins.
    pub minimum: u32,
    /// From the start of a run to the start of the next, at the least.
    pub interval: Duration,
    /// The share of the interval by which it is lengthened at random, 0 to 1.
    pub jitter_factor: f64,
    /// The time that one read may take.
    pub timeout: Duration,
    /// Consecutive outages before the dependents are scaled down, at least 1.
    pub failure_threshold: u32,
    /// Consecutive healthy verdicts before they are restored, at least 1.
    pub success_threshold: u32,
}

/// A resource that is scaled to zero in an outage.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Dependent {
    /// The resource, in the cluster's namespace.
    pub reference: DependentRef,
    /// The resource may be missing.
    pub optional: bool,
    /// When it is scaled up, in relation to the others.
    pub up: Scale,
    /// When it is scaled down, in relation to the others.
    pub down: Scale,
}

/// The place of a dependent among those that are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scale {
    /// Levels are worked through in ascending order.
    pub level: u32,
    /// The wait before the write.
    pub initial_delay: Duration,
    /// Time for which the level waits for the effect of the write.
    pub timeout: Duration,
    /// Time for which it waits on the way up for the nodes; zero if it does not.
    pub await_nodes: Duration,
}

/// Why a cluster has no settings although a policy applies, for people. It is not probed; others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The policy breaks a rule.
    Policy(String),
    /// The Shoot, or its own grace period, cannot be understood.
    Cluster(String),
}

impl Settings {
    /// The settings for any cluster by the policy of this name, in whose spec [`api::problems`](crate::api::problems)
    /// has found none.
    pub fn of_policy(policy: Arc<str>, spec: &ProbePolicySpec) -> Self {
        let infos = spec.dependent_resource_infos.iter();
        let mut dependents: Vec<_> = infos.map(dependent).collect();
        dependents.sort_by(|a, b| a.reference.cmp(&b.reference));
        Self {
            policy,
            mode: spec.mode,
            secret_name: spec.kube_config_secret_name.as_str().into(),
            rules: LeaseRules {
                grace: spec.kcm_node_monitor_grace_duration.get(),
                fraction: spec.node_lease_failure_fraction,
                recovery: spec
                    .node_lease_recovery_fraction
                    .unwrap_or(spec.node_lease_failure_fraction),
                minimum: spec.minimum_silent_nodes.unsigned_abs(),
                interval: spec.probe_interval.get(),
                jitter_factor: spec.backoff_jitter_factor,
                timeout: spec.probe_timeout.get(),
                failure_threshold: spec.failure_threshold.unsigned_abs(),
                success_threshold: spec.success_threshold.unsigned_abs(),
            },
            initial_delay: spec.initial_delay.get(),
            max_protection: spec.max_protection.as_ref().map(api::Duration::get),
            dependents: dependents.into(),
            pools: BTreeMap::new(),
            observer: Arc::new(spec.observer.clone()),
            checks: spec.checks.as_slice().into(),
        }
    }

    /// Returns the settings for `cluster`: its own grace period wins over the policy's, and its worker
    /// pools bring their node conditions.
    ///
    /// # Errors
    ///
    /// What the Cluster would override cannot be understood. There is no fallback to the policy's
    /// value: a grace period that is too short would take a healthy cluster for a silent one.
    pub fn for_cluster(&self, cluster: &Cluster) -> Result<Self, SettingsError> {
        let shoot = cluster.shoot.as_ref().map_err(|why| {
            SettingsError::Cluster(format!(
                "the Cluster's Shoot cannot be read: {why}; nothing is scaled until it is corrected"
            ))
        })?;
        let mut settings = self.clone();
        if let Some(written) = &shoot.node_monitor_grace_period {
            settings.rules.grace = grace(written)?;
        }
        settings.pools = pools(shoot);
        Ok(settings)
    }
}

fn grace(written: &str) -> Result<Duration, SettingsError> {
    let grace = written.parse().ok().map(|grace: api::Duration| grace.get());
    grace.filter(|grace| !grace.is_zero()).ok_or_else(|| {
        SettingsError::Cluster(format!(
            "the Cluster's spec.shoot.spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod is \
             {written:?}, which is not a duration above 0 such as 40s or 2m0s: correct it in the Shoot; \
             until then nothing is scaled for this cluster"
        ))
    })
}

/// An empty list means the default, as in the machine-controller-manager.
fn pools(shoot: &Shoot) -> BTreeMap<String, Vec<String>> {
    let pools = shoot.workers.iter().map(|pool| {
        let own = pool.machine_controller_manager.as_ref();
        let own = own.and_then(|own| own.node_conditions.clone());
        let own = own.filter(|own| !own.is_empty());
        let default = || DEFAULT_NODE_CONDITIONS.map(str::to_owned).to_vec();
        (pool.name.clone(), own.unwrap_or_else(default))
    });
    pools.collect()
}

fn dependent(info: &DependentResourceInfo) -> Dependent {
    Dependent {
        reference: info.r#ref.clone(),
        optional: info.optional,
        up: scale(&info.scale_up),
        down: scale(&info.scale_down),
    }
}

fn scale(info: &ScaleInfo) -> Scale {
    let await_nodes = info.await_nodes.as_ref();
    Scale {
        level: info.level.unsigned_abs(),
        initial_delay: info.initial_delay.get(),
        timeout: info.timeout.get(),
        await_nodes: await_nodes.map_or(Duration::ZERO, api::Duration::get),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn spec(change: impl FnOnce(&mut Value)) -> ProbePolicySpec {
        let dependent = |name: &str, up: i32, down: i32| {
            json!({
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "optional": name == "cluster-autoscaler",
                "scaleUp": {"level": up, "initialDelay": "30s"},
                "scaleDown": {"level": down, "timeout": "1m"},
            })
        };
        let mut spec = json!({
            "mode": "Enforce",
            "kubeConfigSecretName": "dwd",
            "kcmNodeMonitorGraceDuration": "40s",
            "dependentResourceInfos": [
                dependent("machine-controller-manager", 1, 1),
                dependent("kube-controller-manager", 1, 0),
                dependent("cluster-autoscaler", 0, 2),
            ],
        });
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    fn cluster(shoot: Value) -> Cluster {
        serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {"shoot": shoot}}))
            .unwrap()
    }

    fn template(spec: &ProbePolicySpec) -> Settings {
        Settings::of_policy("p".into(), spec)
    }

    fn settings(shoot: Value) -> Result<Settings, SettingsError> {
        template(&spec(|_| ())).for_cluster(&cluster(shoot))
    }

    fn with_grace(value: Value) -> Value {
        let manager = json!({"nodeMonitorGracePeriod": value});
        json!({"spec": {"kubernetes": {"kubeControllerManager": manager}}})
    }

    #[test]
    fn takes_over_every_field() {
        let spec = spec(|it| {
            it["mode"] = json!("DryRun");
            it["probeInterval"] = json!("11s");
            it["initialDelay"] = json!("12s");
            it["probeTimeout"] = json!("13s");
            it["backoffJitterFactor"] = json!(0.5);
            it["nodeLeaseFailureFraction"] = json!(0.75);
            it["nodeLeaseRecoveryFraction"] = json!(0.25);
            it["minimumSilentNodes"] = json!(4);
            it["failureThreshold"] = json!(2);
            it["successThreshold"] = json!(3);
            it["maxProtection"] = json!("1h");
            it["dependentResourceInfos"][0]["scaleUp"]["awaitNodes"] = json!("1m30s");
            it["dependentResourceInfos"]
                .as_array_mut()
                .unwrap()
                .truncate(1);
        });
        let seconds = Duration::from_secs;
        assert_eq!(
            template(&spec).for_cluster(&cluster(json!({}))),
            Ok(Settings {
                policy: "p".into(),
                mode: Mode::DryRun,
                secret_name: "dwd".into(),
                rules: LeaseRules {
                    grace: seconds(40),
                    fraction: 0.75,
                    recovery: 0.25,
                    minimum: 4,
                    interval: seconds(11),
                    jitter_factor: 0.5,
                    timeout: seconds(13),
                    failure_threshold: 2,
                    success_threshold: 3,
                },
                initial_delay: seconds(12),
                max_protection: Some(seconds(3600)),
                dependents: [Dependent {
                    reference: DependentRef {
                        api_version: "apps/v1".into(),
                        kind: "Deployment".into(),
                        name: "machine-controller-manager".into(),
                    },
                    optional: false,
                    up: Scale {
                        level: 1,
                        initial_delay: seconds(30),
                        timeout: seconds(30),
                        await_nodes: seconds(90),
                    },
                    down: Scale {
                        level: 1,
                        initial_delay: seconds(0),
                        timeout: seconds(60),
                        await_nodes: seconds(0),
                    },
                }]
                .into(),
                pools: BTreeMap::new(),
                observer: Arc::default(),
                checks: Arc::default(),
            })
        );
    }

    #[rstest]
    #[case::absent(json!({}), 40_000)]
    #[case::null(with_grace(json!(null)), 40_000)]
    #[case::longer(with_grace(json!("2m0s")), 120_000)]
    #[case::shorter(with_grace(json!("30s")), 30_000)]
    #[case::as_go_writes_it(with_grace(json!("1h0m0s")), 3_600_000)]
    #[case::fraction(with_grace(json!("1m1.5s")), 61_500)]
    fn the_cluster_overrides_the_grace_period(#[case] shoot: Value, #[case] millis: u64) {
        assert_eq!(
            settings(shoot).unwrap().rules.grace,
            Duration::from_millis(millis)
        );
    }

    #[rstest]
    #[case("")]
    #[case("40")]
    #[case("forty seconds")]
    #[case("-40s")]
    #[case("0s")]
    fn a_grace_period_that_makes_no_sense_is_an_error_with_a_remedy(#[case] written: &str) {
        let Err(SettingsError::Cluster(message)) = settings(with_grace(json!(written))) else {
            panic!("{written:?} is a grace period");
        };
        assert!(
            message.contains(&format!("nodeMonitorGracePeriod is {written:?}")),
            "{message}"
        );
        assert!(message.contains("correct it in the Shoot"), "{message}");
    }

    #[test]
    fn pools_have_their_own_conditions_or_the_default() {
        let own = |conditions: Value| json!({"nodeConditions": conditions});
        let settings = settings(json!({"spec": {"provider": {"workers": [
            {"name": "own", "machineControllerManager": own(json!(["A", "B"]))},
            {"name": "empty", "machineControllerManager": own(json!([]))},
            {"name": "other", "machineControllerManager": {"machineDrainTimeout": "2h"}},
            {"name": "none"},
        ]}}}))
        .unwrap();
        let default = DEFAULT_NODE_CONDITIONS.as_slice();
        let expected = [
            ("empty", default),
            ("none", default),
            ("other", default),
            ("own", &["A", "B"]),
        ];
        let pools: Vec<_> = settings
            .pools
            .iter()
            .map(|(k, v)| (k.as_str(), v.clone()))
            .collect();
        assert_eq!(
            pools,
            expected.map(|(k, v)| (k, v.iter().map(ToString::to_string).collect()))
        );
    }

    #[test]
    fn the_order_of_dependents_in_the_policy_makes_no_difference() {
        let reversed = spec(|it| {
            it["dependentResourceInfos"]
                .as_array_mut()
                .unwrap()
                .reverse()
        });
        assert_eq!(template(&reversed), template(&spec(|_| ())));
        let names: Vec<_> = settings(json!({}))
            .unwrap()
            .dependents
            .iter()
            .map(|it| it.reference.name.clone())
            .collect();
        let expected = [
            "cluster-autoscaler",
            "kube-controller-manager",
            "machine-controller-manager",
        ];
        assert_eq!(names, expected);
    }
}
