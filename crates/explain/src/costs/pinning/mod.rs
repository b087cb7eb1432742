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

use std::collections::BTreeMap;
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
use pipespeed_host::Warning;
use pipespeed_measure::record::{Header, NotRun};
use pipespeed_measure::rounds::{Place, Work};
use pipespeed_measure::runner::TrialError;
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
    /// One value a round.
    pub samples_ns: Vec<f64>,
}

impl Figure {
    fn new(step: Step, of: Of, outcome: Result<Vec<f64>, String>) -> Figure {
        let (samples_ns, refused) = match outcome {
            Ok(samples) => (samples, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Figure {
            name: Figure::name(step, of),
            step,
            of,
            estimate_ns: Estimate::of(&samples_ns, 0.95),
            refused,
            counted: None,
            samples_ns,
        }
    }

    fn name(step: Step, of: Of) -> String {
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
        format!("{step_name}_{of_name}")
    }
}

enum Way {
    Kernel(Range),
    Pipes(Pipes),
}

/// One way of measuring, of one kind of pages, with its samples.
struct Subject {
    of: Of,
    steps: &'static [Step],
    /// Or why it is not measured.
    way: Result<Way, String>,
    /// The values of each round.
    samples: BTreeMap<usize, Vec<f64>>,
}

impl Subject {
    fn new(pages: Pages, steps: &'static [Step], way: io::Result<Way>) -> Subject {
        Subject {
            of: match pages {
                Pages::Base => Of::Base,
                _ => Of::Huge,
            },
            steps,
            way: way.map_err(|error| error.to_string()),
            samples: BTreeMap::new(),
        }
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        let counted = match &self.way {
            Ok(Way::Kernel(range)) => Some(range.counted),
            _ => None,
        };
        // A kernel without the second time gives no second value.
        let values = self.samples.first_key_value();
        let given = values.map_or(self.steps.len(), |(_, values)| values.len());
        let steps = self.steps.iter().take(given).enumerate();
        steps.map(move |(at, &step)| {
            let outcome = match &self.way {
                Err(why) => Err(why.clone()),
                Ok(_) => Ok(self.samples.values().map(|values| values[at]).collect()),
            };
            Figure {
                counted,
                ..Figure::new(step, self.of, outcome)
            }
        })
    }
}

/// The kernel's benchmark, where there is one, and the estimate, as the cases of
/// a run in rounds; `S` returns the signal that ends it.
pub struct Pinning<S> {
    subjects: Vec<Subject>,
    kernel: Option<Kernel>,
    seed: u64,
    signal: S,
}

impl<S: FnMut() -> Option<i32>> Pinning<S> {
    /// What `plan` asks for, in an order from `seed`.
    pub fn new(plan: &Plan, kernel: Option<Kernel>, seed: u64, signal: S) -> Self {
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
        Pinning {
            subjects,
            kernel,
            seed,
            signal,
        }
    }

    /// The kernel's benchmark.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// The figures of what was measured until now.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures: Vec<Figure> = self.subjects.iter().flat_map(Subject::figures).collect();
        for step in [Step::Get, Step::Estimate] {
            figures.extend(self.difference(step));
        }
        figures
    }

    fn sample(&mut self, case: usize, is_pilot: bool) -> Result<io::Result<Vec<f64>>, TrialError> {
        if let Some(signal) = (self.signal)() {
            return Err(TrialError::Interrupted(signal));
        }
        let done = match (&mut self.subjects[case].way, &mut self.kernel) {
            (Ok(Way::Pipes(pipes)), _) => pipes
                .run()
                .map(|sample| vec![sample.vmsplice_ns, sample.splice_ns, sample.estimate_ns]),
            (Ok(Way::Kernel(range)), Some(kernel)) if is_pilot => {
                range.prepare(kernel).map(|()| Vec::new())
            }
            (Ok(Way::Kernel(range)), Some(kernel)) => range.run(kernel),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(done)
    }

    /// What base pages cost more than huge ones, round by round.
    fn difference(&self, step: Step) -> Option<Figure> {
        let values = |of| {
            let measures = |subject: &&Subject| subject.of == of && subject.steps.contains(&step);
            let subject = self.subjects.iter().find(measures)?;
            let at = subject.steps.iter().position(|it| *it == step)?;
            subject.way.is_ok().then_some((&subject.samples, at))
        };
        let ((base, at), (huge, _)) = (values(Of::Base)?, values(Of::Huge)?);
        let pairs = base
            .iter()
            .filter_map(|(round, base)| Some((base, huge.get(round)?)));
        let samples = pairs.map(|(base, huge)| base[at] - huge[at]).collect();
        Some(Figure::new(step, Of::Difference, Ok(samples)))
    }
}

impl<S: FnMut() -> Option<i32>> Work for Pinning<S> {
    type Record = Self;

    fn record(&self) -> &Self {
        self
    }

    fn cases(&self) -> usize {
        self.subjects.len()
    }

    fn name(&self, case: usize) -> String {
        let subject = &self.subjects[case];
        Figure::name(*subject.steps.last().unwrap_or(&Step::Estimate), subject.of)
    }

    fn is_open(&self, case: usize) -> bool {
        self.subjects[case].way.is_ok()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.subjects[case].way = Err(why.reason);
    }

    /// An error of the first call, as of a seccomp filter, is a refusal.
    fn pilot(&mut self, case: usize) -> Result<(), TrialError> {
        match self.sample(case, true)? {
            Ok(_) => Ok(()),
            Err(error) => Err(NotRun::refused(error.to_string()).into()),
        }
    }

    fn trial(&mut self, case: usize, place: Place) -> Result<(), TrialError> {
        let values = self.sample(case, false)?;
        let values = values.map_err(|error| TrialError::Failed(error.into()))?;
        self.subjects[case].samples.insert(place.round, values);
        Ok(())
    }

    fn plan(&mut self, _: usize, _: impl FnOnce(u64) -> String) -> u64 {
        self.seed
    }

    fn summarise(&mut self, _: usize) {}
}
