//! A pipe: the sink writes or vmsplices, the source reads or splices.

mod calls;
mod pauses;
mod source;

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fastpipe::buffer::{Buffer, BufferError};
use fastpipe::pipe;
use fastpipe::transfer::{Counts, Incomplete, Output, VmspliceOptions};
use pipespeed_host::process_memory::{self, Backing, BackingError};

pub(crate) use self::calls::{Plain, Vmsplice};
use self::pauses::Pauses;
pub use self::source::PipeSource;
use super::Sink;
use crate::data::DataProducer;
use crate::record::Setup;
use crate::spec::{PageReuse, PipeWriter, SinkSpec};

/// The writing end: buffers that are sent in turn.
#[derive(Debug)]
pub struct PipeSink<F> {
    out: Output<F>,
    pauses: Pauses,
    technique: PipeWriter,
    gift: bool,
    spins: bool,
    offset: usize,
    buffers: Vec<Buffer>,
    /// The parts of the buffers, which are sent in turn.
    pieces: Vec<Piece>,
    next: usize,
    sent: u64,
    /// System calls that query the unread bytes.
    queries: u64,
}

/// A part of a buffer that is sent at once.
#[derive(Debug, Clone, Copy)]
struct Piece {
    buffer: usize,
    start: usize,
    end: usize,
    /// The stream offset at the end of its last send; 0 before the first.
    sent_to: u64,
}

impl<F: AsFd> PipeSink<F> {
    /// Creates a sink, with its buffers mapped and filled.
    ///
    /// # Errors
    /// If the buffers can't be mapped as specified.
    pub fn new(fd: F, technique: PipeWriter, spec: &SinkSpec) -> Result<Self, BufferError> {
        let (count, parts) = match technique {
            PipeWriter::Vmsplice(_) if spec.same_buffer => (1, 2),
            PipeWriter::Vmsplice(reuse) => match pieces_needed(&fd, reuse, spec) {
                // As published: two separate buffers.
                0..=2 => (2, 1),
                // Separate huge pages for each would take too much memory.
                more => (1, more),
            },
            // write copies at once, so one buffer serves.
            _ => (1, 1),
        };
        let len = if spec.same_buffer {
            spec.buffer_bytes
        } else {
            spec.buffer_bytes.saturating_mul(parts)
        };
        let mut buffers = Vec::with_capacity(count);
        for _ in 0..count {
            let mut buffer = spec
                .pages
                .buffer()
                .len(len.saturating_add(spec.offset))
                .touched(spec.touched)
                .locked(spec.locked)
                .map()?;
            if spec.touched {
                buffer.fill(b'X');
            }
            buffers.push(buffer);
        }
        let part = len / parts;
        let piece = |at: usize| Piece {
            buffer: at / parts,
            start: at % parts * part + spec.offset,
            end: (at % parts + 1) * part + spec.offset,
            sent_to: 0,
        };
        Ok(PipeSink {
            out: Output::new(fd, pauses::wait_in_calls(spec.wait)),
            pauses: Pauses::new(spec.wait),
            technique,
            gift: spec.gift,
            spins: spec.wait.spins(),
            offset: spec.offset,
            buffers,
            pieces: (0..count * parts).map(piece).collect(),
            next: 0,
            sent: 0,
            queries: 0,
        })
    }

    /// Waits until the reader no longer needs the next piece, and returns it to be
    /// filled.
    ///
    /// # Errors
    /// Those of FIONREAD and of getting new pages.
    pub fn lend(&mut self) -> io::Result<&mut [u8]> {
        let piece = self.pieces[self.next];
        match self.technique {
            PipeWriter::Vmsplice(PageReuse::Drained) if piece.sent_to > 0 => {
                self.wait_until_read(piece.sent_to)?;
            }
            PipeWriter::Vmsplice(_) if piece.sent_to > 0 => self.buffers[piece.buffer].renew()?,
            _ => {}
        }
        Ok(&mut self.buffers[piece.buffer][piece.start..piece.end])
    }

    /// Sends the first `n` bytes of the next piece and advances to the following one.
    ///
    /// # Errors
    /// [`Incomplete`]; its `moved` bytes were sent.
    pub fn commit(&mut self, n: usize) -> Result<(), Incomplete> {
        let piece = self.pieces[self.next];
        let buffer = &self.buffers[piece.buffer];
        let options = VmspliceOptions { gift: self.gift };
        let outcome = self.pauses.retry(|moved| {
            let range = piece.start + moved as usize..piece.start + n;
            match self.technique {
                PipeWriter::Write => self.out.write(&buffer[range]),
                _ => self.out.vmsplice(&[buffer.slice(range)], options),
            }
        });
        self.sent += match &outcome {
            Ok(()) => n as u64,
            Err(incomplete) => incomplete.moved,
        };
        self.pieces[self.next].sent_to = self.sent;
        self.next = (self.next + 1) % self.pieces.len();
        outcome
    }

    /// The length of the next piece.
    pub fn piece_len(&self) -> usize {
        let piece = self.pieces[self.next];
        piece.end - piece.start
    }

    /// The number of pieces that are sent in turn.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The alignment of the pieces, in bytes.
    pub fn alignment(&self) -> usize {
        let buffers = self.buffers.iter().map(Buffer::alignment);
        let offset = (self.offset > 0).then(|| 1 << self.offset.trailing_zeros());
        buffers.chain(offset).min().unwrap_or(1)
    }

    /// The pages behind all buffers together, by [`Backing::examine`] or [`Backing::from_smaps`].
    ///
    /// # Errors
    /// If the kernel does not show it.
    pub fn backing(
        &self,
        examine: impl Fn(&Buffer) -> Result<Backing, BackingError>,
    ) -> Result<Backing, BackingError> {
        let mut sum = Backing::default();
        for buffer in &self.buffers {
            let backing = examine(buffer)?;
            sum.mapped += backing.mapped;
            sum.resident += backing.resident;
            sum.huge += backing.huge;
            sum.shown_by = backing.shown_by;
        }
        Ok(sum)
    }

    /// The size of the pages behind all buffers; see [`process_memory::page_bytes`].
    ///
    /// # Errors
    /// If the kernel does not show it.
    pub fn page_bytes(&self) -> Result<Option<usize>, BackingError> {
        let mut sizes = Vec::new();
        for buffer in &self.buffers {
            sizes.push(process_memory::page_bytes(buffer)?);
        }
        sizes.dedup();
        Ok(if let [size] = sizes[..] { size } else { None })
    }

    /// Waits until all bytes before `offset` have been read from the pipe.
    ///
    /// This checks the unread bytes, not whether the other buffer has been sent since:
    /// the reader may have enlarged the pipe. While the pipe has the capacity that the
    /// buffers were made for, the first check succeeds. Otherwise it polls, since no
    /// call sleeps until a pipe is drained.
    fn wait_until_read(&mut self, offset: u64) -> io::Result<()> {
        loop {
            self.queries += 1;
            let unread = pipe::unread(&self.out)? as u64;
            if self.sent - unread.min(self.sent) >= offset {
                return Ok(());
            }
            self.queries += 1;
            if !pipe::has_reader(&self.out)? {
                // The next commit reports it.
                return Ok(());
            }
            if self.spins {
                std::hint::spin_loop();
            } else {
                thread::sleep(Duration::from_micros(20));
            }
        }
    }
}

impl<F: AsFd> Sink for PipeSink<F> {
    fn send(&mut self, producer: &mut DataProducer) -> io::Result<()> {
        if !producer.is_idle() {
            producer.produce(self.lend()?);
        }
        Ok(self.commit(self.piece_len())?)
    }

    fn setup(&self) -> Setup {
        let backing = self.backing(Backing::examine).ok();
        Setup {
            pieces: Some(self.pieces()),
            alignment: Some(self.alignment()),
            huge_bytes: backing.map(|backing| backing.huge),
            huge_shown_by: backing.map(|backing| backing.shown_by.name().to_owned()),
            ..Setup::default()
        }
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn counts(&self) -> Counts {
        let mut counts = self.out.counts();
        counts.syscalls += self.queries;
        counts
    }

    fn call(&self) -> &'static str {
        self.technique.name()
    }
}

/// The number of pieces to send in turn. If pieces are written again once they have
/// left the pipe: enough to fill the pipe plus one, so that the next piece has always
/// left it and there is no wait. Otherwise two.
fn pieces_needed(fd: impl AsFd, reuse: PageReuse, spec: &SinkSpec) -> usize {
    match (spec.rewritten, reuse, pipe::capacity(fd)) {
        (true, PageReuse::Drained, Ok(bytes)) => bytes.div_ceil(spec.buffer_bytes) + 1,
        _ => 2,
    }
}
