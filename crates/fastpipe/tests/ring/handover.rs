//! Passing an end on, over a socket and by a descriptor.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use crate::common::state::{until_asleep, watch};
use fastpipe::ring::{Consumer, Peer, PeerState, Producer};

/// Long enough for an end to check for its peer's death several times.
const LONG_ENOUGH: Duration = Duration::from_millis(700);

/// A ring whose consumer was received over a socket of which only the two ends have
/// descriptors.
fn offered_by_producer() -> (Producer, Consumer) {
    watch();
    let (here, there) = UnixStream::pair().unwrap();
    let accepting = thread::spawn(move || Consumer::accept(&there).unwrap());
    let producer = Producer::offer(&here, 1).unwrap();
    (producer, accepting.join().unwrap())
}

fn offered_by_consumer() -> (Producer, Consumer) {
    watch();
    let (here, there) = UnixStream::pair().unwrap();
    let accepting = thread::spawn(move || Producer::accept(&there).unwrap());
    let consumer = Consumer::offer(&here, 1).unwrap();
    (accepting.join().unwrap(), consumer)
}

fn give_on_consumer(consumer: Consumer) -> Consumer {
    Consumer::from_fd(consumer.into_fd().unwrap()).unwrap()
}

fn give_on_producer(producer: Producer) -> Producer {
    Producer::from_fd(producer.into_fd().unwrap()).unwrap()
}

#[test]
fn consumer_passed_on_is_not_dead_with_its_first_owner() {
    for (mut producer, consumer) in [offered_by_producer(), offered_by_consumer()] {
        let mut consumer = give_on_consumer(consumer);
        assert_eq!(producer.peer_state().unwrap(), PeerState::Running);
        producer.set_timeout(Some(LONG_ENOUGH));
        let data = vec![b'x'; producer.capacity()];
        producer.write_all(&data).unwrap();
        let error = producer.lend(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let mut got = vec![0; data.len()];
        consumer.read_exact(&mut got).unwrap();
        assert_eq!(got, data);
        drop(consumer);
        assert_eq!(producer.lend(1).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn producer_passed_on_is_not_dead_with_its_first_owner() {
    for (producer, mut consumer) in [offered_by_producer(), offered_by_consumer()] {
        let mut producer = give_on_producer(producer);
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Running);
        consumer.set_timeout(Some(LONG_ENOUGH));
        let error = consumer.peek(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        producer.write_all(b"last").unwrap();
        drop(producer);
        let mut got = String::new();
        consumer.read_to_string(&mut got).unwrap();
        assert_eq!(got, "last");
    }
}

#[test]
fn the_next_owner_of_an_end_can_be_watched() {
    let (mut producer, consumer) = offered_by_producer();
    let (first, firsts) = UnixStream::pair().unwrap();
    let (second, seconds) = UnixStream::pair().unwrap();
    let consumer = give_on_consumer(consumer);
    producer.watch(Peer::socket(&first).unwrap());
    let consumer = give_on_consumer(consumer);
    producer.watch(Peer::socket(&second).unwrap());
    drop(firsts);
    assert_eq!(producer.peer_state().unwrap(), PeerState::Running);
    drop(seconds);
    assert_eq!(producer.peer_state().unwrap(), PeerState::Died);
    // That is not the death of the next owner either.
    let _consumer = give_on_consumer(consumer);
    assert_eq!(producer.peer_state().unwrap(), PeerState::Running);
}

#[test]
fn owner_that_dies_before_it_takes_its_end_is_noticed() {
    let (mut producer, consumer) = offered_by_producer();
    let _on_its_way = consumer.into_fd().unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    producer.watch(Peer::socket(&here).unwrap());
    assert_eq!(producer.peer_state().unwrap(), PeerState::Running);
    drop(there);
    assert_eq!(producer.peer_state().unwrap(), PeerState::Died);
}

/// Two streams, the first of them non-blocking, and a thread that calls `other`
/// with the second as soon as the calling thread sleeps.
fn with_non_blocking<T: Send + 'static>(
    other: fn(&UnixStream) -> T,
) -> (UnixStream, thread::JoinHandle<T>) {
    watch();
    let caller = rustix::thread::gettid();
    let (here, there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    let other = thread::spawn(move || {
        until_asleep(caller);
        other(&there)
    });
    (here, other)
}

#[test]
fn offer_on_a_non_blocking_stream_waits_for_the_answer() {
    let (here, accepting) = with_non_blocking(|there| Consumer::accept(there).unwrap());
    let mut producer = Producer::offer(&here, 1).unwrap();
    producer.write_all(b"through").unwrap();
    drop(producer);
    let mut got = String::new();
    accepting.join().unwrap().read_to_string(&mut got).unwrap();
    assert_eq!(got, "through");
}

#[test]
fn accepting_on_a_non_blocking_stream_waits_for_the_offer() {
    let (here, offering) = with_non_blocking(|there| Producer::offer(there, 1).unwrap());
    let mut consumer = Consumer::accept(&here).unwrap();
    drop(offering.join().unwrap());
    assert_eq!(consumer.read(&mut [0]).unwrap(), 0);
}

#[test]
fn waiting_on_non_blocking_stream_ends_with_its_read_timeout() {
    watch();
    let (here, _there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    here.set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let error = Consumer::accept(&here).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let error = Producer::offer(&here, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn an_offer_accepted_too_late_is_an_error() {
    watch();
    let (here, there) = UnixStream::pair().unwrap();
    here.set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let error = Producer::offer(&here, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let mut consumer = Consumer::accept(&there).unwrap();
    consumer.set_timeout(Some(LONG_ENOUGH));
    let error = consumer.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}
