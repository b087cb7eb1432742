//! Messages stay in the writer's memory, from which the reader copies them with
//! process_vm_readv(2).
//!
//! The writer sends the address of each message over a socket pair, 8 bytes each. The
//! reader acknowledges each message with a byte, after which the writer may reuse its
//! memory.

use std::os::fd::AsFd;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{PTracer, getpid, set_ptracer};

use super::message::{Message, counted};
use super::socket::{OverSocket, Socket};
use super::{Receiver, Transmitter, moved};

/// The maximum number of messages in flight, and of their bytes.
const MAX_PIECES: usize = 8;
const MAX_BYTES: usize = 8 << 20;

/// The size of a notice, which is the address of a message.
const NOTICE: usize = 8;

/// The number of pieces for messages of this length, which are sent in turn.
pub(crate) fn pieces(message: usize) -> usize {
    (MAX_BYTES / message).clamp(2, MAX_PIECES)
}

/// The writing end: sends the addresses of messages.
#[derive(Debug)]
pub struct Offer {
    socket: Socket,
    /// The maximum number of unread messages; `None` if the peer's answers show that
    /// they were read.
    pieces: Option<usize>,
    offered: u64,
    acknowledged: u64,
}

impl Offer {
    /// Creates an end over a socket on which [`introduce`] was called.
    pub fn new(socket: Socket, pieces: Option<usize>) -> Self {
        Offer {
            socket,
            pieces,
            offered: 0,
            acknowledged: 0,
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
        // A socket does not split so few bytes.
        moved(self.socket.send_bytes(&notice, SendFlags::empty()))?;
        self.offered += 1;
        Ok(bytes.len())
    }

    fn reclaim(&mut self, _piece: usize) -> rustix::io::Result<()> {
        while let Some(pieces) = self.pieces
            && self.offered - self.acknowledged >= pieces as u64
        {
            let mut bytes = [0; MAX_PIECES];
            self.acknowledged += moved(self.socket.receive(&mut bytes))? as u64;
        }
        Ok(())
    }

    fn call(&self) -> &'static str {
        "sending an address"
    }
}

/// The reading end: copies messages from the writer's memory.
#[derive(Debug)]
pub struct Fetch {
    socket: Socket,
    writer: Pid,
    /// Whether it acknowledges each message.
    acknowledges: bool,
    /// Received notices, the number of bytes received, and of those used.
    notices: [u8; NOTICE * MAX_PIECES],
    received: usize,
    used: usize,
}

impl Fetch {
    /// Creates an end over a socket on which [`introduce`] was called and returned
    /// `writer`. Without acknowledgements it reads one notice at a time.
    pub fn new(socket: Socket, writer: Pid, acknowledges: bool) -> Self {
        Fetch {
            socket,
            writer,
            acknowledges,
            notices: [0; NOTICE * MAX_PIECES],
            received: 0,
            used: 0,
        }
    }

    /// Receives the address of the next message.
    fn notice(&mut self) -> rustix::io::Result<usize> {
        let limit = if self.acknowledges {
            self.notices.len()
        } else {
            NOTICE
        };
        while self.received - self.used < NOTICE {
            self.notices.copy_within(self.used..self.received, 0);
            self.received -= self.used;
            self.used = 0;
            self.received += moved(self.socket.receive(&mut self.notices[self.received..limit]))?;
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
                // The writer may have exited in the meantime.
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

/// Exchanges process IDs with the peer and allows it to read this process's memory.
/// Returns the peer's ID.
///
/// # Errors
/// Those of send(2) and recv(2); `PIPE` if the peer is gone.
pub fn introduce(socket: impl AsFd) -> rustix::io::Result<Pid> {
    let own = getpid().as_raw_nonzero().get().to_ne_bytes();
    send(&socket, &own, SendFlags::NOSIGNAL)?;
    let mut peer = [0; 4];
    let peer = loop {
        match moved(recv(&socket, &mut peer, RecvFlags::WAITALL).map(|(n, _)| n)) {
            Ok(4) => break i32::from_ne_bytes(peer),
            Ok(_) => return Err(Errno::PIPE),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    };
    // Needed where the Yama module allows only ancestors
    // (Documentation/admin-guide/LSM/Yama.rst); fails elsewhere.
    if let Some(process) = rustix::process::Pid::from_raw(peer) {
        let _ = set_ptracer(PTracer::ProcessID(process));
    }
    Ok(Pid::from_raw(peer))
}

/// Copies bytes from an address of another process to `buffer`, with one call. Returns
/// the number of bytes, at least 1.
///
/// # Errors
/// Those of process_vm_readv(2).
fn copy_from(process: Pid, address: usize, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let remote = [RemoteIoVec {
        base: address,
        len: buffer.len(),
    }];
    let mut buffer = [std::io::IoSliceMut::new(buffer)];
    match process_vm_readv(process, &mut buffer, &remote) {
        Ok(0) => Err(Errno::FAULT),
        Ok(n) => Ok(n),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}
