//! Writers whose readers die at any byte, or stop for a while.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;

use crate::common::pipe_of;
use crate::common::writers::{HOWS, How, KIB, MIB, SLEEPING, expect, send, settings};
use fastpipe::writer::{Frozen, Writer};

/// Checks a writer after its reader's death.
fn is_sane_and_broken(mut out: Writer<OwnedFd>) {
    if out.queued() == 0 {
        // A long write was refused completely.
        let kind = out.lend(10).unwrap().commit(10).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::BrokenPipe);
    }
    let queued = out.queued();
    assert!(queued > 0);
    for _ in 0..2 {
        let frozen = Frozen::new(b"more").unwrap();
        let kinds = [
            out.flush().unwrap_err().kind(),
            out.repeat(&frozen, 2).unwrap_err().kind(),
            out.lend(1).map(drop).unwrap_err().kind(),
            out.wait_drained().unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::BrokenPipe; 4]);
    }
    assert_eq!(
        out.queued(),
        queued,
        "claimed to be sent, or taken after all"
    );
    let failed = out.finish().unwrap_err();
    assert_eq!(failed.error().kind(), ErrorKind::BrokenPipe);
    // Dropping the writer tries to send again, and fails.
    assert_eq!(std::io::Error::from(failed).kind(), ErrorKind::BrokenPipe);
}

/// Sends until an error occurs, and returns its kind.
fn send_to_the_end(out: &mut Writer<OwnedFd>, how: How) -> ErrorKind {
    loop {
        let at = u64::try_from(u128::from(out.report().counts.bytes) + out.queued()).unwrap();
        if let Err(error) = send(out, how, at, 3 * MIB) {
            return error.kind();
        }
    }
}

#[test]
fn a_reader_closing_at_any_byte_is_a_broken_pipe() {
    let ends = [
        0,
        1,
        4095,
        4097,
        65_537,
        131_072,
        150_001,
        MIB,
        2 * MIB - 1,
        5 * MIB + 3,
    ];
    for (n, end) in ends.into_iter().enumerate() {
        for setting in settings() {
            for wait in [SLEEPING[n % 3], SLEEPING[(n + 1) % 3]] {
                let (reader, writer) = pipe_of(64 * KIB);
                let reading = std::thread::spawn(move || expect(&mut File::from(reader), 0, end));
                let mut out = setting.builder.wait(wait).open(writer).unwrap();
                let kind = send_to_the_end(&mut out, HOWS[n % 3]);
                assert_eq!(kind, ErrorKind::BrokenPipe, "{setting:?}");
                reading.join().unwrap();
                let counts = out.report().counts;
                assert!(counts.bytes >= end as u64);
                is_sane_and_broken(out);
            }
        }
    }
}
