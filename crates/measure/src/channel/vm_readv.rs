//! The writer's messages stay in its memory, and the reader copies them from
//! there by process_vm_readv(2).
//!
//! Where a message lies goes over a socket pair, 16 bytes each; for every one
//! that was read a byte comes back, which lets its memory be written again.

use std::os::fd::OwnedFd;

use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Counts, Incomplete};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{PTracer, getpid, set_ptracer};

use super::attempt::{Attempts, unread, unsent};
use super::socket::{filled, recv_flags, send_all, send_flags};
use super::{Sink, Source, Taken};
use crate::endpoint::data::Producer;
use crate::endpoint::spec::{SinkSpec, SourceSpec};

/// How many messages are under way at most, and how many bytes of them.
const MAX_PIECES: usize = 8;
const MAX_BYTES: usize = 8 << 20;

/// Bytes of a notice: where a message lies.
const NOTICE: usize = 8;

/// The writing end.
#[derive(Debug)]
pub struct OfferSink {
    socket: OwnedFd,
    attempts: Attempts,
    buffer: Buffer,
    piece: usize,
    pieces: usize,
    offered: u64,
    released: u64,
}

impl OfferSink {
    /// A sink with its buffers mapped and filled, which lets the reader look
    /// into this process.
    ///
    /// # Errors
    /// When the buffers can't be had or the reader is gone.
    pub fn new(socket: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        let attempts = Attempts::new(spec.wait);
        let pieces = (MAX_BYTES / spec.buffer_bytes).clamp(2, MAX_PIECES);
        let mut reader = [0; 4];
        whole(&socket, &mut reader)?;
        allow(reader);
        send(&socket, &own_id(), SendFlags::NOSIGNAL)?;
        Ok(OfferSink {
            socket,
            attempts,
            buffer: filled(spec.buffer_bytes * pieces)?,
            piece: spec.buffer_bytes,
            pieces,
            offered: 0,
            released: 0,
        })
    }

    /// How many pieces are sent in turn.
    pub fn pieces(&self) -> usize {
        self.pieces
    }
}

impl Sink for OfferSink {
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete> {
        while self.offered - self.released >= self.pieces as u64 {
            let mut acknowledged = [0; MAX_PIECES];
            let flags = recv_flags(&self.attempts);
            let (n, _) = self
                .attempts
                .call(|| recv(&self.socket, &mut acknowledged, flags))
                .map_err(|errno| unsent(0, errno))?;
            if n == 0 {
                return Err(unsent(0, Errno::PIPE));
            }
            self.released += n as u64;
        }
        let start = (self.offered % self.pieces as u64) as usize * self.piece;
        let piece = &mut self.buffer[start..start + self.piece];
        if !producer.is_idle() {
            producer.produce(piece);
        }
        let notice = (piece.as_ptr().addr() as u64).to_ne_bytes();
        send_all(&self.socket, &notice, &mut self.attempts, |_, _| {}).map_err(|incomplete| {
            // Of the message itself nothing has left.
            Incomplete {
                moved: 0,
                ..incomplete
            }
        })?;
        self.attempts.moved(self.piece);
        self.offered += 1;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "sending an address"
    }
}

/// The reading end.
#[derive(Debug)]
pub struct FetchSource {
    socket: OwnedFd,
    attempts: Attempts,
    buffer: Buffer,
    writer: Option<Pid>,
    /// Notices that have come, and how far they have been read.
    notices: [u8; NOTICE * MAX_PIECES],
    come: usize,
    used: usize,
}

impl FetchSource {
    /// A source with its buffer mapped.
    ///
    /// # Errors
    /// When the buffer can't be had.
    pub fn new(socket: OwnedFd, spec: &SourceSpec) -> anyhow::Result<Self> {
        send(&socket, &own_id(), SendFlags::NOSIGNAL)?;
        Ok(FetchSource {
            socket,
            attempts: Attempts::new(spec.wait),
            buffer: Buffer::builder().len(spec.buffer_bytes).map()?,
            writer: None,
            notices: [0; NOTICE * MAX_PIECES],
            come: 0,
            used: 0,
        })
    }

    /// Where the next message lies; none at the end.
    fn notice(&mut self) -> rustix::io::Result<Option<u64>> {
        while self.come - self.used < NOTICE {
            self.notices.copy_within(self.used..self.come, 0);
            self.come -= self.used;
            self.used = 0;
            let flags = recv_flags(&self.attempts);
            let room = &mut self.notices[self.come..];
            let (n, _) = self
                .attempts
                .call(|| recv(&self.socket, &mut *room, flags))?;
            if n == 0 {
                return Ok(None);
            }
            self.come += n;
        }
        let (notice, _) = self.notices[self.used..].split_at(NOTICE);
        self.used += NOTICE;
        Ok(notice.try_into().ok().map(u64::from_ne_bytes))
    }

    fn fetch(&mut self) -> rustix::io::Result<usize> {
        let writer = match self.writer {
            Some(writer) => writer,
            None => {
                let mut pid = [0; 4];
                whole(&self.socket, &mut pid)?;
                *self.writer.insert(Pid::from_raw(i32::from_ne_bytes(pid)))
            }
        };
        let Some(address) = self.notice()? else {
            return Ok(0);
        };
        let whole = self.buffer.len();
        let mut got = 0;
        while got < whole {
            let here = &mut self.buffer[got..];
            let from = address as usize + got;
            let n = self.attempts.call(|| copy_from(writer, from, here))?;
            self.attempts.moved(n);
            got += n;
        }
        let flags = send_flags(&self.attempts);
        match self.attempts.call(|| send(&self.socket, &[1], flags)) {
            // The writer has gone in the meantime.
            Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(whole),
            Err(errno) => Err(errno),
        }
    }
}

impl Source for FetchSource {
    fn take(&mut self) -> Result<Taken<'_>, Incomplete> {
        match self.fetch() {
            // A writer that was killed.
            Err(Errno::SRCH | Errno::CONNRESET) => Ok(Taken::Discarded(0)),
            Ok(n) => Ok(Taken::Data(&self.buffer[..n])),
            Err(errno) => Err(unread(errno)),
        }
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "process_vm_readv"
    }
}

/// Tells the other process which this one is, learns which it is, and lets it
/// look into this one.
///
/// # Errors
/// Those of send(2) and recv(2); `PIPE` where it is gone.
pub(crate) fn introduce(socket: &OwnedFd) -> rustix::io::Result<Pid> {
    send(socket, &own_id(), SendFlags::NOSIGNAL)?;
    let mut other = [0; 4];
    whole(socket, &mut other)?;
    allow(other);
    Ok(Pid::from_raw(i32::from_ne_bytes(other)))
}

/// One call: copies what lies at an address of another process to `here`. At
/// least one byte.
///
/// # Errors
/// Those of process_vm_readv(2).
pub(crate) fn copy_from(
    process: Pid,
    address: usize,
    here: &mut [u8],
) -> rustix::io::Result<usize> {
    let there = [RemoteIoVec {
        base: address,
        len: here.len(),
    }];
    let mut here = [std::io::IoSliceMut::new(here)];
    match process_vm_readv(process, &mut here, &there) {
        Ok(0) => Err(Errno::FAULT),
        Ok(n) => Ok(n),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}

fn own_id() -> [u8; 4] {
    getpid().as_raw_nonzero().get().to_ne_bytes()
}

/// Lets a process look into this one where the Yama module lets only forebears
/// (Documentation/admin-guide/LSM/Yama.rst); elsewhere it is refused and not
/// needed.
fn allow(process: [u8; 4]) {
    if let Some(process) = rustix::process::Pid::from_raw(i32::from_ne_bytes(process)) {
        let _ = set_ptracer(PTracer::ProcessID(process));
    }
}

/// Receives a whole number before anything is measured.
fn whole(socket: &OwnedFd, number: &mut [u8; 4]) -> rustix::io::Result<()> {
    loop {
        match recv(socket, &mut *number, RecvFlags::WAITALL) {
            Ok((4, _)) => return Ok(()),
            Ok(_) => return Err(Errno::PIPE),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
