//! How fast can a program send what it makes to the readers that people use?
//!
//! `cargo bench -p pipespeed --bench readers -- --record FILE [--rounds N] [--seconds S]`
//!
//! Starts real readers behind every way of sending, with several capacities,
//! in an order that differs from round to round, and saves the time of each
//! 2 MiB (JSON lines) for replays.

#[path = "../options/mod.rs"]
mod options;
mod producer;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

use producer::{Plan, Produced, Speed, Way};

/// The readers, as people start them.
const READERS: [(&str, &str); 9] = [
    ("wc", "wc -c"),
    ("cat", "cat"),
    (
        "python",
        "python3 -c 'import os\nwhile os.read(0, 65536): pass'",
    ),
    ("grep", "LC_ALL=C grep -c 77777"),
    ("sha256sum", "sha256sum"),
    ("pv", "pv -q"),
    ("meter", "$PIPESPEED meter -q"),
    (
        "splice",
        "$PIPESPEED read --read-with-splice --bytes-to-pipe 1T",
    ),
    ("gzip", "gzip -1"),
];

#[derive(Debug, Serialize)]
struct Trial<'a> {
    round: usize,
    reader: &'a str,
    plan: Plan,
    /// Bytes over the time from the producer's start to the reader's end.
    gib_per_s: f64,
    /// Processor time of both ends.
    cpu_s: f64,
    produced: Produced,
}

struct Options {
    record: Option<String>,
    rounds: usize,
    seconds: f64,
    speed: Speed,
    readers: Option<String>,
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
    let path = options.record.context("--record FILE")?;
    let mut to = OpenOptions::new().create(true).append(true).open(path)?;
    let plans = plans(options.speed, options.seconds);
    for round in 0..options.rounds {
        for (at, (name, command)) in READERS.iter().enumerate() {
            if options
                .readers
                .as_ref()
                .is_some_and(|only| !only.split(',').any(|o| o == *name))
            {
                continue;
            }
            for turn in 0..plans.len() {
                // Neighbours and directions differ from round to round.
                let step = [1, 5, 11, 13, 17][round % 5];
                let plan = plans[(turn * step + round + at) % plans.len()];
                let trial = trial(round, name, command, plan)?;
                serde_json::to_writer(&mut to, &trial)?;
                writeln!(to)?;
            }
            eprint!("\rround {} of {}: {name}   ", round + 1, options.rounds);
        }
    }
    eprintln!();
    Ok(())
}

/// Every way of sending, in every capacity.
fn plans(speed: Speed, seconds: f64) -> Vec<Plan> {
    let copies = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10].map(|piece| Way::Copy { piece });
    let copies = copies
        .into_iter()
        .flat_map(|way| [64 << 10, 256 << 10, 1 << 20].map(|c| (way, c)));
    let handing_over = [Way::Fresh, Way::Drained, Way::CowChecked]
        .into_iter()
        .flat_map(|way| [256 << 10, 1 << 20].map(|c| (way, c)));
    copies
        .chain(handing_over)
        .map(|(way, capacity)| Plan {
            way,
            capacity,
            speed,
            seconds,
        })
        .collect()
}

fn trial<'a>(round: usize, name: &'a str, command: &str, plan: Plan) -> anyhow::Result<Trial<'a>> {
    let (from, to) = io::pipe()?;
    let mut reader = Command::new("sh")
        .args([
            "-c",
            &format!("exec {command}").replace("exec LC_ALL=C", "LC_ALL=C exec"),
        ])
        .env("PIPESPEED", env!("CARGO_BIN_EXE_pipespeed"))
        .stdin(from)
        .stdout(File::create("/dev/null")?)
        .stderr(Stdio::null())
        .spawn()?;
    let cpu_before = children_cpu_s()?;
    let started = Instant::now();
    let producer = Command::new(std::env::current_exe()?)
        .args(["produce", &serde_json::to_string(&plan)?])
        .stdout(to)
        .stderr(Stdio::piped())
        .spawn()?;
    let out = producer.wait_with_output()?;
    let ended = reader.wait()?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(ended.success() || name == "grep", "{name}: {ended}");
    ensure!(
        out.status.success(),
        "producer: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    let produced: Produced = serde_json::from_slice(&out.stderr)?;
    Ok(Trial {
        round,
        reader: name,
        plan,
        gib_per_s: produced.bytes as f64 / seconds / (1u64 << 30) as f64,
        cpu_s: children_cpu_s()? - cpu_before,
        produced,
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
        record: None,
        rounds: 3,
        seconds: 1.0,
        speed: Speed::Fast,
        readers: None,
    };
    options::each(|option, value| {
        match option {
            "--record" => options.record = Some(value()?),
            "--rounds" => options.rounds = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--readers" => options.readers = Some(value()?),
            "--slow" => options.speed = Speed::Slow,
            _ => anyhow::bail!("unknown option {option}"),
        }
        Ok(())
    })?;
    Ok(options)
}
