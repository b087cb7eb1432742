//! [`Writer`]: the fastest safe output for whatever reads it.

mod auto;
mod builder;
mod finish;
mod frozen;
mod loan;
mod reason;
mod region;
mod repeater;
mod repeating;
mod send;

pub use self::auto::TrialOutcome;
pub use self::builder::{DEFAULT_CAPACITY, DEFAULT_MAX_HELD, WriterBuilder};
pub use self::finish::{FinishError, Report, Trial};
pub use self::frozen::Frozen;
pub use self::loan::Loan;
pub use self::reason::CopyReason;

use std::io::{self, IoSlice, StdoutLock, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::thread;
use std::time::Instant;

use self::auto::Auto;
use self::region::{Region, SlabCounts};
use self::repeating::Repeating;
use self::send::{COPIED_REGION, Stage};
use crate::fork::Origin;
use crate::method::Method;
use crate::pipe::{is_pipe, page_size};
use crate::transfer::{Counts, Output};

/// Number of bytes that a writer copies by write(2) before it considers vmsplice(2), unless a loan of
/// more than 64 KiB or a longer `repeat` is asked for first. Below that, enlarging the pipe, probing
/// the kernel and preparing huge pages would cost more than copying.
pub const COPIED_FIRST: u64 = 128 << 10;

/// Upper bound of the memory that these first bytes are copied from.
const FIRST_REGION: usize = 64 << 10;

/// Output by the fastest safe [`Method`] for whatever reads it.
///
/// A program can produce its bytes directly in memory lent by the writer
/// ([`lend`](Self::lend), [`Loan::commit`]), or write them as to any
/// [`io::Write`], which buffers them. Constant bytes can be
/// [repeated](Self::repeat).
///
/// ```
/// use std::io::{Read, Write};
/// use fastpipe::Writer;
///
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut out = Writer::new(writer)?;
/// let mut loan = out.lend(4096)?;
/// loan[..6].copy_from_slice(b"hello ");
/// loan.commit(6)?;
/// out.write_all(b"world")?;
/// out.finish()?;
///
/// let mut got = String::new();
/// reader.read_to_string(&mut got)?;
/// assert_eq!(got, "hello world");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # When bytes are sent
/// [`Loan::commit`] hands its bytes to the kernel before it returns. Bytes
/// written through [`io::Write`] are buffered until a loan is full or
/// [`flush`](Write::flush) is called. Neither waits until the bytes have been
/// read; [`wait_drained`](Self::wait_drained) does.
///
/// Dropping the writer flushes it and ignores errors; call
/// [`finish`](Self::finish) to see them. After a call that was
/// [interrupted](WriterBuilder::interruptible) it waits for a second at most. If the thread is panicking nothing is
/// flushed: up to one loan of buffered bytes is lost, and what is [queued](Self::queued).
///
/// Copied bytes go into a pipe in pieces of one or two pages ([`Method::copy`]; of 64 KiB if
/// [`Method::Auto`] finds that faster), and to anything else whole. Where pages are handed
/// over, whole pages are sent by vmsplice(2), the rest by write(2).
///
/// # Errors can be retried
/// After an error the bytes that were not sent remain queued, in order, and the
/// next call tries to send them again, as once a full disk has space again. Signals
/// interrupt no call, unless [asked for](WriterBuilder::interruptible). A `write` or `repeat` that fails has
/// accepted nothing; the bytes of a `commit` that fails are queued. A pipe without reader remains broken. Under
/// [`Wait::Never`](crate::wait::Wait::Never) `WouldBlock` is part of normal use:
///
/// * `commit`, `write` and `repeat` queue what can't be sent now, and succeed;
/// * while bytes are queued, `lend`, `repeat` and (once its memory is full)
///   `write` fail with [`io::ErrorKind::WouldBlock`] and accept nothing;
/// * `flush` sends more, and fails with `WouldBlock` until the queue is empty.
///
/// An event loop should call `write` or use loans: `write_all` and `writeln!`
/// call `write` several times and, if one call fails, do not report how many
/// bytes were accepted before.
///
/// # Memory
/// The writer lends pages from mappings of its own. They are unmapped in the end
/// and never given to an allocator, so a pipe or another process that refers to
/// them keeps valid memory, also after a panic.
///
/// While bytes are copied, the writer needs one buffer of a piece or the longest
/// loan. What follows is about pages that are handed over.
///
/// Loans follow one another page by page, and pieces of less than two pages are
/// copied. A part of the stream that is held by pipes therefore pins at most
/// twice its length, plus one page (2 MiB for huge pages) at each end. If a loan
/// asks for more than half a huge page, the rest of the current page may remain
/// unused; such a loan is copied if less than half of it is committed, otherwise
/// the held part may pin eight times its length. The region itself comes on top
/// ([`WriterBuilder::region`]).
///
/// # fork
/// A forked child can't use its parent's writer: lending, writing and sending
/// fail there with [`io::ErrorKind::Other`], and dropping it sends nothing.
/// Bytes queued at the time of the fork are sent by the parent only. The pages
/// to be vmspliced are wiped in the child (MADV_WIPEONFORK), except reserved huge
/// pages ([`Pages::HugeTlb`](crate::buffer::Pages::HugeTlb)), for which Linux
/// does not support that. The child creates a writer of its own.
///
/// A child that does not exec must drop the parent's writer, or exit. As long as
/// it has the writer it keeps the pipe open through the [private
/// duplicate](#the-outputs-descriptor), and the reader sees no end of file.
/// Replacing the descriptor itself, as daemons do with standard output, is not
/// enough.
///
/// # The output's descriptor
/// Before it first hands pages over, the writer duplicates the descriptor: after the
/// first [128 KiB](COPIED_FIRST), under [`Method::Auto`] with the first trial; earlier for a loan of
/// more than 64 KiB and for a long `repeat`. From
/// then on it sends everything through the duplicate, which [`finish`](Self::finish) or
/// drop closes. Until that happens the reader sees no end of file, even if the
/// descriptor itself is closed or replaced (dup2(2)). [`AsFd`] always returns
/// the original descriptor, so that an event loop can register it.
#[derive(Debug)]
pub struct Writer<F: AsFd = OwnedFd> {
    /// `None` once it has been finished.
    out: Option<Output<F>>,
    /// The only process that may use the writer.
    origin: Origin,
    plan: WriterBuilder,
    stage: Stage,
    /// Compares ways under [`Method::Auto`], from the end of the first stage on.
    auto: Option<Auto>,
    /// Start of the stream: `auto` counts time from here.
    started: Instant,
    /// Why vmsplice(2) can't be used, if anything; `None` until that is known.
    obstacle: Option<Option<CopyReason>>,
    /// Maximum length of a write(2), in bytes.
    piece: usize,
    region: Region,
    /// Offsets in the current slab, in ascending order. Pages before `held` may
    /// be in use by the pipe; `sent..filled` is to be sent; up to `end` may be
    /// filled.
    ///
    /// If nothing is to be sent, `sent` and `filled` equal `held`, which is
    /// always a multiple of the page size.
    held: usize,
    sent: usize,
    filled: usize,
    end: usize,
    /// Whether `sent..filled` must be copied rather than handed over.
    copied: bool,
    /// Upper bound of `end - held`.
    window: usize,
    /// Length of a slab unless a loan asks for more, in bytes.
    usual_slab: usize,
    /// Repeated bytes, which follow after `filled`.
    repeating: Option<Repeating>,
    spliced: u64,
    /// A signal has ended the last wait, when there were bytes up to here.
    interrupted_at: Option<usize>,
    /// That call accepted bytes, and so did not fail: the next one does.
    is_interruption_due: bool,
    /// Number of regions so far.
    regions_mapped: u64,
    /// Totals of the regions that were replaced.
    slab_counts: SlabCounts,
}

impl Writer {
    /// Returns a builder with the default settings, which can be used for any number of writers.
    pub fn builder() -> WriterBuilder {
        WriterBuilder::new()
    }
}

impl Writer<StdoutLock<'static>> {
    /// Creates a writer to standard output, which it keeps locked, with the default settings. See
    /// [`WriterBuilder::stdout`].
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and of flushing what was printed before.
    pub fn stdout() -> io::Result<Self> {
        WriterBuilder::new().stdout()
    }
}

impl<F: AsFd> Writer<F> {
    /// Creates a writer to `fd`, which it owns or borrows, with the default settings.
    ///
    /// # Errors
    /// Those of mmap(2), for a few pages of memory.
    pub fn new(fd: F) -> io::Result<Self> {
        WriterBuilder::new().open(fd)
    }

    fn with(fd: F, plan: WriterBuilder) -> io::Result<Self> {
        let piece = match plan.method {
            _ if !is_pipe(&fd).unwrap_or(false) => usize::MAX,
            Method::Copy { piece } => piece.max(1),
            _ => 2 * page_size(),
        };
        let window = copying_window(&plan, piece).min(FIRST_REGION);
        let region = Region::for_copying(window)?;
        Ok(Writer {
            out: Some(Output::new(fd, plan.wait).interruptible(plan.interruptible)),
            origin: Origin::this_process(),
            plan,
            stage: Stage::First,
            auto: None,
            started: Instant::now(),
            obstacle: None,
            piece,
            window: region.slab_len(),
            usual_slab: region.slab_len(),
            end: region.slab_len(),
            region,
            held: 0,
            sent: 0,
            filled: 0,
            copied: false,
            repeating: None,
            spliced: 0,
            interrupted_at: None,
            is_interruption_due: false,
            regions_mapped: 1,
            slab_counts: SlabCounts::default(),
        })
    }

    /// Lends memory for the next bytes of the stream: at least `at_least` bytes,
    /// aligned to pages. The loan may be longer, up to
    /// [`WriterBuilder::loan`]; `lend(0)` asks for the usual length.
    ///
    /// The memory holds zeroes or bytes of earlier loans.
    ///
    /// # Errors
    /// Those of sending bytes written before; `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never) while these can't be sent;
    /// `OutOfMemory` if not even memory for copying can be mapped.
    pub fn lend(&mut self, at_least: usize) -> io::Result<Loan<'_, F>> {
        self.push()?;
        self.open_window(at_least)?;
        Ok(Loan::new(self, at_least))
    }

    /// Sends `data` `times` times, by reference.
    ///
    /// # Errors
    /// Those of sending bytes written before; `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never) if these could not be sent. `data` is then not accepted.
    /// An error of sending `data` itself occurs in the next call, as after [`Write::write`].
    pub fn repeat(&mut self, data: &Frozen, times: u64) -> io::Result<()> {
        self.push()?;
        let left = u128::from(times) * data.as_bytes().len() as u128;
        if left > 0 {
            self.repeating = Some(Repeating::new(data.clone(), left));
            self.reset(self.held);
            let sent = self.push();
            self.leave_to_next_call(sent);
        }
        Ok(())
    }

    /// Waits until everything has been read. On anything but a pipe this only
    /// [flushes](Write::flush).
    ///
    /// The kernel has no event for an empty pipe, so this polls FIONREAD at
    /// intervals that grow to 1 ms. It also waits for the bytes of other writers
    /// to the same pipe.
    ///
    /// # Errors
    /// Those of `flush`; `BrokenPipe` if the reader has closed the pipe before
    /// everything was read; `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never) if something is unread;
    /// `InvalidInput` for a FIFO that was opened for reading and writing
    /// (O_RDWR), which is its own reader: it never breaks.
    pub fn wait_drained(&mut self) -> io::Result<()> {
        self.push()?;
        self.wait_until_read()
    }

    /// Sends all queued bytes, drops the output (which closes a descriptor that the writer owns), and
    /// returns a report.
    ///
    /// # Errors
    /// Those of sending, with the writer and the bytes that were not sent: see [`FinishError`], which
    /// converts to [`io::Error`]. Under [`Wait::Never`](crate::wait::Wait::Never) `WouldBlock` means
    /// that accepted bytes are still queued.
    pub fn finish(self) -> Result<Report, FinishError<F>> {
        Ok(self.finish_keeping()?.1)
    }

    /// Sends all queued bytes, and returns the descriptor.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    pub fn into_inner(self) -> Result<F, FinishError<F>> {
        Ok(self.finish_keeping()?.0)
    }

    /// As [`finish`](Self::finish), but what was lent stays mapped for ever: for bindings whose callers may still
    /// have it.
    ///
    /// # Errors
    /// Those of [`finish`](Self::finish).
    #[doc(hidden)]
    pub fn finish_and_leak(mut self) -> Result<Report, FinishError<F>> {
        if let Err(error) = self.push() {
            return Err(FinishError::new(error, self));
        }
        let report = self.report();
        self.out = None;
        std::mem::forget(self);
        Ok(report)
    }

    /// Gives up the [queued](Self::queued) bytes, and drops the output. Unlike dropping the writer, this never
    /// waits.
    pub fn discard(mut self) {
        self.out = None;
    }

    fn finish_keeping(mut self) -> Result<(F, Report), FinishError<F>> {
        if let Err(error) = self.push() {
            return Err(FinishError::new(error, self));
        }
        let report = self.report();
        match self.out.take() {
            Some(out) => Ok((out.into_inner(), report)),
            None => unreachable!("a writer is finished once: finish takes it"),
        }
    }

    /// Returns the descriptor that the writer was created with. What is written to it directly comes
    /// before the [queued](Self::queued) bytes.
    pub fn get_ref(&self) -> &F {
        self.out_ref().get_ref()
    }

    /// Returns the number of bytes and system calls so far.
    pub fn counts(&self) -> Counts {
        self.out_ref().counts()
    }

    /// Returns what the writer has done so far.
    pub fn report(&self) -> Report {
        Report::new(self)
    }

    /// How bytes are sent at the moment, and why they are copied, if they are.
    fn method(&self) -> (Method, Option<CopyReason>) {
        let copy = Method::Copy { piece: self.piece };
        match self.stage {
            Stage::First => (copy, Some(CopyReason::FewBytes)),
            Stage::ZeroCopy => (self.region.policy().method(), None),
            Stage::Copying(reason) => (copy, Some(reason)),
        }
    }

    /// Number of bytes accepted by this writer and not yet given to the kernel.
    pub fn queued(&self) -> u128 {
        let repeating = self.repeating.as_ref().map_or(0, Repeating::left);
        (self.filled - self.sent) as u128 + repeating
    }

    /// Whether this process may use the writer: false in a forked child. This usually costs one load, so a
    /// caller that gathers bytes of its own before it writes them can ask each time.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.origin.is_this_process()
    }

    fn out(&mut self) -> &mut Output<F> {
        match &mut self.out {
            Some(out) => out,
            None => unreachable!("nothing is called after finish took the writer"),
        }
    }

    fn out_ref(&self) -> &Output<F> {
        match &self.out {
            Some(out) => out,
            None => unreachable!("nothing is called after finish took the writer"),
        }
    }

    #[cold]
    fn write_slowly(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.filled == self.end || self.repeating.is_some() || !self.is_ours() {
            self.push()?;
            self.open_window(1)?;
        }
        // Do not copy into the buffer what can be written directly.
        let is_long = |window: usize| data.len() >= window.min(FIRST_REGION);
        if self.filled == self.sent && is_long(self.window) {
            self.prepare(0);
            if self.stage != Stage::ZeroCopy && is_long(self.window) {
                match self.write_directly(data) {
                    // Queue the bytes, so that there is something to flush.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    outcome => return outcome,
                }
            }
        }
        let n = data.len().min(self.end - self.filled);
        self.copy_in(&data[..n]);
        if self.filled == self.end {
            // The bytes have been accepted.
            let sent = self.push();
            if self.leave_to_next_call(sent) {
                self.prepare(0);
            }
        }
        Ok(n)
    }

    /// Leaves the error of a call that has accepted bytes to the next one, which sends them: there it occurs again,
    /// except for an interruption, which is noted. Returns whether everything was sent.
    fn leave_to_next_call(&mut self, sent: io::Result<()>) -> bool {
        if is_interruption(&sent) {
            self.is_interruption_due = true;
            self.interrupted_at = Some(self.filled);
            // Nothing more is accepted before that.
            self.end = self.filled;
        }
        sent.is_ok()
    }

    /// Writes whole pieces of `data`, up to 1 MiB, and returns their length.
    fn write_directly(&mut self, data: &[u8]) -> io::Result<usize> {
        /// The way to send is reconsidered in between.
        const MAX: usize = 1 << 20;
        let piece = self.piece.min(data.len());
        let whole = match data.len().min(MAX.max(piece)) {
            len if self.piece == usize::MAX => len,
            len => len / piece * piece,
        };
        let mut written = 0;
        while written < whole {
            match self
                .out()
                .write(&data[written..][..piece.min(whole - written)])
            {
                Ok(()) => written += piece.min(whole - written),
                Err(incomplete) => {
                    written += incomplete.moved as usize;
                    if written == 0 {
                        return Err(incomplete.source);
                    }
                    self.leave_to_next_call(Err(incomplete.source));
                    break;
                }
            }
        }
        Ok(written)
    }

    #[cold]
    fn write_all_slowly(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            match self.write(data) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => data = &data[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the buffer takes `data` without being full afterwards.
    #[inline]
    fn has_room(&self, data: &[u8]) -> bool {
        data.len() < self.end - self.filled && self.is_ours()
    }

    #[inline]
    fn copy_in(&mut self, data: &[u8]) {
        let to = self.filled + data.len();
        self.region.bytes_mut()[self.filled..to].copy_from_slice(data);
        self.filled = to;
    }
}

/// Buffers bytes, and sends one loan's length at a time.
impl<F: AsFd> Write for Writer<F> {
    #[inline]
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.has_room(data) {
            self.copy_in(data);
            return Ok(data.len());
        }
        if data.is_empty() {
            return Ok(0);
        }
        self.write_slowly(data)
    }

    /// As the default, with fewer branches for short data.
    #[inline]
    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        if self.has_room(data) {
            self.copy_in(data);
            return Ok(());
        }
        self.write_all_slowly(data)
    }

    /// Buffers as many of the slices as there is room for.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut written = 0;
        for slice in slices {
            if self.has_room(slice) {
                self.copy_in(slice);
            } else if written > 0 {
                break;
            } else if !slice.is_empty() {
                return self.write_slowly(slice);
            }
            written += slice.len();
        }
        Ok(written)
    }

    /// Gives all bytes to the kernel. They need not have been read on return.
    fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        // The buffer of a program that flushes often never gets full.
        self.prepare(0);
        Ok(())
    }
}

/// Returns the descriptor that the writer was created with.
impl<F: AsFd> AsFd for Writer<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.out_ref().as_fd()
    }
}

/// The number of the descriptor that [`AsFd`] returns.
impl<F: AsFd> AsRawFd for Writer<F> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Sends the queued bytes and ignores errors; sends nothing while panicking or in
/// a forked child. Does not wait until the bytes have been read, nor, if the last call or this wait was
/// [interrupted](WriterBuilder::interruptible), for a reader that takes nothing for a second.
impl<F: AsFd> Drop for Writer<F> {
    fn drop(&mut self) {
        if self.out.is_some() && !thread::panicking() {
            let was_interrupted = self.interrupted_at == Some(self.filled);
            if was_interrupted || is_interruption(&self.push()) {
                self.push_while_read();
            }
        }
    }
}

/// Whether a signal ended a wait.
fn is_interruption(sent: &io::Result<()>) -> bool {
    matches!(sent, Err(error) if error.kind() == io::ErrorKind::Interrupted)
}

/// Turns `WouldBlock` into success: the bytes are queued.
fn ignore_would_block(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        sent => sent,
    }
}

/// Usual length of a loan that is copied, in bytes.
fn copying_window(plan: &WriterBuilder, piece: usize) -> usize {
    let window = plan.loan.unwrap_or(piece);
    round_up_to_pages(window.clamp(1, COPIED_REGION))
}

/// Rounds up to whole base pages.
fn round_up_to_pages(bytes: usize) -> usize {
    bytes
        .checked_next_multiple_of(page_size())
        .unwrap_or(usize::MAX & !(page_size() - 1))
}
