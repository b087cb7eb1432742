//! Pipes, pages and whole transfers between processes on Linux.
//!
//! A pipe is a ring of *slots*; each slot refers to one page, or a part of
//! one. write(2) copies into pages of the kernel's, vmsplice(2) puts
//! references to the caller's own pages into the slots, splice(2) moves
//! references from one pipe or file to another. This crate holds the pieces
//! needed to use them well:
//!
//! * [`buffer`]: page-aligned memory of base, transparent-huge or hugetlb
//!   pages, and proof of which it got;
//! * [`pipe`]: what a pipe is like: capacity, slots, unread bytes, the
//!   system's limits;
//! * [`transfer`]: whole transfers by write, read, vmsplice, splice and tee,
//!   which resume after partial results and signals and count what they did;
//! * [`wait`]: what to do while the pipe is full or empty;
//! * [`shared`]: a few words that two processes share.
//!
//! It never changes O_NONBLOCK on a descriptor it was lent (the flag belongs
//! to the open file, which strangers may share), never touches the
//! disposition of SIGPIPE, and never hands memory that was vmspliced to an
//! allocator.
//!
//! ```
//! use fastpipe::{buffer::Buffer, pipe, transfer::{Input, Output}, wait::Wait};
//!
//! let (reader, writer) = pipe::create()?;
//! let mut pages = Buffer::builder().len(64 * 1024).map()?;
//! pages.fill(b'x');
//!
//! let mut out = Output::new(&writer, Wait::Block);
//! out.vmsplice(&[pages.slice(..)], Default::default())?;
//!
//! let mut got = vec![0; 64 * 1024];
//! let n = Input::new(&reader, Wait::Block).read(&mut got)?;
//! assert_eq!(&got[..n], &pages[..]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod buffer;
pub mod pipe;
pub mod reuse;
pub mod shared;
mod sys;
pub mod transfer;
pub mod wait;
pub mod writer;
