//! Creates the two ends of a channel, before they are passed to the processes.

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

/// A new channel. If it had a name, the name has been removed.
#[derive(Debug, Default)]
pub struct Channel {
    /// The writer's descriptor.
    pub write_end: Option<OwnedFd>,
    /// The reader's descriptor.
    pub read_end: Option<OwnedFd>,
    /// The actual sizes and settings.
    pub granted: Granted,
}

/// The actual sizes and settings of a channel.
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
    /// The capacity of a message queue, in messages.
    pub queue_messages: Option<usize>,
}

/// Creates the channel of a case.
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

/// Creates a channel for messages of one length. A pipe or FIFO gets a capacity of
/// `pipe_bytes` if given.
///
/// # Errors
/// [`TrialError`].
pub(crate) fn open_kind(
    channel: ChannelKind,
    message: usize,
    pipe_bytes: Option<usize>,
) -> Result<Channel, TrialError> {
    match channel {
        ChannelKind::Pipe => of_pipe(pipe::create().map_err(open_error("a pipe"))?, pipe_bytes),
        ChannelKind::Fifo => of_pipe(fifo::open().map_err(open_error("a FIFO"))?, pipe_bytes),
        ChannelKind::SocketPair | ChannelKind::SeqPacket | ChannelKind::Datagram => {
            unix::open_pair(channel, message)
        }
        ChannelKind::Unix => unix::open_named(),
        ChannelKind::Tcp => tcp::open(),
        ChannelKind::MessageQueue => mqueue::open(message),
        ChannelKind::Ring => ring::open(message),
        ChannelKind::Eventfd => eventfd::open(message),
    }
}

/// Creates a socket pair over which the ends exchange descriptors. The data does not pass
/// through it, so its buffer sizes are not recorded.
pub(super) fn auxiliary_socket() -> Result<Channel, TrialError> {
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
        None => pipe::capacity(&write_end).map_err(open_error("a pipe"))?,
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

/// The [`NotRun`] of a message that is too long for a channel.
pub(crate) fn over_limit(max: usize, reason: &str) -> TrialError {
    let message = format!(
        "a message has at most {} here ({reason})",
        if max < 1 << 20 && !max.is_multiple_of(1024) {
            format!("{max} bytes")
        } else {
            size::format(max as u64)
        }
    );
    NotRun::limit(message).into()
}

/// Converts an error of creating `what`: [`NotRun`] if this machine refuses it, else a
/// failure.
pub(crate) fn open_error<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> TrialError {
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
    fn refused_calls_are_not_failures() {
        let error = |errno: Errno| open_error("a thing")(errno);
        for errno in [
            Errno::PERM,
            Errno::NOSYS,
            Errno::ADDRNOTAVAIL,
            Errno::NETUNREACH,
            Errno::NETDOWN,
            Errno::FBIG,
        ] {
            let TrialError::NotRun(not_run) = error(errno) else {
                panic!("{errno}")
            };
            assert_eq!(not_run.kind, NotRunKind::Refused);
            assert!(not_run.reason.contains("a thing"), "{not_run}");
        }
        for errno in [Errno::MFILE, Errno::NOMEM, Errno::IO] {
            assert!(matches!(error(errno), TrialError::Failed(_)), "{errno}");
        }
    }
}
