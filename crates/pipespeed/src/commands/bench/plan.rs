//! What a run is going to do, made from the command line and the machine.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::BenchArgs;
use crate::commands::{header, place, seed};
use pipespeed_base::failure::usage;
use pipespeed_host::placement::{self, Chosen, Placement};
use pipespeed_host::topology::Topology;
use pipespeed_host::{Machine, Root, warnings};
use pipespeed_measure::case::Case;
use pipespeed_measure::record::{DataUse, Kind, Run, Settings, Warning, WarningKind};
use pipespeed_measure::rounds::{Budget, rounds_for_verdicts};
use pipespeed_measure::search::SEARCH_END;
use pipespeed_measure::suite::changes::{self, Change};
use pipespeed_measure::suite::sizes::Grid;
use pipespeed_measure::suite::{Overrides, Suite, Volumes};
use pipespeed_report::pluralize;
use pipespeed_stats::schedule::rounds_for_budget;

use super::able::{check, check_suite, contradictions, null_control};
use super::lengths::{Lengths, quick_note};
use super::{memory, sizes};

/// The confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// What a run is going to do.
pub(super) struct Plan {
    pub(super) suite: Suite,
    pub(super) cases: Vec<Case>,
    /// The sizes to search through, in the suite sizes.
    pub(super) grid: Option<Grid>,
    pub(super) null_control: Option<String>,
    /// Cases that can't be run here, with the reason.
    pub(super) refused: BTreeMap<String, String>,
    pub(super) chosen: Chosen,
    pub(super) lengths: Lengths,
    pub(super) settings: Settings,
    machine: Machine,
    pub(super) warnings: Vec<Warning>,
    /// Warning about what a quick run omits.
    quick_note: Option<Warning>,
    /// If it was asked for, fewer rounds than usual will do.
    pub(super) budget: Budget,
    /// Requested number of rounds.
    pub(super) rounds: Option<usize>,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> anyhow::Result<Self> {
        let measure = &args.measure;
        let lengths = Lengths::of(args.suite, measure.quick);
        let time_s = measure.time.unwrap_or(lengths.budget_s);
        let budget = Budget::new(time_s, measure.time.is_some());
        check_suite(args)?;
        let topology = Topology::read(&Root::default());
        let placement = measure.setup.placement.unwrap_or_default();
        let mut chosen = place(measure.setup.cpus, placement, &topology)?;
        let overrides = overrides(args, one_cpu(&chosen, &topology))?;
        let grid = (args.suite == Suite::Sizes).then(|| sizes::grid(args));
        let mut cases = args.suite.cases(&overrides);
        if grid.is_some() {
            cases = sizes::placed(cases, args, &topology, &mut chosen)?;
        }
        let cases = selected(with_combination(args.suite, cases), &args.case)?;
        check(&cases, args)?;
        let machine = Machine::read(chosen.writer, chosen.reader);
        let mut refused = refusals(&cases, &chosen, &topology);
        refused.extend(contradictions(&cases));

        let mut warnings = warnings::of_machine(&machine);
        if let Some(grid) = &grid {
            warnings.extend(sizes::warnings(grid, overrides.pages));
        }
        let concerns_placement = |warning: &Warning| warning.kind == WarningKind::Placement;
        if let Some(message) = &chosen.warning
            && !warnings.iter().any(concerns_placement)
        {
            warnings.push(Warning::new(WarningKind::Placement, message));
        }
        let durations = lengths.durations;
        let null_control = null_control(args.suite, &cases, &refused);
        // All of it takes as long as verdicts need, not a time.
        let rounds = match (measure.rounds, measure.time, args.channels.all) {
            (Some(rounds), ..) => Some(rounds as usize),
            (None, None, true) => Some(if measure.quick {
                lengths.min_rounds
            } else {
                rounds_for_verdicts(cases.len(), CONFIDENCE)
            }),
            _ => None,
        };
        Ok(Plan {
            suite: args.suite,
            null_control,
            settings: Settings {
                seed: seed(measure.seed),
                rounds_planned: 0,
                rounds_done: 0,
                order: String::new(),
                timed_s: durations.timed_s,
                warm_up_s: durations.warm_up_s,
                placement: match measure.setup.cpus {
                    Some(_) => "explicit".to_owned(),
                    None => placement.name().to_owned(),
                },
                writer_cpu: chosen.writer,
                reader_cpu: chosen.reader,
                cpu_relation: chosen.relation.clone(),
                pipe_size: measure.setup.pipe_size,
                buffer_size: measure.setup.buffer_size,
                data: measure.data.map(|data| data.name().to_owned()),
                work: args.work,
                quick: measure.quick,
                confidence: CONFIDENCE,
            },
            cases,
            grid,
            refused,
            chosen,
            lengths,
            machine,
            warnings,
            quick_note: quick_note(args, &lengths),
            budget,
            rounds,
        })
    }

    /// Describes the planned run in one line.
    pub(super) fn announcement(&self) -> String {
        let (best, search_s, pairs) = match &self.grid {
            Some(grid) => (
                self.cases.len(),
                SEARCH_END * self.budget.time_s,
                format!(" with {} of sizes each", pluralize(grid.runnable(), "pair")),
            ),
            None => (0, 0.0, String::new()),
        };
        let time = match self.rounds {
            Some(rounds) if self.suite != Suite::Volumes => {
                // Of the null control's twin, too.
                let trials = self.cases.len() + best + 1;
                let seconds = search_s + self.lengths.of_rounds(rounds, trials);
                format!(
                    "{}, about {}",
                    pluralize(rounds, "round"),
                    in_words(seconds)
                )
            }
            _ if self.suite == Suite::Volumes => "the pilot determines the duration".to_owned(),
            _ => format!("at most {:.0} s", self.budget.time_s),
        };
        format!(
            "pipespeed: {}, {}{pairs}, {time}; {}",
            self.suite.name(),
            pluralize(self.cases.len(), "case"),
            self.chosen
        )
    }

    /// Returns the record, without cases.
    pub(super) fn empty_run(&self) -> Run {
        let mut warnings = self.warnings.clone();
        warnings.extend(self.quick_note.clone());
        Run {
            header: header(Kind::Bench, self.machine.clone()),
            suite: self.suite,
            interrupted: None,
            settings: self.settings.clone(),
            warnings,
            null_control: None,
            cases: Vec::new(),
            findings: Vec::new(),
            search: None,
        }
    }

    /// Whether the pilot should run again, since other load may have slowed it down:
    /// its time sets the number of rounds. The minimum number of rounds must still fit.
    pub(super) fn has_time_for_second_pilot(&self, pilot_s: f64) -> bool {
        let is_by_pilot = self.rounds.is_none() && self.suite != Suite::Volumes;
        let needed_s = (self.min_rounds() + 2) as f64 * pilot_s;
        is_by_pilot && self.budget.remaining_s() >= needed_s
    }

    /// Returns the number of rounds, from the time of the pilot.
    pub(super) fn rounds(&self, cases: usize, pilot_s: f64) -> anyhow::Result<usize> {
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
    /// Wrong usage, if they don't fit.
    pub(super) fn enough_time(&self) -> anyhow::Result<()> {
        if let Some(plan) = self.search() {
            return self.enough_for_search(&plan);
        }
        // Volumes have a plan of their own.
        if self.rounds.is_some() || self.suite == Suite::Volumes {
            return Ok(());
        }
        let runnable = self.cases.len() - self.refused.len();
        let cases = runnable + usize::from(self.null_control.is_some());
        let parts_s = self.lengths.durations.sum_s();
        let min_rounds = self.min_rounds();
        if self.budget.allows((min_rounds * cases) as f64 * parts_s) {
            return Ok(());
        }
        self.require(self.lengths.of_rounds(min_rounds, cases), cases)
    }

    /// Checks that the minimum number of rounds fits into a requested time.
    ///
    /// # Errors
    /// Wrong usage, with the time needed.
    fn require(&self, needed_s: f64, cases: usize) -> anyhow::Result<()> {
        let fewer = match self.suite {
            Suite::Channels => "--channel or --size",
            _ => "--case",
        };
        let quicker = if self.settings.quick {
            ""
        } else {
            ", add --quick"
        };
        let rounds = self.min_rounds();
        self.budget.require(
            needed_s,
            &format!("{rounds} rounds of {cases} trials"),
            &format!("choose fewer cases with {fewer}{quicker}, or use --rounds instead"),
        )
    }

    /// Returns the minimum number of rounds.
    pub(super) fn min_rounds(&self) -> usize {
        if self.budget.is_given {
            self.lengths.min_rounds_in_time
        } else {
            self.lengths.min_rounds
        }
    }

    /// Returns the time for the whole run, unless a number of rounds was requested.
    pub(super) fn limit(&self) -> Option<Budget> {
        self.rounds.is_none().then_some(self.budget)
    }
}

/// Formats an estimated time.
pub(super) fn in_words(seconds: f64) -> String {
    if seconds < 100.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} minutes", seconds / 60.0)
    }
}

/// Returns the processor for cases whose ends share one: the writer's, if it has one.
fn one_cpu(chosen: &Chosen, topology: &Topology) -> Option<usize> {
    let same = || placement::choose(Placement::Same, topology).ok()?.writer;
    chosen.writer.or_else(same)
}

/// Returns the suite's cases, with a placeholder for the one chosen after the pilot.
fn with_combination(suite: Suite, mut cases: Vec<Case>) -> Vec<Case> {
    if suite == Suite::Changes {
        cases.push(changes::combination_placeholder(&cases[0]));
    }
    cases
}

fn overrides(args: &BenchArgs, one_cpu: Option<usize>) -> anyhow::Result<Overrides> {
    let measure = &args.measure;
    if matches!(args.suite, Suite::Touched | Suite::Channels)
        && let Some(data @ (DataUse::Discard | DataUse::Read)) = measure.data
    {
        return Err(usage(format!(
            "--data {}: in the suite {} every byte is used: use touch or verify, or the \
             suite ladder",
            data.name(),
            args.suite.name()
        )));
    }
    Ok(Overrides {
        pipe_bytes: measure.setup.pipe_size,
        buffer_bytes: measure.setup.buffer_size,
        data: measure.data,
        work: args.work,
        selection: memory::selection(args),
        volumes: Volumes {
            bytes: args.volumes.volume.iter().map(|&n| n as u64).collect(),
            quick: measure.quick,
        },
        pages: match args.suite {
            Suite::Sizes => sizes::pages(),
            _ => args.memory.pages,
        },
        one_cpu,
    })
}

/// Returns the named cases and the ones they are compared with.
fn selected(cases: Vec<Case>, names: &[String]) -> anyhow::Result<Vec<Case>> {
    if names.is_empty() {
        return Ok(cases);
    }
    let known: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(usage(format!(
            "--case {unknown}: no such case in this suite; its cases are {}",
            known.join(", ")
        )));
    }
    let mut wanted: BTreeSet<String> = names.iter().cloned().collect();
    for case in &cases {
        if let (true, Some((other, _))) = (names.contains(&case.name), &case.compared_with) {
            wanted.insert(other.clone());
        }
    }
    Ok(cases
        .into_iter()
        .filter(|case| wanted.contains(&case.name))
        .map(|mut case| {
            let missing = |other: &(String, String)| !wanted.contains(&other.0);
            if case.compared_with.as_ref().is_some_and(missing) {
                case.compared_with = None;
            }
            case
        })
        .collect())
}

fn refusals(cases: &[Case], chosen: &Chosen, topology: &Topology) -> BTreeMap<String, String> {
    let Some(reason) = placement::spinning_refused(chosen, topology) else {
        return BTreeMap::new();
    };
    let refused = |case: &Case| match case.name.parse() {
        Ok(Change::OneProcessor) => {
            Some("both ends already share one processor: no change".to_owned())
        }
        _ => case.spins_in_pairs().then(|| reason.clone()),
    };
    cases
        .iter()
        .filter_map(|case| Some((case.name.clone(), refused(case)?)))
        .collect()
}
