//! vmsplice(2) to a pipe, and read(2): the pipe refers to the message's pages
//! until the reader has copied them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use fastpipe::transfer::{Output, VmspliceOptions};
use fastpipe::wait::Wait;
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::{Link, sleep, some, without_sleep};
use crate::latency::memory::Messages;

#[derive(Debug)]
pub(super) struct Vmsplice {
    input: OwnedFd,
    fd: Arc<OwnedFd>,
    output: Output<Arc<OwnedFd>>,
}

impl Vmsplice {
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> Self {
        let fd = Arc::new(output);
        Vmsplice {
            input,
            output: Output::new(Arc::clone(&fd), Wait::Block),
            fd,
        }
    }
}

impl Link for Vmsplice {
    fn send(&mut self, messages: &Messages, turn: usize, at: usize) -> Result<usize, Errno> {
        let pages = messages.pages(turn, at);
        let whole = pages.as_bytes().len();
        match self.output.vmsplice(&[pages], VmspliceOptions::default()) {
            Ok(()) => Ok(whole),
            Err(incomplete) if incomplete.moved > 0 => Ok(incomplete.moved as usize),
            Err(incomplete) => Err(match incomplete.kind() {
                io::ErrorKind::WouldBlock => Errno::AGAIN,
                io::ErrorKind::BrokenPipe => Errno::PIPE,
                _ => Errno::from_io_error(&incomplete.source).unwrap_or(Errno::IO),
            }),
        }
    }

    fn receive(&mut self, message: &mut [u8], at: usize) -> Result<usize, Errno> {
        some(rustix::io::read(&self.input, &mut message[at..]))
    }

    fn never_sleep(&mut self) -> io::Result<()> {
        self.output = Output::new(Arc::clone(&self.fd), Wait::Never);
        without_sleep(&[self.input.as_fd()])
    }

    fn sleep(&mut self, events: PollFlags, ns: Option<u64>) -> Result<(), Errno> {
        sleep([self.input.as_fd(), self.fd.as_fd()], events, ns)
    }

    fn call(&self) -> &'static str {
        "vmsplice"
    }
}
