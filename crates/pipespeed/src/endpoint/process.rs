//! An endpoint process: set up, wait for the start, run, report.
//!
//! The two ends of a channel take their counters at the same byte offsets. The
//! reader, who keeps the time, names each offset when the time has come, far
//! enough ahead (the margin) that the writer can't be past it yet, through a
//! word of memory that both share. Each end takes its reading when it gets
//! there.
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
use fastpipe::buffer::Backing;
use fastpipe::shared::SharedWords;
use fastpipe::transfer::{Counts, Incomplete};
use rustix::io::Errno;

use super::clock::Clock;
use super::control::{Control, Outcome, Report, Setup};
use super::counters::{Meter, Reading};
use super::data::{Consumer, Producer};
use super::spec::{EndSpec, PageKind, Part, SinkSpec, SourceSpec};
use crate::channel::Sink;
use crate::channel::library::LibrarySink;
use crate::channel::pipe::{PipeSink, PipeSource, Taken};
use crate::results::EndCounters;

/// The hidden subcommand under which an endpoint process runs.
pub const SUBCOMMAND: &str = "__endpoint";

/// The shared words: the offsets at which the readings are taken, 0 until
/// they are named.
pub const SHARED_WORDS: usize = 2;
const BEGIN: usize = 0;
const END: usize = 1;

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

/// The end that could not be set up as the case needs it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// The end that found the other one gone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Left(String);

/// Runs an endpoint and reports to the control socket.
///
/// # Errors
/// When there is nobody to report to.
pub fn main(role: Role) -> io::Result<()> {
    // A trial's children never outlive it. If it is gone already, the control
    // socket is closed, and that ends us too.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
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
    if let Some(Refused(reason)) = error.downcast_ref() {
        Report::Refused(reason.clone())
    } else if let Some(Left(how)) = error.downcast_ref() {
        Report::Left(how.clone())
    } else {
        Report::Failed(format!("{error:#}"))
    }
}

fn run(control: &mut Control, channel: OwnedFd) -> anyhow::Result<Outcome> {
    let (spec, words) = control.receive_spec().context("the control socket")?;
    let words = SharedWords::open(words, SHARED_WORDS)?;
    if let Some(cpu) = spec.cpu {
        stay_on(cpu)?;
    }
    match &spec.part {
        Part::Writer(sink) if sink.technique.is_library() => {
            let Some(mut sink) = LibrarySink::new(channel, sink)? else {
                bail!("no such sink");
            };
            start(control, Setup::default())?;
            writer(&spec, &mut sink, words.words())
        }
        Part::Writer(sink) => {
            let mut sink = PipeSink::new(channel, sink)
                .map_err(anyhow::Error::new)
                .and_then(|made| proven(made, sink.pages, sink.touched))?;
            start(control, setup_of(&sink))?;
            writer(&spec, &mut sink, words.words())
        }
        Part::Reader(source) => {
            let pages = source.pages;
            let touched = source.touched;
            let mut source = PipeSource::new(channel, source)?;
            if let Some(buffer) = source.buffer()
                && pages == PageKind::Huge
                && touched
            {
                all_huge(buffer.backing()?)?;
            }
            start(control, Setup::default())?;
            reader(&spec, &mut source, words.words())
        }
        Part::ProduceAlone(sink) => {
            let mut memory = alone(sink)?;
            start(control, Setup::default())?;
            let mut producer = Producer::new(spec.data, spec.work);
            let mut next = 0;
            timed_alone(&spec, move || {
                let at = next % memory.len();
                next += 1;
                producer.produce(&mut memory[at]);
                std::hint::black_box(&memory[at]);
                Ok(memory[at].len())
            })
        }
        Part::ConsumeAlone(source) => {
            let memory = alone_source(source)?;
            start(control, Setup::default())?;
            let mut consumer = Consumer::new(spec.data, spec.work);
            timed_alone(&spec, move || {
                let bytes = std::hint::black_box(&memory[..]);
                consumer.rewind();
                consumer.consume(bytes)?;
                Ok(bytes.len())
            })
        }
    }
}

fn start(control: &mut Control, setup: Setup) -> anyhow::Result<()> {
    control.send(&Report::Ready(setup))?;
    control.receive_go().context("the trial is gone")
}

/// Pins this process to one processor.
fn stay_on(cpu: usize) -> anyhow::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|errno| Refused(format!("can't stay on processor {cpu}: {errno}")))?;
    Ok(())
}

/// A system call that is refused before it has moved anything, as a seccomp
/// filter does, is what the machine does not allow; later it is a failure.
fn refused_or_failed(call: &str, moved_before: u64, incomplete: Incomplete) -> anyhow::Error {
    const REFUSALS: [Errno; 4] = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
    let errno = Errno::from_io_error(&incomplete.source);
    let error = incomplete.source;
    if moved_before == 0 && errno.is_some_and(|errno| REFUSALS.contains(&errno)) {
        return Refused(format!(
            "{call} is not allowed here: {error}; a seccomp filter, as of a container, may refuse it"
        ))
        .into();
    }
    anyhow::Error::new(error).context(call.to_owned())
}

/// Makes sure that huge pages asked for are there.
fn proven<F: AsFd>(
    sink: PipeSink<F>,
    pages: PageKind,
    touched: bool,
) -> anyhow::Result<PipeSink<F>> {
    if pages == PageKind::Huge && touched {
        all_huge(sink.backing()?)?;
    }
    Ok(sink)
}

fn all_huge(backing: Backing) -> anyhow::Result<()> {
    if !backing.all_huge() {
        bail!(Refused(huge_pages_refused(backing.huge, backing.mapped)));
    }
    Ok(())
}

/// Why a buffer is not in huge pages, in one sentence.
pub fn huge_pages_refused(huge: u64, mapped: u64) -> String {
    const SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let setting = std::fs::read_to_string(SETTING).unwrap_or_default();
    let why = match setting.trim() {
        "" => "this kernel has no transparent huge pages".to_owned(),
        text if text.contains("[never]") => {
            format!("{SETTING} is 'never'; 'madvise' is enough")
        }
        _ => "memory may be too fragmented, or the process may not use them".to_owned(),
    };
    format!(
        "transparent huge pages were not given ({} of {} KiB): {why}",
        huge / 1024,
        mapped / 1024
    )
}

fn setup_of<F: AsFd>(sink: &PipeSink<F>) -> Setup {
    let backing = sink.backing().ok();
    Setup {
        pieces: Some(sink.pieces()),
        alignment: Some(sink.alignment()),
        huge_bytes: backing.map(|backing| backing.huge),
        huge_shown_by: backing.map(|backing| backing.shown_by.name().to_owned()),
    }
}

/// Sends until the reader has left.
fn writer(spec: &EndSpec, sink: &mut impl Sink, words: &[AtomicU64]) -> anyhow::Result<Outcome> {
    let meter = Meter::new();
    let mut producer = Producer::new(spec.data, spec.work);
    let mut first: Option<Reading> = None;
    let mut second: Option<Reading> = None;
    loop {
        match sink.send(&mut producer) {
            Ok(()) => {}
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
            (Some(_), Some(_)) => continue,
        };
        let offset = words[due].load(Ordering::Acquire);
        if offset != 0 && sink.sent() >= offset {
            let reading = Some(meter.read(sink.sent(), sink.counts()));
            match due {
                BEGIN => {
                    sink.as_asked().map_err(Refused)?;
                    first = reading;
                }
                _ => second = reading,
            }
        }
    }
    match (first, second) {
        (Some(first), Some(second)) => Ok(Outcome {
            counters: second.since(&first),
            parts_gib_per_s: Vec::new(),
            window_ns: (first.monotonic_ns(), second.monotonic_ns()),
        }),
        _ => bail!(Left(
            "the reader left before the end of the trial".to_owned()
        )),
    }
}

/// Takes, keeps the time, and names the offsets.
fn reader<F: AsFd>(
    spec: &EndSpec,
    source: &mut PipeSource<F>,
    words: &[AtomicU64],
) -> anyhow::Result<Outcome> {
    let mut consumer = Consumer::new(spec.data, spec.work);
    let meter = Meter::new();
    let mut clock = Clock::new(spec);
    let mut received = 0;
    let mut take = |received: &mut u64, source: &mut PipeSource<F>| -> anyhow::Result<()> {
        let call = source.technique().name();
        let taken = source
            .take(usize::MAX)
            .map_err(|incomplete| refused_or_failed(call, *received, incomplete))?;
        let n = taken.len();
        if n == 0 {
            bail!(Left(format!(
                "the data ended early, after {received} bytes"
            )));
        }
        if let Taken::Data(bytes) = taken {
            consumer.consume(bytes)?;
        }
        *received += n as u64;
        Ok(())
    };

    clock.restart(received);
    while clock.look(received) < clock.warm_up {
        take(&mut received, source)?;
    }
    let begin = received + spec.margin;
    words[BEGIN].store(begin, Ordering::Release);
    while received < begin {
        clock.look(received);
        take(&mut received, source)?;
    }

    let first = meter.read(received, source.counts());
    clock.restart(received);
    while clock.look(received) < clock.timed {
        take(&mut received, source)?;
    }
    let end = received + spec.margin;
    words[END].store(end, Ordering::Release);
    while received < end {
        clock.look(received);
        take(&mut received, source)?;
    }
    let second = meter.read(received, source.counts());
    let parts_gib_per_s = clock.rates();
    Ok(Outcome {
        counters: second.since(&first),
        parts_gib_per_s,
        window_ns: (first.monotonic_ns(), second.monotonic_ns()),
    })
}

/// Runs `pass`, which returns the bytes it went over, for the time of a trial.
fn timed_alone(
    spec: &EndSpec,
    mut pass: impl FnMut() -> anyhow::Result<usize>,
) -> anyhow::Result<Outcome> {
    let meter = Meter::new();
    let mut clock = Clock::new(spec);
    let mut done = 0;
    clock.restart(done);
    while clock.look(done) < clock.warm_up {
        done += pass()? as u64;
    }
    let first = meter.read(done, Counts::default());
    clock.restart(done);
    while clock.look(done) < clock.timed {
        done += pass()? as u64;
    }
    let second = meter.read(done, Counts::default());
    Ok(Outcome {
        counters: EndCounters {
            syscalls: 0,
            ..second.since(&first)
        },
        parts_gib_per_s: clock.rates(),
        window_ns: (first.monotonic_ns(), second.monotonic_ns()),
    })
}

/// The memory a producer writes to where there is no channel: as many pieces
/// as it would have.
fn alone(sink: &SinkSpec) -> anyhow::Result<Vec<fastpipe::buffer::Buffer>> {
    (0..2)
        .map(|_| {
            Ok(fastpipe::buffer::Buffer::builder()
                .len(sink.buffer_bytes)
                .pages(sink.pages.into())
                .map()?)
        })
        .collect()
}

fn alone_source(source: &SourceSpec) -> anyhow::Result<fastpipe::buffer::Buffer> {
    let mut memory = fastpipe::buffer::Buffer::builder()
        .len(source.buffer_bytes)
        .pages(source.pages.into())
        .map()?;
    super::pattern::fill(&mut memory, 0);
    Ok(memory)
}
