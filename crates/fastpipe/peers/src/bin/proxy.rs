//! A TCP proxy over loopback: CPU time per GiB, and throughput, of fastpipe's `copy_bidirectional`,
//! tokio's and tokio-splice2's. The proxy is a process of its own; client and server are threads here.
//!
//! ```text
//! cargo run --release --bin proxy [-- ROUNDS [MIB]]
//! ```
//!
//! All take turns within a round; ratios are paired by round. The last lines are of many short
//! connections.

#[path = "../statistics.rs"]
mod statistics;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::statistics::{cpu_time, median, ratios};

const KINDS: [&str; 4] = ["fastpipe", "tokio", "tokio-128k", "tokio-splice2"];
const SHORT: usize = 3000;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, kind, server] = &args[..]
        && role == "serve"
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        return runtime.block_on(serve(kind, server.parse()?));
    }
    let mut args = args.iter().map(|word| word.parse::<usize>());
    let rounds = args.next().transpose()?.unwrap_or(15);
    let bytes = args.next().transpose()?.unwrap_or(2048) << 20;
    for short in [false, true] {
        let mut costs = KINDS.map(|_| Vec::new());
        let mut rates = KINDS.map(|_| Vec::new());
        for round in 0..rounds {
            for nth in 0..KINDS.len() {
                let at = if round % 2 == 0 { nth } else { KINDS.len() - 1 - nth };
                let (cost, rate) = trial(KINDS[at], if short { 0 } else { bytes })?;
                costs[at].push(cost);
                rates[at].push(rate);
            }
        }
        let what = if short { "connections of 100 bytes: CPU us each, per s" } else { "CPU ms/GiB, GiB/s" };
        println!("{what}; ratios of fastpipe's to it");
        for at in 0..KINDS.len() {
            let (cost, rate) = (ratios(&costs[0], &costs[at]), ratios(&rates[0], &rates[at]));
            println!(
                "{:>14} {:8.1} {:8.2}   cost {cost}   rate {rate}",
                KINDS[at], median(&costs[at]), median(&rates[at])
            );
        }
    }
    Ok(())
}

/// Cost and rate: of one connection with this many bytes, or of many short ones.
fn trial(kind: &str, bytes: usize) -> Result<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", kind, &listener.local_addr()?.to_string()]);
    let mut proxy = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(proxy.stdout.take().context("no output")?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    let address: SocketAddr = line.trim().parse()?;
    let outcome = if bytes > 0 { long(&listener, address, bytes) } else { short(&listener, address) };
    let elapsed = outcome?;
    let cost = cpu_time(&proxy)?;
    drop(proxy.stdin.take());
    ensure!(proxy.wait()?.success(), "the proxy failed");
    Ok(if bytes > 0 {
        let gib = bytes as f64 / (1u64 << 30) as f64;
        (cost.as_secs_f64() * 1e3 / gib, gib / elapsed.as_secs_f64())
    } else {
        (cost.as_secs_f64() * 1e6 / SHORT as f64, SHORT as f64 / elapsed.as_secs_f64())
    })
}

fn long(listener: &TcpListener, address: SocketAddr, bytes: usize) -> Result<Duration> {
    let started = Instant::now();
    let sending = thread::spawn(move || -> Result<()> {
        let mut client = TcpStream::connect(address)?;
        let piece = vec![7; 256 << 10];
        for _ in 0..bytes / piece.len() {
            client.write_all(&piece)?;
        }
        client.shutdown(std::net::Shutdown::Write)?;
        ensure!(client.read(&mut [0])? == 0, "no end");
        Ok(())
    });
    let (mut server, _) = listener.accept()?;
    let (mut got, mut piece) = (0, vec![0; 256 << 10]);
    loop {
        match server.read(&mut piece)? {
            0 => break,
            n => got += n,
        }
    }
    drop(server);
    ensure!(got == bytes, "{got} of {bytes} bytes arrived");
    match sending.join() {
        Ok(sent) => sent?,
        Err(_) => bail!("the client panicked"),
    }
    Ok(started.elapsed())
}

fn short(listener: &TcpListener, address: SocketAddr) -> Result<Duration> {
    let started = Instant::now();
    for _ in 0..SHORT {
        let mut client = TcpStream::connect(address)?;
        client.write_all(&[7; 100])?;
        let (mut server, _) = listener.accept()?;
        server.read_exact(&mut [0; 100])?;
        server.write_all(&[8; 100])?;
        drop(server);
        client.read_exact(&mut [0; 100])?;
        drop(client);
    }
    Ok(started.elapsed())
}

async fn serve(kind: &str, server: SocketAddr) -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    let serving = async {
        loop {
            let (client, _) = listener.accept().await?;
            let kind = kind.to_owned();
            tokio::spawn(async move {
                if let Err(error) = pass(&kind, client, server).await {
                    eprintln!("{kind}: {error}");
                }
            });
        }
        #[expect(unreachable_code, reason = "the type of the result")]
        anyhow::Ok(())
    };
    tokio::select! {
        failed = serving => failed,
        _ = ended => Ok(()),
    }
}

async fn pass(kind: &str, mut client: tokio::net::TcpStream, server: SocketAddr) -> Result<()> {
    let mut server = tokio::net::TcpStream::connect(server).await?;
    match kind {
        "fastpipe" => _ = fastpipe::tokio::copy_bidirectional(&client, &server).await?,
        "tokio" => _ = tokio::io::copy_bidirectional(&mut client, &mut server).await?,
        "tokio-128k" => {
            let size = 128 << 10;
            let (a, b) = (&mut client, &mut server);
            _ = tokio::io::copy_bidirectional_with_sizes(a, b, size, size).await?;
        }
        "tokio-splice2" => _ = tokio_splice2::copy_bidirectional(&mut client, &mut server).await?,
        _ => bail!("no proxy is called {kind}"),
    }
    Ok(())
}
