//! The cases of a suite, measured in rounds.

use std::collections::BTreeMap;

use super::sample::{sample_of, summary};
use super::{Rounds, RunObserver, TrialPlace, Work, disturbances};
use crate::failure::TrialError;
use crate::record::{
    CaseResult, Configuration, EndCounters, Flag, NotRun, NullControl, Run, Sample, comparisons,
};
use crate::spec::{Case, DataUse, MemorySpec};
use crate::trial::{Runner, Trial};
use pipespeed_base::failure::Interrupted;
use pipespeed_host::noise::NoiseDelta;
use pipespeed_host::{Warning, warnings};

/// A trial is flagged if its timed part exceeds the plan by this factor.
const OVERRUN_FACTOR: f64 = 2.0;

/// A run of a suite in progress.
pub type Measurement<R> = Rounds<Bench<R>>;

/// The cases of a suite.
#[derive(Debug)]
pub struct Bench<R> {
    /// The runner of later trials.
    pub runner: R,
    pub(crate) cases: Vec<Case>,
    /// The record.
    pub run: Run,
    noise: Vec<NoiseDelta>,
    /// The number of trials of the cases that don't run in every round; they are spread evenly
    /// over the rounds.
    pub limited: BTreeMap<String, usize>,
    /// Whether both ends have a processor of their own, so that waiting for
    /// one is a disturbance.
    own_processors: bool,
    /// The disturbances so far, which are among the warnings of the record.
    disturbances: Vec<Warning>,
}

impl<R: Runner> Bench<R> {
    fn new(
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
        let unmeasured = |case: &Case| CaseResult {
            not_run: refused.get(&case.name).map(NotRun::refused),
            ..unmeasured(case)
        };
        run.cases = cases.iter().map(unmeasured).collect();
        let settings = &run.settings;
        let own_processors = settings.writer_cpu.is_some()
            && settings.reader_cpu.is_some()
            && settings.writer_cpu != settings.reader_cpu;
        Bench {
            runner,
            cases,
            run,
            noise: Vec::new(),
            limited: BTreeMap::new(),
            own_processors,
            disturbances: Vec::new(),
        }
    }

    /// Takes the disturbances so far among the warnings, so that also a run that is killed has them.
    fn find_disturbances(&mut self) {
        let run = &mut self.run;
        run.header.machine.during = NoiseDelta::overall(&self.noise);
        let mut found = warnings::of_noise(&self.noise);
        found.extend(disturbances::too_few_rounds(run));
        found.extend(disturbances::of_samples(run));
        run.warnings
            .retain(|warning| !self.disturbances.contains(warning));
        run.warnings.extend_from_slice(&found);
        self.disturbances = found;
    }

    fn verify(&mut self, at: usize) -> Result<(), TrialError> {
        let case = self.cases[at].clone().with_data(DataUse::Verify);
        let trial = self.runner.run(&case)?;
        self.run.cases[at].verified_bytes = trial.reader.map(|end| end.counters.bytes);
        Ok(())
    }

    fn is_overlong(&self, case: &Case, sample: &Sample) -> bool {
        // A pass over a block of memory is never cut short.
        let passes = |block: &MemorySpec| sample.bytes > block.block_bytes as u64;
        case.volume_bytes.is_none()
            && sample.seconds > OVERRUN_FACTOR * self.run.settings.timed_s
            && case.subject.memory().is_none_or(passes)
    }
}

impl<R: Runner> Work for Bench<R> {
    type Record = Run;

    fn record(&self) -> Option<&Run> {
        self.run.has_results().then_some(&self.run)
    }

    fn names(&self) -> Vec<String> {
        self.cases.iter().map(|case| case.name.clone()).collect()
    }

    fn is_open(&self, case: usize) -> bool {
        self.run.cases[case].not_run.is_none()
    }

    fn close(&mut self, case: usize, why: NotRun) {
        self.run.cases[case].not_run = Some(why);
    }

    fn takes_part(&self, case: usize, round: usize, rounds: usize) -> bool {
        let Some(trials) = self.limited.get(&self.cases[case].name) else {
            return true;
        };
        // Evenly spread: in the middle of each of `trials` equal parts of the rounds.
        let due = |round: usize| (2 * round * trials + rounds) / (2 * rounds);
        due(round + 1) > due(round)
    }

    fn pilot(&mut self, case: usize) -> Result<(), TrialError> {
        let trial = self.runner.run(&self.cases[case].for_pilot())?;
        record_setup(&mut self.run.cases[case].configuration, &trial);
        Ok(())
    }

    fn trial(&mut self, at: usize, place: TrialPlace) -> Result<(), TrialError> {
        let trial = self.runner.run(&self.cases[at])?;
        let case = &self.cases[at];
        let own_processors = match case.cpus {
            Some((writer, reader)) => writer != reader,
            None => self.own_processors,
        };
        record_setup(&mut self.run.cases[at].configuration, &trial);
        if let Some(mut sample) = sample_of(&trial, place, own_processors) {
            if self.is_overlong(case, &sample) {
                sample.flags.push(Flag::Overlong);
            }
            if case.adapts() {
                sample.flags.retain(|flag| *flag != Flag::Drift);
            }
            self.run.cases[at].samples.push(sample);
        }
        self.noise.push(trial.noise);
        Ok(())
    }

    fn record_plan(&mut self, rounds: usize, order: String) {
        self.run.settings.rounds_planned = rounds;
        self.run.settings.order = order;
    }

    fn summarise(&mut self, complete: usize) {
        self.run.settings.rounds_done = complete;
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
        self.find_disturbances();
    }
}

impl<R: Runner> Measurement<R> {
    /// Creates a run of `cases`. `run` has everything except the cases. A case named in
    /// `refused` is not run.
    pub fn new(
        runner: R,
        cases: Vec<Case>,
        null_control: Option<&str>,
        run: Run,
        refused: &BTreeMap<String, String>,
    ) -> Self {
        let seed = run.settings.seed;
        Rounds::begin(Bench::new(runner, cases, null_control, run, refused), seed)
    }

    /// Runs each case once and verifies every byte.
    ///
    /// # Errors
    /// On a signal.
    pub fn verify(&mut self, observer: &mut impl RunObserver<Run>) -> Result<(), Interrupted> {
        let control = self.work.run.null_control.as_ref();
        let twin = control.map(|control| control.twin.clone());
        self.pass(observer, |work, case| {
            if Some(&work.cases[case].name) == twin.as_ref() {
                Ok(())
            } else {
                work.verify(case)
            }
        })
    }

    /// Sets the seconds of a trial of the cases named, estimated from the pilot.
    pub fn expect(&mut self, seconds: &BTreeMap<String, f64>) {
        for case in &mut self.work.cases {
            case.expected_s = seconds.get(&case.name).copied();
        }
    }

    /// Ends the run and returns its record. `stopped` is the error that ended it early,
    /// if any.
    pub fn finish(mut self, stopped: Option<&anyhow::Error>) -> Run {
        self.work.run.interrupted = stopped.map(|error| match error.downcast_ref() {
            Some(Interrupted(signal)) => pipespeed_base::signal_name(*signal),
            None => format!("{error:#}"),
        });
        let missing = self.missing();
        let complete = self.work.run.settings.rounds_done;
        self.work.summarise(complete);
        let mut run = self.work.run;
        run.warnings.extend(missing);
        run
    }
}

/// The result of a case without samples.
pub(crate) fn unmeasured(case: &Case) -> CaseResult {
    let (compared_with, factor) = case.compared_with.clone().unzip();
    CaseResult {
        name: case.name.clone(),
        description: case.description.clone(),
        data: case.data,
        configuration: case.configuration(),
        not_run: None,
        verified_bytes: None,
        samples: Vec::new(),
        summary: None,
        compared_with,
        factor,
        ratio: None,
    }
}

/// Records the actual setup of a trial.
fn record_setup(configuration: &mut Configuration, trial: &Trial) {
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
    configuration.slots = granted
        .pipe_bytes
        .map(|bytes| bytes / fastpipe::pipe::page_size());
}
