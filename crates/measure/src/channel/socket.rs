//! Ends of any socket: whole messages by send(2) and recv(2).

use std::os::fd::OwnedFd;

use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Counts, Incomplete};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::attempt::{Attempts, unread, unsent};
use super::{Sink, Source, Taken};
use crate::endpoint::data::Producer;
use crate::endpoint::spec::{SinkSpec, SourceSpec};

/// The writing end.
#[derive(Debug)]
pub struct SocketSink {
    fd: OwnedFd,
    attempts: Attempts,
    buffer: Buffer,
}

impl SocketSink {
    /// A sink with its buffer mapped and filled.
    ///
    /// # Errors
    /// When the buffer can't be had.
    pub fn new(fd: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        Ok(SocketSink {
            fd,
            attempts: Attempts::new(spec.wait),
            buffer: filled(spec.buffer_bytes)?,
        })
    }
}

impl Sink for SocketSink {
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete> {
        if !producer.is_idle() {
            producer.produce(&mut self.buffer);
        }
        send_all(&self.fd, &self.buffer, &mut self.attempts, Attempts::moved)
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "send"
    }
}

/// The reading end.
#[derive(Debug)]
pub struct SocketSource {
    fd: OwnedFd,
    attempts: Attempts,
    flags: RecvFlags,
    buffer: Buffer,
}

impl SocketSource {
    /// A source with its buffer mapped.
    ///
    /// # Errors
    /// When the buffer can't be had.
    pub fn new(fd: OwnedFd, spec: &SourceSpec) -> anyhow::Result<Self> {
        let attempts = Attempts::new(spec.wait);
        Ok(SocketSource {
            fd,
            flags: recv_flags(&attempts),
            attempts,
            buffer: Buffer::builder().len(spec.buffer_bytes).map()?,
        })
    }
}

impl Source for SocketSource {
    fn take(&mut self) -> Result<Taken<'_>, Incomplete> {
        let buffer = &mut self.buffer[..];
        let outcome = self
            .attempts
            .call(|| recv(&self.fd, &mut *buffer, self.flags));
        let n = match outcome {
            Ok((n, _)) => n,
            // A writer that was killed.
            Err(Errno::CONNRESET) => 0,
            Err(errno) => return Err(unread(errno)),
        };
        self.attempts.moved(n);
        Ok(Taken::Data(&self.buffer[..n]))
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "recv"
    }
}

/// Sends all of `bytes`, and tells `note` of each part that has left.
pub(super) fn send_all(
    fd: &OwnedFd,
    bytes: &[u8],
    attempts: &mut Attempts,
    mut note: impl FnMut(&mut Attempts, usize),
) -> Result<(), Incomplete> {
    let flags = send_flags(attempts);
    let mut sent = 0;
    while sent < bytes.len() {
        let n = attempts
            .call(|| send(fd, &bytes[sent..], flags))
            .map_err(|errno| unsent(sent, errno))?;
        note(attempts, n);
        sent += n;
    }
    Ok(())
}

/// How to send without a signal where the reader is gone.
pub(super) fn send_flags(attempts: &Attempts) -> SendFlags {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::DONTWAIT, attempts.spins());
    flags
}

pub(super) fn recv_flags(attempts: &Attempts) -> RecvFlags {
    let mut flags = RecvFlags::empty();
    flags.set(RecvFlags::DONTWAIT, attempts.spins());
    flags
}

/// A buffer as every sink of messages has it: mapped, and filled once.
pub(super) fn filled(bytes: usize) -> anyhow::Result<Buffer> {
    let mut buffer = Buffer::builder().len(bytes).map()?;
    buffer.fill(b'X');
    Ok(buffer)
}
