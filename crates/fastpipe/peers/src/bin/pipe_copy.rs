//! A program between two pipes: CPU time per GiB, and throughput, of fastpipe's `copy`, of its copy on
//! tokio, and of Go's `io.Copy` (copy.go, built by `go build`). Writer and reader are threads here.
//!
//! ```text
//! cargo run --release --bin pipe_copy [-- ROUNDS [MIB]]
//! ```

#[path = "../statistics.rs"]
mod statistics;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::statistics::{cpu_time, median, ratios};

const KINDS: [&str; 3] = ["fastpipe", "fastpipe-tokio", "go"];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("fastpipe") => return Ok(fastpipe::copy(io::stdin(), io::stdout()).map(drop)?),
        Some("fastpipe-tokio") => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            let copying = fastpipe::tokio::copy(io::stdin(), io::stdout());
            return Ok(runtime.block_on(copying).map(drop)?);
        }
        _ => {}
    }
    let mut args = args.iter().map(|word| word.parse::<usize>());
    let rounds = args.next().transpose()?.unwrap_or(15);
    let bytes = args.next().transpose()?.unwrap_or(4096) << 20;
    let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/copy");
    let build = ["build", "-o", "target/copy", "copy.go"];
    let built = Command::new("go").args(build).current_dir(env!("CARGO_MANIFEST_DIR")).status();
    ensure!(built.is_ok_and(|status| status.success()), "go build -o {} copy.go failed", go.display());
    let mut costs = KINDS.map(|_| Vec::new());
    let mut rates = KINDS.map(|_| Vec::new());
    for round in 0..rounds {
        for nth in 0..KINDS.len() {
            let at = if round % 2 == 0 { nth } else { KINDS.len() - 1 - nth };
            let (cost, rate) = trial(KINDS[at], &go, bytes)?;
            costs[at].push(cost);
            rates[at].push(rate);
        }
    }
    println!("CPU ms/GiB, GiB/s; ratios to go's");
    for at in 0..KINDS.len() {
        let (cost, rate) = (ratios(&costs[at], &costs[2]), ratios(&rates[at], &rates[2]));
        let (ms, gib) = (median(&costs[at]), median(&rates[at]));
        println!("{:>14} {ms:8.1} {gib:8.2}   cost {cost}   rate {rate}", KINDS[at]);
    }
    Ok(())
}

/// CPU time of the program between, in ms per GiB, and GiB per second.
fn trial(kind: &str, go: &Path, bytes: usize) -> Result<(f64, f64)> {
    let ((input, mut writer), (mut reader, output)) = (io::pipe()?, io::pipe()?);
    let mut command = if kind == "go" {
        Command::new(go)
    } else {
        let mut own = Command::new(std::env::current_exe()?);
        own.arg(kind);
        own
    };
    // The program must not see its own write end.
    let (wait, mut end) = io::pipe()?;
    let started = Instant::now();
    let mut child = command.stdin(Stdio::from(OwnedFd::from(input))).stdout(output).spawn()?;
    drop(command);
    let writing = thread::spawn(move || -> Result<()> {
        let piece = vec![7; 64 << 10];
        for _ in 0..bytes / piece.len() {
            writer.write_all(&piece)?;
        }
        // Its time is read while it still waits for the end.
        File::from(OwnedFd::from(wait)).read_exact(&mut [0])?;
        Ok(())
    });
    let (mut got, mut piece) = (0, vec![0; 256 << 10]);
    while got < bytes {
        match reader.read(&mut piece)? {
            0 => break,
            n => got += n,
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    ensure!(got == bytes, "{got} of {bytes} bytes arrived");
    let cost = cpu_time(&child)?;
    end.write_all(&[0]).context("the writer has ended")?;
    match writing.join() {
        Ok(written) => written?,
        Err(_) => bail!("the writer panicked"),
    }
    ensure!(child.wait()?.success(), "{kind} failed");
    let gib = bytes as f64 / (1u64 << 30) as f64;
    Ok((cost.as_secs_f64() * 1e3 / gib, gib / elapsed))
}
