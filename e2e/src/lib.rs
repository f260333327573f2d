//! Real control planes for tests and the demo, without a container engine.
//!
//! A scenario asks the [`Env`] for what it needs and tells a short story:
//!
//! ```no_run
//! # async fn story(env: dependency_watchdog_e2e::Env) -> anyhow::Result<()> {
//! let shoot = env.shoot("nat-gateway").nodes(5).dependents(["kube-controller-manager"]).await?;
//! shoot.cut_all();
//! shoot.dependent("kube-controller-manager").reaches(0).await?;
//! shoot.restore_all();
//! shoot.dependent("kube-controller-manager").reaches(1).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The API servers, etcd and kube-controller-manager are the real ones. Played are
//! [kubelets](Kubelet), so that each has a clock and a network of its own, the seed's
//! [Deployment controller](DeploymentController), so that pods come and go as fast or as slowly as
//! a scenario wants, what [commands](Execs) in pods do, and where ReplicaSets [live](Workloads) the kubelet of their pods, so that they
//! crash when a scenario wants. A [farm] plays hundreds of shoots at once, API servers included.

mod apiserver;
mod apply;
mod assets;
mod audit;
mod chain;
pub mod chaos;
mod control_plane;
mod controller_manager;
mod deployments;
mod env;
mod etcd;
mod execs;
pub mod farm;
mod files;
mod gitops;
pub mod hosted;
mod kubeconfig;
mod kubectl;
mod kubelet;
#[cfg(target_os = "linux")]
pub mod node;
mod operator;
mod pod_kubelet;
mod policy;
mod ports;
pub mod process;
mod seed;
mod shoot;
pub mod usage;
pub mod wait;
mod workloads;

pub use apiserver::{ApiServer, User};
pub use apply::apply;
pub use assets::Assets;
pub use audit::Request;
pub use chain::{API_SERVER, ETCD, KCM, SCHEDULER};
pub use control_plane::{ControlPlane, Dependent};
pub use controller_manager::ControllerManager;
pub use deployments::DeploymentController;
pub use env::Env;
pub use etcd::Etcd;
pub use execs::{Execs, Play};
pub use fake::oracle::DEPENDENTS;
pub use files::{Files, INTERRUPTED, exit_interrupted, interrupted, unless_interrupted};
pub use gitops::{Helm, Verdict, gitops_definitions, verdicts};
pub use kubeconfig::Kubeconfig;
pub use kubectl::{Kubectl, Output, Watching, scripts};
pub use kubelet::{Kubelet, Renewal};
pub use operator::{Operator, ask, binary};
pub use pod_kubelet::{BACK_OFF, NODE};
pub use policy::{Policy, PolicyKind};
pub use ports::free_port;
pub use process::Process;
pub use seed::{PROBER, Seed, WEEDER};
pub use shoot::{PROBE, Shoot, ShootBuilder};
pub use workloads::{App, Stack, Workloads, is_looping};
