//! Making a channel: its two ends, before they are handed to the processes.

use std::io;
use std::os::fd::OwnedFd;

use fastpipe::pipe;
use rustix::io::Errno;

use super::{eventfd, fifo, mqueue, ring, tcp, unix};
use crate::case::Case;
use crate::endpoint::spec::ChannelKind;
use crate::record::NotRun;
use crate::session::TrialError;
use pipespeed_base::failure::out_of_descriptors;
use pipespeed_base::size;

/// A channel that nobody uses yet. Whatever name it had is gone already.
#[derive(Debug, Default)]
pub struct Channel {
    /// What the writer gets; none where there is one end only.
    pub write_end: Option<OwnedFd>,
    /// What the reader gets.
    pub read_end: Option<OwnedFd>,
    /// What took effect.
    pub granted: Granted,
}

/// The sizes that a channel got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Granted {
    /// The capacity of a pipe or FIFO.
    pub pipe_bytes: Option<usize>,
    /// SO_SNDBUF of the writer's socket.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF of the reader's socket.
    pub receive_buffer_bytes: Option<usize>,
    /// TCP_NODELAY.
    pub nodelay: Option<bool>,
    /// The messages a message queue holds.
    pub queue_messages: Option<usize>,
}

/// Makes the channel of a case.
///
/// # Errors
/// [`TrialError`].
pub fn open(case: &Case) -> Result<Channel, TrialError> {
    let Some(channel) = case.subject.channel() else {
        return Ok(Channel::default());
    };
    open_kind(
        channel,
        case.subject.buffer_bytes(),
        case.subject.pipe_bytes(),
    )
}

/// Makes a channel for messages of one length, with a pipe of `pipe_bytes` where it
/// has one.
///
/// # Errors
/// [`TrialError`].
pub(crate) fn open_kind(
    channel: ChannelKind,
    message: usize,
    pipe_bytes: Option<usize>,
) -> Result<Channel, TrialError> {
    match channel {
        ChannelKind::Pipe => of_pipe(pipe::create().map_err(cant("a pipe"))?, pipe_bytes),
        ChannelKind::Fifo => of_pipe(fifo::open().map_err(cant("a FIFO"))?, pipe_bytes),
        ChannelKind::SocketPair | ChannelKind::SeqPacket | ChannelKind::Datagram => {
            unix::open_pair(channel, message)
        }
        ChannelKind::Unix => unix::open_named(),
        ChannelKind::Tcp => tcp::open(),
        ChannelKind::MessageQueue => mqueue::open(message),
        ChannelKind::Memory => over_a_socket(),
        ChannelKind::Ring => ring::open(message),
        ChannelKind::Eventfd => eventfd::open(message),
    }
}

/// A socket pair by which the ends agree where the data lies; it does not go
/// over it, so the socket's buffers are not the channel's.
pub(super) fn over_a_socket() -> Result<Channel, TrialError> {
    let channel = unix::open_pair(ChannelKind::SocketPair, 0)?;
    Ok(Channel {
        granted: Granted::default(),
        ..channel
    })
}

fn of_pipe(ends: (OwnedFd, OwnedFd), bytes: Option<usize>) -> Result<Channel, TrialError> {
    let (read_end, write_end) = ends;
    let granted = match bytes {
        Some(bytes) => pipe::set_capacity(&write_end, bytes)
            .map_err(|error| NotRun::refused(error.to_string()))?,
        None => pipe::capacity(&write_end).map_err(cant("a pipe"))?,
    };
    Ok(Channel {
        write_end: Some(write_end),
        read_end: Some(read_end),
        granted: Granted {
            pipe_bytes: Some(granted),
            ..Granted::default()
        },
    })
}

/// A size that a channel can't carry: not a failure, but a fact about it.
pub(crate) fn over_limit(most: usize, why: &str) -> TrialError {
    let reason = format!(
        "a message has at most {} here ({why})",
        if most < 1 << 20 && !most.is_multiple_of(1024) {
            format!("{most} bytes")
        } else {
            size::format(most as u64)
        }
    );
    NotRun::limit(reason).into()
}

/// Distinguishes what this machine refuses from failures.
pub(crate) fn cant<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> TrialError {
    move |error| {
        let error = error.into();
        match Errno::from_io_error(&error) {
            Some(
                Errno::PERM
                | Errno::ACCESS
                | Errno::NOSYS
                | Errno::AFNOSUPPORT
                | Errno::PROTONOSUPPORT
                | Errno::OPNOTSUPP
                | Errno::ADDRNOTAVAIL
                // Without a loopback device, or with one that is down.
                | Errno::NETUNREACH
                | Errno::NETDOWN
                // RLIMIT_FSIZE (ulimit -f).
                | Errno::FBIG,
            ) => NotRun::refused(format!("{what} is not available here: {error}")).into(),
            _ => TrialError::Failed(match out_of_descriptors(&error) {
                Some(hint) => anyhow::anyhow!("{what}: {hint}"),
                None => anyhow::Error::new(error).context(what),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;

    #[test]
    fn what_a_machine_refuses_is_no_failure() {
        let told = |errno: Errno| cant("a thing")(errno);
        for errno in [
            Errno::PERM,
            Errno::NOSYS,
            Errno::ADDRNOTAVAIL,
            Errno::NETUNREACH,
            Errno::NETDOWN,
            Errno::FBIG,
        ] {
            let TrialError::NotRun(not_run) = told(errno) else {
                panic!("{errno}")
            };
            assert_eq!(not_run.kind, NotRunKind::Refused);
            assert!(not_run.reason.contains("a thing"), "{not_run}");
        }
        for errno in [Errno::MFILE, Errno::NOMEM, Errno::IO] {
            assert!(matches!(told(errno), TrialError::Failed(_)), "{errno}");
        }
    }
}
