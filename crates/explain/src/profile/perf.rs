//! Taking samples of a process while it runs.
//!
//! The samples wait in memory shared with the kernel. Those of a trial stay
//! there until it is over: nobody reads them meanwhile, so that sampling
//! disturbs by nothing but its interrupts. A pipeline may take any time, so its
//! samples are read as it goes. What does not fit is counted as lost.

use std::io;

use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::io::Errno;

use super::symbols::{Symbols, SymbolsError};
use pipespeed_host::Root;
use pipespeed_host::refusals::{self, Call, Refusal, hidden_symbols};

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

/// Memory for samples on each of `cpus` processors, of two ends that are not
/// read before they have ended.
pub fn ring_bytes(cpus: usize) -> usize {
    match cpus {
        1 => RING_BYTES,
        _ => RING_BYTES_EACH,
    }
}

/// The same where so many processes are sampled and read as they go, who
/// together stay within what is granted without privilege. Each ring takes a
/// page more.
pub fn shared_ring_bytes(processes: usize) -> usize {
    const GRANTED: usize = 516 << 10;
    const MIN: usize = 16 << 10;
    let each = (GRANTED / processes.max(1)).saturating_sub(rustix::param::page_size());
    let power = each.checked_ilog2().map_or(0, |log| 1 << log);
    power.clamp(MIN, RING_BYTES_EACH)
}

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

/// Who is told what was sampled of a process.
pub trait Take {
    /// A sample.
    fn sample(&mut self, sample: Sample);
    /// So many samples found no room.
    fn lost(&mut self, count: u64);
    /// The kernel stopped sampling for taking too much time.
    fn throttled(&mut self);
}

/// Samples one process, and its threads and children to come.
pub struct Probe {
    rings: Vec<Sampler>,
}

/// How this machine can be sampled.
#[derive(Debug)]
pub struct Sampling {
    /// What samples are taken by.
    pub event: Event,
    /// Names for the kernel's functions.
    pub symbols: Symbols,
}

impl Sampling {
    /// Finds the best event that is allowed, and reads the kernel's symbols.
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn find() -> Result<Self, SamplingError> {
        // It is tried out on this process.
        let is_allowed = |event| open(event, None, None).map(|_| event);
        let event = is_allowed(Event::Cycles)
            .or_else(|_| is_allowed(Event::CpuClock))
            .map_err(|error| SamplingError::of(Call::PerfEventOpen, error))?;
        let symbols = Symbols::read(&Root::default().path("proc/kallsyms"))?;
        Ok(Sampling { event, symbols })
    }
}

/// What works without sampling.
const INSTEAD: &str = "pipespeed profile CASE then counts, and pipespeed costs works without it";

/// The kernel can't be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// It is refused.
    #[error("sampling the kernel is refused: {0}; {INSTEAD}")]
    Refused(Refusal),
    /// There are too few descriptors.
    #[error("sampling takes a descriptor for each process and processor: {0}")]
    Descriptors(Refusal),
    /// The kernel's functions have no names.
    #[error("{}; {INSTEAD}", match .0 {
        SymbolsError::Hidden => format!("kernel symbols are hidden: {}", hidden_symbols(&Root::default())),
        error => format!("kernel functions have no names here: {error}"),
    })]
    Symbols(#[from] SymbolsError),
    /// Another error.
    #[error("can't sample the kernel: {0}; {INSTEAD}")]
    Failed(io::Error),
}

impl SamplingError {
    fn of(call: Call, error: io::Error) -> Self {
        match refusals::of(call, &error) {
            Some(refusal) if is_about_descriptors(&refusal) => SamplingError::Descriptors(refusal),
            Some(refusal) => SamplingError::Refused(refusal),
            None => SamplingError::Failed(error),
        }
    }

    /// Replaces an error of a pipeline that was caused by too few descriptors.
    pub fn or_too_few_descriptors(error: anyhow::Error) -> anyhow::Error {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
        let refusal = causes.find_map(|cause| refusals::of("starting the pipeline", cause));
        match refusal.filter(is_about_descriptors) {
            Some(refusal) => SamplingError::Descriptors(refusal).into(),
            None => error,
        }
    }
}

fn is_about_descriptors(refusal: &Refusal) -> bool {
    matches!(refusal.errno, Errno::MFILE | Errno::NFILE)
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
    /// each, with a ring of `ring_bytes`.
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn attach(
        event: Event,
        pid: u32,
        cpus: &[usize],
        ring_bytes: usize,
    ) -> Result<Self, SamplingError> {
        let mut rings = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let counter = open(event, Some(pid), Some(*cpu))
                .map_err(|error| SamplingError::of(Call::PerfEventOpen, error))?;
            let ring = counter.sampled(ring_bytes);
            rings.push(ring.map_err(|error| SamplingError::of(Call::PerfMmap, error))?);
        }
        for ring in &mut rings {
            ring.enable().map_err(SamplingError::Failed)?;
        }
        Ok(Probe { rings })
    }

    /// Stops sampling, or goes on, with all children.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn turn(&mut self, on: bool) -> std::io::Result<()> {
        for ring in &mut self.rings {
            if on { ring.enable()? } else { ring.disable()? }
        }
        Ok(())
    }

    /// Hands over what was sampled since the last time.
    pub fn drain(&mut self, taker: &mut impl Take) {
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
                        taker.sample(Sample {
                            time_ns: sample.time().unwrap_or(0),
                            weight: sample.period().unwrap_or(1),
                            kernel,
                        });
                    }
                    Ok(Record::Lost(lost)) => taker.lost(lost.lost),
                    Ok(Record::Throttle(_)) => taker.throttled(),
                    Ok(_) => {}
                    Err(_) => taker.lost(1),
                }
            }
        }
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
    fn rings_of_any_number_of_processes_stay_within_what_is_granted() {
        for processes in 1..=20 {
            let bytes = shared_ring_bytes(processes);
            assert!(bytes.is_power_of_two());
            assert!(
                processes * (bytes + 4096) <= 516 << 10,
                "{processes}: {bytes}"
            );
        }
        assert_eq!(shared_ring_bytes(2), 128 << 10);
    }

    #[test]
    fn only_the_kernels_part_of_a_chain_is_kept() {
        let user = -512_i64 as u64;
        assert_eq!(kernel_part(&[KERNEL, 1, 2, user, 3]), [1, 2]);
        assert_eq!(kernel_part(&[user, 3, 4]), [0; 0]);
        assert_eq!(kernel_part(&[]), [0; 0]);
    }
}
