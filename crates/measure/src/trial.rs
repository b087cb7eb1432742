//! Runs throughput trials in real processes.
//!
//! Each trial starts a new pair of processes: the kernel places their pages differently
//! each time, so a trial must sample that too.

use std::path::PathBuf;
use std::time::Duration;

use crate::channel;
use crate::endpoint::counters::monotonic_ns;
use crate::endpoint::outcome::Outcome;
use crate::failure::TrialError;
use crate::record::{Granted, Setup};
use crate::session::{Session, with_noise};
use crate::spec::{Case, ChannelSizes, Durations, ProcessRole};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_host::noise::{NoiseDelta, NoiseProbe};

/// Runs trials.
pub trait Runner {
    /// Runs one trial of the case.
    ///
    /// # Errors
    /// [`TrialError`].
    fn run(&mut self, case: &Case) -> Result<Trial, TrialError>;
}

/// A runner whose trial durations can be set.
pub trait Timed: Runner {
    /// Sets the durations of later trials.
    fn set_durations(&mut self, durations: Durations);

    /// The time in seconds since an arbitrary start: CLOCK_MONOTONIC, or the simulated
    /// clock of a fake.
    fn now_s(&self) -> f64 {
        monotonic_ns() as f64 / 1e9
    }
}

/// The result of one trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The writer's actual setup.
    pub setup: Setup,
    /// The channel's actual sizes and settings.
    pub granted: Granted,
    /// What the writer measured.
    pub writer: Option<Outcome>,
    /// What the reader measured.
    pub reader: Option<Outcome>,
    /// Disturbances during the trial.
    pub noise: NoiseDelta,
}

/// A trial fails if it exceeds its planned duration by this much.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs trials in real processes.
#[derive(Debug)]
pub struct ProcessRunner {
    /// The program to start with the hidden subcommand: this one.
    pub(crate) program: PathBuf,
    /// Of the writer or sender, and of the reader or echo.
    pub(crate) cpus: [Option<usize>; 2],
    durations: Durations,
    pub(crate) interrupt: Interrupt,
    pub(crate) noise: NoiseProbe,
}

impl ProcessRunner {
    /// A runner that pins the ends to these processors.
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
            noise: NoiseProbe::default(),
        }
    }

    /// The path of this process's program, valid even if the file has been replaced.
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
    /// Runs one trial of the case. Calls `attach` with the role and process ID of each
    /// end when both are ready, before either starts.
    ///
    /// # Errors
    /// [`TrialError`]: `Failed` for an error of `attach`.
    pub fn run_watched(
        &mut self,
        case: &Case,
        attach: &mut dyn FnMut(ProcessRole, u32) -> anyhow::Result<()>,
    ) -> Result<Trial, TrialError> {
        self.interrupt.check()?;
        let own_cpus = case
            .cpus
            .map(|(writer, reader)| [Some(writer), Some(reader)]);
        let cpus = own_cpus.unwrap_or(self.cpus);
        let (trial, noise) = with_noise(&self.noise, cpus, || self.exchange(case, cpus, attach))?;
        Ok(Trial { noise, ..trial })
    }

    fn exchange(
        &self,
        case: &Case,
        cpus: [Option<usize>; 2],
        attach: &mut dyn FnMut(ProcessRole, u32) -> anyhow::Result<()>,
    ) -> Result<Trial, TrialError> {
        let subject = &case.subject;
        let (mut ends, mut granted) = ([None, None], Granted::default());
        if let Some(channel) = subject.channel() {
            let sizes = ChannelSizes::for_throughput(subject.buffer_bytes(), subject.pipe_bytes());
            let open = channel::open(channel, sizes)?;
            ends = [Some(open.write_end), Some(open.read_end)];
            granted = open.granted;
        }
        let margin_bytes = granted.pipe_bytes.unwrap_or(0);
        let timeout = HANG_TIMEOUT + case.longest(self.durations);
        let mut session: Session<'_, Setup, Outcome> =
            Session::new(&self.program, &self.interrupt, timeout)?;
        let spec = case.end_spec(margin_bytes, self.durations);
        for (role, end) in [ProcessRole::Writer, ProcessRole::Reader]
            .into_iter()
            .zip(ends)
        {
            if subject.has(role) {
                session.spawn(role, cpus[role.index()], end, &spec, &[])?;
            }
        }
        let mut setups = session.wait_ready()?.into_iter();
        let setup = setups.find(|(role, _)| *role == ProcessRole::Writer);
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
            granted,
            noise: NoiseDelta::default(),
            writer,
            reader,
        })
    }
}
