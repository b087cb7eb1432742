//! Is `Method::Auto` as fast as the best forced method, into the readers that
//! people use?
//!
//! `cargo bench -p pipespeed --bench readers [-- --slow STEPS] [--readers wc,cat] [--rounds N]
//! [--seconds S] [--trials] [--allow-clone]`
//!
//! With `--allow-clone`, `CowChecked` is among the methods, and `Auto` may try it.
//!
//! For each reader, a few rounds of every safe method find the best one, and the one that
//! takes the least processor time of those within 5 % of it. Then these and `Auto` run in
//! turns, with the same producer and capacity, and are compared by round. Fails if `Auto`
//! misses the bar: the median ratio at least 0.93, its interval reaching 0.95, and the
//! processor time of both ends at most 1.1 times that of the cheapest. `--trials` prints
//! the forced methods' rates, and what `Auto` tried in each run. `--slow 50` makes the producer work for some 300 to
//! 400 MiB/s, `--slow 100` for half of that.

#[path = "../options/mod.rs"]
mod options;
mod producer;

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use pipespeed_stats as stats;

use producer::{Plan, Speed, Way};

/// The readers, as people start them.
const READERS: [(&str, &str); 9] = [
    ("wc", "wc -c"),
    ("cat", "cat"),
    (
        "python",
        "python3 -c 'import os\nwhile os.read(0, 65536): pass'",
    ),
    ("grep", "grep -c 77777"),
    ("sha256sum", "sha256sum"),
    ("pv", "pv -q"),
    ("meter", "$PIPESPEED meter -q"),
    (
        "splice",
        "$PIPESPEED read --read-with-splice --bytes-to-pipe 1T || true",
    ),
    ("gzip", "gzip -1"),
];

/// The methods that are correct for every reader.
const FORCED: [Way; 4] = [
    Way::Copy { piece: 8 << 10 },
    Way::Copy { piece: 64 << 10 },
    Way::Fresh,
    Way::CowChecked,
];

/// The capacity that a `Writer` asks for by default, in bytes.
const CAPACITY: usize = 1 << 20;

const PILOT_ROUNDS: usize = 3;

const MIN_RATIO: f64 = 0.93;
const MIN_UPPER_END: f64 = 0.95;
const MAX_CPU_RATIO: f64 = 1.1;

struct Options {
    rounds: usize,
    seconds: f64,
    speed: Speed,
    readers: Option<String>,
    trials: bool,
    allow_clone: bool,
}

/// What one run of a producer and a reader showed.
struct Trial {
    /// Bytes over the time from the producer's start to the reader's end.
    gib_per_s: f64,
    /// Processor time of both ends.
    cpu_s_per_gib: f64,
    path: String,
    trials: Vec<String>,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        (Some("produce"), Some(plan)) => options::exit_code("producer", producer::run(&plan)),
        _ => options::exit_code("readers", run()),
    }
}

fn run() -> anyhow::Result<()> {
    let options = asked_for()?;
    let mut missed = Vec::new();
    println!(
        "{:10} {:>20} {:>20}  {:20} {:>5}  Auto uses",
        "reader", "best forced, GiB/s", "Auto, GiB/s", "ratio", "CPU"
    );
    for (name, command) in READERS {
        let only = options.readers.as_ref();
        if only.is_some_and(|only| !only.split(',').any(|only| only == name)) {
            continue;
        }
        if !compare(name, command, &options)? {
            missed.push(name);
        }
    }
    ensure!(missed.is_empty(), "below the bar: {}", missed.join(", "));
    Ok(())
}

/// Compares `Auto` with the best forced method, and returns whether it meets the
/// bar.
fn compare(name: &str, command: &str, options: &Options) -> anyhow::Result<bool> {
    let plan = |way| Plan {
        way,
        capacity: CAPACITY,
        speed: options.speed,
        seconds: options.seconds,
        allow_clone: options.allow_clone,
    };
    let forced = FORCED
        .iter()
        .filter(|way| options.allow_clone || **way != Way::CowChecked);
    let mut pilots: Vec<_> = forced.map(|way| (*way, Vec::new(), Vec::new())).collect();
    for round in 0..PILOT_ROUNDS {
        for turn in 0..pilots.len() {
            let at = (round + turn) % pilots.len();
            let (way, rates, cpu) = &mut pilots[at];
            let trial = run_pair(command, plan(*way))?;
            rates.push(trial.gib_per_s);
            cpu.push(trial.cpu_s_per_gib);
        }
    }
    let median = |values: &[f64]| stats::median(values).unwrap_or(f64::NAN);
    if options.trials {
        for (way, rates, cpu) in &pilots {
            let (rate, cpu) = (median(rates), median(cpu));
            println!("  {name} {way}: {rate:.2} GiB/s, {cpu:.2} s of CPU per GiB");
        }
    }
    let rate = |pilot: &(Way, Vec<f64>, Vec<f64>)| median(&pilot.1);
    let best = pilots.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let best = best.context("no methods")?;
    let cheapest = pilots
        .iter()
        .filter(|pilot| rate(pilot) >= 0.95 * rate(best))
        .min_by(|a, b| median(&a.2).total_cmp(&median(&b.2)));
    let cheapest = cheapest.context("no methods")?;

    // Rates and processor times drift within minutes, so all are compared by round.
    let (mut forced, mut auto, mut cpu, mut paths) = (vec![], vec![], vec![], vec![]);
    let mut ways = vec![best.0, Way::Auto];
    if cheapest.0 != best.0 {
        ways.push(cheapest.0);
    }
    for _ in 0..options.rounds {
        ways.rotate_left(1);
        let mut trials = BTreeMap::new();
        for way in &ways {
            trials.insert(*way, run_pair(command, plan(*way))?);
        }
        let own = &trials[&Way::Auto];
        if options.trials {
            let ratio = own.gib_per_s / trials[&best.0].gib_per_s;
            println!("  {name} x{ratio:.2}: {}", own.trials.join("; "));
        }
        forced.push(trials[&best.0].gib_per_s);
        auto.push(own.gib_per_s);
        cpu.push(own.cpu_s_per_gib / trials[&cheapest.0].cpu_s_per_gib);
        paths.push(own.path.clone());
    }
    let ratios: Vec<f64> = auto.iter().zip(&forced).map(|(a, f)| a / f).collect();
    let interval = stats::median_interval(&ratios, 0.95).context("too few rounds: --rounds 6")?;
    let ratio = median(&ratios);
    let cpu_ratio = median(&cpu);
    let is_met = ratio >= MIN_RATIO && interval.high >= MIN_UPPER_END && cpu_ratio <= MAX_CPU_RATIO;
    paths.sort();
    paths.dedup();
    println!(
        "{name:10} {:>13} {:6.2} {:>20.2}  x{ratio:.2} [{:.2}, {:.2}]   {} x{cpu_ratio:.2}  {}",
        best.0.to_string(),
        median(&forced),
        median(&auto),
        interval.low,
        interval.high,
        if is_met { "   " } else { "LOW" },
        paths.join(", "),
    );
    Ok(is_met)
}

fn run_pair(command: &str, plan: Plan) -> anyhow::Result<Trial> {
    let (from, to) = io::pipe()?;
    let cpu_before = children_cpu_s()?;
    let mut reader = Command::new("sh")
        .args(["-c", command])
        .env("LC_ALL", "C")
        .env("PIPESPEED", env!("CARGO_BIN_EXE_pipespeed"))
        .stdin(from)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let started = Instant::now();
    let produced = producer::finish(producer::start(plan, to)?)?;
    let ended = reader.wait()?;
    let seconds = started.elapsed().as_secs_f64();
    // grep exits with 1 if no line matches.
    ensure!(matches!(ended.code(), Some(0 | 1)), "{command}: {ended}");
    let gib = produced.bytes as f64 / (1u64 << 30) as f64;
    Ok(Trial {
        gib_per_s: gib / seconds,
        cpu_s_per_gib: (children_cpu_s()? - cpu_before) / gib,
        path: produced.path,
        trials: produced.trials,
    })
}

/// Processor time of all children that were waited for.
fn children_cpu_s() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(us as f64 / 1e6)
}

fn asked_for() -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: 15,
        seconds: 3.0,
        speed: Speed::Fast,
        readers: None,
        trials: false,
        allow_clone: false,
    };
    options::each(|option, value| {
        match option {
            "--rounds" => options.rounds = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--readers" => options.readers = Some(value()?),
            "--trials" => options.trials = true,
            "--allow-clone" => options.allow_clone = true,
            "--slow" => {
                let steps = value()?.parse()?;
                options.speed = Speed::Slow { steps };
            }
            _ => anyhow::bail!("unknown option {option}"),
        }
        Ok(())
    })?;
    Ok(options)
}
