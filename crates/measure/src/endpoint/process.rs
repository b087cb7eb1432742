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
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;

use super::clock::Clock;
use super::counters::{Meter, Reading};
use super::data::{Consumer, Producer};
use super::ends::Driver;
use super::outcome::Outcome;
use super::spec::{EndSpec, Part};
use super::{alone, memory};
use crate::channel::{Sink, Source, Taken};
use crate::record::NotRun;
use crate::session::{self, Instructions, PeerGone, Role, refusal_or_failure};

pub use super::ends::huge_pages_refused;

/// The shared words: the offsets at which the readings are taken, 0 until
/// they are named; what the writer has sent; and whether the reader has taken
/// its last reading.
const BEGIN: usize = 0;
const END: usize = 1;
const SENT: usize = 2;
const LEFT: usize = 3;

/// Runs a writer or a reader, and reports to the control socket.
///
/// # Errors
/// When there is nobody to report to.
pub(crate) fn main(role: Role) -> io::Result<()> {
    session::serve(role, |control, instructions: Instructions<EndSpec>| {
        let spec = &instructions.spec;
        let driver = Driver {
            control,
            spec,
            words: instructions.words.words(),
        };
        match &spec.part {
            Part::Writer(sink) => driver.write(sink, instructions.channel),
            Part::Reader(source) => driver.read(source, instructions.channel),
            Part::ProduceAlone(sink) => alone::produce(driver.control, spec, sink),
            Part::ConsumeAlone(source) => alone::consume(driver.control, spec, source),
            Part::Memory(block) => memory::run(driver.control, spec, block),
        }
    })
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
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // The reader leaves at the second offset, which may lie within
                // the piece that was being sent.
                let end = words[END].load(Ordering::Acquire);
                if first.is_some() && second.is_none() && end != 0 && sink.sent() >= end {
                    second = Some(meter.read(sink.sent(), sink.counts()));
                }
                break;
            }
            Err(error) => return Err(refused_or_failed(sink.call(), sink.sent(), error)),
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
            zerocopy: sink.zerocopy(),
            ..Outcome::between(&first, &second)
        }),
        _ => bail!(PeerGone(
            "the reader left before the end of the trial".to_owned()
        )),
    }
}

/// The error of a call; once something was moved, the machine does allow the call.
fn refused_or_failed(call: &str, moved: u64, error: io::Error) -> anyhow::Error {
    if moved == 0 {
        refusal_or_failure(call, error)
    } else {
        anyhow::Error::new(error).context(call.to_owned())
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
    Ok(Outcome {
        parts_gib_per_s: clock.rates(),
        ..Outcome::between(&first, &second)
    })
}

/// Takes and uses what is there. Returns how many bytes.
fn take(received: u64, source: &mut impl Source, consumer: &mut Consumer) -> anyhow::Result<u64> {
    let call = source.call();
    let taken = source
        .take()
        .map_err(|error| refused_or_failed(call, received, error))?;
    if taken.is_empty() {
        bail!(PeerGone(format!(
            "the data ended early, after {received} bytes"
        )));
    }
    if let Taken::Data(bytes) = &taken {
        consumer.consume(bytes)?;
    }
    Ok(taken.len() as u64)
}
