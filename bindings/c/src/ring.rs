//! Rings.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::os::unix::net::UnixStream;

use fastpipe_core::ring::{self, Peer, PeerState};
use fastpipe_handles::{Consumer, Lent, Producer};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::{guard_int, invalid};
use crate::options::{self, descriptor};

/// One end of a ring buffer in memory that two processes share. One thread may use an end at a time. A
/// forked child must not use its parent's ends, except to free them: it takes one over by
/// fastpipe_ring_accept or _from_fd. The other process can write anything into the ring at any time:
/// copy bytes of strangers before you check them.
pub struct fastpipe_ring(End);

enum End {
    Producer(Producer),
    Consumer {
        end: Consumer,
        /// What fastpipe_ring_receive has returned.
        message: Vec<u8>,
    },
}

/// The two ends of a ring.
#[repr(C)]
pub enum fastpipe_role {
    /// Puts bytes in.
    FASTPIPE_PRODUCER = 1,
    /// Takes bytes out.
    FASTPIPE_CONSUMER = 2,
}

/// State of the process at the other end of a ring.
#[repr(C)]
pub enum fastpipe_peer {
    /// None of the others, as far as is known.
    FASTPIPE_PEER_RUNNING = 0,
    /// Stopped by a signal or a debugger. It may continue.
    FASTPIPE_PEER_STOPPED = 1,
    /// It has freed its end.
    FASTPIPE_PEER_CLOSED = 2,
    /// It has died without doing so.
    FASTPIPE_PEER_DIED = 3,
}

impl From<ring::Producer> for fastpipe_ring {
    fn from(end: ring::Producer) -> Self {
        fastpipe_ring(End::Producer(end.into()))
    }
}

impl From<ring::Consumer> for fastpipe_ring {
    fn from(end: ring::Consumer) -> Self {
        fastpipe_ring(End::Consumer {
            end: end.into(),
            message: Vec::new(),
        })
    }
}

/// Calls the same method of either end.
macro_rules! either {
    ($ring:expr, $end:ident => $call:expr) => {
        match &mut $ring.0 {
            End::Producer(producer) => {
                let $end = producer.end();
                $call
            }
            End::Consumer { end, .. } => {
                let $end = end.end();
                $call
            }
        }
    };
}

impl fastpipe_ring {
    fn producer(&mut self) -> io::Result<&mut Producer> {
        match &mut self.0 {
            End::Producer(end) => Ok(end),
            End::Consumer { .. } => Err(invalid("this is the consumer's end of the ring")),
        }
    }

    fn consumer(&mut self) -> io::Result<(&mut Consumer, &mut Vec<u8>)> {
        match &mut self.0 {
            End::Consumer { end, message } => Ok((end, message)),
            End::Producer(_) => Err(invalid("this is the producer's end of the ring")),
        }
    }

    fn leak(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }
}

#[derive(Clone, Copy)]
enum Role {
    Producer,
    Consumer,
}

fn role(number: u32) -> io::Result<Role> {
    match number {
        1 => Ok(Role::Producer),
        2 => Ok(Role::Consumer),
        _ => Err(invalid(format!("{number} is no fastpipe_role"))),
    }
}

/// A duplicate of the caller's socket.
fn socket(fd: c_int) -> io::Result<UnixStream> {
    Ok(descriptor(fd)?.as_fd().try_clone_to_owned()?.into())
}

fn lent(lent: Lent, to: (&mut *mut c_void, &mut usize)) {
    *to.0 = lent.start.as_ptr().cast();
    *to.1 = lent.len;
}

/// Creates a ring of capacity bytes, rounded up to whole pages, with both of its ends in this
/// process: for two threads, or to pass one on by fastpipe_ring_into_fd. Sets *producer and *consumer; on failure to
/// NULL.
///
/// Returns 0; -EINVAL if the capacity is 0 or more than 1 GiB; errors of memfd_create(2), fallocate(2)
/// and mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_pair(
    producer: *mut *mut fastpipe_ring,
    consumer: *mut *mut fastpipe_ring,
    capacity: usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let producer = unsafe { crate::result(producer) }?;
        // SAFETY: NULL, or the caller's variable.
        let consumer = unsafe { crate::result(consumer) }?;
        let (first, second) = ring::pair(capacity)?;
        *producer = fastpipe_ring::from(first).leak();
        *consumer = fastpipe_ring::from(second).leak();
        Ok(0)
    })
}

/// Creates a ring, keeps the end that role names (one of fastpipe_role), and passes the other one to the
/// process at the other end of a Unix stream socket, which calls fastpipe_ring_accept. Waits until it has, or for the
/// socket's receive timeout. The socket remains the caller's; each end keeps a duplicate, by which it
/// notices the other's death. Sets *ring; on failure to NULL.
///
/// Returns 0; -EINVAL; -ECONNREFUSED if the other process did not take it; -ECONNABORTED if it closed
/// the socket; -ETIMEDOUT; errors as of fastpipe_ring_pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_offer(
    ring: *mut *mut fastpipe_ring,
    socket_fd: c_int,
    role_kept: u32,
    capacity: usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let ring = unsafe { crate::result(ring) }?;
        let socket = socket(socket_fd)?;
        *ring = match role(role_kept)? {
            Role::Producer => fastpipe_ring::from(ring::Producer::offer(&socket, capacity)?),
            Role::Consumer => fastpipe_ring::from(ring::Consumer::offer(&socket, capacity)?),
        }
        .leak();
        Ok(0)
    })
}

/// Takes the end that role names, of the ring that the process at the other end of a Unix stream socket
/// offers. Waits for the offer, or for the socket's receive timeout. Refuses a ring of more than limit
/// bytes; 0 means 64 MiB. Sets *ring; on failure to NULL.
///
/// Returns 0; -EINVAL; -EPROTO unless what is offered is that end of a ring that is safe to use, of
/// at most limit bytes; -EBUSY if that end is in use; -ECONNABORTED if the other process closed the socket;
/// -ETIMEDOUT; -EMFILE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_accept(
    ring: *mut *mut fastpipe_ring,
    socket_fd: c_int,
    role_taken: u32,
    limit: usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let ring = unsafe { crate::result(ring) }?;
        let socket = socket(socket_fd)?;
        let limit = if limit == 0 {
            ring::MAX_ACCEPTED
        } else {
            limit
        };
        *ring = match role(role_taken)? {
            Role::Producer => fastpipe_ring::from(ring::Producer::accept_up_to(&socket, limit)?),
            Role::Consumer => fastpipe_ring::from(ring::Consumer::accept_up_to(&socket, limit)?),
        }
        .leak();
        Ok(0)
    })
}

/// Takes the end that role names, of the ring in the file fd, which was inherited or received: as standard
/// input, for instance. The descriptor remains the caller's, who may close it. Sets *ring; on failure to NULL.
///
/// Returns 0; -EINVAL; -EBADF; -EPROTO unless it is that end of a ring that is safe to use; -EBUSY if
/// that end is in use; errors of mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_from_fd(
    ring: *mut *mut fastpipe_ring,
    fd: c_int,
    role_taken: u32,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let ring = unsafe { crate::result(ring) }?;
        let file = descriptor(fd)?.as_fd().try_clone_to_owned()?;
        *ring = match role(role_taken)? {
            Role::Producer => fastpipe_ring::from(ring::Producer::from_fd(file)?),
            Role::Consumer => fastpipe_ring::from(ring::Consumer::from_fd(file)?),
        }
        .leak();
        Ok(0)
    })
}

/// Passes an end on, with all bytes in the ring, and frees the handle, also on failure. Whoever takes it
/// calls fastpipe_ring_from_fd.
///
/// Returns a descriptor, close-on-exec, which is the caller's; -EINVAL; -EMFILE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_into_fd(ring: *mut fastpipe_ring) -> c_int {
    guard_int(|| {
        if ring.is_null() {
            return Err(invalid("NULL for a handle"));
        }
        // SAFETY: not NULL, so from a function that creates one, and not freed.
        let ring = unsafe { Box::from_raw(ring) };
        let file = match ring.0 {
            End::Producer(end) => end.into_end().into_fd()?,
            End::Consumer { end, .. } => end.into_end().into_fd()?,
        };
        Ok(file.into_raw_fd())
    })
}

/// Watches the process at the other end, so that its death ends a wait: a child that has not been waited
/// for, or with pid 0 the parent. Not needed after an offer.
///
/// Returns 0; -ESRCH if there is no such process; -EINVAL; -EOPNOTSUPP before Linux 5.3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_watch(ring: *mut fastpipe_ring, pid: c_int) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        let peer = match pid {
            0 => Peer::parent()?,
            1.. => {
                let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
                Peer::process(match pidfd_open(pid, PidfdFlags::empty()) {
                    Err(Errno::NOSYS) => return Err(Errno::OPNOTSUPP.into()),
                    opened => opened?,
                })?
            }
            _ => return Err(invalid(format!("{pid} is no process id"))),
        };
        either!(ring, end => end.watch(peer));
        Ok(0)
    })
}

/// Sets how to wait (one of fastpipe_wait; default FASTPIPE_WAIT_BLOCK), and for how long at most, in
/// nanoseconds; 0 means without limit. Call it in the thread that waits.
///
/// Returns 0, or -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_set_wait(
    ring: *mut fastpipe_ring,
    wait: u32,
    timeout_ns: u64,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        let wait = options::wait(wait)?;
        let timeout = options::duration(timeout_ns);
        either!(ring, end => {
            end.set_wait(wait);
            end.set_timeout(timeout);
        });
        Ok(0)
    })
}

/// Returns the capacity of the ring in bytes, or 0 for NULL. At most half of it can be lent or shown at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_capacity(ring: *mut fastpipe_ring) -> usize {
    // SAFETY: NULL, or an end that no other thread uses.
    unsafe { crate::handle(ring) }.map_or(0, |ring| either!(ring, end => end.capacity()))
}

/// Returns the state of the process at the other end, one of fastpipe_peer; -EPROTO if the ring is
/// corrupt; -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_peer(ring: *mut fastpipe_ring) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        Ok(match either!(ring, end => end.peer_state())? {
            PeerState::Stopped => 1,
            PeerState::Closed => 2,
            PeerState::Died => 3,
            _ => 0,
        })
    })
}

/// Returns a descriptor that becomes readable when there is room or data again, or the other process is
/// gone: for poll(2) and epoll(7), once for each call that failed with -EAGAIN under FASTPIPE_WAIT_NEVER. It belongs to
/// the ring: don't read or close it. -EOPNOTSUPP if this end was neither offered nor accepted; -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_ready_fd(ring: *mut fastpipe_ring) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        either!(ring, end => end.ready_fd().map(|fd: BorrowedFd<'_>| fd.as_raw_fd()))
    })
}

/// Lends room for at least at_least bytes, of which 0 means one, and waits for it. Sets *memory and *length,
/// which is all room known to be free. It is the caller's until the next call with this end.
///
/// Returns 0; -EINVAL for more than half of the capacity; -EPIPE if the consumer has freed its end;
/// -ECONNRESET if it died; -EPROTO if the ring is corrupt; -ETIMEDOUT; -EAGAIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_lend(
    ring: *mut fastpipe_ring,
    at_least: usize,
    memory: *mut *mut c_void,
    length: *mut usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable.
        let memory = unsafe { crate::result(memory) }?;
        // SAFETY: NULL, or the caller's variable.
        let length = unsafe { crate::length(length) }?;
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        lent(ring.producer()?.lend(at_least)?, (memory, length));
        Ok(0)
    })
}

/// Makes the first n bytes of the room lent available to the consumer, who sees them at once.
///
/// Returns 0, or -EINVAL if nothing is lent, or less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_commit(ring: *mut fastpipe_ring, n: usize) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        unsafe { crate::handle(ring) }?.producer()?.commit(n)?;
        Ok(0)
    })
}

/// Sends a message, which fastpipe_ring_receive returns as a whole. Waits for room. Don't mix messages with
/// bytes that are committed.
///
/// Returns 0; -EINVAL for a message of more than half of the capacity less 8 bytes; errors as of
/// fastpipe_ring_lend.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_send(
    ring: *mut fastpipe_ring,
    message: *const c_void,
    length: usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL with length 0, or as many readable bytes.
        let message = unsafe { crate::bytes(message, length) }?;
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        ring.producer()?.end().send(message)?;
        Ok(0)
    })
}

/// Waits until the consumer has released all bytes. Freeing the producer's end does not wait.
///
/// Returns 0, or errors as of fastpipe_ring_lend.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_wait_drained(ring: *mut fastpipe_ring) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        ring.producer()?.end().wait_drained()?;
        Ok(0)
    })
}

/// Shows the next bytes in the ring, at least at_least, of which 0 means one, and waits for them. Sets *data
/// and *length. There are fewer only at the end of the data, and none after it. Valid until the next call with
/// this end.
///
/// Returns 0; -EINVAL for more than half of the capacity; -ECONNRESET if the producer died, after all
/// bytes that it had committed; -EPROTO if the ring is corrupt; -ETIMEDOUT; -EAGAIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_peek(
    ring: *mut fastpipe_ring,
    at_least: usize,
    data: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable; a pointer to constant bytes is as large.
        let data = unsafe { crate::result(data.cast::<*mut c_void>()) }?;
        // SAFETY: NULL, or the caller's variable.
        let length = unsafe { crate::length(length) }?;
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        lent(ring.consumer()?.0.peek(at_least)?, (data, length));
        Ok(0)
    })
}

/// Takes the first n of the bytes shown out of the ring, which frees their room.
///
/// Returns 0, or -EINVAL if nothing is shown, or less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_release(ring: *mut fastpipe_ring, n: usize) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or an end that no other thread uses.
        unsafe { crate::handle(ring) }?.consumer()?.0.release(n)?;
        Ok(0)
    })
}

/// Receives the next message of fastpipe_ring_send, and waits for it. Sets *message to a copy of it, which is
/// valid until the next call with this end, and *length.
///
/// Returns 1; 0 at the end of the data; -EPROTO if the producer has sent anything but messages; errors
/// as of fastpipe_ring_peek.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_receive(
    ring: *mut fastpipe_ring,
    message: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    guard_int(|| {
        // SAFETY: NULL, or the caller's variable; a pointer to constant bytes is as large.
        let message = unsafe { crate::result(message.cast::<*mut c_void>()) }?;
        // SAFETY: NULL, or the caller's variable.
        let length = unsafe { crate::length(length) }?;
        // SAFETY: NULL, or an end that no other thread uses.
        let ring = unsafe { crate::handle(ring) }?;
        let (end, buffer) = ring.consumer()?;
        let Some(n) = end.end().recv(buffer)? else {
            return Ok(0);
        };
        *message = buffer.as_ptr().cast_mut().cast();
        *length = n;
        Ok(1)
    })
}

/// Frees an end. The producer's thereby marks the end of the data: the consumer still gets all bytes that
/// were committed. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastpipe_ring_free(ring: *mut fastpipe_ring) {
    // SAFETY: NULL, or from a function that creates one, and not freed yet.
    unsafe { crate::free(ring) };
}
