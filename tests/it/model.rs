//! A model of the seed and of whoever acts on it, in which the operator's own decisions run.
//!
//! The operator is what production runs: `Decider`. The environment is modelled: objects with
//! resourceVersions, people, an HPA, crashes, leadership, requests that fail, are carried out unanswered, or arrive late.

pub(crate) mod action;
pub(crate) mod bounds;
pub(crate) mod ends;
pub(crate) mod environment;
mod explorations;
pub(crate) mod explorer;
pub(crate) mod flaws;
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
    api::{ClusterHealthStatus, DependentRef, DependentStatus, Mode, Protection},
    cluster::{Assignment, PolicyHold, Selected, Settings, Skip, Then},
    prober::{
        decide::{Confirmation, Decider, Effect, Input},
        dependents::{Answer, Request, What, Written},
        lease_judge::Conclusion,
        scale_error::ScaleError,
        step::{Aim, Family, MARK, Observed, RECORD, Record, Write},
        treatment::Treatment,
        verdict::{Assessment, Returning, Verdict},
    },
    shoot::Unread,
    util::now::Now,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::action::{Action::*, Life::*, Policy::*, Shoot::*, *};
use self::{bounds::*, environment::*, explorer::*, flaws::*, object::*, operator::*, rules::*};
