//! How many bytes should a reader ask for at a time?
//!
//! `cargo bench -p pipespeed --bench reading [-- --rounds N] [--seconds S] [--only reader,file,wc]`
//!
//! The data of a fast writer is taken by `fastpipe::Reader` and summed up, and by relay's
//! copying, which writes it to a file in memory, and to a pipe that `wc -c` reads. In
//! each round every consumer gets a new writer of each kind, and reads its stream in all
//! sizes, in turns that begin elsewhere each time. Prints rates, the processor time of
//! all processes, and the rates divided by those of the default size, paired by round,
//! with 95 % intervals.

mod options;
#[path = "readers/producer.rs"]
mod producer;

use std::fs::{self, File};
use std::io::{self, BufRead, PipeReader, PipeWriter, Seek};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastpipe::reader::{DEFAULT_BUFFER, Reader};
use fastpipe::relay::{self, Flow, relay};
use pipespeed_base::memory_file;
use pipespeed_measure::data::pattern;
use pipespeed_stats as stats;

use producer::{Plan, Speed, Way};

const SIZES: [usize; 8] = [
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    1 << 20,
];

/// What is written, and the pipe's capacity.
const WRITERS: [(Way, usize); 4] = [
    // As by the C library.
    (Way::Copy { piece: 4 << 10 }, 64 << 10),
    (Way::Copy { piece: 64 << 10 }, 64 << 10),
    (Way::Copy { piece: 8 << 10 }, 1 << 20),
    (Way::Fresh, 1 << 20),
];

/// Who reads, and the default size.
const CONSUMERS: [(&str, usize); 3] = [
    ("reader", DEFAULT_BUFFER),
    ("file", 128 << 10),
    ("wc", 128 << 10),
];

/// The clock is looked at after this many bytes.
const CLOCK_DISTANCE: usize = 1 << 20;

struct Options {
    rounds: usize,
    seconds: f64,
    only: Option<String>,
}

/// What one size showed on a writer's stream.
#[derive(Debug, Clone, Copy)]
struct Sample {
    gib_per_s: f64,
    /// Processor time of all processes.
    cpu_ms_per_gib: f64,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        (Some("produce"), Some(plan)) => options::exit_code("producer", producer::run(&plan)),
        _ => options::exit_code("reading", run()),
    }
}

fn run() -> anyhow::Result<()> {
    let options = asked_for()?;
    let is_wanted = |name: &str| {
        let only = options.only.as_ref();
        only.is_none_or(|only| only.split(',').any(|one| one == name))
    };
    let arms: Vec<_> = CONSUMERS
        .into_iter()
        .filter(|(name, _)| is_wanted(name))
        .flat_map(|consumer| WRITERS.map(|writer| (consumer, writer)))
        .collect();
    let mut samples = vec![[const { Vec::new() }; SIZES.len()]; arms.len()];
    let mut paths = vec![Vec::new(); arms.len()];
    for round in 0..options.rounds {
        for (at, ((consumer, _), writer)) in arms.iter().enumerate() {
            let path = take_turns(consumer, *writer, round, options.seconds, &mut samples[at])
                .with_context(|| format!("{consumer}, {writer:?}"))?;
            paths[at].push(path);
        }
        eprint!("\rround {} of {}", round + 1, options.rounds);
    }
    eprintln!();
    for (((arm, samples), paths), n) in arms.iter().zip(&samples).zip(&mut paths).zip(1..) {
        let ((consumer, default), (way, capacity)) = arm;
        paths.dedup();
        println!(
            "{n}. {consumer}, from {way} into {} KiB ({})",
            capacity >> 10,
            paths.join(", ")
        );
        show(samples, *default)?;
    }
    Ok(())
}

/// Prints the table of a consumer and a writer.
fn show(samples: &[Vec<Sample>; SIZES.len()], default: usize) -> anyhow::Result<()> {
    let at = SIZES.iter().position(|size| *size == default);
    let base = &samples[at.context("the default size is not among the sizes")?];
    for (size, samples) in SIZES.iter().zip(samples) {
        let median = |of: fn(&Sample) -> f64| {
            let values: Vec<f64> = samples.iter().map(of).collect();
            stats::median(&values).unwrap_or(f64::NAN)
        };
        let pairs = samples.iter().zip(base);
        let ratios: Vec<f64> = pairs.map(|(a, b)| a.gib_per_s / b.gib_per_s).collect();
        let ratio = stats::Estimate::new(&ratios, 0.95).context("no rounds")?;
        let (low, high) = ratio.ends();
        println!(
            "{:6} KiB {:6.2} GiB/s  x{:.2} [{low:.2}, {high:.2}] {:5.0} CPU ms/GiB",
            size >> 10,
            median(|sample| sample.gib_per_s),
            ratio.median,
            median(|sample| sample.cpu_ms_per_gib),
        );
    }
    Ok(())
}

/// Reads the stream of a new writer in all sizes. Returns how it was sent.
fn take_turns(
    consumer: &str,
    (way, capacity): (Way, usize),
    round: usize,
    seconds: f64,
    samples: &mut [Vec<Sample>; SIZES.len()],
) -> anyhow::Result<String> {
    let (from, to) = io::pipe()?;
    let plan = Plan {
        way,
        capacity,
        speed: Speed::Fast,
        // Until the pipe is closed.
        seconds: 3600.0,
        allow_clone: false,
    };
    let writer = producer::start(plan, to)?;
    let mut end = End::new(consumer)?;
    for turn in 0..SIZES.len() {
        let at = (round + turn) % SIZES.len();
        let mut processes = vec![std::process::id(), writer.id()];
        processes.extend(end.process());
        // The pipe still holds what the size before has left.
        end.take(&from, SIZES[at], seconds / 4.0)?;
        let cpu_before = cpu_s(&processes)?;
        let started = Instant::now();
        let bytes = end.take(&from, SIZES[at], seconds)?;
        let gib = bytes as f64 / (1u64 << 30) as f64;
        samples[at].push(Sample {
            gib_per_s: gib / started.elapsed().as_secs_f64(),
            cpu_ms_per_gib: (cpu_s(&processes)? - cpu_before) * 1e3 / gib,
        });
    }
    drop(from);
    end.finish()?;
    Ok(producer::finish(writer)?.path)
}

/// Where the data goes.
enum End {
    Sum,
    File(File),
    Wc(PipeWriter, Child),
}

impl End {
    fn new(consumer: &str) -> anyhow::Result<Self> {
        Ok(match consumer {
            "reader" => End::Sum,
            "file" => End::File(memory_file::create("copied")?),
            _ => {
                let (from, to) = io::pipe()?;
                let mut wc = Command::new("wc");
                let wc = wc.arg("-c").stdin(from).stdout(Stdio::null());
                End::Wc(to, wc.spawn()?)
            }
        })
    }

    fn process(&self) -> Option<u32> {
        match self {
            End::Wc(_, child) => Some(child.id()),
            End::Sum | End::File(_) => None,
        }
    }

    /// Takes data for this time, up to `size` bytes by each read. Returns the number of
    /// bytes.
    fn take(&mut self, from: &PipeReader, size: usize, seconds: f64) -> anyhow::Result<u64> {
        let time = Duration::from_secs_f64(seconds);
        match self {
            End::Sum => sum_up(from, size, time),
            End::File(file) => {
                file.set_len(0)?;
                file.rewind()?;
                copy(from, file, size, time)
            }
            End::Wc(to, _) => copy(from, to, size, time),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        if let End::Wc(to, mut wc) = self {
            drop(to);
            ensure!(wc.wait()?.success(), "wc failed");
        }
        Ok(())
    }
}

fn sum_up(from: &PipeReader, size: usize, time: Duration) -> anyhow::Result<u64> {
    let mut reader = Reader::builder().buffer(size).open(from)?;
    let (mut bytes, mut next_look, mut sum) = (0, 0, 0u64);
    let started = Instant::now();
    loop {
        let data = reader.fill_buf()?;
        ensure!(!data.is_empty(), "the writer is gone");
        sum = sum.wrapping_add(pattern::sum(data));
        let n = data.len();
        reader.consume(n);
        bytes += n;
        if bytes >= next_look {
            next_look = bytes + CLOCK_DISTANCE;
            if started.elapsed() > time {
                break;
            }
        }
    }
    std::hint::black_box(sum);
    Ok(bytes as u64)
}

fn copy(
    from: &PipeReader,
    to: impl std::os::fd::AsFd,
    size: usize,
    time: Duration,
) -> anyhow::Result<u64> {
    let options = relay::Options::new().copy().block(size).interval(time);
    let mut is_first = true;
    let relayed = relay(from, to, &options, |_| {
        let flow = if is_first { Flow::Continue } else { Flow::Stop };
        is_first = false;
        flow
    })?;
    ensure!(relayed.end == relay::End::Stopped, "the writer is gone");
    Ok(relayed.given)
}

/// Processor time of the main threads of these processes (proc_pid_schedstat).
fn cpu_s(processes: &[u32]) -> anyhow::Result<f64> {
    let mut ns = 0;
    for process in processes {
        let path = format!("/proc/{process}/schedstat");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let first = text.split(' ').next().context(path)?;
        ns += first.parse::<u64>()?;
    }
    Ok(ns as f64 / 1e9)
}

fn asked_for() -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: 15,
        seconds: 0.1,
        only: None,
    };
    options::each(|option, value| {
        match option {
            "--rounds" => options.rounds = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            "--only" => options.only = Some(value()?),
            _ => anyhow::bail!("unknown option {option}"),
        }
        Ok(())
    })?;
    Ok(options)
}
