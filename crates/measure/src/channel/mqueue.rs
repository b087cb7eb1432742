//! A POSIX message queue.
//!
//! Nothing tells one end that the other is gone: a reader that is killed is
//! noticed by who started the writer, and of one that leaves the shared words
//! tell (see [`Transmitter::expect_leaving`]).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use fastpipe::transfer::Counts;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::message::{Message, counted};
use super::open::{Channel, Granted, cant, over_limit};
use super::{End, Receiver, Transmitter, set_nonblocking, sys};
use crate::record::NotRun;
use crate::session::TrialError;
use pipespeed_base::size;

/// The default number of messages in a queue (mq_overview(7)).
const USUAL_MESSAGES: usize = 10;

/// How long a send waits where the reader may have left, in nanoseconds, and
/// how often it tries where it spins.
const PATIENCE_NS: i64 = 10_000_000;
const MAX_TRIES: u32 = 1000;

/// Makes a queue of messages of one size, and takes its name away.
///
/// # Errors
/// [`TrialError`]: refused where a limit is in the way.
pub fn open(message: usize) -> Result<Channel, TrialError> {
    let mut name = new_name();
    let mut messages = limit("msg_max")
        .unwrap_or(USUAL_MESSAGES)
        .clamp(1, USUAL_MESSAGES);
    let made = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    let write_end = loop {
        match sys::mq_open(&name, made, messages, message) {
            // The limit on the memory of a user's queues (mq_overview(7)).
            Err(Errno::MFILE) if messages > 1 => messages /= 2,
            // Left by a process that had this number and was killed.
            Err(Errno::EXIST) => name = new_name(),
            outcome => break outcome.map_err(|errno| open_error(errno, message))?,
        }
    };
    let read_end = sys::mq_open(&name, libc::O_RDONLY, 0, 0);
    sys::mq_unlink(&name).map_err(cant("a message queue"))?;
    Ok(Channel {
        write_end: Some(write_end),
        read_end: Some(read_end.map_err(cant("a message queue"))?),
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

/// A limit of this system's, from /proc/sys/fs/mqueue.
fn limit(name: &str) -> Option<usize> {
    let text = fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}")).ok()?;
    text.trim().parse().ok()
}

/// Which limit is in the way.
fn open_error(errno: Errno, message: usize) -> TrialError {
    let most = limit("msgsize_max");
    match (errno, most) {
        (Errno::INVAL, Some(most)) if message > most => {
            over_limit(most, "/proc/sys/fs/mqueue/msgsize_max")
        }
        (Errno::NOSPC, _) => TrialError::NotRun(NotRun::refused(format!(
            "a message queue: there are {} already, the limit: /proc/sys/fs/mqueue/queues_max",
            limit("queues_max").map_or("as many as may be".to_owned(), |n| n.to_string())
        ))),
        // The same number stands for descriptors.
        (Errno::MFILE, _) if rustix::io::dup(std::io::stderr()).is_ok() => {
            TrialError::NotRun(NotRun::limit(format!(
                "a message queue for one message of {} takes more memory than a user's \
                 queues may here (ulimit -q{})",
                size::format(message as u64),
                match getrlimit(Resource::Msgqueue).current {
                    Some(bytes) => format!(", now {bytes} bytes"),
                    None => String::new(),
                }
            )))
        }
        _ => cant("a message queue")(errno),
    }
}

/// An end of a message queue, a call at a time.
#[derive(Debug)]
pub struct Queue {
    fd: OwnedFd,
    sleeps: bool,
    /// Whether a send must not wait forever, and how often it is still tried.
    may_be_alone: bool,
    tries: u32,
    counts: Counts,
}

impl Queue {
    /// An end whose calls sleep, or not.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn new(fd: OwnedFd, sleeps: bool) -> io::Result<Self> {
        let mut queue = Queue {
            fd,
            sleeps,
            may_be_alone: false,
            tries: MAX_TRIES,
            counts: Counts::default(),
        };
        if !sleeps {
            queue.never_sleep()?;
        }
        Ok(queue)
    }
}

impl End for Queue {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.sleeps = false;
        set_nonblocking(self.fd.as_fd())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Transmitter for Queue {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        let bytes = message.bytes();
        let deadline = (self.may_be_alone && self.sleeps).then(soon);
        let sent = sys::mq_send(self.fd.as_fd(), bytes, deadline);
        match counted(&mut self.counts, sent) {
            Err(Errno::AGAIN) if self.may_be_alone => {
                self.tries -= 1;
                if self.tries > 0 {
                    return Err(Errno::AGAIN);
                }
                self.tries = MAX_TRIES;
                Err(Errno::TIMEDOUT)
            }
            outcome => outcome.map(|()| bytes.len()),
        }
    }

    fn call(&self) -> &'static str {
        "mq_send"
    }

    fn expect_leaving(&mut self) {
        self.may_be_alone = true;
    }
}

impl Receiver for Queue {
    /// The room must be that of the queue's longest message.
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        counted(&mut self.counts, sys::mq_receive(self.fd.as_fd(), into))
    }

    fn call(&self) -> &'static str {
        "mq_receive"
    }
}

/// The moment at which a send that may be in vain gives up.
fn soon() -> libc::timespec {
    const SECOND: i64 = 1_000_000_000;
    let now = clock_gettime(ClockId::Realtime);
    let ns = now.tv_nsec as i64 + PATIENCE_NS;
    libc::timespec {
        tv_sec: now.tv_sec + ns / SECOND,
        tv_nsec: (ns % SECOND) as _,
    }
}
