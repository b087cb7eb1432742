//! The specification of an end of a channel, which its process receives as JSON.

mod access;
mod memory;

use serde::{Deserialize, Serialize};

pub use self::access::Access;
use self::access::words;
pub use self::memory::{PageKind, Reuse};
use crate::case::Subject;
use crate::record::DataUse;
use pipespeed_base::named;

/// What connects the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelKind {
    /// pipe(2).
    #[default]
    Pipe,
    /// A pipe with a name: mkfifo(3).
    Fifo,
    /// socketpair(2), a stream.
    SocketPair,
    /// socketpair(2), messages in order.
    SeqPacket,
    /// socketpair(2), datagrams.
    Datagram,
    /// A unix socket bound to a name, a stream.
    Unix,
    /// A connection over the loopback device.
    Tcp,
    /// A POSIX message queue: mq_overview(7).
    MessageQueue,
    /// `fastpipe::ring`: memory that both ends have mapped.
    Ring,
    /// eventfd(2): a counter, no data.
    Eventfd,
}

words!(ChannelKind {
    Pipe = "pipe",
    Fifo = "fifo",
    SocketPair = "socketpair",
    SeqPacket = "seqpacket",
    Datagram = "datagram",
    Unix = "unix",
    Tcp = "tcp",
    MessageQueue = "message queue",
    Ring = "ring",
    Eventfd = "eventfd",
});

impl ChannelKind {
    /// Whether message boundaries are kept; else messages merge into a stream.
    pub fn keeps_messages(self) -> bool {
        matches!(
            self,
            ChannelKind::SeqPacket | ChannelKind::Datagram | ChannelKind::MessageQueue
        )
    }
}

/// How the writer hands data to the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkTechnique {
    /// write(2).
    Write,
    /// vmsplice(2).
    Vmsplice,
    /// fastpipe's `Writer`, with the data produced in the memory that it lends.
    Fastpipe(Policy),
    /// fastpipe's `Writer` as an `io::Write`, which copies the data.
    FastpipeIo,
    /// The standard library's `BufWriter` on standard output.
    BufWriter,
    /// send(2).
    Send,
    /// mq_send(3).
    QueueSend,
    /// write by io_uring.
    UringWrite,
    /// The message is produced in a ring in shared memory.
    RingLend,
    /// The message is copied into a ring.
    RingWrite,
}

words!(SinkTechnique {
    Write = "write",
    Vmsplice = "vmsplice",
    Fastpipe(Policy::Auto) = "fastpipe, auto",
    Fastpipe(Policy::Fresh) = "fastpipe, fresh",
    Fastpipe(Policy::Drained) = "fastpipe, drained",
    Fastpipe(Policy::CowChecked) = "fastpipe, cow_checked",
    FastpipeIo = "fastpipe as io::Write, auto",
    BufWriter = "BufWriter",
    Send = "send",
    QueueSend = "mq_send",
    UringWrite = "io_uring write",
    RingLend = "lend, commit",
    RingWrite = "write to a ring",
});

/// How a `Writer` sends pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// By the fastest safe method, found while sending.
    Auto,
    /// Pages are never written again.
    Fresh,
    /// Pages are written again once they have left the pipe.
    Drained,
    /// Pages are written again once the kernel has checked that nothing else refers to
    /// them.
    CowChecked,
}

words!(Policy {
    Auto = "auto",
    Fresh = "fresh",
    Drained = "drained",
    CowChecked = "cow_checked",
});

/// How the reader takes data from the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceTechnique {
    /// read(2).
    Read,
    /// splice(2) to /dev/null.
    Splice,
    /// splice(2) into a second pipe, and read(2) from that.
    SpliceThrough,
    /// recv(2).
    Recv,
    /// mq_receive(3).
    QueueReceive,
    /// read by io_uring.
    UringRead,
    /// The data is used in a ring in shared memory.
    RingPeek,
    /// The data is copied out of a ring.
    RingRead,
}

words!(SourceTechnique {
    Read = "read",
    Splice = "splice",
    SpliceThrough = "splice, read",
    Recv = "recv",
    QueueReceive = "mq_receive",
    UringRead = "io_uring read",
    RingPeek = "peek, release",
    RingRead = "read from a ring",
});

impl SourceTechnique {
    /// Whether it uses splice(2).
    pub fn splices(self) -> bool {
        matches!(
            self,
            SourceTechnique::Splice | SourceTechnique::SpliceThrough
        )
    }
}

/// How an end waits: [`fastpipe::wait::Wait`] without `Never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// The system call sleeps.
    #[default]
    Block,
    /// poll(2) before each call.
    Poll,
    /// The call is repeated at once.
    Spin,
    /// The call is repeated after a pause instruction.
    Pause,
    /// The call is repeated after pauses that double.
    Backoff,
    /// Spin for a bounded time, then poll.
    Adaptive,
}

named!(Waiting {
    Block = "block": "it sleeps in the call",
    Poll = "poll": "it sleeps in poll(2) before each call",
    Spin = "spin": "it tries again at once",
    Pause = "pause": "it tries again after a pause instruction",
    Backoff = "backoff": "it tries again after pauses that double, up to 4 us",
    Adaptive = "adaptive": "it tries again for up to 50 us while that pays, then sleeps",
});

impl Waiting {
    /// Whether an end that waits never sleeps.
    pub fn spins(self) -> bool {
        match self {
            Waiting::Spin | Waiting::Pause | Waiting::Backoff => true,
            Waiting::Block | Waiting::Poll | Waiting::Adaptive => false,
        }
    }
}

impl From<Waiting> for fastpipe::wait::Wait {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Block => Self::Block,
            Waiting::Poll => Self::Poll,
            // Only the ends of a pipe pause, between their transfers.
            Waiting::Spin | Waiting::Pause | Waiting::Backoff => Self::Spin,
            Waiting::Adaptive => Self::Adaptive,
        }
    }
}

/// The writing end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkSpec {
    /// The system call.
    pub technique: SinkTechnique,
    /// How to wait.
    pub wait: Waiting,
    /// Bytes in a buffer.
    pub buffer_bytes: usize,
    /// The maximum number of bytes that a `Writer` lends or gathers before it sends
    /// them.
    pub loan_bytes: usize,
    /// Whether one buffer is sent in halves, instead of two buffers in turn.
    pub same_buffer: bool,
    /// The kind of pages.
    pub pages: PageKind,
    /// Whether the pages are written before the start.
    pub touched: bool,
    /// Whether they are locked in memory.
    pub locked: bool,
    /// Whether pages are gifted (SPLICE_F_GIFT).
    pub gift: bool,
    /// Whether the pages are written before each send, rather than sent as they are.
    pub rewritten: bool,
    /// When a page may be written again.
    pub reuse: Reuse,
    /// The offset of each buffer from the start of a page, in bytes.
    pub offset: usize,
}

impl SinkSpec {
    /// Blocking write(2) from touched buffers of base pages.
    pub fn write(buffer_bytes: usize) -> Self {
        SinkSpec {
            technique: SinkTechnique::Write,
            wait: Waiting::Block,
            buffer_bytes,
            loan_bytes: buffer_bytes,
            same_buffer: false,
            pages: PageKind::Base,
            touched: true,
            locked: false,
            gift: false,
            rewritten: false,
            reuse: Reuse::Drained,
            offset: 0,
        }
    }

    /// The memory of its buffers in bytes: one for write(2), two for what sends memory by
    /// reference.
    pub fn memory_bytes(&self) -> u64 {
        let buffers = match (self.technique, self.same_buffer) {
            (SinkTechnique::Write, _) | (_, true) => 1,
            _ => 2,
        };
        let bytes = self.buffer_bytes.max(self.loan_bytes) as u64;
        bytes.saturating_mul(buffers)
    }
}

/// The reading end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// The system call.
    pub technique: SourceTechnique,
    /// How to wait.
    pub wait: Waiting,
    /// Bytes in a buffer.
    pub buffer_bytes: usize,
    /// The kind of pages.
    pub pages: PageKind,
    /// Whether the pages are written before the start.
    pub touched: bool,
    /// Whether they are locked in memory.
    pub locked: bool,
    /// The offset of the buffer from the start of a page, in bytes.
    pub offset: usize,
}

impl SourceSpec {
    /// Blocking read(2) into touched buffers of base pages.
    pub fn read(buffer_bytes: usize) -> Self {
        SourceSpec {
            technique: SourceTechnique::Read,
            wait: Waiting::Block,
            buffer_bytes,
            pages: PageKind::Base,
            touched: true,
            locked: false,
            offset: 0,
        }
    }
}

/// The specification of an endpoint process for a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndSpec {
    /// What runs.
    pub subject: Subject,
    /// What is done with the data.
    pub data: DataUse,
    /// Passes of computing over the data.
    pub work: u32,
    /// The minimum duration of the warm-up, in seconds.
    pub warm_up_s: f64,
    /// The minimum duration of the timed part, in seconds.
    pub timed_s: f64,
    /// The volume of the timed part, in bytes; `None` if time ends it.
    pub timed_bytes: Option<u64>,
    /// How far ahead of the writer the reader publishes an offset, in bytes: more than
    /// the writer may send before it sees the offset.
    pub margin: u64,
    /// The number of bytes between two reads of the clock.
    pub look_every: u64,
    /// Slows the reader down by this share of its time. Tests of the method use it to
    /// check that a change is detected; 0 otherwise.
    pub slow_down: f64,
}
