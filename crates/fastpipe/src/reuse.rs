//! When memory that was handed to a pipe may be written again.
//!
//! vmsplice(2) puts references to pages into a pipe, not copies. Whoever
//! writes to such a page before its last reader is done with it changes what
//! is read. The reader is not always the one at the other end of the pipe: it
//! may splice(2) the pages on into a second pipe, tee(2) them, or keep them
//! there for as long as it likes, while our own pipe says that nothing is
//! unread. Nothing tells a writer when such a page is free.
//!
//! | the reader ... | [`Fresh`](Reuse::Fresh) | [`CowChecked`](Reuse::CowChecked) | [`Drained`](Reuse::Drained) |
//! |---|---|---|---|
//! | reads (copies), as most programs do | right | right | right |
//! | makes the pipe larger or smaller | right | right | right |
//! | stops, dies, is slow | right | right | right |
//! | splices to a file on a disk | right | right | right only if the file system copies |
//! | splices or tees to another pipe, as pv and cat may | right | right | **wrong data** |
//! | splices to a socket | right | right | **wrong data** |
//!
//! A wrong choice breaks data, never memory.

/// When a page that was handed to a pipe may be written again.
///
/// See the [module](self) for which is right for which reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reuse {
    /// Never. Once a region has been sent its pages are let go
    /// (MADV_DONTNEED) and new ones come in their place. Whoever still holds
    /// an old page keeps it unchanged. Right for every reader.
    ///
    /// Costs the zeroing of new pages. Pays only with huge pages, since a
    /// fault for each base page costs more than copying it: without them
    /// write(2) is used.
    #[default]
    Fresh,
    /// Once the pipe has given it up, found by counting the bytes unread
    /// (FIONREAD), never by "the pipe was full": so a reader may resize the
    /// pipe. Pages that are still unread when their turn comes are replaced by
    /// new ones, as under `Fresh`.
    Drained(AssertReaderCopies),
    /// Once nobody refers to it, which the kernel decides: it is made to treat
    /// the pages as shared by a process that is gone, so that at the next
    /// write it keeps a page that nobody else refers to and copies one that
    /// somebody does. Right for every reader, like `Fresh`, without its
    /// zeroing.
    ///
    /// Has a price outside this writer: whenever the region has been sent, *all*
    /// the private memory of the process is marked so, and each of its pages
    /// faults once when it is next written. It wins for a small process that
    /// makes data and little else, and loses in a large one, or one whose other
    /// threads write much: with 64 MiB of base pages the marking takes 3 ms
    /// (measured). Where it takes longer than zeroing new pages would, pages
    /// are let go as under `Fresh`, and it is tried again only seldom.
    ///
    /// Rests on behaviour of the kernel's that no manual promises (seen on
    /// Linux 6.18; by its source, 5.19 and later). So it is tried out on a
    /// private pipe before it is used and checked again for every region; where
    /// that fails, pages are let go as under `Fresh`.
    CowChecked,
}

/// The promise behind [`Reuse::Drained`]: whoever reads the pipe copies.
///
/// By writing this name you assert that, for as long as the writer is in use,
///
/// * the process at the other end takes the data by read(2), or by another
///   call that copies;
/// * nobody passes the pages on by splice(2) or tee(2): not that process, not
///   one that inherits or opens the read end.
///
/// `cat`, `pv` and `tee` of many distributions splice or tee. The assertion
/// suits a reader you wrote or know, not a pipeline in somebody's shell.
///
/// If it is false, a later reader may find newer bytes in place of older ones.
/// That is wrong data, not undefined behaviour: hence a name to be written out,
/// not `unsafe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssertReaderCopies;

impl Reuse {
    /// The word used in data: `fresh`, `drained`, `cow_checked`.
    pub fn name(self) -> &'static str {
        match self {
            Reuse::Fresh => "fresh",
            Reuse::Drained(AssertReaderCopies) => "drained",
            Reuse::CowChecked => "cow_checked",
        }
    }
}
