//! Sinks that write to a pipe like ordinary programs: through fastpipe's `Writer` or
//! the standard library's `BufWriter`.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::os::fd::OwnedFd;

use anyhow::bail;
use fastpipe::buffer::Buffer;
use fastpipe::method::{AssertReaderCopies, Method};
use fastpipe::transfer::Counts;
use fastpipe::writer::Writer;

use pipespeed_host::Root;

use super::Sink;
use crate::data::DataProducer;
use crate::spec::{PageReuse, PipeWriter, SinkSpec};

/// The writing end.
#[derive(Debug)]
pub struct LibrarySink {
    writer: AnyWriter,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a process has one of them")]
enum AnyWriter {
    /// fastpipe's. The data is produced in the pages that it lends or, if there is a
    /// buffer, in the buffer and then written.
    Writer {
        out: Writer<OwnedFd>,
        reuse: PageReuse,
        buffer: Option<Buffer>,
    },
    /// The standard library's.
    Buffered {
        out: BufWriter<StdoutLock<'static>>,
        buffer: Buffer,
        sent: u64,
    },
}

impl LibrarySink {
    /// Creates the sink described by `spec`. [`PipeWriter::BufWriter`] writes to
    /// standard output, which must be `channel`.
    ///
    /// # Errors
    /// If memory can't be mapped, or the technique is not a library's.
    pub fn new(channel: OwnedFd, library: PipeWriter, spec: &SinkSpec) -> anyhow::Result<Self> {
        let open = |reuse: PageReuse| {
            let builder = Writer::builder()
                .wait(spec.wait.into())
                .pages(spec.pages.into())
                .keep_capacity()
                .at_once();
            let builder = match reuse {
                // Its loans are as long as suits the way in use.
                PageReuse::Auto => builder.method(Method::Auto),
                PageReuse::AutoClone => builder.method(Method::Auto).allow_clone(true),
                PageReuse::Fresh => builder.method(Method::Fresh).loan(spec.loan_bytes),
                PageReuse::Drained => builder
                    .method(Method::Drained(AssertReaderCopies))
                    .loan(spec.loan_bytes),
                PageReuse::CowChecked => builder.method(Method::CowChecked).loan(spec.loan_bytes),
            };
            builder.open(channel)
        };
        let buffer =
            || -> io::Result<Buffer> { Ok(Buffer::builder().len(spec.buffer_bytes).map()?) };
        let writer = match library {
            PipeWriter::Fastpipe(reuse) => AnyWriter::Writer {
                out: open(reuse)?,
                reuse,
                buffer: None,
            },
            PipeWriter::FastpipeIo => AnyWriter::Writer {
                out: open(PageReuse::Auto)?,
                reuse: PageReuse::Auto,
                buffer: Some(buffer()?),
            },
            PipeWriter::BufWriter => AnyWriter::Buffered {
                out: BufWriter::with_capacity(spec.buffer_bytes, io::stdout().lock()),
                buffer: buffer()?,
                sent: 0,
            },
            other => bail!("{} is not a library's", other.name()),
        };
        Ok(LibrarySink { writer })
    }
}

impl Sink for LibrarySink {
    fn send(&mut self, producer: &mut DataProducer) -> io::Result<()> {
        match &mut self.writer {
            AnyWriter::Writer {
                out,
                buffer: Some(buffer),
                ..
            } => write(out, buffer, producer),
            AnyWriter::Writer { out, .. } => send_lent(out, producer),
            AnyWriter::Buffered { out, buffer, sent } => {
                // Counted before the call: if the reader exits during this piece, part
                // of it was sent, but BufWriter does not show how much.
                *sent += buffer.len() as u64;
                write(out, buffer, producer)
            }
        }
    }

    fn sent(&self) -> u64 {
        match &self.writer {
            AnyWriter::Writer { out, .. } => out.counts().bytes,
            AnyWriter::Buffered { sent, .. } => *sent,
        }
    }

    fn counts(&self) -> Counts {
        match &self.writer {
            AnyWriter::Writer { out, .. } => out.counts(),
            // BufWriter does not count calls; the kernel does, for the whole process.
            AnyWriter::Buffered { sent, .. } => {
                let calls = Root::default().field("proc/self/io", "syscw");
                let calls = calls.and_then(|calls| calls.parse().ok()).unwrap_or(0);
                Counts {
                    bytes: *sent,
                    syscalls: calls,
                    moving_calls: calls,
                    ..Counts::default()
                }
            }
        }
    }

    fn call(&self) -> &'static str {
        match &self.writer {
            AnyWriter::Buffered { .. } => "BufWriter",
            AnyWriter::Writer { .. } => "Writer",
        }
    }

    fn check_technique(&self) -> Result<(), String> {
        let (report, reuse) = match &self.writer {
            AnyWriter::Writer { out, reuse, .. } => (out.report(), *reuse),
            AnyWriter::Buffered { .. } => return Ok(()),
        };
        let wanted = match reuse {
            PageReuse::Auto | PageReuse::AutoClone => return Ok(()),
            PageReuse::Fresh => Method::Fresh,
            PageReuse::Drained => Method::Drained(AssertReaderCopies),
            PageReuse::CowChecked => Method::CowChecked,
        };
        if report.is_zero_copy() && report.method == wanted {
            return Ok(());
        }
        Err(format!(
            "Writer could not use the policy {reuse}; it uses {report}"
        ))
    }
}

fn send_lent(out: &mut Writer<OwnedFd>, producer: &mut DataProducer) -> io::Result<()> {
    let mut loan = out.lend(0)?;
    let len = loan.len();
    if !producer.is_idle() {
        producer.produce(&mut loan);
    }
    loan.commit(len)
}

fn write(out: &mut impl Write, buffer: &mut Buffer, producer: &mut DataProducer) -> io::Result<()> {
    if !producer.is_idle() {
        producer.produce(buffer);
    }
    out.write_all(buffer)
}
