//! Numbers of bytes and system calls.

/// Numbers of bytes and system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes moved.
    pub bytes: u64,
    /// System calls made, to move data or to wait.
    pub syscalls: u64,
    /// System calls that moved at least one byte.
    pub moving_calls: u64,
    /// Attempts that found the pipe, or the ring, full or empty.
    pub would_blocks: u64,
    /// System calls that were poll(2).
    pub polls: u64,
}
