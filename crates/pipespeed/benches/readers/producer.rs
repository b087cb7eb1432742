//! The producing process: makes lines of text and sends them through a
//! `fastpipe::Writer` on standard output.

use std::fmt;
use std::io::{self, ErrorKind, PipeWriter, StdoutLock, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastpipe::method::Method;
use fastpipe::writer::Writer;
use serde::{Deserialize, Serialize};

/// How a producer sends its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Way {
    Auto,
    Copy { piece: usize },
    Fresh,
    CowChecked,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Auto => f.write_str("Auto"),
            Way::Copy { piece } => write!(f, "Copy {} KiB", piece >> 10),
            Way::Fresh => f.write_str("Fresh"),
            Way::CowChecked => f.write_str("CowChecked"),
        }
    }
}

/// What one producing process does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Plan {
    pub way: Way,
    /// Capacity of the pipe, in bytes.
    pub capacity: usize,
    pub speed: Speed,
    pub seconds: f64,
    /// Whether `Auto` may try `CowChecked`.
    pub allow_clone: bool,
}

/// How much work each byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Speed {
    /// As fast as memory allows.
    Fast,
    /// With this many multiplications per 8 bytes, each of which depends on the one
    /// before.
    Slow { steps: u32 },
}

/// What a producing process reports on standard error.
#[derive(Debug, Serialize, Deserialize)]
pub struct Produced {
    pub bytes: u64,
    /// How the bytes were sent at the end.
    pub path: String,
    /// What `Auto` tried: the trials' ends in MiB, and the ratios of the rates.
    pub trials: Vec<String>,
}

/// The clock is looked at after this many bytes.
const CLOCK_DISTANCE: u64 = 2 << 20;

/// Starts this program as a producer that writes `to` a pipe.
pub fn start(plan: Plan, to: PipeWriter) -> anyhow::Result<Child> {
    let child = Command::new(std::env::current_exe()?)
        .args(["produce", &serde_json::to_string(&plan)?])
        .stdout(to)
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// Waits for a producer and returns its report.
pub fn finish(producer: Child) -> anyhow::Result<Produced> {
    let out = producer.wait_with_output()?;
    let report = || String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{}", report());
    serde_json::from_slice(&out.stderr).with_context(|| report().into_owned())
}

/// Runs the producing process.
pub fn run(plan: &str) -> anyhow::Result<()> {
    let plan: Plan = serde_json::from_str(plan).context("the producer's plan")?;
    let method = match plan.way {
        Way::Auto => Method::Auto,
        Way::Copy { piece } => Method::Copy { piece },
        Way::Fresh => Method::Fresh,
        Way::CowChecked => Method::CowChecked,
    };
    let builder = Writer::builder().capacity(plan.capacity).method(method);
    let mut out = builder.allow_clone(plan.allow_clone).stdout()?;
    match produce(plan, &mut out) {
        // The reader wants no more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    let report = out.report();
    let trials = report.trials.iter().map(|trial| {
        format!(
            "{} MiB: {:?} x{:.2} of {:?}, {:?}",
            trial.ended_at >> 20,
            trial.challenger,
            trial.challenger_rate / trial.incumbent_rate,
            trial.incumbent,
            trial.outcome
        )
    });
    let produced = Produced {
        bytes: out.counts().bytes,
        path: report.to_string(),
        trials: trials.collect(),
    };
    serde_json::to_writer(io::stderr(), &produced)?;
    Ok(())
}

fn produce(plan: Plan, out: &mut Writer<StdoutLock<'_>>) -> io::Result<()> {
    let limit = Duration::from_secs_f64(plan.seconds);
    let mut lines = Lines::default();
    let (mut bytes, mut next_look) = (0, CLOCK_DISTANCE);
    let started = Instant::now();
    loop {
        let mut loan = out.lend(0)?;
        let len = loan.len();
        match plan.speed {
            Speed::Fast => lines.fill(&mut loan, 0),
            Speed::Slow { steps } => lines.fill(&mut loan, steps),
        }
        loan.commit(len)?;
        bytes += len as u64;
        if bytes >= next_look {
            next_look = bytes + CLOCK_DISTANCE;
            if started.elapsed() > limit {
                return out.flush();
            }
        }
    }
}

/// Lines of 63 digits each.
#[derive(Default)]
struct Lines {
    next: u64,
}

impl Lines {
    /// Inlined where `steps` is zero, so that the compiler drops the loop.
    #[inline(always)]
    fn fill(&mut self, to: &mut [u8], steps: u32) {
        for line in to.chunks_exact_mut(64) {
            for word in line.chunks_exact_mut(8) {
                let mut value = self.next;
                for _ in 0..steps {
                    value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.next;
                }
                let digits = (value ^ value << 29) & 0x0707_0707_0707_0707 | 0x3030_3030_3030_3030;
                word.copy_from_slice(&digits.to_le_bytes());
                self.next = self.next.wrapping_add(0x1235_6789_abcd);
            }
            line[63] = b'\n';
        }
    }
}
