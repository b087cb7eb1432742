//! Medians, intervals, and the processor time of another process.

use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result};

pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median of the ratios, and the order statistics that enclose it with 95 %.
pub fn ratios(of: &[f64], to: &[f64]) -> String {
    let mut ratios: Vec<f64> = of.iter().zip(to).map(|(one, other)| one / other).collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len();
    let from_end = ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0).floor().max(0.0) as usize;
    let (low, high) = (ratios[from_end], ratios[count - 1 - from_end]);
    format!("{:.2} [{low:.2}, {high:.2}]", ratios[count / 2])
}

/// Of all threads, in the kernel's nanoseconds: ticks are too coarse.
#[allow(dead_code, reason = "the rings need none")]
pub fn cpu_time(process: &Child) -> Result<Duration> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", process.id()))? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        sum += stat.split(' ').next().context("schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(sum))
}
