//! Which sink or source a spec asks for: made, proven, and driven.

use std::io;
use std::os::fd::OwnedFd;
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
use crate::channel::ring::{self, RingReceiver, RingTransmitter};
use crate::channel::socket::Socket;
use crate::channel::tcp::{self, ZerocopySends};
use crate::channel::uring::Uring;
use crate::channel::vm_readv::{self, Fetch, Offer};
use crate::channel::{Sink, Source};
use crate::record::NotRun;
use crate::session::{Control, PeerGone, refusal_or_failure};
use pipespeed_host::Root;

/// What drives an end, whichever it is.
pub(super) struct Driver<'a> {
    pub(super) control: &'a mut Control,
    pub(super) spec: &'a EndSpec,
    pub(super) words: &'a [AtomicU64],
}

impl Driver<'_> {
    fn send_by(self, mut sink: impl Sink) -> anyhow::Result<Outcome> {
        self.control.wait_for_start(sink.setup())?;
        writer(self.spec, &mut sink, self.words)
    }

    fn take_by(self, mut source: impl Source) -> anyhow::Result<Outcome> {
        self.control.wait_for_start(Setup::default())?;
        reader(self.spec, &mut source, self.words)
    }

    /// The writer of a trial, from its setting up to its end.
    pub(super) fn write(self, sink: &SinkSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let sleeps = sink.wait != Waiting::Spin;
        let bytes = sink.buffer_bytes;
        match sink.technique {
            SinkTechnique::Write | SinkTechnique::Vmsplice => {
                let made = PipeSink::new(channel, sink).map_err(no_buffer)?;
                if sink.pages == PageKind::Huge && sink.touched {
                    all_huge(made.backing()?)?;
                }
                self.send_by(made)
            }
            SinkTechnique::Fastpipe(_)
            | SinkTechnique::FastpipeIo(_)
            | SinkTechnique::BufWriter => self.send_by(LibrarySink::new(channel, sink)?),
            SinkTechnique::Send => {
                self.send_by(MessageSink::new(Socket::new(channel, sleeps), bytes, 1)?)
            }
            SinkTechnique::SendZerocopy => {
                let pieces = tcp::pieces(bytes);
                let made = ZerocopySends::new(Socket::new(channel, sleeps), pieces, true)?;
                self.send_by(MessageSink::new(made, bytes, pieces)?)
            }
            SinkTechnique::QueueSend => {
                self.send_by(MessageSink::new(Queue::new(channel, sleeps)?, bytes, 1)?)
            }
            SinkTechnique::Offer => {
                let pieces = vm_readv::pieces(bytes);
                vm_readv::introduce(&channel).map_err(gone)?;
                let made = Offer::new(Socket::new(channel, sleeps), Some(pieces));
                self.send_by(MessageSink::new(made, bytes, pieces)?)
            }
            SinkTechnique::UringWrite => {
                self.send_by(MessageSink::new(Uring::new(channel, !sleeps)?, bytes, 1)?)
            }
            SinkTechnique::RingLend | SinkTechnique::RingWrite => {
                let made = ring::offer(channel, bytes, sink.wait);
                let made = made.map_err(|error| refusal_or_failure(A_RING, gone(error)))?;
                if sink.technique == SinkTechnique::RingLend {
                    self.send_by(RingTransmitter::new(made, bytes, true))
                } else {
                    let made = RingTransmitter::new(made, bytes, false);
                    self.send_by(MessageSink::new(made, bytes, 1)?)
                }
            }
        }
    }

    /// The reader of a trial, from its setting up to its end.
    pub(super) fn read(self, source: &SourceSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let sleeps = source.wait != Waiting::Spin;
        let bytes = source.buffer_bytes;
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
            SourceTechnique::Recv => {
                self.take_by(MessageSource::new(Socket::new(channel, sleeps), bytes)?)
            }
            SourceTechnique::QueueReceive => {
                self.take_by(MessageSource::new(Queue::new(channel, sleeps)?, bytes)?)
            }
            SourceTechnique::Fetch => {
                let writer = vm_readv::introduce(&channel).map_err(gone)?;
                let made = Fetch::new(Socket::new(channel, sleeps), writer, true);
                self.take_by(MessageSource::new(made, bytes)?)
            }
            SourceTechnique::UringRead => {
                self.take_by(MessageSource::new(Uring::new(channel, !sleeps)?, bytes)?)
            }
            SourceTechnique::RingPeek | SourceTechnique::RingRead => {
                let made = ring::accept(channel, source.wait);
                let made = made.map_err(|error| refusal_or_failure(A_RING, gone(error)))?;
                if source.technique == SourceTechnique::RingPeek {
                    self.take_by(RingReceiver::new(made, bytes, true))
                } else {
                    let made = RingReceiver::new(made, bytes, false);
                    self.take_by(MessageSource::new(made, bytes)?)
                }
            }
        }
    }
}

const A_RING: &str = "a ring in shared memory";

/// That the other end has gone before the start is not this one's fault.
fn gone(error: impl Into<io::Error>) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let error = error.into();
    match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof => {
            PeerGone("the other end is gone".to_owned()).into()
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

/// Makes sure that memory lies in huge pages.
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
