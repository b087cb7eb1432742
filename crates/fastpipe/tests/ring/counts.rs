//! Counts of a ring's ends, and a view that outlives the function that created it.

use std::io::{ErrorKind, Read, Write};

use crate::common::state::{until_asleep, watch};
use crate::common::writers::KIB;
use fastpipe::ring::{self, Consumer};
use fastpipe::transfer::Counts;
use fastpipe::wait::Wait;

#[test]
fn moving_bytes_takes_no_system_call() {
    watch();
    let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    for lap in 1..100 {
        producer.write_all(&[7; KIB]).unwrap();
        consumer.peek(KIB).unwrap().release(KIB);
        let only = Counts {
            bytes: lap * KIB as u64,
            ..Counts::default()
        };
        assert_eq!((producer.counts(), consumer.counts()), (only, only));
    }
}

#[test]
fn each_lack_of_room_or_data_counts_once() {
    let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    consumer.set_wait(Wait::Never);
    producer.set_wait(Wait::Never);
    for times in 1..4 {
        let error = consumer.peek(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(consumer.counts().would_blocks, times);
    }
    producer.write_all(&[7; 4 * KIB]).unwrap();
    assert_eq!(producer.counts().would_blocks, 0);
    let error = producer.write(&[7]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(producer.counts().would_blocks, 1);
}

#[test]
fn sleeping_and_waking_are_counted_as_system_calls() {
    watch();
    let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        let mut all = Vec::new();
        consumer.read_to_end(&mut all).unwrap();
        (all.len() as u64, consumer.counts())
    });
    let reading = told.recv().unwrap();
    // Sleeps are limited, so the end may be awake at the moment.
    for _ in 0..100 {
        until_asleep(reading);
        producer.write_all(&[7]).unwrap();
    }
    let counts = producer.counts();
    assert!(counts.syscalls > 0, "{counts:?}");
    drop(producer);
    let (read, counts) = reader.join().unwrap();
    assert_eq!(counts.bytes, read);
    assert!(counts.syscalls > 0 && counts.would_blocks > 0, "{counts:?}");
}

#[test]
fn counts_start_at_zero_for_a_new_owner() {
    let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    producer.write_all(&[7; 10]).unwrap();
    consumer.peek(3).unwrap().release(3);
    let mut consumer = Consumer::from_fd(consumer.into_fd().unwrap()).unwrap();
    assert_eq!(consumer.counts(), Counts::default());
    consumer.peek(7).unwrap().release(7);
    assert_eq!(consumer.counts().bytes, 7);
}

/// Returns a slice that only borrows the consumer.
fn next(consumer: &mut Consumer) -> &[u8] {
    let view = consumer.peek(1).unwrap();
    // SAFETY: the producer belongs to this test, and only writes to released bytes.
    unsafe { view.into_bytes() }
}

#[test]
fn function_can_return_views_bytes_and_next_view_releases_them() {
    let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    producer.write_all(b"one").unwrap();
    assert_eq!(next(&mut consumer), b"one");
    producer.write_all(b", two").unwrap();
    assert_eq!(next(&mut consumer), b"one");
    consumer.peek(8).unwrap().release(5);
    assert_eq!(next(&mut consumer), b"two");
}
