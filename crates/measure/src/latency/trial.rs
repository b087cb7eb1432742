//! One trial of round trips.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Context;

use super::channels::{self, Connection};
use super::deadlock::{HANG_TIMEOUT, Watcher};
use super::spec::{RoundTripOutcome, Spec};
use crate::endpoint::counters::run_delay_s;
use crate::failure::TrialError;
use crate::record::ReadSleep;
use crate::session::{Session, with_noise};
use crate::spec::ProcessRole;
use crate::trial::ProcessRunner;
use pipespeed_host::NoiseDelta;

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

impl ProcessRunner {
    /// Runs one trial of round trips and reaps both processes. A deadlock ends it once it has
    /// lasted for `limit`; `read_sleep` reads what the kernel shows of the processes.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn run_round_trips(
        &self,
        spec: &Spec,
        limit: Duration,
        read_sleep: ReadSleep,
    ) -> Result<Measured, TrialError> {
        let exchange = || self.exchange_messages(spec, limit, read_sleep);
        let ((outcome, echo_waited_s), noise) = with_noise(&self.noise, self.cpus, exchange)?;
        Ok(Measured {
            noise,
            waited_s: [outcome.run_delay_s, echo_waited_s],
            outcome,
        })
    }

    /// Runs both processes and reaps them. Returns the sender's outcome, and the
    /// seconds for which the echo waited for its processor.
    fn exchange_messages(
        &self,
        spec: &Spec,
        limit: Duration,
        read_sleep: ReadSleep,
    ) -> Result<(RoundTripOutcome, Option<f64>), TrialError> {
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
        let mut watcher = Watcher::new(pids, spec, (limit, read_sleep), capacity);
        let outcomes = session.collect(Some(&mut watcher))?.into_iter();
        let (_, outcome) = outcomes.last().context("no outcome")?;
        // Readable until the process is reaped.
        let waited = run_delay_s(echo).zip(waited_before);
        Ok((outcome, waited.map(|(now, then)| now - then)))
    }
}
