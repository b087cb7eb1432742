//! How long does the command take to start, and a command that it boosts?
//!
//! `cargo bench -p pipespeed --bench startup`
//!
//! Spawns each of a few commands in turns, and prints the median time from spawning to
//! reaping of each, with intervals.

use std::process::{Command, Stdio};
use std::time::Instant;

use pipespeed_stats as stats;

const ROUNDS: usize = 200;
const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");

const COMMANDS: [&[&str]; 4] = [
    &["/bin/true"],
    &[PIPESPEED, "--version"],
    &["/bin/sh", "-c", "true"],
    &[PIPESPEED, "boost", "true"],
];

fn main() -> std::io::Result<()> {
    let mut times = COMMANDS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (command, times) in COMMANDS.iter().zip(&mut times) {
            times.push(spawn(command)?);
        }
    }
    for (command, times) in COMMANDS.iter().zip(&times) {
        if let (Some(median), Some(interval)) =
            (stats::median(times), stats::median_interval(times, 0.95))
        {
            let line = command.join(" ").replace(PIPESPEED, "pipespeed");
            println!(
                "{line:20} {median:.2} ms [{:.2}, {:.2}]",
                interval.low, interval.high
            );
        }
    }
    Ok(())
}

/// Milliseconds.
fn spawn(command: &[&str]) -> std::io::Result<f64> {
    let started = Instant::now();
    Command::new(command[0])
        .args(&command[1..])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
