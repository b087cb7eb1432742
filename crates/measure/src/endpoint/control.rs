//! The conversation between a trial and its endpoint processes.
//!
//! Over a unix socket, a JSON message a line:
//!
//! ```text
//! trial                          endpoint
//!   spec, shared words  ------->
//!                       <-------  Ready | NotRun | Failed
//!   "go"                ------->
//!                       <-------  Done | Failed
//! ```

use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::spec::EndSpec;
use crate::channel::ZerocopyCounts;
use crate::record::{EndCounters, NotRun};

/// What an endpoint says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Everything is set up.
    Ready(Setup),
    /// The machine does not give what the case needs.
    NotRun(NotRun),
    /// The other end has left before the trial was over: what it says of
    /// itself, or how it ended, is the reason.
    Left(String),
    /// Something went wrong.
    Failed(String),
    /// The trial is over.
    Done(Box<Outcome>),
}

/// What took effect at an end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The pieces that the writer sends in turn.
    pub pieces: Option<usize>,
    /// The capacity of a ring in shared memory, in bytes.
    #[serde(default)]
    pub ring_bytes: Option<usize>,
    /// The alignment of the writer's buffers, in bytes.
    pub alignment: Option<usize>,
    /// Bytes of them in huge pages.
    pub huge_bytes: Option<u64>,
    /// How that was shown.
    pub huge_shown_by: Option<String>,
}

/// What an end measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Between the two offsets.
    pub counters: EndCounters,
    /// Rates of the successive parts of the timed part, in GiB/s; the reader's
    /// only.
    pub parts_gib_per_s: Vec<f64>,
    /// What the completions of MSG_ZEROCOPY said; a writer's that uses it.
    #[serde(default)]
    pub zerocopy: Option<ZerocopyCounts>,
    /// When the two readings were taken, in nanoseconds of CLOCK_MONOTONIC: what
    /// a profile of this end keeps its samples of.
    #[serde(default)]
    pub window_ns: (u64, u64),
}

/// The word that starts a trial.
pub const GO: &str = "\"go\"";

/// How many descriptors go with a message at most.
pub const MAX_DESCRIPTORS: usize = 3;

/// One side of the conversation.
#[derive(Debug)]
pub struct Control {
    socket: BufReader<UnixStream>,
}

impl Control {
    /// Over a socket.
    pub fn new(socket: UnixStream) -> Self {
        Control {
            socket: BufReader::new(socket),
        }
    }

    /// Sends the spec and, with it, the descriptor of the shared words.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub fn send_spec(&mut self, spec: &EndSpec, words: BorrowedFd<'_>) -> io::Result<()> {
        self.send_with(spec, &[words])
    }

    /// Receives what [`send_spec`](Self::send_spec) sent.
    ///
    /// # Errors
    /// Those of recvmsg(2); `InvalidData` for anything else than a spec.
    pub fn receive_spec(&mut self) -> io::Result<(EndSpec, OwnedFd)> {
        let (spec, fds) = self.receive_with()?;
        let words = fds.into_iter().next();
        let words =
            words.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no shared words came"));
        Ok((spec, words?))
    }

    /// Sends a message and, with it, descriptors: [`MAX_DESCRIPTORS`] at most.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub fn send_with(
        &mut self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let line = to_line(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
        let sent = sendmsg(
            self.socket.get_ref(),
            &[IoSlice::new(&line)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        self.socket.get_mut().write_all(&line[sent..])
    }

    /// Receives what [`send_with`](Self::send_with) sent, before anything else
    /// is received.
    ///
    /// # Errors
    /// Those of recvmsg(2); `InvalidData` for any other message; EMFILE where this
    /// process may not have the descriptors that came.
    pub fn receive_with<T: DeserializeOwned>(&mut self) -> io::Result<(T, Vec<OwnedFd>)> {
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
        // There is space for all, so what was cut off is what is over the limit
        // (unix(7)).
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

    /// Sends a report.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, report: &impl Serialize) -> io::Result<()> {
        let line = to_line(report)?;
        self.socket.get_mut().write_all(&line)
    }

    /// Sends the word that starts a trial.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send_go(&mut self) -> io::Result<()> {
        self.socket
            .get_mut()
            .write_all(format!("{GO}\n").as_bytes())
    }

    /// Waits for the word that starts a trial.
    ///
    /// # Errors
    /// `UnexpectedEof` if the trial is no more.
    pub fn receive_go(&mut self) -> io::Result<()> {
        let _: String = self.receive()?;
        Ok(())
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other side is no more; `InvalidData` for what is
    /// no message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        self.socket.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

fn to_line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
