//! Figures from a fake kernel, for tests of reports.

use fastpipe::buffer::Pages;

use super::fake::Fake;
use super::{GupBenchmark, PinningFigure, PinningPlan};
use crate::costs::Probes;
use pipespeed_base::failure::Interrupted;
use pipespeed_measure::rounds::Rounds;

/// A short plan for base pages.
fn plan() -> PinningPlan {
    PinningPlan {
        pages_per_call: 16,
        size: 1 << 20,
        pages: vec![Pages::Base],
        untouched: true,
    }
}

/// Figures from a kernel's benchmark that pins at most 200 pages, and the estimate.
pub fn with_benchmark() -> (PinningPlan, Option<GupBenchmark>, Vec<PinningFigure>) {
    let fake = Fake {
        max_pages: 200,
        ..Fake::default()
    };
    figures_from(Some(fake.kernel()))
}

/// The estimate alone.
pub fn without_benchmark() -> (PinningPlan, Option<GupBenchmark>, Vec<PinningFigure>) {
    figures_from(None)
}

fn figures_from(
    kernel: Option<GupBenchmark>,
) -> (PinningPlan, Option<GupBenchmark>, Vec<PinningFigure>) {
    let plan = plan();
    match measure(&plan, 7, kernel.clone()) {
        Ok(figures) => (plan, kernel, figures),
        Err(error) => panic!("it is never interrupted: {error:#}"),
    }
}

/// Measures figures in `rounds` rounds.
pub(super) fn measure(
    plan: &PinningPlan,
    rounds: usize,
    kernel: Option<GupBenchmark>,
) -> Result<Vec<PinningFigure>, Interrupted> {
    let mut run = Rounds::begin(Probes::of_pinning(plan, kernel.as_ref(), || None), 1);
    run.pilot(&mut ())?;
    run.rounds(rounds, None, &mut ())?;
    Ok(run.work.figures())
}
