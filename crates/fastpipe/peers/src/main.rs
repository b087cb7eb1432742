//! The ring beside others: messages of one size from one process to another, both pinned to processors
//! of their own. The producer fills each message, and the consumer adds up its words.
//!
//! ```text
//! cargo run --release [-- ROUNDS [SIZE...]]
//! ```
//!
//! All kinds take turns within a round; ratios are paired by round.

mod channel;
mod by_hand;
mod ours;
mod round_trip;
mod statistics;
mod theirs;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::channel::{Kind, Shape, consumer, producer};
use crate::statistics::{median, ratios};

const SIZES: [usize; 8] = [8, 64, 512, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20];
const MESSAGES: [usize; 3] = [2, 4, 16];
const WARM_UP: Duration = Duration::from_millis(60);
const TIMED: Duration = Duration::from_millis(150);

fn main() -> Result<()> {
    iceoryx2::prelude::set_log_level(iceoryx2::prelude::LogLevel::Error);
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, kind, size, messages, name] = &args[..]
        && role == "consume"
    {
        return consume(kind.parse()?, Shape::new(size.parse()?, messages.parse()?), name);
    }
    let mut args = args.iter().map(|word| word.parse::<usize>());
    let rounds = args.next().transpose()?.unwrap_or(15);
    let sizes: Vec<usize> = args.collect::<Result<_, _>>()?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    println!("{:>9} {:>3}  {:>9}  ratio of ours to others, with 95 % intervals", "bytes", "n", "ours");
    for size in sizes {
        for messages in MESSAGES {
            measure(Shape::new(size, messages), rounds)?;
        }
    }
    measure_round_trips(rounds)
}

fn measure_round_trips(rounds: usize) -> Result<()> {
    let (mut ours, mut hand) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            ours.push(round_trip::of_rings()?.as_secs_f64());
            hand.push(round_trip::by_hand()?.as_secs_f64());
        } else {
            hand.push(round_trip::by_hand()?.as_secs_f64());
            ours.push(round_trip::of_rings()?.as_secs_f64());
        }
    }
    let ratio = ratios(&ours, &hand);
    let [ours, hand] = [ours, hand].map(|seconds| median(&seconds) * 1e9);
    println!("round trip: rings {ours:.0} ns, words {hand:.0} ns, ratio {ratio}");
    Ok(())
}

/// Measures all kinds of channel, and prints a line.
fn measure(shape: Shape, rounds: usize) -> Result<()> {
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); Kind::ALL.len()];
    for round in 0..rounds {
        for nth in 0..Kind::ALL.len() {
            // Each begins as often as it ends.
            let at = if round % 2 == 0 { nth } else { Kind::ALL.len() - 1 - nth };
            rates[at].push(trial(Kind::ALL[at], shape)?);
        }
    }
    let of = |kind: Kind| &rates[Kind::ALL.iter().position(|one| *one == kind).unwrap_or(0)];
    let ours = median(of(Kind::Spinning));
    print!("{:>9} {:>3}  {}", shape.size, shape.messages, per_s(ours, shape));
    for (one, other) in Kind::PAIRS {
        print!("  {one}/{other} {}", ratios(of(one), of(other)));
    }
    println!();
    Ok(())
}

/// GiB, or millions of messages, per second.
fn per_s(rate: f64, shape: Shape) -> String {
    if shape.size >= 512 {
        format!("{:5.1} GiB", rate * shape.size as f64 / (1u64 << 30) as f64)
    } else {
        format!("{:5.1} M/s", rate / 1e6)
    }
}

/// Messages per second.
fn trial(kind: Kind, shape: Shape) -> Result<f64> {
    pin(0)?;
    let name = format!("fastpipe-{}-{:?}", std::process::id(), Instant::now());
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let (mut producer, given) = producer(kind, shape, &name)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["consume", &kind.to_string()]);
    command.args([shape.size, shape.messages].map(|n| n.to_string()));
    command.arg(&name).stdout(Stdio::piped());
    command.stdin(given.map_or_else(Stdio::null, Stdio::from));
    let mut child = command.spawn()?;
    let mut answers = BufReader::new(child.stdout.take().context("no output")?);
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    ensure!(answer == "ready\n", "the consumer of {kind} did not start: {answer:?}");
    let mut sent = 0u64;
    let mut send_for = |time: Duration, at_least: u64| -> Result<f64> {
        let (before, since) = (sent, Instant::now());
        loop {
            // The clock takes longer than a small message.
            for _ in 0..(4096 / shape.size).clamp(1, 256) {
                producer.send(sent as u8 & 0x7f)?;
                sent += 1;
            }
            if since.elapsed() >= time && sent - before >= at_least {
                return Ok((sent - before) as f64 / since.elapsed().as_secs_f64());
            }
        }
    };
    // Until every page was used: the first use is a fault, unless the memory was mapped at once.
    send_for(WARM_UP, 2 * shape.messages as u64)?;
    let rate = send_for(TIMED, 0)?;
    producer.end()?;
    finish(child, answers, sent)?;
    Ok(rate)
}

fn finish(mut child: Child, mut answers: impl BufRead, sent: u64) -> Result<()> {
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    let status = child.wait()?;
    ensure!(status.success(), "the consumer failed: {status}");
    let got: u64 = answer.trim().parse().context("the consumer's count")?;
    ensure!(got == sent, "{got} of {sent} messages arrived");
    Ok(())
}

/// Takes all messages, checks each, and prints their number.
fn consume(kind: Kind, shape: Shape, name: &str) -> Result<()> {
    pin(1)?;
    let mut consumer = consumer(kind, shape, name)?;
    println!("ready");
    let mut got = 0u64;
    while let Some(sum) = consumer.receive()? {
        let word = u64::from_ne_bytes([got as u8 & 0x7f; 8]);
        let expected = word.wrapping_mul((shape.size / 8) as u64);
        ensure!(sum == expected, "message {got} is wrong");
        got += 1;
    }
    println!("{got}");
    Ok(())
}

fn pin(processor: usize) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set)?;
    Ok(())
}
