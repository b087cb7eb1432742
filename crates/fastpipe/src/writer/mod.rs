//! [`Writer`]: zero-copy output that is never wrong.

mod builder;
mod finish;
mod frozen;
mod loan;
mod path;
mod probe;
mod region;
mod repeater;
mod repeating;
mod send;

pub use self::builder::{DEFAULT_CAPACITY, WriterBuilder};
pub use self::finish::{FinishError, Report};
pub use self::frozen::Frozen;
pub use self::loan::Loan;
pub use self::path::{Kind, Path, Reason};
pub use self::probe::{cow_check_works, vmsplice_refers};

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use self::region::{Region, Turns};
use self::repeating::Repeating;
use self::send::Stage;
use crate::fork::Origin;
use crate::pipe::page_size;
use crate::transfer::Output;

/// So many bytes are written plainly before it is worth looking at the output,
/// trying out what the kernel does, and preparing huge pages.
pub const LITTLE: u64 = 128 << 10;

/// The region that little is written from.
const LITTLE_REGION: usize = 64 << 10;

/// Output to a pipe without copying, or to anything else by write(2).
///
/// Bytes are either made in place, in memory that is lent ([`lend`](Self::lend),
/// [`Loan::commit`]), or written by [`io::Write`], which gathers them; bytes
/// that never change are [repeated](Self::repeat).
///
/// ```
/// use std::io::{Read, Write};
/// use fastpipe::writer::{FinishError, Writer};
///
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut out = Writer::builder().open(writer)?;
/// let mut loan = out.lend(4096)?;
/// loan[..6].copy_from_slice(b"hello ");
/// loan.commit(6)?;
/// out.write_all(b"world")?;
/// out.finish().map_err(FinishError::abandon)?;
///
/// let mut got = String::new();
/// reader.read_to_string(&mut got)?;
/// assert_eq!(got, "hello world");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # What is sent when
/// [`Loan::commit`] hands what it is given to the kernel before it returns.
/// Bytes written by [`io::Write`] are gathered until a loan is full or
/// [`flush`](Write::flush) is called. Dropping the writer flushes it, ignoring
/// errors, unless the thread is panicking (then what was gathered, up to a
/// loan's size, is lost); [`finish`](Self::finish) does not ignore them. Neither
/// waits until anybody has read the bytes;
/// [`wait_drained`](Self::wait_drained) does.
///
/// Whole pages go by vmsplice(2), what is left over by write(2).
///
/// # Errors leave it usable
/// After an error the bytes that were not sent are still queued, in order, and
/// the next call tries again. A full disk can be made room on and a signal
/// handler return; a pipe without reader stays broken. Under [`Wait::Never`](crate::wait::Wait::Never)
/// this is how it is meant to be used:
///
/// * `commit`, `write` and `repeat` queue what can't be sent at once, and
///   succeed;
/// * while something is queued, `lend`, `repeat` and (once the memory for it
///   is used up) `write` answer [`io::ErrorKind::WouldBlock`] and take nothing;
/// * `flush` goes on sending, and answers `WouldBlock` until all is sent.
///
/// `write_all` and `writeln!` call `write` several times, and don't tell how
/// much was taken before one of them failed: an event loop calls `write`, or
/// fills loans.
///
/// # Memory
/// It lends from pages of its own, which are unmapped in the end and never
/// given to an allocator, so they outlive it, a panic and a broken pipe for
/// whoever holds them. Loans follow one another page by page, however small,
/// and less than two pages are copied. So a stretch of the stream that is held,
/// by pipes and whoever took the pages on, costs at most twice its length, and
/// a whole page of its kind (2 MiB for huge pages) at both ends. A loan that
/// asks for more than half a huge page may have to leave most of the current
/// one unused: committed for less than half, it is copied, and otherwise the
/// stretch may cost eight times its length. Beyond that there is the region
/// itself ([`WriterBuilder::region`]).
///
/// # fork
/// A forked child can't use its parent's writer: whatever would lend, take or
/// send bytes fails there with [`io::ErrorKind::Other`], and dropping it sends
/// nothing. What is queued at the fork is the parent's to send; the memory to
/// be vmspliced is wiped in the child, but for reserved huge pages
/// ([`Pages::HugeTlb`](crate::buffer::Pages::HugeTlb)), which can't be. The
/// child makes a writer of its own. A writer that only ever copies
/// ([`WriterBuilder::copying`]) is inherited as any buffer is: what is queued at the
/// fork is sent by both, unless one of them leaves it alone.
///
/// A child that does not exec must drop the parent's writer, or exit: while it
/// has the writer it has the pipe open, by the [private
/// duplicate](#the-outputs-descriptor), and no reader sees the end of the data.
/// To replace the descriptor itself, as daemons do with standard output, is not
/// enough.
///
/// # The output's descriptor
/// Once much has been written, the descriptor is duplicated, and everything
/// goes through the duplicate until [`finish`](Self::finish) or drop closes it.
/// So a reader sees the end of the data only then, even if the descriptor
/// itself is closed or replaced (dup2(2)) before. [`AsFd`] gives the descriptor
/// itself all the time, so that an event loop can register it.
#[derive(Debug)]
pub struct Writer<F: AsFd = OwnedFd> {
    /// `None` once it has been finished.
    out: Option<Output<F>>,
    /// The only process that may use it; `None` if it only ever copies.
    origin: Option<Origin>,
    plan: WriterBuilder,
    stage: Stage,
    region: Region,
    /// Offsets in the current slab, in order. Before `held` all pages are the
    /// pipe's; `sent..filled` is to be sent; up to `end` may be filled.
    ///
    /// Where nothing is to be sent, `sent` and `filled` are `held`, which is
    /// always a multiple of the page size.
    held: usize,
    sent: usize,
    filled: usize,
    end: usize,
    /// Whether `sent..filled` is not to be handed over.
    copied: bool,
    /// The most bytes of `end - held`.
    window: usize,
    /// How long a slab is unless a loan asks for more, in bytes.
    usual_slab: usize,
    /// What comes after `filled`.
    repeating: Option<Repeating>,
    spliced: u64,
    /// Of regions that were replaced.
    turns: Turns,
}

impl Writer {
    /// A writer to be, to be changed by the builder's methods.
    pub fn builder() -> WriterBuilder {
        WriterBuilder::new()
    }
}

impl<F: AsFd> Writer<F> {
    fn with(fd: F, plan: WriterBuilder) -> io::Result<Self> {
        let region = Region::copied_from(LITTLE_REGION)?;
        Ok(Writer {
            out: Some(Output::new(fd, plan.wait)),
            origin: (!plan.copying).then(Origin::this_process),
            plan,
            stage: Stage::Little,
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
            turns: Turns::default(),
        })
    }

    /// Memory of at least `at_least` bytes, aligned to pages, for the next
    /// bytes of the stream. It may be longer, up to what [`WriterBuilder::loan`]
    /// says; `lend(0)` asks for what suits the writer.
    ///
    /// It holds zeroes, or bytes of earlier loans.
    ///
    /// # Errors
    /// Those of sending what was written before; `WouldBlock` under
    /// [`Wait::Never`](crate::wait::Wait::Never) while that can't be sent;
    /// `OutOfMemory` where not even pages to copy from can be had.
    pub fn lend(&mut self, at_least: usize) -> io::Result<Loan<'_, F>> {
        self.push()?;
        self.open_window(at_least)?;
        Ok(Loan::new(self, at_least))
    }

    /// Sends `data`, `times` times over, by reference.
    ///
    /// # Errors
    /// Those of sending. Under [`Wait::Never`](crate::wait::Wait::Never) `WouldBlock` if what came before
    /// could not be sent, and nothing of this is taken.
    pub fn repeat(&mut self, data: &Frozen, times: u64) -> io::Result<()> {
        self.push()?;
        let left = u128::from(times) * data.as_bytes().len() as u128;
        if left > 0 {
            self.repeating = Some(Repeating::new(data.clone(), left));
            self.reset(self.held);
        }
        queued(self.push())
    }

    /// Waits until everything has been read. On anything but a pipe this is
    /// [`flush`](Write::flush).
    ///
    /// Nothing wakes a process when a pipe has become empty, so this looks at
    /// it again and again, at intervals that grow to 1 ms. Bytes of another
    /// writer to the same pipe are waited for, too.
    ///
    /// # Errors
    /// Those of `flush`; `BrokenPipe` if the reader is gone before everything
    /// was read; `WouldBlock` under [`Wait::Never`](crate::wait::Wait::Never) if something is unread.
    pub fn wait_drained(&mut self) -> io::Result<()> {
        self.push()?;
        self.wait_until_read()
    }

    /// Sends what is queued and gives the descriptor back, with an account.
    ///
    /// # Errors
    /// Those of sending, with the writer, which still has what was not sent:
    /// under [`Wait::Never`](crate::wait::Wait::Never) `WouldBlock` means that
    /// bytes it has accepted are still queued. Where they are to be given up,
    /// `finish().map_err(FinishError::abandon)?` says so.
    pub fn finish(mut self) -> Result<(F, Report), FinishError<F>> {
        if let Err(error) = self.push() {
            return Err(FinishError::new(error, self));
        }
        let report = self.report();
        match self.out.take() {
            Some(out) => Ok((out.into_inner(), report)),
            None => unreachable!("a writer is finished once: finish takes it"),
        }
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        Report::new(self)
    }

    /// Which technique is in use at the moment, and why.
    pub fn path(&self) -> Path {
        match self.stage {
            Stage::Little => Path::Write(Reason::LittleSoFar),
            Stage::Zero => Path::Vmsplice(self.region.policy()),
            Stage::Copying(reason) => Path::Write(reason),
        }
    }

    /// The bytes that were given to this writer and not yet to the kernel.
    pub fn queued(&self) -> u128 {
        let repeating = self.repeating.as_ref().map_or(0, Repeating::left);
        (self.filled - self.sent) as u128 + repeating
    }

    /// Whether this process may use it: false in a forked child.
    #[inline]
    fn is_ours(&self) -> bool {
        self.origin.is_none_or(Origin::is_this_process)
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
        // What is copied anyway need not be copied twice.
        if self.filled == self.sent
            && data.len() >= self.window
            && matches!(self.stage, Stage::Copying(_))
        {
            match self.out().write(data) {
                Ok(()) => return Ok(data.len()),
                Err(incomplete) if incomplete.moved > 0 => return Ok(incomplete.moved as usize),
                // Then it is queued, so that there is something to flush.
                Err(incomplete) if incomplete.source.kind() == io::ErrorKind::WouldBlock => {}
                Err(incomplete) => return Err(incomplete.source),
            }
        }
        let n = data.len().min(self.end - self.filled);
        self.copy_in(&data[..n]);
        if self.filled == self.end {
            // The bytes are ours now. An error comes again with the next call,
            // which sends them.
            if self.push().is_ok() {
                self.prepare(0);
            }
        }
        Ok(n)
    }

    #[inline]
    fn copy_in(&mut self, data: &[u8]) {
        let to = self.filled + data.len();
        self.region.bytes_mut()[self.filled..to].copy_from_slice(data);
        self.filled = to;
    }
}

/// Gathers bytes, and sends a loan's worth at a time.
impl<F: AsFd> Write for Writer<F> {
    #[inline]
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.len() < self.end - self.filled && self.is_ours() {
            self.copy_in(data);
            return Ok(data.len());
        }
        if data.is_empty() {
            return Ok(0);
        }
        self.write_slowly(data)
    }

    /// Everything is in the kernel when this returns; it need not have been
    /// read.
    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

/// The descriptor that it was made with, which [`finish`](Writer::finish)
/// gives back.
impl<F: AsFd> AsFd for Writer<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.out_ref().as_fd()
    }
}

/// Sends what is queued, ignoring errors, but not while panicking nor in a
/// forked child. Does not wait until it has been read.
impl<F: AsFd> Drop for Writer<F> {
    fn drop(&mut self) {
        if self.out.is_some() && !thread::panicking() {
            let _ = self.push();
        }
    }
}

/// Under [`Wait::Never`](crate::wait::Wait::Never) what could not be sent is queued, which is success.
fn queued(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        sent => sent,
    }
}

/// Rounded up to whole base pages.
fn pages_up(bytes: usize) -> usize {
    bytes
        .checked_next_multiple_of(page_size())
        .unwrap_or(usize::MAX & !(page_size() - 1))
}
