//! Files that are no ring, or no ring that is safe to use, are refused.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use crate::common;
use crate::common::skip::skip;
use crate::common::state::watch;
use fastpipe::pipe::page_size;
use fastpipe::ring::{self, Consumer, MAX_ACCEPTED, Producer, RingError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// A file in memory that can be sealed.
fn memfd(more: MemfdFlags) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::ALLOW_SEALING | more;
    // Required with vm.memfd_noexec = 2, unknown before Linux 6.3.
    let sealed = memfd_create("t", flags | MemfdFlags::NOEXEC_SEAL);
    sealed.or_else(|_| memfd_create("t", flags))
}

/// A file with a ring's bytes, of this length and with these seals.
fn copy_of_a_ring(len: usize, seals: SealFlags) -> OwnedFd {
    let (producer, consumer) = ring::pair(1).unwrap();
    let whole = 2 * page_size();
    let mut bytes = vec![0; whole];
    drop(consumer.into_fd().unwrap());
    let file = producer.into_fd().unwrap();
    assert_eq!(pread(&file, &mut bytes, 0).unwrap(), whole);
    let copy = memfd(MemfdFlags::empty()).unwrap();
    pwrite(&copy, &bytes, 0).unwrap();
    ftruncate(&copy, len as u64).unwrap();
    fcntl_add_seals(&copy, seals).unwrap();
    copy
}

fn is_refused(file: OwnedFd, why: &str) {
    let again = file.try_clone().unwrap();
    for error in [
        Producer::from_fd(file).unwrap_err(),
        Consumer::from_fd(again).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

const BOTH: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

#[test]
fn a_faithful_copy_is_a_ring() {
    let file = copy_of_a_ring(2 * page_size(), BOTH);
    Producer::from_fd(file).unwrap();
}

#[test]
fn memory_that_is_no_ring_or_not_safe_is_refused() {
    let page = page_size();
    for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::GROW] {
        is_refused(copy_of_a_ring(2 * page, seals), "not sealed");
    }
    let directory = common::Directory::new();
    let (reader, _writer) = std::io::pipe().unwrap();
    let (socket, _other) = UnixStream::pair().unwrap();
    is_refused(directory.file("f", &[0; 8192]).into(), "not sealed");
    is_refused(File::open("/dev/zero").unwrap().into(), "not sealed");
    is_refused(reader.into(), "not sealed");
    is_refused(socket.into(), "not sealed");
    for len in [0, 1, page - 1, page, 2 * page - 1, 2 * page + 1] {
        is_refused(copy_of_a_ring(len, BOTH), "size");
    }
    // The sizes of rings, but of another capacity.
    for len in [3 * page, 4 * page] {
        is_refused(copy_of_a_ring(len, BOTH), "header");
    }
    // Magic, version, capacity, and positions.
    for (at, bad, why) in [
        (0, 99u64, "header"),
        (8, 99, "header"),
        (16, 99, "header"),
        (128, 4097, "corrupt"),
        (128, u64::MAX, "corrupt"),
        (256, 1, "corrupt"),
    ] {
        let file = copy_of_a_ring(2 * page, BOTH);
        pwrite(&file, &bad.to_ne_bytes(), at).unwrap();
        is_refused(file, why);
    }
}

#[test]
fn memory_of_reserved_huge_pages_is_refused() {
    let Ok(file) = memfd(MemfdFlags::HUGETLB) else {
        skip("no reserved huge pages here");
        return;
    };
    fcntl_add_seals(&file, BOTH).unwrap();
    is_refused(file, "ordinary pages");
}

#[test]
fn memory_that_cannot_be_written_is_refused() {
    let file = copy_of_a_ring(2 * page_size(), BOTH | SealFlags::WRITE);
    assert!(Producer::from_fd(file).is_err());
}

#[test]
fn positions_are_read_after_attaching_and_invalid_one_frees_end() {
    let (producer, _consumer) = ring::pair(1).unwrap();
    let file = producer.as_fd().try_clone_to_owned().unwrap();
    let attach = || Producer::from_fd(file.try_clone().unwrap());
    let set_head = |head: u64| pwrite(&file, &head.to_ne_bytes(), 128).unwrap();
    // Before attaching, the owner may still move the positions, so they are not checked.
    set_head(u64::MAX);
    assert_eq!(attach().unwrap_err().kind(), ErrorKind::ResourceBusy);
    drop(producer.into_fd().unwrap());
    for _ in 0..2 {
        assert_eq!(attach().unwrap_err().kind(), ErrorKind::InvalidData);
    }
    set_head(0);
    attach().unwrap();
}

fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); 4096];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let bytes = [IoSlice::new(bytes)];
    sendmsg(stream, &bytes, &mut control, SendFlags::empty()).unwrap();
}

#[test]
fn an_invalid_offer_is_refused_and_the_other_side_informed() {
    watch();
    let good = copy_of_a_ring(2 * page_size(), BOTH);
    let bad = copy_of_a_ring(2 * page_size(), SealFlags::empty());
    let (own, other) = std::io::pipe().unwrap();
    let (own, other) = (own.as_fd(), other.as_fd());
    let offers: [(&[u8], Vec<BorrowedFd<'_>>); 8] = [
        (b"ringget2", vec![]),
        (b"ringget2", vec![good.as_fd()]),
        (b"ringget2", vec![good.as_fd(), other, own]),
        (b"ringget2", vec![good.as_fd(), own, good.as_fd()]),
        (b"ringget2", vec![bad.as_fd(), own, other]),
        (b"ringput2", vec![good.as_fd(), own, other]),
        (b"GET / HT", vec![good.as_fd(), own, other]),
        (b"ringget2", vec![bad.as_fd(); 100]),
    ];
    for (bytes, fds) in offers {
        let (mut here, there) = UnixStream::pair().unwrap();
        send(&here, bytes, &fds);
        let error = Consumer::accept(&there).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        let mut answer = [0];
        here.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"n");
    }
    // A valid offer is still accepted after these. Surplus descriptors are harmless, and
    // so is one that is no pidfd.
    let (here, there) = UnixStream::pair().unwrap();
    let mut fds = vec![good.as_fd(); 100];
    fds[1..3].copy_from_slice(&[own, other]);
    send(&here, b"ringget2", &fds);
    Consumer::accept(&there).unwrap();
}

/// Such a reader could leave between a look at it and the call.
#[test]
fn an_accepted_end_wakes_a_peer_that_has_left_without_a_signal() {
    watch();
    let good = copy_of_a_ring(2 * page_size(), BOTH);
    let (own, _keeps_own_open) = std::io::pipe().unwrap();
    let (reader, other) = std::io::pipe().unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let fds = [good.as_fd(), own.as_fd(), other.as_fd()];
    send(&here, b"ringget2", &fds);
    let _consumer = Consumer::accept(&there).unwrap();
    drop(reader);
    let mut polled = [PollFd::new(&other, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).unwrap();
    assert!(!polled[0].revents().contains(PollFlags::ERR), "no reader");
}

#[test]
fn a_hang_up_or_an_invalid_answer_is_an_error() {
    watch();
    let (here, there) = UnixStream::pair().unwrap();
    drop(there);
    assert!(Producer::offer(&here, 1).is_err());
    assert!(Producer::accept(&here).is_err());

    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(b"?").unwrap();
    let error = Producer::offer(&here, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(b"ring").unwrap();
    drop(there);
    let error = Producer::accept(&here).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);

    // A peer that never answers.
    let (here, _there) = UnixStream::pair().unwrap();
    let limit = std::time::Duration::from_millis(5);
    here.set_read_timeout(Some(limit)).unwrap();
    let error = Producer::offer(&here, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn only_a_ring_above_the_limit_is_refused() {
    let limits = [
        (2 * MAX_ACCEPTED, None),
        (8192, Some(8191)),
        (8192, Some(8192)),
    ];
    for (capacity, limit) in limits {
        let (here, there) = UnixStream::pair().unwrap();
        let offering = thread::spawn(move || Producer::offer(&here, capacity));
        let accepted = match limit {
            Some(limit) => Consumer::accept_up_to(&there, limit),
            None => Consumer::accept(&there),
        };
        if limit == Some(capacity) {
            assert_eq!(accepted.unwrap().capacity(), capacity);
            offering.join().unwrap().unwrap();
            continue;
        }
        let error = accepted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let (offered, limit) = (capacity, limit.unwrap_or(MAX_ACCEPTED));
        assert_eq!(
            error.get_ref().unwrap().downcast_ref(),
            Some(&RingError::TooLarge { offered, limit })
        );
        let refused = offering.join().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
