//! `fastpipe::ring`: bytes in memory that both processes have mapped.
//!
//! In place the writer makes a message where the reader uses it; copying, each
//! has a buffer of its own, as with write(2) and read(2). The writer makes the
//! ring once it runs where it is to run, so that the memory is that of its own
//! node, and hands the other end over by the socket that is the channel.
#![allow(unsafe_code)] // Views in place: both ends are this program, and keep to the rules.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use fastpipe::buffer::Buffer;
use fastpipe::pipe::page_size;
use fastpipe::ring;
use fastpipe::transfer::{Counts, Incomplete};
use rustix::process::{Resource, getrlimit};

use super::open::{Channel, OpenError, over_a_socket};
use super::socket::filled;
use super::{Sink, Source, Taken};
use crate::endpoint::data::Producer;
use crate::endpoint::spec::{SinkSpec, SinkTechnique, SourceSpec, SourceTechnique};
use crate::record::NotRun;
use pipespeed_base::size;

/// The least capacity of a ring, in bytes.
const MIN_CAPACITY: usize = 1 << 20;

/// The capacity of a ring for messages of a size: a message is lent as a whole,
/// and the next one can be made while it is used.
fn capacity(message: usize) -> usize {
    MIN_CAPACITY.max(2 * message)
}

/// What the ends find each other by; the writer makes the ring itself.
///
/// # Errors
/// [`OpenError`]: refused where so large a file may not be written.
pub fn open(message: usize) -> Result<Channel, OpenError> {
    within_file_limit(message, capacity(message))?;
    over_a_socket()
}

/// Whether a ring of this capacity, for messages of that size, may be made here:
/// its memory is a file's, which has a limit (RLIMIT_FSIZE, getrlimit(2)).
///
/// # Errors
/// [`OpenError::NotRun`] if it may not.
pub(crate) fn within_file_limit(message: usize, capacity: usize) -> Result<(), OpenError> {
    let limit = getrlimit(Resource::Fsize).current;
    let file = capacity.next_power_of_two().max(page_size()) + page_size();
    if let Some(most) = limit.filter(|most| file as u64 > *most) {
        return Err(OpenError::NotRun(NotRun::limit(format!(
            "a ring for messages of {} is a file of {file} bytes, and here a file may \
             have {most} (ulimit -f)",
            size::format(message as u64)
        ))));
    }
    Ok(())
}

/// The writing end.
#[derive(Debug)]
pub struct RingSink {
    ring: ring::Producer,
    message: usize,
    /// What is copied from; none where messages are made in place.
    buffer: Option<Buffer>,
    moving_calls: u64,
}

impl RingSink {
    /// A sink with its ring made and handed over, and its buffer, where it has
    /// one, mapped and filled.
    ///
    /// # Errors
    /// When the memory can't be had or the reader is gone.
    pub fn new(channel: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        let message = spec.buffer_bytes;
        let mut ring = ring::Producer::offer(&UnixStream::from(channel), capacity(message))?;
        ring.set_wait(spec.wait.into());
        let copies = spec.technique == SinkTechnique::RingWrite;
        Ok(RingSink {
            ring,
            message,
            buffer: copies.then(|| filled(message)).transpose()?,
            moving_calls: 0,
        })
    }

    /// The capacity of the ring, in bytes.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// How many pieces are sent in turn, where it has pieces.
    pub fn pieces(&self) -> Option<usize> {
        self.buffer.as_ref().map(|_| 1)
    }
}

impl Sink for RingSink {
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete> {
        let Some(buffer) = &mut self.buffer else {
            let mut slot = self.ring.lend(self.message).map_err(|e| unsent(0, e))?;
            if !producer.is_idle() {
                // SAFETY: the other process is this program, and touches only
                // what was committed.
                let bytes = unsafe { slot.bytes_mut() };
                producer.produce(&mut bytes[..self.message]);
            }
            slot.commit(self.message);
            self.moving_calls += 1;
            return Ok(());
        };
        if !producer.is_idle() {
            producer.produce(buffer);
        }
        let mut sent = 0;
        while sent < buffer.len() {
            let written = self.ring.write(&buffer[sent..]);
            sent += written.map_err(|error| unsent(sent, error))?;
            self.moving_calls += 1;
        }
        Ok(())
    }

    fn sent(&self) -> u64 {
        self.ring.counts().bytes
    }

    fn counts(&self) -> Counts {
        Counts {
            moving_calls: self.moving_calls,
            ..self.ring.counts()
        }
    }

    fn call(&self) -> &'static str {
        match self.buffer {
            None => "lending from a ring",
            Some(_) => "writing to a ring",
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub struct RingSource {
    ring: ring::Consumer,
    /// The most to be taken at a time, in bytes.
    most: usize,
    /// What is copied to; none where bytes are used in place.
    buffer: Option<Buffer>,
    /// Bytes that were given out in place, and are not released yet.
    used: usize,
    moving_calls: u64,
}

impl RingSource {
    /// A source with its end of the ring taken, and its buffer, where it has
    /// one, mapped.
    ///
    /// # Errors
    /// When the end or the buffer can't be had, or the writer is gone.
    pub fn new(channel: OwnedFd, spec: &SourceSpec) -> anyhow::Result<Self> {
        let mut ring = ring::Consumer::accept(&UnixStream::from(channel))?;
        ring.set_wait(spec.wait.into());
        let copies = spec.technique == SourceTechnique::RingRead;
        let buffer = || Buffer::builder().len(spec.buffer_bytes).map();
        Ok(RingSource {
            ring,
            most: spec.buffer_bytes,
            buffer: copies.then(buffer).transpose()?,
            used: 0,
            moving_calls: 0,
        })
    }
}

impl RingSource {
    /// The next bytes; none at the end of the data.
    fn next(&mut self) -> io::Result<&[u8]> {
        if self.used > 0 {
            // They are still there, so this does not wait.
            self.ring.peek(self.used)?.release(self.used);
            self.used = 0;
        }
        let bytes = match &mut self.buffer {
            Some(buffer) => {
                let n = self.ring.read(buffer)?;
                &buffer[..n]
            }
            None => {
                let view = self.ring.peek(1)?;
                self.used = view.len().min(self.most);
                // SAFETY: the other process is this program, and writes only to
                // what was released.
                let bytes = unsafe { view.into_bytes() };
                &bytes[..self.used]
            }
        };
        self.moving_calls += u64::from(!bytes.is_empty());
        Ok(bytes)
    }
}

impl Source for RingSource {
    fn take(&mut self) -> Result<Taken<'_>, Incomplete> {
        match self.next() {
            Ok(bytes) => Ok(Taken::Data(bytes)),
            // A writer that was killed.
            Err(error) if died(&error) => Ok(Taken::Discarded(0)),
            Err(source) => Err(Incomplete { moved: 0, source }),
        }
    }

    fn counts(&self) -> Counts {
        let counts = self.ring.counts();
        Counts {
            bytes: counts.bytes + self.used as u64,
            moving_calls: self.moving_calls,
            ..counts
        }
    }

    fn call(&self) -> &'static str {
        match self.buffer {
            None => "peeking into a ring",
            Some(_) => "reading from a ring",
        }
    }
}

/// Whether the other end was killed.
fn died(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionReset
}

/// An error of a writer of which `moved` bytes of a message have left. A reader
/// that was killed is as gone as one that left.
fn unsent(moved: usize, error: io::Error) -> Incomplete {
    Incomplete {
        moved: moved as u64,
        source: if died(&error) {
            ErrorKind::BrokenPipe.into()
        } else {
            error
        },
    }
}
