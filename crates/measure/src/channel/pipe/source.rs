//! The reading end of a pipe: reads, or splices on.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fastpipe::buffer::Buffer;
use fastpipe::pipe;
use fastpipe::transfer::{Counts, Incomplete, Input, SpliceOptions};
use fastpipe::wait::Wait;

use crate::channel::{Source, Taken};
use crate::endpoint::spec::{SourceSpec, SourceTechnique};

/// The reading end.
#[derive(Debug)]
pub struct PipeSource<F> {
    technique: SourceTechnique,
    input: Input<F>,
    piece: usize,
    /// Where in its buffer it begins to read into.
    offset: usize,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Read(Buffer),
    SpliceToNull(File),
    /// Spliced into a pipe of this process and read from there: shows what a
    /// reader finds that splices onward.
    SpliceThrough {
        into: OwnedFd,
        room: usize,
        from: Input<OwnedFd>,
        buffer: Buffer,
    },
}

impl<F: AsFd> PipeSource<F> {
    /// A source with its buffer mapped.
    ///
    /// # Errors
    /// When the buffer or a second pipe can't be had.
    pub fn new(fd: F, spec: &SourceSpec) -> anyhow::Result<Self> {
        let buffer = || {
            Buffer::builder()
                .len(spec.buffer_bytes.saturating_add(spec.offset))
                .pages(spec.pages.into())
                .touched(spec.touched)
                .locked(spec.locked)
                .map()
        };
        let way = match spec.technique {
            SourceTechnique::Splice => {
                Way::SpliceToNull(File::options().write(true).open("/dev/null")?)
            }
            SourceTechnique::SpliceThrough => {
                let (from, into) = pipe::create()?;
                let room = pipe::set_capacity_up_to(&into, spec.buffer_bytes)?;
                Way::SpliceThrough {
                    into,
                    room,
                    from: Input::new(from, Wait::Block),
                    buffer: buffer()?,
                }
            }
            // The others are of other channels.
            _ => Way::Read(buffer()?),
        };
        Ok(PipeSource {
            technique: spec.technique,
            input: Input::new(fd, spec.wait.into()),
            piece: spec.buffer_bytes,
            offset: spec.offset,
            way,
        })
    }

    /// Takes what is there, a buffer or `most` bytes at most; nothing at the
    /// end of the data.
    ///
    /// # Errors
    /// [`Incomplete`].
    pub fn take(&mut self, most: usize) -> Result<Taken<'_>, Incomplete> {
        let want = most.min(self.piece);
        match &mut self.way {
            Way::Read(buffer) => {
                let room = &mut buffer[self.offset..][..want];
                let n = self.input.read_some(room)?;
                Ok(Taken::Data(&room[..n]))
            }
            Way::SpliceToNull(null) => {
                let n = self
                    .input
                    .splice(&*null, want as u64, SpliceOptions::default())?;
                Ok(Taken::Discarded(n as usize))
            }
            Way::SpliceThrough {
                into,
                room,
                from,
                buffer,
            } => {
                let n =
                    self.input
                        .splice_some(&*into, want.min(*room), SpliceOptions::default())?;
                let got = from.read(&mut buffer[..n])?;
                Ok(Taken::Data(&buffer[..got]))
            }
        }
    }

    /// The memory that data is read into, where there is some.
    pub fn buffer(&self) -> Option<&Buffer> {
        match &self.way {
            Way::Read(buffer) | Way::SpliceThrough { buffer, .. } => Some(buffer),
            Way::SpliceToNull(_) => None,
        }
    }
}

impl<F: AsFd> Source for PipeSource<F> {
    fn take(&mut self) -> io::Result<Taken<'_>> {
        Ok(PipeSource::take(self, usize::MAX)?)
    }

    fn counts(&self) -> Counts {
        let mut counts = self.input.counts();
        if let Way::SpliceThrough { from, .. } = &self.way {
            counts.syscalls += from.counts().syscalls;
        }
        counts
    }

    fn call(&self) -> &'static str {
        self.technique.name()
    }
}
