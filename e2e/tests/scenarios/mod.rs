//! The scenarios, one file a subject. Each file lists its own at its top.

mod acting;
mod bench;
mod candidates;
mod checks;
mod conformance;
mod control_plane;
mod dependents;
mod docs_commands;
mod evidence;
mod explain;
mod failover;
mod faults;
mod files;
mod garden;
mod guardrails;
mod install;
mod kinds;
mod migration;
mod overload;
mod prober;
mod restore;
mod rights;
mod silence;
mod status;
mod steps;
mod uninstall;
mod weeder;

pub(crate) use rights::unused as unused_rights;

use anyhow::Result;
use dependency_watchdog_e2e::Env;
use futures::future::LocalBoxFuture;

/// A story that starts from what scenarios share.
pub(crate) struct Scenario {
    /// The name of its function.
    pub(crate) name: &'static str,
    /// How many API servers it uses at once.
    pub(crate) api_servers: u32,
    pub(crate) run: fn(Env) -> LocalBoxFuture<'static, Result<()>>,
}

/// Scenarios out of `async fn(Env) -> Result<()>`, with one API server unless told otherwise:
/// `scenarios![e2e_one_shoot, e2e_two_shoots: 2]`.
macro_rules! scenarios {
    ($($name:ident $(: $api_servers:literal)?),* $(,)?) => {
        vec![$($crate::scenarios::Scenario {
            name: stringify!($name),
            api_servers: [$($api_servers,)? 1u32][0],
            run: |env| Box::pin($name(env)),
        }),*]
    };
}
use scenarios;

/// The longest, by what a run lists at its end. They begin first, so that none of them is left over
/// when all others have ended.
const LONGEST: [&str; 7] = [
    "e2e_whatever_fails_at_whatever_write_the_end_is_the_same",
    "e2e_what_is_owed_is_restored_by_hand_with_and_without_the_operator",
    "e2e_the_commands_of_documents_do_what_they_say",
    "e2e_an_outage_is_survived_with_every_count_restored",
    "e2e_the_guide_moves_an_installation_over_and_back_and_scales_nothing",
    "e2e_the_chart_is_installed_upgraded_and_uninstalled_as_documented",
    "e2e_what_is_installed_as_documented_protects_and_is_uninstalled",
];

/// All scenarios, the longest first.
pub(crate) fn all() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = [
        acting::all(),
        bench::all(),
        candidates::all(),
        checks::all(),
        conformance::all(),
        control_plane::all(),
        dependents::all(),
        docs_commands::all(),
        explain::all(),
        failover::all(),
        faults::all(),
        files::all(),
        guardrails::all(),
        install::all(),
        kinds::all(),
        migration::all(),
        overload::all(),
        prober::all(),
        restore::all(),
        rights::all(),
        silence::all(),
        status::all(),
        uninstall::all(),
        weeder::all(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let rank = |scenario: &Scenario| LONGEST.iter().position(|name| *name == scenario.name);
    all.sort_by_key(|scenario| rank(scenario).unwrap_or(LONGEST.len()));
    all
}
