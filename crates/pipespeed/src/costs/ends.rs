//! The two ends of a pipe as probes drive them: one fills it, one empties it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe;
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use super::mapped::mapped;

/// The capacity of a pipe that nobody has changed, in bytes: 16 slots
/// (pipe(7)), of 4 KiB on most machines.
pub(super) fn usual_pipe() -> usize {
    16 * fastpipe::pipe::page_size()
}

/// How a pipe is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum In {
    Write(Pages),
    Vmsplice { pages: Pages, touched: bool },
    Tee,
    Splice,
}

/// How it is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Out {
    Read(Pages),
    SpliceToNull,
}

/// Fills a pipe. All sizes are in bytes.
pub(super) struct Sender {
    way: In,
    /// For good: how not to sleep has to be found out for each descriptor.
    out: Output<Arc<OwnedFd>>,
    pipe_bytes: usize,
    /// The most that one call is given.
    piece: usize,
    /// Sent in turn, as the ladder's writer does.
    from: Vec<Buffer>,
    /// The buffer whose turn it is, and how much of it is sent.
    at: (usize, usize),
    /// What `tee` and `splice` take from.
    other: Option<(OwnedFd, OwnedFd)>,
}

/// Empties it.
pub(super) struct Receiver {
    input: Input<Arc<OwnedFd>>,
    pipe_bytes: usize,
    piece: usize,
    to: Target,
}

enum Target {
    Memory(Buffer),
    Null(File),
}

/// A pipe that several probes use in turns, which leave it empty: a user may
/// have so many large ones only (pipe-user-pages-soft).
#[derive(Clone)]
pub(super) struct Shared {
    /// Its size in bytes.
    pub(super) bytes: usize,
    reader: Arc<OwnedFd>,
    writer: Arc<OwnedFd>,
}

impl Shared {
    /// A new one of exactly that size.
    ///
    /// # Errors
    /// When it can't be had.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let (reader, writer) = pipe_of(bytes)?;
        Ok(Shared {
            bytes,
            reader: Arc::new(reader),
            writer: Arc::new(writer),
        })
    }
}

/// Both ends of a pipe.
///
/// # Errors
/// When the memory can't be had as asked.
pub(super) fn ends(
    way_in: In,
    way_out: Out,
    pipe: &Shared,
    piece: usize,
) -> io::Result<(Sender, Receiver)> {
    let pipe_bytes = pipe.bytes;
    let (pages, touched) = match way_in {
        In::Write(pages) => (pages, true),
        In::Vmsplice { pages, touched } => (pages, touched),
        In::Tee | In::Splice => (Pages::Base, true),
    };
    let other = match way_in {
        In::Tee | In::Splice => Some(pipe_of(pipe_bytes)?),
        In::Write(_) | In::Vmsplice { .. } => None,
    };
    // vmsplice must not write to what the pipe holds; write copies at once.
    let (count, bytes) = match way_in {
        In::Write(_) => (1, piece),
        In::Vmsplice { .. } => (2, piece),
        In::Tee | In::Splice => (1, pipe_bytes),
    };
    let from: io::Result<Vec<Buffer>> = (0..count).map(|_| mapped(bytes, pages, touched)).collect();
    let sender = Sender {
        way: way_in,
        out: Output::new(Arc::clone(&pipe.writer), Wait::Never),
        pipe_bytes,
        piece,
        from: from?,
        at: (0, 0),
        other,
    };
    let to = match way_out {
        Out::Read(pages) => Target::Memory(mapped(piece, pages, true)?),
        Out::SpliceToNull => Target::Null(File::options().write(true).open("/dev/null")?),
    };
    let receiver = Receiver {
        input: Input::new(Arc::clone(&pipe.reader), Wait::Never),
        pipe_bytes,
        piece,
        to,
    };
    Ok((sender, receiver))
}

/// A new pipe of exactly that size in bytes.
///
/// # Errors
/// When it can't be had.
pub(super) fn pipe_of(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe::create()?;
    let granted = pipe::set_capacity(&ends.1, bytes)?;
    if granted != bytes {
        let why = format!("a pipe of {bytes} bytes is granted {granted}");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(ends)
}

impl Sender {
    /// Goes over to another pipe.
    pub(super) fn turn_to(&mut self, pipe: &Shared) {
        self.out = Output::new(Arc::clone(&pipe.writer), Wait::Never);
        self.pipe_bytes = pipe.bytes;
        self.at = (0, 0);
    }

    /// Makes the next filling possible where that takes something. Not part of
    /// what is timed.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if let Some((reader, writer)) = &self.other
            && pipe::unread(reader)? == 0
        {
            Output::new(writer, Wait::Never).vmsplice(
                &[self.from[0].slice(..self.pipe_bytes)],
                VmspliceOptions::default(),
            )?;
        }
        Ok(())
    }

    /// Fills the pipe, a piece at a time.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let out = &mut self.out;
        let other = self.other.as_ref().map(|(reader, _)| reader);
        let mut room = self.pipe_bytes;
        while room > 0 {
            let (buffer, sent) = self.at;
            let piece = room.min(self.piece - sent);
            let range = sent..sent + piece;
            match (self.way, other) {
                (In::Write(_), _) => out.write(&self.from[buffer][range])?,
                (In::Vmsplice { .. }, _) => {
                    let piece = self.from[buffer].slice(range);
                    out.vmsplice(&[piece], VmspliceOptions::default())?;
                }
                (In::Tee, Some(other)) => {
                    Input::new(other, Wait::Never).tee(&*out, piece)?;
                }
                (In::Splice, Some(other)) => {
                    let options = SpliceOptions::default();
                    Input::new(other, Wait::Never).splice(&*out, piece as u64, options)?;
                }
                (In::Tee | In::Splice, None) => return Err(io::ErrorKind::InvalidInput.into()),
            }
            self.at = match sent + piece == self.piece {
                true => ((buffer + 1) % self.from.len(), 0),
                false => (buffer, sent + piece),
            };
            room -= piece;
        }
        Ok(())
    }
}

impl Receiver {
    /// Goes over to another pipe.
    pub(super) fn turn_to(&mut self, pipe: &Shared) {
        self.input = Input::new(Arc::clone(&pipe.reader), Wait::Never);
        self.pipe_bytes = pipe.bytes;
    }

    /// Empties the full pipe, a piece at a time.
    pub(super) fn empty(&mut self) -> io::Result<()> {
        let input = &mut self.input;
        let mut left = self.pipe_bytes;
        while left > 0 {
            let piece = self.piece.min(left);
            match &mut self.to {
                Target::Memory(buffer) => drop(input.read(&mut buffer[..piece])?),
                Target::Null(null) => {
                    input.splice(&*null, piece as u64, SpliceOptions::default())?;
                }
            }
            left -= piece;
        }
        Ok(())
    }
}
