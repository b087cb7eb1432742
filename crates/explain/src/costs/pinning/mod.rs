//! The cost of pinning a page: looking it up in the page table and taking a reference
//! to it (get_user_pages_fast), as vmsplice(2) does.
//!
//! Some kernels have a benchmark of this (gup_test, on debugfs): `kernel.rs` finds it,
//! `ioctl.rs` calls it, and `range.rs` computes samples from its replies. It reports whole microseconds,
//! truncated, so each call pins a range of many MiB. On all kernels there is an estimate
//! from pipes, which needs no privileges: `estimate.rs`.

mod estimate;
#[cfg(any(test, feature = "fixtures"))]
mod fake;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod ioctl;
mod kernel;
mod range;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io;

use fastpipe::buffer::Pages;
use serde::Serialize;

pub use self::estimate::PIPE_PAGES_PER_CALL;
pub(super) use self::estimate::Pipes;
pub use self::ioctl::{Argument, Reply};
pub use self::kernel::{GupBenchmark, Missing};
pub use self::range::BenchmarkCalls;
use self::range::Range;
use super::{CONFIDENCE, Probe, Probes, SampledProbe};
use pipespeed_base::named;
use pipespeed_measure::record::{NotRun, Record};
use pipespeed_stats::Estimate;

/// The kernel's gup_test, or a test's fake.
pub trait GupTest: Debug {
    /// Pins the argument's range by get_user_pages_fast and releases it
    /// (GUP_FAST_BENCHMARK).
    ///
    /// # Errors
    /// EINVAL or ENOTTY if the kernel does not know this call.
    fn fast_benchmark(&mut self, argument: &mut Argument<'_>) -> io::Result<()>;
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct PinningPlan {
    /// Pages that the kernel's benchmark pins at a time.
    pub pages_per_call: u32,
    /// Bytes pinned by each call of the kernel's benchmark, rounded up to whole pages.
    pub size: usize,
    /// The kinds of pages.
    pub pages: Vec<Pages>,
    /// Whether the pages were never written.
    pub untouched: bool,
}

/// The settings of a measurement of pinning.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PinningSettings {
    /// The number of rounds planned.
    pub rounds: usize,
    /// The seed of the probes' order.
    pub seed: u64,
    /// The size of a base page.
    pub page_bytes: usize,
    /// Pages that the kernel's benchmark pins at a time.
    pub pages_per_call: u32,
    /// Bytes pinned by each call of the kernel's benchmark.
    pub bytes_per_call: usize,
    /// Whether the pages were never written.
    pub untouched: bool,
}

/// The saved record.
pub type PinningRecord = Record<PinningSettings, PinningResults>;

/// What a measurement of pinning found.
#[derive(Debug, Clone, Serialize)]
pub struct PinningResults {
    /// The kernel's own benchmark; null where it can't be used.
    pub kernel: Option<GupBenchmark>,
    /// Why the kernel's own benchmark can't be used.
    pub missing: Option<String>,
    /// The figures.
    pub figures: Vec<PinningFigure>,
}

named! {
    /// The operation that a figure measures.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PinningStep {
        /// get_user_pages_fast, by the kernel's own benchmark.
        Get = "get",
        /// Releasing the pages, by the same benchmark.
        Put = "put",
        /// vmsplice(2) into a pipe.
        Vmsplice = "vmsplice",
        /// splice(2) of the same pages from another pipe: the baseline.
        Splice = "splice",
        /// The difference of vmsplice and splice.
        Estimate = "estimate",
    }
}

named! {
    /// The pages that a figure applies to.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FigurePages {
        /// Base pages.
        Base = "base",
        /// Huge pages; the time of a base page's share.
        Huge = "huge",
        /// Base pages minus huge pages, by round.
        Difference = "difference",
    }
}

/// A figure, in nanoseconds per base page.
#[derive(Debug, Clone, Serialize)]
pub struct PinningFigure {
    /// For example `get_base`.
    pub name: String,
    /// The operation.
    pub step: PinningStep,
    /// The pages.
    pub of: FigurePages,
    /// The median of the samples, with its 95 % interval.
    pub estimate_ns: Option<Estimate>,
    /// Why there is none.
    pub not_run: Option<NotRun>,
    /// The calls that make up a sample of the kernel's benchmark.
    pub counted: Option<BenchmarkCalls>,
    /// One value per round.
    pub samples_ns: Vec<f64>,
}

impl PinningFigure {
    fn new(step: PinningStep, of: FigurePages, samples_ns: Vec<f64>) -> PinningFigure {
        PinningFigure {
            name: PinningFigure::name(step, of),
            step,
            of,
            estimate_ns: Estimate::new(&samples_ns, CONFIDENCE),
            not_run: None,
            counted: None,
            samples_ns,
        }
    }

    fn name(step: PinningStep, of: FigurePages) -> String {
        format!("{}_{}", step.name(), of.name())
    }
}

impl Probe for Pipes {
    fn run(&mut self) -> io::Result<Vec<f64>> {
        let sample = self.sample()?;
        Ok(vec![
            sample.vmsplice_ns,
            sample.splice_ns,
            sample.estimate_ns,
        ])
    }
}

/// The figures that a probe's values belong to, with the steps in the order of the values.
#[derive(Debug, Clone, Copy)]
pub struct FigureTargets {
    of: FigurePages,
    steps: &'static [PinningStep],
}

impl SampledProbe<FigureTargets> {
    fn of_pages(
        pages: Pages,
        steps: &'static [PinningStep],
        probe: io::Result<impl Probe + 'static>,
    ) -> Self {
        let of = match pages {
            Pages::Base => FigurePages::Base,
            _ => FigurePages::Huge,
        };
        let step = *steps.last().unwrap_or(&PinningStep::Estimate);
        SampledProbe::new(
            PinningFigure::name(step, of),
            probe,
            FigureTargets { of, steps },
        )
    }

    fn figures(&self) -> impl Iterator<Item = PinningFigure> {
        let FigureTargets { of, steps } = self.targets;
        let steps = steps.iter().enumerate();
        steps.map(move |(at, &step)| match &self.probe {
            Ok(probe) => PinningFigure {
                counted: probe.benchmark_calls(),
                ..PinningFigure::new(step, of, self.values(at))
            },
            Err(why) => PinningFigure {
                not_run: Some(why.clone()),
                ..PinningFigure::new(step, of, Vec::new())
            },
        })
    }
}

impl<S: FnMut() -> Option<i32>> Probes<FigureTargets, S> {
    /// The kernel's benchmark, if there is one, and the estimate.
    pub fn of_pinning(plan: &PinningPlan, kernel: Option<&GupBenchmark>, signal: S) -> Self {
        let mut cases = Vec::new();
        if let Some(kernel) = kernel {
            cases.extend(plan.pages.iter().map(|&pages| {
                let range = Range::new(kernel.clone(), plan, pages);
                SampledProbe::of_pages(pages, &[PinningStep::Get, PinningStep::Put], range)
            }));
        }
        cases.extend(plan.pages.iter().map(|&pages| {
            let steps = &[
                PinningStep::Vmsplice,
                PinningStep::Splice,
                PinningStep::Estimate,
            ];
            SampledProbe::of_pages(pages, steps, Pipes::new(pages, plan.untouched))
        }));
        Probes::from_cases(cases, signal)
    }

    /// The figures measured so far.
    pub fn figures(&self) -> Vec<PinningFigure> {
        let mut figures: Vec<PinningFigure> =
            self.cases.iter().flat_map(SampledProbe::figures).collect();
        let differences = [PinningStep::Get, PinningStep::Estimate];
        figures.extend(
            differences
                .into_iter()
                .filter_map(|step| self.difference(step)),
        );
        figures
    }

    /// Base pages minus huge pages, by round.
    fn difference(&self, step: PinningStep) -> Option<PinningFigure> {
        let values = |of| {
            let measures = |case: &&SampledProbe<FigureTargets>| {
                case.targets.of == of && case.targets.steps.contains(&step)
            };
            let case = self.cases.iter().find(measures)?;
            let at = case.targets.steps.iter().position(|known| *known == step)?;
            case.probe.is_ok().then_some((&case.samples, at))
        };
        let ((base, at), (huge, _)) = (values(FigurePages::Base)?, values(FigurePages::Huge)?);
        let pairs = base
            .iter()
            .filter_map(|(round, base)| Some((base, huge.get(round)?)));
        let samples = pairs.map(|(base, huge)| base[at] - huge[at]).collect();
        Some(PinningFigure::new(step, FigurePages::Difference, samples))
    }
}
