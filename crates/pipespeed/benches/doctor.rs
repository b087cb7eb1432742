//! Does `doctor` name the slow stage, and what does it cost the pipeline it examines?
//!
//! `cargo bench -p pipespeed --bench doctor [-- --slices N]`
//!
//! First 100 pipelines of 2 to 6 stages, each with one slow stage at each place in turn, slow
//! for five reasons. Then one fast pipeline while doctor runs and is stopped (SIGSTOP) in
//! random slices of 50 ms: the ratio of the rates, with its 95 % interval.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pipespeed_pipeline::proc::Proc;
use pipespeed_stats as stats;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");
const SLICE: Duration = Duration::from_millis(50);

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
        let child = Command::new("sh")
            .args(["-c", script])
            .env("P", PIPESPEED)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Pipeline(child.context("sh")?))
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip_while(|arg| arg != "--slices");
    let slices = match args.nth(1) {
        Some(number) => number.parse().context("--slices")?,
        None => 1200,
    };
    bottlenecks()?;
    cost(slices)
}

fn bottlenecks() -> anyhow::Result<()> {
    let (mut right, mut all) = (0, 0);
    for stages in 2..=6 {
        for at in 0..stages {
            for (name, first, later) in SLOW {
                let commands = (0..stages).map(|stage| match stage {
                    _ if stage == at && at == 0 => first,
                    _ if stage == at => later,
                    0 => "yes",
                    _ => "cat",
                });
                let commands: Vec<&str> = commands.collect();
                let script = commands.join(" | ");
                let pipeline = Pipeline::start(&script)?;
                let found = slowest(pipeline.0.id())?;
                all += 1;
                if found == name {
                    right += 1;
                } else {
                    println!("  {found:?} instead of {name}: {script}");
                }
            }
        }
    }
    println!("slow stage named: {right} of {all}");
    Ok(())
}

/// The name of the stage that sets the pace; empty if none is named.
fn slowest(pid: u32) -> anyhow::Result<String> {
    let output = Command::new(PIPESPEED)
        .args(["doctor", "--json", "-", &pid.to_string()])
        .output()?;
    let record: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let findings = record["findings"].as_array().context("findings")?;
    let pace = findings.iter().find(|finding| finding["finding"] == "pace");
    let name = pace.and_then(|pace| pace["stage"]["name"].as_str());
    Ok(name.unwrap_or_default().to_owned())
}

fn cost(slices: usize) -> anyhow::Result<()> {
    let pipeline = Pipeline::start("yes | cat")?;
    let proc = Proc::default();
    let cat = loop {
        let children = proc.children(pipeline.0.id() as i32).into_iter();
        let is_cat = |pid: &i32| proc.name(*pid).is_some_and(|name| name == "cat");
        if let Some(cat) = children.into_iter().find(is_cat) {
            break cat;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let mut doctor = Command::new(PIPESPEED)
        .args(["doctor", "--time", "86400", &pipeline.0.id().to_string()])
        .stdout(Stdio::null())
        .spawn()?;
    let observer = Pid::from_child(&doctor);
    let read = || proc.io(cat).map(|io| io.read_bytes).context("/proc/PID/io");
    let mut rng = stats::Rng::new(1);
    let mut rates = [Vec::new(), Vec::new()];
    // The first scan of all processes is no steady state.
    thread::sleep(Duration::from_secs(1));
    for _ in 0..slices / 2 {
        let first_on = rng.next_u64().is_multiple_of(2);
        for on in [first_on, !first_on] {
            kill_process(observer, if on { Signal::CONT } else { Signal::STOP })?;
            let (start, before) = (Instant::now(), read()?);
            thread::sleep(SLICE);
            let rate = (read()? - before) as f64 / start.elapsed().as_secs_f64();
            rates[usize::from(on)].push(rate);
        }
    }
    doctor.kill()?;
    doctor.wait()?;
    let [off, on] = &rates;
    let ratios = on.iter().zip(off).map(|(on, off)| on / off);
    let ratios: Vec<f64> = ratios.collect();
    let median = stats::median(&ratios).context("no slices")?;
    let interval = stats::median_interval(&ratios, 0.95).context("too few slices")?;
    println!(
        "rate while examined / not examined: {median:.4} [{:.4}, {:.4}]",
        interval.low, interval.high
    );
    Ok(())
}
