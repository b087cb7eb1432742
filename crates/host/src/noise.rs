//! Steal time, throttling and load by other processes during a measurement, from
//! a reading before and one after.
//!
//! A reading costs one read of `/proc/stat`, plus one for each control group
//! with a quota: about 5 microseconds on a machine of two processors, about a
//! millisecond on servers of a hundred, since the kernel sums all interrupt
//! counts for it. Take readings outside the timed part. The kernel counts in ticks
//! of 10 ms (`sysconf(_SC_CLK_TCK)`), too coarse for a single short trial, so
//! warnings are based on the sum over all trials.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::cgroup::OwnQuotas;
use super::root::Root;

/// Takes readings, from files that it opens once.
#[derive(Debug)]
pub struct NoiseProbe {
    stat: Option<File>,
    /// Bytes of `/proc/stat` that contain the lines of all processors.
    stat_bytes: usize,
    /// `cpu.stat` of each group with a quota; `None` if control groups are not
    /// visible.
    throttling: Option<Vec<File>>,
    ticks_per_s: f64,
}

/// The counts since boot at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseReading {
    /// CLOCK_MONOTONIC, in seconds.
    pub(super) at_s: f64,
    /// By the processor's number; `None` is the sum over all processors as the kernel
    /// rounds it. Empty if `/proc/stat` is not readable.
    cpus: BTreeMap<Option<usize>, CpuSeconds>,
    /// How long our groups were stopped by their quotas, in seconds.
    throttled_s: Option<f64>,
}

/// CPU time, in seconds (proc_stat(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct CpuSeconds {
    /// Time in user mode, in the kernel, and in interrupts.
    busy: f64,
    /// Time in which the host did not run this guest.
    steal: f64,
}

/// Differences between two readings. Quantities that the kernel doesn't show are
/// `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoiseDelta {
    /// The time between the readings.
    pub seconds: f64,
    /// Steal time as a share of the time of the requested processors.
    pub steal_share: Option<f64>,
    /// How long the quota of a control group stopped its processes, in seconds
    /// summed over processors.
    pub throttled_s: Option<f64>,
    /// The mean number of processors used by other processes.
    pub other_load: Option<f64>,
}

impl Default for NoiseProbe {
    fn default() -> Self {
        NoiseProbe::open(&Root::default())
    }
}

impl NoiseProbe {
    /// Opens the files below a root. Quotas set later are not noticed.
    pub fn open(root: &Root) -> Self {
        let quotas = OwnQuotas::read(root);
        let open = |file: PathBuf| File::open(root.path(file)).ok();
        let groups = quotas.groups.iter();
        let files = groups.filter_map(|group| open(group.directory.join("cpu.stat")));
        let stat = root.text("proc/stat").unwrap_or_default();
        let lines = stat.lines().filter(|line| line.starts_with("cpu")).count();
        NoiseProbe {
            // Ten counts a line, each of at most a dozen digits.
            stat_bytes: (lines + 1) * 160,
            stat: open("proc/stat".into()),
            throttling: quotas.version.map(|_| files.collect()),
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
        }
    }

    /// Reads the counts.
    pub fn take(&self) -> NoiseReading {
        let now = clock_gettime(ClockId::Monotonic);
        self.take_at(now.tv_sec as f64 + now.tv_nsec as f64 / 1e9)
    }

    /// Reads the counts, with `at_s` as their time.
    pub(super) fn take_at(&self, at_s: f64) -> NoiseReading {
        let stat = self.stat.as_ref();
        let text = stat.and_then(|stat| processor_lines(stat, self.stat_bytes));
        let text = text.unwrap_or_default();
        let throttled = self.throttling.as_ref();
        NoiseReading {
            at_s,
            cpus: text.lines().filter_map(|line| self.ticks(line)).collect(),
            throttled_s: throttled.map(|files| files.iter().filter_map(throttled_s).sum()),
        }
    }

    /// Parses a line of `/proc/stat`: `cpu` for all processors, `cpu3` for one.
    /// The fields are user, nice, system, idle, iowait, irq, softirq, steal; user
    /// and nice include the guest fields that follow.
    fn ticks(&self, line: &str) -> Option<(Option<usize>, CpuSeconds)> {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let number = match words.next()? {
            "" => None,
            number => Some(number.parse().ok()?),
        };
        let mut counts = words
            .filter(|word| !word.is_empty())
            .map_while(|word| word.parse::<u64>().ok());
        let seconds = |_: usize| counts.next().unwrap_or(0) as f64 / self.ticks_per_s;
        let [user, nice, system, _idle, _iowait, _irq, _softirq, steal] =
            std::array::from_fn(seconds);
        Some((
            number,
            CpuSeconds {
                // Interrupts are no process's, and those of loopback connections our own.
                busy: user + nice + system,
                steal,
            },
        ))
    }
}

impl NoiseDelta {
    /// Combines several intervals: sums the seconds, also the throttled ones, and
    /// takes the means of the others, weighted by time. `None` if empty.
    pub fn overall(deltas: &[NoiseDelta]) -> Option<NoiseDelta> {
        let mean = |of: fn(&NoiseDelta) -> Option<f64>| {
            let (mut sum, mut seconds) = (0.0, 0.0);
            for delta in deltas {
                if let Some(value) = of(delta) {
                    sum += value * delta.seconds;
                    seconds += delta.seconds;
                }
            }
            (seconds > 0.0).then(|| sum / seconds)
        };
        let throttled = deltas.iter().filter_map(|delta| delta.throttled_s);
        (!deltas.is_empty()).then(|| NoiseDelta {
            seconds: deltas.iter().map(|delta| delta.seconds).sum(),
            steal_share: mean(|delta| delta.steal_share),
            throttled_s: throttled.reduce(|a, b| a + b),
            other_load: mean(|delta| delta.other_load),
        })
    }
}

/// How much of some processors was used between two readings.
pub(super) struct Used {
    /// The number of these processors.
    pub(super) processors: usize,
    /// The number of all processors.
    pub(super) all: usize,
    /// The mean number of them that ran processes.
    pub(super) others: f64,
    /// The mean number of them that the hypervisor withheld.
    pub(super) stolen: f64,
}

impl NoiseReading {
    /// Whether `/proc/stat` was readable.
    pub(super) fn has_counts(&self) -> bool {
        !self.cpus.is_empty()
    }

    /// The use of these processors since an earlier reading, each counted once; of all if none
    /// are given. `None` if their counts are unknown.
    pub(super) fn used_since(&self, earlier: &NoiseReading, cpus: &[usize]) -> Option<Used> {
        let seconds = self.at_s - earlier.at_s;
        // Without the sum over all.
        let all = self.cpus.len().saturating_sub(1);
        let mut chosen: Vec<Option<usize>> = cpus.iter().copied().map(Some).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let processors = if chosen.is_empty() { all } else { chosen.len() };
        if chosen.is_empty() {
            chosen.push(None);
        }
        let mut used = Used {
            processors,
            all,
            others: 0.0,
            stolen: 0.0,
        };
        for cpu in chosen {
            // Counts may decrease when a processor goes offline.
            let (now, then) = (self.cpus.get(&cpu)?, earlier.cpus.get(&cpu)?);
            used.others += (now.busy - then.busy).max(0.0) / seconds;
            used.stolen += (now.steal - then.steal).max(0.0) / seconds;
        }
        (seconds > 0.0).then_some(used)
    }

    /// The difference to an earlier reading. Steal is that of `cpus`, or of all
    /// processors if `cpus` is empty. `own_cpu_s` is the CPU time of all our
    /// processes between the two readings, with starting and warm-up; the rest
    /// counts as load by others.
    pub fn since(&self, earlier: &NoiseReading, cpus: &[usize], own_cpu_s: f64) -> NoiseDelta {
        let seconds = (self.at_s - earlier.at_s).max(0.0);
        // The share is of `seconds`, since ticks are too coarse for short times.
        let chosen = self.used_since(earlier, cpus);
        let stolen = chosen.map(|used| used.stolen / used.processors as f64);
        let all = self.used_since(earlier, &[]);
        let throttled = self.throttled_s.zip(earlier.throttled_s);
        NoiseDelta {
            seconds,
            steal_share: stolen
                .filter(|share| share.is_finite())
                .map(|share| share.min(1.0)),
            throttled_s: throttled.map(|(now, then)| (now - then).max(0.0)),
            other_load: all.map(|used| (used.others - own_cpu_s / seconds).max(0.0)),
        }
    }
}

/// The processors' lines of `/proc/stat`, which come first. A single read, since
/// for a second one the kernel would count again.
fn processor_lines(stat: &File, bytes: usize) -> Option<String> {
    let mut buffer = vec![0; bytes];
    let got = stat.read_at(&mut buffer, 0).ok()?;
    let text = String::from_utf8_lossy(buffer.get(..got)?);
    // The last line may be incomplete.
    let end = text.rfind('\n').unwrap_or(0);
    Some(text[..end].to_owned())
}

/// How long a group was stopped, in seconds. Version 2 counts microseconds,
/// version 1 nanoseconds.
fn throttled_s(file: &File) -> Option<f64> {
    let mut buffer = [0; 2048];
    let got = file.read_at(&mut buffer, 0).ok()?;
    String::from_utf8_lossy(&buffer[..got])
        .lines()
        .find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            let per_s = match name {
                "throttled_usec" => 1e6,
                "throttled_time" => 1e9,
                _ => return None,
            };
            Some(value.trim().parse::<f64>().ok()? / per_s)
        })
}
