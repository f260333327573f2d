//! `dependency-watchdog prober`

use clap::Args;

use super::{
    args::{CheckArgs, Former, ScaleArgs},
    component::{Candidate, Component, ComponentArgs, ComponentError},
};
use crate::{
    checks::Runner,
    prober::{
        LEASE,
        fleet::{self, Prober},
        instruments::Instruments,
        standby::Standby,
    },
    runtime::{names::Names, seed::Seed},
};

/// Flags of the prober.
#[derive(Debug, Args)]
pub(super) struct ProberArgs {
    #[command(flatten)]
    component: ComponentArgs,
    #[command(flatten)]
    scale: ScaleArgs,
    #[command(flatten)]
    checks: CheckArgs,
}

pub(super) async fn run(args: ProberArgs) -> Result<(), ComponentError> {
    let (instruments, registry) = Instruments::new();
    let component = Component {
        name: "prober",
        lease: LEASE,
        former: Former {
            policy: "ProbePolicy",
            unit: "cluster",
        },
        instruments: instruments.common.clone(),
        registry,
    };
    let (scale, checks) = (args.scale, args.checks);
    let work = async |candidate: Candidate<'_>| {
        let dry_run = candidate.dry_run;
        let instruments = instruments.anew(candidate.instruments.clone());
        let (context, standby) = if args.component.has_rivals() {
            let reads = candidate.reads(&instruments.standby_budget);
            let mut standby = Standby::begin(reads, dry_run, Default::default(), &instruments);
            (standby.until(candidate.elected()).await, Some(standby))
        } else {
            (candidate.elected().await, None)
        };
        let scale = context.connect(scale.budget(), &instruments.scale_budget);
        let exec = Seed::new(context.seed.client().clone(), checks.budget())
            .measured(instruments.exec_budget.clone())
            .led_by(context.term.leadership.clone());
        let (gates, counted) = (checks.feature_gates, instruments.checks.clone());
        let prober = Prober {
            seed: context.seed,
            dry_run,
            scale,
            checks: Runner::new(exec, gates, counted, Names::default()),
            dial: Default::default(),
            instruments: instruments.clone(),
        };
        fleet::lead(prober, standby, context.term.stop).await;
        Ok(())
    };
    component.run(&args.component, work).await
}
