//! `dependency-watchdog prober`

use clap::Args;

use super::{
    args::{CheckArgs, ClusterMetricsArgs, Former, ReportArgs, ScaleArgs},
    component::{Component, ComponentArgs, ComponentError, Context},
};
use crate::{
    checks::Runner,
    prober::{
        LEASE,
        fleet::{self, Prober},
        instruments::Instruments,
    },
    runtime::seed::Seed,
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
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    cluster_metrics: ClusterMetricsArgs,
}

pub(super) async fn run(args: ProberArgs) -> Result<(), ComponentError> {
    let (instruments, registry) = Instruments::new(args.cluster_metrics.cluster_metrics);
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
    let (scale, checks, report) = (args.scale, args.checks, args.report);
    let work = async |context: Context<'_>| {
        let scale = context.connect(scale.budget(), &instruments.scale_budget)?;
        let exec = Seed::new(context.seed.client().clone(), checks.budget())
            .measured(instruments.exec_budget.clone())
            .led_by(context.term.leadership.clone());
        let prober = Prober {
            seed: context.seed,
            dry_run: context.dry_run,
            scale,
            checks: Runner::new(exec, checks.feature_gates, instruments.checks.clone()),
            overdue_after: report.overdue_after(),
            instruments: instruments.clone(),
        };
        fleet::run(prober, context.term.stop).await;
        instruments.stand_by();
        Ok(())
    };
    component.run(&args.component, work).await
}
