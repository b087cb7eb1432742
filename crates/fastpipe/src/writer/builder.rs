//! How a writer is to be made.

use std::io::{self, StdoutLock, Write};
use std::os::fd::AsFd;

use super::Writer;
use crate::buffer::Pages;
use crate::reuse::Reuse;
use crate::wait::Wait;

/// The capacity a pipe is asked to have if nothing else is said, in bytes.
///
/// The default of /proc/sys/fs/pipe-max-size, and so the most that a process
/// without privilege gets. A larger pipe means fewer waits and fewer wake-ups.
pub const DEFAULT_CAPACITY: usize = 1 << 20;

/// Wishes beyond these are taken for these, in bytes.
pub(super) const MAX_LOAN: usize = 64 << 20;
pub(super) const MAX_REGION: usize = 1 << 30;

/// How a [`Writer`] is to be made.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct WriterBuilder {
    pub(super) reuse: Reuse,
    pub(super) wait: Wait,
    pub(super) capacity: Option<usize>,
    pub(super) pages: Pages,
    pub(super) region: Option<usize>,
    pub(super) loan: Option<usize>,
    pub(super) copying: bool,
    pub(super) at_once: bool,
}

impl WriterBuilder {
    pub(super) fn new() -> Self {
        WriterBuilder {
            reuse: Reuse::Fresh,
            wait: Wait::Block,
            capacity: Some(DEFAULT_CAPACITY),
            pages: Pages::Huge,
            region: None,
            loan: None,
            copying: false,
            at_once: false,
        }
    }

    /// When a page may be written again; [`Reuse::Fresh`] if not said.
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.reuse = reuse;
        self
    }

    /// What to do while the pipe is full; [`Wait::Block`] if not said.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// The capacity to bring the pipe to, in bytes, once much is written; as
    /// close to it as is allowed, and never below what it has.
    /// [`DEFAULT_CAPACITY`] if not said.
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// Leave the pipe's capacity as it is.
    pub fn keep_capacity(mut self) -> Self {
        self.capacity = None;
        self
    }

    /// The kind of pages to lend; [`Pages::Huge`] if not said.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// The memory to lend from, in bytes, rounded up to whole pages (of their
    /// kind). If not said: 2 MiB for `Fresh`, twice that and more than the pipe
    /// holds for `Drained`, 16 MiB for `CowChecked`. At most 1 GiB.
    ///
    /// A loan that asks for more gets a region as long as itself (`Drained`: two
    /// of them), which is used up before the usual one comes back.
    pub fn region(mut self, bytes: usize) -> Self {
        self.region = Some(bytes);
        self
    }

    /// The most bytes of a loan that asks for less, and the piece that written
    /// bytes are gathered to, in bytes, rounded up to whole pages. If not said:
    /// half the pipe's capacity, from 64 KiB to 512 KiB. At most 64 MiB.
    pub fn loan(mut self, bytes: usize) -> Self {
        self.loan = Some(bytes);
        self
    }

    /// Always copy by write(2).
    pub fn copying(mut self) -> Self {
        self.copying = true;
        self
    }

    /// Prepare for much data at once, rather than after the first
    /// [128 KiB](super::LITTLE): for one who knows that much will come.
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// A writer to `fd`, which it owns or borrows.
    ///
    /// # Errors
    /// When a few pages of memory can't be had.
    pub fn open<F: AsFd>(self, fd: F) -> io::Result<Writer<F>> {
        Writer::with(fd, self)
    }

    /// A writer to standard output, which it keeps locked. What was printed
    /// before is sent first.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and of sending what was printed before.
    pub fn stdout(self) -> io::Result<Writer<StdoutLock<'static>>> {
        let mut lock = io::stdout().lock();
        lock.flush()?;
        self.open(lock)
    }
}
