//! Taking samples of a process while it runs.
//!
//! The samples wait in memory shared with the kernel until the process has
//! ended: nobody reads them meanwhile, so that sampling disturbs by nothing but
//! its interrupts. What does not fit is counted as lost.

use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use super::refusal::{Facts, Refusal, mapping, opening};

/// What a sample is taken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The processor's cycle counter: sees into code that runs with interrupts
    /// off.
    Cycles,
    /// A timer while the process runs: samples fall due with interrupts off and
    /// are taken where they are let in again.
    CpuClock,
}

impl Event {
    /// The name in data.
    pub fn name(self) -> &'static str {
        match self {
            Event::Cycles => "cycles",
            Event::CpuClock => "cpu-clock",
        }
    }
}

/// Samples a second of running time: twice as many slow a guest's spinning ends
/// down by a fifth. No multiple of the kernel's tick, so as not to fall into step
/// with it.
pub const FREQUENCY: u64 = 1999;

/// Call chains of some thirty frames make samples of about 300 bytes: this
/// holds most of a second of running.
const RING_BYTES: usize = 512 << 10;
/// Where an end may run on any of several processors there is a ring for each.
/// Two ends with such rings stay within what is granted without privilege
/// (/proc/sys/kernel/perf_event_mlock_kb, 516 a processor).
const RING_BYTES_EACH: usize = 256 << 10;

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// How much it stands for, in the event's unit.
    pub weight: u64,
    /// Addresses in the kernel, innermost first; none where the process ran its
    /// own code.
    pub kernel: Vec<u64>,
}

/// What was sampled of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// Those kept.
    pub samples: Vec<Sample>,
    /// How many found no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for taking too much time.
    pub throttled: u64,
}

/// Samples one process, and its threads and children to come.
pub struct Probe {
    rings: Vec<Sampler>,
}

/// The best event that this machine grants.
///
/// # Errors
/// Why there is none.
pub fn best_event(facts: &Facts) -> Result<Event, Refusal> {
    // Its own process will do to find out.
    let try_out = |event| open(event, None, None).map(drop);
    if try_out(Event::Cycles).is_ok() {
        return Ok(Event::Cycles);
    }
    try_out(Event::CpuClock).map_err(|error| opening(error, facts))?;
    Ok(Event::CpuClock)
}

fn open(
    event: Event,
    pid: Option<u32>,
    cpu: Option<usize>,
) -> std::io::Result<perf_event::Counter> {
    let mut builder = match event {
        Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Event::CpuClock => Builder::new(Software::CPU_CLOCK),
    };
    // DATA_SRC says nothing of interest: perf-event-data 0.1.8 takes a record that
    // ends in an empty call chain for one cut short, so something has to follow.
    builder
        .sample_frequency(FREQUENCY)
        .sample(
            SampleFlag::IP
                | SampleFlag::TID
                | SampleFlag::TIME
                | SampleFlag::PERIOD
                | SampleFlag::CALLCHAIN
                | SampleFlag::DATA_SRC,
        )
        .exclude_kernel(false)
        .exclude_callchain_user(true)
        .clockid(Clock::MONOTONIC);
    if let Some(pid) = pid {
        builder.observe_pid(pid as i32).inherit(true);
    }
    if let Some(cpu) = cpu {
        builder.one_cpu(cpu);
    }
    builder.build()
}

impl Probe {
    /// Begins to sample a process where it runs on one of `cpus`.
    ///
    /// The kernel passes an event on to threads and children only if it is
    /// bound to a processor (kernel/events/core.c, `perf_mmap`), hence one for
    /// each.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn attach(event: Event, pid: u32, cpus: &[usize], facts: &Facts) -> Result<Self, Refusal> {
        let bytes = match cpus.len() {
            1 => RING_BYTES,
            _ => RING_BYTES_EACH,
        };
        let mut rings = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let counter =
                open(event, Some(pid), Some(*cpu)).map_err(|error| opening(error, facts))?;
            rings.push(counter.sampled(bytes).map_err(mapping)?);
        }
        for ring in &mut rings {
            ring.enable().map_err(Refusal::Other)?;
        }
        Ok(Probe { rings })
    }

    /// What was sampled, once the process has ended.
    pub fn collect(mut self) -> Samples {
        let mut samples = Samples::default();
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                let in_kernel = record.misc() & CPU_MODE == IN_KERNEL;
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let mut kernel = sample.callchain().map(kernel_part).unwrap_or_default();
                        // Where the kernel could not walk its own stack.
                        if in_kernel && kernel.is_empty() {
                            kernel.extend(sample.ip());
                        }
                        samples.samples.push(Sample {
                            time_ns: sample.time().unwrap_or(0),
                            weight: sample.period().unwrap_or(1),
                            kernel,
                        });
                    }
                    Ok(Record::Lost(lost)) => samples.lost += lost.lost,
                    Ok(Record::Throttle(_)) => samples.throttled += 1,
                    Ok(_) => {}
                    Err(_) => samples.lost += 1,
                }
            }
        }
        samples
    }
}

/// The bits of a record that say where the processor was
/// (PERF_RECORD_MISC_CPUMODE_MASK, include/uapi/linux/perf_event.h), and their
/// value in the kernel.
const CPU_MODE: u16 = 7;
const IN_KERNEL: u16 = 1;

/// Context markers in a call chain (PERF_CONTEXT_MAX and above,
/// include/uapi/linux/perf_event.h) are the last 4095 numbers.
const MARKERS: u64 = -4095_i64 as u64;
/// What follows lies in the kernel (PERF_CONTEXT_KERNEL).
const KERNEL: u64 = -128_i64 as u64;

fn kernel_part(chain: &[u64]) -> Vec<u64> {
    let mut inside = false;
    let mut kernel = Vec::new();
    for &entry in chain {
        if entry >= MARKERS {
            inside = entry == KERNEL;
        } else if inside {
            kernel.push(entry);
        }
    }
    kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_part_of_a_chain_is_kept() {
        let user = -512_i64 as u64;
        assert_eq!(kernel_part(&[KERNEL, 1, 2, user, 3]), [1, 2]);
        assert_eq!(kernel_part(&[user, 3, 4]), [0; 0]);
        assert_eq!(kernel_part(&[]), [0; 0]);
    }
}
