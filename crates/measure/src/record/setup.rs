//! What took effect of the specification of a trial.

use serde::{Deserialize, Serialize};

/// The actual setup of an end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The number of pieces that the writer sends in turn.
    pub pieces: Option<usize>,
    /// The capacity of a ring in shared memory, in bytes.
    #[serde(default)]
    pub ring_bytes: Option<usize>,
    /// The alignment of the writer's buffers, in bytes.
    pub alignment: Option<usize>,
    /// Bytes of the buffers in huge pages.
    pub huge_bytes: Option<u64>,
    /// Where the kernel showed that.
    pub huge_shown_by: Option<String>,
}

/// The actual sizes and settings of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// The capacity of a pipe or FIFO.
    pub pipe_bytes: Option<usize>,
    /// SO_SNDBUF of the writer's socket.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF of the reader's socket.
    pub receive_buffer_bytes: Option<usize>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// The capacity of a message queue, in messages.
    pub queue_messages: Option<usize>,
}
