//! What does it cost to be right for every reader?
//!
//! `cargo bench -p pipespeed --bench reuse [-- --rounds N]`
//!
//! Makes data in place and sends it to `pipespeed read`, with each kind of
//! reuse, with several sizes of region, in a process that has nothing else in
//! memory and in ones that have. `CowChecked` has the kernel duplicate the page
//! tables of the whole process now and then: the more memory it has, the more
//! that costs. Both ends wait by spinning (the writer) and blocking (the
//! reader). Prints medians with 95 % intervals, and each rate divided by that
//! of Fresh in the same round.

mod writers;

use std::time::{Duration, Instant};

use fastpipe::Writer;
use fastpipe::method::{AssertReaderCopies, Method};
use fastpipe::wait::Wait;
use pipespeed_measure::data::pattern;

const MIB: usize = 1 << 20;
const WARM_UP: Duration = Duration::from_millis(20);
const TIMED: Duration = Duration::from_millis(100);
const DRAINED: Method = Method::Drained(AssertReaderCopies);

/// Policy and region in MiB.
const ARMS: [(Method, usize); 9] = [
    (Method::Fresh, 2),
    (Method::Fresh, 8),
    (DRAINED, 4),
    (DRAINED, 16),
    (Method::CowChecked, 4),
    (Method::CowChecked, 8),
    (Method::CowChecked, 16),
    (Method::CowChecked, 32),
    (Method::CowChecked, 64),
];

/// Other memory of the process, in MiB of base pages.
const BALLASTS: [usize; 4] = [0, 64, 512, 2048];

fn main() -> anyhow::Result<()> {
    let rounds = writers::rounds()?;
    let cpus = writers::processors()?;
    for mib in BALLASTS {
        let _ballast = vec![1u8; mib * MIB];
        let mut rates = [const { Vec::new() }; ARMS.len()];
        for round in 0..rounds {
            for turn in 0..ARMS.len() {
                let which = (round + turn) % ARMS.len();
                rates[which].push(trial(ARMS[which], cpus)?);
            }
        }
        println!("process of {mib} MiB besides, GiB/s:");
        for ((method, region), theirs) in ARMS.iter().zip(&rates) {
            let ratios: Vec<f64> = theirs.iter().zip(&rates[0]).map(|(a, b)| a / b).collect();
            println!(
                "  {:11} {region:3} MiB  {}   x{} of fresh",
                reuse(*method),
                writers::summary(theirs)?,
                writers::summary(&ratios)?
            );
        }
    }
    Ok(())
}

/// When `method` writes to a page again.
fn reuse(method: Method) -> &'static str {
    match method {
        Method::Drained(_) => "drained",
        Method::CowChecked => "cow_checked",
        _ => "fresh",
    }
}

/// GiB per second.
fn trial((method, mib): (Method, usize), cpus: writers::Processors) -> anyhow::Result<f64> {
    let (to, mut reader) = writers::reader(cpus)?;
    let mut out = Writer::builder()
        .method(method)
        .region(mib * MIB)
        .wait(Wait::Spin)
        .at_once()
        .open(to)?;
    let mut bytes = 0;
    let mut send_for = |time: Duration, least: u64| -> std::io::Result<f64> {
        let started = Instant::now();
        let before = bytes;
        while started.elapsed() < time || bytes - before < least {
            let mut loan = out.lend(0)?;
            pattern::fill(&mut loan, bytes);
            let n = loan.len();
            loan.commit(n)?;
            bytes += n as u64;
        }
        let rate = (bytes - before) as f64 / started.elapsed().as_secs_f64();
        Ok(rate / (1u64 << 30) as f64)
    };
    // Memory that a guest has never used is slow the first time.
    send_for(WARM_UP, 3 * (mib * MIB) as u64)?;
    let rate = send_for(TIMED, 0)?;
    let report = out.report();
    anyhow::ensure!(
        report.is_zero_copy() && report.method == method,
        "{method:?} is not available here: {report}"
    );
    out.finish()?;
    reader.wait()?;
    Ok(rate)
}
