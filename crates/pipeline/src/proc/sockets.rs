//! Sockets and their peers, as the kernel lists them (sock_diag(7)).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr as InetAddress};
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags as InetStates,
};
use netlink_packet_sock_diag::unix::{
    ShowFlags, StateFlags as UnixStates, UnixRequest, UnixResponse,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket as Netlink, SocketAddr as NetlinkAddress};
use rustix::net::sockopt::{Timeout, socket_timeout, tcp_user_timeout};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};

/// Messages of a dump arrive in parts of at most this length (NLMSG_GOODSIZE and larger).
const MAX_PART: usize = 64 << 10;

/// Whether calls on a process's socket have this timeout (socket(7), TCP_USER_TIMEOUT in tcp(7)). The socket is
/// duplicated for an instant (pidfd_getfd(2)); false if that is refused.
pub(crate) fn has_timeout(pid: i32, fd: i32, timeout: Timeout) -> bool {
    let duplicate = || {
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()
    };
    let has = |socket: OwnedFd| {
        let sends = matches!(timeout, Timeout::Send);
        socket_timeout(&socket, timeout).is_ok_and(|time| time.is_some())
            || sends && tcp_user_timeout(&socket).is_ok_and(|time| time > 0)
    };
    duplicate().is_some_and(has)
}

/// The other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SocketPeer {
    /// A socket on this machine, by its inode number.
    Local(u64),
    /// One that is elsewhere, or not known.
    Remote(InetAddress),
    /// None: it listens, or is not connected.
    None,
}

/// A socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketState {
    /// Its other end.
    pub peer: SocketPeer,
    /// The address of the other end, unless it is of a unix socket.
    pub connected_to: Option<InetAddress>,
    /// Bytes that were received and not read: of datagrams those of the first one only.
    pub unread: u64,
    /// Whether it carries datagrams.
    pub has_datagrams: bool,
}

/// Sockets by inode number, which no two sockets of a machine share.
pub type Sockets = BTreeMap<u64, SocketState>;

/// To a socket that more send to, as that of a system's log, none of them is the stage before.
const MAX_SENDERS: usize = 4;

/// The sockets that have unread datagrams of connected ones and are connected with none themselves, as that
/// of a slow server; without those of many senders.
pub fn receivers(sockets: &Sockets) -> BTreeSet<u64> {
    let mut senders: BTreeMap<u64, usize> = BTreeMap::new();
    for socket in sockets.values() {
        if let SocketPeer::Local(peer) = socket.peer {
            *senders.entry(peer).or_default() += 1;
        }
    }
    let is_server = |inode: &u64| {
        let socket = sockets.get(inode);
        socket.is_some_and(|socket| {
            socket.has_datagrams && socket.unread > 0 && socket.peer == SocketPeer::None
        })
    };
    let few = senders
        .into_iter()
        .filter(|(_, count)| *count <= MAX_SENDERS);
    few.map(|(inode, _)| inode).filter(is_server).collect()
}

/// Lists all unix and TCP sockets of the network namespace of this process.
///
/// # Errors
/// Those of netlink(7): the kernel lacks the family, or a filter refuses it. `QuotaExceeded` if there are
/// more than `max`.
pub fn list(max: usize) -> io::Result<Sockets> {
    let mut netlink = Netlink::new(NETLINK_SOCK_DIAG)?;
    netlink.bind_auto()?;
    netlink.connect(&NetlinkAddress::new(0, 0))?;
    let mut sockets = Sockets::new();
    let request = UnixRequest {
        state_flags: UnixStates::all(),
        inode: 0,
        show_flags: ShowFlags::PEER | ShowFlags::RQLEN,
        cookie: [0xff; 8],
    };
    dump(&netlink, SockDiagMessage::UnixRequest(request), |message| {
        if let SockDiagMessage::UnixResponse(response) = message {
            sockets.insert(response.header.inode.into(), unix_socket(response));
        }
        sockets.len() <= max
    })?;
    let mut connections = Vec::new();
    for (family, socket_id) in [
        (AF_INET, SocketId::new_v4()),
        (AF_INET6, SocketId::new_v6()),
    ] {
        let request = InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: InetStates::all() - InetStates::LISTEN - InetStates::TIME_WAIT,
            socket_id,
        };
        // A kernel without IPv6 refuses.
        let listed = dump(&netlink, SockDiagMessage::InetRequest(request), |message| {
            if let SockDiagMessage::InetResponse(response) = message {
                connections.push((**response).clone());
            }
            connections.len() <= max
        });
        let is_too_long = |error: &io::Error| error.kind() == io::ErrorKind::QuotaExceeded;
        if family == AF_INET || listed.as_ref().is_err_and(is_too_long) {
            listed?;
        }
    }
    sockets.extend(inet_sockets(&connections));
    Ok(sockets)
}

fn unix_socket(response: &UnixResponse) -> SocketState {
    SocketState {
        peer: response
            .peer()
            .filter(|inode| *inode != 0)
            .map_or(SocketPeer::None, |inode| SocketPeer::Local(inode.into())),
        connected_to: None,
        unread: response.receive_queue_size().unwrap_or(0).into(),
        has_datagrams: i32::from(response.header.kind) == libc::SOCK_DGRAM,
    }
}

/// A connection of this machine to itself has two sockets, with the addresses exchanged.
fn inet_sockets(connections: &[InetResponse]) -> Sockets {
    let address = |ip: IpAddr, port: u16| InetAddress::new(ip.to_canonical(), port);
    let own = |id: &SocketId| address(id.source_address, id.source_port);
    let other = |id: &SocketId| address(id.destination_address, id.destination_port);
    let by_addresses: BTreeMap<(InetAddress, InetAddress), u64> = connections
        .iter()
        .filter(|connection| connection.header.inode != 0)
        .map(|connection| {
            let id = &connection.header.socket_id;
            ((own(id), other(id)), connection.header.inode.into())
        })
        .collect();
    let sockets = connections.iter().map(|connection| {
        let id = &connection.header.socket_id;
        let peer = by_addresses.get(&(other(id), own(id)));
        let socket = SocketState {
            peer: peer.map_or(SocketPeer::Remote(other(id)), |inode| {
                SocketPeer::Local(*inode)
            }),
            connected_to: Some(other(id)),
            unread: connection.header.recv_queue.into(),
            has_datagrams: false,
        };
        (u64::from(connection.header.inode), socket)
    });
    // One that no process has any more has no inode.
    sockets.filter(|(inode, _)| *inode != 0).collect()
}

/// Sends a request for a list, and hands each message of the answer to `each`, which says whether more
/// are wanted.
fn dump(
    netlink: &Netlink,
    request: SockDiagMessage,
    mut each: impl FnMut(&SockDiagMessage) -> bool,
) -> io::Result<()> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut request = NetlinkMessage::new(header, request.into());
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    netlink.send(&bytes, 0)?;
    let mut part = vec![0; MAX_PART];
    loop {
        let (len, sender) = netlink.recv_from(&mut &mut part[..], 0)?;
        // The owner of a namespace could send messages of its own.
        if sender.port_number() != 0 {
            continue;
        }
        let mut rest = &part[..len.min(MAX_PART)];
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            match message.payload {
                NetlinkPayload::InnerMessage(message) if !each(&message) => {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
            // Messages begin at multiples of four bytes.
            let next = (message.header.length as usize).next_multiple_of(4);
            if next == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            rest = rest.get(next..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::time::Duration;

    use pipespeed_testing::procs::eventually;
    use rustix::fs::fstat;
    use rustix::process::getpid;

    use super::*;

    fn inode(fd: impl AsFd) -> u64 {
        fstat(fd).unwrap().st_ino
    }

    #[test]
    fn a_timeout_of_a_socket_is_seen_on_its_side() {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_secs(9))).unwrap();
        let has = |socket: &UnixStream, timeout| {
            has_timeout(getpid().as_raw_pid(), socket.as_raw_fd(), timeout)
        };
        let duplicate = rustix::process::pidfd_open(getpid(), PidfdFlags::empty())
            .and_then(|own| pidfd_getfd(own, one.as_raw_fd(), PidfdGetfdFlags::empty()));
        if duplicate.is_err() {
            return pipespeed_testing::skip("pidfd_getfd(2) is refused");
        }
        assert!(has(&one, Timeout::Recv));
        assert!(!has(&one, Timeout::Send) && !has(&other, Timeout::Recv));
    }

    #[test]
    fn both_ends_of_a_pair_name_each_other_and_their_unread_bytes() {
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(&[0; 1000]).unwrap();
        let sockets = list(usize::MAX).unwrap();
        let [of_a, of_b] = [&a, &b].map(|socket| sockets[&inode(socket)]);
        assert_eq!(of_a.peer, SocketPeer::Local(inode(&b)));
        assert_eq!(of_b.peer, SocketPeer::Local(inode(&a)));
        assert_eq!((of_a.unread, of_b.unread), (0, 1000));
        drop(b);
        // A program that another test starts has it, too, until its execve(2).
        let is_alone = || list(usize::MAX).unwrap()[&inode(&a)].peer == SocketPeer::None;
        eventually(|| is_alone().then_some(())).unwrap();
    }

    #[test]
    fn server_of_few_senders_of_datagrams_is_their_receiver() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut clients = Vec::new();
        for count in 1..=MAX_SENDERS + 1 {
            let client = UnixDatagram::unbound().unwrap();
            client.connect(&path).unwrap();
            client.send(b"a").unwrap();
            clients.push(client);
            let found = receivers(&list(usize::MAX).unwrap());
            assert_eq!(found.contains(&inode(&server)), count <= MAX_SENDERS);
        }
    }

    #[test]
    fn a_connection_to_this_machine_has_two_sockets() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            client.write_all(&[0; 100]).unwrap();
            // The bytes have arrived once they can be peeked at.
            server.peek(&mut [0; 100]).unwrap();
            let sockets = list(usize::MAX).unwrap();
            let [of_client, of_server] = [&client, &server].map(|socket| sockets[&inode(socket)]);
            assert_eq!(
                of_client.peer,
                SocketPeer::Local(inode(&server)),
                "{address}"
            );
            assert_eq!(
                of_server.peer,
                SocketPeer::Local(inode(&client)),
                "{address}"
            );
            assert_eq!(of_server.unread, 100, "{address}");
            assert!(!sockets.contains_key(&inode(&listener)), "{address}");
        }
    }
}
