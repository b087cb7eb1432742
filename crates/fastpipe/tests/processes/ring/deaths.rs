//! The death of a ring's peer is noticed soon, and distinguished from a closed end.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::WAITS;
use crate::common::process::{in_child, is_child};
use crate::common::rings::{
    CAPACITY, WAYS, Way, child_consumer, child_producer, consume, error_of, kill, name, park,
    produce, with_child_consumer, with_child_producer,
};
use crate::common::skip::skip;
use crate::common::state::{until, watch};
use crate::common::writers::KIB;
use fastpipe::ring::{self, Consumer, Peer, PeerState, Producer, RingError};
use fastpipe::wait::Wait;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Calls `try_out` for each way and wait, with a thread for each wait: an end checks for
/// deaths every quarter of a second, and these times should overlap.
fn at_once(try_out: impl Fn(Way, Wait) + Sync) {
    std::thread::scope(|scope| {
        for wait in WAITS {
            let try_out = &try_out;
            scope.spawn(move || WAYS.map(|way| try_out(way, wait)));
        }
    });
}

#[test]
fn a_killed_producer_leaves_its_bytes_followed_by_an_error() {
    const NAME: &str = "a_killed_producer_leaves_its_bytes_followed_by_an_error";
    const LITTLE: usize = 30_001;
    for way in WAYS {
        if is_child(&name("little", way)) {
            produce(&mut child_producer(way), LITTLE).unwrap();
            unreachable!("it closed its end");
        }
        if is_child(&name("little, kept", way)) {
            let mut producer = child_producer(way);
            produce(&mut producer, LITTLE).unwrap();
            // Lent, but not committed.
            producer.lend(1000).unwrap().fill(0..1000, b'?');
            park();
        }
        if is_child(&name("without end", way)) {
            let mut producer = child_producer(way);
            produce(&mut producer, usize::MAX).unwrap();
        }
    }
    at_once(|way, wait| {
        // Killed while the consumer waits for more.
        let (mut consumer, child) = with_child_producer(NAME, "little, kept", way);
        consumer.set_wait(wait);
        // Killed after everything is committed.
        assert_eq!(consumer.peek(LITTLE).unwrap().len(), LITTLE);
        let killing = kill(child, wait != Wait::Spin);
        let (at, end) = consume(&mut consumer);
        killing.join().unwrap();
        assert_eq!(at, LITTLE);
        let error = end.unwrap_err();
        assert_eq!(error_of(&error), Some(RingError::PeerDied));
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        // The error is permanent.
        let again = consumer.read(&mut [0]).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::ConnectionReset);
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Died);

        // Killed while it produces.
        let (mut consumer, child) = with_child_producer(NAME, "without end", way);
        consumer.set_wait(wait);
        consumer.peek(1).unwrap().release(0);
        let killing = kill(child, false);
        let (at, end) = consume(&mut consumer);
        killing.join().unwrap();
        assert!(at > 0);
        assert_eq!(error_of(&end.unwrap_err()), Some(RingError::PeerDied));
    });
}

#[test]
fn an_end_that_never_waits_notices_a_death() {
    const NAME: &str = "an_end_that_never_waits_notices_a_death";
    for way in WAYS {
        if is_child(&name("idle", way)) {
            let _producer = child_producer(way);
            park();
        }
    }
    for way in WAYS {
        let (mut consumer, child) = with_child_producer(NAME, "idle", way);
        consumer.set_wait(Wait::Never);
        let would_block = consumer.read(&mut [0]).unwrap_err();
        assert_eq!(would_block.kind(), ErrorKind::WouldBlock);
        kill(child, false).join().unwrap();
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Died);
        until("it is noticed", || {
            consumer.read(&mut [0]).unwrap_err().kind() == ErrorKind::ConnectionReset
        });
    }
}

/// Time that this thread was runnable but did not run: the second number of schedstat, in
/// nanoseconds (proc(5)). Zero if the kernel does not count it.
fn kept_waiting() -> Duration {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .map_or(Duration::ZERO, Duration::from_nanos)
}

/// Checks that waiting ends within a second after the peer was killed, as documented. The
/// library checks every quarter of a second, which leaves a margin for slow machines.
///
/// Two times that a busy machine may add do not count: from the signal to the peer's
/// death, and while this thread is runnable but not running.
fn ends_within_a_second<T>(child: Child, wait: Wait, waiting: impl FnOnce() -> Result<T, Error>) {
    let killing = kill(child, wait != Wait::Spin);
    let kept_before = kept_waiting();
    let ended = waiting();
    let noticed = Instant::now();
    let kept = kept_waiting().saturating_sub(kept_before);
    let death = killing.join().unwrap();
    assert_eq!(error_of(&ended.err().unwrap()), Some(RingError::PeerDied));
    let took = noticed.saturating_duration_since(death.killed);
    let dying = death.dead - death.killed;
    assert!(
        took.saturating_sub(dying + kept) < Duration::from_secs(1),
        "{wait:?}: {took:?} after the kill; it took {dying:?} to die, and we were kept waiting for {kept:?}"
    );
}

#[test]
fn killed_peer_is_noticed_within_a_second_under_every_wait() {
    const NAME: &str = "killed_peer_is_noticed_within_a_second_under_every_wait";
    for way in WAYS {
        if is_child(&name("producer", way)) {
            let _producer = child_producer(way);
            park();
        }
        if is_child(&name("consumer", way)) {
            let _consumer = child_consumer(way);
            park();
        }
    }
    for way in WAYS {
        for wait in WAITS {
            let (mut consumer, child) = with_child_producer(NAME, "producer", way);
            consumer.set_wait(wait);
            ends_within_a_second(child, wait, || consumer.peek(1).map(|view| view.len()));

            let (mut producer, child) = with_child_consumer(NAME, "consumer", way);
            producer.set_wait(wait);
            producer.write_all(&[0; CAPACITY]).unwrap();
            ends_within_a_second(child, wait, || producer.lend(1).map(|slot| slot.len()));
            // The error is permanent.
            let again = producer.lend(1).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::ConnectionReset);
        }
    }
}

#[test]
fn a_peer_that_closes_is_dead_after_its_bytes() {
    watch();
    for wait in WAITS {
        let (here, there) = UnixStream::pair().unwrap();
        let accepting = std::thread::spawn(move || {
            let producer = Producer::accept(&there).unwrap();
            (producer, there)
        });
        let mut consumer = Consumer::offer(&here, CAPACITY).unwrap();
        consumer.set_wait(wait);
        let (mut producer, there) = accepting.join().unwrap();
        producer.write_all(b"before").unwrap();
        there.shutdown(Shutdown::Both).unwrap();
        let mut got = Vec::new();
        let error = consumer.read_to_end(&mut got).unwrap_err();
        assert_eq!(error_of(&error), Some(RingError::PeerDied));
        assert_eq!(got, b"before");
        // Bytes that it commits later still arrive.
        producer.write_all(b"after").unwrap();
        assert_eq!(consumer.read(&mut [0; 9]).unwrap(), 5);
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Died);
    }
}

#[test]
fn a_killed_peer_makes_the_descriptor_readable_at_once() {
    const NAME: &str = "a_killed_peer_makes_the_descriptor_readable_at_once";
    if is_child(&name("waits", Way::Socket)) {
        let _producer = child_producer(Way::Socket);
        park();
    }
    let (mut consumer, child) = with_child_producer(NAME, "waits", Way::Socket);
    consumer.set_wait(Wait::Never);
    consumer.ready_fd().unwrap();
    assert_eq!(consumer.peek(1).unwrap_err().kind(), ErrorKind::WouldBlock);
    let killing = kill(child, false);
    let socket = consumer.ready_fd().unwrap();
    // Without a time limit.
    while poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).is_err() {}
    let error = consumer.peek(1).map(drop).unwrap_err();
    assert_eq!(error_of(&error), Some(RingError::PeerDied));
    killing.join().unwrap();
}

/// As by a child that prints instead of taking its end, which is its standard output.
#[test]
fn a_dead_child_that_has_overwritten_the_header_ends_the_wait() {
    for len in [64, 512, 4096, 8192] {
        watch();
        let (producer, mut consumer) = ring::pair(64 * KIB).unwrap();
        let file = producer.into_fd().unwrap();
        let script = format!("head -c {len} /dev/zero");
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", &script]).stdout(file).spawn().unwrap();
        drop(command);
        consumer.watch(Peer::child(&child).unwrap());
        child.wait().unwrap();
        let error = consumer.peek(1).map(drop).unwrap_err();
        let expected = [RingError::PeerDied, RingError::Corrupt];
        assert!(
            error_of(&error).is_some_and(|e| expected.contains(&e)),
            "{error}"
        );
    }
}

/// Both have the same process id there.
#[test]
fn a_forked_child_in_a_pid_namespace_does_not_close_its_parents_end() {
    // SAFETY: a plain number.
    let unshare = || unsafe { libc::unshare(libc::CLONE_NEWPID) == 0 };
    if !in_child(unshare) {
        return skip("no pid namespaces here");
    }
    let is_open = in_child(|| {
        unshare()
            && in_child(|| {
                let (producer, mut consumer) = ring::pair(1).unwrap();
                let mut producer = Some(producer);
                let child_drops_it = unshare()
                    && in_child(|| {
                        drop(producer.take());
                        std::process::id() == 1
                    });
                consumer.set_wait(Wait::Never);
                let read = consumer.read(&mut [0]).map_err(|error| error.kind());
                child_drops_it && read == Err(ErrorKind::WouldBlock)
            })
    });
    assert!(is_open);
}

#[test]
fn a_forked_child_that_cannot_pass_an_end_on_leaves_it_open() {
    let (producer, mut consumer) = ring::pair(1).unwrap();
    let mut producer = Some(producer);
    let child_fails = in_child(|| {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(3);
        setrlimit(Resource::Nofile, limit).unwrap();
        producer.take().unwrap().into_fd().is_err()
    });
    assert!(child_fails);
    consumer.set_wait(Wait::Never);
    let read = consumer.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::WouldBlock));
    producer.unwrap().write_all(b"x").unwrap();
    assert_eq!(consumer.read(&mut [0]).unwrap(), 1);
}
