//! TCP over the loopback device.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::OpenChannel;
use super::unix::of_sockets;
use crate::failure::{TrialError, open_error};

/// Opens a connection over loopback, on a port chosen by the kernel. The listening
/// socket is closed again, and TCP_NODELAY is set.
///
/// # Errors
/// [`TrialError`].
pub fn open() -> Result<OpenChannel, TrialError> {
    const TCP: &str = "a TCP connection over loopback";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(open_error(TCP))?;
    let address = listener.local_addr().map_err(open_error(TCP))?;
    let write_end = TcpStream::connect(address).map_err(open_error(TCP))?;
    let local = write_end.local_addr().map_err(open_error(TCP))?;
    // Another process of this machine may have connected first.
    let read_end = loop {
        let (end, peer) = listener.accept().map_err(open_error(TCP))?;
        if peer == local {
            break end;
        }
    };
    for end in [&write_end, &read_end] {
        end.set_nodelay(true).map_err(open_error(TCP))?;
    }
    let nodelay = write_end.nodelay().map_err(open_error(TCP))?;
    let mut channel = of_sockets(read_end.into(), write_end.into())?;
    channel.granted.nodelay = Some(nodelay);
    Ok(channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_local_with_nodelay() {
        let channel = open().unwrap();
        assert_eq!(channel.granted.nodelay, Some(true));
        let end = TcpStream::from(channel.write_end);
        assert!(end.peer_addr().unwrap().ip().is_loopback());
    }
}
