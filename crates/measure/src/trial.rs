//! Runs throughput trials in real processes.
//!
//! Each trial is a new pair of processes: where the kernel places their pages
//! differs from launch to launch, so the launch is what is repeated.

use std::path::PathBuf;
use std::time::Duration;

use crate::case::{Case, Durations};
use crate::channel;
use crate::endpoint::outcome::{Outcome, Setup};
use crate::runner::{Runner, Timed, Trial, TrialError};
use crate::session::{Role, Session, with_noise};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_host::noise::{NoiseDelta, NoiseProbe};

/// A trial fails if it exceeds its planned duration by this much.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs trials in real processes.
#[derive(Debug)]
pub struct ProcessRunner {
    /// The program that knows the hidden subcommand: this one.
    program: PathBuf,
    cpus: [Option<usize>; 2],
    durations: Durations,
    interrupt: Interrupt,
    noise: NoiseProbe,
}

impl ProcessRunner {
    /// Trials whose ends stay on the processors given and last as told.
    pub fn new(
        program: PathBuf,
        writer_cpu: Option<usize>,
        reader_cpu: Option<usize>,
        durations: Durations,
        interrupt: Interrupt,
    ) -> Self {
        ProcessRunner {
            program,
            cpus: [writer_cpu, reader_cpu],
            durations,
            interrupt,
            noise: NoiseProbe::new(),
        }
    }

    /// The program of this very process, even if its file has been replaced.
    pub fn this_program() -> PathBuf {
        PathBuf::from("/proc/self/exe")
    }
}

impl Runner for ProcessRunner {
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError> {
        self.run_watched(case, &mut |_, _| Ok(()))
    }
}

impl Timed for ProcessRunner {
    fn set_durations(&mut self, durations: Durations) {
        self.durations = durations;
    }
}

impl ProcessRunner {
    /// Runs one trial of the case. `attach` is shown each end's process once
    /// both are set up, and before either starts.
    ///
    /// # Errors
    /// [`TrialError`]; an error of `attach` is its `Failed`.
    pub fn run_watched(
        &mut self,
        case: &Case,
        attach: &mut dyn FnMut(Role, u32) -> anyhow::Result<()>,
    ) -> Result<Trial, TrialError> {
        if let Some(signal) = self.interrupt.signal() {
            return Err(TrialError::Interrupted(signal));
        }
        let named = case
            .cpus
            .map(|(writer, reader)| [Some(writer), Some(reader)]);
        let cpus = named.unwrap_or(self.cpus);
        let (trial, noise) = with_noise(&self.noise, cpus, || self.exchange(case, cpus, attach))?;
        Ok(Trial { noise, ..trial })
    }

    fn exchange(
        &self,
        case: &Case,
        cpus: [Option<usize>; 2],
        attach: &mut dyn FnMut(Role, u32) -> anyhow::Result<()>,
    ) -> Result<Trial, TrialError> {
        let channel = channel::open(case)?;
        let margin_bytes = channel.granted.pipe_bytes.unwrap_or(0);
        let patience = PATIENCE + case.longest(self.durations);
        let mut session: Session<'_, Setup, Outcome> =
            Session::new(&self.program, &self.interrupt, patience)?;
        let [writer, reader] = case.specs(margin_bytes, self.durations);
        for (role, spec, end) in [
            (Role::Writer, writer, channel.write_end),
            (Role::Reader, reader, channel.read_end),
        ] {
            if let Some(spec) = spec {
                session.spawn(role, cpus[role.index()], end, &spec, &[])?;
            }
        }
        let mut setups = session.wait_ready()?.into_iter();
        let setup = setups.find(|(role, _)| *role == Role::Writer);
        session.attach(attach)?;
        session.start()?;
        let mut outcomes: [Option<Outcome>; 2] = [None, None];
        for (role, outcome) in session.collect(None)? {
            outcomes[role.index()] = Some(outcome);
        }
        session.reap()?;
        let [writer, reader] = outcomes;
        Ok(Trial {
            setup: setup.map(|(_, setup)| setup).unwrap_or_default(),
            granted: channel.granted,
            noise: NoiseDelta::default(),
            writer,
            reader,
        })
    }
}
