//! Every byte crosses a ring between two processes, however the ring was passed on.

use std::io::ErrorKind;
use std::time::Duration;

use crate::common::WAITS;
use crate::common::process::{is_child, spawn};
use crate::common::rings::{
    CAPACITY, LEN, WAYS, child_consumer, child_producer, consume, consume_from, error_of, name,
    park, produce, stdin, with_child_consumer, with_child_producer,
};
use crate::common::state::{until, until_asleep, watch};
use fastpipe::ring::{self, Consumer, Peer, PeerState, RingError};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::process::Stdio;

#[test]
fn every_byte_crosses_in_every_way_and_under_every_wait() {
    const NAME: &str = "every_byte_crosses_in_every_way_and_under_every_wait";
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

#[test]
fn a_stopped_peer_is_distinguished_from_a_dead_one() {
    const NAME: &str = "a_stopped_peer_is_distinguished_from_a_dead_one";
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
fn a_child_notices_its_parents_death() {
    const NAME: &str = "a_child_notices_its_parents_death";
    if is_child("parent") {
        // The process between the test and its grandchild: passes the ring on, and is killed.
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
        // Dropping the end tells the test that this succeeded.
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
    // The grandchild has read the available bytes, so it already watches its parent.
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("the grandchild is done", || {
        producer.peer_state().unwrap() != PeerState::Running
    });
    assert_eq!(producer.peer_state().unwrap(), PeerState::Closed);
}
