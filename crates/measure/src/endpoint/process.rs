//! An endpoint process: set up, wait for the start, run, report.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

use super::control::Control;
use super::outcome::Outcome;
use super::pages::{buffer_error, require_enabled, require_huge, require_size};
use super::serve::{Instructions, serve};
use super::stream::{reader, writer};
use super::{alone, memory};
use crate::channel::library::LibrarySink;
use crate::channel::message::{MessageSink, MessageSource};
use crate::channel::pipe::{PipeSink, PipeSource};
use crate::channel::ring::{RingReceiver, RingTransmitter};
use crate::channel::{self, Sink, Source};
use crate::record::Setup;
use crate::spec::{
    Channel, ChannelSizes, EndSpec, PageKind, PipeReader, PipeWriter, ProcessRole, SinkSpec,
    SourceSpec, Subject,
};
use pipespeed_host::process_memory::Backing;

/// Runs a writer or a reader and reports to the control socket.
///
/// # Errors
/// If the report can't be sent.
pub(crate) fn main(role: ProcessRole) -> io::Result<()> {
    serve(role, |control, instructions: Instructions<EndSpec>| {
        let spec = &instructions.spec;
        let driver = Driver {
            control,
            spec,
            words: instructions.words.words(),
        };
        match &spec.subject {
            Subject::Channel {
                channel, reader, ..
            } if role == ProcessRole::Reader => driver.read(*channel, reader, instructions.channel),
            Subject::Channel {
                channel, writer, ..
            } => driver.write(*channel, writer, instructions.channel),
            Subject::Produce(sink) => alone::produce(driver.control, spec, sink),
            Subject::Consume(source) => alone::consume(driver.control, spec, source),
            Subject::Memory(block) => memory::run(driver.control, spec, block),
        }
    })
}

/// Runs one end of a trial.
struct Driver<'a> {
    control: &'a mut Control,
    spec: &'a EndSpec,
    words: &'a [AtomicU64],
}

impl Driver<'_> {
    fn run_sink(self, mut sink: impl Sink) -> anyhow::Result<Outcome> {
        self.control.wait_for_start(sink.setup())?;
        writer(self.spec, &mut sink, self.words)
    }

    fn run_source(self, mut source: impl Source) -> anyhow::Result<Outcome> {
        self.control.wait_for_start(Setup::default())?;
        reader(self.spec, &mut source, self.words)
    }

    /// Sets up and runs the writer of a trial.
    fn write(self, channel: Channel, sink: &SinkSpec, fd: OwnedFd) -> anyhow::Result<Outcome> {
        let bytes = sink.buffer_bytes;
        let sizes = ChannelSizes::for_throughput(bytes, None);
        match (channel, channel.pipe_writer()) {
            (_, Some(library)) if library.is_library() => {
                self.run_sink(LibrarySink::new(fd, library, sink)?)
            }
            (_, Some(technique)) => self.run_sink(pipe_sink(technique, sink, fd)?),
            (Channel::Ring, _) => {
                self.run_sink(RingTransmitter::offer(fd, sizes, sink.wait, true)?)
            }
            (Channel::RingCopy, _) => {
                let ring = RingTransmitter::offer(fd, sizes, sink.wait, false)?;
                self.run_sink(MessageSink::new(Box::new(ring), bytes)?)
            }
            _ => {
                let transmitter = channel::transmitter(channel, fd, sizes, sink.wait)?;
                self.run_sink(MessageSink::new(transmitter, bytes)?)
            }
        }
    }

    /// Sets up and runs the reader of a trial.
    fn read(self, channel: Channel, source: &SourceSpec, fd: OwnedFd) -> anyhow::Result<Outcome> {
        let bytes = source.buffer_bytes;
        let sizes = ChannelSizes::for_throughput(bytes, None);
        match (channel, channel.pipe_reader()) {
            (_, Some(technique)) => self.run_source(pipe_source(technique, source, fd)?),
            (Channel::Ring, _) => {
                self.run_source(RingReceiver::accept(fd, sizes, source.wait, true)?)
            }
            (Channel::RingCopy, _) => {
                let ring = RingReceiver::accept(fd, sizes, source.wait, false)?;
                self.run_source(MessageSource::new(Box::new(ring), bytes)?)
            }
            _ => {
                let receiver = channel::receiver(channel, fd, sizes, source.wait)?;
                self.run_source(MessageSource::new(receiver, bytes)?)
            }
        }
    }
}

/// Creates the writing end of a pipe, and checks its pages.
fn pipe_sink(
    technique: PipeWriter,
    sink: &SinkSpec,
    fd: OwnedFd,
) -> anyhow::Result<PipeSink<OwnedFd>> {
    if sink.pages.is_thp() {
        require_enabled(sink.pages)?;
    }
    let pipe = PipeSink::new(fd, technique, sink);
    let pipe = pipe.map_err(|error| buffer_error(sink.pages, error))?;
    if sink.pages == PageKind::Huge && sink.touched {
        require_huge(pipe.backing(Backing::examine)?)?;
    }
    if sink.pages.is_thp() || sink.pages == PageKind::Split {
        require_size(sink.pages, &pipe)?;
    }
    Ok(pipe)
}

/// Creates the reading end of a pipe, and checks its pages.
fn pipe_source(
    technique: PipeReader,
    source: &SourceSpec,
    fd: OwnedFd,
) -> anyhow::Result<PipeSource<OwnedFd>> {
    let pipe = PipeSource::new(fd, technique, source)?;
    if let Some(buffer) = pipe.buffer()
        && source.pages == PageKind::Huge
        && source.touched
    {
        require_huge(Backing::examine(buffer)?)?;
    }
    Ok(pipe)
}
