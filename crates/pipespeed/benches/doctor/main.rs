//! Does `doctor` name the slow stage and the hang, and what does it cost the pipeline it
//! examines?
//!
//! `cargo bench -p pipespeed --bench doctor [-- PART...] [--slices N] [--trials N]`
//!
//! | part | |
//! |---|---|
//! | `bottlenecks` | 100 pipelines of 2 to 6 stages, each with one slow stage at each place in turn, slow for five reasons; and 15 of 3 stages each joined by socat, by unix sockets and by TCP |
//! | `usual` | the same for twelve of zcat, sort, gzip, tar, zstd and meter |
//! | `hangs` | seven planted deadlocks, and 28 hangs of Node, Python, Go, Java, Perl, Rust and shell, each from its file in `hangs/`: the verdict, who, which stream and the remedy |
//! | `healthy` | 60 pipelines that move or wait for something outside, examined twice, and 32 programs that wait, each from its file in `healthy/`, examined eight times |
//! | `cost` | a fast pipeline while doctor runs and is stopped (SIGSTOP) in random slices of 50 ms: the ratio of the rates, with its 95 % interval; on all processors, on one, and beside a process that wakes up as often and computes as long as doctor but reads nothing |
//! | `ends` | how much later a writer learns that its reader has left, and a reader the end of file, while the pipe is looked into all the time |
//! | `processes` | 10,000 short-lived processes, and 100 that are killed |
//!
//! Each observation takes two seconds, as by default, and one of `healthy` one second.

#[path = "hangs/rust_wait.rs"]
mod rust_wait;
#[path = "../common/slices.rs"]
mod slices;
#[path = "healthy/tokio_idle_child.rs"]
mod tokio_idle_child;
#[path = "hangs/tokio_stderr.rs"]
mod tokio_stderr;

mod healthy;
mod joined;
mod planted;
mod programs;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pipespeed_measure::session::SUBCOMMAND;
use pipespeed_pipeline::proc::pipe_probe::{self, PipeProbe};
use pipespeed_pipeline::proc::{LinkId, Proc};
use pipespeed_stats as stats;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");

/// A slow stage: its process's name, and its commands as the first stage and as a later one.
const SLOW: [(&str, &str, &str); 5] = [
    ("gzip", "gzip -9 -c /dev/zero", "gzip -9"),
    (
        "dash",
        "exec dash -c 'while :; do echo a; done'",
        "exec dash -c 'while read x; do echo $x; done'",
    ),
    (
        "bash",
        "exec bash -c 'while head -c 65536 /dev/zero; do sleep 0.01; done'",
        "exec bash -c 'while head -c 65536; do sleep 0.01; done'",
    ),
    (
        "pipespeed",
        "exec $P meter -qL 2M /dev/zero",
        "exec $P meter -qL 2M",
    ),
    (
        "mawk",
        "mawk 'BEGIN { for (;;) { for (i = 0; i < 999; i++) s += i; print s } }'",
        "mawk '{ for (i = 0; i < 999; i++) s += i; print }'",
    ),
];

/// A pipeline in a process group of its own, killed when this is dropped.
struct Pipeline(Child);

impl Pipeline {
    fn start(script: &str) -> anyhow::Result<Self> {
        Self::start_in(&std::env::temp_dir(), script)
    }

    fn start_in(directory: &Path, script: &str) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(directory)
            .env("P", PIPESPEED)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> anyhow::Result<Self> {
        let child = command.process_group(0).spawn();
        Ok(Pipeline(child.with_context(|| format!("{command:?}"))?))
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

const PARTS: [&str; 7] = [
    "bottlenecks",
    "usual",
    "hangs",
    "healthy",
    "cost",
    "ends",
    "processes",
];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [programs::RUST, name] = *args.iter().map(String::as_str).collect::<Vec<_>>() {
        return match name {
            "rust_wait" => rust_wait::main(),
            "tokio_idle_child" => tokio_idle_child::main(),
            _ => tokio_stderr::main(),
        };
    }
    if let [STAND_IN, sleep, spin] = *args.iter().map(String::as_str).collect::<Vec<_>>() {
        let [sleep, spin] = [sleep.parse()?, spin.parse()?].map(Duration::from_nanos);
        return stand_in(sleep, spin);
    }
    let number = |option: &str, default: usize| {
        let at = args.iter().position(|arg| arg == option);
        let number = at.and_then(|at| args.get(at + 1));
        number.map_or(Ok(default), |number| number.parse())
    };
    let (slices, trials) = (number("--slices", 1200)?, number("--trials", 2000)?);
    let named = args.iter().filter(|arg| PARTS.contains(&arg.as_str()));
    let mut parts: BTreeSet<&str> = named.map(String::as_str).collect();
    if parts.is_empty() {
        parts.extend(PARTS);
    }
    for part in PARTS.into_iter().filter(|part| parts.contains(part)) {
        match part {
            "bottlenecks" => bottlenecks()?,
            "usual" => usual_programs()?,
            "hangs" => hangs()?,
            "healthy" => healthy::examine_all()?,
            "cost" => cost(slices)?,
            "ends" => ends(trials)?,
            _ => processes()?,
        }
    }
    Ok(())
}

fn bottlenecks() -> anyhow::Result<()> {
    let (mut right, mut all) = (0, 0);
    for stages in 2..=6 {
        for (name, commands) in pipelines_with_slow_stage(stages) {
            let script = commands.join(" | ");
            let pipeline = Pipeline::start(&script)?;
            all += 1;
            right += usize::from(is_named(&pipeline, name, &script)?);
        }
    }
    println!("slow stage named: {right} of {all}");
    joined::examine_all()
}

/// Pipelines of this many stages, each with the name of its slow stage and its commands.
fn pipelines_with_slow_stage(
    stages: usize,
) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    (0..stages).flat_map(move |at| {
        SLOW.into_iter().map(move |(name, first, later)| {
            let commands = (0..stages).map(|stage| match stage {
                _ if stage == at && at == 0 => first,
                _ if stage == at => later,
                0 => "yes",
                _ => "cat",
            });
            (name, commands.collect())
        })
    })
}

/// Whether this stage is named as the bottleneck.
fn is_named(pipeline: &Pipeline, name: &str, script: &str) -> anyhow::Result<bool> {
    let found = slowest(pipeline.0.id())?;
    if found != name {
        println!("  {found:?} instead of {name}: {script}");
    }
    Ok(found == name)
}

/// Pipelines of usual programs: the slow stage, how the command line of the program begins that
/// must have read 1 MiB before it is the slow one, and the script. `$F` has 64 MiB of random
/// lines.
const USUAL: [(&str, &str, &str); 6] = [
    (
        "sort",
        "sort",
        "while cat $F.gz; do :; done | zcat | sort -R -S 50M -T $D | gzip -1",
    ),
    ("gzip", "gzip -9", "zcat $F.gz | sort | gzip -9"),
    (
        "pipespeed",
        "sort",
        "exec $P meter -qL 1M $F.gz | zcat | sort | gzip",
    ),
    ("zstd", "zstd", "tar cf - $F | zstd -q -15 | cat"),
    (
        "pipespeed",
        "zstd",
        "tar cf - $F | zstd -q -1 | exec $P meter -qL 1M",
    ),
    (
        "tar",
        "zstd",
        "tar cf - --checkpoint=100 --checkpoint-action=sleep=1 $F | zstd -q -1 | cat",
    ),
];

fn usual_programs() -> anyhow::Result<()> {
    const EACH: usize = 2;
    let directory = tempfile::tempdir()?;
    let script = "base64 /dev/urandom | head -c 64M >text; gzip -1 -k text";
    let mut made = Pipeline::start_in(directory.path(), script)?;
    anyhow::ensure!(made.0.wait()?.success(), "no input");
    let proc = Proc::default();
    let mut right = 0;
    for (name, reader, script) in USUAL {
        for _ in 0..EACH {
            let script = format!("F=text; D=.; {script}");
            let pipeline = Pipeline::start_in(directory.path(), &script)?;
            let pid = pipeline.0.id();
            let has_read = |pid: &i32| {
                let io = proc.io(*pid).filter(|io| io.read_bytes > 1 << 20);
                let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                io.is_some() && command.starts_with(reader)
            };
            while !proc.tree(pid as i32).iter().any(has_read) {
                thread::sleep(Duration::from_millis(5));
            }
            right += usize::from(is_named(&pipeline, name, &script)?);
        }
    }
    println!(
        "with zcat, sort, tar, zstd: {right} of {}",
        USUAL.len() * EACH
    );
    Ok(())
}

/// Hangs: a word of the finding, and a script. Each is examined once, for two seconds.
const HANGS: [(&str, &str); 7] = [
    (
        "all_write",
        "exec python3 -c \"from subprocess import *; p = Popen(['cat'], stdin=PIPE, stdout=PIPE); \
         p.stdin.write(b'x' * 1000000)\"",
    ),
    (
        "all_write",
        "mkfifo a b; exec 3<>a 4<>b; head -c 1000000 /dev/zero <a >b 3<&- 4<&- & \
         exec head -c 1000000 /dev/zero <b >a 3<&- 4<&-",
    ),
    (
        "other_pipe",
        "exec python3 -c \"from subprocess import *; \
         p = Popen('head -c 1000000 /dev/zero >&2', shell=True, stdout=PIPE, stderr=PIPE); \
         p.stdout.read()\"",
    ),
    (
        "own_end",
        "exec python3 -c 'import os; r, w = os.pipe(); os.read(r, 1)'",
    ),
    ("no_peer", "mkfifo a; exec cat a"),
    (
        "all_read",
        "mkfifo a b; exec 3<>a 4<>b; cat <a >b 3<&- 4<&- & exec cat <b >a 3<&- 4<&-",
    ),
    // reubeno/brush#1293
    (
        "own_output",
        "exec python3 -c \"import os; r, w = os.pipe(); os.write(w, b'x' * 100000)\"",
    ),
];

fn hangs() -> anyhow::Result<()> {
    let mut right = 0;
    for (kind, script) in HANGS {
        let directory = tempfile::tempdir()?;
        let pipeline = Pipeline::start_in(directory.path(), script)?;
        // Long enough for Python to start.
        thread::sleep(Duration::from_secs(1));
        let record = examine(pipeline.0.id())?;
        let found = &record["findings"][0];
        if record["is_stuck"] == true && found["kind"] == kind {
            right += 1;
        } else {
            println!("  {found} instead of {kind}: {script}");
        }
    }
    println!("deadlocks explained: {right} of {}", HANGS.len());
    planted::examine_all()
}

/// The record of an observation of two seconds.
fn examine(pid: u32) -> anyhow::Result<Value> {
    examine_for("2", pid)
}

/// The record of an observation that lasts for `seconds`.
fn examine_for(seconds: &str, pid: u32) -> anyhow::Result<Value> {
    let output = Command::new(PIPESPEED)
        .args(["doctor", "--time", seconds, "--json", "-", &pid.to_string()])
        .output()?;
    anyhow::ensure!(output.stderr.is_empty(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The name of the bottleneck; empty if none is named.
fn slowest(pid: u32) -> anyhow::Result<String> {
    let record = examine(pid)?;
    let findings = record["findings"].as_array().context("findings")?;
    let bottleneck = findings
        .iter()
        .find(|finding| finding["finding"] == "bottleneck");
    let name = bottleneck.and_then(|bottleneck| bottleneck["stage"]["name"].as_str());
    Ok(name.unwrap_or_default().to_owned())
}

/// What runs beside a pipeline.
#[derive(Clone, Copy)]
enum Observer {
    Doctor,
    /// A process that wakes up as often and computes as long, but reads nothing.
    StandIn,
}

fn cost(slices: usize) -> anyhow::Result<()> {
    for (what, cpus, observer) in [
        ("examined", None, Observer::Doctor),
        ("beside a stand-in", None, Observer::StandIn),
        ("examined, all on one processor", Some(0), Observer::Doctor),
    ] {
        let ratio = cost_of(cpus, observer, slices)?;
        println!("yes | cat, rate while {what} / not: {ratio}");
    }
    Ok(())
}

/// A program on these processors.
fn on(cpu: Option<usize>, program: &str) -> Command {
    let Some(cpu) = cpu else {
        return Command::new(program);
    };
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command
}

fn cost_of(cpu: Option<usize>, observer: Observer, slices: usize) -> anyhow::Result<String> {
    let pipeline = match cpu {
        Some(cpu) => format!("exec taskset -c {cpu} sh -c 'yes | cat'"),
        None => "yes | cat".to_owned(),
    };
    let pipeline = Pipeline::start(&pipeline)?;
    let proc = Proc::default();
    let cat = loop {
        let children = proc.children(pipeline.0.id() as i32).into_iter();
        let is_cat = |pid: &i32| proc.name(*pid).is_some_and(|name| name == "cat");
        if let Some(cat) = children.into_iter().find(is_cat) {
            break cat;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let mut doctor = on(cpu, PIPESPEED)
        .args(["doctor", "--time", "86400", &pipeline.0.id().to_string()])
        .stdout(Stdio::null())
        .spawn()?;
    let read = || proc.io(cat).map(|io| io.read_bytes).context("/proc/PID/io");
    // The first scan of all processes is no steady state.
    thread::sleep(Duration::from_secs(1));
    let mut process = match observer {
        Observer::Doctor => doctor,
        Observer::StandIn => {
            let before = schedule(&doctor)?;
            thread::sleep(Duration::from_secs(2));
            let after = schedule(&doctor)?;
            doctor.kill()?;
            doctor.wait()?;
            let times = after.1 - before.1;
            let [sleep, spin] = [2_000_000_000 - (after.0 - before.0), after.0 - before.0]
                .map(|ns| (ns / times).to_string());
            eprintln!("stand-in: computes {spin} ns, sleeps {sleep} ns");
            on(cpu, std::env::current_exe()?.to_str().context("path")?)
                .args([STAND_IN, &sleep, &spin])
                .spawn()?
        }
    };
    let ratio = slices::rate_ratio(Pid::from_child(&process), slices, read);
    process.kill()?;
    process.wait()?;
    ratio
}

/// The time that a process has run, in nanoseconds, and how many times it was scheduled.
fn schedule(process: &Child) -> anyhow::Result<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", process.id()))?;
    let mut fields = text.split_whitespace().map(str::parse);
    let mut next = || fields.next().context("schedstat")?.context("schedstat");
    let (run, _delay, times) = (next()?, next()?, next()?);
    Ok((run, times))
}

/// The first argument of the process that computes for a time, sleeps for a time, and so on.
const STAND_IN: &str = "--stand-in";

fn stand_in(sleep: Duration, spin: Duration) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    loop {
        thread::sleep(sleep);
        let began = Instant::now();
        while began.elapsed() < spin {}
    }
}

/// A program as the helper that opens pipes.
fn helper() -> Command {
    let mut command = Command::new(PIPESPEED);
    command.args([SUBCOMMAND, pipe_probe::ROLE]);
    command
}

/// The descriptor and inode of the pipe to look into; 0 for none.
#[derive(Default)]
struct Shown {
    fd: AtomicI32,
    inode: AtomicU64,
    looks: AtomicU64,
    is_over: AtomicBool,
}

/// How much later the ends of a pipe learn that the other one is closed, while the pipe is
/// looked into as often as possible: doctor does that four times a second.
fn ends(trials: usize) -> anyhow::Result<()> {
    let shown = Shown::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (proc, own) = (Proc::default(), std::process::id() as i32);
            let pipe_probe = PipeProbe::new(helper);
            while !shown.is_over.load(Ordering::Acquire) {
                let inode = shown.inode.load(Ordering::Acquire);
                if inode == 0 {
                    thread::yield_now();
                    continue;
                }
                let fd = shown.fd.load(Ordering::Acquire);
                pipe_probe.read_state(&proc, own, fd, LinkId::pipe(inode));
                shown.looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        let result = (|| {
            for (what, trial) in [
                (
                    "writer's EPIPE",
                    broken_pipe as fn(&Shown, bool) -> anyhow::Result<Duration>,
                ),
                ("reader's end of file", end_of_file),
            ] {
                for is_looking in [false, true] {
                    let mut delays = Vec::new();
                    let before = shown.looks.load(Ordering::Relaxed);
                    for _ in 0..trials {
                        delays.push(trial(&shown, is_looking)?.as_secs_f64() * 1e6);
                    }
                    let looks = shown.looks.load(Ordering::Relaxed) - before;
                    delays.sort_by(f64::total_cmp);
                    let at = |share: f64| delays[((trials - 1) as f64 * share) as usize];
                    let late = delays.iter().filter(|delay| **delay >= 1000.0).count();
                    println!(
                        "{what} after close, {looks} looks: median {:.0} us, 99.9 % {:.0} us, longest {:.0} us; {late} of {trials} over 1 ms",
                        at(0.5),
                        at(0.999),
                        at(1.0)
                    );
                }
            }
            anyhow::Ok(())
        })();
        shown.is_over.store(true, Ordering::Release);
        result
    })
}

/// Shows the read end for some looks, before an end is closed at any moment of one.
fn show(shown: &Shown, reader: &impl AsRawFd, inode: u64, is_looking: bool) {
    if is_looking {
        let before = shown.looks.load(Ordering::Relaxed);
        shown.fd.store(reader.as_raw_fd(), Ordering::Release);
        shown.inode.store(inode, Ordering::Release);
        while shown.looks.load(Ordering::Relaxed) < before + 5 {
            thread::yield_now();
        }
    }
    // Sleeping is never exact, so the end is closed at any moment of a look.
    thread::sleep(Duration::from_micros(20));
}

/// From closing the read end to the failure of a write that was waiting for room.
fn broken_pipe(shown: &Shown, is_looking: bool) -> anyhow::Result<Duration> {
    let (reader, mut writer) = std::io::pipe()?;
    let inode = rustix::fs::fstat(&reader)?.st_ino;
    let capacity = fastpipe::pipe::capacity(&reader)?;
    thread::scope(|scope| {
        let failed = scope.spawn(move || {
            while writer.write_all(&[0; 4096]).is_ok() {}
            Instant::now()
        });
        while fastpipe::pipe::unread(&reader)? < capacity {
            thread::yield_now();
        }
        show(shown, &reader, inode, is_looking);
        let closed = Instant::now();
        drop(reader);
        let failed = failed.join().expect("a writer");
        shown.inode.store(0, Ordering::Release);
        Ok(failed.saturating_duration_since(closed))
    })
}

/// From closing the write end to the end of a read that was waiting for data.
fn end_of_file(shown: &Shown, is_looking: bool) -> anyhow::Result<Duration> {
    let (mut reader, writer) = std::io::pipe()?;
    let inode = rustix::fs::fstat(&reader)?.st_ino;
    let looked_at = reader.try_clone()?;
    thread::scope(|scope| {
        let ended = scope.spawn(move || {
            let _ = reader.read(&mut [0]);
            Instant::now()
        });
        show(shown, &looked_at, inode, is_looking);
        let closed = Instant::now();
        drop(writer);
        let ended = ended.join().expect("a reader");
        shown.inode.store(0, Ordering::Release);
        Ok(ended.saturating_duration_since(closed))
    })
}

/// Many processes that end while doctor watches.
fn processes() -> anyhow::Result<()> {
    const SHORT: u32 = 10_000;
    const KILLED: u32 = 100;
    let script = format!("i=0; while [ $i -lt {SHORT} ]; do (:); i=$((i+1)); done | cat");
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("record");
    let began = Instant::now();
    let status = Command::new(PIPESPEED)
        .args(["doctor", "--time", "1000", "--json"])
        .args([file.as_os_str(), "--".as_ref(), script.as_ref()])
        .stderr(Stdio::null())
        .status()?;
    let record: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    let kept = record["processes"].as_array().context("processes")?.len();
    println!(
        "{SHORT} short-lived processes: {status} after {:.1} s, {kept} of them kept; {} left",
        began.elapsed().as_secs_f64(),
        helpers()
    );
    let mut rng = stats::Rng::new(2);
    let mut failed = 0;
    for _ in 0..KILLED {
        let pipeline = Pipeline::start("yes | cat | cat")?;
        let pid = pipeline.0.id();
        let mut doctor = Command::new(PIPESPEED)
            .args(["doctor", "--time", "0.3", &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        thread::sleep(Duration::from_micros(rng.next_u64() % 400_000));
        let stages = Proc::default().tree(pid as i32);
        let victim = stages[rng.next_u64() as usize % stages.len()];
        let victim = Pid::from_raw(victim).context("a process")?;
        let _ = kill_process(victim, Signal::KILL);
        let mut text = String::new();
        let errors = doctor.stderr.as_mut().context("stderr")?;
        errors.read_to_string(&mut text)?;
        let status = doctor.wait()?;
        // Killed before doctor began, or 1: what waits for a process that was killed may be stuck.
        if !text.is_empty() && !text.contains("no such process") {
            failed += 1;
            println!("  {status}: {text}");
        }
    }
    println!(
        "{KILLED} killed processes: {failed} failures; {} left",
        helpers()
    );
    Ok(())
}

/// The number of helper processes that run.
fn helpers() -> usize {
    let proc = Proc::default();
    let line = |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_helper = |pid: &i32| {
        let line = String::from_utf8_lossy(&line(*pid)).into_owned();
        line.contains(SUBCOMMAND) && line.contains(pipe_probe::ROLE)
    };
    thread::sleep(Duration::from_millis(100));
    proc.processes().iter().filter(|pid| is_helper(pid)).count()
}
