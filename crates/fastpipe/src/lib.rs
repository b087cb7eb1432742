//! Fast pipes on Linux: zero-copy output whose data is always correct, buffered
//! input, relaying, and shared-memory rings.
//!
//! write(2) copies every byte into pages of the kernel. In the usual large pieces it
//! moves about 1 GiB/s between two processors, in well-sized ones about 5. vmsplice(2)
//! can be twice as fast again, because it puts references to the program's own pages
//! into the pipe. But if the program writes to such a page too early, its reader sees
//! the new bytes, and no system call reports when a page is free again. [`Writer`]
//! solves that problem, and finds out which way is fastest for its reader.
//!
//! # Quick start
//!
//! A generator produces its data in memory lent by the writer:
//!
//! ```no_run
//! use fastpipe::Writer;
//!
//! let mut out = Writer::stdout()?;
//! let mut numbers = 0..1_000_000_000u64;
//! while !numbers.is_empty() {
//!     // As much memory as suits the method in use.
//!     let mut page = out.lend(0)?;
//!     let mut filled = 0;
//!     for (word, number) in page.as_chunks_mut::<8>().0.iter_mut().zip(&mut numbers) {
//!         *word = number.to_le_bytes();
//!         filled += 8;
//!     }
//!     page.commit(filled)?;
//! }
//! out.finish()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A `Writer` is also an [`io::Write`](std::io::Write): `writeln!(out, ...)`.
//!
//! When the reader closes the pipe, as `head` soon does, the next call that sends fails with
//! `BrokenPipe`. Most programs that produce data treat that as success:
//!
//! ```
//! use std::io::{self, ErrorKind};
//!
//! # fn produce() -> io::Result<()> { Err(ErrorKind::BrokenPipe.into()) }
//! fn main() -> io::Result<()> {
//!     match produce() {
//!         Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
//!         result => result,
//!     }
//! }
//! ```
//!
//! A filter reads into the memory that it sends:
//!
//! ```no_run
//! use std::io::Read;
//! use fastpipe::{Reader, Writer};
//!
//! let mut input = Reader::stdin();
//! let mut out = Writer::stdout()?;
//! loop {
//!     let mut page = out.lend(256 << 10)?;
//!     let n = input.read(&mut page)?;
//!     if n == 0 {
//!         break;
//!     }
//!     page[..n].make_ascii_uppercase();
//!     page.commit(n)?;
//! }
//! out.finish()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Nothing waits in the writer there, since committing sends. Where output is not as long as input, write
//! it as to any `io::Write`, and flush before the next read, so that lines appear as they come:
//!
//! ```no_run
//! use std::io::{BufRead, Write};
//! use fastpipe::{Reader, Writer};
//!
//! let mut input = Reader::stdin();
//! let mut out = Writer::stdout()?;
//! loop {
//!     let bytes = input.fill_buf()?;
//!     if bytes.is_empty() {
//!         break;
//!     }
//!     write!(out, "{}", bytes.escape_ascii())?;
//!     let n = bytes.len();
//!     input.consume(n);
//!     out.flush()?;
//! }
//! out.finish()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Constant data is produced once and sent repeatedly:
//!
//! ```no_run
//! use fastpipe::{Frozen, Writer};
//!
//! let line = Frozen::new(b"y\n")?;
//! let mut out = Writer::stdout()?;
//! out.repeat(&line, u64::MAX)?;
//! out.finish()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`copy`](fn@copy) moves bytes from any descriptor to any other without looking at them. The crate's
//! source has complete programs in `examples/`: filters, a log, `tee`, proxies, frames and messages between
//! processes, event loops.
//!
//! # Hazards of zero copy, and how they are handled
//!
//! | hazard | handled by |
//! |---|---|
//! | The reader splices or tees pages onward: they are in use although the pipe is empty | pages are never written again ([`Method::Fresh`]), or only after the kernel has found no reference to them ([`Method::CowChecked`]) |
//! | The reader enlarges the pipe, so that "a pipeful was sent since" no longer implies "read" | unread bytes are counted ([`Method::Drained`]) |
//! | Memory is freed to the allocator while a pipe refers to it | each buffer is a mapping of its own, unmapped in the end |
//! | fork shares pages with a child | pages to be vmspliced are wiped in the child (MADV_WIPEONFORK), where the writer's methods fail |
//! | MADV_DONTNEED does not release locked memory | a new mapping replaces it |
//! | A few bytes pin a huge page | pieces are placed page after page, so the pinned memory is the length sent, rounded up at both ends. A reader that keeps a few bytes of each huge page holds more: see [`Method::Fresh`] |
//! | Another thread replaces the output (dup2) during a call | pages are handed over through a private duplicate of the descriptor, checked once |
//! | vmsplice is refused (seccomp), or the output is not a pipe, or has O_APPEND | write(2) continues at the same byte; [`Report::reason`](writer::Report::reason) tells why |
//! | A future kernel turns vmsplice into a copy | it is probed on a private pipe first |
//! | O_NONBLOCK is shared by all users of an open file | it is never set; single calls are made non-blocking instead |
//! | SIGPIPE | its disposition is never changed. Rust programs ignore it and get `BrokenPipe` |
//!
//! # Which method
//!
//! [`Method::Auto`], the default, finds the fastest method that is correct for every
//! reader, on the stream itself: write(2) in well-sized pieces, or vmsplice(2) from
//! pages that are replaced or checked before they are written again.
//! [`Method::Drained`] is faster still, but correct only for readers that copy, such
//! as those that use read(2). See [`method`].
//!
//! # How fast
//!
//! `pipespeed bench touched`, of the same project, measures it on your machine: two
//! processes on two processors, where the writer produces every byte and the reader
//! sums them up, using read(2). On a two-processor KVM guest (AMD
//! EPYC, Linux 6.18), the ends sleeping when they must:
//!
//! | | GiB/s | ratio | CPU time, ms/GiB |
//! |---|---|---|---|
//! | write(2), the best of 12 sizes | 4.18 | 1 | 473 |
//! | write(2), 64 KiB at a time | 0.811 | 0.19 (0.18 to 0.20) | 972 |
//! | `BufWriter`, 64 KiB at a time | 0.916 | 0.22 (0.21 to 0.22) | 970 |
//! | `Auto`, the default | 7.96 | 1.83 (1.00 to 1.94) | 187 |
//! | `Auto`, clone allowed | 7.84 | 1.80 (1.56 to 2.05) | 203 |
//! | `CowChecked` | 9.04 | 2.09 (1.94 to 2.22) | 173 |
//! | `Fresh` | 8.56 | 2.05 (1.81 to 2.12) | 163 |
//! | `Drained` | 9.33 | 2.11 (1.91 to 2.35) | 173 |
//! | `Auto` as `io::Write` | 8.01 | 1.88 (1.40 to 2.06) | 191 |
//!
//! (Medians of 20 rounds; ratios are paired by round, with 95 % intervals.) Three
//! hours later, when the host ran the two processors nearer to each other, write(2) was
//! three times as fast, and `Auto` gained nothing (0.95) unless it might clone (1.41).
//! The repository's `docs/zero-copy.md` has the figures with real readers, and explains
//! where the time of each method goes.
//!
//! # Modules
//!
//! * [`writer`] and [`reader`]: the two ends of a stream;
//! * [`relay`]: from any descriptor to any other;
//! * [`ring`]: a ring buffer in memory shared by two processes that both use this
//!   library; without copies or system calls;
//! * [`method`]: how a writer sends, and when a page may be written again;
//! * [`wait`]: what to do while the pipe is full or empty.
//!
//! Most programs need only [`Writer`], [`Reader`], [`copy`](fn@copy) and [`ring`]. With the feature
//! `raw` the parts of which they are made are public, too: page-aligned memory (`buffer`), the
//! properties of a pipe (`pipe`), complete transfers by write, read, vmsplice, splice and tee
//! (`transfer`), and what the kernel is found to do (`probe`). They may change with any release.
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod counts;
mod fork;
pub mod method;
pub mod reader;
#[cfg(feature = "tokio")]
mod registered;
pub mod relay;
pub mod ring;
mod sealed;
mod sys;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod wait;
pub mod writer;

// The parts from which the above is made.
#[cfg(feature = "raw")]
pub mod buffer;
#[cfg(not(feature = "raw"))]
#[allow(dead_code, reason = "a part of it is public only")]
mod buffer;
#[cfg(feature = "raw")]
pub mod pipe;
#[cfg(not(feature = "raw"))]
#[allow(dead_code, reason = "a part of it is public only")]
mod pipe;
#[cfg(feature = "raw")]
pub mod probe;
#[cfg(not(feature = "raw"))]
#[allow(dead_code, reason = "a part of it is public only")]
mod probe;
#[cfg(feature = "raw")]
pub mod transfer;
#[cfg(not(feature = "raw"))]
#[allow(dead_code, unused_imports, reason = "a part of it is public only")]
mod transfer;

pub use self::counts::Counts;
#[doc(inline)]
pub use self::{
    buffer::Pages,
    method::{AssertReaderCopies, Method},
    reader::{Reader, ReaderBuilder},
    relay::copy,
    wait::Wait,
    writer::{FinishError, Frozen, Loan, Writer, WriterBuilder},
};

// Shared with the integration tests, so that all tests report skips in the same way.
#[cfg(test)]
#[path = "../tests/common/skip.rs"]
mod skip;
