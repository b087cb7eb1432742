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
use crate::channel::mqueue::Queue;
use crate::channel::pipe::{PipeSink, PipeSource};
use crate::channel::ring::{self, RingReceiver, RingTransmitter};
use crate::channel::socket::Socket;
use crate::channel::uring::Uring;
use crate::channel::{Sink, Source};
use crate::failure::{PeerGone, refusal_or_failure};
use crate::record::Setup;
use crate::spec::{
    EndSpec, PageKind, Role, SinkSpec, SinkTechnique, SourceSpec, SourceTechnique, Subject,
};
use pipespeed_host::process_memory::Backing;

/// Runs a writer or a reader and reports to the control socket.
///
/// # Errors
/// If the report can't be sent.
pub(crate) fn main(role: Role) -> io::Result<()> {
    serve(role, |control, instructions: Instructions<EndSpec>| {
        let spec = &instructions.spec;
        let driver = Driver {
            control,
            spec,
            words: instructions.words.words(),
        };
        match &spec.subject {
            Subject::Channel { reader, .. } if role == Role::Reader => {
                driver.read(reader, instructions.channel)
            }
            Subject::Channel { writer, .. } => driver.write(writer, instructions.channel),
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
    fn write(self, sink: &SinkSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let blocks = !sink.wait.spins();
        let bytes = sink.buffer_bytes;
        match sink.technique {
            SinkTechnique::Write | SinkTechnique::Vmsplice => {
                if sink.pages.is_thp() {
                    require_enabled(sink.pages)?;
                }
                let pipe = PipeSink::new(channel, sink);
                let pipe = pipe.map_err(|error| buffer_error(sink.pages, error))?;
                if sink.pages == PageKind::Huge && sink.touched {
                    require_huge(pipe.backing()?)?;
                }
                if sink.pages.is_thp() || sink.pages == PageKind::Split {
                    require_size(sink.pages, &pipe)?;
                }
                self.run_sink(pipe)
            }
            SinkTechnique::Fastpipe(_) | SinkTechnique::FastpipeIo | SinkTechnique::BufWriter => {
                self.run_sink(LibrarySink::new(channel, sink)?)
            }
            SinkTechnique::Send => {
                self.run_sink(MessageSink::new(Socket::new(channel, blocks), bytes)?)
            }
            SinkTechnique::QueueSend => {
                self.run_sink(MessageSink::new(Queue::new(channel, blocks)?, bytes)?)
            }
            SinkTechnique::UringWrite => {
                self.run_sink(MessageSink::new(Uring::new(channel, !blocks)?, bytes)?)
            }
            SinkTechnique::RingLend | SinkTechnique::RingWrite => {
                let ring = ring::offer(channel, bytes, sink.wait);
                let ring = ring.map_err(|error| refusal_or_failure(A_RING, setup_error(error)))?;
                if sink.technique == SinkTechnique::RingLend {
                    self.run_sink(RingTransmitter::new(ring, bytes, true))
                } else {
                    let ring = RingTransmitter::new(ring, bytes, false);
                    self.run_sink(MessageSink::new(ring, bytes)?)
                }
            }
        }
    }

    /// Sets up and runs the reader of a trial.
    fn read(self, source: &SourceSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let blocks = !source.wait.spins();
        let bytes = source.buffer_bytes;
        match source.technique {
            SourceTechnique::Read | SourceTechnique::Splice | SourceTechnique::SpliceThrough => {
                let pipe = PipeSource::new(channel, source)?;
                if let Some(buffer) = pipe.buffer()
                    && source.pages == PageKind::Huge
                    && source.touched
                {
                    require_huge(Backing::examine(buffer)?)?;
                }
                self.run_source(pipe)
            }
            SourceTechnique::Recv => {
                self.run_source(MessageSource::new(Socket::new(channel, blocks), bytes)?)
            }
            SourceTechnique::QueueReceive => {
                self.run_source(MessageSource::new(Queue::new(channel, blocks)?, bytes)?)
            }
            SourceTechnique::UringRead => {
                self.run_source(MessageSource::new(Uring::new(channel, !blocks)?, bytes)?)
            }
            SourceTechnique::RingPeek | SourceTechnique::RingRead => {
                let ring = ring::accept(channel, source.wait);
                let ring = ring.map_err(|error| refusal_or_failure(A_RING, setup_error(error)))?;
                if source.technique == SourceTechnique::RingPeek {
                    self.run_source(RingReceiver::new(ring, bytes, true))
                } else {
                    let ring = RingReceiver::new(ring, bytes, false);
                    self.run_source(MessageSource::new(ring, bytes)?)
                }
            }
        }
    }
}

const A_RING: &str = "a ring in shared memory";

/// Converts an error during setup: [`PeerGone`] if the peer has exited.
fn setup_error(error: impl Into<io::Error>) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let error = error.into();
    match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof => {
            PeerGone("the other end is gone".to_owned()).into()
        }
        _ => error.into(),
    }
}
