//! Two processes and a ring: every byte crosses, and what the other one comes
//! to is told apart.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use common::WAITS;
use common::process::{is_child, spawn};
use common::state::{until, until_asleep, watch};
use common::writers::{KIB, MIB, check, expect_all, fill, stream};
use fastpipe::ring::{self, Consumer, Peer, PeerState, Producer, RingError};
use fastpipe::wait::Wait;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const CAPACITY: usize = 64 * KIB;
const LEN: usize = 4 * MIB + 17;

/// How the ring gets to the child, which has it as standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Inherited,
    Socket,
}

const WAYS: [Way; 2] = [Way::Inherited, Way::Socket];

fn name(role: &str, way: Way) -> String {
    format!("{role} {way:?}")
}

fn stdin() -> OwnedFd {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap()
}

fn child_producer(way: Way) -> Producer {
    match way {
        Way::Inherited => Producer::from_fd(stdin()).unwrap(),
        Way::Socket => Producer::accept(&UnixStream::from(stdin())).unwrap(),
    }
}

fn child_consumer(way: Way) -> Consumer {
    match way {
        Way::Inherited => Consumer::from_fd(stdin()).unwrap(),
        Way::Socket => Consumer::accept(&UnixStream::from(stdin())).unwrap(),
    }
}

/// A consumer here, and a child that plays `role` with the producer.
fn with_child_producer(test: &str, role: &str, way: Way) -> (Consumer, Child) {
    watch();
    let spawn = |fd| spawn(test, &name(role, way), fd, Stdio::inherit());
    match way {
        Way::Inherited => {
            let (producer, mut consumer) = ring::pair(CAPACITY).unwrap();
            let child = spawn(producer.into_fd().unwrap());
            consumer.watch(Peer::child(&child).unwrap());
            (consumer, child)
        }
        Way::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            let child = spawn(there.into());
            (Consumer::offer(&here, CAPACITY).unwrap(), child)
        }
    }
}

/// A producer here, and a child that plays `role` with the consumer.
fn with_child_consumer(test: &str, role: &str, way: Way) -> (Producer, Child) {
    watch();
    let spawn = |fd| spawn(test, &name(role, way), fd, Stdio::inherit());
    match way {
        Way::Inherited => {
            let (mut producer, consumer) = ring::pair(CAPACITY).unwrap();
            let child = spawn(consumer.into_fd().unwrap());
            producer.watch(Peer::child(&child).unwrap());
            (producer, child)
        }
        Way::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            let child = spawn(there.into());
            (Producer::offer(&here, CAPACITY).unwrap(), child)
        }
    }
}

/// Produces the stream in place and by copying, in pieces of many sizes.
fn produce(producer: &mut Producer, len: usize) -> std::io::Result<()> {
    let sizes = [1, 4096, 777, 20_000, 32 * KIB, 3];
    let mut at = 0;
    for (n, size) in sizes.iter().cycle().enumerate() {
        let size = (*size).min(len - at);
        if size == 0 {
            break;
        }
        match n % 3 {
            0 => producer.write_all(&stream(at as u64, size))?,
            1 => {
                let mut slot = producer.lend(size)?;
                // SAFETY: the other process is of this test, and keeps away
                // from it.
                let bytes = unsafe { slot.bytes_mut() };
                fill(&mut bytes[..size], at as u64);
                slot.commit(size);
            }
            _ => {
                let mut slot = producer.lend(size)?;
                slot.write_at(0, &stream(at as u64, size));
                slot.commit(size);
            }
        }
        at += size;
    }
    Ok(())
}

/// Consumes the stream from its beginning to the end. Returns where it ended,
/// and how.
fn consume(consumer: &mut Consumer) -> (usize, std::io::Result<()>) {
    consume_from(0, consumer)
}

fn consume_from(mut at: usize, consumer: &mut Consumer) -> (usize, std::io::Result<()>) {
    let sizes = [3, 1, 9000, 32 * KIB, 100];
    let mut copy = vec![0; CAPACITY];
    for (n, size) in sizes.iter().cycle().enumerate() {
        let got = match n % 2 {
            0 => consumer.read(&mut copy[..*size]).inspect(|n| {
                check(&copy[..*n], at as u64).unwrap();
            }),
            _ => consumer.peek(*size).map(|view| {
                // SAFETY: the other process is of this test, and keeps away
                // from it.
                check(unsafe { view.bytes() }, at as u64).unwrap();
                let n = view.len().min(size * 2);
                view.release(n);
                n
            }),
        };
        match got {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(error) => return (at, Err(error)),
        }
    }
    (at, Ok(()))
}

fn error_of(error: &std::io::Error) -> Option<RingError> {
    error.get_ref()?.downcast_ref().copied()
}

/// Until it is killed, or its parent is gone.
fn park() -> ! {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn every_byte_crosses_however_it_gets_there_and_whoever_waits_how() {
    const NAME: &str = "every_byte_crosses_however_it_gets_there_and_whoever_waits_how";
    for way in WAYS {
        for (n, wait) in WAITS.into_iter().enumerate() {
            if is_child(&name(&format!("producer {n}"), way)) {
                let mut producer = child_producer(way);
                producer.set_wait(wait);
                return produce(&mut producer, LEN).unwrap();
            }
            if is_child(&name(&format!("consumer {n}"), way)) {
                let mut consumer = child_consumer(way);
                consumer.set_wait(wait);
                let (at, end) = consume(&mut consumer);
                end.unwrap();
                assert_eq!(at, LEN);
                return;
            }
        }
    }
    for way in WAYS {
        for (n, _) in WAITS.iter().enumerate() {
            let ours = WAITS[(n + 1) % WAITS.len()];
            let role = format!("producer {n}");
            let (mut consumer, mut child) = with_child_producer(NAME, &role, way);
            consumer.set_wait(ours);
            let (at, end) = consume(&mut consumer);
            end.unwrap();
            assert_eq!(at, LEN);
            assert_eq!(consumer.peer_state().unwrap(), PeerState::Closed);
            assert!(child.wait().unwrap().success());

            let role = format!("consumer {n}");
            let (mut producer, mut child) = with_child_consumer(NAME, &role, way);
            producer.set_wait(ours);
            produce(&mut producer, LEN).unwrap();
            drop(producer);
            assert!(child.wait().unwrap().success());
        }
    }
}

/// Kills the child as soon as the calling thread sleeps, if it does so, or at
/// once.
fn kill(mut child: Child, when_asleep: bool) -> std::thread::JoinHandle<()> {
    let caller = rustix::thread::gettid();
    std::thread::spawn(move || {
        if when_asleep {
            until_asleep(caller);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    })
}

#[test]
fn a_producer_that_is_killed_leaves_what_it_committed_and_then_an_error() {
    const NAME: &str = "a_producer_that_is_killed_leaves_what_it_committed_and_then_an_error";
    const LITTLE: usize = 30_001;
    for way in WAYS {
        if is_child(&name("little", way)) {
            produce(&mut child_producer(way), LITTLE).unwrap();
            unreachable!("it closed its end");
        }
        if is_child(&name("little, kept", way)) {
            let mut producer = child_producer(way);
            produce(&mut producer, LITTLE).unwrap();
            // Neither committed nor given back.
            producer.lend(1000).unwrap().fill(0..1000, b'?');
            park();
        }
        if is_child(&name("without end", way)) {
            let mut producer = child_producer(way);
            produce(&mut producer, usize::MAX).unwrap();
        }
    }
    for way in WAYS {
        for wait in WAITS {
            // While we wait for more.
            let (mut consumer, child) = with_child_producer(NAME, "little, kept", way);
            consumer.set_wait(wait);
            // All is committed.
            assert_eq!(consumer.peek(LITTLE).unwrap().len(), LITTLE);
            let killing = kill(child, wait != Wait::Spin);
            let (at, end) = consume(&mut consumer);
            killing.join().unwrap();
            assert_eq!(at, LITTLE);
            let error = end.unwrap_err();
            assert_eq!(error_of(&error), Some(RingError::PeerDied));
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            // And so it stays.
            let again = consumer.read(&mut [0]).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::ConnectionReset);
            assert_eq!(consumer.peer_state().unwrap(), PeerState::Died);

            // In the middle of its work.
            let (mut consumer, child) = with_child_producer(NAME, "without end", way);
            consumer.set_wait(wait);
            consumer.peek(1).unwrap().release(0);
            let killing = kill(child, false);
            let (at, end) = consume(&mut consumer);
            killing.join().unwrap();
            assert!(at > 0);
            assert_eq!(error_of(&end.unwrap_err()), Some(RingError::PeerDied));
        }
    }
}

#[test]
fn a_consumer_that_is_killed_ends_its_producer() {
    const NAME: &str = "a_consumer_that_is_killed_ends_its_producer";
    for way in WAYS {
        if is_child(&name("idle", way)) {
            let _consumer = child_consumer(way);
            park();
        }
        if is_child(&name("busy", way)) {
            let _ = consume(&mut child_consumer(way));
        }
    }
    for way in WAYS {
        for wait in WAITS {
            for (role, sleeps) in [("idle", wait != Wait::Spin), ("busy", false)] {
                let (mut producer, child) = with_child_consumer(NAME, role, way);
                producer.set_wait(wait);
                let killing = kill(child, sleeps);
                let error = produce(&mut producer, usize::MAX).unwrap_err();
                killing.join().unwrap();
                assert_eq!(error_of(&error), Some(RingError::PeerDied));
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                let again = producer.lend(1).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::ConnectionReset);
            }
        }
    }
}

#[test]
fn one_that_never_waits_learns_of_a_death_too() {
    const NAME: &str = "one_that_never_waits_learns_of_a_death_too";
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

#[test]
fn a_peer_that_is_stopped_is_waited_for_and_told_from_a_dead_one() {
    const NAME: &str = "a_peer_that_is_stopped_is_waited_for_and_told_from_a_dead_one";
    for way in WAYS {
        if is_child(&name("producer", way)) {
            return produce(&mut child_producer(way), LEN).unwrap();
        }
    }
    for way in WAYS {
        let (mut consumer, mut child) = with_child_producer(NAME, "producer", way);
        let id = Pid::from_child(&child);
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Running);
        kill_process(id, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(id), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped());
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Stopped);

        consumer.set_timeout(Some(Duration::from_millis(600)));
        let (at, end) = consume(&mut consumer);
        assert!(at < LEN);
        let error = end.unwrap_err();
        assert_eq!(error_of(&error), Some(RingError::TimedOut));
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Stopped);

        consumer.set_timeout(None);
        let waiting = rustix::thread::gettid();
        let going_on = std::thread::spawn(move || {
            until_asleep(waiting);
            kill_process(id, Signal::CONT).unwrap();
        });
        let (at, end) = consume_from(at, &mut consumer);
        going_on.join().unwrap();
        end.unwrap();
        assert_eq!(at, LEN);
        assert!(child.wait().unwrap().success());
        assert_eq!(consumer.peer_state().unwrap(), PeerState::Closed);
    }
}

#[test]
fn a_child_knows_its_parent() {
    const NAME: &str = "a_child_knows_its_parent";
    if is_child("parent") {
        // Between the test and its grandchild: hands the ring on and is killed.
        #[expect(clippy::zombie_processes, reason = "its parent is killed first")]
        let _child = spawn(NAME, "child", stdin(), Stdio::inherit());
        park();
    }
    if is_child("child") {
        let mut consumer = Consumer::from_fd(stdin()).unwrap();
        consumer.watch(Peer::parent().unwrap());
        let (at, end) = consume(&mut consumer);
        assert_eq!(at, 1000);
        assert_eq!(error_of(&end.unwrap_err()), Some(RingError::PeerDied));
        // Dropping it tells that all was as it should be.
        return;
    }
    watch();
    let (mut producer, consumer) = ring::pair(CAPACITY).unwrap();
    let fd = consumer.into_fd().unwrap();
    let mut parent = spawn(NAME, "parent", fd, Stdio::inherit());
    produce(&mut producer, 1000).unwrap();
    until("the grandchild took it all", || {
        producer.room().unwrap() == CAPACITY
    });
    // It read what there was, so it watches already.
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("the grandchild is done", || {
        producer.peer_state().unwrap() != PeerState::Running
    });
    assert_eq!(producer.peer_state().unwrap(), PeerState::Closed);
}

#[test]
fn a_process_that_exits_without_closing_its_end_counts_as_dead() {
    const NAME: &str = "a_process_that_exits_without_closing_its_end_counts_as_dead";
    for way in WAYS {
        if is_child(&name("producer", way)) {
            let mut producer = child_producer(way);
            produce(&mut producer, 10_000).unwrap();
            std::process::exit(0);
        }
    }
    for way in WAYS {
        let (mut consumer, mut child) = with_child_producer(NAME, "producer", way);
        let (at, end) = consume(&mut consumer);
        assert_eq!(at, 10_000);
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn an_end_is_handed_on_with_all_that_is_in_the_ring() {
    const NAME: &str = "an_end_is_handed_on_with_all_that_is_in_the_ring";
    if is_child(&name("consumer", Way::Inherited)) {
        let mut consumer = child_consumer(Way::Inherited);
        assert_eq!(expect_all(&mut consumer, 1000, &[777]), LEN as u64);
        return;
    }
    watch();
    let (mut producer, mut consumer) = ring::pair(CAPACITY).unwrap();
    let mut all = vec![0; LEN];
    fill(&mut all, 0);
    producer.write_all(&all[..30_000]).unwrap();
    let mut first = [0; 1000];
    consumer.read_exact(&mut first).unwrap();
    check(&first, 0).unwrap();
    let role = name("consumer", Way::Inherited);
    let fd = consumer.into_fd().unwrap();
    let mut child = spawn(NAME, &role, fd, Stdio::inherit());
    producer.watch(Peer::child(&child).unwrap());
    producer.write_all(&all[30_000..]).unwrap();
    drop(producer);
    assert!(child.wait().unwrap().success());
}
