//! A POSIX message queue.
//!
//! Nothing tells one end that the other is gone: a reader that is killed is
//! noticed by who started the writer, and of one that leaves the shared words
//! tell (see [`Sink::expect_leaving`]).

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Counts, Incomplete};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::attempt::{Attempts, unread, unsent};
use super::open::{Channel, Granted, OpenError, cant, over_limit};
use super::socket::filled;
use super::{Sink, Source, Taken, sys};
use crate::endpoint::data::Producer;
use crate::endpoint::spec::{SinkSpec, SourceSpec};
use crate::record::NotRun;
use pipespeed_base::size;

/// How many messages a queue holds unless told otherwise (mq_overview(7)).
const USUAL_MESSAGES: usize = 10;

/// How long a send waits where the reader may have left, in nanoseconds, and
/// how often it tries where it spins.
const PATIENCE_NS: i64 = 10_000_000;
const TRIES: u32 = 1000;

/// Makes a queue of messages of one size, and takes its name away.
///
/// # Errors
/// [`OpenError`]: refused where a limit is in the way.
pub fn open(message: usize, spins: bool) -> Result<Channel, OpenError> {
    let mut name = new_name();
    let flags = if spins { libc::O_NONBLOCK } else { 0 };
    let mut messages = limit("msg_max")
        .unwrap_or(USUAL_MESSAGES)
        .clamp(1, USUAL_MESSAGES);
    let made = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | flags;
    let write_end = loop {
        match sys::mq_open(&name, made, messages, message) {
            // The limit on the memory of a user's queues (mq_overview(7)).
            Err(Errno::MFILE) if messages > 1 => messages /= 2,
            // Left by a process that had this number and was killed.
            Err(Errno::EXIST) => name = new_name(),
            outcome => break outcome.map_err(|errno| open_error(errno, message))?,
        }
    };
    let read_end = sys::mq_open(&name, libc::O_RDONLY | flags, 0, 0);
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
fn open_error(errno: Errno, message: usize) -> OpenError {
    let most = limit("msgsize_max");
    match (errno, most) {
        (Errno::INVAL, Some(most)) if message > most => {
            over_limit(most, "/proc/sys/fs/mqueue/msgsize_max")
        }
        (Errno::NOSPC, _) => OpenError::NotRun(NotRun::refused(format!(
            "a message queue: there are {} already, the limit: /proc/sys/fs/mqueue/queues_max",
            limit("queues_max").map_or("as many as may be".to_owned(), |n| n.to_string())
        ))),
        // The same number stands for descriptors.
        (Errno::MFILE, _) if rustix::io::dup(std::io::stderr()).is_ok() => {
            OpenError::NotRun(NotRun::limit(format!(
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

/// The writing end.
#[derive(Debug)]
pub struct QueueSink {
    queue: OwnedFd,
    attempts: Attempts,
    buffer: Buffer,
    may_be_alone: bool,
}

impl QueueSink {
    /// A sink with its buffer mapped and filled.
    ///
    /// # Errors
    /// When the buffer can't be had.
    pub fn new(queue: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        Ok(QueueSink {
            queue,
            attempts: Attempts::new(spec.wait),
            buffer: filled(spec.buffer_bytes)?,
            may_be_alone: false,
        })
    }

    /// One send that does not wait for ever.
    fn send_or_give_up(&mut self) -> rustix::io::Result<()> {
        let queue = self.queue.as_fd();
        let mut tries = TRIES;
        let spins = self.attempts.spins();
        self.attempts.call(|| {
            tries -= 1;
            match sys::mq_send(queue, &self.buffer, (!spins).then(soon)) {
                Err(Errno::AGAIN) if tries == 0 => Err(Errno::TIMEDOUT),
                outcome => outcome,
            }
        })
    }
}

impl Sink for QueueSink {
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete> {
        if !producer.is_idle() {
            producer.produce(&mut self.buffer);
        }
        let outcome = if self.may_be_alone {
            self.send_or_give_up()
        } else {
            let (queue, buffer) = (self.queue.as_fd(), &self.buffer[..]);
            self.attempts.call(|| sys::mq_send(queue, buffer, None))
        };
        outcome.map_err(|errno| unsent(0, errno))?;
        self.attempts.moved(self.buffer.len());
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "mq_send"
    }

    fn expect_leaving(&mut self) {
        self.may_be_alone = true;
    }
}

/// Sends a message.
///
/// # Errors
/// Those of mq_timedsend(2).
pub fn send(queue: BorrowedFd<'_>, message: &[u8]) -> rustix::io::Result<()> {
    sys::mq_send(queue, message, None)
}

/// Receives a message into a buffer that is as long as the queue's longest.
/// Returns its length.
///
/// # Errors
/// Those of mq_timedreceive(2).
pub fn receive(queue: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    sys::mq_receive(queue, buffer)
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

/// The reading end.
#[derive(Debug)]
pub struct QueueSource {
    queue: OwnedFd,
    attempts: Attempts,
    buffer: Buffer,
}

impl QueueSource {
    /// A source with its buffer mapped.
    ///
    /// # Errors
    /// When the buffer can't be had.
    pub fn new(queue: OwnedFd, spec: &SourceSpec) -> anyhow::Result<Self> {
        Ok(QueueSource {
            queue,
            attempts: Attempts::new(spec.wait),
            buffer: Buffer::builder().len(spec.buffer_bytes).map()?,
        })
    }
}

impl Source for QueueSource {
    fn take(&mut self) -> Result<Taken<'_>, Incomplete> {
        let (queue, buffer) = (self.queue.as_fd(), &mut self.buffer[..]);
        let n = self
            .attempts
            .call(|| sys::mq_receive(queue, buffer))
            .map_err(unread)?;
        self.attempts.moved(n);
        Ok(Taken::Data(&self.buffer[..n]))
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "mq_receive"
    }
}
