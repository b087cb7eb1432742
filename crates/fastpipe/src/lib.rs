//! Zero-copy pipes on Linux that are never wrong, and the pieces they are made
//! of.
//!
//! write(2) copies into pages of the kernel's: at some 3 GiB/s between two
//! processors, and much less where the two processes have to wake each other.
//! vmsplice(2) puts references to the program's own pages into the pipe. Three
//! to six times as fast, but who writes to such a page too early changes what
//! somebody else reads, and no call tells when it is not too early.
//! [`Writer`](writer::Writer) gives the speed without the question.
//!
//! # In five minutes
//!
//! A generator makes its data in memory that is lent to it:
//!
//! ```no_run
//! use fastpipe::writer::{FinishError, Writer};
//!
//! let mut out = Writer::builder().stdout()?;
//! let mut number = 0u64;
//! for _ in 0..20_000 {
//!     let mut page = out.lend(512 << 10)?;
//!     for word in page.as_chunks_mut::<8>().0 {
//!         *word = number.to_le_bytes();
//!         number += 1;
//!     }
//!     let n = page.len();
//!     page.commit(n)?;
//! }
//! out.finish().map_err(FinishError::abandon)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! (Or use it as any [`io::Write`](std::io::Write): `writeln!(out, ...)`.) When
//! its reader has had enough, as `head` soon has, the next call answers
//! `BrokenPipe`. Most programs that produce data take that for a good end:
//!
//! ```
//! use std::io::{self, ErrorKind};
//!
//! # fn produce() -> io::Result<()> { Err(ErrorKind::BrokenPipe.into()) }
//! fn main() -> io::Result<()> {
//!     match produce() {
//!         Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
//!         done => done,
//!     }
//! }
//! ```
//!
//! A filter reads into memory that is sent on:
//!
//! ```no_run
//! use std::io::Read;
//! use fastpipe::reader::Reader;
//! use fastpipe::writer::{FinishError, Writer};
//!
//! let mut input = Reader::builder().stdin()?;
//! let mut out = Writer::builder().stdout()?;
//! loop {
//!     let mut page = out.lend(256 << 10)?;
//!     let n = input.read(&mut page)?;
//!     if n == 0 {
//!         break;
//!     }
//!     page[..n].make_ascii_uppercase();
//!     page.commit(n)?;
//! }
//! out.finish().map_err(FinishError::abandon)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Data that never changes is repeated, without being made again:
//!
//! ```no_run
//! use fastpipe::writer::{Frozen, Writer};
//!
//! let line = Frozen::new(b"y\n")?;
//! Writer::builder().stdout()?.repeat(&line, u64::MAX)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! And [`relay`](relay::relay) moves bytes that need not be looked at from any
//! descriptor to any other. The crate's `examples/` are programs to run.
//!
//! # What can go wrong with zero-copy, and what happens here
//!
//! | hazard | here |
//! |---|---|
//! | The reader splices or tees pages onward: they are still in use when the pipe is empty | pages are never written again ([`Reuse::Fresh`](reuse::Reuse::Fresh), the default), or only once the kernel finds that nobody holds them ([`CowChecked`](reuse::Reuse::CowChecked)) |
//! | The reader makes the pipe larger: "a pipeful was sent since" says nothing | what is unread is counted ([`Drained`](reuse::Reuse::Drained)) |
//! | Memory goes back to the allocator while the pipe holds it | it is a mapping of its own, unmapped in the end |
//! | fork shares pages with a child | pages to be vmspliced are wiped in the child (MADV_WIPEONFORK), whose calls of the writer fail |
//! | Locked memory is not let go by MADV_DONTNEED | a new mapping takes its place |
//! | A few bytes hold a huge page | pieces follow one another page by page; what is held is what was sent, rounded up at its ends |
//! | Another thread replaces the output (dup2) in mid-call | everything goes through a private duplicate of the descriptor, checked once |
//! | vmsplice is refused (seccomp), the output is no pipe, or opened to append | write(2) goes on at the byte where it stopped; [`path`](writer::Writer::path) tells why |
//! | A kernel turns vmsplice into a copy | it is tried out on a private pipe first |
//! | O_NONBLOCK set on a shared open file | never set; calls are non-blocking one by one |
//! | SIGPIPE | its disposition is never touched. Rust programs ignore it, and get `BrokenPipe` |
//!
//! # Which policy for which reader
//!
//! See [`reuse`]. In short: leave it at the default. `Drained` is up to twice as
//! fast again, for a reader you know to copy, as one that calls read(2) does.
//! `CowChecked` lies between the two and is right for every reader, for small
//! processes.
//!
//! # How fast
//!
//! `pipespeed bench touched`, of the same project, measures it on your machine:
//! two processes on two processors, every byte made by the writer and summed up
//! by the reader, who calls read(2). On a two-processor KVM guest (AMD EPYC,
//! Linux 6.18), neither end sleeping:
//!
//! | | GiB/s | against | processor time, ms/GiB |
//! |---|---|---|---|
//! | write(2) | 3.0 | 1 | 653 |
//! | `Fresh`, the default | 10.2 | 3.3 (3.1 to 4.0) | 195 |
//! | `CowChecked` | 14.4 | 1.15 (1.04 to 1.44) times `Fresh` | 138 |
//! | `Drained` | 18.6 | 6.0 (5.4 to 6.7) | 107 |
//! | `BufWriter`, 64 KiB at a time | 3.2 | 1 | 610 |
//! | the same written to a `Writer` | 8.2 | 2.6 (2.4 to 3.1) | 186 |
//!
//! (Medians of 30 rounds, ratios paired by round with 95 % intervals.) Written 16
//! bytes at a time to a reader that does not look at them a `Writer` is 1.4
//! (1.1 to 1.9) times as fast as a `BufWriter`, 4 KiB at a time 1.7 (1.5 to 2.0)
//! times: `cargo bench -p pipespeed --bench small_writes`. What was tried to make
//! `Fresh` faster, and why it is not, is in `docs/zero-copy.md` of the
//! repository.
//!
//! Where a reader sleeps and must be woken, as in most pipelines, the gain is
//! larger: a larger pipe and fewer calls mean fewer wake-ups.
//!
//! # The pieces
//!
//! * [`writer`] and [`reader`], the two ends of a stream;
//! * [`relay`]: from any descriptor to any other;
//! * [`ring`]: a ring in memory that two processes share, for programs that both
//!   use this library: nothing is copied, and no system call made;
//! * [`reuse`]: when a page may be written again;
//! * [`buffer`]: page-aligned memory of base, transparent-huge or hugetlb
//!   pages, and proof of which it got;
//! * [`memory`]: what the kernel tells of a process's mappings and pages;
//! * [`pipe`]: what a pipe is like: capacity, slots, unread bytes, the
//!   system's limits;
//! * [`transfer`]: whole transfers by write, read, vmsplice, splice and tee,
//!   which resume after partial results and signals and count what they did;
//! * [`wait`]: what to do while the pipe is full or empty;
//! * [`shared`]: a few words that two processes share.
#![deny(unsafe_code)]

pub mod buffer;
mod fork;
pub mod memory;
pub mod pipe;
pub mod reader;
pub mod relay;
pub mod reuse;
pub mod ring;
mod sealed;
pub mod shared;
mod sys;
pub mod transfer;
pub mod wait;
pub mod writer;
