//! Samples of running processes, by perf_event_open(2).
//!
//! The kernel writes samples to shared memory. Those of a trial are read after its end, so
//! that only the interrupts disturb it; those of a pipeline, which may take any time, are
//! read while it runs. Samples that don't fit are counted as lost.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::gathered::Chains;
use super::symbols::{Symbols, SymbolsError};
use pipespeed_host::Root;
use pipespeed_host::refusals::{self, Call, Refusal, errno_of, hidden_symbols};

/// The event that triggers samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The processor's cycle counter, which also samples code with interrupts disabled.
    Cycles,
    /// A timer of the process's running time. A sample due while interrupts are disabled is
    /// taken when they are enabled again.
    CpuClock,
}

pipespeed_base::named!(Event {
    Cycles = "cycles": "processor cycles",
    CpuClock = "cpu-clock": "a timer of the running time",
});

/// What an event is bound to.
///
/// An event of a task is stopped and started at each of its context switches. The kernel
/// spends that time in the scheduler, so such samples overstate scheduling where a task
/// sleeps often. An event of a processor goes on whatever runs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Processors. Samples of other processes are discarded.
    Processors,
    /// Tasks.
    Tasks,
}

/// Samples per second of running time. Twice as many slow down spinning ends in a guest by
/// a fifth. It is no multiple of the kernel's tick rate, to avoid sampling in step with it.
pub const FREQUENCY: u64 = 1999;

/// Memory for the samples of an end on one processor: almost a second's, at 300 bytes for a
/// sample with thirty frames.
const RING_BYTES: usize = 512 << 10;
/// Memory for samples on each of several processors. Two ends stay below the limit without
/// privileges (/proc/sys/kernel/perf_event_mlock_kb: 516 per processor).
const RING_BYTES_PER_CPU: usize = 256 << 10;

/// Memory for samples on each of `cpus` processors, for an end whose samples are read after
/// its end.
pub fn ring_bytes(cpus: usize) -> usize {
    match cpus {
        1 => RING_BYTES,
        _ => RING_BYTES_PER_CPU,
    }
}

/// Memory for samples of each of `processes`, which are read while they run. Together they
/// stay below the limit without privileges; each ring takes an additional page.
pub fn shared_ring_bytes(processes: usize) -> usize {
    const LIMIT: usize = 516 << 10;
    const MIN: usize = 16 << 10;
    let each = (LIMIT / processes.max(1)).saturating_sub(rustix::param::page_size());
    let power = each.checked_ilog2().map_or(0, |log| 1 << log);
    power.clamp(MIN, RING_BYTES_PER_CPU)
}

/// Samples processes, and the threads and children that they start.
pub struct Probe {
    event: Event,
    scope: Scope,
    rings: Vec<Ring>,
    /// The index of each sampled process, children included.
    owners: HashMap<u32, usize>,
}

/// The samples of one event.
struct Ring {
    sampler: Sampler,
    cpu: usize,
    /// The process for which it was opened.
    owner: usize,
}

/// How to sample the kernel of this machine.
#[derive(Debug)]
pub struct Sampling {
    /// The event that triggers samples.
    pub event: Event,
    /// What it is bound to.
    pub scope: Scope,
    /// The names of the kernel's functions.
    pub symbols: Symbols,
}

impl Sampling {
    /// Finds the best event that is allowed, and reads the kernel's symbols.
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn find() -> Result<Self, SamplingError> {
        // Tries the event on this process.
        let is_allowed = |event| open(event, Target::Itself).map(|_| event);
        let event = is_allowed(Event::Cycles)
            .or_else(|_| is_allowed(Event::CpuClock))
            .map_err(|error| SamplingError::of(Call::PerfEventOpen, error))?;
        let symbols = Symbols::read(&Root::default().path("proc/kallsyms"))?;
        let cpu = rustix::thread::sched_getcpu();
        let scope = match open(event, Target::Processor(cpu)) {
            Ok(_) => Scope::Processors,
            Err(_) => Scope::Tasks,
        };
        Ok(Sampling {
            event,
            scope,
            symbols,
        })
    }
}

/// Advice for machines without sampling.
const INSTEAD: &str =
    "without sampling, pipespeed profile CASE counts, and pipespeed costs measures costs";

/// The kernel can't be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// It is refused.
    #[error("sampling the kernel is refused: {0}; {INSTEAD}")]
    Refused(Refusal),
    /// There are too few descriptors.
    #[error("sampling needs a descriptor for each process and processor: {0}")]
    Descriptors(Refusal),
    /// The kernel's functions have no names.
    #[error("{}; {INSTEAD}", match .0 {
        SymbolsError::Hidden => format!("kernel symbols are hidden: {}", hidden_symbols(&Root::default())),
        error => format!("kernel functions have no names here: {error}"),
    })]
    Symbols(SymbolsError),
    /// Another error.
    #[error("can't sample the kernel: {0}; {INSTEAD}")]
    Failed(io::Error),
}

impl SamplingError {
    fn of(call: Call, error: io::Error) -> Self {
        match refusals::of(call, &error) {
            Some(refusal) if has_too_few_descriptors(&error) => SamplingError::Descriptors(refusal),
            Some(refusal) => SamplingError::Refused(refusal),
            None => SamplingError::Failed(error),
        }
    }

    /// Replaces an error of a pipeline that was caused by too few descriptors.
    pub fn or_too_few_descriptors(error: anyhow::Error) -> anyhow::Error {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
        let cause = causes.find(|cause| has_too_few_descriptors(cause));
        match cause.and_then(|cause| refusals::of("starting the pipeline", cause)) {
            Some(refusal) => SamplingError::Descriptors(refusal).into(),
            None => error,
        }
    }
}

impl From<SymbolsError> for SamplingError {
    fn from(error: SymbolsError) -> Self {
        match error {
            SymbolsError::Unreadable(error) if has_too_few_descriptors(&error) => {
                SamplingError::of(Call::from("open(2)"), error)
            }
            error => SamplingError::Symbols(error),
        }
    }
}

fn has_too_few_descriptors(error: &io::Error) -> bool {
    matches!(errno_of(error), Some(Errno::MFILE | Errno::NFILE))
}

/// What an event is opened for.
#[derive(Clone, Copy)]
enum Target {
    /// This process.
    Itself,
    /// A process and all it starts, while on a processor.
    Task(u32, usize),
    /// Whatever runs on a processor.
    Processor(usize),
}

impl Target {
    fn new(pid: Option<u32>, cpu: usize) -> Self {
        pid.map_or(Target::Processor(cpu), |pid| Target::Task(pid, cpu))
    }
}

fn open(event: Event, target: Target) -> io::Result<perf_event::Counter> {
    let mut builder = match event {
        Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
        Event::CpuClock => Builder::new(Software::CPU_CLOCK),
    };
    // DATA_SRC is not used, but without it perf-event-data 0.1.8 treats a record that ends
    // in an empty call chain as truncated.
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
    match target {
        Target::Itself => {}
        Target::Task(pid, cpu) => {
            builder.observe_pid(pid as i32).one_cpu(cpu).inherit(true);
        }
        // Forks show whose child a sampled process is.
        Target::Processor(cpu) => {
            builder.any_pid().one_cpu(cpu).exclude_idle(true).task(true);
        }
    }
    builder.build()
}

impl Probe {
    /// Samples nothing yet.
    pub fn new(sampling: &Sampling) -> Self {
        Probe {
            event: sampling.event,
            scope: sampling.scope,
            rings: Vec::new(),
            owners: HashMap::new(),
        }
    }

    /// Starts to sample a process on `cpus`, with `ring_bytes` of memory on each. `owner`
    /// is its index in [`drain`](Self::drain).
    ///
    /// The kernel passes a task's event on to threads and children only if it is bound to
    /// a processor, too (kernel/events/core.c, `perf_mmap`).
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn add(
        &mut self,
        owner: usize,
        pid: u32,
        cpus: &[usize],
        ring_bytes: usize,
    ) -> Result<(), SamplingError> {
        self.owners.insert(pid, owner);
        for &cpu in cpus {
            let is_sampled = self.rings.iter().any(|ring| ring.cpu == cpu);
            let pid = match self.scope {
                Scope::Processors if is_sampled => continue,
                Scope::Processors => None,
                Scope::Tasks => Some(pid),
            };
            let counter = open(self.event, Target::new(pid, cpu))
                .map_err(|error| SamplingError::of(Call::PerfEventOpen, error))?;
            let sampler = counter.sampled(ring_bytes);
            let mut sampler = sampler.map_err(|error| SamplingError::of(Call::PerfMmap, error))?;
            sampler.enable().map_err(SamplingError::Failed)?;
            self.rings.push(Ring {
                sampler,
                cpu,
                owner,
            });
        }
        Ok(())
    }

    /// Assigns the samples of a process to an owner.
    pub fn adopt(&mut self, owner: usize, pid: u32) {
        self.owners.insert(pid, owner);
    }

    /// Enables or disables sampling, also of all children.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn enable(&mut self, on: bool) -> std::io::Result<()> {
        for Ring { sampler, .. } in &mut self.rings {
            if on {
                sampler.enable()?
            } else {
                sampler.disable()?
            }
        }
        Ok(())
    }

    /// Adds the samples taken since the last call to the chains of their processes, if
    /// their time lies in the process's window, in nanoseconds of CLOCK_MONOTONIC.
    ///
    /// `targets` has a window and chains for each owner.
    pub fn drain(&mut self, targets: &mut [(Range<u64>, &mut Chains<u64>)]) {
        let mut samples = Vec::new();
        for ring in &mut self.rings {
            let chains = &mut *targets[ring.owner].1;
            while let Some(record) = ring.sampler.next_record() {
                let in_kernel = record.misc() & CPU_MODE == IN_KERNEL;
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let mut chain = sample.callchain().map(kernel_part).unwrap_or_default();
                        // The kernel could not walk its own stack.
                        if in_kernel && chain.is_empty() {
                            chain.extend(sample.ip());
                        }
                        samples.push(Sample {
                            pid: sample.pid().unwrap_or(0),
                            owner: ring.owner,
                            time: sample.time().unwrap_or(0),
                            period: sample.period().unwrap_or(1),
                            chain,
                        });
                    }
                    Ok(Record::Fork(fork)) => {
                        if let Some(owner) = self.owners.get(&fork.ppid) {
                            self.owners.insert(fork.pid, *owner);
                        }
                    }
                    Ok(Record::Lost(lost)) => chains.lost += lost.lost,
                    Ok(Record::Throttle(_)) => chains.throttled += 1,
                    Ok(_) => {}
                    Err(_) => chains.lost += 1,
                }
            }
        }
        // Only now: a child may run on another processor than the one that it was forked on.
        for sample in samples {
            let owner = match self.scope {
                Scope::Processors => self.owners.get(&sample.pid).copied(),
                Scope::Tasks => Some(sample.owner),
            };
            let target = owner.map(|owner| &mut targets[owner]);
            if let Some((window, chains)) = target
                && window.contains(&sample.time)
            {
                chains.add(sample.chain, sample.period);
            }
        }
    }
}

/// A sample whose process is not yet known.
struct Sample {
    pid: u32,
    /// The process for which its event was opened.
    owner: usize,
    time: u64,
    period: u64,
    chain: Vec<u64>,
}

/// The bits of a record that say where the processor was
/// (PERF_RECORD_MISC_CPUMODE_MASK, include/uapi/linux/perf_event.h), and their
/// value in the kernel.
const CPU_MODE: u16 = 7;
const IN_KERNEL: u16 = 1;

/// Context markers in a call chain (PERF_CONTEXT_MAX and above,
/// include/uapi/linux/perf_event.h) are the last 4095 numbers.
const MARKERS: u64 = -4095_i64 as u64;
/// The marker before addresses in the kernel (PERF_CONTEXT_KERNEL).
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
    fn rings_of_any_number_of_processes_stay_below_the_limit() {
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
    fn too_few_descriptors_are_reported_as_such() {
        let missing = || io::Error::from(Errno::MFILE);
        let limit = "sampling needs a descriptor for each process and processor: ";
        let in_pipeline = anyhow::Error::new(missing()).context("a pipe");
        for error in [
            SamplingError::of(Call::PerfEventOpen, missing()).to_string(),
            SamplingError::from(SymbolsError::Unreadable(missing())).to_string(),
            SamplingError::or_too_few_descriptors(in_pipeline).to_string(),
        ] {
            assert!(
                error.starts_with(limit) && error.contains("ulimit -n"),
                "{error}"
            );
        }
        let other = anyhow::Error::new(io::Error::from(Errno::NOENT)).context("a pipe");
        let other = SamplingError::or_too_few_descriptors(other);
        assert_eq!(other.to_string(), "a pipe");
    }

    #[test]
    fn other_errors_end_with_advice() {
        let errors = [
            SamplingError::of(Call::PerfEventOpen, Errno::BADF.into()),
            SamplingError::from(SymbolsError::Empty),
            SamplingError::from(SymbolsError::Hidden),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.ends_with(INSTEAD) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn only_the_kernels_part_of_a_chain_is_kept() {
        let user = -512_i64 as u64;
        assert_eq!(kernel_part(&[KERNEL, 1, 2, user, 3]), [1, 2]);
        assert_eq!(kernel_part(&[user, 3, 4]), [0; 0]);
        assert_eq!(kernel_part(&[]), [0; 0]);
    }
}
