//! A model of the seed and of whoever acts on it, in which the operator's own decisions run.
//!
//! The operator is what production runs: `ClusterMachine` and `FlowMachine`. The environment is modelled: objects with
//! resourceVersions, people, an HPA, crashes, leadership, requests that fail, are carried out unanswered, or arrive late.

pub(crate) mod action;
pub(crate) mod bounds;
pub(crate) mod ends;
pub(crate) mod environment;
mod explorations;
pub(crate) mod explorer;
pub(crate) mod flaws;
pub(crate) mod flow;
pub(crate) mod object;
pub(crate) mod operator;
pub(crate) mod possible;
pub(crate) mod rules;

use std::{
    cell::OnceCell,
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    sync::{Arc, LazyLock},
    time::Duration,
};

use dependency_watchdog::{
    api::{ClusterHealthStatus, DependentRef, Mode, Protection},
    cluster::{Assignment, PolicyHold, Selected, Settings, Skip, Template, Then},
    prober::{
        debts::Debts,
        finding::HeldBack,
        flow::{FlowEffect, FlowInput, FlowMachine, FlowPlan, What, Written},
        machine::{ClusterMachine, Confirmation, Effect, Input, Leases},
        plan::{Aim, Family, MARK, Observed, RECORD, Record, Write},
        scale_error::ScaleError,
        treatment::{ClusterObject, Treatment},
        verdict::{Assessment, Returning, Verdict},
        watch::Conclusion,
    },
    util::now::Now,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::action::{Action::*, Life::*, Policy::*, Shoot::*, *};
use self::{
    bounds::*, environment::*, explorer::*, flaws::*, flow::*, object::*, operator::*, rules::*,
};
