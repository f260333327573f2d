//! `dependency-watchdog prober`

use clap::Args;

use super::{
    args::CheckArgs,
    component::{Candidate, Component, ComponentArgs},
};
use crate::{
    checks::Runner,
    prober::{
        LEASE,
        fleet::{self, Prober},
        instruments::Instruments,
        standby::Standby,
    },
    runtime::names::Names,
};

/// Flags of the prober.
#[derive(Debug, Args)]
pub(super) struct ProberArgs {
    #[command(flatten)]
    component: ComponentArgs,
    #[command(flatten)]
    checks: CheckArgs,
}

pub(super) async fn run(args: ProberArgs) -> Result<u8, String> {
    let (instruments, registry) = Instruments::new();
    let component = Component {
        name: "prober",
        lease: LEASE,
        policy: "ProbePolicy",
        instruments: instruments.common.clone(),
        registry,
    };
    let gates = args.checks.feature_gates;
    let work = async |candidate: Candidate<'_>| {
        let dry_run = candidate.dry_run;
        let instruments = instruments.anew(candidate.instruments.clone());
        let ((seed, stop), standby) = if args.component.has_rivals() {
            let reads = candidate.reads.clone();
            let mut standby = Standby::begin(reads, dry_run, Default::default(), &instruments);
            (standby.until(candidate.elected()).await, Some(standby))
        } else {
            (candidate.elected().await, None)
        };
        let counted = instruments.checks.clone();
        let checks = Runner::new(seed.clone(), gates, counted, Names::default());
        let prober = Prober {
            seed,
            dry_run,
            checks,
            dial: Default::default(),
            instruments: instruments.clone(),
        };
        fleet::lead(prober, standby, stop).await;
    };
    component.run(&args.component, work).await
}
