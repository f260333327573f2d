//! `dependency-watchdog weeder`

use clap::Args;

use super::{
    args::Former,
    component::{Component, ComponentArgs, ComponentError, Post},
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
    let work = |post: Post| {
        let weeder = Weeder {
            seed: post.seed,
            dry_run: post.dry_run,
            instruments,
        };
        run::run(weeder, post.stop)
    };
    component.run(&args.component, work).await
}
