//! What took effect in a case.

use serde::{Deserialize, Serialize};

/// The configuration that took effect, as the ends of the case reported it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// How the writer hands data to the channel: `write`, `vmsplice`; null
    /// where no writer runs.
    pub writer: Option<String>,
    /// How the reader takes it: `read`, `splice`; null where no reader runs.
    pub reader: Option<String>,
    /// What lies between the ends: `pipe`, `fifo`, `tcp` and so on; null where
    /// there is only one end.
    pub channel: Option<String>,
    /// The size of the messages; null where a case is not about messages.
    pub message_bytes: Option<usize>,
    /// The volume that ends a trial's timed part; null where time ends it.
    pub volume_bytes: Option<u64>,
    /// What is unusual about the writer's memory: `untouched`, `locked`, `gift`,
    /// `same buffer`, `16 bytes off`.
    #[serde(default)]
    pub options: Vec<String>,
    /// How the ends wait for each other: `block`, `poll`, `spin`, `adaptive`.
    pub wait: String,
    /// The writer's processor, where the case has one of its own; else see the
    /// run's settings.
    pub writer_cpu: Option<usize>,
    /// The same of the reader.
    pub reader_cpu: Option<usize>,
    /// Bytes handed over in one piece.
    pub buffer_bytes: usize,
    /// The most that the reader asks for at a time.
    pub reader_buffer_bytes: Option<usize>,
    /// How many such buffers the writer uses in turn.
    pub buffers: Option<usize>,
    /// Pages asked for: `base`, `huge` (transparent) or `hugetlb`.
    pub pages: String,
    /// Bytes of the writer's buffers shown to be in huge pages.
    pub huge_bytes: Option<u64>,
    /// How that was shown: `smaps` or `pagemap`.
    pub huge_shown_by: Option<String>,
    /// The alignment of the writer's buffer in bytes (a power of two).
    pub alignment: Option<usize>,
    /// The pipe size asked for.
    pub pipe_bytes_asked: Option<usize>,
    /// The pipe size granted.
    pub pipe_bytes: Option<usize>,
    /// The slots of the pipe.
    pub slots: Option<usize>,
    /// SO_SNDBUF of the writer's socket, as it was at the start.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF of the reader's socket, as it was at the start.
    pub receive_buffer_bytes: Option<usize>,
    /// Whether TCP_NODELAY is set.
    pub nodelay: Option<bool>,
    /// The messages that a message queue holds.
    pub queue_messages: Option<usize>,
    /// The capacity of a ring in shared memory.
    pub ring_bytes: Option<usize>,
    /// Sends whose completion MSG_ZEROCOPY has reported, over all samples.
    pub zerocopy_sends: Option<u64>,
    /// Those of them that the kernel says it copied all the same.
    pub zerocopy_copied: Option<u64>,
    /// Bytes a system call of the writer moved, over all samples; with a ring in
    /// shared memory, a call of the library.
    pub writer_bytes_per_call: Option<f64>,
    /// The same of the reader.
    pub reader_bytes_per_call: Option<f64>,
}
