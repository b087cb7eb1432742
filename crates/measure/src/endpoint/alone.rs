//! Ends without a channel, which only produce or only consume data.

use fastpipe::buffer::Buffer;
use fastpipe::transfer::Counts;

use super::clock::TrialClock;
use super::control::Control;
use super::counters::Meter;
use super::outcome::Outcome;
use crate::data::{DataConsumer, DataProducer, pattern};
use crate::record::{EndCounters, Setup};
use crate::spec::{EndSpec, SinkSpec, SourceSpec};

/// Produces data in memory repeatedly.
pub(super) fn produce(
    control: &mut Control,
    spec: &EndSpec,
    sink: &SinkSpec,
) -> anyhow::Result<Outcome> {
    // Two buffers, as a writer with a channel has.
    let map = || {
        Buffer::builder()
            .len(sink.buffer_bytes)
            .pages(sink.pages.into())
            .map()
    };
    let mut memory = [map()?, map()?];
    control.wait_for_start(Setup::default())?;
    let mut producer = DataProducer::new(spec.data, spec.work);
    let mut next = 0;
    timed_alone(spec, move || {
        let at = next % memory.len();
        next += 1;
        producer.produce(&mut memory[at]);
        std::hint::black_box(&memory[at]);
        Ok(memory[at].len())
    })
}

/// Consumes the same memory repeatedly.
pub(super) fn consume(
    control: &mut Control,
    spec: &EndSpec,
    source: &SourceSpec,
) -> anyhow::Result<Outcome> {
    let mut memory = Buffer::builder()
        .len(source.buffer_bytes)
        .pages(source.pages.into())
        .map()?;
    pattern::fill(&mut memory, 0);
    control.wait_for_start(Setup::default())?;
    let mut consumer = DataConsumer::new(spec.data, spec.work);
    timed_alone(spec, move || {
        let bytes = std::hint::black_box(&memory[..]);
        consumer.rewind();
        consumer.consume(bytes)?;
        Ok(bytes.len())
    })
}

/// Calls `pass` repeatedly for the duration of a trial. It returns the number of bytes
/// that it processed.
pub(super) fn timed_alone(
    spec: &EndSpec,
    mut pass: impl FnMut() -> anyhow::Result<usize>,
) -> anyhow::Result<Outcome> {
    let meter = Meter::default();
    let mut clock = TrialClock::new(spec);
    let mut done = 0;
    clock.restart(done);
    while clock.update(done) < clock.warm_up {
        done += pass()? as u64;
    }
    let first = meter.read(done, Counts::default());
    clock.restart(done);
    while clock.update(done) < clock.timed {
        done += pass()? as u64;
    }
    let second = meter.read(done, Counts::default());
    Ok(Outcome {
        counters: EndCounters {
            syscalls: 0,
            ..second.since(&first)
        },
        parts_gib_per_s: clock.rates(),
        ..Outcome::between(&first, &second)
    })
}
