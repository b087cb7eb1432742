//! How long does the command take to start?
//!
//! `cargo bench -p pipespeed --bench startup`
//!
//! Spawns `pipespeed --version` and `/bin/true` in turns, and prints the median
//! time from spawning to reaping of each, with intervals.

use std::process::{Command, Stdio};
use std::time::Instant;

use pipespeed_stats as stats;

const ROUNDS: usize = 200;

fn main() -> std::io::Result<()> {
    let mut ours = Vec::new();
    let mut nothing = Vec::new();
    for _ in 0..ROUNDS {
        ours.push(spawn(env!("CARGO_BIN_EXE_pipespeed"), &["--version"])?);
        nothing.push(spawn("/bin/true", &[])?);
    }
    for (name, times) in [("pipespeed --version", ours), ("/bin/true", nothing)] {
        if let (Some(median), Some(interval)) =
            (stats::median(&times), stats::median_interval(&times, 0.95))
        {
            println!(
                "{name:20} {median:.2} ms [{:.2}, {:.2}]",
                interval.low, interval.high
            );
        }
    }
    Ok(())
}

/// Milliseconds.
fn spawn(program: &str, arguments: &[&str]) -> std::io::Result<f64> {
    let started = Instant::now();
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
