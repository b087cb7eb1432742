//! Samples of running processes, by perf_event_open(2).
//!
//! The kernel writes samples to shared memory. Those of a trial are read after its end, so
//! that only the interrupts disturb it; those of a pipeline, which may take any time, are
//! read while it runs. Samples that don't fit are counted as lost.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use perf_event::data::{Lost, Record};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use pipespeed_base::thread::own_time;
use rustix::io::Errno;

use super::attribution::{Owners, PerfRecord, StackSample, TimedRecord, attribute};
pub use super::event::{Event, EventScope, FREQUENCY};
use super::record::Losses;
use super::symbols::{Symbols, SymbolsError};
use pipespeed_base::limits::{Resource, soft_limit};
use pipespeed_host::Root;
use pipespeed_host::refusals::{self, RefusableCall, Refusal, errno_of, hidden_symbols};
use pipespeed_pipeline::proc::visible;

/// Maximum memory of a ring: almost a second's samples, at 300 bytes for a sample with thirty
/// frames.
const MAX_RING_BYTES: usize = 512 << 10;
/// Minimum memory of a ring: the samples of an interval at which those of a pipeline are read.
const MIN_RING_BYTES: usize = 16 << 10;

/// Number of rings for processes that run on these processors.
fn ring_count(scope: EventScope, cpus: &[&[usize]]) -> usize {
    let all = cpus.iter().copied().flatten();
    match scope {
        EventScope::Processors => all.collect::<BTreeSet<_>>().len(),
        EventScope::Tasks => all.count(),
    }
}

/// Memory for each of `rings`, which together stay within `limit` if possible. A ring takes
/// an additional page, and its size is a power of two.
fn ring_bytes(rings: usize, limit: usize) -> usize {
    let each = (limit / rings.max(1)).saturating_sub(rustix::param::page_size());
    let power = each.checked_ilog2().map_or(0, |log| 1 << log);
    power.clamp(MIN_RING_BYTES, MAX_RING_BYTES)
}

/// The memory for samples that a process without privileges gets on this number of
/// processors: perf_event_mlock_kb for each that is online, and beyond that RLIMIT_MEMLOCK
/// (kernel/events/core.c, `perf_mmap`).
fn max_memory(cpus: usize) -> usize {
    // The kernel's default, with pages of 4 KiB.
    const DEFAULT_KB: usize = 516;
    let kb = Root::default().number("proc/sys/kernel/perf_event_mlock_kb");
    let of_cpus = kb.unwrap_or(DEFAULT_KB).saturating_mul(cpus << 10);
    let locked = soft_limit(Resource::RLIMIT_MEMLOCK).unwrap_or(u64::MAX);
    of_cpus.saturating_add(usize::try_from(locked).unwrap_or(usize::MAX))
}

/// Samples processes, and the threads and children that they start.
pub struct PerfSampler {
    event: Event,
    scope: EventScope,
    rings: Vec<SampleRing>,
    /// Memory of a ring.
    ring_bytes: usize,
    /// The processes whose samples are attributed. While sampling is stopped, no forks and
    /// exits are recorded.
    pub owners: Owners,
    /// Records that were read and are not yet attributed.
    records: Vec<TimedRecord>,
    /// Samples that are missing so far.
    pub losses: Losses,
}

/// The samples of one event.
struct SampleRing {
    sampler: Sampler,
    cpu: usize,
}

/// How to sample the kernel of this machine.
#[derive(Debug)]
pub struct Sampling {
    /// The event that triggers samples.
    pub event: Event,
    /// What it is bound to.
    pub scope: EventScope,
    /// The names of the kernel's functions.
    pub symbols: Symbols,
}

impl Sampling {
    /// Finds the best event that is allowed, and reads the kernel's symbols.
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn find() -> Result<Self, SamplingError> {
        let event = match try_event(Event::Cycles) {
            Ok(true) => Event::Cycles,
            _ if try_event(Event::CpuClock)? => Event::CpuClock,
            _ => return Err(SamplingError::NeverCounts),
        };
        let symbols = Symbols::read(&Root::default().path("proc/kallsyms"))?;
        let cpu = rustix::thread::sched_getcpu();
        let scope = match open(event, EventTarget::Processor(cpu)) {
            Ok(_) => EventScope::Processors,
            Err(_) => EventScope::Tasks,
        };
        Ok(Sampling {
            event,
            scope,
            symbols,
        })
    }

    /// As [`find`](Self::find), and makes sure that processes can be sampled, of which each runs
    /// on these processors.
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn find_for(cpus: &[&[usize]]) -> Result<Self, SamplingError> {
        let sampling = Self::find()?;
        let mut probe = PerfSampler::new(&sampling, cpus);
        for (owner, cpus) in cpus.iter().enumerate() {
            probe.add(owner, std::process::id(), cpus)?;
        }
        Ok(sampling)
    }
}

/// Longest trial of an event, in running time: forty samples are due.
const EVENT_TRIAL: Duration = Duration::from_millis(20);

/// Whether an event samples this process. Some virtual machines and simulators let a cycle
/// counter be opened that never counts.
fn try_event(event: Event) -> Result<bool, SamplingError> {
    let counter = open(event, EventTarget::Itself)
        .map_err(|error| SamplingError::new(RefusableCall::PerfEventOpen, error))?;
    let mut sampler = counter
        .sampled(MIN_RING_BYTES)
        .map_err(|error| SamplingError::new(RefusableCall::PerfMmap, error))?;
    sampler.enable().map_err(SamplingError::Failed)?;
    let began = own_time();
    while own_time().saturating_sub(began) < EVENT_TRIAL {
        while let Some(raw) = sampler.next_record() {
            if let Some(TimedRecord {
                record: PerfRecord::Sample(_),
                ..
            }) = parsed(&raw)
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
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
    /// The events can be opened, but give no samples.
    #[error("sampling the kernel is refused: its events can be opened but never count; {INSTEAD}")]
    NeverCounts,
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
    /// The message without the advice.
    pub fn reason(&self) -> String {
        let message = self.to_string();
        match message.strip_suffix(INSTEAD) {
            Some(reason) => reason.trim_end_matches("; ").to_owned(),
            None => message,
        }
    }

    /// Whether it also prevents a profile without samples: too few descriptors.
    pub fn is_final(&self) -> bool {
        matches!(self, SamplingError::Descriptors(_))
    }

    pub(super) fn new(call: RefusableCall, error: io::Error) -> Self {
        match refusals::explain(call, &error) {
            Some(refusal) if has_too_few_descriptors(&error) => SamplingError::Descriptors(refusal),
            Some(refusal) => SamplingError::Refused(refusal),
            None => SamplingError::Failed(error),
        }
    }
}

impl From<SymbolsError> for SamplingError {
    fn from(error: SymbolsError) -> Self {
        match error {
            SymbolsError::Unreadable(error) if has_too_few_descriptors(&error) => {
                SamplingError::new(RefusableCall::from("open(2)"), error)
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
enum EventTarget {
    /// This process.
    Itself,
    /// A process and all it starts, while on a processor.
    Task(u32, usize),
    /// Whatever runs on a processor.
    Processor(usize),
}

fn open(event: Event, target: EventTarget) -> io::Result<perf_event::Counter> {
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
        EventTarget::Itself => {}
        EventTarget::Task(pid, cpu) => {
            builder.observe_pid(pid as i32).one_cpu(cpu).inherit(true);
        }
        EventTarget::Processor(cpu) => {
            builder.any_pid().one_cpu(cpu).exclude_idle(true);
        }
    }
    // Forks and exits show whose child a sampled process is.
    builder.task(true).comm(true);
    builder.build()
}

impl PerfSampler {
    /// Samples nothing yet. `cpus` are the processors of each process that will be added.
    pub fn new(sampling: &Sampling, cpus: &[&[usize]]) -> Self {
        let limit = max_memory(ring_count(EventScope::Processors, cpus));
        PerfSampler {
            event: sampling.event,
            scope: sampling.scope,
            rings: Vec::new(),
            ring_bytes: ring_bytes(ring_count(sampling.scope, cpus), limit),
            owners: Owners::default(),
            records: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// Starts to sample a process, and the children that it will start, on `cpus`. `owner` is
    /// what [`stop`](Self::stop) names as the owner of their samples.
    ///
    /// The kernel passes a task's event on to threads and children only if it is bound to
    /// a processor, too (kernel/events/core.c, `perf_mmap`).
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn add(&mut self, owner: usize, pid: u32, cpus: &[usize]) -> Result<(), SamplingError> {
        self.owners.adopt(owner, pid, []);
        for &cpu in cpus {
            let is_sampled = self.rings.iter().any(|ring| ring.cpu == cpu);
            let target = match self.scope {
                EventScope::Processors if is_sampled => continue,
                EventScope::Processors => EventTarget::Processor(cpu),
                EventScope::Tasks => EventTarget::Task(pid, cpu),
            };
            let counter = open(self.event, target)
                .map_err(|error| SamplingError::new(RefusableCall::PerfEventOpen, error))?;
            let sampler = counter.sampled(self.ring_bytes);
            let mut sampler =
                sampler.map_err(|error| SamplingError::new(RefusableCall::PerfMmap, error))?;
            sampler.enable().map_err(SamplingError::Failed)?;
            self.rings.push(SampleRing { sampler, cpu });
        }
        Ok(())
    }

    /// Continues to sample.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn resume(&mut self) -> io::Result<()> {
        let mut rings = self.rings.iter_mut();
        rings.try_for_each(|ring| ring.sampler.enable())
    }

    /// Makes room in the rings while sampling goes on.
    pub fn read(&mut self) {
        for ring in &mut self.rings {
            while let Some(raw) = ring.sampler.next_record() {
                self.records.extend(parsed(&raw));
            }
        }
    }

    /// Stops sampling. Returns all samples since the last call, each with its time in
    /// nanoseconds of CLOCK_MONOTONIC and its owner.
    ///
    /// Records can only be put in order once all rings are complete.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn stop(&mut self) -> io::Result<Vec<(u64, usize, StackSample)>> {
        let mut rings = self.rings.iter_mut();
        rings.try_for_each(|ring| ring.sampler.disable())?;
        self.read();
        let records = std::mem::take(&mut self.records);
        Ok(attribute(records, &mut self.owners, &mut self.losses))
    }
}

/// The record, if it is of use.
fn parsed(raw: &perf_event::Record<'_>) -> Option<TimedRecord> {
    let in_kernel = raw.misc() & CPU_MODE == IN_KERNEL;
    // A record that can't be parsed is as good as lost.
    let record = raw
        .parse_record()
        .unwrap_or(Record::Lost(Lost { id: 0, lost: 1 }));
    let (time_ns, record) = match record {
        Record::Sample(sample) => {
            let mut chain = sample.callchain().map(kernel_part).unwrap_or_default();
            // The kernel could not walk its own stack.
            if in_kernel && chain.is_empty() {
                chain.extend(sample.ip());
            }
            let sampled = StackSample {
                pid: sample.pid().unwrap_or(0),
                weight: sample.period().unwrap_or(1),
                chain,
            };
            (sample.time().unwrap_or(0), PerfRecord::Sample(sampled))
        }
        Record::Fork(fork) => {
            let (pid, tid, parent) = (fork.pid, fork.tid, fork.ppid);
            (fork.time, PerfRecord::Fork { pid, tid, parent })
        }
        Record::Exit(exit) => {
            let (pid, tid) = (exit.pid, exit.tid);
            (exit.time, PerfRecord::Exit { pid, tid })
        }
        Record::Comm(comm) => {
            let name = visible(&String::from_utf8_lossy(&comm.comm));
            (
                0,
                PerfRecord::Comm {
                    pid: comm.pid,
                    name,
                },
            )
        }
        Record::Lost(lost) => (0, PerfRecord::Lost(lost.lost)),
        Record::LostSamples(lost) => (0, PerfRecord::Lost(lost.lost)),
        Record::Throttle(throttle) => (throttle.time, PerfRecord::Throttled),
        _ => return None,
    };
    Some(TimedRecord { time_ns, record })
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
    fn memory_is_shared_by_the_rings_that_are_opened() {
        let (all, first): (&[usize], &[usize]) = (&[0, 1, 2, 3], &[0]);
        let processes = [all, first, all];
        assert_eq!(ring_count(EventScope::Processors, &processes), 4);
        assert_eq!(ring_count(EventScope::Tasks, &processes), 9);
        // A ring for each processor is as large for many processes as for one.
        let limit = 516 << 12;
        for stages in 1..40 {
            let rings = ring_count(EventScope::Processors, &vec![all; stages]);
            assert_eq!(ring_bytes(rings, limit), MAX_RING_BYTES, "{stages}");
        }
    }

    #[test]
    fn rings_of_any_number_stay_within_the_limit() {
        let page = rustix::param::page_size();
        for limit in [516 << 10, 1032 << 10, 64 << 20] {
            for rings in 1..=limit / (MIN_RING_BYTES + page) {
                let bytes = ring_bytes(rings, limit);
                assert!(bytes.is_power_of_two());
                assert!(rings * (bytes + page) <= limit, "{rings}: {bytes}");
                let is_largest = rings * (2 * bytes + page) > limit;
                assert!(is_largest || bytes == MAX_RING_BYTES, "{rings}: {bytes}");
            }
        }
        assert_eq!(ring_bytes(10_000, 516 << 10), MIN_RING_BYTES);
    }

    #[test]
    fn too_few_descriptors_are_reported_as_such() {
        let missing = || io::Error::from(Errno::MFILE);
        let limit = "sampling needs a descriptor for each process and processor: ";
        for error in [
            SamplingError::new(RefusableCall::PerfEventOpen, missing()).to_string(),
            SamplingError::from(SymbolsError::Unreadable(missing())).to_string(),
        ] {
            assert!(
                error.starts_with(limit) && error.contains("ulimit -n"),
                "{error}"
            );
        }
    }

    #[test]
    fn other_errors_end_with_advice() {
        let errors = [
            SamplingError::new(RefusableCall::PerfEventOpen, Errno::BADF.into()),
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
