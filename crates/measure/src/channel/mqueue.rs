//! A POSIX message queue.
//!
//! A queue does not show that its other end is gone. If the reader is killed, the
//! parent process notices it; if the reader exits, the shared words show it (see
//! [`Transmitter::expect_reader_exit`]).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use fastpipe::transfer::Counts;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::OpenChannel;
use super::message::{Message, counted};
use super::{ChannelEnd, Receiver, Transmitter, set_nonblocking};
use crate::failure::{TrialError, open_error, over_limit};
use crate::record::{Granted, NotRun};
use crate::sys;
use pipespeed_base::limits::{Resource, soft_limit};
use pipespeed_base::size;
use pipespeed_host::Root;

/// The default number of messages in a queue (mq_overview(7)).
const DEFAULT_MESSAGES: usize = 10;

/// The timeout of a send if the reader may have exited, in nanoseconds.
const SEND_TIMEOUT_NS: i64 = 10_000_000;
/// The number of tries of such a send if it spins.
const MAX_TRIES: u32 = 1000;

/// Creates a queue for messages of one size and removes its name.
///
/// # Errors
/// [`TrialError`]: not run if a limit is exceeded.
pub fn open(message: usize) -> Result<OpenChannel, TrialError> {
    let mut name = new_name();
    let mut messages = limit("msg_max")
        .unwrap_or(DEFAULT_MESSAGES)
        .clamp(1, DEFAULT_MESSAGES);
    let create = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let write_end = loop {
        match sys::mq_open(&name, create, messages, message) {
            // The limit on the memory of a user's queues (mq_overview(7)).
            Err(Errno::MFILE) if messages > 1 => messages /= 2,
            // Left behind by a killed process that had the same ID.
            Err(Errno::EXIST) => name = new_name(),
            outcome => break outcome.map_err(|errno| limit_error(errno, message))?,
        }
    };
    let read_end = sys::mq_open(&name, libc::O_RDONLY, 0, 0);
    sys::mq_unlink(&name).map_err(open_error("a message queue"))?;
    Ok(OpenChannel {
        write_end,
        read_end: read_end.map_err(open_error("a message queue"))?,
        granted: Granted {
            queue_messages: Some(messages),
            ..Granted::default()
        },
    })
}

/// A name that this process has not used yet.
fn new_name() -> CString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("pipespeed-{}-{number}", std::process::id());
    // A number has no 0 byte in it.
    CString::new(name).unwrap_or_default()
}

/// A system-wide limit, from /proc/sys/fs/mqueue.
fn limit(name: &str) -> Option<usize> {
    Root::default().number(format!("proc/sys/fs/mqueue/{name}"))
}

/// Converts an error of mq_open(2), and names the limit that was exceeded.
fn limit_error(errno: Errno, message: usize) -> TrialError {
    let max = limit("msgsize_max");
    match (errno, max) {
        (Errno::INVAL, Some(max)) if message > max => {
            over_limit(max, "/proc/sys/fs/mqueue/msgsize_max")
        }
        (Errno::NOSPC, _) => TrialError::NotRun(NotRun::refused(format!(
            "a message queue: the system has reached its limit (/proc/sys/fs/mqueue/queues_max{})",
            limit("queues_max").map_or(String::new(), |n| format!(", now {n}"))
        ))),
        // EMFILE also means that this process has no descriptor left.
        (Errno::MFILE, _) if rustix::io::dup(std::io::stderr()).is_ok() => {
            TrialError::NotRun(NotRun::limit(format!(
                "a message queue for one message of {} exceeds the memory limit of a \
                 user's queues here (ulimit -q{})",
                size::format(message as u64),
                match soft_limit(Resource::RLIMIT_MSGQUEUE) {
                    Some(bytes) => format!(", now {bytes} bytes"),
                    None => String::new(),
                }
            )))
        }
        _ => open_error("a message queue")(errno),
    }
}

/// An end of a message queue.
#[derive(Debug)]
pub struct MessageQueue {
    fd: OwnedFd,
    blocks: bool,
    /// Whether the reader may have exited, so that sends must time out.
    reader_may_be_gone: bool,
    /// The tries left of such a send if it spins.
    tries_left: u32,
    counts: Counts,
}

impl MessageQueue {
    /// Creates an end whose calls block, or else fail with `AGAIN`.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn new(fd: OwnedFd, blocks: bool) -> io::Result<Self> {
        let mut queue = MessageQueue {
            fd,
            blocks,
            reader_may_be_gone: false,
            tries_left: MAX_TRIES,
            counts: Counts::default(),
        };
        if !blocks {
            queue.never_sleep()?;
        }
        Ok(queue)
    }
}

impl ChannelEnd for MessageQueue {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.blocks = false;
        set_nonblocking(self.fd.as_fd())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Transmitter for MessageQueue {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        let bytes = message.bytes();
        let deadline = (self.reader_may_be_gone && self.blocks).then(send_deadline);
        let sent = sys::mq_send(self.fd.as_fd(), bytes, deadline);
        match counted(&mut self.counts, sent) {
            Err(Errno::AGAIN) if self.reader_may_be_gone => {
                self.tries_left -= 1;
                if self.tries_left > 0 {
                    return Err(Errno::AGAIN);
                }
                self.tries_left = MAX_TRIES;
                Err(Errno::TIMEDOUT)
            }
            outcome => outcome.map(|()| bytes.len()),
        }
    }

    fn call(&self) -> &'static str {
        "mq_send"
    }

    fn expect_reader_exit(&mut self) {
        self.reader_may_be_gone = true;
    }
}

impl Receiver for MessageQueue {
    /// The buffer must be at least as long as the queue's maximum message.
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        counted(&mut self.counts, sys::mq_receive(self.fd.as_fd(), into))
    }

    fn call(&self) -> &'static str {
        "mq_receive"
    }
}

/// The deadline of a send if the reader may have exited.
fn send_deadline() -> libc::timespec {
    const SECOND: i64 = 1_000_000_000;
    let now = clock_gettime(ClockId::Realtime);
    let ns = now.tv_nsec as i64 + SEND_TIMEOUT_NS;
    libc::timespec {
        tv_sec: now.tv_sec + ns / SECOND,
        tv_nsec: (ns % SECOND) as _,
    }
}
