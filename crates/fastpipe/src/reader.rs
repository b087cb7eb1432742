//! [`Reader`]: a buffered reader with large reads.
//!
//! A system call costs about as much as copying a few KiB, so large reads are
//! faster. [`Reader`] fills its whole buffer by one call (256 KiB by default,
//! which fits the second-level cache of today's processors). A pipe holds 64 KiB
//! unless somebody enlarges it: usually the writer, or the reader [on
//! request](ReaderBuilder::capacity).
//!
//! No size was the fastest for all writers (the benchmark `reading` of the repository;
//! figures in `docs/zero-copy.md`): 8 KiB reached 1.5 times the rate of the default
//! after a writer of 8 KiB pieces into a pipe of 1 MiB, and little or nothing elsewhere.
//!
//! ```
//! use std::io::BufRead;
//! use fastpipe::{Reader, Wait};
//!
//! let (reader, writer) = std::io::pipe()?;
//! std::thread::spawn(move || {
//!     use std::io::Write;
//!     (&writer).write_all(b"one\ntwo\n")
//! });
//! let lines = Reader::builder().wait(Wait::Adaptive).open(reader)?;
//! let lines: Vec<String> = lines.lines().collect::<Result<_, _>>()?;
//! assert_eq!(lines, ["one", "two"]);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, BufRead, IoSliceMut, Read, Stdin};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::buffer::{Buffer, Pages};
use crate::pipe;
use crate::transfer::{Counts, Input};
use crate::wait::Wait;

/// Default size of the buffer, in bytes.
pub const DEFAULT_BUFFER: usize = 256 * 1024;

/// Settings of a [`Reader`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct ReaderBuilder {
    wait: Wait,
    capacity: Option<usize>,
    buffer: usize,
    interruptible: bool,
}

impl ReaderBuilder {
    /// Sets how to wait for data; default [`Wait::Block`].
    ///
    /// Under [`Wait::Never`] a read fails with [`io::ErrorKind::WouldBlock`] if
    /// there is no data. With `read`, `fill_buf` and `read_until` that loses nothing: bytes read before
    /// have been returned or are still buffered. `lines`, `read_line`, `read_exact` and
    /// `read_to_string` of [`std::io`] may drop what they had read by then.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Enlarges the pipe to this capacity in bytes, or as close to it as the
    /// system allows; by default the capacity is not changed. A larger pipe is
    /// never made smaller, and a refusal is not an error.
    ///
    /// A larger pipe means fewer wake-ups. Use this only if the writer does not
    /// rely on the pipe's size. A writer that hands over its own pages
    /// (vmsplice(2)) and reuses them after sending one more pipeful, as published
    /// double-buffering programs do, would overwrite pages that are still unread
    /// in a larger pipe: the data read is wrong, and nothing reports it. A writer
    /// that measures or limits the bytes in flight is misled, too.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Sets the size of the buffer in bytes, at least 1; default
    /// [`DEFAULT_BUFFER`]. From a pipe in packet mode (O_DIRECT; pipe(2)) no byte is
    /// lost if the buffer has at least a page. If writers without O_DIRECT use the same pipe,
    /// it must have at least the pipe's capacity.
    pub fn buffer(mut self, bytes: usize) -> Self {
        self.buffer = bytes.max(1);
        self
    }

    /// Sets whether a signal, if it is handled, ends a wait with [`io::ErrorKind::Interrupted`]; default
    /// false: the call goes on. Under [`Wait::Spin`] no signal ends a wait. Nothing is lost. Most methods of
    /// [`std::io`] ignore that error.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.interruptible = interruptible;
        self
    }

    /// Creates a reader from `fd`: a pipe, or anything else that can be read.
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
            // Best effort: a smaller pipe is only slower.
            let _ = pipe::set_capacity_up_to(&fd, wish);
        }
        Ok(self.with(fd))
    }

    fn with<F: AsFd>(self, fd: F) -> Reader<F> {
        Reader {
            input: Input::new(fd, self.wait).interruptible(self.interruptible),
            size: self.buffer,
            buffer: None,
            start: 0,
            end: 0,
        }
    }

    /// Creates a reader from standard input.
    ///
    /// Bytes that [`std::io::stdin`] has already buffered are not seen.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn stdin(self) -> io::Result<Reader<Stdin>> {
        self.open(io::stdin())
    }
}

/// Buffered reader of a pipe, or of anything else that can be read. See the
/// [module](self).
///
/// A read into a caller's buffer at least as large as the internal one bypasses
/// the latter. Signals do not interrupt a read, unless [asked for](ReaderBuilder::interruptible).
#[derive(Debug)]
pub struct Reader<F> {
    input: Input<F>,
    size: usize,
    /// Mapped when first needed.
    buffer: Option<Buffer>,
    /// Bytes read and not consumed: `buffer[start..end]`.
    start: usize,
    end: usize,
}

impl Reader<OwnedFd> {
    /// Returns a builder with the default settings: blocking, with a buffer of
    /// [`DEFAULT_BUFFER`] bytes, without changing the pipe's capacity.
    pub fn builder() -> ReaderBuilder {
        ReaderBuilder {
            wait: Wait::default(),
            capacity: None,
            buffer: DEFAULT_BUFFER,
            interruptible: false,
        }
    }
}

impl Reader<Stdin> {
    /// Creates a reader from standard input, with the default settings. See
    /// [`ReaderBuilder::stdin`].
    pub fn stdin() -> Self {
        Reader::new(io::stdin())
    }
}

impl<F: AsFd> Reader<F> {
    /// Creates a reader from `fd`, which it owns or borrows, with the default settings.
    pub fn new(fd: F) -> Self {
        Reader::builder().with(fd)
    }

    /// Returns the bytes read from the descriptor and not consumed yet.
    pub fn buffer(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.start..self.end],
            None => &[],
        }
    }

    /// Returns the numbers of bytes and system calls so far.
    pub fn counts(&self) -> Counts {
        self.input.counts()
    }

    /// Returns the descriptor. Reading from it directly skips the [buffered
    /// bytes](Self::buffer).
    pub fn get_ref(&self) -> &F {
        self.input.get_ref()
    }

    /// Returns the descriptor and discards the [buffered bytes](Self::buffer),
    /// which [`into_parts`](Self::into_parts) keeps.
    pub fn into_inner(self) -> F {
        self.input.into_inner()
    }

    /// Returns the descriptor, and the bytes read from it and not consumed.
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
        let available = self.fill_buf()?;
        let n = available.len().min(buf.len());
        buf[..n].copy_from_slice(&available[..n]);
        self.consume(n);
        Ok(n)
    }

    /// Fills as many of the buffers as bytes are buffered, or were read by one call.
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if !buffers.iter().any(|buffer| !buffer.is_empty()) {
            return Ok(0);
        }
        let mut available = self.fill_buf()?;
        let all = available.len();
        for buffer in buffers {
            let n = available.len().min(buffer.len());
            buffer[..n].copy_from_slice(&available[..n]);
            available = &available[n..];
        }
        let read = all - available.len();
        self.consume(read);
        Ok(read)
    }

    /// Unlike the default implementation, never reads just a few bytes.
    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let before = buf.len();
        loop {
            let available = self.fill_buf()?;
            if available.is_empty() {
                return Ok(buf.len() - before);
            }
            buf.extend_from_slice(available);
            let n = available.len();
            self.consume(n);
        }
    }
}

impl<F: AsFd> BufRead for Reader<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let empty = self.is_empty();
        let buffer = match &mut self.buffer {
            Some(buffer) => buffer,
            // Base pages that are populated on demand, so that a small input
            // uses few of them. A huge page would have to be zeroed completely,
            // and is eight times as large as the usual buffer.
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

/// Reads from a descriptor with the default settings.
impl From<OwnedFd> for Reader<OwnedFd> {
    fn from(fd: OwnedFd) -> Self {
        Reader::new(fd)
    }
}

/// The number of the descriptor that [`AsFd`] returns.
impl<F: AsFd> AsRawFd for Reader<F> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<F: AsFd> AsFd for Reader<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}
