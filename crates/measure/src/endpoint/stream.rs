//! The loops of the two ends of a channel, which move data and take the readings.
//!
//! The two ends of a channel read their counters at the same byte offsets. The reader
//! keeps the time. When the time for a reading has come, it publishes an offset in
//! shared memory, far enough ahead of what the writer has sent (the margin) that the
//! writer can't have passed it. Each end takes its reading when it reaches the offset.
//!
//! ```text
//! reader:  warm up until the time is over
//!          publish an offset ahead; at that offset, take the first reading
//!          continue until the time is over, recording the progress
//!          publish an offset ahead; at that offset, take the second reading and exit
//! writer:  send; take a reading at each published offset
//!          continue until the reader has exited
//! ```

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;

use super::clock::TrialClock;
use super::counters::{Meter, Reading};
use super::outcome::Outcome;
use crate::channel::{Sink, Source, Taken};
use crate::data::{DataConsumer, DataProducer};
use crate::failure::{PeerGone, refusal_or_failure};
use crate::record::NotRun;
use crate::spec::EndSpec;

/// The shared words: the offsets of the two readings, 0 until they are published; the
/// bytes that the writer has sent; and whether the reader has taken its last reading.
const BEGIN: usize = 0;
const END: usize = 1;
const SENT: usize = 2;
const READER_DONE: usize = 3;

/// Runs the writer: sends until the reader has exited.
pub(super) fn writer(
    spec: &EndSpec,
    sink: &mut impl Sink,
    words: &[AtomicU64],
) -> anyhow::Result<Outcome> {
    let meter = Meter::default();
    let mut producer = DataProducer::new(spec.data, spec.work);
    let mut first: Option<Reading> = None;
    let mut second: Option<Reading> = None;
    loop {
        match sink.send(&mut producer) {
            Ok(()) => words[SENT].store(sink.sent(), Ordering::Release),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // The reader exits at the second offset, which may lie within the piece
                // that was being sent.
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
            (Some(_), Some(_)) if words[READER_DONE].load(Ordering::Acquire) != 0 => break,
            (Some(_), Some(_)) => continue,
        };
        let offset = words[due].load(Ordering::Acquire);
        if offset != 0 && sink.sent() >= offset {
            let reading = Some(meter.read(sink.sent(), sink.counts()));
            match due {
                BEGIN => {
                    sink.check_technique().map_err(NotRun::refused)?;
                    first = reading;
                }
                _ => {
                    sink.expect_reader_exit();
                    second = reading;
                }
            }
        }
    }
    match (first, second) {
        (Some(first), Some(second)) => Ok(Outcome::between(&first, &second)),
        _ => bail!(PeerGone(
            "the reader exited before the end of the trial".to_owned()
        )),
    }
}

/// Converts an error of a call. It is a refusal only if nothing was moved yet: later,
/// the call is known to be allowed.
fn refused_or_failed(call: &str, moved: u64, error: io::Error) -> anyhow::Error {
    if moved == 0 {
        refusal_or_failure(call, error)
    } else {
        anyhow::Error::new(error).context(call.to_owned())
    }
}

/// Runs the reader: takes data, keeps the time and publishes the offsets.
pub(super) fn reader(
    spec: &EndSpec,
    source: &mut impl Source,
    words: &[AtomicU64],
) -> anyhow::Result<Outcome> {
    let mut consumer = DataConsumer::new(spec.data, spec.work);
    let meter = Meter::default();
    let mut clock = TrialClock::new(spec);
    let mut received = 0;
    // An offset that the writer can't have reached yet.
    let ahead = |received: u64| received.max(words[SENT].load(Ordering::Acquire)) + spec.margin;

    clock.restart(received);
    while clock.update(received) < clock.warm_up {
        received += take(received, source, &mut consumer)?;
    }
    let begin = ahead(received);
    words[BEGIN].store(begin, Ordering::Release);
    while received < begin {
        clock.update(received);
        received += take(received, source, &mut consumer)?;
    }

    let first = meter.read(received, source.counts());
    clock.restart(received);
    let end = match spec.timed_bytes {
        Some(bytes) => ahead(received).max(received + bytes),
        None => {
            while clock.update(received) < clock.timed {
                received += take(received, source, &mut consumer)?;
            }
            ahead(received)
        }
    };
    words[END].store(end, Ordering::Release);
    while received < end {
        clock.update(received);
        received += take(received, source, &mut consumer)?;
    }
    if spec.timed_bytes.is_some() {
        clock.update_now(received);
    }
    let second = meter.read(received, source.counts());
    words[READER_DONE].store(1, Ordering::Release);
    Ok(Outcome {
        parts_gib_per_s: clock.rates(),
        ..Outcome::between(&first, &second)
    })
}

/// Takes and consumes the available data. Returns the number of bytes.
fn take(
    received: u64,
    source: &mut impl Source,
    consumer: &mut DataConsumer,
) -> anyhow::Result<u64> {
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
