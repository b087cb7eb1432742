//! A buffered reader that takes large pieces.
//!
//! Every system call costs about as much as copying a few KiB, so a reader
//! gains most by asking for much at once: [`Reader`] reads up to its whole
//! buffer (256 KiB unless told otherwise, which fits the second-level cache of
//! today's processors). A pipe holds 64 KiB unless somebody enlarges it; that is
//! the writer's to do, or the reader's [on request](ReaderBuilder::capacity).
//!
//! ```
//! use std::io::BufRead;
//! use fastpipe::{pipe, reader::Reader, wait::Wait};
//!
//! let (reader, writer) = pipe::create()?;
//! std::thread::spawn(move || {
//!     use std::io::Write;
//!     std::fs::File::from(writer).write_all(b"one\ntwo\n")
//! });
//! let lines = Reader::builder().wait(Wait::Adaptive).open(reader)?;
//! let lines: Vec<String> = lines.lines().collect::<Result<_, _>>()?;
//! assert_eq!(lines, ["one", "two"]);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, BufRead, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::buffer::{Buffer, Pages};
use crate::pipe;
use crate::transfer::{Counts, Input};
use crate::wait::Wait;

/// The size of the buffer unless said otherwise, in bytes.
pub const BUFFER: usize = 256 * 1024;

/// How a [`Reader`] is to be made.
#[derive(Debug, Clone, Copy)]
pub struct ReaderBuilder {
    wait: Wait,
    capacity: Option<usize>,
    buffer: usize,
}

impl ReaderBuilder {
    /// How to wait for data; [`Wait::Block`] if not said.
    ///
    /// Under [`Wait::Never`] reading reports [`io::ErrorKind::WouldBlock`]
    /// where nothing is there. Nothing is lost by that: what was read before
    /// has been returned or is still buffered.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Enlarges the pipe to this capacity in bytes, or as close to it as is
    /// allowed; if not said, the capacity is left alone. A pipe that is larger
    /// stays so, and a refusal is no error.
    ///
    /// A larger pipe means fewer wake-ups. But only ask for it where the writer is
    /// known not to rely on the pipe's size. One that hands over its own pages
    /// (vmsplice(2)) and writes to them again as soon as a pipeful was sent after
    /// them, as the published double buffering does, overwrites pages that are
    /// still unread in a larger pipe: the data read is wrong, and nothing reports
    /// it. A writer that measures or limits what is in flight is misled too.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// The size of the buffer in bytes; [`BUFFER`] if not said. It is rounded up
    /// to one byte at least.
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes.max(1);
        self
    }

    /// Reads from `fd`: a pipe, or anything else that can be read from.
    ///
    /// The buffer is mapped by the first read that needs it.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn open<F: AsFd>(self, fd: F) -> io::Result<Reader<F>> {
        if let Some(wish) = self.capacity
            && pipe::is_pipe(&fd)?
            && pipe::capacity(&fd)? < wish
        {
            // Smaller is slower, not wrong.
            let _ = pipe::set_capacity_up_to(&fd, wish);
        }
        Ok(Reader {
            input: Input::new(fd, self.wait),
            size: self.buffer,
            buffer: None,
            start: 0,
            end: 0,
        })
    }

    /// Reads from standard input.
    ///
    /// What [`std::io::stdin`] has buffered already is not seen by this.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn stdin(self) -> io::Result<Reader<Stdin>> {
        self.open(io::stdin())
    }
}

/// A buffered reader on a pipe, or on anything else that can be read from. See
/// the [module](self).
///
/// A read into a caller's buffer that is at least as large as the internal one
/// bypasses it. Signals don't interrupt a read.
#[derive(Debug)]
pub struct Reader<F> {
    input: Input<F>,
    size: usize,
    /// Mapped when first needed.
    buffer: Option<Buffer>,
    /// What is read and not consumed: `buffer[start..end]`.
    start: usize,
    end: usize,
}

impl Reader<OwnedFd> {
    /// A blocking reader with a buffer of [`BUFFER`] bytes, which leaves the pipe's
    /// capacity alone; the builder's methods change that.
    pub fn builder() -> ReaderBuilder {
        ReaderBuilder {
            wait: Wait::default(),
            capacity: None,
            buffer: BUFFER,
        }
    }
}

impl<F: AsFd> Reader<F> {
    /// What was read from the descriptor and not consumed yet.
    pub fn buffer(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.start..self.end],
            None => &[],
        }
    }

    /// What the reading has cost so far.
    pub fn counts(&self) -> Counts {
        self.input.counts()
    }

    /// The descriptor. Whoever reads from it skips what is
    /// [buffered](Self::buffer) here.
    pub fn get_ref(&self) -> &F {
        self.input.get_ref()
    }

    /// Gives the descriptor back. What is [buffered](Self::buffer) is lost; see
    /// [`into_parts`](Self::into_parts).
    pub fn into_inner(self) -> F {
        self.input.into_inner()
    }

    /// Gives the descriptor back, and the bytes that were read from it and not
    /// consumed.
    pub fn into_parts(self) -> (F, Vec<u8>) {
        let unconsumed = self.buffer().to_vec();
        (self.input.into_inner(), unconsumed)
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

impl<F: AsFd> Read for Reader<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.is_empty() && buf.len() >= self.size {
            return Ok(self.input.read_some(buf)?);
        }
        let there = self.fill_buf()?;
        let n = there.len().min(buf.len());
        buf[..n].copy_from_slice(&there[..n]);
        self.consume(n);
        Ok(n)
    }

    /// Unlike the default, never asks for a few bytes only.
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let before = buf.len();
        loop {
            let there = self.fill_buf()?;
            if there.is_empty() {
                return Ok(buf.len() - before);
            }
            buf.extend_from_slice(there);
            let n = there.len();
            self.consume(n);
        }
    }
}

impl<F: AsFd> BufRead for Reader<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let empty = self.is_empty();
        let buffer = match &mut self.buffer {
            Some(buffer) => buffer,
            // Base pages, each there once it is first read into: a small input
            // pays for what it fills. A huge page is cleared as a whole before
            // its first byte can be used, and is eight times as large as the
            // usual buffer.
            none => none.insert(
                Buffer::builder()
                    .len(self.size)
                    .pages(Pages::Base)
                    .touched(false)
                    .map()?,
            ),
        };
        if empty {
            let got = self.input.read_some(buffer)?;
            (self.start, self.end) = (0, got);
        }
        Ok(&buffer[self.start..self.end])
    }

    fn consume(&mut self, amount: usize) {
        self.start = (self.start + amount).min(self.end);
    }
}

impl<F: AsFd> AsFd for Reader<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}
