//! A sleeping end of a ring is woken when it has what it waits for, and not before. Each
//! test has its own process, without other threads that contend for its memory map.

use std::io::{Read, Write};
use std::os::fd::AsFd;

use crate::common::process::in_own_process;
use crate::common::state::{until_asleep, watch};
use crate::common::writers::KIB;
use fastpipe::ring;
use fastpipe::wait::Wait;
use rustix::io::pwrite;

/// Returns how often this thread went to sleep.
fn times_asleep() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// Number of small commits or releases through which an end sleeps.
const STEPS: usize = 400;
/// An end wakes less often than this in the meantime, to check its peer.
const FEW: u64 = 100;

#[test]
fn a_consumer_waiting_for_many_bytes_sleeps_through_small_commits() {
    in_own_process(|| {
        for wait in [Wait::Block, Wait::Adaptive] {
            watch();
            let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
            consumer.set_wait(wait);
            let caller = rustix::thread::gettid();
            let producing = std::thread::spawn(move || {
                for _ in 0..STEPS {
                    until_asleep(caller);
                    producer.write_all(b".").unwrap();
                }
                producer
            });
            let before = times_asleep();
            assert_eq!(consumer.peek(STEPS).unwrap().len(), STEPS);
            let slept = times_asleep() - before;
            assert!((1..FEW).contains(&slept), "{wait:?}: {slept} times");
            drop(producing.join().unwrap());
        }
    });
}

#[test]
fn a_producer_waiting_for_much_room_sleeps_through_small_releases() {
    in_own_process(|| {
        watch();
        let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
        producer.write_all(&[0; 4 * KIB]).unwrap();
        let caller = rustix::thread::gettid();
        let consuming = std::thread::spawn(move || {
            for _ in 0..STEPS {
                until_asleep(caller);
                consumer.read_exact(&mut [0]).unwrap();
            }
            consumer
        });
        let before = times_asleep();
        assert_eq!(producer.lend(STEPS).unwrap().len(), STEPS);
        let slept = times_asleep() - before;
        assert!((1..FEW).contains(&slept), "{slept} times");
        drop(consuming.join().unwrap());
    });
}

#[test]
fn waiting_end_is_woken_by_close_across_a_position_overflow() {
    in_own_process(|| {
        const HEAD: u64 = 128;
        const TAIL: u64 = 256;
        watch();
        for start in [0, u64::MAX - 10] {
            let (producer, consumer) = ring::pair(4 * KIB).unwrap();
            let files = (producer.into_fd().unwrap(), consumer.into_fd().unwrap());
            for at in [HEAD, TAIL] {
                pwrite(files.0.as_fd(), &start.to_ne_bytes(), at).unwrap();
            }
            let mut producer = ring::Producer::from_fd(files.0).unwrap();
            let mut consumer = ring::Consumer::from_fd(files.1).unwrap();
            let caller = rustix::thread::gettid();
            let producing = std::thread::spawn(move || {
                for len in [5, 95] {
                    until_asleep(caller);
                    producer.write_all(&[1; 95][..len]).unwrap();
                }
                until_asleep(caller);
                producer.write_all(b"rest").unwrap();
                until_asleep(caller);
            });
            let view = consumer.peek(100).unwrap();
            assert_eq!(view.len(), 100);
            view.release(100);
            // Fewer than requested, since the data ends.
            assert_eq!(consumer.peek(100).unwrap().len(), 4);
            producing.join().unwrap();
        }
    });
}
