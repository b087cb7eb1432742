//! A ring of bytes in memory that two processes share: one puts bytes in, the
//! other takes them out, and where both work in place nothing is copied and no
//! system call made.
//!
//! write(2) and read(2) copy each byte twice. What a ring takes is what it takes one processor to
//! read what another one has written.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use fastpipe::ring::{Consumer, Producer};
//!
//! let (here, there) = UnixStream::pair()?;
//! // Another process, as a rule.
//! let other = std::thread::spawn(move || {
//!     let mut consumer = Consumer::accept(&there)?;
//!     let mut got = String::new();
//!     consumer.read_to_string(&mut got)?;
//!     std::io::Result::Ok(got)
//! });
//!
//! let mut producer = Producer::offer(&here, 1 << 20)?;
//! producer.write_all(b"copied in, ")?;
//! let mut slot = producer.lend(8)?;
//! slot.write_at(0, b"in place");
//! slot.commit(8);
//! drop(producer);
//! assert_eq!(other.join().unwrap()?, "copied in, in place");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A child inherits an end as a standard descriptor
//! ([`into_fd`](Producer::into_fd), [`from_fd`](Producer::from_fd)):
//!
//! ```no_run
//! use std::io::Read;
//! use std::process::{Command, Stdio};
//! use fastpipe::ring::{self, Peer};
//!
//! let (producer, mut consumer) = ring::pair(1 << 20)?;
//! let child = Command::new("produce").stdout(Stdio::from(producer.into_fd()?)).spawn()?;
//! consumer.watch(Peer::child(&child)?);
//! let mut all = Vec::new();
//! consumer.read_to_end(&mut all)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! In the child `Producer::from_fd(io::stdout().as_fd().try_clone_to_owned()?)` takes it.
//!
//! # Waiting
//! See [`Wait`](crate::wait::Wait). `Block` looks for about a microsecond and
//! sleeps then, by futex(2): the peer makes a system call only to wake a sleeper,
//! once what that one waits for is there. `Spin` makes none at all and is
//! fastest where each end has a processor of its own; `Adaptive` spins while
//! that pays and sleeps then. Neither of `Block` and `Adaptive` looks twice where
//! both ends are bound to one processor (sched_setaffinity(2), when `set_wait`
//! was called).
//!
//! The peer's death ends the waiting within a second. It is noticed by a
//! pidfd or by the hang-up of the socket that the ring came by; see [`Peer`].
//! A peer that is merely stopped is waited for:
//! [`peer_state`](Producer::peer_state) tells, and
//! [`set_timeout`](Producer::set_timeout) limits the waiting.
//!
//! A child that is forked has its parent's ends too, but is not to use them; dropped there they stay
//! open.
//!
//! # Trust
//! The peer can write anything into the ring, header and data, at any time. By
//! that it can send wrong bytes, keep us waiting, wake us for nothing, or have us
//! make a system call with each commit, and no more:
//!
//! * The memory can't be made smaller under us (F_SEAL_SHRINK; fcntl(2)). An end
//!   that is received is refused if its file is not sealed, not of ordinary
//!   pages, or not of the size that its header says.
//! * The peer's index is loaded once, and checked: it can't have gone back, nor
//!   further than we left room or data for. Else the ring is corrupt, and stays
//!   so. Our own index and the capacity are ours, and never read back.
//! * No reference to bytes that it may change is given out in safe code. They
//!   are copied ([`Read`](std::io::Read), [`Write`](std::io::Write),
//!   [`View::read_at`]) or accessed as atomics ([`View::atomics`]);
//!   [`View::bytes`] and [`Slot::bytes_mut`] are `unsafe`, for peers that are
//!   trusted not to. Whatever is parsed should be copied first: bytes can change
//!   after they were checked.
//!
//! The copying is made of atomic accesses, so that a peer that writes meanwhile
//! is no data race: bytes that change come out old or new. On x86-64 they are
//! accesses to single bytes as far as the language is concerned, elsewhere to
//! words of eight bytes, which relies on the processor where the peer accesses
//! parts of them.
//!
//! What the kernel does for want of memory is the same as elsewhere: the pages are
//! allocated when the ring is made, but a peer may give them back
//! (FALLOC_FL_PUNCH_HOLE), and the next access then needs a new one. Where
//! vm.overcommit_memory is 2 and nothing is left of what may be committed, that
//! access is a SIGBUS.

mod consumer;
mod copying;
mod cursor;
mod ends;
mod error;
mod handover;
mod header;
mod in_place;
mod memory;
#[cfg(all(test, fastpipe_loom))]
mod model;
mod peer;
mod producer;
mod side;
mod sync;

pub use self::consumer::Consumer;
pub use self::error::RingError;
pub use self::in_place::{Slot, View};
pub use self::peer::{Peer, PeerState};
pub use self::producer::Producer;

use std::io;
use std::os::fd::AsFd;

use self::memory::Memory;

/// The largest capacity, in bytes.
pub const MAX_CAPACITY: usize = 1 << 30;

/// Makes a ring of `capacity` bytes, rounded up to a power of two of whole pages. Both ends are
/// this process's, for two of its threads, or until one is given away.
///
/// # Errors
/// `InvalidInput` for no capacity and for more than [`MAX_CAPACITY`]; those of memfd_create(2),
/// ftruncate(2), fallocate(2) and mmap(2). Beyond the process's limit on a file's size
/// (RLIMIT_FSIZE, `ulimit -f`) that is EFBIG, and the signal SIGXFSZ, which ends a process that
/// neither handles nor ignores it.
pub fn pair(capacity: usize) -> io::Result<(Producer, Consumer)> {
    let memory = Memory::create(capacity)?;
    let again = Memory::open(memory.as_fd().try_clone_to_owned()?)?;
    Ok((Producer::of(memory)?, Consumer::of(again)?))
}
