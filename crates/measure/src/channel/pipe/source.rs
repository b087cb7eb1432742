//! The reading end of a pipe, using read(2) or splice(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fastpipe::buffer::Buffer;
use fastpipe::pipe;
use fastpipe::transfer::{Counts, Incomplete, Input, SpliceOptions};
use fastpipe::wait::Wait;
use pipespeed_base::standard::open_null;

use super::pauses::{self, Pauses};
use crate::channel::{Source, Taken};
use crate::spec::{PipeReader, SourceSpec};

/// The reading end.
#[derive(Debug)]
pub struct PipeSource<F> {
    technique: PipeReader,
    input: Input<F>,
    pauses: Pauses,
    piece: usize,
    /// Offset in the buffer at which it stores data.
    offset: usize,
    method: ReadMethod,
}

#[derive(Debug)]
enum ReadMethod {
    Read(Buffer),
    SpliceToNull(File),
    /// Splices into a pipe of this process and reads from that, to check the data that
    /// a reader gets if it splices onward.
    SpliceThrough {
        into: OwnedFd,
        room: usize,
        from: Input<OwnedFd>,
        buffer: Buffer,
    },
}

impl<F: AsFd> PipeSource<F> {
    /// Creates a source, with its buffer mapped.
    ///
    /// # Errors
    /// If the buffer can't be mapped or the second pipe created.
    pub fn new(fd: F, technique: PipeReader, spec: &SourceSpec) -> anyhow::Result<Self> {
        let buffer = || {
            spec.pages
                .buffer()
                .len(spec.buffer_bytes.saturating_add(spec.offset))
                .touched(spec.touched)
                .locked(spec.locked)
                .map()
        };
        let method = match technique {
            PipeReader::Splice => ReadMethod::SpliceToNull(open_null()?),
            PipeReader::SpliceThrough => {
                let (from, into) = pipe::create()?;
                let room = pipe::set_capacity_up_to(&into, spec.buffer_bytes)?;
                ReadMethod::SpliceThrough {
                    into,
                    room,
                    from: Input::new(from, Wait::Block),
                    buffer: buffer()?,
                }
            }
            PipeReader::Read => ReadMethod::Read(buffer()?),
        };
        Ok(PipeSource {
            technique,
            input: Input::new(fd, pauses::wait_in_calls(spec.wait)),
            pauses: Pauses::new(spec.wait),
            piece: spec.buffer_bytes,
            offset: spec.offset,
            method,
        })
    }

    /// Takes the available data, at most one buffer and at most `max` bytes. Returns no
    /// bytes at the end of the data.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn take(&mut self, max: usize) -> Result<Taken<'_>, Incomplete> {
        let want = max.min(self.piece);
        let options = SpliceOptions::default();
        match &mut self.method {
            ReadMethod::Read(buffer) => {
                let room = &mut buffer[self.offset..][..want];
                let n = self.pauses.retry(|_| self.input.read_some(room))?;
                Ok(Taken::Data(&room[..n]))
            }
            ReadMethod::SpliceToNull(null) => {
                let n = self.pauses.retry(|moved| {
                    let rest = want as u64 - moved;
                    Ok(moved + self.input.splice(&*null, rest, options)?)
                })?;
                Ok(Taken::Discarded(n as usize))
            }
            ReadMethod::SpliceThrough {
                into,
                room,
                from,
                buffer,
            } => {
                let want = want.min(*room);
                let taken = |_| self.input.splice_some(&*into, want, options);
                let n = self.pauses.retry(taken)?;
                let n = from.read(&mut buffer[..n])?;
                Ok(Taken::Data(&buffer[..n]))
            }
        }
    }

    /// The buffer that data is read into, if any.
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.method {
            ReadMethod::Read(buffer) | ReadMethod::SpliceThrough { buffer, .. } => Some(buffer),
            ReadMethod::SpliceToNull(_) => None,
        }
    }
}

impl<F: AsFd> Source for PipeSource<F> {
    fn take(&mut self) -> io::Result<Taken<'_>> {
        Ok(PipeSource::take(self, usize::MAX)?)
    }

    fn counts(&self) -> Counts {
        let mut counts = self.input.counts();
        if let ReadMethod::SpliceThrough { from, .. } = &self.method {
            counts.syscalls += from.counts().syscalls;
        }
        counts
    }

    fn call(&self) -> &'static str {
        self.technique.name()
    }
}
