//! One trial of round trips.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use super::channels::{self, Connection};
use super::deadlock::{HANG_TIMEOUT, Watcher};
use super::spec::{RoundTripOutcome, Spec};
use crate::endpoint::counters::run_delay_s;
pub use crate::failure::TrialError;
use crate::record::ReadSleep;
use crate::session::{Session, with_noise};
use crate::spec::ProcessRole;
use pipespeed_base::interrupt::Interrupt;
use pipespeed_host::{NoiseDelta, NoiseProbe};

/// Runs trials of round trips in real processes.
#[derive(Debug)]
pub struct Trials {
    /// The program to start with the hidden subcommand: this one.
    pub program: PathBuf,
    /// The sender's processor, and the echo's.
    pub cpus: [Option<usize>; 2],
    /// The minimum duration of a deadlock.
    pub limit: Duration,
    /// Reads what the kernel shows of the processes.
    pub read_sleep: ReadSleep,
    /// The signals that interrupt a run.
    pub interrupt: Interrupt,
    /// The probe for disturbances.
    pub noise: NoiseProbe,
}

/// Result of one trial.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// What the sender measured.
    pub outcome: RoundTripOutcome,
    /// How long each process waited for its processor, in seconds: the sender in the
    /// timed part, the echo from the start on.
    pub waited_s: [Option<f64>; 2],
    /// Disturbances during the trial.
    pub noise: NoiseDelta,
}

impl Trials {
    /// Runs one trial and reaps both processes.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn run(&self, spec: &Spec) -> Result<Measured, TrialError> {
        let ((outcome, echo_waited_s), noise) =
            with_noise(&self.noise, self.cpus, || self.exchange(spec))?;
        Ok(Measured {
            noise,
            waited_s: [outcome.run_delay_s, echo_waited_s],
            outcome,
        })
    }

    /// Runs both processes and reaps them. Returns the sender's outcome, and the
    /// seconds for which the echo waited for its processor.
    fn exchange(&self, spec: &Spec) -> Result<(RoundTripOutcome, Option<f64>), TrialError> {
        let Connection {
            sender,
            echo,
            capacity,
        } = channels::open(spec.channel, spec.size, spec.pipe_bytes)?;
        let mut session: Session<'_, (), RoundTripOutcome> =
            Session::new(&self.program, &self.interrupt, HANG_TIMEOUT)?;
        // The ends are dropped here: only the processes hold them, so a process that
        // exits closes its own.
        for (role, ends) in [(ProcessRole::Sender, sender), (ProcessRole::Echo, echo)] {
            let fds: Vec<BorrowedFd<'_>> = ends.iter().map(AsFd::as_fd).collect();
            session.spawn(role, self.cpus[role.index()], None, spec, &fds)?;
        }
        session.wait_ready()?;
        let pids = session.pids().try_into().ok().context("two processes")?;
        let [_, echo] = pids;
        let waited_before = run_delay_s(echo);
        session.start()?;
        let mut watcher = Watcher::new(pids, spec, (self.limit, self.read_sleep), capacity);
        let outcomes = session.collect(Some(&mut watcher))?.into_iter();
        let (_, outcome) = outcomes.last().context("no outcome")?;
        // Readable until the process is reaped.
        let waited = run_delay_s(echo).zip(waited_before);
        Ok((outcome, waited.map(|(now, then)| now - then)))
    }
}
