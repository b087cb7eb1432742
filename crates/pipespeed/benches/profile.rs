//! The groups of `pipespeed profile` beside those of `perf record -a`, for the same
//! pipelines.
//!
//! `cargo bench -p pipespeed --bench profile [-- --rounds N]`
//!
//! perf samples whole processors; its samples are assigned to the two ends by process, and
//! to groups by the same table. The two alternate. A group's share is its share of an end's
//! samples, i.e. of its running time. The exit status is 1 if any differs by more than allowed.

mod options;

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use pipespeed_explain::profile::groups::{Group, Table};
use pipespeed_explain::profile::record::Profile;
use pipespeed_stats::median;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pipespeed");
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
type Shares = BTreeMap<Group, f64>;

fn main() -> ExitCode {
    options::exit_code("profile", run())
}

fn run() -> anyhow::Result<()> {
    let rounds = rounds()?;
    if let Err(error) = perfs(&PIPELINES[0]) {
        eprintln!("skipped: perf record -a can't be run here: {error:#}");
        return Ok(());
    }
    let mut excesses = 0;
    for pipeline in &PIPELINES {
        let (mut ours, mut perfs) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // Each comes first as often as the other.
            if round % 2 == 0 {
                ours.push(self::ours(pipeline)?);
                perfs.push(self::perfs(pipeline)?);
            } else {
                perfs.push(self::perfs(pipeline)?);
                ours.push(self::ours(pipeline)?);
            }
        }
        println!(
            "write {} | read {}: share of running time in %, medians of {rounds}",
            pipeline.writer, pipeline.reader
        );
        for (end, role) in ["writer", "reader"].into_iter().enumerate() {
            excesses += compare(role, end, &ours, &perfs, pipeline.limit);
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
    let mut rounds = 5;
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
fn compare(
    role: &str,
    end: usize,
    ours: &[[Shares; 2]],
    perfs: &[[Shares; 2]],
    limit: f64,
) -> usize {
    let summary = |all: &[[Shares; 2]], group| {
        let share = |run: &[Shares; 2]| run[end].get(&group).copied().unwrap_or(0.0);
        let mut shares: Vec<f64> = all.iter().map(share).collect();
        shares.sort_by(f64::total_cmp);
        let median = median(&shares).unwrap_or(f64::NAN);
        let (min, max) = (shares[0], shares[shares.len() - 1]);
        (median, format!("{median:.1} [{min:.1}, {max:.1}]"))
    };
    let mut excesses = 0;
    println!("  {role:31}  {:18}  {:18}  difference", "profile", "perf");
    for group in Group::all() {
        let ((ours, our_range), (perfs, perf_range)) =
            (summary(ours, group), summary(perfs, group));
        if ours.max(perfs) < 1.0 {
            continue;
        }
        let is_excess = (ours - perfs).abs() > limit;
        excesses += usize::from(is_excess);
        let verdict = if is_excess { "  MORE THAN ALLOWED" } else { "" };
        let name = group.name();
        println!(
            "  {name:31}  {our_range:18}  {perf_range:18}  {:+10.1}{verdict}",
            ours - perfs
        );
    }
    excesses
}

/// The shares of both ends by `pipespeed profile`.
fn ours(pipeline: &Pipeline) -> anyhow::Result<[Shares; 2]> {
    let text = format!(
        "{PROGRAM} write {} | {PROGRAM} read --bytes-to-pipe 1T {}",
        pipeline.writer, pipeline.reader
    );
    let out = Command::new(PROGRAM)
        .args([
            "profile", "--quiet", "--json", "-", "--time", SECONDS, "--", &text,
        ])
        .stderr(Stdio::inherit())
        .output()?;
    let profile: Profile = serde_json::from_slice(&out.stdout).context("the profile")?;
    let stages = profile.pipeline.context("no pipeline was profiled")?.stages;
    ensure!(stages.len() == 2, "{} stages", stages.len());
    let shares = |at: usize| {
        let mut shares = Shares::new();
        for stack in &stages[at].end.stacks {
            *shares.entry(stack.group).or_default() += stack.weight as f64;
        }
        percent(shares)
    };
    Ok([shares(0), shares(1)])
}

/// The shares of both ends by `perf record -a`.
fn perfs(pipeline: &Pipeline) -> anyhow::Result<[Shares; 2]> {
    let data = tempfile::NamedTempFile::new()?;
    let (mut writer, mut reader) = start(pipeline)?;
    let pids = [writer.id(), reader.id()];
    let recorded = Command::new("perf")
        .args([
            "record",
            "--quiet",
            "-a",
            "-g",
            "-e",
            "cpu-clock",
            "-F",
            "1999",
            "-o",
        ])
        .arg(data.path())
        .args(["--", "sleep", SECONDS])
        .stdout(Stdio::null())
        .status();
    for end in [&mut writer, &mut reader] {
        end.kill()?;
        end.wait()?;
    }
    ensure!(recorded?.success(), "perf record failed");
    let out = Command::new("perf")
        .args(["script", "-F", "pid,ip,sym", "-i"])
        .arg(data.path())
        .stderr(Stdio::null())
        .output()?;
    ensure!(out.status.success(), "perf script failed");
    let text = String::from_utf8_lossy(&out.stdout);
    let mut shares = [Shares::new(), Shares::new()];
    for sample in text.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.trim().is_empty());
        let pid = lines.next().and_then(|line| line.trim().parse().ok());
        let Some(end) = pids.iter().position(|it| Some(*it) == pid) else {
            continue;
        };
        let frames = lines.filter_map(|line| line.trim().split_once(' '));
        let kernel = frames.filter(|(address, _)| {
            u64::from_str_radix(address, 16).is_ok_and(|address| address >= KERNEL)
        });
        let chain: Vec<&str> = kernel.map(|(_, name)| name.trim()).collect();
        let (group, _) = Table::built_in().attribute(&chain);
        *shares[end].entry(group).or_default() += 1.0;
    }
    ensure!(
        shares.iter().all(|end| !end.is_empty()),
        "perf took no samples"
    );
    Ok(shares.map(percent))
}

/// The two ends of the pipeline, running.
fn start(pipeline: &Pipeline) -> anyhow::Result<(Child, Child)> {
    let (from, into) = std::io::pipe()?;
    let end = |role: &str, options: &str| {
        let mut command = Command::new(PROGRAM);
        command.arg(role).args(options.split_whitespace());
        command.stderr(Stdio::inherit());
        command
    };
    let writer = end("write", pipeline.writer).stdout(into).spawn()?;
    let mut reader = end("read", pipeline.reader);
    let reader = reader.args(["--bytes-to-pipe", "1T"]).stdin(from);
    let reader = reader.stdout(Stdio::null()).spawn()?;
    Ok((writer, reader))
}

fn percent(mut shares: Shares) -> Shares {
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share *= 100.0 / all);
    shares
}
