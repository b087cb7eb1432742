//! Creates the sink or source of a specification, and runs it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use anyhow::bail;
use fastpipe::buffer::{BufferError, huge_page_size};

use super::outcome::{Outcome, Setup};
use super::process::{reader, writer};
use super::spec::{EndSpec, PageKind, SinkSpec, SinkTechnique, SourceSpec, SourceTechnique};
use crate::channel::library::LibrarySink;
use crate::channel::message::{MessageSink, MessageSource};
use crate::channel::mqueue::Queue;
use crate::channel::pipe::{PipeSink, PipeSource};
use crate::channel::ring::{self, RingReceiver, RingTransmitter};
use crate::channel::socket::Socket;
use crate::channel::uring::Uring;
use crate::channel::{Sink, Source};
use crate::record::NotRun;
use crate::session::{Control, PeerGone, refusal_or_failure};
use pipespeed_host::process_memory::Backing;
use pipespeed_host::{Root, Transparent};

/// Runs one end of a trial.
pub(super) struct Driver<'a> {
    pub(super) control: &'a mut Control,
    pub(super) spec: &'a EndSpec,
    pub(super) words: &'a [AtomicU64],
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
    pub(super) fn write(self, sink: &SinkSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
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
    pub(super) fn read(self, source: &SourceSpec, channel: OwnedFd) -> anyhow::Result<Outcome> {
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

/// Converts an error of mapping a buffer. If a limit is the cause: [`NotRun`] with a
/// remedy.
fn buffer_error(pages: PageKind, error: BufferError) -> anyhow::Error {
    let remedy = match &error {
        BufferError::NoHugeTlb { .. } if pages == PageKind::HugeTlb1G => {
            let reason = "not enough reserved huge pages of 1 GiB; as root, `echo 2 > \
                          /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages` reserves \
                          two, if the processor has them and memory is not fragmented";
            return NotRun::refused(reason).into();
        }
        BufferError::NoHugeTlb { .. } => "as root, `sysctl vm.nr_hugepages=8` reserves some",
        BufferError::Lock { .. } => "raise it by `ulimit -l`, or run as root",
        _ => return error.into(),
    };
    NotRun::refused(format!("{error}; {remedy}")).into()
}

/// Checks that memory consists of huge pages only.
pub(super) fn require_huge(backing: Backing) -> anyhow::Result<()> {
    if !backing.all_huge() {
        bail!(NotRun::refused(huge_pages_refused(
            backing.huge,
            backing.mapped
        )));
    }
    Ok(())
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Checks that transparent huge pages of this size are enabled.
fn require_enabled(pages: PageKind) -> anyhow::Result<()> {
    let bytes = pages.bytes().unwrap_or_default();
    let kib = bytes / 1024;
    let settings = Transparent::read(&Root::default()).unwrap_or_default();
    let mut sizes = settings.sizes.iter();
    let own = sizes.find(|size| size.page_bytes == bytes as u64);
    let (setting, directory) = match own.and_then(|size| size.enabled.as_deref()) {
        None => bail!(NotRun::refused(format!(
            "this kernel has no transparent huge pages of {kib} KiB (Linux 6.8 has some)"
        ))),
        Some("inherit") => (settings.enabled.as_deref(), String::new()),
        own => (own, format!("/hugepages-{kib}kB")),
    };
    if setting == Some("never") {
        bail!(NotRun::refused(format!(
            "transparent huge pages of {kib} KiB are turned off; as root, `echo madvise > \
             {THP}{directory}/enabled` enables them"
        )));
    }
    Ok(())
}

/// Checks that the writer's buffers consist of pages of this size and, if they are to
/// be split, that no page-table entry maps a whole one.
fn require_size<F: AsFd>(pages: PageKind, pipe: &PipeSink<F>) -> anyhow::Result<()> {
    let wanted = pages.bytes().unwrap_or_else(huge_page_size);
    let kib = |bytes: usize| bytes / 1024;
    let found = match pipe.page_bytes() {
        Ok(found) => found,
        Err(error) => bail!(NotRun::refused(format!(
            "whether the pages are of {} KiB can't be proven without root ({error})",
            kib(wanted)
        ))),
    };
    if found != Some(wanted) {
        let found = found.map_or_else(
            || "are of several sizes".to_owned(),
            |bytes| format!("are of {} KiB", kib(bytes)),
        );
        bail!(NotRun::refused(format!(
            "the pages {found} instead of {} KiB: memory may be too fragmented, or the process \
             is not allowed to use them",
            kib(wanted)
        )));
    }
    let whole = pipe.backing_from_smaps()?.huge;
    if pages == PageKind::Split && whole > 0 {
        bail!(NotRun::refused(format!(
            "{} KiB are still mapped by entries of whole huge pages",
            whole / 1024
        )));
    }
    Ok(())
}

/// A sentence on why a buffer does not consist of huge pages only.
pub fn huge_pages_refused(huge: u64, mapped: u64) -> String {
    let settings = Transparent::read(&Root::default());
    let why = match settings.and_then(|settings| settings.enabled).as_deref() {
        None => "this kernel has no transparent huge pages".to_owned(),
        Some("never") => format!("{THP}/enabled is 'never'; 'madvise' is enough"),
        _ if disabled_for_this_process() => {
            "they are turned off for this process (PR_SET_THP_DISABLE of prctl(2))".to_owned()
        }
        _ => "memory may be too fragmented, or the process is not allowed to use them".to_owned(),
    };
    format!(
        "only {} of {} KiB are in transparent huge pages: {why}",
        huge / 1024,
        mapped / 1024
    )
}

/// Whether transparent huge pages are turned off for this process
/// (proc_pid_status(5), `THP_enabled`).
fn disabled_for_this_process() -> bool {
    let enabled = Root::default().field("proc/self/status", "THP_enabled");
    enabled.as_deref() == Some("0")
}
