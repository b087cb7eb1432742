//! Rings between threads: data, ends, errors, corruption.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common;
use crate::common::state::{until_asleep, watch};
use crate::common::storm::{Storm, handled};
use crate::common::writers::KIB;
use crate::common::{ALL_WAITS, WAITS};
use fastpipe::ring::{self, Consumer, MAX_CAPACITY, PeerState, Producer, RingError};
use fastpipe::wait::Wait;
use rustix::io::pwrite;

/// Byte offset of the position of each end in the header.
const HEAD: u64 = 128;
const TAIL: u64 = 256;
/// Byte offset of the producer's state.
const PRODUCER: u64 = 384;

fn ring() -> (Producer, Consumer) {
    watch();
    ring::pair(4 * KIB).unwrap()
}

/// Runs `then` as soon as the calling thread sleeps, or at once if it never sleeps.
fn as_soon_as_we_wait<T: Send + 'static>(
    wait: Wait,
    then: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    let caller = rustix::thread::gettid();
    std::thread::spawn(move || {
        if wait != Wait::Spin {
            until_asleep(caller);
        }
        then()
    })
}

#[test]
fn a_ring_lends_its_whole_capacity_contiguously_at_any_position() {
    let page = fastpipe::pipe::page_size();
    for (asked, got) in [
        (1, page),
        (page, page),
        (page + 1, 2 * page),
        (2 * page + 1, 3 * page),
    ] {
        let (mut producer, mut consumer) = ring::pair(asked).unwrap();
        assert_eq!((producer.capacity(), consumer.capacity()), (got, got));
        for shift in [0, 1, got / 2, got - 1] {
            producer.write_all(&vec![b'.'; shift]).unwrap();
            if shift > 0 {
                consumer.peek(1).unwrap().release(shift);
            }
            assert_eq!(producer.room().unwrap(), got);
            assert_eq!(producer.lend(1).unwrap().len(), got);
            let data = common::pattern(got);
            producer.write_all(&data).unwrap();
            let mut view = consumer.peek(1).unwrap();
            let mut copy = vec![0; got];
            assert_eq!(view.len(), got);
            view.read_at(0, &mut copy);
            view.release(got);
            common::assert_same(&copy, &data);
        }
    }
    for asked in [0, MAX_CAPACITY + 1, usize::MAX] {
        let error = ring::pair(asked).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

/// On Linux 6.18 signals don't interrupt fallocate(2) anyway; on older kernels they do.
#[test]
fn signals_do_not_prevent_the_creation_of_a_large_ring() {
    let _storm = Storm::begin();
    let before = handled();
    let (producer, _consumer) = ring::pair(64 << 20).unwrap();
    assert_eq!(producer.capacity(), 64 << 20);
    assert!(handled() > before, "no signal arrived meanwhile");
}

#[test]
fn dropping_a_consumer_is_a_broken_pipe_for_the_producer() {
    for wait in ALL_WAITS {
        let (mut producer, consumer) = ring();
        producer.set_wait(wait);
        drop(consumer);
        assert_eq!(producer.peer_state().unwrap(), PeerState::Closed);
        let error = producer.write(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
    for wait in WAITS {
        let (mut producer, consumer) = ring();
        producer.set_wait(wait);
        let dropping = as_soon_as_we_wait(wait, || drop(consumer));
        let error = producer.write_all(&[0; 8 * KIB]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        dropping.join().unwrap();
    }
}

#[test]
fn dropping_producer_ends_data_and_a_panic_is_an_error() {
    for wait in WAITS {
        for panics in [false, true] {
            let (mut producer, mut consumer) = ring();
            consumer.set_wait(wait);
            producer.write_all(b"some").unwrap();
            let ending = as_soon_as_we_wait(wait, move || {
                let unwound = catch_unwind(AssertUnwindSafe(move || {
                    let _producer = producer;
                    // Without the message that panic! prints.
                    if panics {
                        std::panic::resume_unwind(Box::new(()));
                    }
                }));
                assert_eq!(unwound.is_err(), panics);
            });
            let mut got = Vec::new();
            let end = consumer.read_to_end(&mut got);
            assert_eq!(got, b"some");
            if panics {
                assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
                assert_eq!(consumer.peer_state().unwrap(), PeerState::Died);
            } else {
                assert_eq!(end.unwrap(), 4);
                assert_eq!(consumer.peer_state().unwrap(), PeerState::Closed);
            }
            ending.join().unwrap();
        }
    }
}

#[test]
fn an_invalid_position_is_permanent_corruption() {
    for wait in WAITS {
        for bad in [1 << 20, u64::MAX, 1 << 63] {
            let (producer, mut consumer) = ring();
            consumer.set_wait(wait);
            let poking = as_soon_as_we_wait(wait, move || {
                pwrite(producer.as_fd(), &bad.to_ne_bytes(), HEAD).unwrap();
                producer
            });
            let error = consumer.peek(1).unwrap_err();
            let why = error.get_ref().unwrap().downcast_ref::<RingError>();
            assert_eq!(why, Some(&RingError::Corrupt));
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            let producer = poking.join().unwrap();
            // Repairing the position does not help.
            pwrite(producer.as_fd(), &0u64.to_ne_bytes(), HEAD).unwrap();
            let again = consumer.read(&mut [0]).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::InvalidData);
            let state = consumer.peer_state().unwrap_err();
            assert_eq!(state.kind(), ErrorKind::InvalidData);

            let (mut producer, consumer) = ring();
            producer.set_wait(wait);
            producer.write_all(&[0; 4 * KIB]).unwrap();
            let poking = as_soon_as_we_wait(wait, move || {
                pwrite(consumer.as_fd(), &bad.to_ne_bytes(), TAIL).unwrap();
                consumer
            });
            let error = producer.write(b"x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            drop(poking.join().unwrap());
        }
        let (producer, mut consumer) = ring();
        consumer.set_wait(wait);
        pwrite(producer.as_fd(), &77u32.to_ne_bytes(), PRODUCER).unwrap();
        assert_eq!(consumer.peek(1).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

#[test]
fn our_own_index_and_the_capacity_are_never_read_back() {
    let (mut producer, mut consumer) = ring();
    producer.write_all(b"abc").unwrap();
    let mut got = [0; 3];
    consumer.read_exact(&mut got).unwrap();
    // The producer's published position is overwritten: it continues from its own copy.
    pwrite(producer.as_fd(), &999u64.to_ne_bytes(), HEAD).unwrap();
    // The capacity is overwritten.
    pwrite(producer.as_fd(), &(1u64 << 40).to_ne_bytes(), 16).unwrap();
    producer.write_all(b"def").unwrap();
    consumer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"def");
    assert_eq!(producer.capacity(), 4 * KIB);
}

#[test]
fn bytes_changing_while_they_are_copied_are_harmless() {
    let (mut producer, mut consumer) = ring();
    let file = producer.as_fd().try_clone_to_owned().unwrap();
    let page = fastpipe::pipe::page_size() as u64;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in [1u8, 2].into_iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                pwrite(&file, &[n; 4096], page).unwrap();
            }
        });
        let mut got = [0; 4096];
        for _ in 0..2000 {
            producer.write_all(&[7; 4096]).unwrap();
            consumer.read_exact(&mut got).unwrap();
            assert!(got.iter().all(|byte| [1, 2, 7].contains(byte)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut got = [0; 4096];
    producer.write_all(&[8; 4096]).unwrap();
    consumer.read_exact(&mut got).unwrap();
    assert_eq!(got, [8; 4096], "the ring is as it was");
}

/// Checks that the error is a documented one.
fn is_allowed(error: &std::io::Error) {
    let kinds = [
        ErrorKind::InvalidData,
        ErrorKind::TimedOut,
        ErrorKind::BrokenPipe,
        ErrorKind::ConnectionReset,
    ];
    assert!(kinds.contains(&error.kind()), "{error:?}");
}

#[test]
fn a_header_that_changes_all_the_time_does_no_harm() {
    const WORDS: [u64; 15] = [
        0, 8, 16, 128, 256, 384, 388, 392, 396, 400, 512, 516, 520, 524, 528,
    ];
    for (n, wait) in WAITS.into_iter().cycle().enumerate().take(60) {
        let (mut producer, mut consumer) = ring();
        // Long enough for the words to be written; no wait lasts longer.
        let limit = Some(Duration::from_micros(200));
        producer.set_wait(wait);
        producer.set_timeout(limit);
        consumer.set_wait(wait);
        consumer.set_timeout(limit);
        let file = producer.as_fd().try_clone_to_owned().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // One kind of word at a time, since an invalid position soon ends the ring.
                for bytes in common::pattern(1 << 16).as_chunks::<8>().0 {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let small = [bytes[0] % 4, 0, 0, 0, bytes[1] % 2, 0, 0, 0];
                    let bytes = if n % 2 == 0 { &small } else { bytes };
                    pwrite(&file, bytes, WORDS[n % WORDS.len()]).unwrap();
                }
            });
            scope.spawn(|| {
                for n in 0..100 {
                    if let Err(error) = producer.write(&[0; 999][..9 * n]) {
                        is_allowed(&error);
                    }
                }
            });
            for n in 0..100 {
                match consumer.peek(n) {
                    Ok(view) => {
                        let len = view.len();
                        assert!(len <= 4 * KIB);
                        view.release(len);
                    }
                    Err(error) => is_allowed(&error),
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn an_end_can_be_attached_once_and_not_after_closing() {
    let (producer, consumer) = ring();
    let file = || producer.as_fd().try_clone_to_owned().unwrap();
    let error = Producer::from_fd(file()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    let handed = Consumer::from_fd(consumer.into_fd().unwrap()).unwrap();
    let error = Consumer::from_fd(file()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    drop(handed);
    let error = Consumer::from_fd(file()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
}

#[test]
fn requests_above_half_the_capacity_fail_and_timeouts_hold() {
    let (mut producer, mut consumer) = ring();
    let too_much = 2 * KIB + 1;
    let kind = producer.lend(too_much).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::InvalidInput);
    let kind = consumer.peek(too_much).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::InvalidInput);
    for wait in WAITS {
        consumer.set_wait(wait);
        consumer.set_timeout(Some(Duration::from_millis(5)));
        let error = consumer.peek(2 * KIB).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    // The ring remains usable after a timeout.
    producer.write_all(b"x").unwrap();
    assert_eq!(consumer.read(&mut [0; 9]).unwrap(), 1);
}

#[test]
fn sizes_beyond_a_slot_or_a_view_panic() {
    type Misuse = fn(&mut Producer, &mut Consumer);
    let misuses: [(Misuse, &str); 4] = [
        (
            |producer, _| producer.lend(1).unwrap().write_at(4090, &[0; 10]),
            "10 bytes at 4090 of 4096",
        ),
        (
            |producer, _| {
                let mut slot = producer.lend(1).unwrap();
                slot.fill(usize::MAX - 1..usize::MAX, 0);
            },
            "1 bytes at 18446744073709551614 of 4096",
        ),
        (
            |producer, _| producer.lend(1).unwrap().commit(4097),
            "4097 bytes of 4096",
        ),
        (
            |producer, consumer| {
                producer.write_all(b"x").unwrap();
                consumer.peek(1).unwrap().release(2);
            },
            "2 bytes of 1",
        ),
    ];
    for (misuse, expected) in misuses {
        let (mut producer, mut consumer) = ring();
        let misused = AssertUnwindSafe(|| misuse(&mut producer, &mut consumer));
        let why = catch_unwind(misused).unwrap_err();
        assert!(common::writers::said(&why).contains(expected), "{expected}");
    }
}

#[test]
fn a_producer_can_wait_until_all_is_taken() {
    for wait in WAITS {
        let (mut producer, mut consumer) = ring();
        producer.set_wait(wait);
        producer.wait_drained().unwrap();
        producer.write_all(&[7; 100]).unwrap();
        producer.set_timeout(Some(Duration::from_millis(1)));
        let error = producer.wait_drained().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        producer.set_timeout(None);
        consumer.read_exact(&mut [0; 99]).unwrap();
        let taking = as_soon_as_we_wait(wait, move || {
            consumer.read_exact(&mut [0]).unwrap();
            consumer
        });
        producer.wait_drained().unwrap();
        producer.write_all(&[7; 100]).unwrap();
        drop(taking.join().unwrap());
        let error = producer.wait_drained().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
