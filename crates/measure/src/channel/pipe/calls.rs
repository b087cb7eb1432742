//! write(2), read(2) and vmsplice(2), one call at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use fastpipe::transfer::{Output, VmspliceOptions};
use fastpipe::wait::Wait;
use rustix::io::Errno;

use crate::channel::message::Message;
use crate::channel::{ChannelEnd, Receiver, Transmitter};

/// An end of a pipe or similar file, using write(2) and read(2).
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) OwnedFd);

impl ChannelEnd for Plain {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl Transmitter for Plain {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        // SIGPIPE is ignored in every Rust program.
        rustix::io::write(&self.0, message.bytes())
    }

    fn call(&self) -> &'static str {
        "write"
    }
}

impl Receiver for Plain {
    fn receive(&mut self, into: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(&self.0, into)
    }

    fn call(&self) -> &'static str {
        "read"
    }
}

/// The writing end of a pipe, using vmsplice(2): the pipe refers to the message's pages
/// until the reader has copied them.
#[derive(Debug)]
pub(crate) struct Vmsplice {
    fd: Arc<OwnedFd>,
    output: Output<Arc<OwnedFd>>,
}

impl Vmsplice {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let fd = Arc::new(fd);
        Vmsplice {
            output: Output::new(Arc::clone(&fd), Wait::Block),
            fd,
        }
    }
}

impl ChannelEnd for Vmsplice {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.output = Output::new(Arc::clone(&self.fd), Wait::Never);
        Ok(())
    }
}

impl Transmitter for Vmsplice {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        let pages = message.pages();
        let len = pages.as_bytes().len();
        match self.output.vmsplice(&[pages], VmspliceOptions::default()) {
            Ok(()) => Ok(len),
            Err(incomplete) if incomplete.moved > 0 => Ok(incomplete.moved as usize),
            Err(incomplete) => Err(match incomplete.kind() {
                io::ErrorKind::WouldBlock => Errno::AGAIN,
                io::ErrorKind::BrokenPipe => Errno::PIPE,
                _ => Errno::from_io_error(&incomplete.source).unwrap_or(Errno::IO),
            }),
        }
    }

    fn call(&self) -> &'static str {
        "vmsplice"
    }
}
