//! A pipe: the sink writes or vmsplices, the source reads or splices.

mod calls;
mod source;

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use fastpipe::buffer::{Backing, Buffer, BufferError};
use fastpipe::pipe;
use fastpipe::transfer::{Counts, Incomplete, Output, VmspliceOptions};
use fastpipe::wait::Wait;

pub(crate) use self::calls::{Plain, Vmsplice};
pub use self::source::PipeSource;
use super::Sink;
use crate::endpoint::data::Producer;
use crate::endpoint::outcome::Setup;
use crate::endpoint::spec::{Reuse, SinkSpec, SinkTechnique};

/// The writing end: buffers that are sent in turn.
#[derive(Debug)]
pub struct PipeSink<F> {
    out: Output<F>,
    technique: SinkTechnique,
    reuse: Reuse,
    gift: bool,
    offset: usize,
    buffers: Vec<Buffer>,
    /// The parts of the buffers that are sent in turn.
    pieces: Vec<Piece>,
    next: usize,
    sent: u64,
    /// System calls made to learn what is unread.
    asked: u64,
}

/// A part of a buffer that is sent as one.
#[derive(Debug, Clone, Copy)]
struct Piece {
    buffer: usize,
    start: usize,
    end: usize,
    /// The stream offset at which its last sending ended; 0 before the first.
    sent_to: u64,
}

impl<F: AsFd> PipeSink<F> {
    /// A sink with its buffers mapped and filled.
    ///
    /// # Errors
    /// When the buffers can't be had as asked.
    pub fn new(fd: F, spec: &SinkSpec) -> Result<Self, BufferError> {
        let splices = spec.technique == SinkTechnique::Vmsplice;
        let whole = spec.buffer_bytes;
        let (count, parts) = match (splices, spec.same_buffer) {
            // write copies at once, so one buffer serves.
            (false, _) => (1, 1),
            (true, true) => (1, 2),
            (true, false) => match pieces_to_fill(&fd, spec) {
                // The published way: two buffers of pages of their own.
                0..=2 => (2, 1),
                // So many that huge pages of their own would take too much.
                more => (1, more),
            },
        };
        let len = if spec.same_buffer {
            whole
        } else {
            whole.saturating_mul(parts)
        };
        let mut buffers = Vec::with_capacity(count);
        for _ in 0..count {
            let mut buffer = Buffer::builder()
                .len(len.saturating_add(spec.offset))
                .pages(spec.pages.into())
                .touched(spec.touched)
                .locked(spec.locked)
                .map()?;
            if spec.touched {
                buffer.fill(b'X');
            }
            buffers.push(buffer);
        }
        let part = len / parts;
        let pieces: Vec<(usize, usize, usize)> = (0..count)
            .flat_map(|buffer| (0..parts).map(move |at| (buffer, at * part, (at + 1) * part)))
            .map(|(buffer, start, end)| (buffer, start + spec.offset, end + spec.offset))
            .collect();
        Ok(PipeSink {
            out: Output::new(fd, spec.wait.into()),
            technique: spec.technique,
            reuse: spec.reuse,
            gift: spec.gift,
            offset: spec.offset,
            buffers,
            pieces: pieces
                .into_iter()
                .map(|(buffer, start, end)| Piece {
                    buffer,
                    start,
                    end,
                    sent_to: 0,
                })
                .collect(),
            next: 0,
            sent: 0,
            asked: 0,
        })
    }

    /// The next piece, to be written: waits until nobody needs what it held.
    ///
    /// # Errors
    /// Those of FIONREAD and of getting new pages.
    pub fn lend(&mut self) -> io::Result<&mut [u8]> {
        let piece = self.pieces[self.next];
        if self.technique == SinkTechnique::Vmsplice && piece.sent_to > 0 {
            match self.reuse {
                Reuse::Drained => self.wait_until_read(piece.sent_to)?,
                Reuse::Fresh => self.buffers[piece.buffer].renew()?,
            }
        }
        Ok(&mut self.buffers[piece.buffer][piece.start..piece.end])
    }

    /// Sends the first `n` bytes of the next piece, and goes on to the one
    /// after it.
    ///
    /// # Errors
    /// [`Incomplete`], of which `moved` bytes were sent.
    pub fn commit(&mut self, n: usize) -> Result<(), Incomplete> {
        let piece = self.pieces[self.next];
        let buffer = &self.buffers[piece.buffer];
        let range = piece.start..piece.start + n;
        let outcome = match self.technique {
            SinkTechnique::Write => self.out.write(&buffer[range]),
            _ => self
                .out
                .vmsplice(&[buffer.slice(range)], VmspliceOptions { gift: self.gift }),
        };
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

    /// Bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// How many pieces are sent in turn.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The alignment of what is sent from the buffers, in bytes.
    pub fn alignment(&self) -> usize {
        let buffers = self.buffers.iter().map(Buffer::alignment);
        let offset = (self.offset > 0).then(|| 1 << self.offset.trailing_zeros());
        buffers.chain(offset).min().unwrap_or(1)
    }

    /// What the buffers are made of; see [`Buffer::backing`].
    ///
    /// # Errors
    /// Where nothing tells.
    pub fn backing(&self) -> Result<Backing, fastpipe::buffer::BackingError> {
        let mut sum: Option<Backing> = None;
        for buffer in &self.buffers {
            let one = buffer.backing()?;
            sum = Some(match sum {
                None => one,
                Some(sum) => Backing {
                    mapped: sum.mapped + one.mapped,
                    resident: sum.resident + one.resident,
                    huge: sum.huge + one.huge,
                    shown_by: sum.shown_by,
                },
            });
        }
        // A sink has a buffer at least.
        Ok(sum.unwrap_or(Backing {
            mapped: 0,
            resident: 0,
            huge: 0,
            shown_by: fastpipe::buffer::ShownBy::Smaps,
        }))
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.out.counts();
        counts.syscalls += self.asked;
        counts
    }

    /// Waits until all bytes before `offset` have been read from the pipe.
    ///
    /// Counted by what is unread, never by "the other buffer has been sent
    /// since": the reader may have made the pipe larger. While the pipe has
    /// the size the buffers were made for this finds everything read at once;
    /// there is no way to sleep until a pipe is drained, so where it does not
    /// it looks again after a while.
    fn wait_until_read(&mut self, offset: u64) -> io::Result<()> {
        loop {
            self.asked += 1;
            let unread = pipe::unread(&self.out)? as u64;
            if self.sent - unread.min(self.sent) >= offset {
                return Ok(());
            }
            self.asked += 1;
            if !pipe::has_reader(&self.out)? {
                // The next commit reports it.
                return Ok(());
            }
            match self.out.wait() {
                Wait::Spin => std::hint::spin_loop(),
                _ => thread::sleep(Duration::from_micros(20)),
            }
        }
    }
}

impl<F: AsFd> Sink for PipeSink<F> {
    fn send(&mut self, producer: &mut Producer) -> io::Result<()> {
        if !producer.is_idle() {
            producer.produce(self.lend()?);
        }
        Ok(self.commit(self.piece_len())?)
    }

    fn setup(&self) -> Setup {
        let backing = self.backing().ok();
        Setup {
            pieces: Some(self.pieces()),
            alignment: Some(self.alignment()),
            huge_bytes: backing.map(|backing| backing.huge),
            huge_shown_by: backing.map(|backing| backing.shown_by.name().to_owned()),
            ..Setup::default()
        }
    }

    fn sent(&self) -> u64 {
        PipeSink::sent(self)
    }

    fn counts(&self) -> Counts {
        PipeSink::counts(self)
    }

    fn call(&self) -> &'static str {
        self.technique.name()
    }
}

/// How many pieces it takes to fill the pipe and have one more in hand, where
/// pieces are written again once they have left the pipe: the next one has
/// then always left it, and there is nothing to wait for.
fn pieces_to_fill(fd: impl AsFd, spec: &SinkSpec) -> usize {
    match (spec.rewritten, spec.reuse, pipe::capacity(fd)) {
        (true, Reuse::Drained, Ok(bytes)) => bytes.div_ceil(spec.buffer_bytes) + 1,
        _ => 2,
    }
}
