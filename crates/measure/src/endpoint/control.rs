//! The protocol between a session and its processes.
//!
//! JSON messages over a unix socket, one per line:
//!
//! ```text
//! session                             process
//!   processor, spec, descriptors  ---->
//!                                <----  Ready | NotRun | PeerGone | Failed
//!   "go"                         ---->
//!                                <----  Done | NotRun | PeerGone | Failed
//! ```

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, anyhow};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::record::NotRun;
use pipespeed_base::size;

/// What a process of a trial reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessReport<S, O> {
    /// It is set up and waits for the start.
    Ready(S),
    /// The machine does not provide what the case needs.
    NotRun(NotRun),
    /// Its peer was gone before the trial was over. The peer's failure is the cause.
    PeerGone(String),
    /// Something went wrong.
    Failed(String),
    /// It is done.
    Done(Box<O>),
}

/// The message that starts a trial.
pub(crate) const GO: &str = "go";

/// A message carries at most this many descriptors.
const MAX_DESCRIPTORS: usize = 3;

/// One end of the control socket.
#[derive(Debug)]
pub(crate) struct Control {
    socket: BufReader<UnixStream>,
}

impl Control {
    /// An end that uses this socket.
    pub(crate) fn new(socket: UnixStream) -> Self {
        Control {
            socket: BufReader::new(socket),
        }
    }

    /// Sends a message with at most [`MAX_DESCRIPTORS`] descriptors.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub(crate) fn send_with(
        &mut self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let sent = sendmsg(
            self.socket.get_ref(),
            &[IoSlice::new(&line)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        self.socket.get_mut().write_all(&line[sent..])
    }

    /// Receives the message that [`send_with`](Self::send_with) sent, which must be the
    /// first one received.
    ///
    /// # Errors
    /// Those of recvmsg(2); `InvalidData` for any other message; EMFILE if the
    /// descriptors exceed this process's limit.
    pub(crate) fn receive_with<T: DeserializeOwned>(&mut self) -> io::Result<(T, Vec<OwnedFd>)> {
        let mut line = vec![0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let message = recvmsg(
            self.socket.get_ref(),
            &mut [IoSliceMut::new(&mut line)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        line.truncate(message.bytes);
        // There is space for all descriptors, so if some are missing, the limit was
        // reached (unix(7)).
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE.into());
        }
        let mut received = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                received.extend(fds);
            }
        }
        if line.last() != Some(&b'\n') {
            self.socket.read_until(b'\n', &mut line)?;
        }
        Ok((serde_json::from_slice(&line)?, received))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Reports that this process is ready, and waits for the start of the trial. All large
    /// buffers must be mapped by then.
    ///
    /// # Errors
    /// Too little memory is left for the trial; `UnexpectedEof` if the session is gone;
    /// those of the socket.
    pub(crate) fn wait_for_start(&mut self, setup: impl Serialize) -> anyhow::Result<()> {
        require_memory()?;
        self.send(&ProcessReport::<_, ()>::Ready(setup))?;
        let _: String = self.receive().context("the session is gone")?;
        Ok(())
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other side is gone; `InvalidData` for a malformed
    /// message.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        self.socket.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

/// Checks that memory is left for what is allocated from now on, mostly the results: Rust
/// ends a process whose allocation fails before it can report anything.
fn require_memory() -> anyhow::Result<()> {
    const BYTES: usize = 1 << 20;
    let reserved = Vec::<u8>::new().try_reserve_exact(BYTES);
    reserved.map_err(|_| {
        let bytes = size::format(BYTES as u64);
        anyhow!("no memory for the results: {bytes} are needed besides the buffers")
    })
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}
