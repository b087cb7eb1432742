//! What a run of a suite is going to do: made from a request and the machine.

mod cases;
mod lengths;
mod searching;
mod volumes;

use std::collections::BTreeMap;

use crate::record::{RecordHeader, Run, Settings, Warning, WarningKind};
use crate::rounds::TimeBudget;
use crate::search::{SearchPlan, SearchPurpose};
use crate::spec::{Case, Suite};
use crate::suite::{Lengths, Overrides, Preparation, changes};
use pipespeed_base::text::pluralize;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, warnings};
use pipespeed_stats::schedule::rounds_for_budget;

pub use self::volumes::VolumeTrials;

/// The confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// What is requested of a run.
#[derive(Debug, Clone)]
pub struct Request {
    /// The suite.
    pub suite: Suite,
    /// The names of the cases; all of the suite if empty.
    pub cases: Vec<String>,
    /// Values that replace those of the suite. The plan sets the processor for
    /// both ends, and the pages in the suite sizes.
    pub overrides: Overrides,
    /// The duration of the whole run, in seconds.
    pub time_s: Option<f64>,
    /// The number of rounds.
    pub rounds: Option<usize>,
    /// The seed of the order of the trials.
    pub seed: u64,
    /// The processors of the writer and the reader.
    pub cpus: Option<(usize, usize)>,
    /// The placement of both ends.
    pub placement: Option<Placement>,
    /// Warnings about the request.
    pub warnings: Vec<Warning>,
}

/// What a run is going to do.
#[derive(Debug)]
pub struct RunPlan {
    /// The suite.
    pub suite: Suite,
    /// The cases, without the null control's twin.
    pub cases: Vec<Case>,
    /// How the rounds are prepared.
    pub preparation: Preparation,
    /// The case that is measured twice.
    pub null_control: Option<String>,
    /// Cases that can't be run here, with the reason.
    pub refused: BTreeMap<String, String>,
    /// The processors of both ends.
    pub chosen: Chosen,
    /// The durations of the run and its trials.
    pub lengths: Lengths,
    /// This machine.
    pub machine: Machine,
    warnings: Vec<Warning>,
    settings: Settings,
    budget: TimeBudget,
    /// Requested number of rounds.
    rounds: Option<usize>,
}

impl RunPlan {
    /// Plans a run on the chosen processors.
    ///
    /// # Errors
    /// Bad usage.
    pub fn new(request: &Request, mut chosen: Chosen, topology: &Topology) -> anyhow::Result<Self> {
        let suite = request.suite;
        let mut overrides = request.overrides.clone();
        let lengths = *suite.lengths(overrides.quick);
        let time_s = request.time_s.unwrap_or(lengths.budget_s);
        let budget = TimeBudget::new(time_s, request.time_s.is_some());
        let same = || placement::choose(Placement::Same, topology).ok()?.writer;
        overrides.one_cpu = chosen.writer.or_else(same);
        let preparation = (suite.definition().prepare)(&mut overrides);
        let mut cases = suite.cases(&overrides);
        let mut warnings = Vec::new();
        match &preparation {
            Preparation::Pilot | Preparation::Volumes => {}
            Preparation::Combination => cases.push(changes::combination_placeholder(&cases[0])),
            Preparation::Baseline(grid) => warnings = searching::warnings(grid, None),
            Preparation::Search(grid) => {
                cases = searching::placed(cases, request, topology, &mut chosen)?;
                warnings = searching::warnings(grid, overrides.pages);
            }
        }
        let cases = cases::selected(cases, &request.cases)?;
        cases::check(&cases, &overrides, &preparation)?;
        let refused = cases::refusals(&cases, &chosen, topology);
        let machine = Machine::read(chosen.writer, chosen.reader);
        warnings.splice(0..0, warnings::of_machine(&machine));
        let concerns_placement = |warning: &Warning| warning.kind == WarningKind::Placement;
        if let Some(message) = &chosen.warning
            && !warnings.iter().any(concerns_placement)
        {
            warnings.push(Warning::new(WarningKind::Placement, message));
        }
        let comparisons = cases::comparisons(&cases, &refused, &preparation);
        let lengths = lengths.for_verdicts_on(comparisons, CONFIDENCE);
        // All channels and sizes take as long as verdicts need.
        let rounds = match (request.rounds, request.time_s) {
            (None, None) if overrides.selection.all => Some(lengths.min_rounds),
            (rounds, _) => rounds,
        };
        warnings.extend_from_slice(&request.warnings);
        warnings.extend(lengths::quick_note(request, &lengths));
        Ok(RunPlan {
            suite,
            null_control: cases::null_control(suite, &cases, &refused),
            settings: Settings {
                seed: request.seed,
                rounds_planned: 0,
                rounds_done: 0,
                order: String::new(),
                timed_s: lengths.durations.timed_s,
                warm_up_s: lengths.durations.warm_up_s,
                placement: match request.cpus {
                    Some(_) => "explicit".to_owned(),
                    None => request.placement.unwrap_or_default().name().to_owned(),
                },
                writer_cpu: chosen.writer,
                reader_cpu: chosen.reader,
                cpu_relation: chosen.relation.clone(),
                pipe_size: overrides.pipe_bytes,
                buffer_size: overrides.buffer_bytes,
                data: overrides.data.map(|data| data.name().to_owned()),
                work: overrides.work,
                quick: overrides.quick,
                confidence: CONFIDENCE,
            },
            cases,
            preparation,
            refused,
            chosen,
            lengths,
            machine,
            warnings,
            budget,
            rounds,
        })
    }

    /// Describes the planned run in one line.
    pub fn announcement(&self) -> String {
        let mut cases = pluralize(self.cases.len(), "case");
        // With the null control's twin.
        let mut trials = self.cases.len() + 1;
        let search = self.search();
        if let Some(search) = &search {
            let pairs = pluralize(search.grid.runnable(), "pair");
            match search.purpose {
                SearchPurpose::Sizes => {
                    cases += &format!(" with {pairs} of sizes each");
                    // Of the best sizes.
                    trials += self.cases.len();
                }
                SearchPurpose::Baseline => {
                    cases += &format!(" after a search through {pairs} of sizes");
                }
            }
        }
        let search_s = search.as_ref().map_or(0.0, SearchPlan::estimate_s);
        let time = match (&self.preparation, self.rounds) {
            (Preparation::Volumes, _) => "the pilot determines the duration".to_owned(),
            (_, Some(rounds)) => format!(
                "{}, about {}",
                pluralize(rounds, "round"),
                in_words(search_s + self.lengths.estimate_s(rounds, trials))
            ),
            // The minimum number of rounds may take longer.
            (_, None) => format!("about {:.0} s", self.budget.time_s),
        };
        format!(
            "pipespeed: {}, {cases}, {time}; {}",
            self.suite.name(),
            self.chosen
        )
    }

    /// Returns the record, without cases.
    pub fn empty_run(&self, header: RecordHeader) -> Run {
        Run {
            header,
            suite: self.suite,
            interrupted: None,
            settings: self.settings.clone(),
            warnings: self.warnings.clone(),
            null_control: None,
            cases: Vec::new(),
            findings: Vec::new(),
            search: None,
        }
    }

    /// Whether the pilot should run again, since other load may have slowed it down:
    /// its time sets the number of rounds. The minimum number of rounds must still fit.
    pub fn has_time_for_second_pilot(&self, pilot_s: f64) -> bool {
        let is_by_pilot = match self.preparation {
            Preparation::Pilot | Preparation::Combination | Preparation::Baseline(_) => {
                self.rounds.is_none()
            }
            Preparation::Volumes | Preparation::Search(_) => false,
        };
        let needed_s = (self.min_rounds() + 2) as f64 * pilot_s;
        is_by_pilot && self.budget.remaining_s() >= needed_s
    }

    /// Returns the number of rounds, from the time of the pilot.
    ///
    /// # Errors
    /// Bad usage, if the minimum number of rounds doesn't fit into a requested time.
    pub fn rounds(&self, cases: usize, pilot_s: f64) -> anyhow::Result<usize> {
        if let Some(rounds) = self.rounds {
            return Ok(rounds);
        }
        let min_rounds = self.min_rounds();
        self.require(min_rounds as f64 * pilot_s, cases)?;
        let remaining_s = self.budget.remaining_s();
        Ok(rounds_for_budget(pilot_s, remaining_s, cases, min_rounds))
    }

    /// Checks before the pilot that the timed parts alone fit into a requested time.
    /// Only the pilot shows whether the rest fits too.
    ///
    /// # Errors
    /// Bad usage, if they don't fit.
    pub fn check_time(&self) -> anyhow::Result<()> {
        let search = self.search();
        if let Some(search) = &search
            && search.purpose == SearchPurpose::Sizes
        {
            return self.check_search_time(search);
        }
        let search_s = search.as_ref().map_or(0.0, SearchPlan::estimate_s);
        let is_fixed = match self.preparation {
            // The pilot shows what fits.
            Preparation::Volumes => true,
            Preparation::Pilot
            | Preparation::Combination
            | Preparation::Search(_)
            | Preparation::Baseline(_) => self.rounds.is_some(),
        };
        let runnable = self.cases.len() - self.refused.len();
        let cases = runnable + usize::from(self.null_control.is_some());
        let parts_s = self.lengths.durations.sum_s();
        let min_rounds = self.min_rounds();
        let timed_s = (min_rounds * cases) as f64 * parts_s;
        if is_fixed || self.budget.allows(search_s + timed_s) {
            return Ok(());
        }
        let rounds_s = self.lengths.estimate_s(min_rounds, cases);
        self.require(search_s + rounds_s, cases)
    }

    /// Checks that the minimum number of rounds fits into a requested time.
    fn require(&self, needed_s: f64, cases: usize) -> anyhow::Result<()> {
        let has_channels = self.suite.definition().options.contains(&"--channel");
        let fewer = if has_channels {
            "--channel or --size"
        } else {
            "--case"
        };
        let quick = self.settings.quick;
        let quicker = if quick { "" } else { ", add --quick" };
        let rounds = self.min_rounds();
        self.budget.require(
            needed_s,
            &format!("{rounds} rounds of {cases} trials"),
            &format!("choose fewer cases with {fewer}{quicker}, or use --rounds instead"),
        )
    }

    /// Returns the minimum number of rounds.
    fn min_rounds(&self) -> usize {
        if self.budget.is_given {
            self.lengths.min_rounds_in_time
        } else {
            self.lengths.min_rounds
        }
    }

    /// Returns the time for the whole run, unless a number of rounds was requested.
    pub fn limit(&self) -> Option<TimeBudget> {
        self.rounds.is_none().then_some(self.budget)
    }
}

/// Formats an estimated time.
fn in_words(seconds: f64) -> String {
    if seconds < 100.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} minutes", seconds / 60.0)
    }
}
