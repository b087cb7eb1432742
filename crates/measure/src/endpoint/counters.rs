//! The resource usage of a process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use fastpipe::transfer::Counts;
use nix::sys::resource::{UsageWho, getrusage};

use crate::record::EndCounters;

/// Reads this process's counters. Keeps /proc/self/schedstat open, so that a reading
/// takes only a few microseconds.
#[derive(Debug)]
pub struct Meter {
    schedstat: Option<File>,
}

/// The counters at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The time of the reading in nanoseconds of CLOCK_MONOTONIC, which is the same in
    /// all processes (clock_gettime(2)).
    pub monotonic_ns: u64,
    bytes: u64,
    counts: Counts,
    cpu: Duration,
    voluntary_switches: u64,
    involuntary_switches: u64,
    page_faults: u64,
    run_delay: Option<Duration>,
}

impl Default for Meter {
    fn default() -> Self {
        Meter {
            schedstat: File::open("/proc/self/schedstat").ok(),
        }
    }
}

impl Meter {
    /// Reads the counters. `bytes` and `counts` are those of the channel's end.
    pub fn read(&self, bytes: u64, counts: Counts) -> Reading {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let count = |get: fn(&nix::sys::resource::Usage) -> i64| {
            usage.as_ref().map_or(0, |usage| get(usage) as u64)
        };
        Reading {
            bytes,
            counts,
            cpu: process_time(),
            voluntary_switches: count(|usage| usage.voluntary_context_switches()),
            involuntary_switches: count(|usage| usage.involuntary_context_switches()),
            page_faults: count(|usage| usage.minor_page_faults() + usage.major_page_faults()),
            run_delay: self.run_delay(),
            monotonic_ns: monotonic_ns(),
        }
    }

    /// Reads the counters that do not depend on a channel.
    pub fn used(&self) -> Reading {
        self.read(0, Counts::default())
    }

    fn run_delay(&self) -> Option<Duration> {
        let mut text = [0; 96];
        let n = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        parse_run_delay(std::str::from_utf8(&text[..n]).ok()?)
    }
}

/// Seconds that a process has waited for a processor so far. Readable until it is
/// reaped.
pub fn run_delay_s(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(parse_run_delay(&text)?.as_secs_f64())
}

/// The second number of schedstat: nanoseconds spent runnable, but waiting
/// (Documentation/scheduler/sched-stats.rst).
fn parse_run_delay(schedstat: &str) -> Option<Duration> {
    let delay = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(delay))
}

impl Reading {
    /// The usage since `earlier`.
    pub fn since(&self, earlier: &Reading) -> EndCounters {
        EndCounters {
            bytes: self.bytes - earlier.bytes,
            seconds: (self.monotonic_ns - earlier.monotonic_ns) as f64 / 1e9,
            cpu_s: (self.cpu - earlier.cpu).as_secs_f64(),
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            syscalls: self.counts.syscalls - earlier.counts.syscalls,
            moving_calls: self.counts.moving_calls - earlier.counts.moving_calls,
            would_blocks: self.counts.would_blocks - earlier.counts.would_blocks,
            page_faults: self.page_faults - earlier.page_faults,
            run_delay_s: self
                .run_delay
                .zip(earlier.run_delay)
                .map(|(now, then)| (now - then).as_secs_f64()),
        }
    }
}

/// Processor time of this process, user and system (clock_gettime(2)).
pub fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds of CLOCK_MONOTONIC, which is the same in all processes.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
