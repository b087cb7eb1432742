//! [`Method`]: how a [`Writer`](crate::Writer) sends its bytes.
//!
//! vmsplice(2) puts references to pages into a pipe, not copies. If the writer
//! changes such a page before its last reader has finished, that reader sees
//! the change. The last reader need not be at the other end of the pipe: the
//! process there may splice(2) the pages into a second pipe, tee(2) them, or
//! hold them for any time, while the first pipe is empty. No system call
//! reports that a page is free. The methods differ in when they write to a page
//! again:
//!
//! | the reader ... | [`Auto`](Method::Auto), [`Copy`](Method::Copy) | [`Fresh`](Method::Fresh) | [`CowChecked`](Method::CowChecked) | [`Drained`](Method::Drained) |
//! |---|---|---|---|---|
//! | copies by read(2), as most programs do | correct | correct | correct | correct |
//! | resizes the pipe | correct | correct | correct | correct |
//! | stops, dies, is slow | correct | correct | correct | correct |
//! | splices to a file on disk | correct | correct | correct | correct only if the file system copies |
//! | splices or tees to another pipe, as pv and cat may | correct | correct | correct | **wrong data** |
//! | splices to a socket | correct | correct | correct | **wrong data** |
//!
//! A wrong choice corrupts data, never memory.

use crate::probe::copy_piece;

/// How a [`Writer`](crate::Writer) sends its bytes.
///
/// The [module](self) shows which method is correct for which reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Method {
    /// The fastest of `Copy` (in short or long pieces), `Fresh` and, if
    /// [allowed](crate::WriterBuilder::allow_clone), `CowChecked` for this stream and its reader,
    /// found by trials on the stream itself. Correct for every reader.
    ///
    /// The writer copies at first. After 32 MiB or more, and then at twice the offset of the last
    /// trial, it compares the wall time per byte with that of another method, over 8 MiB or more
    /// at a time (eight times the capacity of a large pipe). It changes the method if the other
    /// one is faster by more than 5 % in three of four pairs, or by half throughout, and its
    /// fastest part is 5 % faster than that of the method in use, too. For `CowChecked`, which
    /// takes the least processor time, any gain will do. Apart from the first trial of each
    /// method, which is repeated if something disturbed it, slower methods cost at most 1 % of
    /// the time. While there are no huge pages it copies, and tries again ever more rarely.
    ///
    /// Below 1 GiB/s longer pieces are tried too: each write wakes a reader that waits
    /// for a slow program. There are no trials below 50 MiB/s, where they would hardly
    /// matter; under [`Wait::Never`](crate::Wait::Never) and
    /// [`Wait::Poll`](crate::Wait::Poll), where the time says little about the writer; and
    /// on anything but a pipe.
    /// `CowChecked` is tried only while the process has a single thread, at most 64 MiB of
    /// memory, since its cost to the rest of the program could not be seen, and no seccomp
    /// filter, which might end it for its clone(2).
    /// [`Report::trials`] lists what was found.
    ///
    /// [`Report::trials`]: crate::writer::Report::trials
    #[default]
    Auto,
    /// write(2), in pieces of at most `piece` bytes if the output is a pipe.
    ///
    /// Those of [`copy`](Self::copy) are usually the fastest: a pipe
    /// keeps the last pages that were read for the next write, so nothing is allocated, and
    /// the bytes stay in the first-level cache. Bytes of several writers to one pipe may mix
    /// between two pieces.
    Copy {
        /// Maximum length of a write, in bytes.
        piece: usize,
    },
    /// vmsplice(2), from pages that are never written again. After a region has
    /// been sent, its pages are released (MADV_DONTNEED) and replaced by new ones.
    /// A pipe or process that still refers to an old page keeps it unchanged.
    /// Correct for every reader.
    ///
    /// The cost is that the kernel zeroes each new page. Only huge pages make up
    /// for that, since a fault for each base page costs more than copying it;
    /// without huge pages the writer falls back to write(2).
    ///
    /// # Held pages
    /// A reader that passes a few bytes of each huge page onward and keeps them
    /// makes the kernel keep whole huge pages: 373 MiB were seen for 800 KiB in
    /// pipes. No system call shows this to the writer. Where the reader is not
    /// trusted with memory, use `Copy`.
    Fresh,
    /// vmsplice(2), from pages that are written again when their bytes have left
    /// the pipe, determined by the number of unread bytes (FIONREAD). This does not
    /// depend on the pipe's capacity, so a reader may change it. Pages that are
    /// still unread when they are needed are replaced by new ones, as under `Fresh`.
    Drained(AssertReaderCopies),
    /// vmsplice(2), from pages that are written again when no pipe and no other
    /// process refers to them, determined by the kernel's copy-on-write. The
    /// process's memory is duplicated, as by fork(2), and the duplicate dropped, so
    /// that the kernel treats every page as possibly shared. At the next write to a
    /// page it makes a copy if a pipe or another process refers to it, and keeps
    /// the page otherwise. Correct for every reader, like `Fresh`, without its
    /// zeroing.
    ///
    /// The cost is outside the writer: each time the region has been sent, *all*
    /// private memory of the process is marked as shared, and each of its pages
    /// faults at the next write. This pays off in a small process that mainly
    /// produces data, but not in a large one, or one whose other threads write much:
    /// with 64 MiB of base pages the duplication takes 3 ms (measured). While it
    /// takes longer than zeroing new pages, checks are paused and pages are
    /// replaced as under `Fresh`.
    ///
    /// Each check is a clone(2) that fails half-way or, before Linux 5.2, creates a
    /// child that exits at once. The rest of the system notices:
    ///
    /// * Each check uses up a process id: at full rate 900 per second were counted.
    ///   Ids are reused sooner, and where few are left (a small
    ///   /proc/sys/kernel/pid_max, a pid namespace) other programs' ids are too.
    /// * Where processes or system calls are watched (seccomp notification, audit,
    ///   ptrace), each check shows up as a clone.
    /// * As with fork(2), a direct read (O_DIRECT) into private memory that another
    ///   thread has under way can be lost on older kernels (open(2), NOTES). Do not
    ///   use this method in programs that do direct I/O there.
    ///
    /// Only on x86-64 and aarch64; elsewhere pages are replaced as under `Fresh`.
    ///
    /// No manual documents this behaviour of the kernel (seen on Linux 6.18;
    /// according to its source, 5.19 and later). It is therefore probed on a
    /// private pipe with a huge page before it is used, and verified for every
    /// region; if that fails, pages are replaced as under `Fresh`.
    CowChecked,
}

impl Method {
    /// `Copy` in pieces of one or two pages, whichever this kernel takes without
    /// allocating memory: measured once a process, in some 50 us.
    pub fn copy() -> Self {
        Method::Copy {
            piece: copy_piece(),
        }
    }
}

/// When a page that was handed to a pipe is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Never, as under [`Method::Fresh`].
    Fresh,
    /// When its bytes have left the pipe, as under [`Method::Drained`].
    Drained,
    /// When nothing refers to it, as under [`Method::CowChecked`].
    CowChecked,
}

/// The caller's assertion that [`Method::Drained`] is safe: all readers copy.
///
/// By writing this name you assert that, while the writer is in use,
///
/// * the process at the other end takes the data by read(2) or another call
///   that copies;
/// * nobody passes the pages on by splice(2) or tee(2): neither that process nor
///   one that inherits or opens the read end.
///
/// Some versions of `cat`, `pv` and `tee` use splice or tee. Make this assertion
/// for readers that you wrote or know, not for an arbitrary shell pipeline.
///
/// If it is false, a reader may find newer bytes in place of older ones. That is
/// wrong data but not undefined behaviour, so the assertion is a name to be
/// written out rather than `unsafe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssertReaderCopies;

impl Reuse {
    /// The method that does so.
    pub(crate) fn method(self) -> Method {
        match self {
            Reuse::Fresh => Method::Fresh,
            Reuse::Drained => Method::Drained(AssertReaderCopies),
            Reuse::CowChecked => Method::CowChecked,
        }
    }
}
