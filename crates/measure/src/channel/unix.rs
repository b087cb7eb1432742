//! Unix sockets: pairs of three types, and a stream bound to a name.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

use super::OpenChannel;
use super::name::PrivateName;
use crate::failure::{TrialError, open_error, over_limit};
use crate::record::Granted;

/// Bytes of the send buffer that the kernel reserves: the longest message is this
/// much shorter (unix_dgram_sendmsg in net/unix/af_unix.c).
const RESERVED: usize = 32;

/// Creates a pair of connected sockets.
///
/// # Errors
/// [`TrialError`]: not run if a message does not fit into the send buffer.
pub fn open_pair(socket_type: SocketType, message: usize) -> Result<OpenChannel, TrialError> {
    let (read_end, write_end) =
        socketpair(AddressFamily::UNIX, socket_type, SocketFlags::CLOEXEC, None)
            .map_err(open_error("a socket pair"))?;
    let channel = of_sockets(read_end, write_end)?;
    let max = channel.granted.send_buffer_bytes.unwrap_or(0);
    let max = max.saturating_sub(RESERVED);
    if socket_type != SocketType::STREAM && message > max {
        let why = format!("SO_SNDBUF less {RESERVED}; /proc/sys/net/core/wmem_default");
        return Err(over_limit(max, &why));
    }
    Ok(channel)
}

/// Connects a stream through a socket in a private directory, and removes both again.
///
/// # Errors
/// [`TrialError`].
pub fn open_named() -> Result<OpenChannel, TrialError> {
    const SOCKET: &str = "a unix socket with a name";
    let name = PrivateName::new("socket").map_err(open_error(SOCKET))?;
    let (short, _directory) = name.short().map_err(open_error(SOCKET))?;
    let listener = UnixListener::bind(&short).map_err(open_error(SOCKET))?;
    let write_end = UnixStream::connect(&short).map_err(open_error(SOCKET))?;
    let (read_end, _) = listener.accept().map_err(open_error(SOCKET))?;
    of_sockets(read_end.into(), write_end.into())
}

/// Makes a channel of two sockets and records the sizes of their buffers.
pub(super) fn of_sockets(read_end: OwnedFd, write_end: OwnedFd) -> Result<OpenChannel, TrialError> {
    let sizes = |write_end: &OwnedFd, read_end: &OwnedFd| -> rustix::io::Result<Granted> {
        Ok(Granted {
            send_buffer_bytes: Some(sockopt::socket_send_buffer_size(write_end.as_fd())?),
            receive_buffer_bytes: Some(sockopt::socket_recv_buffer_size(read_end.as_fd())?),
            ..Granted::default()
        })
    };
    let granted = sizes(&write_end, &read_end).map_err(open_error("a socket's buffers"))?;
    Ok(OpenChannel {
        write_end,
        read_end,
        granted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;
    use rustix::io::Errno;
    use rustix::net::{SendFlags, send};

    #[test]
    fn the_limit_is_the_largest_message_that_the_kernel_takes() {
        for kind in [SocketType::SEQPACKET, SocketType::DGRAM] {
            let granted = open_pair(kind, 1).unwrap().granted;
            let max = granted.send_buffer_bytes.unwrap() - RESERVED;
            let channel = open_pair(kind, max).unwrap();
            let end = &channel.write_end;
            let mut message = vec![7; max];
            send(end, &message, SendFlags::DONTWAIT).unwrap();
            message.push(7);
            let refused = send(end, &message, SendFlags::DONTWAIT);
            assert_eq!(refused.unwrap_err(), Errno::MSGSIZE);
            match open_pair(kind, max + 1) {
                Err(TrialError::NotRun(not_run)) => assert_eq!(not_run.kind, NotRunKind::Limit),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_named_socket_leaves_no_name() {
        let channel = open_named().unwrap();
        let name = rustix::net::getpeername(channel.write_end).unwrap();
        let name = rustix::net::SocketAddrUnix::try_from(name.unwrap()).unwrap();
        let path = std::path::PathBuf::from(name.path().unwrap().to_str().unwrap());
        assert!(
            !path.exists() && !path.parent().unwrap().exists(),
            "{path:?}"
        );
    }
}
