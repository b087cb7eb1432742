//! Round trips beside those of `perf bench sched pipe`, both processes on one
//! processor.
//!
//! `cargo bench -p pipespeed --bench latency [-- --rounds N] [--count N] [--cpu N]`
//!
//! In turns, so that what the machine does meanwhile meets both. perf tells the
//! mean time of a round trip (tools/perf/bench/sched-pipe.c: one int there and
//! back through two pipes, between two processes), so means are compared; ours
//! is the time of a launch over its round trips.

mod options;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use pipespeed_stats as stats;
use serde_json::Value;

struct Options {
    rounds: usize,
    count: u64,
    cpu: usize,
}

fn main() -> ExitCode {
    options::exit_code("latency", run())
}

fn run() -> anyhow::Result<()> {
    let options = asked_for()?;
    if let Err(error) = perf(&options) {
        eprintln!("skipped: perf bench sched pipe under taskset can't be run here: {error:#}");
        return Ok(());
    }
    let (mut ours_us, mut perfs_us) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        // Each comes first as often as the other.
        let (ours, perfs) = match round % 2 {
            0 => {
                let ours = ours(&options)?;
                (ours, perf(&options)?)
            }
            _ => {
                let perfs = perf(&options)?;
                (ours(&options)?, perfs)
            }
        };
        ours_us.push((round, ours));
        perfs_us.push((round, perfs));
        eprint!("\rround {} of {}", round + 1, options.rounds);
    }
    eprintln!();
    let centre = |samples: &[(usize, f64)]| {
        let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
        stats::median(&values).unwrap_or(f64::NAN)
    };
    println!(
        "pipespeed latency pipe --size 4: {:.2} us a round trip",
        centre(&ours_us)
    );
    println!(
        "perf bench sched pipe:           {:.2} us a round trip",
        centre(&perfs_us)
    );
    let paired = stats::paired_ratios(&ours_us, &perfs_us);
    let median = stats::median(&paired).unwrap_or(f64::NAN);
    match stats::median_interval(&paired, 0.95) {
        Some(interval) => println!(
            "paired ratio: x{median:.3} [{:.3}, {:.3}] ({} rounds)",
            interval.low, interval.high, options.rounds
        ),
        None => println!("paired ratio: x{median:.3} (too few rounds for an interval)"),
    }
    Ok(())
}

/// Microseconds of a round trip, by perf.
fn perf(options: &Options) -> anyhow::Result<f64> {
    let out = Command::new("taskset")
        .args([
            "-c",
            &options.cpu.to_string(),
            "perf",
            "bench",
            "-f",
            "simple",
            "sched",
            "pipe",
        ])
        .args(["-l", &options.count.to_string()])
        .stderr(Stdio::null())
        .output()?;
    ensure!(out.status.success(), "{}", out.status);
    let text = String::from_utf8(out.stdout)?;
    let seconds: f64 = text.trim().parse().with_context(|| text.clone())?;
    Ok(seconds * 1e6 / options.count as f64)
}

/// The same by pipespeed.
fn ours(options: &Options) -> anyhow::Result<f64> {
    let cpu = options.cpu;
    let out = Command::new(env!("CARGO_BIN_EXE_pipespeed"))
        .args([
            "latency", "pipe", "--size", "4", "--rounds", "1", "-q", "--json", "-",
        ])
        .args([
            "--cpus",
            &format!("{cpu},{cpu}"),
            "--count",
            &options.count.to_string(),
        ])
        .output()?;
    ensure!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let record: Value = serde_json::from_slice(&out.stdout)?;
    let per_s = record["cases"][0]["samples"][0]["per_s"].as_f64();
    Ok(1e6 / per_s.context("no rate in the record")?)
}

fn asked_for() -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: 31,
        count: 50_000,
        cpu: 0,
    };
    options::each(|word, value| {
        match word {
            "--rounds" => options.rounds = value()?.parse()?,
            "--count" => options.count = value()?.parse()?,
            "--cpu" => options.cpu = value()?.parse()?,
            _ => bail!("unknown option {word}"),
        }
        Ok(())
    })?;
    Ok(options)
}
