//! [`WriterBuilder`]: settings of a writer.

use std::io::{self, Stdout, StdoutLock, Write};
use std::os::fd::AsFd;

use super::Writer;
use crate::buffer::Pages;
use crate::method::Method;
use crate::wait::Wait;

/// Default capacity of the pipe, in bytes.
///
/// Equal to the default of /proc/sys/fs/pipe-max-size, the limit of an
/// unprivileged process. A larger pipe means fewer waits and fewer wake-ups.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

/// Default of [`WriterBuilder::max_held`], in bytes.
pub const DEFAULT_MAX_HELD: u64 = 256 << 20;

/// Larger settings are reduced to these, in bytes.
pub(super) const MAX_LOAN: usize = 64 << 20;
pub(super) const MAX_REGION: usize = 1 << 30;

/// Settings of a [`Writer`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct WriterBuilder {
    pub(super) method: Method,
    pub(super) wait: Wait,
    pub(super) capacity: Option<usize>,
    pub(super) pages: Pages,
    pub(super) region: Option<usize>,
    pub(super) loan: Option<usize>,
    pub(super) max_held: u64,
    pub(super) at_once: bool,
    pub(super) allow_clone: bool,
    pub(super) interruptible: bool,
}

impl WriterBuilder {
    pub(super) fn new() -> Self {
        WriterBuilder {
            method: Method::Auto,
            wait: Wait::Block,
            capacity: Some(DEFAULT_CAPACITY),
            pages: Pages::Huge,
            region: None,
            loan: None,
            max_held: DEFAULT_MAX_HELD,
            at_once: false,
            allow_clone: false,
            interruptible: false,
        }
    }

    /// Sets how bytes are sent; default [`Method::Auto`].
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Sets how to wait while the pipe is full; default [`Wait::Block`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the pipe capacity to aim for, in bytes; default
    /// [`DEFAULT_CAPACITY`]. The pipe is enlarged after the first
    /// [128 KiB](super::COPIED_FIRST), or for the first loan of more than 64 KiB, as far as the
    /// system allows, and never made smaller.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Leaves the pipe's capacity as it is.
    pub fn keep_capacity(mut self) -> Self {
        self.capacity = None;
        self
    }

    /// Sets the type of pages to lend; default [`Pages::Huge`].
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Sets the size of the memory to lend from, in bytes, rounded to whole pages of the
    /// [kind](Self::pages) in use; at most 1 GiB. Default with huge pages: 2 MiB for `Fresh`, 16 MiB for
    /// `CowChecked`, and for `Drained` more than the pipe's capacity, in at least
    /// two huge pages.
    ///
    /// A longer loan gets a region of its own length (for `Drained` two of them), which
    /// is used up before a region of the set size is mapped again.
    pub fn region(mut self, bytes: usize) -> Self {
        self.region = Some(bytes);
        self
    }

    /// Sets the usual length of a loan, which is also the number of bytes that
    /// [`Write`] gathers, in bytes, rounded up to whole pages; at most 64 MiB.
    /// Default: half the pipe's capacity, between 64 KiB and 512 KiB. Where bytes are
    /// copied, at most 128 KiB; default one piece (see [`Method::Copy`]), and 128 KiB
    /// if the output is not a pipe.
    pub fn loan(mut self, bytes: usize) -> Self {
        self.loan = Some(bytes);
        self
    }

    /// Sets how many bytes of pages readers may have held before the writer copies,
    /// in bytes; default [`DEFAULT_MAX_HELD`]. What was held counts in the end too,
    /// since no system call shows when it was released.
    ///
    /// Only `CowChecked` notices held pages, and so `Auto` where it uses it: see
    /// [`Method::Fresh`].
    pub fn max_held(mut self, bytes: u64) -> Self {
        self.max_held = bytes;
        self
    }

    /// Enlarges the pipe and prepares for zero copy immediately, rather than after the first
    /// [128 KiB](super::COPIED_FIRST). For callers that will write much more.
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Sets whether [`Method::Auto`] may try [`Method::CowChecked`], which calls clone(2) up to some
    /// 900 times a second; default false. For small programs with one thread that mainly produce
    /// data. Where a filter judges the process's system calls (seccomp(2)), it is not tried either.
    pub fn allow_clone(mut self, allow: bool) -> Self {
        self.allow_clone = allow;
        self
    }

    /// Sets whether a signal, if it is handled, ends a wait with [`io::ErrorKind::Interrupted`]; default
    /// false: the call goes on. For runtimes whose handlers only note the signal. What could not be sent
    /// remains queued, as after any error. A call that had accepted bytes before the signal succeeds, and the next
    /// one fails instead, at once; [`Writer::finish`] may be that. Dropping a writer whose last call was interrupted,
    /// as `finish()?` does, sends the rest until the reader takes nothing for a second. Under [`Wait::Spin`] no signal
    /// ends a wait.
    /// [`Write::write_all`] and [`wait_drained`](Writer::wait_drained), once the bytes are sent, go on all the same.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.interruptible = interruptible;
        self
    }

    /// Creates a writer to `fd`, which it owns or borrows.
    ///
    /// # Errors
    /// Those of mmap(2), for a few pages of memory.
    pub fn open<F: AsFd>(self, fd: F) -> io::Result<Writer<F>> {
        Writer::with(fd, self)
    }

    /// Creates a writer to standard output, which it keeps locked. Flushes what
    /// was printed before.
    ///
    /// While it exists, `print!` in another thread waits for it. In the same thread `print!` does not wait, and the
    /// lines it prints come before the bytes that the writer has not sent yet: [flush](Write::flush) the writer first
    /// to keep the order. See [`stdout_unlocked`](Self::stdout_unlocked).
    ///
    /// # Replacing standard output
    /// If descriptor 1 is made to refer to something else meanwhile (dup2(2), as
    /// daemons do), the bytes sent from then on go there, queued ones included, until
    /// the writer makes its [private duplicate](Writer#the-outputs-descriptor). After
    /// that they go on to where the duplicate refers. Which of the two it is depends on
    /// the method and on the bytes sent so far, so [finish](Writer::finish) the
    /// writer first and make another one afterwards.
    ///
    /// # Closed standard output
    /// Where a program is started without descriptor 1, Rust's runtime opens /dev/null in its place before main():
    /// what is written is lost without an error, as with `println!`.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and of that flush.
    pub fn stdout(self) -> io::Result<Writer<StdoutLock<'static>>> {
        let mut lock = io::stdout().lock();
        lock.flush()?;
        self.open(lock)
    }

    /// Creates a writer to standard output without locking it. Flushes what was
    /// printed before.
    ///
    /// `print!` remains possible, in every thread. What is printed is not ordered
    /// with the writer's bytes, since both are buffered, and may come between any
    /// two of them. To print at a certain place, [flush](Write::flush) the writer,
    /// print, and flush [`std::io::stdout`].
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and of that flush.
    pub fn stdout_unlocked(self) -> io::Result<Writer<Stdout>> {
        let mut stdout = io::stdout();
        stdout.flush()?;
        self.open(stdout)
    }
}
