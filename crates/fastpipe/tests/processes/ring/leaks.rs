//! Rings leave no mappings and descriptors behind. The test counts those of the whole
//! process, so it has its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::common::process::{in_own_process, mappings_and_descriptors};
use fastpipe::ring::{self, Consumer, Producer};

fn use_up(commits: usize, rings: usize) {
    let (mut producer, mut consumer) = ring::pair(1 << 16).unwrap();
    for n in 0..commits {
        let mut slot = producer.lend(8).unwrap();
        slot.write_at(0, &n.to_le_bytes());
        slot.commit(8);
        let mut view = consumer.peek(8).unwrap();
        let mut got = [0; 8];
        view.read_at(0, &mut got);
        assert_eq!(usize::from_le_bytes(got), n);
        view.release(8);
    }
    for n in 0..rings {
        let (here, there) = UnixStream::pair().unwrap();
        let accepting = std::thread::spawn(move || match n % 3 {
            // A peer that hangs up instead of accepting.
            0 => drop(there),
            _ => {
                let mut got = [0; 3];
                let mut consumer = Consumer::accept(&there).unwrap();
                consumer.read_exact(&mut got).unwrap();
                drop(Consumer::from_fd(consumer.into_fd().unwrap()).unwrap());
            }
        });
        if let Ok(mut producer) = Producer::offer(&here, 1) {
            producer.write_all(b"abc").unwrap();
        }
        accepting.join().unwrap();
        let _ = Producer::from_fd(here.into());
    }
}

#[test]
fn rings_leave_no_mapping_and_no_descriptor_behind() {
    in_own_process(|| {
        use_up(1000, 20);
        let before = mappings_and_descriptors();
        use_up(1_000_000, 300);
        let after = mappings_and_descriptors();
        assert_eq!(after.1, before.1, "descriptors");
        // The allocator and thread stacks may have added a few.
        assert!(
            after.0 < before.0 + 30,
            "{} mappings, then {}",
            before.0,
            after.0
        );
    });
}
