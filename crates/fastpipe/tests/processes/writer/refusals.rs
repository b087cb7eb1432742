//! Writers under filters that refuse system calls, from the start or in mid-stream. A
//! filter can't be removed, so each test has its own thread. The process remembers
//! probes of the kernel, so tests with a filter from the start have their own process.

use std::fs::File;
use std::thread::scope;

use crate::common::onward::{Onward, hold_and_read_on};
use crate::common::process::{in_own_process, in_own_process_with, set_huge_pages};
use crate::common::seccomp::{refuse, refuse_everywhere};
use crate::common::skip::skip;
use crate::common::state::{until_asleep, until_unread};
use crate::common::writers::{
    HOWS, How, KIB, MIB, check, expect_all, fill, fresh, safe_settings, send, settings, stream,
    uses_method,
};
use crate::common::{pipe_of, read_all};
use crate::common::{smaps, vmsplice};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::method::Method;
use fastpipe::probe::{cow_check_works, vmsplice_refers};
use fastpipe::writer::{CopyReason, Frozen, Writer};

/// Runs `body` in its own thread.
fn in_own_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    scope(|scope| scope.spawn(body).join().unwrap())
}

fn refused_from_the_start(errno: i32) {
    if !refuse(&[libc::SYS_vmsplice], errno) {
        return;
    }
    for setting in safe_settings() {
        for how in HOWS {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = read_all(reader, vec![100_000]);
            let mut out = setting.builder.at_once().open(writer).unwrap();
            send(&mut out, how, 0, 3 * MIB).unwrap();
            out.repeat(&Frozen::new(b"again").unwrap(), 100_000)
                .unwrap();
            // Written bytes alone may be too few for vmsplice.
            if how != How::Write && setting.reuse.is_some() {
                assert_eq!(out.report().reason(), Some(CopyReason::Refused(errno)));
            }
            let report = out.finish().unwrap();
            assert_eq!(report.zero_copy_bytes, 0);
            let got = reading.join().unwrap();
            let (got, again) = got.split_at(3 * MIB);
            check(got, 0).unwrap();
            assert!(again == b"again".repeat(100_000), "{setting:?}");
        }
    }
}

#[test]
fn with_vmsplice_refused_from_the_start_everything_is_written() {
    in_own_process(|| in_own_thread(|| refused_from_the_start(libc::EPERM)));
}

#[test]
fn without_vmsplice_everything_is_written() {
    in_own_process(|| {
        in_own_thread(|| refused_from_the_start(libc::ENOSYS));
    });
}

/// As on a kernel with the change that was proposed in 2026.
#[test]
fn where_vmsplice_copies_everything_is_written() {
    in_own_process_with(&[(vmsplice::VARIABLE, "copies")], || {
        if !vmsplice::is_replaced() {
            return skip("no seccomp filters here");
        }
        if !vmsplice::is_allowed() {
            return;
        }
        assert!(!vmsplice_refers().unwrap());
        for setting in settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = std::thread::spawn(move || hold_and_read_on(reader, Onward::Spliced));
            let mut out = setting.builder.open(writer).unwrap();
            send(&mut out, How::Both, 0, 9 * MIB + 77).unwrap();
            let report = out.finish().unwrap();
            if setting.reuse.is_some() {
                assert_eq!(report.reason(), Some(CopyReason::KernelCopies));
            }
            assert_eq!(report.zero_copy_bytes, 0);
            let (bytes, wrong) = reading.join().unwrap();
            assert_eq!((bytes, wrong), (9 * MIB as u64 + 77, 0), "{setting:?}");
        }
    });
}

#[test]
fn vmsplice_refused_in_mid_stream_loses_and_repeats_nothing() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL] {
        for setting in safe_settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = std::thread::spawn(move || hold_and_read_on(reader, Onward::Spliced));
            in_own_thread(move || {
                let mut out = setting.builder.open(writer).unwrap();
                send(&mut out, How::Both, 0, 9 * MIB + 77).unwrap();
                let went = out.report().is_zero_copy();
                if !refuse(&[libc::SYS_vmsplice], errno) {
                    return;
                }
                send(&mut out, How::Both, 9 * MIB as u64 + 77, 9 * MIB).unwrap();
                if went {
                    assert_eq!(out.report().reason(), Some(CopyReason::Refused(errno)));
                }
                out.finish().unwrap();
            });
            let (bytes, wrong) = reading.join().unwrap();
            assert!(bytes >= 9 * MIB as u64 + 77);
            assert_eq!(wrong, 0, "{setting:?}");
        }
    }
}

/// The first call sends a part of a piece; the second one, for the rest, is refused.
#[test]
fn vmsplice_refused_on_its_second_call_loses_and_repeats_nothing() {
    in_own_process(|| {
        let (reader, writer) = pipe_of(64 * KIB);
        let (repeating_reader, repeating_writer) = pipe_of(64 * KIB);
        let frozen = Frozen::new(&stream(3, 100_000)).unwrap();
        let sender = |writer, repeated: Option<&Frozen>| {
            let builder = fresh().keep_capacity().at_once();
            let mut out = builder.open(writer).unwrap();
            match repeated {
                Some(frozen) => out.repeat(frozen, 5).unwrap(),
                None => {
                    let mut loan = out.lend(300_000).unwrap();
                    fill(&mut loan[..300_000], 0);
                    loan.commit(300_000).unwrap();
                }
            }
            out.finish().unwrap()
        };
        scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let also = tell.clone();
            let lending = scope.spawn(move || {
                tell.send(rustix::thread::gettid()).unwrap();
                sender(writer, None)
            });
            let frozen = &frozen;
            let repeating = scope.spawn(move || {
                also.send(rustix::thread::gettid()).unwrap();
                sender(repeating_writer, Some(frozen))
            });
            let threads = [told.recv().unwrap(), told.recv().unwrap()];
            // Both pipes are full, and both writers sleep with bytes left to send.
            for pipe in [&reader, &repeating_reader] {
                until_unread(pipe, 64 * KIB);
            }
            threads.into_iter().for_each(until_asleep);
            let refused = refuse_everywhere(&[libc::SYS_vmsplice], libc::EPERM);
            expect_all(&mut File::from(reader), 0, &[10_000]);
            let got = read_all(repeating_reader, vec![10_000]).join().unwrap();
            assert!(got == stream(3, 100_000).repeat(5));
            let (lent, repeated) = (lending.join().unwrap(), repeating.join().unwrap());
            assert_eq!(lent.counts.bytes, 300_000);
            if refused && lent.zero_copy_bytes > 0 {
                assert_eq!(lent.reason(), Some(CopyReason::Refused(libc::EPERM)));
                assert_eq!(repeated.reason(), Some(CopyReason::Refused(libc::EPERM)));
            }
        });
    });
}

#[test]
fn a_cow_check_refused_in_mid_stream_loses_no_byte() {
    let builder = Writer::builder()
        .method(Method::CowChecked)
        .region(4 * MIB)
        .at_once();
    // The probe of the kernel must run before the filter is set.
    let (_reader, writer) = pipe_of(64 * KIB);
    let mut out = builder.open(writer).unwrap();
    drop(out.lend(1).unwrap());
    let has_one = uses_method(&out.report(), Method::CowChecked, "without a filter");
    let both = &[libc::SYS_clone3, libc::SYS_clone][..];
    for (calls, errno) in [
        (both, libc::EPERM),
        (both, libc::ENOSYS),
        (both, libc::EAGAIN),
        (&both[..1], libc::EPERM),
        (&both[..1], libc::ENOSYS),
    ] {
        for at_first in [0, 9 * MIB] {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = std::thread::spawn(move || hold_and_read_on(reader, Onward::Spliced));
            in_own_thread(|| {
                let mut out = builder.open(writer).unwrap();
                send(&mut out, How::Lend, 0, at_first).unwrap();
                if has_one && at_first > 0 {
                    uses_method(&out.report(), Method::CowChecked, "before the refusal");
                }
                refuse(calls, errno);
                send(&mut out, How::Lend, at_first as u64, 30 * MIB).unwrap();
                out.finish().unwrap();
            });
            let (bytes, wrong) = reading.join().unwrap();
            assert_eq!(bytes, (at_first + 30 * MIB) as u64);
            assert_eq!(wrong, 0, "{calls:?}, error {errno}, after {at_first}");
        }
    }
}

#[test]
fn the_cow_check_is_believed_only_with_a_huge_page() {
    in_own_process(|| {
        if !vmsplice::is_allowed() || !vmsplice::is_by_reference() {
            return;
        }
        if !set_huge_pages(false) {
            return skip("huge pages can't be disabled here");
        }
        match cow_check_works() {
            Err(error) => return skip(error),
            Ok(works) => assert!(!works, "without a huge page nothing is known"),
        }
        // That answer is not remembered.
        assert!(set_huge_pages(true));
        let huge = Buffer::builder().len(4 * MIB).pages(Pages::Huge).map();
        if smaps::huge(&huge.unwrap()) == 0 {
            return skip("this system grants no huge pages");
        }
        let (reader, writer) = pipe_of(64 * KIB);
        let reading = read_all(reader, vec![100_000]);
        let builder = Writer::builder().method(Method::CowChecked);
        let mut out = builder.at_once().open(writer).unwrap();
        send(&mut out, How::Both, 0, MIB).unwrap();
        let works = cow_check_works().unwrap();
        let report = out.report();
        let is_used = report.is_zero_copy() && report.method == Method::CowChecked;
        assert_eq!(is_used, works);
        if !works {
            skip("this kernel does not copy shared huge pages");
        }
        drop(out);
        check(&reading.join().unwrap(), 0).unwrap();
    });
}
