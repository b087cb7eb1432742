//! Is `fastpipe::ring` as fast as a bare ring in C?
//!
//! `cargo bench -p pipespeed --bench ring [-- --rounds N --piece BYTES --capacity BYTES CASE...]`
//!
//! Each round runs each case twice, by `fastpipe::ring` and by `ring.c`, in an
//! order that alternates: two processes on the same two processors, the same
//! sizes, every byte produced (memset) and consumed (summed up as words), with
//! the same warm-up and timed part. Printed is the ratio by round, ours over C,
//! with its interval. Adaptive waiting is compared with a C ring that spins.
//! Needs a C compiler, `cc` or `$CC`.

mod end;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use pipespeed_base::memory_file;
use pipespeed_host::Root;
use pipespeed_host::placement::{Placement, choose};
use pipespeed_host::topology::Topology;
use pipespeed_measure::record::GIB;
use pipespeed_report as report;
use pipespeed_stats as stats;

const WARM_UP_MS: u32 = 15;
const TIMED_MS: u32 = 150;

/// Name, how bytes get in and out, how ours waits, how C's waits.
const CASES: [(&str, &str, &str, &str); 5] = [
    ("in-place-spin", "place", "spin", "spin"),
    ("in-place-adaptive", "place", "adaptive", "spin"),
    ("in-place-block", "place", "block", "block"),
    ("copied-spin", "copy", "spin", "spin"),
    ("copied-block", "copy", "block", "block"),
];

struct Options {
    rounds: usize,
    piece: usize,
    capacity: usize,
    names: Vec<String>,
}

/// The processors of the two ends.
type Processors = (Option<usize>, Option<usize>);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let done = match arguments.get(1).map(String::as_str) {
        Some(role @ ("produce" | "consume")) => end::run(role, &arguments[2..]),
        _ => run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ring: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let options = options()?;
    let directory = tempfile::tempdir()?;
    let Some(bare) = compile(directory.path())? else {
        println!("skipped: no C compiler: install one, or set CC");
        return Ok(());
    };
    let own = std::env::current_exe()?;
    let chosen = choose(Placement::Different, &Topology::read(&Root::default()))?;
    let processors = (chosen.writer, chosen.reader);
    let cases: Vec<_> = CASES
        .into_iter()
        .filter(|case| options.names.is_empty() || options.names.iter().any(|n| n == case.0))
        .collect();
    let mut ours = vec![Vec::new(); cases.len()];
    let mut theirs = vec![Vec::new(); cases.len()];
    for round in 0..options.rounds {
        for (at, (_, how, our_wait, c_wait)) in cases.iter().enumerate() {
            for turn in 0..2 {
                let (program, wait, rates) = match (round + at + turn) % 2 {
                    0 => (&own, our_wait, &mut ours[at]),
                    _ => (&bare, c_wait, &mut theirs[at]),
                };
                let rate = trial(program, *program == own, how, wait, &options, processors)?;
                rates.push((round, rate));
            }
        }
        eprint!("\rround {} of {}", round + 1, options.rounds);
    }
    eprintln!();
    println!(
        "{:22} {:>12} {:>12}  fastpipe::ring / C",
        "case", "ours", "C, GiB/s"
    );
    let ratios: Vec<Vec<f64>> = ours
        .iter()
        .zip(&theirs)
        .map(|(ours, theirs)| stats::paired_ratios(ours, theirs))
        .collect();
    for (at, ratio) in stats::holm_ratios(&ratios, 0.95).into_iter().enumerate() {
        let Some(ratio) = ratio else { continue };
        println!(
            "{:22} {:>12} {:>12}  {} {} {}",
            cases[at].0,
            median(&ours[at]),
            median(&theirs[at]),
            report::times(ratio.estimate.median),
            report::ratio_interval(ratio.estimate.interval),
            ratio.verdict.name()
        );
    }
    println!(
        "pieces of {} bytes, capacity {} bytes; {} rounds, paired; intervals 95 % over all cases \
         together (Holm)",
        options.piece, options.capacity, options.rounds
    );
    Ok(())
}

fn median(rates: &[(usize, f64)]) -> String {
    let rates: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    stats::median(&rates).map_or_else(String::new, report::significant)
}

fn options() -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: 20,
        piece: 64 << 10,
        capacity: 1 << 20,
        names: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> anyhow::Result<usize> {
            let value = words.next().with_context(|| format!("{word} N"))?;
            Ok(value.parse()?)
        };
        match word.as_str() {
            // Cargo says it to every benchmark.
            "--bench" => {}
            "--rounds" => options.rounds = number()?,
            "--piece" => options.piece = number()?,
            "--capacity" => options.capacity = number()?,
            _ => options.names.push(word),
        }
    }
    ensure!(
        options.piece.is_multiple_of(64) && options.piece > 0,
        "--piece: a multiple of 64"
    );
    ensure!(
        options.capacity.is_power_of_two() && options.piece <= options.capacity / 2,
        "--capacity: a power of two, of two pieces or more"
    );
    ensure!(
        options.capacity.is_multiple_of(options.piece),
        "--piece: a divisor of the capacity, for the ring in C"
    );
    Ok(options)
}

fn compile(directory: &Path) -> anyhow::Result<Option<PathBuf>> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let program = directory.join("ring");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ring/ring.c");
    match Command::new(&compiler)
        .args(["-O3", "-Wall", "-o"])
        .arg(&program)
        .arg(source)
        .status()
    {
        Ok(status) => {
            ensure!(status.success(), "{} failed on ring.c", compiler.display());
            Ok(Some(program))
        }
        Err(_) => Ok(None),
    }
}

/// The memory for both ends: a ring of ours, or what the C program takes.
fn memory(ours: bool, capacity: usize) -> anyhow::Result<(OwnedFd, OwnedFd)> {
    if ours {
        let (producer, consumer) = fastpipe::ring::pair(capacity)?;
        return Ok((producer.into_fd()?, consumer.into_fd()?));
    }
    let file = memory_file::create("ring")?;
    let len = (fastpipe::pipe::page_size() + capacity) as u64;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len)?;
    Ok((file.try_clone()?.into(), file.into()))
}

/// GiB/s, by the consumer's clock.
fn trial(
    program: &Path,
    ours: bool,
    how: &str,
    wait: &str,
    options: &Options,
    processors: Processors,
) -> anyhow::Result<f64> {
    let (to_produce, to_consume) = memory(ours, options.capacity)?;
    let command = |role: &str, cpu: Option<usize>| {
        let mut command = Command::new(program);
        command
            .args([role, how, wait])
            .arg(options.piece.to_string())
            .arg(options.capacity.to_string())
            .arg(cpu.map_or(-1, |cpu| cpu as i64).to_string())
            .arg(WARM_UP_MS.to_string())
            .arg(TIMED_MS.to_string());
        command
    };
    let mut producer = command("produce", processors.0).stdin(to_produce).spawn()?;
    let output = command("consume", processors.1)
        .stdin(to_consume)
        .stderr(Stdio::inherit())
        .output();
    producer.kill()?;
    producer.wait()?;
    let output = output?;
    ensure!(
        output.status.success(),
        "the consumer failed ({how} {wait})"
    );
    let text = String::from_utf8(output.stdout)?;
    let (bytes, nanoseconds) = text.trim().split_once(' ').context("no result")?;
    Ok(bytes.parse::<f64>()? / GIB / (nanoseconds.parse::<f64>()? / 1e9))
}
