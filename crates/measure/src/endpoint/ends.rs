//! Which sink or source a spec asks for: made, proven, and driven.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use anyhow::bail;
use fastpipe::buffer::{Backing, BufferError};
use rustix::io::Errno;

use super::outcome::{Outcome, Setup};
use super::process::{reader, writer};
use super::spec::{EndSpec, PageKind, SinkSpec, SinkTechnique, SourceSpec, SourceTechnique};
use crate::channel::library::LibrarySink;
use crate::channel::mqueue::{QueueSink, QueueSource};
use crate::channel::pipe::{PipeSink, PipeSource};
use crate::channel::ring::{RingSink, RingSource};
use crate::channel::socket::{SocketSink, SocketSource};
use crate::channel::tcp::ZerocopySink;
use crate::channel::uring::{UringSink, UringSource};
use crate::channel::vm_readv::{FetchSource, OfferSink};
use crate::channel::{Sink, Source};
use crate::record::NotRun;
use crate::session::{Control, Gone, cause, not_allowed};
use pipespeed_host::Root;
use pipespeed_host::refusals::is_refusal;

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

    /// The writer of a trial, from its setting up to its end.
    pub(super) fn write(self, sink: &SinkSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
        let of_pieces = |pieces: usize| Setup {
            pieces: Some(pieces),
            ..Setup::default()
        };
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
            SinkTechnique::Send => self.send_by(SocketSink::new(channel, sink)?, of_pieces(1)),
            SinkTechnique::SendZerocopy => {
                let made = allowed("SO_ZEROCOPY", ZerocopySink::new(channel, sink))?;
                let setup = of_pieces(made.pieces());
                self.send_by(made, setup)
            }
            SinkTechnique::QueueSend => self.send_by(QueueSink::new(channel, sink)?, of_pieces(1)),
            SinkTechnique::Offer => {
                // It talks to the reader first.
                let made = OfferSink::new(channel, sink).map_err(left)?;
                let setup = of_pieces(made.pieces());
                self.send_by(made, setup)
            }
            SinkTechnique::UringWrite => {
                let made = allowed("io_uring_setup", UringSink::new(channel, sink))?;
                self.send_by(made, of_pieces(1))
            }
            SinkTechnique::RingLend | SinkTechnique::RingWrite => {
                let made = RingSink::new(channel, sink).map_err(left);
                let made = allowed("a ring in shared memory", made)?;
                let setup = Setup {
                    pieces: made.pieces(),
                    ring_bytes: Some(made.capacity()),
                    ..Setup::default()
                };
                self.send_by(made, setup)
            }
        }
    }

    /// The reader of a trial, from its setting up to its end.
    pub(super) fn read(self, source: &SourceSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
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
            SourceTechnique::Recv => self.take_by(SocketSource::new(channel, source)?),
            SourceTechnique::QueueReceive => self.take_by(QueueSource::new(channel, source)?),
            SourceTechnique::Fetch => self.take_by(FetchSource::new(channel, source)?),
            SourceTechnique::UringRead => self.take_by(allowed(
                "io_uring_setup",
                UringSource::new(channel, source),
            )?),
            SourceTechnique::RingPeek | SourceTechnique::RingRead => {
                let made = RingSource::new(channel, source).map_err(left);
                self.take_by(allowed("a ring in shared memory", made)?)
            }
        }
    }
}

/// That the other end has gone before the start is not this one's fault.
fn left(error: anyhow::Error) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let errno = error.downcast_ref::<Errno>().map(|errno| errno.kind());
    let kind = errno.or(error.downcast_ref::<io::Error>().map(io::Error::kind));
    match kind {
        Some(BrokenPipe | ConnectionRefused | ConnectionReset | UnexpectedEof) => {
            Gone("the other end is gone".to_owned()).into()
        }
        _ => error,
    }
}

/// What a machine does not allow is a refusal, not a failure.
fn allowed<T>(call: &str, made: anyhow::Result<T>) -> anyhow::Result<T> {
    made.map_err(|error| match cause(&error) {
        Some(cause) if is_refusal(&cause) => not_allowed(call, &cause).into(),
        _ => error.context(call.to_owned()),
    })
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
