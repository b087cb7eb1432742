//! What it costs to pin a page: to find it in the page table and take a
//! reference to it (get_user_pages_fast), as vmsplice(2) does.
//!
//! Where the kernel has its own benchmark of that (gup_test, on debugfs), this
//! asks it: `kernel.rs` finds it, `layout.rs` knows what its argument looks like
//! in which kernel, `ioctl.rs` calls it, `range.rs` makes samples of the
//! answers. The benchmark counts whole microseconds, cut off; so ranges of many
//! MiB are pinned by each call. With or without it there is an estimate from
//! pipes, which needs no privilege: `estimate.rs`.

mod estimate;
#[cfg(any(test, feature = "fixtures"))]
mod fake;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod ioctl;
mod kernel;
mod layout;
mod range;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io;

use fastpipe::buffer::Pages;
use serde::Serialize;

pub use self::estimate::PAGES_PER_CALL as PIPE_PAGES_PER_CALL;
pub(super) use self::estimate::Pipes;
pub use self::kernel::{Kernel, Missing};
pub use self::layout::{Argument, LAYOUTS, Layout, Reply};
pub use self::range::Counted;
use self::range::Range;
use super::{CONFIDENCE, Case, Probe, Probes};
use pipespeed_base::named;
use pipespeed_host::Warning;
use pipespeed_measure::record::{Header, NotRun};
use pipespeed_stats::Estimate;

/// The kernel's gup_test or gup_benchmark, or what a test puts in its place.
pub trait GupTest: Debug {
    /// Pins the argument's range by get_user_pages_fast and lets it go:
    /// GUP_FAST_BENCHMARK, whose number depends on the argument's size.
    ///
    /// # Errors
    /// EINVAL or ENOTTY where an argument of that size is not known.
    fn fast_benchmark(&mut self, argument: &mut Argument<'_>) -> io::Result<()>;
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Pages that the kernel pins at a time.
    pub pages_per_call: u32,
    /// Bytes that each call of the kernel's benchmark pins; rounded up to whole
    /// pages.
    pub size: usize,
    /// In what pages.
    pub pages: Vec<Pages>,
    /// Whether nobody has written to them.
    pub untouched: bool,
}

/// How figures were measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Settings {
    /// The number of rounds planned.
    pub rounds: usize,
    /// The seed of the order.
    pub seed: u64,
    /// The size of a base page.
    pub page_bytes: usize,
    /// Pages that the kernel pins at a time.
    pub pages_per_call: u32,
    /// Bytes that each call of the kernel's benchmark pins.
    pub bytes_per_call: usize,
    /// Whether nobody has written to them.
    pub untouched: bool,
}

/// What is saved.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    /// What every record begins with.
    #[serde(flatten)]
    pub header: Header,
    /// How they were measured.
    pub settings: Settings,
    /// The kernel's own benchmark; null where it can't be used.
    pub kernel: Option<&'a Kernel>,
    /// Why the kernel's own benchmark can't be used.
    pub missing: Option<&'a str>,
    /// What limits what the figures say.
    pub warnings: &'a [Warning],
    /// The signal that ended the run before its last round; null when it was
    /// completed.
    pub interrupted: Option<String>,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// What a figure measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// get_user_pages_fast, by the kernel's own benchmark.
    Get,
    /// Releasing the pages, by the same benchmark.
    Put,
    /// vmsplice(2) into a pipe.
    Vmsplice,
    /// splice(2) of the same pages from another pipe: the baseline.
    Splice,
    /// The difference of vmsplice and splice.
    Estimate,
}

/// The pages that a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// Base pages.
    Base,
    /// Huge pages, of which a base page's share counts.
    Huge,
    /// What base pages cost more than huge ones, round by round.
    Difference,
}

named!(Step {
    Get = "get": "get_user_pages_fast, by the kernel's own benchmark",
    Put = "put": "releasing the pages, by the same benchmark",
    Vmsplice = "vmsplice": "vmsplice(2) into a pipe",
    Splice = "splice": "splice(2) of the same pages from another pipe",
    Estimate = "estimate": "the difference of vmsplice and splice",
});

named!(Of {
    Base = "base": "base pages",
    Huge = "huge": "huge pages",
    Difference = "difference": "what base pages cost more than huge ones",
});

/// One figure, in nanoseconds a base page.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// As in `get_base`.
    pub name: String,
    /// What it measures.
    pub step: Step,
    /// Of which pages.
    pub of: Of,
    /// The median of the samples with its 95 % interval.
    pub estimate_ns: Option<Estimate>,
    /// Why there is none.
    pub not_run: Option<NotRun>,
    /// What the kernel's benchmark was asked and answered.
    pub counted: Option<Counted>,
    /// One value a round.
    pub samples_ns: Vec<f64>,
}

impl Figure {
    fn new(step: Step, of: Of, samples_ns: Vec<f64>) -> Figure {
        Figure {
            name: Figure::name(step, of),
            step,
            of,
            estimate_ns: Estimate::of(&samples_ns, CONFIDENCE),
            not_run: None,
            counted: None,
            samples_ns,
        }
    }

    fn name(step: Step, of: Of) -> String {
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

/// The figures that the values of a probe belong to.
#[derive(Debug, Clone, Copy)]
pub struct FiguresOfProbe {
    of: Of,
    steps: &'static [Step],
}

impl Case<FiguresOfProbe> {
    fn of_pages(
        pages: Pages,
        steps: &'static [Step],
        probe: io::Result<impl Probe + 'static>,
    ) -> Self {
        let of = match pages {
            Pages::Base => Of::Base,
            _ => Of::Huge,
        };
        let step = *steps.last().unwrap_or(&Step::Estimate);
        Case::new(Figure::name(step, of), probe, FiguresOfProbe { of, steps })
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        let FiguresOfProbe { of, steps } = self.label;
        // A kernel without the second time gives no second value.
        let values = self.samples.first_key_value();
        let given = values.map_or(steps.len(), |(_, values)| values.len());
        let steps = steps.iter().take(given).enumerate();
        steps.map(move |(at, &step)| match &self.probe {
            Ok(probe) => Figure {
                counted: probe.counted(),
                ..Figure::new(step, of, self.values(at))
            },
            Err(why) => Figure {
                not_run: Some(why.clone()),
                ..Figure::new(step, of, Vec::new())
            },
        })
    }
}

impl<S: FnMut() -> Option<i32>> Probes<FiguresOfProbe, S> {
    /// The kernel's benchmark, where there is one, and the estimate, in an order
    /// from `seed`.
    pub fn of_pinning(plan: &Plan, kernel: Option<&Kernel>, seed: u64, signal: S) -> Self {
        let mut cases = Vec::new();
        if let Some(kernel) = kernel {
            cases.extend(plan.pages.iter().map(|&pages| {
                let range = Range::new(kernel.clone(), plan, pages);
                Case::of_pages(pages, &[Step::Get, Step::Put], range)
            }));
        }
        cases.extend(plan.pages.iter().map(|&pages| {
            let steps = &[Step::Vmsplice, Step::Splice, Step::Estimate];
            Case::of_pages(pages, steps, Pipes::new(pages, plan.untouched))
        }));
        Probes::of(cases, seed, signal)
    }

    /// The figures of what was measured so far.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = self.cases.iter().flat_map(Case::figures).collect();
        let differences = [Step::Get, Step::Estimate];
        figures.extend(
            differences
                .into_iter()
                .filter_map(|step| self.difference(step)),
        );
        figures
    }

    /// What base pages cost more than huge ones, round by round.
    fn difference(&self, step: Step) -> Option<Figure> {
        let values = |of| {
            let measures = |case: &&Case<FiguresOfProbe>| {
                case.label.of == of && case.label.steps.contains(&step)
            };
            let case = self.cases.iter().find(measures)?;
            let at = case.label.steps.iter().position(|it| *it == step)?;
            case.probe.is_ok().then_some((&case.samples, at))
        };
        let ((base, at), (huge, _)) = (values(Of::Base)?, values(Of::Huge)?);
        let pairs = base
            .iter()
            .filter_map(|(round, base)| Some((base, huge.get(round)?)));
        let samples = pairs.map(|(base, huge)| base[at] - huge[at]).collect();
        Some(Figure::new(step, Of::Difference, samples))
    }
}
