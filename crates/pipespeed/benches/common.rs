//! What the benchmarks of the method share: a runner of real trials on two
//! processors.

use std::path::PathBuf;

use pipespeed_base::interrupt::Interrupt;
use pipespeed_host::Root;
use pipespeed_host::placement::{Chosen, Placement, choose};
use pipespeed_host::topology::Topology;
use pipespeed_measure::spec::Durations;
use pipespeed_measure::trial::ProcessRunner;

/// The runner, and the processors it uses.
pub fn runner(durations: Durations) -> anyhow::Result<(ProcessRunner, Chosen)> {
    let chosen = choose(Placement::Different, &Topology::read(&Root::default()))?;
    let runner = ProcessRunner::new(
        PathBuf::from(env!("CARGO_BIN_EXE_pipespeed")),
        chosen.writer,
        chosen.reader,
        durations,
        Interrupt::never()?,
    );
    Ok((runner, chosen))
}
