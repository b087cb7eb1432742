//! What does `boost` gain in real pipelines, and what does it cost those that gain nothing?
//!
//! `cargo bench -p pipespeed --bench boost [-- --pairs N] [--slices N] [--only WORD]`
//!
//! Twelve pipelines on generated data, each run in pairs by `boost --prove`: a table for
//! docs/boost.md, whose intervals are corrected for all of them. Then a pipeline with one busy
//! stage while the sidecar runs and is stopped (SIGSTOP) in random slices of 50 ms: the ratio of
//! the rates, with its 95 % interval.

#[path = "common/slices.rs"]
mod slices;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use pipespeed_pipeline::proc::Proc;
use pipespeed_stats::{self as stats, Rng};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");

/// The pipelines, with the programs that they need.
const PIPELINES: [(&str, &[&str]); 12] = [
    ("cat big | wc -c", &["cat", "wc"]),
    ("cat big | wc -l", &["cat", "wc"]),
    (
        "dd if=/dev/zero bs=1M count=300 status=none | cat | wc -c",
        &["dd", "cat", "wc"],
    ),
    ("tar -cf - tree | wc -c", &["tar", "wc"]),
    (
        "python3 -c 'import os; b = bytes(1 << 20); [os.write(1, b) for i in range(250)]' | wc -c",
        &["python3", "wc"],
    ),
    (
        "zcat log.gz | grep -v bot | cut -d' ' -f1 | sort | uniq -c",
        &["zcat", "grep", "cut", "sort", "uniq"],
    ),
    ("zstdcat tree.tar.zst | tar -tf -", &["zstdcat", "tar"]),
    ("tar -cf - tree | zstd -1 -c", &["tar", "zstd"]),
    ("sort words | comm -12 - sorted", &["sort", "comm"]),
    (
        "openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 00 -in big 2> /dev/null | sha256sum",
        &["openssl", "sha256sum"],
    ),
    (
        "ffmpeg -v error -f lavfi -i testsrc2=s=1280x720:r=25:d=4 -f rawvideo -pix_fmt yuv420p - | \
         ffmpeg -v error -f rawvideo -s 1280x720 -i - -f framemd5 -",
        &["ffmpeg"],
    ),
    (
        "samtools view -u reads.bam | samtools sort -l 0 -",
        &["samtools"],
    ),
];

fn main() -> anyhow::Result<()> {
    let pairs = option("--pairs")?.unwrap_or(10);
    let slices = option("--slices")?.unwrap_or(400);
    let only = std::env::args().skip_while(|arg| arg != "--only").nth(1);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    eprintln!("generating data");
    generate(directory.path())?;
    let mut rows: Vec<(&str, Value)> = Vec::new();
    for (pipeline, programs) in PIPELINES {
        if only
            .as_ref()
            .is_some_and(|only| !pipeline.contains(only.as_str()))
        {
            continue;
        }
        let missing = programs.iter().find(|program| !is_installed(program));
        if let Some(program) = missing {
            println!("SKIPPED: {pipeline}: {program} is not installed");
            continue;
        }
        if pipeline.contains("reads.bam") && !reads(directory.path())? {
            println!("SKIPPED: {pipeline}: reads.bam could not be made");
            continue;
        }
        eprintln!("{pipeline}");
        rows.push((pipeline, prove(directory.path(), pipeline, pairs)?));
    }
    table(&rows)?;
    cost(slices)
}

fn option(name: &str) -> anyhow::Result<Option<usize>> {
    let value = std::env::args().skip_while(|arg| arg != name).nth(1);
    value
        .map(|value| value.parse().context(name.to_owned()))
        .transpose()
}

/// The system's programs come first: a version manager's python3 is a script that starts it.
fn path() -> String {
    format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default())
}

fn is_installed(program: &str) -> bool {
    std::env::split_paths(&path()).any(|directory| directory.join(program).is_file())
}

/// Runs a line for sh in the directory.
fn sh(directory: &Path, line: &str) -> anyhow::Result<bool> {
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("LC_ALL", "C")
        .env("PATH", path())
        .current_dir(directory);
    Ok(command.status()?.success())
}

/// Text of 300 MiB, a tree of 128 files and 256 MiB, a compressed log of 60 MiB, words.
fn generate(directory: &Path) -> anyhow::Result<()> {
    let mut rng = Rng::new(1);
    let block: Vec<u8> = (0..20_000)
        .flat_map(|_| {
            let (a, b) = (rng.next_u64(), rng.next_u64());
            format!("{a:016x} {b:016x} the quick brown fox {}\n", a % 1000).into_bytes()
        })
        .collect();
    let mut big = BufWriter::new(File::create(directory.join("big"))?);
    for _ in 0..(300 << 20) / block.len() {
        big.write_all(&block)?;
    }
    big.flush()?;
    fs::create_dir(directory.join("tree"))?;
    for number in 0..128u64 {
        let mut file = BufWriter::new(File::create(directory.join(format!("tree/{number}")))?);
        for _ in 0..32 {
            let start = (rng.next_u64() % (block.len() as u64 - 65536)) as usize;
            file.write_all(&block[start..start + 65536])?;
        }
        file.flush()?;
    }
    let mut log = BufWriter::new(File::create(directory.join("log"))?);
    for _ in 0..500_000 {
        let (host, agent) = (rng.next_u64() % 5000, rng.next_u64() % 7);
        let agent = if agent == 0 { "bot" } else { "Mozilla/5.0" };
        writeln!(
            log,
            "10.0.{}.{} - - [22/Nov/2026:10:00:00] \"GET /page/{} HTTP/1.1\" 200 {} {agent}",
            host / 256,
            host % 256,
            rng.next_u64() % 1000,
            rng.next_u64() % 100_000
        )?;
    }
    log.flush()?;
    let mut words = BufWriter::new(File::create(directory.join("words"))?);
    for _ in 0..600_000 {
        writeln!(words, "{:08x}", rng.next_u64() as u32)?;
    }
    words.flush()?;
    let prepared = sh(
        directory,
        "gzip -1 log; shuf -n 1000 words | sort > sorted; ! command -v zstd > /dev/null || \
         tar -cf - tree | zstd -q -1 -o tree.tar.zst",
    )?;
    if !prepared {
        bail!("the data could not be prepared");
    }
    Ok(())
}

/// Makes reads in random order, enough for half a second: in less, the start of `boost`
/// shows, which docs/boost.md states by itself.
fn reads(directory: &Path) -> anyhow::Result<bool> {
    let mut sam = BufWriter::new(File::create(directory.join("reads.sam"))?);
    let mut rng = Rng::new(2);
    writeln!(sam, "@SQ\tSN:chr1\tLN:100000000")?;
    let (bases, quality) = ("ACGT".repeat(25), "I".repeat(100));
    for number in 0..900_000 {
        let place = 1 + rng.next_u64() % 99_000_000;
        writeln!(
            sam,
            "r{number}\t0\tchr1\t{place}\t60\t100M\t*\t0\t0\t{bases}\t{quality}"
        )?;
    }
    sam.flush()?;
    sh(directory, "samtools view -b -o reads.bam reads.sam")
}

/// The record of `boost --prove`.
fn prove(directory: &Path, pipeline: &str, pairs: usize) -> anyhow::Result<Value> {
    let output = Command::new(PIPESPEED)
        .args(["boost", "--yes", "--json", "-", "--shell", "/bin/sh"])
        .arg(format!("--prove={pairs}"))
        .arg(pipeline)
        .env("LC_ALL", "C")
        .env("PATH", path())
        .current_dir(directory)
        .stderr(Stdio::inherit())
        .output()?;
    serde_json::from_slice(&output.stdout).with_context(|| pipeline.to_owned())
}

/// Prints the table. The intervals of all pipelines are one family.
fn table(rows: &[(&str, Value)]) -> anyhow::Result<()> {
    let values = |record: &Value, case: usize, field: &str| -> Vec<(usize, f64)> {
        let samples = record["cases"][case]["samples"].as_array();
        let samples = samples.into_iter().flatten();
        let value = |it: &Value| Some((it["round"].as_u64()? as usize, it[field].as_f64()?));
        samples.filter_map(value).collect()
    };
    let speeds: Vec<Vec<f64>> = rows
        .iter()
        .map(|(_, it)| stats::paired_ratios(&values(it, 0, "seconds"), &values(it, 1, "seconds")))
        .collect();
    let ratios = stats::holm_ratios(&speeds, 0.95);
    println!("\n| pipeline | plain, s | boosted, s | gain | CPU, s | output | null control |");
    println!("|---|---|---|---|---|---|---|");
    for ((pipeline, record), ratio) in rows.iter().zip(ratios) {
        let median = |case: usize, field: &str| {
            record["cases"][case][field]["median"]
                .as_f64()
                .unwrap_or(f64::NAN)
        };
        let ratio = ratio.context("no samples")?;
        let (low, high) = ratio.estimate.ends();
        println!(
            "| `{}` | {:.3} | {:.3} | x{:.2} [{low:.2}, {high:.2}] {} | {:.2} to {:.2} | {} | {:.2} |",
            pipeline.replace('|', "\\|"),
            median(0, "seconds"),
            median(1, "seconds"),
            ratio.estimate.median,
            ratio.verdict.name(),
            median(0, "cpu_s"),
            median(1, "cpu_s"),
            record["output"].as_str().unwrap_or("?"),
            record["null_control"]["median"]
                .as_f64()
                .unwrap_or(f64::NAN),
        );
    }
    println!();
    for (pipeline, record) in rows {
        let stage = record["bottleneck"]["stage"]["name"].as_str();
        let works = record["bottleneck"]["shares"]["working"].as_f64();
        if let (Some(stage), Some(works)) = (stage, works) {
            println!(
                "{pipeline}: {stage} is the bottleneck, works {:.0} %",
                100.0 * works
            );
        }
    }
    Ok(())
}

/// A pipeline in a process group of its own, killed when this is dropped.
struct Pipeline(Child);

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// What the sidecar costs a pipeline that gains nothing.
fn cost(slices: usize) -> anyhow::Result<()> {
    let mut sh = Command::new("sh");
    sh.args(["-c", "yes | gzip -1 | cat; true"])
        .process_group(0);
    let pipeline = Pipeline(sh.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
    let root = pipeline.0.id();
    let proc = Proc::default();
    let gzip = loop {
        let children = proc.children(root as i32).into_iter();
        let is_gzip = |pid: &i32| proc.name(*pid).is_some_and(|name| name == "gzip");
        if let Some(gzip) = children.into_iter().find(is_gzip) {
            break gzip;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let root = root.to_string();
    let mut follow = Command::new(PIPESPEED);
    follow.args(["boost", "--follow", "--pid", &root]);
    follow.status()?;
    let is_sidecar = |pid: &i32| {
        proc.name(*pid)
            .is_some_and(|name| name == "pipespeed-boost")
    };
    let sidecar = proc.processes().into_iter().filter(is_sidecar).max();
    let observer = sidecar.and_then(Pid::from_raw).context("no sidecar")?;
    let read = || {
        proc.io(gzip)
            .map(|io| io.read_bytes)
            .context("/proc/PID/io")
    };
    // The pipes are raised by then.
    thread::sleep(Duration::from_secs(1));
    let ratio = slices::rate_ratio(observer, slices, read)?;
    println!("rate of a busy pipeline with / without the sidecar: {ratio}");
    Ok(())
}
