//! An endpoint process: set up, wait for the start, run, report.
//!
//! The two ends of a channel take their counters at the same byte offsets. The
//! reader, who keeps the time, names each offset when the time has come, far
//! enough ahead of what the writer says it has sent (the margin) that the writer
//! can't be past it yet, through words of memory that both share. Each end
//! takes its reading when it gets there.
//!
//! ```text
//! reader:  warm up until the time is over
//!          name an offset ahead; at that offset: first reading
//!          go on until the time is over, noting the progress
//!          name an offset ahead; at that offset: second reading, and leave
//! writer:  send; at the named offsets take the readings
//!          go on until the reader has left
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use fastpipe::shared::SharedWords;
use fastpipe::transfer::Incomplete;

use super::clock::Clock;
use super::control::{Control, Outcome, Report, Setup};
use super::counters::{Meter, Reading};
use super::data::{Consumer, Producer};
use super::ends::{Driver, cause};
use super::spec::{EndSpec, Part};
use super::{alone, memory};
use crate::channel::{Sink, Source, Taken};
use crate::record::NotRun;
use pipespeed_base::failure::{full_message, out_of_descriptors};
use pipespeed_host::refusals::{self, is_refusal};

pub use super::ends::huge_pages_refused;

/// The hidden subcommand under which an endpoint process runs.
pub const SUBCOMMAND: &str = "__endpoint";

/// The shared words: the offsets at which the readings are taken, 0 until
/// they are named; what the writer has sent; and whether the reader has taken
/// its last reading.
pub const SHARED_WORDS: usize = 4;
const BEGIN: usize = 0;
const END: usize = 1;
const SENT: usize = 2;
const LEFT: usize = 3;

/// Which of the standard descriptors is the channel; the other is the control
/// socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Control on standard input, the channel on standard output.
    Writer,
    /// The channel on standard input, control on standard output.
    Reader,
}

impl Role {
    /// The argument of the hidden subcommand.
    pub fn name(self) -> &'static str {
        match self {
            Role::Writer => "writer",
            Role::Reader => "reader",
        }
    }

    /// The reverse of [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        [Role::Writer, Role::Reader]
            .into_iter()
            .find(|role| role.name() == name)
    }
}

/// A system call that this machine does not allow, with who refuses it.
pub(crate) fn not_allowed(call: &str, error: &io::Error) -> NotRun {
    let refusal = refusals::of(call, error);
    NotRun::refused(
        refusal.map_or_else(|| format!("{call}: {error}"), |refusal| refusal.to_string()),
    )
}

/// The end that found the other one gone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Left(pub(super) String);

/// Runs an endpoint and reports to the control socket.
///
/// # Errors
/// When there is nobody to report to.
pub fn main(role: Role) -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let (control, channel) = match role {
        Role::Writer => (stdin, stdout),
        Role::Reader => (stdout, stdin),
    };
    let mut control = Control::new(UnixStream::from(control));
    match run(&mut control, channel) {
        Ok(outcome) => control.send(&Report::Done(Box::new(outcome))),
        Err(error) => control.send(&complaint(&error)),
    }
}

fn complaint(error: &anyhow::Error) -> Report {
    if let Some(not_run) = error.downcast_ref() {
        Report::NotRun(NotRun::clone(not_run))
    } else if let Some(Left(how)) = error.downcast_ref() {
        Report::Left(how.clone())
    } else {
        let hint = cause(error).and_then(|cause| out_of_descriptors(&cause));
        Report::Failed(hint.unwrap_or_else(|| full_message(error)))
    }
}

fn run(control: &mut Control, channel: OwnedFd) -> anyhow::Result<Outcome> {
    let (spec, words) = control.receive_spec().context("the control socket")?;
    die_with_parent()?;
    let words = SharedWords::open(words, SHARED_WORDS)?;
    if let Some(cpu) = spec.cpu {
        stay_on(cpu)?;
    }
    let driver = Driver {
        control,
        spec: &spec,
        words: words.words(),
    };
    match &spec.part {
        Part::Writer(sink) => driver.write(sink, channel),
        Part::Reader(source) => driver.read(source, channel),
        Part::ProduceAlone(sink) => alone::produce(driver.control, &spec, sink),
        Part::ConsumeAlone(source) => alone::consume(driver.control, &spec, source),
        Part::Memory(block) => memory::run(driver.control, &spec, block),
    }
}

/// Says that everything is set up, and waits for the word.
pub(super) fn start(control: &mut Control, setup: Setup) -> anyhow::Result<()> {
    control.send(&Report::Ready(setup))?;
    control.receive_go().context("the trial is gone")
}

/// A trial's children never outlive it. If it is gone already, the control
/// socket is closed, and that ends us too.
pub(crate) fn die_with_parent() -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|errno| not_allowed("prctl (PR_SET_PDEATHSIG)", &errno.into()))?;
    Ok(())
}

/// Pins this process to one processor.
pub(crate) fn stay_on(cpu: usize) -> anyhow::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|errno| NotRun::refused(format!("can't stay on processor {cpu}: {errno}")))?;
    Ok(())
}

/// A system call that is refused before it has moved anything, as a seccomp
/// filter does, is what the machine does not allow; later it is a failure.
fn refused_or_failed(call: &str, moved_before: u64, incomplete: Incomplete) -> anyhow::Error {
    let error = incomplete.source;
    if moved_before == 0 && is_refusal(&error) {
        return not_allowed(call, &error).into();
    }
    anyhow::Error::new(error).context(call.to_owned())
}

/// Sends until the reader has left.
pub(super) fn writer(
    spec: &EndSpec,
    sink: &mut impl Sink,
    words: &[AtomicU64],
) -> anyhow::Result<Outcome> {
    let meter = Meter::new();
    let mut producer = Producer::new(spec.data, spec.work);
    let mut first: Option<Reading> = None;
    let mut second: Option<Reading> = None;
    loop {
        match sink.send(&mut producer) {
            Ok(()) => words[SENT].store(sink.sent(), Ordering::Release),
            Err(incomplete) if incomplete.kind() == io::ErrorKind::TimedOut => {}
            Err(incomplete) if incomplete.kind() == io::ErrorKind::BrokenPipe => {
                // The reader leaves at the second offset, which may lie within
                // the piece that was being sent.
                let end = words[END].load(Ordering::Acquire);
                if first.is_some() && second.is_none() && end != 0 && sink.sent() >= end {
                    second = Some(meter.read(sink.sent(), sink.counts()));
                }
                break;
            }
            Err(incomplete) => {
                return Err(refused_or_failed(sink.call(), sink.sent(), incomplete));
            }
        }
        let due = match (&first, &second) {
            (None, _) => BEGIN,
            (Some(_), None) => END,
            (Some(_), Some(_)) if words[LEFT].load(Ordering::Acquire) != 0 => break,
            (Some(_), Some(_)) => continue,
        };
        let offset = words[due].load(Ordering::Acquire);
        if offset != 0 && sink.sent() >= offset {
            let reading = Some(meter.read(sink.sent(), sink.counts()));
            match due {
                BEGIN => {
                    sink.as_asked().map_err(NotRun::refused)?;
                    first = reading;
                }
                _ => {
                    sink.expect_leaving();
                    second = reading;
                }
            }
        }
    }
    match (first, second) {
        (Some(first), Some(second)) => Ok(Outcome {
            counters: second.since(&first),
            parts_gib_per_s: Vec::new(),
            zerocopy: sink.zerocopy(),
            window_ns: (first.monotonic_ns(), second.monotonic_ns()),
        }),
        _ => bail!(Left(
            "the reader left before the end of the trial".to_owned()
        )),
    }
}

/// Takes, keeps the time, and names the offsets.
pub(super) fn reader(
    spec: &EndSpec,
    source: &mut impl Source,
    words: &[AtomicU64],
) -> anyhow::Result<Outcome> {
    let mut consumer = Consumer::new(spec.data, spec.work);
    let meter = Meter::new();
    let mut clock = Clock::new(spec);
    let mut received = 0;
    // Where the writer can't be yet.
    let ahead = |received: u64| received.max(words[SENT].load(Ordering::Acquire)) + spec.margin;

    clock.restart(received);
    while clock.look(received) < clock.warm_up {
        received += take(received, source, &mut consumer)?;
    }
    let begin = ahead(received);
    words[BEGIN].store(begin, Ordering::Release);
    while received < begin {
        clock.look(received);
        received += take(received, source, &mut consumer)?;
    }

    let first = meter.read(received, source.counts());
    clock.restart(received);
    let end = match spec.timed_bytes {
        Some(bytes) => ahead(received).max(received + bytes),
        None => {
            while clock.look(received) < clock.timed {
                received += take(received, source, &mut consumer)?;
            }
            ahead(received)
        }
    };
    words[END].store(end, Ordering::Release);
    while received < end {
        clock.look(received);
        received += take(received, source, &mut consumer)?;
    }
    if spec.timed_bytes.is_some() {
        clock.look_now(received);
    }
    let second = meter.read(received, source.counts());
    words[LEFT].store(1, Ordering::Release);
    let parts_gib_per_s = clock.rates();
    Ok(Outcome {
        counters: second.since(&first),
        parts_gib_per_s,
        zerocopy: None,
        window_ns: (first.monotonic_ns(), second.monotonic_ns()),
    })
}

/// Takes and uses what is there. Returns how many bytes.
fn take(received: u64, source: &mut impl Source, consumer: &mut Consumer) -> anyhow::Result<u64> {
    let call = source.call();
    let taken = source
        .take()
        .map_err(|incomplete| refused_or_failed(call, received, incomplete))?;
    if taken.is_empty() {
        bail!(Left(format!(
            "the data ended early, after {received} bytes"
        )));
    }
    if let Taken::Data(bytes) = &taken {
        consumer.consume(bytes)?;
    }
    Ok(taken.len() as u64)
}
