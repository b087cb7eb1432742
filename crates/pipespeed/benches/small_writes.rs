//! Is a `Writer` as good a `Write` as a `BufWriter`?
//!
//! `cargo bench -p pipespeed --bench small_writes [-- --rounds N]`
//!
//! Writes pieces of several sizes to a pipe that `pipespeed read` reads, by
//! `BufWriter`, by `BufWriter` with 64 KiB, and by `Writer` as it is. In
//! each round all of them run, in turns that begin elsewhere each time. Prints
//! the medians with 95 % intervals, and Writer's rate divided by each of
//! the others', paired by round.

mod writers;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use fastpipe::writer::Writer;

const SIZES: [usize; 4] = [16, 200, 8 << 10, 64 << 10];
const WRITERS: [&str; 3] = ["BufWriter", "BufWriter 64K", "Writer"];
const WARM_UP: Duration = Duration::from_millis(20);
const TIMED: Duration = Duration::from_millis(100);

fn main() -> anyhow::Result<()> {
    let rounds = writers::rounds()?;
    let cpus = writers::processors()?;
    for size in SIZES {
        let mut rates = [const { Vec::new() }; WRITERS.len()];
        for round in 0..rounds {
            for turn in 0..WRITERS.len() {
                let which = (round + turn) % WRITERS.len();
                rates[which].push(trial(which, size, cpus)?);
            }
        }
        println!("{size} bytes at a time, GiB/s:");
        let ours = &rates[WRITERS.len() - 1];
        for (name, theirs) in WRITERS.iter().zip(&rates) {
            let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
            println!(
                "  {name:14} {}   Writer x{}",
                writers::summary(theirs)?,
                writers::summary(&ratios)?
            );
        }
    }
    Ok(())
}

/// GiB per second.
fn trial(which: usize, size: usize, cpus: writers::Processors) -> anyhow::Result<f64> {
    let (to, mut reader) = writers::reader(cpus)?;
    let rate = match which {
        0 => timed(BufWriter::new(File::from(to)), size)?,
        1 => timed(BufWriter::with_capacity(64 << 10, File::from(to)), size)?,
        _ => timed(Writer::builder().open(to)?, size)?,
    };
    reader.wait()?;
    Ok(rate)
}

fn timed(mut out: impl Write, size: usize) -> io::Result<f64> {
    let piece = vec![b'x'; size];
    // The clock is looked at now and then only.
    let batch = (256 << 10) / size;
    let started = Instant::now();
    while started.elapsed() < WARM_UP {
        for _ in 0..batch {
            out.write_all(std::hint::black_box(&piece))?;
        }
    }
    let started = Instant::now();
    let mut bytes = 0;
    while started.elapsed() < TIMED {
        for _ in 0..batch {
            out.write_all(std::hint::black_box(&piece))?;
        }
        bytes += batch * size;
    }
    out.flush()?;
    Ok(bytes as f64 / started.elapsed().as_secs_f64() / (1u64 << 30) as f64)
}
