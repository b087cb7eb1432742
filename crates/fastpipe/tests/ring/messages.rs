//! Messages with boundaries.

use std::io::{ErrorKind, Write};
use std::thread;

use crate::common;
use crate::common::WAITS;
use crate::common::state::watch;
use crate::common::writers::KIB;
use fastpipe::ring;
use fastpipe::wait::Wait;
use proptest::prelude::*;

proptest! {
    #[test]
    fn messages_arrive_whole_and_in_order(
        lens in proptest::collection::vec(0..2 * KIB - 16, 1..200),
        wait in proptest::sample::select(WAITS.to_vec()),
    ) {
        watch();
        let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
        producer.set_wait(wait);
        consumer.set_wait(wait);
        let sent = lens.clone();
        let sending = thread::spawn(move || {
            for len in sent {
                producer.send(&common::pattern(len)).unwrap();
            }
        });
        let mut message = Vec::new();
        for len in lens {
            prop_assert_eq!(consumer.recv(&mut message).unwrap(), Some(len));
            prop_assert_eq!(&message, &common::pattern(len));
        }
        prop_assert_eq!(consumer.recv(&mut message).unwrap(), None);
        sending.join().unwrap();
    }
}

#[test]
fn a_message_that_can_never_fit_is_refused() {
    let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    let capacity = producer.capacity();
    producer.send(&vec![b'x'; capacity / 2 - 8]).unwrap();
    let error = producer.send(&vec![b'x'; capacity / 2 - 7]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("at most"), "{error}");
    let mut message = Vec::new();
    assert_eq!(consumer.recv(&mut message).unwrap(), Some(capacity / 2 - 8));
}

#[test]
fn bytes_that_are_no_message_are_an_error() {
    for bytes in [&b"short"[..], &[0xff; 8], &[16, 0, 0, 0, 0, 0, 0, 0, 1]] {
        let (mut producer, mut consumer) = ring::pair(4 * KIB).unwrap();
        producer.write_all(bytes).unwrap();
        drop(producer);
        let error = consumer.recv(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{bytes:?}");
    }
}

#[test]
fn without_a_message_recv_would_block() {
    let (producer, mut consumer) = ring::pair(4 * KIB).unwrap();
    consumer.set_wait(Wait::Never);
    let error = consumer.recv(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(producer);
    assert_eq!(consumer.recv(&mut Vec::new()).unwrap(), None);
}
