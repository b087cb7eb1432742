//! FizzBuzz without a pipe: how fast it is made, and whether it is right.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages};
use pipespeed_base::Named as _;
use pipespeed_tools::fizzbuzz::{CodePath, FizzBuzz, naive};

/// Stays in the second-level cache.
const BUFFER: usize = 128 << 10;
const TIMED: Duration = Duration::from_millis(20);

/// What is compared line by line with the naive lines, in bytes.
const CHECKED: u64 = 24 << 30;

/// Prints how fast lines are made into memory that is written again and again.
pub fn print(rounds: usize) -> anyhow::Result<()> {
    println!(
        "fizzbuzz into memory ({} KiB, written again and again)",
        BUFFER >> 10
    );
    let mut buffer = Buffer::builder().len(BUFFER).pages(Pages::Huge).map()?;
    for &path in CodePath::VALUES {
        if !path.is_supported() {
            println!("  {:10} skipped: not known to this processor", path.name());
            continue;
        }
        for digits in [7, 10, 13, 18] {
            let mut rates = Vec::new();
            for _ in 0..rounds {
                let mut lines = FizzBuzz::with_path(path, 10u64.pow(digits - 1), u64::MAX);
                let started = Instant::now();
                let mut bytes = 0;
                while started.elapsed() < TIMED {
                    for _ in 0..16 {
                        bytes += lines.fill(&mut buffer);
                        black_box(&mut *buffer);
                    }
                }
                rates.push(bytes as f64 / started.elapsed().as_secs_f64() / super::GIB);
            }
            let ns: Vec<f64> = rates.iter().map(|rate| 64e9 / rate / super::GIB).collect();
            println!(
                "  {:10} {digits:2} digits  {:>22} GiB/s  {:>18} ns for 64 bytes",
                path.name(),
                super::summary(&rates)?,
                super::summary(&ns)?,
            );
        }
    }
    Ok(())
}

/// Compares much with the naive lines.
pub fn check() -> anyhow::Result<()> {
    let path = CodePath::fastest();
    let started = Instant::now();
    let mut checked = 0;
    let mut buffer = vec![0; BUFFER];
    // From 1 on, and around changes of the digit count.
    for from in [1, 9_990_000_000, 999_990_000_000, 99_999_999_990_000_000] {
        let mut lines = FizzBuzz::with_path(path, from, u64::MAX);
        let mut expected = Naive::new(from);
        let mut left = CHECKED / 4;
        while left > 0 {
            let n = lines.fill(&mut buffer);
            anyhow::ensure!(expected.is(&buffer[..n]), "a wrong byte, from {from} on");
            left = left.saturating_sub(n as u64);
            checked += n;
        }
    }
    println!(
        "fizzbuzz exact: {} GiB by {} compared with naive lines in {:.0} s, every byte right",
        checked >> 30,
        path.name(),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// The naive lines, piece by piece.
struct Naive {
    next: u64,
    line: [u8; 24],
    at: usize,
    end: usize,
}

impl Naive {
    fn new(from: u64) -> Self {
        Naive {
            next: from,
            line: [0; 24],
            at: 0,
            end: 0,
        }
    }

    fn is(&mut self, mut got: &[u8]) -> bool {
        while !got.is_empty() {
            if self.at == self.end {
                self.end = naive::push_line(self.next, &mut self.line);
                self.at = 0;
                self.next += 1;
            }
            let n = got.len().min(self.end - self.at);
            if got[..n] != self.line[self.at..self.at + n] {
                return false;
            }
            self.at += n;
            got = &got[n..];
        }
        true
    }
}
