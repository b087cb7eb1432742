//! Profiles of a user's command: it is run once, to completion or for a limited time, and all
//! its processes are sampled. Nothing of the command line is parsed: the processes' pipes show
//! which stages there are.
//!
//! `running` runs the command, `members` observes its processes, each a `member`, `status` how one ended,
//! `stages` finds out which are stages, `record` makes the record.

mod member;
mod members;
mod record;
mod running;
mod stages;
mod status;
mod usage;

use std::time::Duration;

use anyhow::Context;

pub use self::running::{PHASE_MS, StartedCommand};
use super::perf::Sampling;
use super::record::PipelineProfile;
use pipespeed_base::failure::Interrupted;
use pipespeed_base::interrupt::Interrupt;
use pipespeed_pipeline::proc::pipe_probe::PipeProbe;
use pipespeed_pipeline::terminate::Survivor;

/// A command that was profiled.
#[derive(Debug)]
pub struct PipelineRun {
    /// Where its time went.
    pub profile: PipelineProfile,
    /// The signal that interrupted it.
    pub interrupted: Option<Interrupted>,
    /// Its processes that could not be ended.
    pub survivors: Vec<Survivor>,
}

/// Runs a command for at most `limit`, and samples it unless that is refused. `start` starts it, without a terminal
/// as standard output; this process must adopt its orphans
/// (PR_SET_CHILD_SUBREAPER). `pipe_probe` reads the command lines of the stages.
///
/// # Errors
/// Errors of starting and observing it. A refusal to sample is a
/// [`SamplingError`](super::perf::SamplingError).
pub fn profile(
    command: &str,
    sampling: Option<&Sampling>,
    cpus: &[usize],
    limit: Duration,
    interrupt: &Interrupt,
    pipe_probe: PipeProbe,
    start: impl FnOnce() -> anyhow::Result<StartedCommand>,
) -> anyhow::Result<PipelineRun> {
    let running = running::start(sampling, cpus, pipe_probe, start)?;
    let ran = running.run(limit, interrupt).context("the pipeline")?;
    Ok(PipelineRun {
        interrupted: ran.interrupted.map(Interrupted),
        survivors: ran.survivors.clone(),
        profile: record::record(command, ran, sampling),
    })
}
