//! What the benchmarks of writers share.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use fastpipe::pipe;
use pipespeed_host::Root;
use pipespeed_host::placement::{Placement, choose};
use pipespeed_host::topology::Topology;
use pipespeed_stats as stats;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The writer's processor and the reader's.
pub type Processors = (Option<usize>, Option<usize>);

/// Different ones, chosen as everywhere.
pub fn processors() -> anyhow::Result<Processors> {
    let chosen = choose(Placement::Different, &Topology::read(&Root::default()))?;
    Ok((chosen.writer, chosen.reader))
}

/// `--rounds N` of the command line.
pub fn rounds() -> anyhow::Result<usize> {
    // cargo bench adds --bench.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    match words.next().as_deref() {
        None => Ok(30),
        Some("--rounds") => Ok(words.next().context("--rounds N")?.parse()?),
        Some(other) => anyhow::bail!("unknown: {other}"),
    }
}

fn stay_on(cpu: Option<usize>) -> anyhow::Result<()> {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set)?;
    }
    Ok(())
}

/// A pipe's write end, whose other end `pipespeed read` reads. This process
/// stays on its processor from now on.
pub fn reader(cpus: Processors) -> anyhow::Result<(OwnedFd, Child)> {
    let (from, to) = pipe::create()?;
    stay_on(cpus.1)?;
    let reader = Command::new(env!("CARGO_BIN_EXE_pipespeed"))
        .arg("read")
        .stdin(from)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    stay_on(cpus.0)?;
    Ok((to, reader))
}

/// The median and its 95 % interval.
pub fn summary(values: &[f64]) -> anyhow::Result<String> {
    let median = stats::median(values).context("no rounds")?;
    let interval = stats::median_interval(values, 0.95).context("too few rounds")?;
    Ok(format!(
        "{median:5.2} [{:5.2}, {:5.2}]",
        interval.low, interval.high
    ))
}
