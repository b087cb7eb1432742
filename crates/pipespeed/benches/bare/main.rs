//! Is a rung as fast as a bare C loop over the same system calls?
//!
//! `cargo bench -p pipespeed --bench bare [-- --rounds N] [CASE...]`
//!
//! Each round runs each rung of the ladder twice, by pipespeed's own ends and
//! by `bare.c`, in an order that alternates; both are pinned to the same
//! processors, on a pipe of the same size, with the same warm-up and timed
//! part. Printed is the ratio by round, pipespeed over C, with its interval.
//! Needs a C compiler, `cc` or `$CC`.

#[path = "../common.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use pipespeed_measure::failure::TrialError;
use pipespeed_measure::record::GIB;
use pipespeed_measure::spec::{Case, Durations, PageKind, PipeReader, PipeWriter, Suite, Waiting};
use pipespeed_measure::suite::Overrides;
use pipespeed_measure::trial::{ProcessRunner, Runner};
use pipespeed_report as report;
use pipespeed_stats as stats;

const DURATIONS: Durations = Durations {
    warm_up_s: 0.015,
    timed_s: 0.150,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let (rounds, names) = arguments()?;
    let directory = tempfile::tempdir()?;
    let Some(bare) = compile(directory.path())? else {
        println!("skipped: no C compiler: install one, or set CC");
        return Ok(());
    };
    let (mut runner, chosen) = common::runner(DURATIONS)?;
    let cases: Vec<Case> = Suite::Ladder
        .cases(&Overrides::default())
        .into_iter()
        .filter(|case| names.is_empty() || names.contains(&case.name))
        .collect();
    let cpus = (chosen.writer, chosen.reader);
    let mut ours = vec![Vec::new(); cases.len()];
    let mut theirs = vec![Vec::new(); cases.len()];
    for round in 0..rounds {
        for (at, case) in cases.iter().enumerate() {
            // Which goes first alternates from round to round and case to case.
            for turn in 0..2 {
                match (round + at + turn) % 2 {
                    0 => ours[at].push((round, trial(&mut runner, case)?)),
                    _ => theirs[at].push((round, bare_trial(&bare, case, cpus)?)),
                }
            }
        }
        eprint!("\rround {} of {rounds}", round + 1);
    }
    eprintln!();
    let ratios: Vec<Vec<f64>> = ours
        .iter()
        .zip(&theirs)
        .map(|(ours, theirs)| stats::paired_ratios(ours, theirs))
        .collect();
    println!(
        "{:22} {:>12} {:>12}  pipespeed / C",
        "case", "pipespeed", "C, GiB/s"
    );
    for (at, ratio) in stats::holm_ratios(&ratios, 0.95).into_iter().enumerate() {
        let median = |rates: &[(usize, f64)]| {
            let rates: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
            stats::median(&rates).map_or_else(String::new, report::significant)
        };
        let Some(ratio) = ratio else { continue };
        println!(
            "{:22} {:>12} {:>12}  {} {} {}",
            cases[at].name,
            median(&ours[at]),
            median(&theirs[at]),
            report::times(ratio.estimate.median),
            report::ratio_interval(ratio.estimate.interval),
            ratio.verdict.name()
        );
    }
    println!("{rounds} rounds, paired; intervals 95 % over all cases together (Holm)");
    Ok(())
}

fn arguments() -> anyhow::Result<(usize, Vec<String>)> {
    let mut rounds = 20;
    let mut names = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            // Cargo says it to every benchmark.
            "--bench" => {}
            "--rounds" => rounds = words.next().context("--rounds N")?.parse()?,
            _ => names.push(word),
        }
    }
    Ok((rounds, names))
}

fn compile(directory: &Path) -> anyhow::Result<Option<PathBuf>> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let program = directory.join("bare");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bare/bare.c");
    match Command::new(&compiler)
        .args(["-O2", "-Wall", "-o"])
        .arg(&program)
        .arg(source)
        .status()
    {
        Ok(status) => {
            ensure!(status.success(), "{} failed on bare.c", compiler.display());
            Ok(Some(program))
        }
        Err(_) => Ok(None),
    }
}

fn trial(runner: &mut ProcessRunner, case: &Case) -> anyhow::Result<f64> {
    match runner.run(case) {
        Ok(trial) => {
            let reader = trial.reader.context("no reader")?.counters;
            Ok(reader.bytes as f64 / GIB / reader.seconds)
        }
        Err(TrialError::Failed(error)) => Err(error),
        Err(error) => bail!("{}: {error}", case.name),
    }
}

fn bare_trial(
    program: &Path,
    case: &Case,
    cpus: (Option<usize>, Option<usize>),
) -> anyhow::Result<f64> {
    let sink = case.subject.writer().context("no writer")?;
    let source = case.subject.reader().context("no reader")?;
    let channel = case.subject.channel().context("no channel")?;
    let (to_pipe, from_pipe) = channel.pipe_ends().context("no pipe")?;
    let pipe_bytes = case.subject.pipe_bytes().context("no pipe")?;
    let (read_end, write_end) = fastpipe::pipe::create()?;
    fastpipe::pipe::set_capacity(&write_end, pipe_bytes)?;
    let command =
        |role: &str, technique: &str, wait: Waiting, pages: PageKind, cpu: Option<usize>| {
            let mut command = Command::new(program);
            command
                .args([role, technique])
                .arg(if wait == Waiting::Spin {
                    "spin"
                } else {
                    "block"
                })
                .arg(pages.name())
                .arg(case.subject.buffer_bytes().to_string())
                .arg(cpu.map_or(-1, |cpu| cpu as i64).to_string())
                .arg(((DURATIONS.warm_up_s * 1e3) as u64).to_string())
                .arg(((DURATIONS.timed_s * 1e3) as u64).to_string());
            command
        };
    let technique = match to_pipe {
        PipeWriter::Write => "write",
        PipeWriter::Vmsplice(_) => "vmsplice",
        other => anyhow::bail!("the C program has no {}", other.name()),
    };
    let mut writer = command("write", technique, sink.wait, sink.pages, cpus.0)
        .stdin(Stdio::null())
        .stdout(write_end)
        .spawn()?;
    let technique = match from_pipe {
        PipeReader::Read => "read",
        _ => "splice",
    };
    let output = command("read", technique, source.wait, source.pages, cpus.1)
        .stdin(read_end)
        .stdout(Stdio::null())
        .output()?;
    writer.wait()?;
    ensure!(
        output.status.success(),
        "the bare reader failed on {}",
        case.name
    );
    let text = String::from_utf8(output.stderr)?;
    let (bytes, nanoseconds) = text.trim().split_once(' ').context("no result")?;
    Ok(bytes.parse::<f64>()? / GIB / (nanoseconds.parse::<f64>()? / 1e9))
}
