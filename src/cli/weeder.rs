//! `dependency-watchdog weeder`

use clap::Args;

use super::{
    args::Former,
    component::{Candidate, Component, ComponentArgs, ComponentError},
};
use crate::weeder::{
    LEASE,
    instruments::Instruments,
    run::{self, Weeder},
};

/// Flags of the weeder.
#[derive(Debug, Args)]
pub(super) struct WeederArgs {
    #[command(flatten)]
    component: ComponentArgs,
}

pub(super) async fn run(args: WeederArgs) -> Result<(), ComponentError> {
    let (instruments, registry) = Instruments::new();
    let component = Component {
        name: "weeder",
        lease: LEASE,
        former: Former {
            policy: "WeedPolicy",
            unit: "service",
        },
        instruments: instruments.common.clone(),
        registry,
    };
    let work = async |candidate: Candidate<'_>| {
        let dry_run = candidate.dry_run;
        let instruments = instruments.anew(candidate.instruments.clone());
        let context = candidate.elected().await;
        let weeder = Weeder {
            seed: context.seed,
            dry_run,
            instruments: instruments.clone(),
        };
        run::run(weeder, context.term.stop).await;
        Ok(())
    };
    component.run(&args.component, work).await
}
