//! Ends that wait by a descriptor, as in an event loop.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::state::watch;
use crate::common::writers::{KIB, check, fill};
use fastpipe::ring::{self, Consumer, Producer, RingError};
use fastpipe::wait::Wait;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

/// A ring of a page, which was handed over.
fn ring() -> (Producer, Consumer) {
    watch();
    let (here, there) = UnixStream::pair().unwrap();
    let accepting = thread::spawn(move || Consumer::accept(&there).unwrap());
    let producer = Producer::offer(&here, 1).unwrap();
    (producer, accepting.join().unwrap())
}

/// The same, whose ends wait by their descriptors.
fn polled_ring() -> (Producer, Consumer) {
    let (mut producer, mut consumer) = ring();
    producer.set_wait(Wait::Never);
    producer.ready_fd().unwrap();
    consumer.set_wait(Wait::Never);
    consumer.ready_fd().unwrap();
    (producer, consumer)
}

/// Whether `fd` becomes readable within this time.
fn is_ready(fd: impl AsFd, within: Duration) -> bool {
    let limit = Timespec::try_from(within).unwrap();
    loop {
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => {}
            found => return found.unwrap() > 0,
        }
    }
}

/// Waits for `fd`. No wake-up is lost, so it takes no longer than the test may.
fn wait_for(fd: impl AsFd) {
    assert!(is_ready(fd, Duration::from_secs(60)), "a wake-up was lost");
}

fn is_not_ready(fd: impl AsFd) -> bool {
    !is_ready(fd, Duration::ZERO)
}

fn would_block<T>(result: Result<T, Error>) {
    assert_eq!(result.err().map(|e| e.kind()), Some(ErrorKind::WouldBlock));
}

#[test]
fn a_stream_passes_when_both_ends_wait_by_descriptor() {
    const LEN: usize = 1000 * KIB + 13;
    let (mut producer, mut consumer) = polled_ring();
    let producing = thread::spawn(move || {
        let mut at = 0;
        let mut chunk = vec![0; 700];
        while at < LEN {
            let part = &mut chunk[..700.min(LEN - at)];
            fill(part, at as u64);
            match producer.write(part) {
                Ok(n) => at += n,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    wait_for(producer.ready_fd().unwrap());
                }
            }
        }
    });
    let mut at = 0;
    let mut chunk = vec![0; 900];
    loop {
        match consumer.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => {
                check(&chunk[..n], at as u64).unwrap();
                at += n;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                wait_for(consumer.ready_fd().unwrap());
            }
        }
    }
    assert_eq!(at, LEN);
    producing.join().unwrap();
}

#[test]
fn a_descriptor_becomes_readable_once_there_is_what_the_call_wanted() {
    let (mut producer, mut consumer) = polled_ring();
    would_block(consumer.peek(100));
    assert!(is_not_ready(consumer.ready_fd().unwrap()));
    producer.write_all(&[1; 99]).unwrap();
    assert!(is_not_ready(consumer.ready_fd().unwrap()), "too few");
    producer.write_all(&[1]).unwrap();
    wait_for(consumer.ready_fd().unwrap());
    consumer.peek(100).unwrap().release(100);
    // The next call that would block takes that back.
    would_block(consumer.peek(1));
    assert!(is_not_ready(consumer.ready_fd().unwrap()));

    let room = producer.capacity();
    producer.write_all(&vec![2; room]).unwrap();
    would_block(producer.lend(1000));
    consumer.peek(1).unwrap().release(999);
    assert!(
        is_not_ready(producer.ready_fd().unwrap()),
        "too little room"
    );
    consumer.peek(1).unwrap().release(1);
    wait_for(producer.ready_fd().unwrap());
    assert!(producer.lend(1000).unwrap().len() >= 1000);
}

#[test]
fn an_end_that_is_closed_makes_the_other_ones_descriptor_readable() {
    let (producer, mut consumer) = polled_ring();
    would_block(consumer.peek(1));
    drop(producer);
    wait_for(consumer.ready_fd().unwrap());
    assert_eq!(consumer.read(&mut [0]).unwrap(), 0);

    let (mut producer, consumer) = polled_ring();
    let room = producer.capacity();
    producer.write_all(&vec![2; room]).unwrap();
    would_block(producer.lend(1));
    drop(consumer);
    wait_for(producer.ready_fd().unwrap());
    assert_eq!(producer.lend(1).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn nothing_is_sent_while_nobody_waits() {
    let (mut producer, mut consumer) = ring();
    consumer.ready_fd().unwrap();
    for _ in 0..100 {
        producer.write_all(&[1; 64]).unwrap();
        consumer.read_exact(&mut [0; 64]).unwrap();
    }
    assert_eq!(producer.counts().syscalls, 0);
    assert_eq!(consumer.counts().syscalls, 0);
}

#[test]
fn only_ends_that_were_handed_over_have_a_descriptor() {
    let (mut producer, consumer) = ring::pair(1).unwrap();
    let is_unsupported = |result: Result<(), Error>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported);
    };
    is_unsupported(producer.ready_fd().map(drop));
    let mut consumer = Consumer::from_fd(consumer.into_fd().unwrap()).unwrap();
    is_unsupported(consumer.ready_fd().map(drop));

    // The next owner of the producer can't wake the consumer, which says so.
    let (producer, mut consumer) = polled_ring();
    let mut producer = Producer::from_fd(producer.into_fd().unwrap()).unwrap();
    is_unsupported(consumer.peek(1).map(drop));
    producer.write_all(b"last").unwrap();
    consumer.set_wait(Wait::Block);
    assert_eq!(consumer.peek(4).unwrap().len(), 4);
}

#[test]
fn a_descriptor_that_is_asked_for_late_loses_no_wake_up() {
    let (mut producer, mut consumer) = ring();
    consumer.set_wait(Wait::Never);
    // As one writes it: try, and only then ask what to wait for.
    would_block(consumer.peek(5));
    producer.write_all(b"12345").unwrap();
    wait_for(consumer.ready_fd().unwrap());
    assert_eq!(consumer.peek(5).unwrap().len(), 5);
}

#[test]
fn an_abandoned_end_is_an_error_at_once() {
    let (producer, mut consumer) = polled_ring();
    would_block(consumer.peek(1));
    let _ = thread::spawn(move || {
        let _producer = producer;
        std::panic::resume_unwind(Box::new(()));
    })
    .join();
    wait_for(consumer.ready_fd().unwrap());
    let error = consumer.peek(1).map(drop).unwrap_err();
    let error = error.get_ref().and_then(|e| e.downcast_ref::<RingError>());
    assert_eq!(error, Some(&RingError::PeerDied));
}

/// Each change is reported once there (EPOLLET), as to mio.
#[test]
fn the_end_of_the_peer_is_seen_behind_its_last_bytes_when_edges_are_waited_for() {
    let (mut producer, mut consumer) = polled_ring();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    would_block(consumer.peek(100));
    let (flags, data) = (
        epoll::EventFlags::IN | epoll::EventFlags::ET,
        epoll::EventData::new_u64(0),
    );
    epoll::add(&epoll, consumer.ready_fd().unwrap(), data, flags).unwrap();
    // Fewer than it wants, so that only the end rings.
    producer.write_all(b"x").unwrap();
    let ending = thread::spawn(move || {
        let _producer = producer;
        std::panic::resume_unwind(Box::new(()));
    });
    let _ = ending.join();
    wait_for_edge(&epoll);
    assert_eq!(consumer.peek(100).unwrap().len(), 1);
    consumer.peek(1).unwrap().release(1);
    let error = consumer.peek(1).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

fn wait_for_edge(epoll: &OwnedFd) {
    let limit = Timespec::try_from(Duration::from_secs(60)).unwrap();
    let mut events = Vec::with_capacity(1);
    let found = epoll::wait(epoll, spare_capacity(&mut events), Some(&limit));
    assert_eq!(found.unwrap(), 1, "a wake-up was lost");
}
