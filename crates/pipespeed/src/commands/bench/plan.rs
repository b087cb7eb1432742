//! What a run is going to do, made from the command line and the machine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;

use crate::case::Case;
use crate::cli::BenchArgs;
use crate::commands::pipe_size_allowed;
use crate::endpoint::spec::SinkTechnique;
use crate::failure::usage;
use crate::machine::placement::{self, Chosen};
use crate::machine::topology::Topology;
use crate::machine::{Machine, Root, warnings};
use crate::report::counted;
use crate::results::{DataUse, Run, SCHEMA_VERSION, Settings, Warning, WarningKind};
use crate::schedule::rounds_for_budget;
use crate::size;
use crate::suite::channels::MOST_BYTES;
use crate::suite::{Overrides, Suite, Volumes};

use super::able::{contradictions, null_control};
use super::lengths::{Lengths, rounds_for_verdicts};
use super::memory;

/// The confidence level of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

/// What is kept of the budget for the start, the report, and trials that take
/// longer than those of the pilot: a share and a constant, in seconds.
pub(super) const RESERVE: f64 = 0.04;
pub(super) const RESERVE_S: f64 = 0.3;

/// What a run is going to do.
pub(super) struct Plan {
    pub(super) suite: Suite,
    pub(super) cases: Vec<Case>,
    pub(super) null_control: Option<String>,
    /// Cases that can't be run here, with the reason.
    pub(super) refused: BTreeMap<String, String>,
    pub(super) chosen: Chosen,
    pub(super) lengths: Lengths,
    pub(super) settings: Settings,
    machine: Machine,
    warnings: Vec<Warning>,
    pub(super) budget_s: f64,
    /// Rounds asked for.
    pub(super) rounds: Option<usize>,
    /// Whether the time was asked for: then fewer rounds than usual will do.
    pub(super) time_given: bool,
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> anyhow::Result<Self> {
        let measure = &args.measure;
        let overrides = overrides(args)?;
        let cases = selected(args.suite.cases(&overrides), &args.case)?;
        check(&cases, args)?;
        let topology = Topology::read(&Root::default());
        let chosen = match measure.setup.cpus {
            Some((writer, reader)) => placement::explicit(writer, reader, &topology),
            None => placement::choose(measure.setup.placement.unwrap_or_default(), &topology),
        }
        .map_err(|error| usage(error.to_string()))?;
        let machine = Machine::read(chosen.writer, chosen.reader);
        let mut refused = refusals(&cases, &chosen, &topology);
        refused.extend(contradictions(&cases));

        let mut warnings = warnings::standing(&machine);
        let told = |kind| {
            warnings
                .iter()
                .any(|warning: &Warning| warning.kind == kind)
        };
        if let Some(message) = &chosen.warning
            && !told(WarningKind::Placement)
        {
            warnings.push(Warning {
                kind: WarningKind::Placement,
                case: None,
                message: message.clone(),
            });
        }
        let lengths = Lengths::of(args.suite, measure.quick);
        let durations = lengths.durations;
        let null_control = null_control(args.suite, &cases, &refused);
        // All of it takes as long as verdicts need, not a time.
        let rounds = match (measure.rounds, measure.time, args.channels.all) {
            (Some(rounds), ..) => Some(rounds as usize),
            (None, None, true) => Some(match measure.quick {
                true => lengths.least_rounds,
                false => rounds_for_verdicts(cases.len(), CONFIDENCE),
            }),
            _ => None,
        };
        Ok(Plan {
            suite: args.suite,
            null_control,
            settings: Settings {
                seed: measure.seed.unwrap_or_else(new_seed),
                rounds_planned: 0,
                rounds_done: 0,
                order: String::new(),
                timed_s: durations.timed_s,
                warm_up_s: durations.warm_up_s,
                placement: match measure.setup.cpus {
                    Some(_) => "explicit".to_owned(),
                    None => measure
                        .setup
                        .placement
                        .unwrap_or_default()
                        .name()
                        .to_owned(),
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
            refused,
            chosen,
            lengths,
            machine,
            warnings,
            budget_s: measure.time.unwrap_or(lengths.budget_s),
            rounds,
            time_given: measure.time.is_some(),
        })
    }

    /// What is about to happen, in a line.
    pub(super) fn announcement(&self) -> String {
        let places = match (self.chosen.writer, self.chosen.reader) {
            (Some(writer), Some(reader)) => {
                format!(
                    "writer on processor {writer}, reader on {reader} ({})",
                    self.chosen.relation
                )
            }
            _ => self.chosen.relation.clone(),
        };
        let time = match self.rounds {
            Some(rounds) if self.suite != Suite::Volumes => {
                // Of the null control's twin, too.
                let seconds = self.lengths.of_rounds(rounds, self.cases.len() + 1);
                format!("{}, about {}", counted(rounds, "round"), in_words(seconds))
            }
            _ if self.suite == Suite::Volumes => "a pilot shows how long it takes".to_owned(),
            _ => format!("at most {:.0} s", self.budget_s),
        };
        format!(
            "pipespeed: {}, {}, {time}; {places}",
            self.suite.name(),
            counted(self.cases.len(), "case")
        )
    }

    /// The record, still without cases.
    pub(super) fn empty_run(&self) -> Run {
        let mut warnings = self.warnings.clone();
        if self.settings.quick {
            let trials = match self.suite {
                Suite::Volumes => "smaller volumes".to_owned(),
                suite => format!(
                    "trials of {:.0} ms instead of {:.0}",
                    self.lengths.durations.timed_s * 1e3,
                    Lengths::of(suite, false).durations.timed_s * 1e3
                ),
            };
            warnings.push(Warning {
                kind: WarningKind::Quick,
                case: None,
                message: format!(
                    "a quick run: {trials}, and about a third of the rounds: intervals are wider, \
                     and small differences stay undecided"
                ),
            });
        }
        Run {
            schema_version: SCHEMA_VERSION,
            pipespeed_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            suite: self.suite.name().to_owned(),
            started_at: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
            interrupted: None,
            machine: self.machine.clone(),
            settings: self.settings.clone(),
            warnings,
            null_control: None,
            cases: Vec::new(),
            findings: Vec::new(),
            search: None,
        }
    }

    /// How many rounds to run, from what the pilot took, and the verified pass.
    pub(super) fn rounds(
        &self,
        cases: usize,
        pilot_s: f64,
        verifying_s: f64,
    ) -> anyhow::Result<usize> {
        if let Some(rounds) = self.rounds {
            return Ok(rounds);
        }
        let left = self.budget_s * (1.0 - RESERVE) - pilot_s - verifying_s - RESERVE_S;
        let least = match self.time_given {
            true => self.lengths.least_in_time,
            false => self.lengths.least_rounds,
        };
        let rounds = rounds_for_budget(pilot_s, left, cases, least);
        if self.time_given && rounds as f64 * pilot_s > left.max(0.0) * 1.1 {
            let needed = (least as f64 + 1.0) * pilot_s + verifying_s + RESERVE_S;
            return Err(anyhow!(self.too_little_time(cases, needed)));
        }
        Ok(rounds)
    }
}

/// A time that is only estimated.
pub(super) fn in_words(seconds: f64) -> String {
    match seconds < 100.0 {
        true => format!("{seconds:.0} s"),
        false => format!("{:.0} minutes", seconds / 60.0),
    }
}

fn overrides(args: &BenchArgs) -> anyhow::Result<Overrides> {
    let measure = &args.measure;
    check_suite(args)?;
    if matches!(args.suite, Suite::Touched | Suite::Channels)
        && let Some(data @ (DataUse::Discard | DataUse::Read)) = measure.data
    {
        return Err(usage(format!(
            "--data {}: in the suite {} every byte is used: say touch or verify, or take the \
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
        pages: args.memory.pages,
    })
}

/// Options that only some suites take.
fn check_suite(args: &BenchArgs) -> anyhow::Result<()> {
    let channels = args.suite == Suite::Channels;
    if args.suite == Suite::Memory {
        return memory::check(args);
    }
    if args.memory.pages.is_some() {
        return Err(usage(format!(
            "--pages: the cases of the suite {} have pages of their own: say `bench memory`",
            args.suite.name()
        )));
    }
    if let (false, Some(option)) = (channels, args.channels.given()) {
        return Err(usage(format!(
            "{option}: the suite {} has no channels to choose from: say `bench channels`",
            args.suite.name()
        )));
    }
    if args.suite != Suite::Volumes && !args.volumes.volume.is_empty() {
        return Err(usage(format!(
            "--volume: trials of the suite {} last by time: say `bench volumes`",
            args.suite.name()
        )));
    }
    if let (true, Some(bytes)) = (channels, args.channels.oversized()) {
        return Err(usage(format!(
            "--size {bytes}: a message has from 1 byte to {}",
            size::format(MOST_BYTES as u64)
        )));
    }
    if channels && args.measure.setup.buffer_size.is_some() {
        return Err(usage(
            "--buffer-size: in the suite channels a buffer is a message: say --size",
        ));
    }
    Ok(())
}

/// Whether the options make sense for these cases.
fn check(cases: &[Case], args: &BenchArgs) -> anyhow::Result<()> {
    let measure = &args.measure;
    let discards = |case: &&Case| case.data == DataUse::Discard;
    if let (true, Some(case)) = (args.work > 0, cases.iter().find(discards)) {
        return Err(usage(format!(
            "--work: the reader of {} splices the data on unseen, so it can't compute over it: \
             add --data touch, or take the suite touched",
            case.name
        )));
    }
    let unit = 2 * fastpipe::pipe::page_size();
    let splices = cases.iter().any(|case| {
        case.sink
            .as_ref()
            .is_some_and(|sink| sink.technique == SinkTechnique::Vmsplice)
    });
    if let Some(bytes) = measure.setup.buffer_size
        && splices
        && !bytes.is_multiple_of(unit)
    {
        return Err(usage(format!(
            "--buffer-size {bytes}: vmsplice needs a multiple of {unit} bytes (two pages)"
        )));
    }
    match measure.setup.pipe_size {
        Some(_)
            if args.suite == Suite::Channels && cases.iter().all(|c| c.pipe_bytes.is_none()) =>
        {
            Err(usage(
                "--pipe-size: none of these channels has pipes; pipe, vmsplice, vmsplice_fresh, fifo \
                 and uring have",
            ))
        }
        Some(bytes) => pipe_size_allowed(bytes),
        None => Ok(()),
    }
}

/// The cases named, and those they are compared with.
fn selected(cases: Vec<Case>, names: &[String]) -> anyhow::Result<Vec<Case>> {
    if names.is_empty() {
        return Ok(cases);
    }
    let known: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(usage(format!(
            "--case {unknown}: no such case in this suite; it has {}",
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
    cases
        .iter()
        .filter(|case| case.spins_in_pairs())
        .map(|case| (case.name.clone(), reason.clone()))
        .collect()
}

/// From the clock: it only has to differ from run to run, and is recorded.
pub(super) fn new_seed() -> u64 {
    let now = jiff::Timestamp::now();
    // Few digits, so that it can be typed again.
    (now.as_nanosecond() as u64 / 1000) % 1_000_000_000
}

pub(super) fn command_line() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .enumerate()
        // Where the program lies is nobody's business.
        .map(|(at, word)| match (at, word.rsplit('/').next()) {
            (0, Some(name)) => name.to_owned(),
            _ => word,
        })
        .collect()
}
