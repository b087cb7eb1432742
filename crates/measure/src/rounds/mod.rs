//! A run: rounds of trials in a balanced order, and what they say.

pub mod comparisons;
mod disturbances;
mod failures;
mod rows;
mod sample;
mod together;

use std::collections::BTreeMap;

use crate::case::Case;
use crate::endpoint::memory::MemorySpec;
use crate::record::{
    CaseResult, Configuration, EndCounters, Flag, NotRun, NullControl, Run, Sample, Warning,
    WarningKind,
};
use crate::runner::{Runner, Trial, TrialError};
use pipespeed_host::noise::NoiseDelta;
use pipespeed_host::warnings;
use pipespeed_stats::schedule::Schedule;

pub use self::disturbances::{RULE, waited_for_processor};
use self::sample::summary;
pub(crate) use self::sample::{RUN_DELAY, from_outside, sample_of};

/// A timed part that lasted so many times as long as it should flags a trial.
const OVERLONG: f64 = 2.0;

/// Looks on while a run is made.
pub trait Observer {
    /// A trial is about to begin: the `done`th of `all`.
    fn before_trial(&mut self, case: &str, done: usize, all: usize);

    /// A round has been completed: the record so far is to be saved.
    ///
    /// # Errors
    /// When it can't be saved; the run then ends with that error.
    fn after_round(&mut self, run: &Run) -> anyhow::Result<()>;

    /// A trial failed and the run goes on without it.
    fn trial_failed(&mut self, _error: &anyhow::Error) {}
}

/// Why a run ended before its last round.
#[derive(Debug)]
pub enum Stopped {
    /// By a signal.
    Signal(i32),
    /// By an error.
    Error(anyhow::Error),
}

impl Stopped {
    /// Why, in words, as a record keeps it.
    pub fn reason(&self) -> String {
        match self {
            Stopped::Signal(signal) => pipespeed_base::signal_name(*signal),
            Stopped::Error(error) => format!("{error:#}"),
        }
    }
}

/// A run in the making.
#[derive(Debug)]
pub struct Measurement<R> {
    runner: R,
    cases: Vec<Case>,
    run: Run,
    noise: Vec<NoiseDelta>,
    /// Trials that were refused although the pilot's was not, with the last
    /// reason.
    refused_later: BTreeMap<String, (usize, String)>,
    /// Trials that failed although the run goes on, with the first reason.
    failed: BTreeMap<String, (usize, String)>,
    /// Whether the other cases go on when a trial of one has failed.
    keeps_going: bool,
    /// How many trials there are of cases that don't run in every round.
    rare: BTreeMap<String, usize>,
    /// Whether both ends have a processor of their own, so that waiting for
    /// one is a disturbance.
    own_processors: bool,
}

impl<R: Runner> Measurement<R> {
    /// A run of `cases`, of which `run` holds everything but the cases. A case
    /// named in `refused` is not run.
    pub fn new(
        runner: R,
        mut cases: Vec<Case>,
        null_control: Option<&str>,
        mut run: Run,
        refused: &BTreeMap<String, String>,
    ) -> Self {
        if let Some(at) = cases
            .iter()
            .position(|case| Some(&*case.name) == null_control)
        {
            let twin = cases[at].twin();
            run.null_control = Some(NullControl {
                case: cases[at].name.clone(),
                twin: twin.name.clone(),
                ratio: None,
            });
            cases.insert(at + 1, twin);
        }
        run.cases = cases.iter().map(|case| unmeasured(case, refused)).collect();
        let settings = &run.settings;
        let own_processors = settings.writer_cpu.is_some()
            && settings.reader_cpu.is_some()
            && settings.writer_cpu != settings.reader_cpu;
        Measurement {
            runner,
            cases,
            run,
            noise: Vec::new(),
            refused_later: BTreeMap::new(),
            failed: BTreeMap::new(),
            keeps_going: false,
            rare: BTreeMap::new(),
            own_processors,
        }
    }

    /// A trial that fails does not end the run: the other cases go on.
    pub fn keep_going(mut self) -> Self {
        self.keeps_going = true;
        self
    }

    /// Runs each case once, which shows what is refused here and warms the
    /// machine up. What is measured is not kept.
    ///
    /// # Errors
    /// When a trial fails, or a signal comes.
    pub fn pilot(&mut self, observer: &mut impl Observer) -> Result<(), Stopped> {
        for at in 0..self.cases.len() {
            if self.run.cases[at].not_run.is_some() {
                continue;
            }
            observer.before_trial(&self.cases[at].name, at, self.cases.len());
            match self.runner.run(&self.cases[at].for_pilot()) {
                Ok(trial) => note_setup(&mut self.run.cases[at].configuration, &trial),
                Err(error) => self.not_run(at, "", error, observer)?,
            }
        }
        Ok(())
    }

    /// How many cases will run in each round.
    pub fn runnable(&self) -> usize {
        self.run
            .cases
            .iter()
            .filter(|case| case.not_run.is_none())
            .count()
    }

    /// Changes how trials are run from now on.
    pub fn runner_mut(&mut self) -> &mut R {
        &mut self.runner
    }

    /// The record, with how it is measured.
    pub fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Runs so many rounds.
    pub fn rounds(&mut self, rounds: usize, observer: &mut impl Observer) -> Result<(), Stopped> {
        let runnable: Vec<usize> = (0..self.cases.len())
            .filter(|at| self.run.cases[*at].not_run.is_none())
            .collect();
        let schedule = Schedule::new(runnable.len(), rounds, self.run.settings.seed);
        self.run.settings.rounds_planned = rounds;
        self.run.settings.order = schedule.description();
        let rows = self.rows(&schedule, &runnable);
        let all = rows.iter().map(Vec::len).sum();
        let mut done = 0;
        for (round, row) in rows.iter().enumerate() {
            for (position, &at) in row.iter().enumerate() {
                if !self.failed_enough(at) {
                    observer.before_trial(&self.cases[at].name, done, all);
                    self.trial(at, round, position, observer)?;
                }
                done += 1;
            }
            self.run.settings.rounds_done = round + 1;
            self.summarise();
            observer.after_round(&self.run).map_err(Stopped::Error)?;
        }
        Ok(())
    }

    fn trial(
        &mut self,
        at: usize,
        round: usize,
        position: usize,
        observer: &mut impl Observer,
    ) -> Result<(), Stopped> {
        let trial = match self.runner.run(&self.cases[at]) {
            Ok(trial) => trial,
            Err(TrialError::Interrupted(signal)) => return Err(Stopped::Signal(signal)),
            Err(TrialError::NotRun(not_run)) => {
                // It was allowed in the pilot: huge pages may have run short.
                // The round goes without it.
                let name = &self.cases[at].name;
                let later = self.refused_later.entry(name.clone()).or_default();
                later.0 += 1;
                later.1 = not_run.reason;
                return Ok(());
            }
            Err(error) => {
                let error = error.into_failure();
                return self.failed(at, &format!("round {round}"), error, observer);
            }
        };
        let own_processors = match self.cases[at].cpus {
            Some((writer, reader)) => writer != reader,
            None => self.own_processors,
        };
        let case = &mut self.run.cases[at];
        note_setup(&mut case.configuration, &trial);
        if let Some(mut sample) = sample_of(&trial, round, position, own_processors) {
            let timed = self.cases[at].volume_bytes.is_none();
            // A pass over a block of memory is never cut short.
            let passes = |block: &MemorySpec| sample.bytes > block.block_bytes as u64;
            if timed
                && sample.seconds > OVERLONG * self.run.settings.timed_s
                && self.cases[at].subject.memory().is_none_or(passes)
            {
                sample.flags.push(Flag::Overlong);
            }
            case.samples.push(sample);
        }
        self.noise.push(trial.noise);
        Ok(())
    }

    /// Ends the run: what was measured, and why no more was.
    pub fn finish(mut self, stopped: Option<&Stopped>) -> Run {
        self.run.interrupted = stopped.map(Stopped::reason);
        self.summarise();
        self.run.warnings.extend(warnings::of_noise(&self.noise));
        self.run.header.machine.during = NoiseDelta::overall(&self.noise);
        let refused = std::mem::take(&mut self.refused_later);
        let refused = refused.into_iter().map(|(case, (trials, reason))| Warning {
            kind: WarningKind::Configuration,
            case: Some(case),
            message: format!(
                "refused in {trials} trials after the pilot, which are missing: {reason}"
            ),
        });
        self.run.warnings.extend(refused);
        let failed = self.failure_warnings();
        self.run.warnings.extend(failed);
        self.run
            .warnings
            .extend(disturbances::too_few_rounds(&self.run));
        let more = disturbances::of_samples(&self.run);
        self.run.warnings.extend(more);
        self.run
    }

    fn summarise(&mut self) {
        let confidence = self.run.settings.confidence;
        for case in &mut self.run.cases {
            case.summary = summary(&case.samples, confidence, case.configuration.message_bytes);
            let per_call = |end: fn(&Sample) -> Option<&EndCounters>| {
                let ends = || case.samples.iter().filter_map(end);
                let calls: u64 = ends().map(|end| end.moving_calls).sum();
                let bytes: u64 = ends().map(|end| end.bytes).sum();
                (calls > 0).then(|| bytes as f64 / calls as f64)
            };
            case.configuration.writer_bytes_per_call = per_call(|s| s.writer.as_ref());
            case.configuration.reader_bytes_per_call = per_call(|s| s.reader.as_ref());
        }
        comparisons::compare(&mut self.run);
    }
}

fn unmeasured(case: &Case, refused: &BTreeMap<String, String>) -> CaseResult {
    let (compared_with, factor) = case.compared_with.clone().unzip();
    CaseResult {
        name: case.name.clone(),
        description: case.description.clone(),
        data: case.data,
        configuration: case.configuration(),
        not_run: refused.get(&case.name).map(NotRun::refused),
        verified_bytes: None,
        samples: Vec::new(),
        summary: None,
        compared_with,
        factor,
        ratio: None,
    }
}

fn note_setup(configuration: &mut Configuration, trial: &Trial) {
    configuration.buffers = trial.setup.pieces;
    configuration.alignment = trial.setup.alignment;
    configuration.ring_bytes = trial.setup.ring_bytes;
    configuration.huge_bytes = trial.setup.huge_bytes;
    configuration
        .huge_shown_by
        .clone_from(&trial.setup.huge_shown_by);
    let granted = &trial.granted;
    configuration.pipe_bytes = granted.pipe_bytes;
    configuration.send_buffer_bytes = granted.send_buffer_bytes;
    configuration.receive_buffer_bytes = granted.receive_buffer_bytes;
    configuration.nodelay = granted.nodelay;
    configuration.queue_messages = granted.queue_messages;
    if let Some(told) = trial.writer.as_ref().and_then(|end| end.zerocopy) {
        let add = |sum: &mut Option<u64>, more| *sum = Some(sum.unwrap_or(0) + more);
        add(&mut configuration.zerocopy_sends, told.completed);
        add(&mut configuration.zerocopy_copied, told.copied);
    }
    configuration.slots = granted
        .pipe_bytes
        .map(|bytes| bytes / fastpipe::pipe::page_size());
}
