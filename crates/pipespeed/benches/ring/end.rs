//! One end of a ring of ours: what `ring.c` does, by the library.

use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fastpipe::ring::{Consumer, Peer, Producer};
use fastpipe::wait::Wait;
use rustix::thread::{CpuSet, sched_setaffinity};

const LOOK_EVERY: u64 = 1 << 20;

struct Plan {
    copies: bool,
    wait: Wait,
    piece: usize,
    warm_up: Duration,
    timed: Duration,
}

/// The arguments are those of `ring.c`.
pub fn run(role: &str, arguments: &[String]) -> anyhow::Result<()> {
    let [how, wait, piece, _capacity, cpu, warm_up, timed] = arguments else {
        bail!("arguments as those of ring.c");
    };
    if let Ok(cpu) = cpu.parse() {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set)?;
    }
    let plan = Plan {
        copies: how == "copy",
        wait: match wait.as_str() {
            "block" => Wait::Block,
            "spin" => Wait::Spin,
            _ => Wait::Adaptive,
        },
        piece: piece.parse()?,
        warm_up: Duration::from_millis(warm_up.parse()?),
        timed: Duration::from_millis(timed.parse()?),
    };
    let memory = std::io::stdin().as_fd().try_clone_to_owned()?;
    if role == "produce" {
        let mut producer = Producer::from_fd(memory)?;
        producer.watch(Peer::parent()?);
        producer.set_wait(plan.wait);
        match produce(&mut producer, &plan) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            done => Ok(done?),
        }
    } else {
        let mut consumer = Consumer::from_fd(memory)?;
        consumer.watch(Peer::parent()?);
        consumer.set_wait(plan.wait);
        consume(&mut consumer, &plan)
    }
}

fn produce(producer: &mut Producer, plan: &Plan) -> std::io::Result<()> {
    let mut own = vec![0; plan.piece];
    let mut value = 0u8;
    loop {
        if plan.copies {
            own.fill(value);
            producer.write_all(black_box(&own))?;
        } else {
            let mut slot = producer.lend(plan.piece)?;
            slot.fill(0..plan.piece, value);
            slot.commit(plan.piece);
        }
        value = value.wrapping_add(1);
    }
}

fn consume(consumer: &mut Consumer, plan: &Plan) -> anyhow::Result<()> {
    let mut own = vec![0; plan.piece];
    let started = Instant::now();
    let mut timed_from = None;
    let (mut got, mut look_at) = (0u64, LOOK_EVERY);
    loop {
        if plan.copies {
            consumer.read_exact(&mut own)?;
            black_box(sum(&own));
        } else {
            let view = consumer.peek(plan.piece)?;
            // Copying 64 bytes at a time out of the view needs no `unsafe` and
            // was 0.7 as fast: where they lie is checked each time.
            // SAFETY: the other process is this program, and writes to what was
            // released only.
            let bytes = unsafe { view.bytes() };
            let piece = bytes.get(..plan.piece).context("the producer left")?;
            black_box(sum(piece));
            view.release(plan.piece);
        }
        got += plan.piece as u64;
        if got < look_at {
            continue;
        }
        look_at = got + LOOK_EVERY;
        let now = Instant::now();
        match timed_from {
            None if now - started >= plan.warm_up => timed_from = Some((now, got)),
            Some((since, from)) if now - since >= plan.timed => {
                println!("{} {}", got - from, (now - since).as_nanos());
                return Ok(());
            }
            _ => {}
        }
    }
}

/// Four vectors at a time, as `ring.c` does it: what is compared is rings, not
/// compilers. The pieces are multiples of 64 bytes.
fn sum(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 8];
    for line in bytes.as_chunks::<64>().0 {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}
