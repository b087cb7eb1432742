//! A profile of somebody's own pipeline: run once, from its start to its end or
//! for a time, with every stage and what it starts sampled.
//!
//! `split.rs` takes the command line apart, `process.rs` starts a stage and says
//! what it used, `watch.rs` looks at it meanwhile, `volume.rs` tells how much went
//! through the pipes, `running.rs` holds it all together, `finish.rs` makes a
//! record of it.

mod account;
mod finish;
pub mod process;
mod running;
pub mod split;
mod watch;

use std::time::Duration;

use anyhow::Context;

pub use self::finish::in_short;
pub use self::running::PHASE_MS;
use self::running::Running;
pub use self::watch::{INPUT, OUTPUT};
use super::perf::Sampling;
use super::record::PipelineProfile;
use pipespeed_base::interrupt::Interrupt;

/// A command line that is a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// As it was given.
    pub text: String,
    stages: Vec<Stage>,
}

/// One of its commands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    text: String,
    /// The program and its arguments.
    words: Vec<String>,
}

impl Pipeline {
    /// One word is a pipeline for sh; several are a program and its arguments,
    /// as they are.
    ///
    /// # Errors
    /// Why that is no pipeline.
    pub fn new(words: &[String]) -> Result<Self, split::BadCommand> {
        if let [text] = words {
            let stage = |text: String| Stage {
                words: vec!["sh".to_owned(), "-c".to_owned(), split::for_shell(&text)],
                text,
            };
            return Ok(Pipeline {
                text: text.trim().to_owned(),
                stages: split::stages(text)?.into_iter().map(stage).collect(),
            });
        }
        let text = words.join(" ");
        let only = Stage {
            text: text.clone(),
            words: words.to_vec(),
        };
        if words.first().is_none_or(String::is_empty) {
            Err(split::BadCommand::Empty)
        } else {
            Ok(Pipeline {
                text,
                stages: vec![only],
            })
        }
    }
}

/// Runs a pipeline, for `limit` at most, and samples it.
///
/// # Errors
/// Those of starting and watching it. A refusal to sample is a
/// [`SamplingError`](super::perf::SamplingError).
pub fn profile(
    pipeline: &Pipeline,
    sampling: &Sampling,
    cpus: &[usize],
    limit: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<PipelineProfile> {
    let mut running = Running::start(pipeline, sampling, cpus)?;
    let ran = running.run(limit, interrupt).context("the pipeline")?;
    Ok(finish::record(pipeline, ran, &sampling.symbols))
}
