//! What an observer costs those whom it observes: it runs and is stopped in random slices.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pipespeed_stats::{self as stats, Rng};
use rustix::process::{Pid, Signal, kill_process};

const SLICE: Duration = Duration::from_millis(50);

/// The ratio of the rates at which a counter grows while a process runs and while it is
/// stopped, with its 95 % interval, as text. The process runs at the end.
pub fn rate_ratio(
    observer: Pid,
    slices: usize,
    read: impl Fn() -> anyhow::Result<u64>,
) -> anyhow::Result<String> {
    let mut rng = Rng::new(1);
    let mut rates = [Vec::new(), Vec::new()];
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
    kill_process(observer, Signal::CONT)?;
    let [off, on] = &rates;
    let ratios: Vec<f64> = on.iter().zip(off).map(|(on, off)| on / off).collect();
    let median = stats::median(&ratios).context("no slices")?;
    let interval = stats::median_interval(&ratios, 0.95).context("too few slices")?;
    Ok(format!(
        "{median:.4} [{:.4}, {:.4}]",
        interval.low, interval.high
    ))
}
