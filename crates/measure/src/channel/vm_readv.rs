//! The writer's messages stay in its memory, and the reader copies them from
//! there by process_vm_readv(2).
//!
//! Where a message lies goes over a socket pair, 16 bytes each; for every one
//! that was read a byte comes back, which lets its memory be written again.

use std::os::fd::AsFd;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{PTracer, getpid, set_ptracer};

use super::message::{Message, counted};
use super::socket::{OverSocket, Socket};
use super::{Receiver, Transmitter, moved};

/// At most this many messages are under way, and this many bytes of them.
const MAX_PIECES: usize = 8;
const MAX_BYTES: usize = 8 << 20;

/// Bytes of a notice: where a message lies.
const NOTICE: usize = 8;

/// The number of pieces that messages of this length are sent from in turn.
pub(crate) fn pieces(message: usize) -> usize {
    (MAX_BYTES / message).clamp(2, MAX_PIECES)
}

/// The writing end: tells where messages lie.
#[derive(Debug)]
pub struct Offer {
    socket: Socket,
    /// At most this many messages may be unread; none where answers to them say
    /// that they were read.
    pieces: Option<usize>,
    offered: u64,
    released: u64,
}

impl Offer {
    /// An end over a socket on which [`introduce`] was called.
    pub fn new(socket: Socket, pieces: Option<usize>) -> Self {
        Offer {
            socket,
            pieces,
            offered: 0,
            released: 0,
        }
    }
}

impl OverSocket for Offer {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

impl Transmitter for Offer {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        let bytes = message.bytes();
        let notice = (bytes.as_ptr().addr() as u64).to_ne_bytes();
        // Sockets take so few bytes as a whole.
        moved(self.socket.send_bytes(&notice, SendFlags::empty()))?;
        self.offered += 1;
        Ok(bytes.len())
    }

    fn reclaim(&mut self, _piece: usize) -> rustix::io::Result<()> {
        while let Some(pieces) = self.pieces
            && self.offered - self.released >= pieces as u64
        {
            let mut acknowledged = [0; MAX_PIECES];
            self.released += moved(self.socket.receive(&mut acknowledged))? as u64;
        }
        Ok(())
    }

    fn call(&self) -> &'static str {
        "sending an address"
    }
}

/// The reading end: copies messages from where they lie.
#[derive(Debug)]
pub struct Fetch {
    socket: Socket,
    writer: Pid,
    /// Whether a byte is sent back for each message.
    acknowledges: bool,
    /// Notices that have come, and how far they have been used.
    notices: [u8; NOTICE * MAX_PIECES],
    come: usize,
    used: usize,
}

impl Fetch {
    /// An end over a socket on which [`introduce`] was called, which told `writer`.
    /// Without acknowledging there is one notice at a time.
    pub fn new(socket: Socket, writer: Pid, acknowledges: bool) -> Self {
        Fetch {
            socket,
            writer,
            acknowledges,
            notices: [0; NOTICE * MAX_PIECES],
            come: 0,
            used: 0,
        }
    }

    /// Where the next message lies.
    fn notice(&mut self) -> rustix::io::Result<usize> {
        let room = if self.acknowledges {
            self.notices.len()
        } else {
            NOTICE
        };
        while self.come - self.used < NOTICE {
            self.notices.copy_within(self.used..self.come, 0);
            self.come -= self.used;
            self.used = 0;
            self.come += moved(self.socket.receive(&mut self.notices[self.come..room]))?;
        }
        let mut notice = [0; NOTICE];
        notice.copy_from_slice(&self.notices[self.used..self.used + NOTICE]);
        self.used += NOTICE;
        Ok(u64::from_ne_bytes(notice) as usize)
    }
}

impl OverSocket for Fetch {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

impl Receiver for Fetch {
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let address = self.notice()?;
        let mut copied = 0;
        while copied < into.len() {
            let rest = &mut into[copied..];
            let copy = copy_from(self.writer, address + copied, rest);
            match counted(&mut self.socket.counts, copy) {
                Err(Errno::INTR) => {}
                n => copied += n?,
            }
        }
        while self.acknowledges {
            match moved(self.socket.send_bytes(&[1], SendFlags::empty())) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                // The writer may have gone in the meantime.
                Ok(_) | Err(Errno::PIPE) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(copied)
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
pub fn introduce(socket: impl AsFd) -> rustix::io::Result<Pid> {
    let own = getpid().as_raw_nonzero().get().to_ne_bytes();
    send(&socket, &own, SendFlags::NOSIGNAL)?;
    let mut other = [0; 4];
    let other = loop {
        match moved(recv(&socket, &mut other, RecvFlags::WAITALL).map(|(n, _)| n)) {
            Ok(4) => break i32::from_ne_bytes(other),
            Ok(_) => return Err(Errno::PIPE),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    // Needed where the Yama module lets only forebears look
    // (Documentation/admin-guide/LSM/Yama.rst), elsewhere refused.
    if let Some(process) = rustix::process::Pid::from_raw(other) {
        let _ = set_ptracer(PTracer::ProcessID(process));
    }
    Ok(Pid::from_raw(other))
}

/// One call: copies what lies at an address of another process to `here`. At
/// least one byte.
///
/// # Errors
/// Those of process_vm_readv(2).
fn copy_from(process: Pid, address: usize, here: &mut [u8]) -> rustix::io::Result<usize> {
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
