//! How fast are meter, fizzbuzz and yes, beside what people use instead?
//!
//! `cargo bench -p pipespeed --bench tools [-- --rounds N] [WORD...]`
//!
//! With words, only the comparisons whose name has one of them. Each runs two
//! pipelines of real processes in turns, the first one alternating, over the
//! same number of bytes (found by a pilot, so that a run takes 0.3 s or more),
//! and prints the medians and the paired ratio with 95 % intervals, beside what
//! the project aims at. Timed is from before the first process is spawned until
//! the last one was reaped.
//!
//! Programs that are not installed are left out, and named: pv, mbuffer, cat, wc and yes
//! of the system, and the uutils' yes where UU_YES says (`cargo install uu_yes
//! --root DIR`, then UU_YES=DIR/bin/yes).

mod comparisons;
mod memory;
mod pipeline;

use std::process::ExitCode;

use anyhow::Context;
use pipespeed_stats as stats;

use comparisons::Comparison;
use pipeline::{Places, Timed};

/// A pilot looks for a volume that takes so long.
const MIN_SECONDS: f64 = 0.3;

const GIB: f64 = (1u64 << 30) as f64;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(comparisons::BY_WRITE) {
        comparisons::generate_by_write();
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tools: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let (rounds, words) = arguments()?;
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    if wanted("memory") {
        memory::print(rounds)?;
    }
    if wanted("exact") {
        memory::check()?;
    }
    let places = Places::find()?;
    println!(
        "{:44} {:>22} {:>22}  {:<22} aim",
        "", "GiB/s", "against, GiB/s", "ratio"
    );
    for comparison in comparisons::all(&places)? {
        if !wanted(&comparison.name) {
            continue;
        }
        if let Some(missing) = &comparison.missing {
            println!("{:44} skipped: {missing} is not installed", comparison.name);
            continue;
        }
        compare(&comparison, rounds, &places)?;
    }
    Ok(())
}

fn compare(comparison: &Comparison, rounds: usize, places: &Places) -> anyhow::Result<()> {
    let volume = pilot(comparison, places)?;
    let mut sides = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            sides[side].push(rate(comparison, side, volume, places)?);
        }
    }
    let ratios: Vec<f64> = sides[0].iter().zip(&sides[1]).map(|(a, b)| a / b).collect();
    let aim = match comparison.aim {
        Some(aim) => format!("{aim}"),
        None => "-".to_owned(),
    };
    println!(
        "{:44} {:>22} {:>22}  x{:<21} {aim}",
        comparison.name,
        summary(&sides[0])?,
        summary(&sides[1])?,
        summary(&ratios)?,
    );
    Ok(())
}

/// So many bytes take both sides long enough.
fn pilot(comparison: &Comparison, places: &Places) -> anyhow::Result<u64> {
    let most = comparison.most.unwrap_or(64 << 30);
    let mut volume = most.min(64 << 20);
    loop {
        let mut fastest = f64::MAX;
        for side in 0..2 {
            fastest = fastest.min(timed(comparison, side, volume, places)?.seconds);
        }
        if fastest >= MIN_SECONDS || volume >= most {
            return Ok(volume);
        }
        // Not more at a time, since what is short is slowed by its start.
        let factor = (1.2 * MIN_SECONDS / fastest).clamp(1.2, 8.0);
        volume = ((volume as f64 * factor) as u64).min(most);
    }
}

fn timed(
    comparison: &Comparison,
    side: usize,
    volume: u64,
    places: &Places,
) -> anyhow::Result<Timed> {
    let pipeline = (comparison.sides[side])(volume);
    pipeline
        .run(places)
        .with_context(|| format!("{}: {pipeline}", comparison.name))
}

fn rate(comparison: &Comparison, side: usize, volume: u64, places: &Places) -> anyhow::Result<f64> {
    Ok(volume as f64 / timed(comparison, side, volume, places)?.seconds / GIB)
}

/// The median and its 95 % interval.
fn summary(values: &[f64]) -> anyhow::Result<String> {
    let median = stats::median(values).context("no rounds")?;
    let interval = stats::median_interval(values, 0.95).context("too few rounds")?;
    Ok(format!(
        "{median:.2} [{:.2}, {:.2}]",
        interval.low, interval.high
    ))
}

fn arguments() -> anyhow::Result<(usize, Vec<String>)> {
    // cargo bench adds --bench.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut rounds = 20;
    let mut names = Vec::new();
    while let Some(word) = words.next() {
        match &*word {
            "--rounds" => rounds = words.next().context("--rounds N")?.parse()?,
            word if word.starts_with('-') => anyhow::bail!("unknown: {word}"),
            _ => names.push(word),
        }
    }
    Ok((rounds, names))
}
