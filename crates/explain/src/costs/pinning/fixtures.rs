//! Figures of a fake kernel, for the tests of their report.

use fastpipe::buffer::Pages;

use super::fake::{Fake, KERNELS};
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

/// By a kernel that pins no more than 200 pages.
pub fn of_a_kernel() -> (Plan, Option<Kernel>, Vec<Figure>) {
    let layout = KERNELS.iter().find(|layout| layout.kernels == "4.20");
    let fake = Fake {
        most_pages: 200,
        ..Fake::new(*layout.unwrap_or(&KERNELS[0]))
    };
    by(Some(fake.kernel()))
}

/// The estimate alone.
pub fn estimated() -> (Plan, Option<Kernel>, Vec<Figure>) {
    by(None)
}

fn by(kernel: Option<Kernel>) -> (Plan, Option<Kernel>, Vec<Figure>) {
    let plan = plan();
    match measured(&plan, 7, kernel.clone()) {
        Ok(figures) => (plan, kernel, figures),
        Err(error) => panic!("nobody interrupts it: {error:#}"),
    }
}

/// The figures of a run.
pub(super) fn measured(
    plan: &Plan,
    rounds: usize,
    kernel: Option<Kernel>,
) -> Result<Vec<Figure>, Interrupted> {
    let mut run = Rounds::of(Probes::of_pinning(plan, kernel.as_ref(), 1, || None));
    run.pilot(&mut ())?;
    run.rounds(rounds, None, &mut ())?;
    Ok(run.work().figures())
}
