//! A sink and a source of whole messages for any transmitter and receiver, and the
//! memory that messages are sent from.

use std::hint;
use std::io;
use std::ops::Range;

use fastpipe::buffer::{Buffer, BufferError, PageSlice};
use fastpipe::transfer::Counts;
use rustix::io::Errno;

use super::{Receiver, Sink, Source, Taken, Transmitter};
use crate::data::DataProducer;
use crate::record::Setup;

/// Memory for messages of one length, in pieces that are sent in turn.
#[derive(Debug)]
pub struct Pieces {
    memory: Buffer,
    /// Bytes of a message.
    len: usize,
    /// Bytes from the start of one piece to the start of the next.
    stride: usize,
    /// Number of pieces.
    pub count: usize,
}

impl Pieces {
    /// Maps `count` pieces of `len` bytes, one every `stride` bytes.
    ///
    /// # Errors
    /// If the memory can't be mapped.
    pub fn new(len: usize, stride: usize, count: usize) -> Result<Self, BufferError> {
        Ok(Pieces {
            memory: Buffer::builder().len(stride.saturating_mul(count)).map()?,
            len,
            stride,
            count,
        })
    }

    fn range(&self, piece: usize) -> Range<usize> {
        piece * self.stride..piece * self.stride + self.len
    }

    /// The bytes of a piece, mutably.
    pub fn bytes_mut(&mut self, piece: usize) -> &mut [u8] {
        let range = self.range(piece);
        &mut self.memory[range]
    }

    /// The message in a piece, starting at its byte `from`.
    pub fn message(&self, piece: usize, from: usize) -> Message<'_> {
        let Range { start, end } = self.range(piece);
        Message {
            memory: &self.memory,
            range: (start + from, end),
        }
    }
}

/// A message, or the rest of one, in the memory that it is sent from.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    memory: &'a Buffer,
    range: (usize, usize),
}

impl<'a> Message<'a> {
    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        &self.memory[self.range.0..self.range.1]
    }

    /// Its first `len` bytes.
    pub fn first(self, len: usize) -> Message<'a> {
        let (start, end) = self.range;
        Message {
            range: (start, end.min(start + len)),
            ..self
        }
    }

    /// Its bytes as pages.
    pub fn pages(&self) -> PageSlice<'a> {
        self.memory.slice(self.range.0..self.range.1)
    }
}

/// Counts a system call and whether it would have blocked.
pub(super) fn counted<T>(
    counts: &mut Counts,
    outcome: rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    counts.syscalls += 1;
    // EWOULDBLOCK is the same number on Linux.
    counts.would_blocks += u64::from(matches!(outcome, Err(Errno::AGAIN)));
    outcome
}

/// Repeats a call while it is interrupted or would block.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => hint::spin_loop(),
            outcome => return outcome,
        }
    }
}

/// The number of bytes that a call moved. If the peer is gone, which each kind of
/// channel reports differently, the error is `PIPE`.
pub(crate) fn moved(outcome: rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    match outcome {
        Ok(0) => Err(Errno::PIPE),
        Err(Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN) => Err(Errno::PIPE),
        outcome => outcome,
    }
}

/// A sink that sends whole messages through a transmitter.
#[derive(Debug)]
pub struct MessageSink<T: ?Sized> {
    transmitter: Box<T>,
    message: Pieces,
    bytes: u64,
    moving_calls: u64,
}

impl<T: Transmitter + ?Sized> MessageSink<T> {
    /// Creates a sink of messages of `bytes` bytes, with the memory of one mapped and
    /// filled.
    ///
    /// # Errors
    /// If the memory can't be mapped.
    pub fn new(transmitter: Box<T>, bytes: usize) -> anyhow::Result<Self> {
        let mut message = Pieces::new(bytes, bytes, 1)?;
        message.bytes_mut(0).fill(b'X');
        Ok(MessageSink {
            transmitter,
            message,
            bytes: 0,
            moving_calls: 0,
        })
    }
}

impl<T: Transmitter + ?Sized> Sink for MessageSink<T> {
    fn send(&mut self, producer: &mut DataProducer) -> io::Result<()> {
        if !producer.is_idle() {
            producer.produce(self.message.bytes_mut(0));
        }
        let mut sent = 0;
        while sent < self.message.len {
            let rest = self.message.message(0, sent);
            let n = moved(retry(|| self.transmitter.send(rest)))?;
            self.bytes += n as u64;
            self.moving_calls += 1;
            sent += n;
        }
        Ok(())
    }

    fn setup(&self) -> Setup {
        Setup {
            pieces: Some(1),
            ring_bytes: self.transmitter.capacity(),
            ..Setup::default()
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            bytes: self.bytes,
            moving_calls: self.moving_calls,
            ..self.transmitter.counts()
        }
    }

    fn call(&self) -> &'static str {
        self.transmitter.call()
    }

    fn expect_reader_exit(&mut self) {
        self.transmitter.expect_reader_exit();
    }
}

/// A source that receives messages into a buffer.
#[derive(Debug)]
pub struct MessageSource<R: ?Sized> {
    receiver: Box<R>,
    buffer: Buffer,
    bytes: u64,
    moving_calls: u64,
}

impl<R: Receiver + ?Sized> MessageSource<R> {
    /// Creates a source, with its buffer mapped.
    ///
    /// # Errors
    /// If the buffer can't be mapped.
    pub fn new(receiver: Box<R>, buffer_bytes: usize) -> anyhow::Result<Self> {
        Ok(MessageSource {
            receiver,
            buffer: Buffer::builder().len(buffer_bytes).map()?,
            bytes: 0,
            moving_calls: 0,
        })
    }
}

impl<R: Receiver + ?Sized> Source for MessageSource<R> {
    fn take(&mut self) -> io::Result<Taken<'_>> {
        let (receiver, buffer) = (&mut self.receiver, &mut self.buffer[..]);
        let n = match moved(retry(|| receiver.receive(buffer))) {
            // The writer has exited or was killed.
            Err(Errno::PIPE) => 0,
            outcome => outcome?,
        };
        self.bytes += n as u64;
        self.moving_calls += u64::from(n > 0);
        Ok(Taken::Data(&self.buffer[..n]))
    }

    fn counts(&self) -> Counts {
        Counts {
            bytes: self.bytes,
            moving_calls: self.moving_calls,
            ..self.receiver.counts()
        }
    }

    fn call(&self) -> &'static str {
        self.receiver.call()
    }
}
