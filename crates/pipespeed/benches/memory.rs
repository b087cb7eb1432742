//! Memory read and written 8 bytes at a time, beside `sysbench memory`.
//!
//! `cargo bench -p pipespeed --bench memory [-- --rounds N] [--block SIZE]`
//!
//! In turns, on the same processor, so that what the machine does meanwhile
//! meets both. sysbench goes over a block of malloc's memory a word at a time
//! (src/tests/memory/sb_memory.c, --memory-access-mode=seq) and tells MiB of
//! 2^20 bytes a second over the whole volume; ours is the suite memory's scalar
//! case with a block as large, in pages of the kind that malloc gets here.

#[path = "common.rs"]
mod common;

use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail, ensure};
use pipespeed_base::size;
use pipespeed_host::{Machine, MemoryInfo};
use pipespeed_measure::record::GIB;
use pipespeed_measure::spec::{Act, Case, Durations, MemorySpec, PageKind, Subject};
use pipespeed_measure::trial::Runner;
use pipespeed_stats as stats;

const DURATIONS: Durations = Durations {
    warm_up_s: 0.010,
    timed_s: 0.150,
};

/// sysbench goes over so many blocks.
const BLOCKS: u64 = 4;

/// How far from sysbench the ratio may lie.
const BAR: f64 = 0.15;

/// What both do, as sysbench calls it.
const OPERATIONS: [(&str, Act); 2] = [("read", Act::ReadScalar), ("write", Act::WriteScalar)];

struct Options {
    rounds: usize,
    block: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memory: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let options = options()?;
    let (mut runner, chosen) = common::runner(DURATIONS)?;
    let cpu = chosen.writer;
    if let Err(error) = sysbench("read", options.block, cpu) {
        eprintln!("skipped: sysbench memory under taskset can't be run here: {error:#}");
        return Ok(());
    }
    let pages = pages_of_malloc(&Machine::read(cpu, None).memory);
    let mut ours = |act: Act| -> anyhow::Result<f64> {
        let spec = MemorySpec {
            act,
            block_bytes: options.block,
            pages,
        };
        let case = Case::with_subject("scalar", Subject::Memory(spec));
        let trial = runner.run(&case).map_err(|error| anyhow!("{error}"))?;
        let counters = trial.writer.context("nothing was measured")?.counters;
        Ok(counters.bytes as f64 / GIB / counters.seconds)
    };
    let mut rates = [(); 2].map(|()| (Vec::new(), Vec::new()));
    for round in 0..options.rounds {
        for ((oper, act), (our, their)) in OPERATIONS.iter().zip(&mut rates) {
            // Each comes first as often as the other.
            let (a, b) = match round % 2 {
                0 => {
                    let first = ours(*act)?;
                    (first, sysbench(oper, options.block, cpu)?)
                }
                _ => {
                    let first = sysbench(oper, options.block, cpu)?;
                    (ours(*act)?, first)
                }
            };
            our.push((round, a));
            their.push((round, b));
        }
        eprint!("\rround {} of {}", round + 1, options.rounds);
    }
    eprintln!();
    println!(
        "blocks of {} in {} pages, GiB/s, {} rounds",
        size::format(options.block as u64),
        pages.name(),
        options.rounds
    );
    for ((oper, _), (our, their)) in OPERATIONS.iter().zip(&rates) {
        compare(oper, our, their);
    }
    Ok(())
}

fn compare(oper: &str, ours: &[(usize, f64)], sysbenchs: &[(usize, f64)]) {
    let centre = |samples: &[(usize, f64)]| {
        let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
        stats::median(&values).unwrap_or(f64::NAN)
    };
    let paired = stats::paired_ratios(ours, sysbenchs);
    let median = stats::median(&paired).unwrap_or(f64::NAN);
    let (shown, met) = match stats::median_interval(&paired, 0.95) {
        Some(interval) => (
            format!(" [{:.3}, {:.3}]", interval.low, interval.high),
            interval.low >= 1.0 - BAR && interval.high <= 1.0 + BAR,
        ),
        None => (" (too few rounds for an interval)".to_owned(), false),
    };
    println!(
        "{oper:5}  pipespeed {:5.1}  sysbench {:5.1}  paired ratio x{median:.3}{shown}  within {:.0} %: {}",
        centre(ours),
        centre(sysbenchs),
        BAR * 100.0,
        if met { "yes" } else { "not shown" }
    );
}

/// GiB/s, by sysbench.
fn sysbench(oper: &str, block: usize, cpu: Option<usize>) -> anyhow::Result<f64> {
    let mut command = match cpu {
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), "sysbench"]);
            command
        }
        None => Command::new("sysbench"),
    };
    let volume = block as u64 * BLOCKS;
    let out = command
        .args(["memory", "--threads=1", "--time=0"])
        .args(["--memory-access-mode=seq", "--memory-scope=local"])
        .arg(format!("--memory-oper={oper}"))
        .arg(format!("--memory-block-size={block}"))
        .arg(format!("--memory-total-size={volume}"))
        .arg("run")
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    ensure!(out.status.success(), "{}: {text}", out.status);
    // "4096.00 MiB transferred (24933.94 MiB/sec)"
    let rate = text
        .split_once("MiB transferred (")
        .and_then(|(_, rest)| rest.split_once(" MiB/sec)"))
        .and_then(|(rate, _)| rate.parse::<f64>().ok());
    Ok(rate.with_context(|| format!("no rate in {text}"))? / 1024.0)
}

/// Huge where the kernel gives them to everybody, unasked.
fn pages_of_malloc(memory: &MemoryInfo) -> PageKind {
    let enabled = memory
        .transparent
        .as_ref()
        .and_then(|t| t.enabled.as_deref());
    match enabled {
        Some("always") => PageKind::Huge,
        _ => PageKind::Base,
    }
}

fn options() -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: 15,
        block: 1 << 30,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word}: a value is missing"))
        };
        match word.as_str() {
            "--bench" => {}
            "--rounds" => options.rounds = value()?.parse()?,
            "--block" => options.block = size::parse(&value()?).map_err(|e| anyhow!("{e}"))?,
            _ => bail!("unknown option {word}"),
        }
    }
    Ok(options)
}
