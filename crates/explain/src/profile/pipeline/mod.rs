//! Profiles of a user's pipeline: it is run once, to completion or for a limited time, and
//! each stage is sampled with all processes that it starts.
//!
//! `split` parses the command line, `process` starts and reaps a stage, `watch`
//! observes it in /proc, `running` runs the pipeline, `finish` makes the record.

mod account;
mod finish;
pub mod process;
mod running;
pub mod split;
mod watch;

use std::time::Duration;

use anyhow::Context;

pub use self::running::PHASE_MS;
use self::running::Running;
pub use self::watch::{INPUT, OUTPUT};
use super::perf::Sampling;
use super::record::PipelineProfile;
use pipespeed_base::failure::Interrupted;
use pipespeed_base::interrupt::Interrupt;

/// A pipeline to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// The command line.
    pub text: String,
    stages: Vec<Stage>,
}

/// One command of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    text: String,
    /// The program and its arguments.
    words: Vec<String>,
    /// Whether the words start a shell that is replaced by another program.
    replaces_shell: bool,
}

impl Stage {
    /// A command for sh. A plain program replaces the shell, so that the observed
    /// process is the program itself.
    fn in_shell(text: String) -> Self {
        let is_program = split::is_program(&text);
        let exec = if is_program { "exec " } else { "" };
        Stage {
            words: ["sh", "-c", &format!("{exec}{text}")]
                .map(str::to_owned)
                .to_vec(),
            replaces_shell: is_program && split::first_word(&text) != "sh",
            text,
        }
    }
}

impl Pipeline {
    /// Parses the arguments of the command: one word is a pipeline for sh, several are a
    /// program and its arguments.
    ///
    /// # Errors
    /// The text is not a pipeline.
    pub fn new(words: &[String]) -> Result<Self, split::BadCommand> {
        let text = words.join(" ").trim().to_owned();
        let stages = match words {
            [] => return Err(split::BadCommand::Empty),
            [text] => {
                let stages = split::stages(text)?.into_iter();
                stages.map(Stage::in_shell).collect()
            }
            [program, ..] if program.is_empty() => return Err(split::BadCommand::Empty),
            _ => vec![Stage {
                text: text.clone(),
                words: words.to_vec(),
                replaces_shell: false,
            }],
        };
        Ok(Pipeline { text, stages })
    }
}

/// Runs a pipeline for at most `limit`, and samples it. Also returns the signal that
/// interrupted it, if any.
///
/// # Errors
/// Errors of starting and observing it. A refusal to sample is a
/// [`SamplingError`](super::perf::SamplingError).
pub fn profile(
    pipeline: &Pipeline,
    sampling: &Sampling,
    cpus: &[usize],
    limit: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<(PipelineProfile, Option<Interrupted>)> {
    let mut running = Running::start(pipeline, sampling, cpus)?;
    let ran = running.run(limit, interrupt).context("the pipeline")?;
    let interrupted = ran.interrupted.map(Interrupted);
    Ok((finish::record(pipeline, ran, sampling), interrupted))
}
