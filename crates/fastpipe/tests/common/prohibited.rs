//! TCP connections that fail with an error that looks like the refusal of a system call.

use super::skip::skip;
use std::io::{Error, Write};
use std::mem::size_of;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::state::until;

/// Bytes that such a connection brings before it fails.
pub const LEN: usize = 5000;

/// Errors that these connections report, once.
pub const ERROR: i32 = libc::EOPNOTSUPP;

fn set<T>(fd: &impl AsRawFd, level: i32, option: i32, value: T) -> std::io::Result<()> {
    let (value, len) = ((&raw const value).cast(), size_of::<T>() as u32);
    // SAFETY: valid for reading a T.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value, len) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Returns the sequence number of the next byte sent (TCP_REPAIR).
fn next_sequence(stream: &TcpStream) -> std::io::Result<u32> {
    const SEND_QUEUE: i32 = 2;
    set(stream, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1)?;
    set(
        stream,
        libc::IPPROTO_TCP,
        libc::TCP_REPAIR_QUEUE,
        SEND_QUEUE,
    )?;
    let (mut sequence, mut len) = (0_u32, size_of::<u32>() as u32);
    // SAFETY: valid for writing a u32 and its length.
    let got = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUEUE_SEQ,
            (&raw mut sequence).cast(),
            &raw mut len,
        )
    };
    assert_eq!(got, 0, "{}", Error::last_os_error());
    // Without a window probe.
    set(stream, libc::IPPROTO_TCP, libc::TCP_REPAIR, -1)?;
    Ok(sequence)
}

/// Sends an ICMP message to this host: the segment with `sequence` has met "source route failed".
fn send_icmp(stream: &TcpStream, sequence: u32) -> std::io::Result<()> {
    let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (local, remote) else {
        unreachable!("IPv4 was asked for");
    };
    let mut message = vec![3, 5, 0, 0, 0, 0, 0, 0];
    // The headers of the segment.
    message.extend([0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0]);
    message.extend(local.ip().octets());
    message.extend(remote.ip().octets());
    message.extend(local.port().to_be_bytes());
    message.extend(remote.port().to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend([0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let words = message.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = !(((sum >> 16) + (sum & 0xffff)) as u16);
    message[2..4].copy_from_slice(&sum.to_be_bytes());

    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers.
    let raw = unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_ICMP) };
    if raw < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let raw = unsafe { OwnedFd::from_raw_fd(raw) };
    rustix::net::sendto(&raw, &message, rustix::net::SendFlags::empty(), &local)?;
    Ok(())
}

/// Returns connections that bring [`LEN`] bytes and then time out with [`ERROR`], and their peers, which
/// have to live on. `None` where that is not permitted.
pub fn failing_connections<const N: usize>() -> Option<([TcpStream; N], Vec<TcpStream>)> {
    let mut peers = Vec::new();
    let made = [(); N].map(|()| failing_connection(&mut peers));
    if let Some(Err(error)) = made.iter().find(|made| made.is_err()) {
        skip(format!("no ICMP and no TCP_REPAIR here: {error}"));
        return None;
    }
    Some((made.map(Result::unwrap), peers))
}

fn failing_connection(peers: &mut Vec<TcpStream>) -> std::io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let mut peer = listener.accept()?.0;
    peer.write_all(&[1; LEN])?;
    until("the bytes have arrived", || {
        rustix::io::ioctl_fionread(&stream).unwrap() == LEN as u64
    });
    let sequence = next_sequence(&stream)?;
    // From now on the peer gets nothing.
    let mut nothing = [libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    }];
    let filter = libc::sock_fprog {
        len: 1,
        filter: nothing.as_mut_ptr(),
    };
    set(&peer, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, filter)?;
    set(&stream, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 300)?;
    (&stream).write_all(b"x")?;
    send_icmp(&stream, sequence)?;
    peers.push(peer);
    Ok(stream)
}
