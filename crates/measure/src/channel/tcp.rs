//! TCP over the loopback device.

mod zerocopy;

pub use self::zerocopy::ZerocopySends;
pub(crate) use self::zerocopy::pieces;

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::open::{Channel, cant};
use super::unix::of_sockets;
use crate::session::TrialError;

/// A connection from this machine to itself, on a port of the kernel's choice
/// that is closed again at once. Small messages leave at once (TCP_NODELAY).
///
/// # Errors
/// [`TrialError`].
pub fn open() -> Result<Channel, TrialError> {
    let cant = || cant("a TCP connection over loopback");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cant())?;
    let address = listener.local_addr().map_err(cant())?;
    let write_end = TcpStream::connect(address).map_err(cant())?;
    let ours = write_end.local_addr().map_err(cant())?;
    // Any process of this machine may have come first.
    let read_end = loop {
        let (end, peer) = listener.accept().map_err(cant())?;
        if peer == ours {
            break end;
        }
    };
    for end in [&write_end, &read_end] {
        end.set_nodelay(true).map_err(cant())?;
    }
    let nodelay = write_end.nodelay().map_err(cant())?;
    let mut channel = of_sockets(read_end.into(), write_end.into())?;
    channel.granted.nodelay = Some(nodelay);
    Ok(channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_to_this_machine_and_does_not_delay() {
        let channel = open().unwrap();
        assert_eq!(channel.granted.nodelay, Some(true));
        let end = TcpStream::from(channel.write_end.unwrap());
        assert!(end.peer_addr().unwrap().ip().is_loopback());
    }
}
