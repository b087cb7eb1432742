//! Every policy with readers that copy (with odd sizes, late, or resizing the pipe), and
//! with readers that splice to a file or a socket.

use crate::common::skip::skip;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::thread::scope;

use crate::common;
use crate::common::pipe_of;
use crate::common::state::until_asleep;
use crate::common::writers::{
    How, KIB, MIB, Setting, check, expect, expect_all, expecting, fill, send, settings, uses_method,
};
use fastpipe::buffer::Pages;
use fastpipe::method::{AssertReaderCopies, Method};
use fastpipe::pipe;
use fastpipe::writer::{Report, Writer};
use rustix::process::Pid;

/// Sends `len` bytes while `reader` reads in another thread. `reader` gets the id of the
/// writing thread, and returns the number of correct bytes.
fn stream_to(
    setting: Setting,
    how: How,
    len: usize,
    reader: impl FnOnce(OwnedFd, Pid) -> u64 + Send,
) -> Report {
    let (read_end, write_end) = pipe_of(64 * KIB);
    let writing = rustix::thread::gettid();
    let (report, right) = scope(|scope| {
        let reading = scope.spawn(move || reader(read_end, writing));
        let mut out = setting.builder.open(write_end).unwrap();
        let sent = send(&mut out, how, 0, len);
        let report = sent.and_then(|()| Ok(out.finish()?));
        // Report the reader's panic first: it may be the cause of the writer's error.
        let right = reading
            .join()
            .unwrap_or_else(|why| panic!("{setting:?}, {how:?}: {}", common::writers::said(&why)));
        (report.unwrap(), right)
    });
    assert_eq!(right, len as u64, "{setting:?}, {how:?}");
    assert_eq!(report.counts.bytes, len as u64, "{setting:?}, {how:?}");
    assert!(report.zero_copy_bytes <= report.counts.bytes);
    report
}

/// Each slab has several huge pages, all of which must be checked.
#[test]
fn long_loans_are_cow_checked_too() {
    const LOAN: usize = 3 * MIB;
    let (reader, writer) = pipe_of(64 * KIB);
    let reading = expecting(reader, &[256 * KIB, 7]);
    let builder = Writer::builder().method(Method::CowChecked);
    let mut out = builder.open(writer).unwrap();
    for n in 0..40 {
        let mut loan = out.lend(LOAN).unwrap();
        fill(&mut loan[..LOAN], (n * LOAN) as u64);
        loan.commit(LOAN).unwrap();
        // Now the pipe holds no pages.
        out.wait_drained().unwrap();
    }
    // Loans of the default length again.
    send(&mut out, How::Both, 40 * LOAN as u64, 20 * MIB).unwrap();
    let report = out.finish().unwrap();
    let len = (40 * LOAN + 20 * MIB) as u64;
    assert_eq!(reading.join().unwrap(), len);
    if uses_method(&report, Method::CowChecked, "long loans") {
        // On a slow machine, further checks may be paused after the first.
        assert!(report.slabs_reused > 0, "{report:?}");
    }
}

#[test]
fn a_reader_that_keeps_resizing_the_pipe_gets_every_byte() {
    const CAPACITIES: [usize; 7] = [1 << 20, 4096, 64 << 10, 8192, 256 << 10, 512 << 10, 16_384];
    for setting in settings() {
        for how in [How::Lend, How::Both] {
            stream_to(setting, how, 12 * MIB, |reader, _| {
                let mut file = File::from(reader);
                let mut at = 0;
                let mut chunk = vec![0; 50_001];
                let mut changes = 0;
                for capacity in CAPACITIES.iter().cycle() {
                    // EBUSY if more is queued, EPERM above a limit.
                    if rustix::pipe::fcntl_setpipe_size(&file, *capacity).is_ok() {
                        changes += 1;
                    }
                    match file.read(&mut chunk).unwrap() {
                        0 => break,
                        n => {
                            check(&chunk[..n], at).unwrap_or_else(|wrong| panic!("{wrong}"));
                            at += n as u64;
                        }
                    }
                }
                assert!(changes > 10, "the pipe changed {changes} times only");
                at
            });
        }
    }
}

/// The region is reused while the enlarged pipe is full of unread bytes.
#[test]
fn late_reader_that_enlarges_pipe_beyond_region_gets_every_byte() {
    for setting in settings() {
        let setting = Setting {
            builder: setting
                .builder
                .region(256 * KIB)
                .loan(64 * KIB)
                .keep_capacity(),
            ..setting
        };
        let len = 12 * MIB;
        stream_to(setting, How::Lend, len, |reader, writing| {
            pipe::set_capacity_up_to(&reader, MIB).unwrap();
            let mut file = File::from(reader);
            let mut at = 0;
            while at + (2 * MIB as u64) < len as u64 {
                until_asleep(writing);
                let n = pipe::unread(&file).unwrap();
                expect(&mut file, at, n);
                at += n as u64;
            }
            expect_all(&mut file, at, &[64 * KIB])
        });
    }
}

/// Two slabs, each as long as one loan.
#[test]
fn drained_pages_are_reused_after_their_last_byte_was_read() {
    // The fewest pages that are handed over rather than copied.
    let slab = 2 * pipe::page_size();
    for read in [0, 1, slab - 1, slab, slab + 1] {
        let (reader, writer) = pipe_of(64 * KIB);
        let builder = Writer::builder()
            .method(Method::Drained(AssertReaderCopies))
            .pages(Pages::Base)
            .loan(slab)
            .region(2 * slab);
        let mut out = builder.at_once().open(writer).unwrap();
        let mut send_a_slab = |at: usize| {
            let mut loan = out.lend(slab).unwrap();
            fill(&mut loan[..slab], at as u64);
            loan.commit(slab).unwrap();
            (out.report().is_zero_copy(), out.report())
        };
        send_a_slab(0);
        send_a_slab(slab);
        let mut file = File::from(reader);
        expect(&mut file, 0, read);
        let (zero_copy, report) = send_a_slab(2 * slab);
        expect(&mut file, read as u64, 3 * slab - read);
        if !zero_copy {
            return skip("pages are not handed over here");
        }
        let reused = u64::from(read >= slab);
        assert_eq!(report.slabs_reused, reused, "{read} bytes were read");
        assert_eq!(report.slabs_renewed, 1 - reused);
        assert_eq!(report.zero_copy_bytes, report.counts.bytes);
    }
}
