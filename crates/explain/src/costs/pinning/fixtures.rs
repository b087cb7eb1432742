//! Figures from a fake kernel, for tests of reports.

use fastpipe::buffer::Pages;

use super::fake::Fake;
use super::{Figure, Kernel, Plan};
use crate::costs::Probes;
use pipespeed_base::failure::Interrupted;
use pipespeed_measure::rounds::Rounds;

/// A short plan for base pages.
fn plan() -> Plan {
    Plan {
        pages_per_call: 16,
        size: 1 << 20,
        pages: vec![Pages::Base],
        untouched: true,
    }
}

/// Figures from a kernel's benchmark that pins at most 200 pages, and the estimate.
pub fn with_benchmark() -> (Plan, Option<Kernel>, Vec<Figure>) {
    let fake = Fake {
        max_pages: 200,
        ..Fake::default()
    };
    figures_from(Some(fake.kernel()))
}

/// The estimate alone.
pub fn without_benchmark() -> (Plan, Option<Kernel>, Vec<Figure>) {
    figures_from(None)
}

fn figures_from(kernel: Option<Kernel>) -> (Plan, Option<Kernel>, Vec<Figure>) {
    let plan = plan();
    match measure(&plan, 7, kernel.clone()) {
        Ok(figures) => (plan, kernel, figures),
        Err(error) => panic!("it is never interrupted: {error:#}"),
    }
}

/// Measures figures in `rounds` rounds.
pub(super) fn measure(
    plan: &Plan,
    rounds: usize,
    kernel: Option<Kernel>,
) -> Result<Vec<Figure>, Interrupted> {
    let mut run = Rounds::begin(Probes::of_pinning(plan, kernel.as_ref(), 1, || None));
    run.pilot(&mut ())?;
    run.rounds(rounds, None, &mut ())?;
    Ok(run.work.figures())
}
