//! A ring buffer in memory shared by two processes: a [`Producer`] puts bytes in,
//! a [`Consumer`] takes them out. If both work in place nothing is copied, and
//! while neither has to sleep there are no system calls.
//!
//! write(2) and read(2) copy each byte twice. The cost of a ring is that of one
//! processor reading what another one has written.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use fastpipe::ring::{Consumer, Producer};
//!
//! let (here, there) = UnixStream::pair()?;
//! // Usually in another process.
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
//! A child can inherit an end as a standard descriptor
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
//! The child takes it by `Producer::from_fd(io::stdout().as_fd().try_clone_to_owned()?)`, and watches
//! [`Peer::parent`]. Nothing else may be written to that descriptor, `println!` included: it is a file, so
//! text would overwrite the ring's header ([`Corrupt`](RingError::Corrupt)). With standard input nothing
//! can happen by accident.
//!
//! | | [`pair`] and `into_fd` | [`offer`](Producer::offer) and [`accept`](Consumer::accept) |
//! |---|---|---|
//! | needs | a child | a Unix socket, also as a child's standard input: `Stdio::from(OwnedFd::from(there))`, where the `Command` must be dropped before the parent can notice its end |
//! | death of the peer | noticed after [`watch`](Producer::watch) | noticed |
//! | [event loops](Producer::ready_fd), tokio | no | yes |
//!
//! The crate's examples `frames` and `messages` are complete programs of each kind.
//!
//! # Waiting
//! See [`Wait`](crate::wait::Wait). Under `Block` an end spins for about as long as a wake-up takes, if
//! that was successful before, and then sleeps by futex(2); the peer makes a system call only to wake
//! it, when the bytes or the room it waits for are there. `Spin` makes no
//! system calls to wait, but for a look at its [`Peer`] four times a second, and is fastest if each
//! end has a processor of its own. `Adaptive` spins as long as that is successful and then sleeps. `Block` and `Adaptive` do
//! not spin if both ends are bound to the same processor (sched_setaffinity(2), at
//! the time of `set_wait`, or before it when the end was attached).
//!
//! While an end waits, the death of the peer is noticed within a second, by a pidfd or by the hang-up
//! of the socket over which the ring was passed; see [`Peer`]. A producer that always finds room has
//! to ask for [`peer_state`](Producer::peer_state), and [`wait_drained`](Producer::wait_drained) shows
//! that everything was taken. An end keeps
//! waiting for a peer that is merely stopped:
//! [`peer_state`](Producer::peer_state) shows that, and
//! [`set_timeout`](Producer::set_timeout) limits the wait.
//!
//! A forked child inherits its parent's ends but must not use them. Dropping them
//! in the child does not close them.
//!
//! # Trust
//! The peer can write anything into the ring, header and data, at any time. It can
//! thereby send wrong bytes, make this process wait, wake up for nothing or make
//! two system calls with each commit, but nothing else. (Where this process can't open files of /proc, it
//! can also raise SIGPIPE. Over the socket of an offer it can also send descriptors of any kind. Those that
//! are not wanted are closed in another thread, if there can be one, however long that takes.)
//!
//! * A ring that is offered is accepted up to a [limit](MAX_ACCEPTED).
//! * The memory can't shrink (F_SEAL_SHRINK; fcntl(2)). An end that is received is
//!   refused unless its file is sealed, of ordinary pages, and of the size that
//!   its header states.
//! * The peer's position is loaded once and checked: it can't have moved back, or
//!   further than there was room or data. Otherwise the ring is corrupt, for
//!   good. The own position and the capacity are kept in private memory and never
//!   read back.
//! * Safe code gets no references to bytes that the peer may change. They are
//!   copied ([`Read`](std::io::Read), [`Write`](std::io::Write),
//!   [`View::read_at`]) or accessed as atomics ([`View::atomics`]).
//!   [`View::bytes`] and [`Slot::bytes_mut`] are `unsafe`, for trusted peers. Copy
//!   data before parsing it, since it can change after it was validated.
//!
//! Copies consist of atomic accesses, so a peer that writes at the same time
//! causes no data race: each byte is either old or new. In terms of the language
//! these are accesses to single bytes on x86-64, and elsewhere to words of eight
//! bytes, which relies on the processor if the peer accesses parts of them.
//!
//! Lack of memory is reported when the ring is created, since its pages are
//! allocated then. But a peer may release pages (FALLOC_FL_PUNCH_HOLE), and the
//! next access then needs a new one. With vm.overcommit_memory = 2 and no memory
//! left to commit, that access raises SIGBUS.

mod bell;
mod consumer;
mod copying;
mod cursor;
mod ends;
mod error;
mod handover;
mod header;
mod in_place;
mod memory;
mod messages;
#[cfg(test)]
mod model;
mod peer;
mod producer;
mod side;
mod sync;
mod word;

pub use self::consumer::Consumer;
pub use self::error::RingError;
pub use self::in_place::{Slot, View};
pub use self::peer::{Peer, PeerState};
pub use self::producer::Producer;

use std::io;
use std::os::fd::AsFd;

use self::memory::Memory;

/// Maximum capacity, in bytes.
pub const MAX_CAPACITY: usize = 1 << 30;

/// Maximum capacity that [`Producer::accept`] and [`Consumer::accept`] take, in
/// bytes. [`accept_up_to`](Consumer::accept_up_to) sets another one.
pub const MAX_ACCEPTED: usize = 64 << 20;

/// Creates a ring of `capacity` bytes, rounded up to whole pages. Both ends belong to this process: use them in two threads, or pass one
/// on.
///
/// # Errors
/// `InvalidInput` if the capacity is 0 or above [`MAX_CAPACITY`]; those of
/// memfd_create(2), ftruncate(2), fallocate(2) and mmap(2). Above the limit on file
/// sizes (RLIMIT_FSIZE, `ulimit -f`) it is EFBIG, preceded by the signal SIGXFSZ,
/// which ends a process that neither handles nor ignores it.
pub fn pair(capacity: usize) -> io::Result<(Producer, Consumer)> {
    let memory = Memory::create(capacity)?;
    let again = Memory::open(memory.as_fd().try_clone_to_owned()?)?;
    Ok((
        Producer::from_memory(memory)?,
        Consumer::from_memory(again)?,
    ))
}
