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
#[cfg(any(test, feature = "sample"))]
mod fake;
mod ioctl;
mod kernel;
mod layout;
mod range;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::io;

use fastpipe::buffer::Pages;
use serde::Serialize;

pub use self::estimate::PAGES_PER_CALL as PIPE_PAGES_PER_CALL;
pub(super) use self::estimate::Pipes;
pub use self::kernel::{Kernel, Missing, Pinned};
pub use self::layout::{Argument, LAYOUTS, Layout, Reply};
pub use self::range::Counted;
use self::range::Range;
use pipespeed_measure::record::Header;
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
    /// Samples of each figure.
    pub rounds: u32,
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
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Samples of each figure.
    pub rounds: u32,
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
    /// What was measured.
    pub figures: &'a [Figure],
}

/// What a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// get_user_pages_fast, by the kernel's own benchmark.
    Get,
    /// The pages let go again, by the same.
    Put,
    /// vmsplice(2) into a pipe.
    Vmsplice,
    /// splice(2) of the same pages from another pipe: the baseline.
    Splice,
    /// The difference of the two.
    Estimate,
}

/// Which pages a figure is about.
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

/// One figure, in nanoseconds a base page.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// As in `get_base`.
    pub name: String,
    /// What it is about.
    pub step: Step,
    /// Of which pages.
    pub of: Of,
    /// The median of the samples with its 95 % interval.
    pub estimate_ns: Option<Estimate>,
    /// Why there is none.
    pub refused: Option<String>,
    /// What the kernel's benchmark was asked and answered.
    pub counted: Option<Counted>,
    /// A value each round.
    pub samples_ns: Vec<f64>,
}

impl Figure {
    fn new(step: Step, of: Of, outcome: Result<Vec<f64>, String>) -> Figure {
        let (samples_ns, refused) = match outcome {
            Ok(samples) => (samples, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let step_name = match step {
            Step::Get => "get",
            Step::Put => "put",
            Step::Vmsplice => "vmsplice",
            Step::Splice => "splice",
            Step::Estimate => "estimate",
        };
        let of_name = match of {
            Of::Base => "base",
            Of::Huge => "huge",
            Of::Difference => "difference",
        };
        Figure {
            name: format!("{step_name}_{of_name}"),
            step,
            of,
            estimate_ns: Estimate::of(&samples_ns, 0.95),
            refused,
            counted: None,
            samples_ns,
        }
    }
}

/// What base pages cost more than huge ones, where both have a figure.
fn difference(figures: &[Figure], step: Step) -> Option<Figure> {
    let of = |of| {
        let found = figures
            .iter()
            .find(|figure| figure.step == step && figure.of == of);
        found.filter(|figure| figure.refused.is_none())
    };
    let (base, huge) = (of(Of::Base)?, of(Of::Huge)?);
    let pairs = base.samples_ns.iter().zip(&huge.samples_ns);
    let samples = pairs.map(|(base, huge)| base - huge).collect();
    Some(Figure::new(step, Of::Difference, Ok(samples)))
}

enum Way {
    Kernel(Range),
    Pipes(Pipes),
}

/// One way of measuring, of one kind of pages, with its samples.
struct Subject {
    pages: Pages,
    steps: &'static [Step],
    way: Result<Way, String>,
    samples: Vec<Vec<f64>>,
}

impl Subject {
    fn new(pages: Pages, steps: &'static [Step], way: io::Result<Way>) -> Subject {
        Subject {
            pages,
            steps,
            way: way.map_err(|error| error.to_string()),
            samples: Vec::new(),
        }
    }

    /// A sample; what the first of them says is a reason not to go on, as where
    /// a filter of system calls forbids vmsplice.
    fn run(&mut self, kernel: &mut Option<Kernel>, is_warm_up: bool) -> io::Result<()> {
        let Ok(way) = &mut self.way else {
            return Ok(());
        };
        let done = match (way, kernel) {
            (Way::Pipes(pipes), _) => pipes
                .run()
                .map(|sample| vec![sample.vmsplice_ns, sample.splice_ns, sample.estimate_ns]),
            (Way::Kernel(range), Some(kernel)) if is_warm_up => {
                range.prepare(kernel).map(|()| Vec::new())
            }
            (Way::Kernel(range), Some(kernel)) => range.run(kernel),
            (Way::Kernel(_), None) => return Ok(()),
        };
        match done {
            Ok(values) if !is_warm_up => self.samples.push(values),
            Ok(_) => {}
            Err(error) if is_warm_up => self.way = Err(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn figures(self) -> impl Iterator<Item = Figure> {
        let counted = match &self.way {
            Ok(Way::Kernel(range)) => Some(range.counted),
            _ => None,
        };
        let refused = self.way.err();
        // A kernel without the second time gives no second value.
        let told = self.samples.first().map_or(self.steps.len(), Vec::len);
        let steps = self.steps.iter().take(told).enumerate();
        let of = match self.pages {
            Pages::Base => Of::Base,
            _ => Of::Huge,
        };
        steps.map(move |(at, &step)| {
            let outcome = match &refused {
                Some(why) => Err(why.clone()),
                None => Ok(self.samples.iter().map(|values| values[at]).collect()),
            };
            Figure {
                counted,
                ..Figure::new(step, of, outcome)
            }
        })
    }
}

/// Measures everything once a round, in turns that change their direction from
/// round to round: by the kernel's benchmark where there is one, and by the
/// estimate. `progress` is called with the number of rounds done.
///
/// # Errors
/// When a call fails that worked in the warm-up.
pub fn measure(
    plan: &Plan,
    mut kernel: Option<Kernel>,
    mut progress: impl FnMut(u32),
) -> io::Result<(Option<Kernel>, Vec<Figure>)> {
    let mut subjects = Vec::new();
    for &pages in kernel.iter().flat_map(|_| &plan.pages) {
        let range = Range::new(plan, pages).map(Way::Kernel);
        subjects.push(Subject::new(pages, &[Step::Get, Step::Put], range));
    }
    for &pages in &plan.pages {
        let pipes = Pipes::new(pages, plan.untouched).map(Way::Pipes);
        let steps = &[Step::Vmsplice, Step::Splice, Step::Estimate];
        subjects.push(Subject::new(pages, steps, pipes));
    }
    for round in 0..=plan.rounds {
        for subject in &mut subjects {
            subject.run(&mut kernel, round == 0)?;
        }
        subjects.reverse();
        progress(round);
    }
    // Back in the order of their making.
    if plan.rounds.is_multiple_of(2) {
        subjects.reverse();
    }
    let mut figures: Vec<Figure> = subjects.into_iter().flat_map(Subject::figures).collect();
    for step in [Step::Get, Step::Estimate] {
        figures.extend(difference(&figures, step));
    }
    Ok((kernel, figures))
}
