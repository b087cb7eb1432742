//! Sinks that write to a pipe as programs do: by the library's `Writer`,
//! and by the standard library's `BufWriter`.

use std::fs;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::os::fd::OwnedFd;

use anyhow::bail;
use fastpipe::buffer::Buffer;
use fastpipe::reuse::{AssertReaderCopies, Reuse};
use fastpipe::transfer::Counts;
use fastpipe::writer::{Path, Writer};

use super::Sink;
use crate::endpoint::data::Producer;
use crate::endpoint::spec::{Policy, SinkSpec, SinkTechnique};

/// The writing end.
#[derive(Debug)]
pub struct LibrarySink {
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The data is made in the pages that are sent.
    Lend {
        out: Writer<OwnedFd>,
        policy: Policy,
    },
    /// The data is made in a buffer of the program's, and written.
    Write {
        out: Writer<OwnedFd>,
        buffer: Buffer,
        policy: Policy,
    },
    /// The same with what every program has.
    Buffered {
        out: BufWriter<StdoutLock<'static>>,
        buffer: Buffer,
        sent: u64,
    },
}

impl LibrarySink {
    /// The sink that `spec` asks for.
    /// [`SinkTechnique::BufWriter`] writes to standard output, which `channel`
    /// must be.
    ///
    /// # Errors
    /// When memory can't be had, or `spec` asks for a bare technique.
    pub fn new(channel: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        let open = |policy: Policy, channel: OwnedFd| {
            let builder = Writer::builder()
                .wait(spec.wait.into())
                .pages(spec.pages.into())
                .loan(spec.loan_bytes)
                .keep_capacity()
                .at_once();
            let builder = match policy {
                Policy::Copying => builder.copying(),
                Policy::Fresh => builder.reuse(Reuse::Fresh),
                Policy::Drained => builder.reuse(Reuse::Drained(AssertReaderCopies)),
                Policy::CowChecked => builder.reuse(Reuse::CowChecked),
            };
            builder.open(channel)
        };
        let buffer =
            || -> io::Result<Buffer> { Ok(Buffer::builder().len(spec.buffer_bytes).map()?) };
        let way = match spec.technique {
            SinkTechnique::Fastpipe(policy) => Way::Lend {
                out: open(policy, channel)?,
                policy,
            },
            SinkTechnique::FastpipeIo(policy) => Way::Write {
                out: open(policy, channel)?,
                buffer: buffer()?,
                policy,
            },
            SinkTechnique::BufWriter => Way::Buffered {
                out: BufWriter::with_capacity(spec.buffer_bytes, io::stdout().lock()),
                buffer: buffer()?,
                sent: 0,
            },
            other => bail!("no library sends by {other}"),
        };
        Ok(LibrarySink { way })
    }
}

impl Sink for LibrarySink {
    fn send(&mut self, producer: &mut Producer) -> io::Result<()> {
        match &mut self.way {
            Way::Lend { out, .. } => lend(out, producer),
            Way::Write { out, buffer, .. } => write(out, buffer, producer),
            Way::Buffered { out, buffer, sent } => {
                // Counted at once: when the reader leaves within this piece, a
                // part of it was sent, but not said how much.
                *sent += buffer.len() as u64;
                write(out, buffer, producer)
            }
        }
    }

    fn sent(&self) -> u64 {
        match &self.way {
            Way::Lend { out, .. } | Way::Write { out, .. } => out.report().counts.bytes,
            Way::Buffered { sent, .. } => *sent,
        }
    }

    fn counts(&self) -> Counts {
        match &self.way {
            Way::Lend { out, .. } | Way::Write { out, .. } => out.report().counts,
            // It keeps no count; the kernel does, for the whole process.
            Way::Buffered { sent, .. } => {
                let calls = write_calls().unwrap_or(0);
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
        match &self.way {
            Way::Buffered { .. } => "BufWriter",
            Way::Lend { .. } | Way::Write { .. } => "Writer",
        }
    }

    fn as_asked(&self) -> Result<(), String> {
        let (path, policy) = match &self.way {
            Way::Lend { out, policy } | Way::Write { out, policy, .. } => (out.path(), *policy),
            Way::Buffered { .. } => return Ok(()),
        };
        let does = match (path, policy) {
            (Path::Write(_), Policy::Copying)
            | (Path::Vmsplice(Reuse::Fresh), Policy::Fresh)
            | (Path::Vmsplice(Reuse::Drained(_)), Policy::Drained)
            | (Path::Vmsplice(Reuse::CowChecked), Policy::CowChecked) => return Ok(()),
            (path, _) => path,
        };
        Err(format!(
            "Writer could not do as asked ({}); it does: {does}",
            policy.name()
        ))
    }
}

fn lend(out: &mut Writer<OwnedFd>, producer: &mut Producer) -> io::Result<()> {
    let mut loan = out.lend(0)?;
    let len = loan.len();
    if !producer.is_idle() {
        producer.produce(&mut loan);
    }
    loan.commit(len)
}

fn write(out: &mut impl Write, buffer: &mut Buffer, producer: &mut Producer) -> io::Result<()> {
    if !producer.is_idle() {
        producer.produce(buffer);
    }
    out.write_all(buffer)
}

/// The write calls of this process so far: syscw of /proc/self/io (proc(5)).
fn write_calls() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("syscw:"))?;
    line.trim().parse().ok()
}
