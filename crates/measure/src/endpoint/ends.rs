//! Which sink or source a spec asks for: made, proven, and driven.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use anyhow::bail;
use fastpipe::buffer::{Backing, BufferError};

use super::outcome::{Outcome, Setup};
use super::process::{reader, writer};
use super::spec::{
    EndSpec, PageKind, SinkSpec, SinkTechnique, SourceSpec, SourceTechnique, Waiting,
};
use crate::channel::library::LibrarySink;
use crate::channel::message::{MessageSink, MessageSource};
use crate::channel::mqueue::Queue;
use crate::channel::pipe::{PipeSink, PipeSource};
use crate::channel::ring::{self, RingReceiver, RingSink, RingSource, RingTransmitter};
use crate::channel::socket::Socket;
use crate::channel::tcp::{self, ZerocopySends};
use crate::channel::uring::Uring;
use crate::channel::vm_readv::{self, Fetch, Offer};
use crate::channel::{End, Receiver, Sink, Source, Transmitter};
use crate::record::NotRun;
use crate::session::{Control, Gone, allowed};
use pipespeed_host::Root;

/// What drives an end, whichever it is.
pub(super) struct Driver<'a> {
    pub(super) control: &'a mut Control,
    pub(super) spec: &'a EndSpec,
    pub(super) words: &'a [AtomicU64],
}

impl Driver<'_> {
    fn send_by(self, mut sink: impl Sink, setup: Setup) -> anyhow::Result<Outcome> {
        self.control.wait_for_start(setup)?;
        writer(self.spec, &mut sink, self.words)
    }

    fn take_by(self, mut source: impl Source) -> anyhow::Result<Outcome> {
        self.control.wait_for_start(Setup::default())?;
        reader(self.spec, &mut source, self.words)
    }

    fn send_messages(
        self,
        transmitter: impl Transmitter,
        sink: &SinkSpec,
        pieces: usize,
    ) -> anyhow::Result<Outcome> {
        let setup = Setup {
            pieces: Some(pieces),
            ..Setup::default()
        };
        self.send_by(MessageSink::new(transmitter, sink, pieces)?, setup)
    }

    fn take_messages(
        self,
        receiver: impl Receiver,
        source: &SourceSpec,
    ) -> anyhow::Result<Outcome> {
        self.take_by(MessageSource::new(receiver, source.buffer_bytes)?)
    }

    /// The writer of a trial, from its setting up to its end.
    pub(super) fn write(self, sink: &SinkSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let sleeps = sink.wait != Waiting::Spin;
        match sink.technique {
            SinkTechnique::Write | SinkTechnique::Vmsplice => {
                let made = PipeSink::new(channel, sink)
                    .map_err(no_buffer)
                    .and_then(|made| proven(made, sink.pages, sink.touched))?;
                let setup = setup_of(&made);
                self.send_by(made, setup)
            }
            SinkTechnique::Fastpipe(_)
            | SinkTechnique::FastpipeIo(_)
            | SinkTechnique::BufWriter => {
                let Some(made) = LibrarySink::new(channel, sink)? else {
                    bail!("no such sink");
                };
                self.send_by(made, Setup::default())
            }
            SinkTechnique::Send => self.send_messages(Socket::new(channel, sleeps), sink, 1),
            SinkTechnique::SendZerocopy => {
                let pieces = tcp::pieces(sink.buffer_bytes);
                let made = ZerocopySends::new(Socket::new(channel, sleeps), pieces, true);
                let made = made.map_err(|errno| allowed("SO_ZEROCOPY", errno))?;
                self.send_messages(made, sink, pieces)
            }
            SinkTechnique::QueueSend => self.send_messages(queue(channel, sleeps)?, sink, 1),
            SinkTechnique::Offer => {
                let pieces = vm_readv::pieces(sink.buffer_bytes);
                vm_readv::introduce(&channel).map_err(gone)?;
                let made = Offer::new(Socket::new(channel, sleeps), Some(pieces));
                self.send_messages(made, sink, pieces)
            }
            SinkTechnique::UringWrite => {
                let made = Uring::new(channel, !sleeps);
                let made = made.map_err(|error| allowed("io_uring_setup", error))?;
                self.send_messages(made, sink, 1)
            }
            SinkTechnique::RingLend | SinkTechnique::RingWrite => {
                let made = ring::offer(channel, sink.buffer_bytes, sink.wait);
                let made = made.map_err(|error| allowed(A_RING, gone(error)))?;
                let setup = Setup {
                    ring_bytes: Some(made.capacity()),
                    ..Setup::default()
                };
                if sink.technique == SinkTechnique::RingLend {
                    return self.send_by(RingSink::new(made, sink.buffer_bytes), setup);
                }
                let made = RingTransmitter::new(made, sink.buffer_bytes, false);
                let setup = Setup {
                    pieces: Some(1),
                    ..setup
                };
                self.send_by(MessageSink::new(made, sink, 1)?, setup)
            }
        }
    }

    /// The reader of a trial, from its setting up to its end.
    pub(super) fn read(self, source: &SourceSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let sleeps = source.wait != Waiting::Spin;
        match source.technique {
            SourceTechnique::Read | SourceTechnique::Splice | SourceTechnique::SpliceThrough => {
                let made = PipeSource::new(channel, source)?;
                if let Some(buffer) = made.buffer()
                    && source.pages == PageKind::Huge
                    && source.touched
                {
                    all_huge(buffer.backing()?)?;
                }
                self.take_by(made)
            }
            SourceTechnique::Recv => self.take_messages(Socket::new(channel, sleeps), source),
            SourceTechnique::QueueReceive => self.take_messages(queue(channel, sleeps)?, source),
            SourceTechnique::Fetch => {
                let writer = vm_readv::introduce(&channel).map_err(gone)?;
                let made = Fetch::new(Socket::new(channel, sleeps), writer, true);
                self.take_messages(made, source)
            }
            SourceTechnique::UringRead => {
                let made = Uring::new(channel, !sleeps);
                let made = made.map_err(|error| allowed("io_uring_setup", error))?;
                self.take_messages(made, source)
            }
            SourceTechnique::RingPeek | SourceTechnique::RingRead => {
                let made = ring::accept(channel, source.wait);
                let made = made.map_err(|error| allowed(A_RING, gone(error)))?;
                let bytes = source.buffer_bytes;
                if source.technique == SourceTechnique::RingPeek {
                    self.take_by(RingSource::new(made, bytes))
                } else {
                    self.take_messages(RingReceiver::new(made, bytes, false), source)
                }
            }
        }
    }
}

const A_RING: &str = "a ring in shared memory";

fn queue(channel: OwnedFd, sleeps: bool) -> io::Result<Queue> {
    let mut queue = Queue::new(channel);
    if !sleeps {
        queue.never_sleep()?;
    }
    Ok(queue)
}

/// That the other end has gone before the start is not this one's fault.
fn gone(error: impl Into<io::Error>) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let error = error.into();
    match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof => {
            Gone("the other end is gone".to_owned()).into()
        }
        _ => error.into(),
    }
}

/// Limits on memory are a refusal, with the way out.
fn no_buffer(error: BufferError) -> anyhow::Error {
    let way_out = match &error {
        BufferError::NoHugeTlb { .. } => "as root, `sysctl vm.nr_hugepages=8` reserves some",
        BufferError::Lock { .. } => "raise it by `ulimit -l`, or run as root",
        _ => return error.into(),
    };
    NotRun::refused(format!("{error}; {way_out}")).into()
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

pub(super) fn all_huge(backing: Backing) -> anyhow::Result<()> {
    if !backing.all_huge() {
        bail!(NotRun::refused(huge_pages_refused(
            backing.huge,
            backing.mapped
        )));
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
        _ if forbidden_to_us() => {
            "this process, or who started it, has turned them off (PR_SET_THP_DISABLE of prctl(2))"
                .to_owned()
        }
        _ => "memory may be too fragmented, or the process may not use them".to_owned(),
    };
    format!(
        "transparent huge pages were not given ({} of {} KiB): {why}",
        huge / 1024,
        mapped / 1024
    )
}

/// Whether transparent huge pages are turned off for this process
/// (proc_pid_status(5), `THP_enabled`).
fn forbidden_to_us() -> bool {
    let enabled = Root::default().field("proc/self/status", "THP_enabled");
    enabled.as_deref() == Some("0")
}

fn setup_of<F: AsFd>(sink: &PipeSink<F>) -> Setup {
    let backing = sink.backing().ok();
    Setup {
        pieces: Some(sink.pieces()),
        alignment: Some(sink.alignment()),
        huge_bytes: backing.map(|backing| backing.huge),
        huge_shown_by: backing.map(|backing| backing.shown_by.name().to_owned()),
        ..Setup::default()
    }
}
