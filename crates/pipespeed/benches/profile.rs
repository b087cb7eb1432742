//! The groups of `pipespeed profile` beside those of `perf record -a`, for the same
//! runs of pipelines.
//!
//! `cargo bench -p pipespeed --bench profile [-- --rounds N]`
//!
//! perf samples whole processors while `profile` runs and samples a pipeline: a pipeline has
//! modes that last for seconds, so two runs would differ by more than two samplers do.
//! perf's samples are assigned to the two ends by the names of their processes, and to
//! groups by the same table. A group's share is its share of an end's samples, i.e. of its
//! running time. The exit status is 1 if the median of any difference is larger than allowed.

mod options;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use pipespeed_explain::profile::groups::{CostGroup, CostTable};
use pipespeed_explain::profile::record::Profile;
use pipespeed_stats::median;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pipespeed");
/// The names of the ends' processes.
const ENDS: [&str; 2] = ["writer", "reader"];
/// Sampling time of each run.
const SECONDS: &str = "2";
/// Addresses from here on are the kernel's (Documentation/arch/x86/x86_64/mm.rst; others
/// have it in the upper half, too).
const KERNEL: u64 = 1 << 63;

/// A pipeline, and the largest difference that counts as agreement, in percentage points.
struct Pipeline {
    writer: &'static str,
    reader: &'static str,
    limit: f64,
}

const PIPELINES: [Pipeline; 3] = [
    Pipeline {
        writer: "",
        reader: "",
        limit: 5.0,
    },
    Pipeline {
        writer: "--write-with-vmsplice",
        reader: "--read-with-splice",
        limit: 5.0,
    },
    Pipeline {
        writer: "--write-with-vmsplice --huge-page --busy-loop",
        reader: "--read-with-splice --busy-loop",
        limit: 3.0,
    },
];

/// The share of each group in an end's samples, in percent.
type Shares = BTreeMap<CostGroup, f64>;

fn main() -> ExitCode {
    options::exit_code("profile", run())
}

fn run() -> anyhow::Result<()> {
    let rounds = rounds()?;
    let folder = tempfile::tempdir()?;
    for name in ENDS {
        std::os::unix::fs::symlink(PROGRAM, folder.path().join(name))?;
    }
    if let Err(error) = perf_record(folder.path(), &["true".as_ref()]) {
        eprintln!("skipped: perf record -a can't be run here: {error:#}");
        return Ok(());
    }
    let mut excesses = 0;
    for pipeline in &PIPELINES {
        let runs = (0..rounds).map(|_| run_once(folder.path(), pipeline));
        let runs = runs.collect::<anyhow::Result<Vec<Run>>>()?;
        println!(
            "write {} | read {}: share of running time in %, medians of {rounds}",
            pipeline.writer, pipeline.reader
        );
        for (end, name) in ENDS.into_iter().enumerate() {
            excesses += compare(name, end, &runs, pipeline.limit);
        }
        println!();
    }
    ensure!(
        excesses == 0,
        "{excesses} groups differ by more than allowed"
    );
    Ok(())
}

fn rounds() -> anyhow::Result<usize> {
    let mut rounds = 15;
    options::each(|word, value| {
        ensure!(word == "--rounds", "unknown option {word}");
        rounds = value()?.parse().context("--rounds")?;
        ensure!(rounds > 0, "--rounds: at least 1");
        Ok(())
    })?;
    Ok(rounds)
}

/// Prints the groups of an end that have at least one percent in either, with the
/// smallest and the largest share of all runs. Returns how many differ by more than `limit`.
fn compare(name: &str, end: usize, runs: &[Run], limit: f64) -> usize {
    let summary = |of: &dyn Fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let median = median(&values).unwrap_or(f64::NAN);
        let (min, max) = (values[0], values[values.len() - 1]);
        (median, format!("{median:.1} [{min:.1}, {max:.1}]"))
    };
    let mut excesses = 0;
    println!("  {name:31}  {:18}  {:18}  difference", "profile", "perf");
    for group in CostGroup::all() {
        let share = |shares: &[Shares; 2]| shares[end].get(&group).copied().unwrap_or(0.0);
        let (ours, our_range) = summary(&|run| share(&run.ours));
        let (perfs, perf_range) = summary(&|run| share(&run.perfs));
        if ours.max(perfs) < 1.0 {
            continue;
        }
        let (difference, differences) = summary(&|run| share(&run.ours) - share(&run.perfs));
        let is_excess = difference.abs() > limit;
        excesses += usize::from(is_excess);
        let verdict = if is_excess { "  MORE THAN ALLOWED" } else { "" };
        let name = group.name();
        println!("  {name:31}  {our_range:18}  {perf_range:18}  {differences}{verdict}");
    }
    excesses
}

/// One run of a pipeline, sampled by both.
struct Run {
    ours: [Shares; 2],
    perfs: [Shares; 2],
}

fn run_once(folder: &Path, pipeline: &Pipeline) -> anyhow::Result<Run> {
    let program = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "{} write {} | {} read --bytes-to-pipe 1T {}",
        program(ENDS[0]),
        pipeline.writer,
        program(ENDS[1]),
        pipeline.reader
    );
    let record = folder.join("profile.json");
    let command: [&OsStr; 9] = [
        PROGRAM.as_ref(),
        "profile".as_ref(),
        "--quiet".as_ref(),
        "--json".as_ref(),
        record.as_ref(),
        "--time".as_ref(),
        SECONDS.as_ref(),
        "--".as_ref(),
        text.as_ref(),
    ];
    let perfs = perf_record(folder, &command)?;
    ensure!(
        perfs.iter().all(|end| !end.is_empty()),
        "perf took no samples"
    );
    let text = std::fs::read(&record).context("the profile")?;
    std::fs::remove_file(&record)?;
    let profile: Profile = serde_json::from_slice(&text).context("the profile")?;
    let stages = profile.pipeline.context("no pipeline was profiled")?.stages;
    ensure!(stages.len() == 2, "{} stages", stages.len());
    let shares = |at: usize| {
        let mut shares = Shares::new();
        for stack in &stages[at].end.stacks {
            *shares.entry(stack.group).or_default() += stack.weight as f64;
        }
        percent(shares)
    };
    Ok(Run {
        ours: [shares(0), shares(1)],
        perfs: perfs.map(percent),
    })
}

/// The samples in each group of both ends, taken by `perf record -a` while the command runs.
fn perf_record(folder: &Path, command: &[&OsStr]) -> anyhow::Result<[Shares; 2]> {
    let data = folder.join("perf.data");
    let recorded = Command::new("perf")
        .args(["record", "--quiet", "-a", "-g", "-e", "cpu-clock"])
        .args(["-F", "1999", "-o"])
        .arg(&data)
        .arg("--")
        .args(command)
        .stdout(Stdio::null())
        .status();
    ensure!(recorded?.success(), "perf record failed");
    let out = Command::new("perf")
        .args(["script", "-F", "comm,ip,sym", "-i"])
        .arg(&data)
        .stderr(Stdio::null())
        .output()?;
    ensure!(out.status.success(), "perf script failed");
    let text = String::from_utf8_lossy(&out.stdout);
    let mut shares = [Shares::new(), Shares::new()];
    for sample in text.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let name = lines.next().map(str::trim);
        let Some(end) = ENDS.iter().position(|it| Some(*it) == name) else {
            continue;
        };
        let frames = lines.filter_map(|line| line.trim().split_once(' '));
        let kernel = frames.filter(|(address, _)| {
            u64::from_str_radix(address, 16).is_ok_and(|address| address >= KERNEL)
        });
        let chain: Vec<&str> = kernel.map(|(_, name)| name.trim()).collect();
        let (group, _) = CostTable::built_in().attribute(&chain);
        *shares[end].entry(group).or_default() += 1.0;
    }
    Ok(shares)
}

fn percent(mut shares: Shares) -> Shares {
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share *= 100.0 / all);
    shares
}
