//! The documented behaviour of the writer's methods.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common;
use crate::common::writers::{
    How, KIB, MIB, check, drained_settings, expect, expect_all, fresh, send, settings, stays_sane,
    stream, uses_method,
};
use crate::common::{ALL_WAITS, Directory, assert_same, pipe_of, read_all};
use fastpipe::method::Method;
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::{COPIED_FIRST, CopyReason, Writer};

/// Each piece ends at the end of the first, small region, or of a loan.
#[test]
fn pieces_that_fill_every_buffer_exactly_are_handed_over() {
    for piece in [4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, 512 * KIB] {
        for how in [How::Lend, How::Write] {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = read_all(reader, vec![256 * KIB]);
            let mut out = fresh().open(writer).unwrap();
            for n in 0..6 * MIB / piece {
                let bytes = stream((n * piece) as u64, piece);
                match how {
                    How::Write => out.write_all(&bytes).unwrap(),
                    _ => {
                        let mut loan = out.lend(piece).unwrap();
                        loan[..piece].copy_from_slice(&bytes);
                        loan.commit(piece).unwrap();
                    }
                }
            }
            let path = out.report();
            let report = out.finish().unwrap();
            let handed_over = uses_method(&path, Method::Fresh, &format!("{how:?} of {piece}"));
            // A loan of a single page is copied.
            if handed_over && piece > 4 * KIB {
                assert!(report.zero_copy_bytes > 4 * MIB as u64, "{report:?}");
            }
            let got = reading.join().unwrap();
            assert_eq!(got.len(), 6 * MIB);
            check(&got, 0).unwrap();
        }
    }
}

#[test]
fn few_bytes_are_copied_and_leave_the_pipe_unchanged() {
    let (reader, writer) = pipe_of(64 * KIB);
    let capacity = pipe::capacity(&writer).unwrap();
    let mut out = fresh().open(writer).unwrap();
    out.write_all(b"hello ").unwrap();
    let mut loan = out.lend(0).unwrap();
    loan[..5].copy_from_slice(b"world");
    loan.commit(5).unwrap();
    assert_eq!(out.report().reason(), Some(CopyReason::FewBytes));
    let report = out.report();
    let writer = out.into_inner().unwrap();
    assert_eq!(report.counts.bytes, 11);
    assert_eq!(report.zero_copy_bytes, 0);
    assert_eq!(pipe::capacity(&writer).unwrap(), capacity);
    drop(writer);
    assert_same(&read_all(reader, vec![100]).join().unwrap(), b"hello world");
}

#[test]
fn finish_returns_the_descriptor_and_a_report() {
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let same = writer.try_clone().unwrap();
        let reading = read_all(reader, vec![256 * KIB]);
        let mut out = setting.builder.open(writer).unwrap();
        send(&mut out, How::Both, 0, 5 * MIB + 7).unwrap();
        let report = out.report();
        let writer = out.into_inner().unwrap();
        assert_eq!(report.counts.bytes, 5 * MIB as u64 + 7, "{setting:?}");
        assert!(report.counts.moving_calls <= report.counts.syscalls);
        // Unless pages were handed over until that was refused.
        if !matches!(report.reason(), Some(CopyReason::Refused(_))) {
            assert_eq!(
                report.zero_copy_bytes > 0,
                report.is_zero_copy(),
                "{report:?}"
            );
        }
        // The descriptor still refers to the pipe.
        let mut file = File::from(writer);
        drop(same);
        file.write_all(&stream(5 * MIB as u64 + 7, 9)).unwrap();
        drop(file);
        let got = reading.join().unwrap();
        assert_eq!(got.len(), 5 * MIB + 16);
        check(&got, 0).unwrap();
    }
}

#[test]
fn failed_finish_keeps_the_unsent_bytes_and_can_be_retried() {
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let mut reader = File::from(reader);
        let mut out = setting
            .builder
            .wait(Wait::Never)
            .keep_capacity()
            .open(writer)
            .unwrap();
        let mut at = 0;
        while let Ok(mut loan) = out.lend(0) {
            let n = loan.len();
            common::writers::fill(&mut loan, at);
            loan.commit(n).unwrap();
            at += n as u64;
            assert!(at < 64 * MIB as u64, "the pipe never runs full");
        }
        let queued = out.queued();
        assert!(queued > 0, "{setting:?}");
        let failed = out.finish().unwrap_err();
        assert_eq!(failed.error().kind(), ErrorKind::WouldBlock);
        let (error, out) = failed.into_parts();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(out.queued(), queued);
        let sent = pipe::unread(&reader).unwrap();
        assert_eq!(sent as u128 + queued, u128::from(at), "{setting:?}");
        let mut end = 0;
        let mut attempt = out.finish();
        let report = loop {
            let n = pipe::unread(&reader).unwrap();
            expect(&mut reader, end, n);
            end += n as u64;
            match attempt {
                Ok(done) => break done,
                Err(failed) => attempt = failed.into_parts().1.finish(),
            }
        };
        assert_eq!(report.counts.bytes, at);
        assert_eq!(expect_all(&mut reader, end, &[4096]), at, "{setting:?}");
    }
}

#[test]
fn dropping_sends_queued_bytes_and_does_not_wait_for_reader() {
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let mut out = setting.builder.open(&writer).unwrap();
        out.write_all(&stream(0, 30_000)).unwrap();
        // Would hang if it waited for the reader.
        drop(out);
        assert_eq!(pipe::unread(&reader).unwrap(), 30_000, "{setting:?}");
        expect(&mut File::from(reader), 0, 30_000);
    }
}

#[test]
fn dropping_while_panicking_sends_nothing() {
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut out = setting.builder.open(&writer).unwrap();
            let mut loan = out.lend(10).unwrap();
            common::writers::fill(&mut loan[..10], 0);
            loan.commit(10).unwrap();
            out.write_all(&[b'?'; 1000]).unwrap();
            // Without the message that panic! prints.
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        assert_eq!(pipe::unread(&reader).unwrap(), 10, "{setting:?}");
    }
}

#[test]
fn wait_drained_reports_a_reader_that_closed_early() {
    for wait in ALL_WAITS {
        let (reader, writer) = pipe_of(64 * KIB);
        let mut out = fresh().wait(wait).open(writer).unwrap();
        out.write_all(b"unread").unwrap();
        out.flush().unwrap();
        let before = match wait {
            Wait::Never => Some(out.wait_drained().unwrap_err().kind()),
            _ => None,
        };
        assert_ne!(before, Some(ErrorKind::BrokenPipe));
        drop(reader);
        assert_eq!(
            out.wait_drained().unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
    }
}

#[test]
fn wait_drained_refuses_an_output_that_is_its_own_reader() {
    let directory = Directory::new();
    drop(directory.fifo("fifo"));
    for wait in ALL_WAITS {
        let path = directory.path("fifo");
        let both = File::options().read(true).write(true).open(path).unwrap();
        let mut out = Writer::builder().wait(wait).open(both).unwrap();
        out.write_all(b"unread").unwrap();
        let error = out.wait_drained().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wait:?}: {error}");
        assert_eq!(pipe::unread(&out).unwrap(), 6);
    }
}

/// The reader may read the last byte and close between two checks of the writer.
#[test]
fn reader_that_reads_everything_and_closes_has_drained_the_pipe() {
    for _ in 0..500 {
        let (reader, writer) = pipe_of(4096);
        let mut out = fresh().wait(Wait::Spin).open(writer).unwrap();
        out.write_all(b"x").unwrap();
        out.flush().unwrap();
        let reading = std::thread::spawn(move || {
            let mut byte = [0];
            File::from(reader).read_exact(&mut byte).unwrap();
        });
        let drained = out.wait_drained();
        reading.join().unwrap();
        drained.expect("everything was read");
    }
}

#[test]
fn committing_more_than_the_loan_panics_and_sends_nothing() {
    let (reader, writer) = pipe_of(64 * KIB);
    let mut out = fresh().open(&writer).unwrap();
    let loan = out.lend(10).unwrap();
    let too_many = loan.len() + 1;
    let panicked = catch_unwind(AssertUnwindSafe(|| loan.commit(too_many)));
    assert!(panicked.is_err());
    out.write_all(b"fine").unwrap();
    drop(out);
    assert_eq!(pipe::unread(&reader).unwrap(), 4);
}

#[test]
fn extreme_sizes_of_loans_and_regions_do_no_harm() {
    for (region, loan) in [(MIB, usize::MAX), (0, 0), (1, 1)] {
        stays_sane(region, loan);
    }
}

#[test]
fn a_long_loan_maps_its_memory_once() {
    for method in [Method::Fresh, Method::CowChecked, Method::copy()] {
        let (_reader, writer) = pipe_of(64 * KIB);
        let builder = Writer::builder().method(method).at_once();
        let mut out = builder.open(writer).unwrap();
        assert!(out.lend(4 * MIB).unwrap().len() >= 4 * MIB);
        // Without zero copy, memory was mapped to try it.
        let report = out.report();
        if report.is_zero_copy() || report.reason() == Some(CopyReason::Asked) {
            // This and the first, small one.
            assert_eq!(report.regions_mapped, 2, "{method:?}");
        } else {
            uses_method(&report, Method::Fresh, "a long loan");
        }
    }
}

#[test]
fn flushing_small_pieces_leads_to_zero_copy_too() {
    let (reader, writer) = pipe_of(64 * KIB);
    let reading = read_all(reader, vec![100_000]);
    let builder = fresh();
    let mut out = builder.open(writer).unwrap();
    let bytes = stream(0, 2 * COPIED_FIRST as usize);
    for piece in bytes.chunks(1000) {
        out.write_all(piece).unwrap();
        out.flush().unwrap();
    }
    uses_method(&out.report(), Method::Fresh, "small pieces");
    drop(out);
    check(&reading.join().unwrap(), 0).unwrap();
}

#[test]
fn impossibly_long_loan_is_error_and_the_writer_stays_usable() {
    for setting in settings() {
        let (reader, writer) = pipe_of(64 * KIB);
        let reading = read_all(reader, vec![256 * KIB]);
        let mut out = setting.builder.open(writer).unwrap();
        // First of all, and later.
        for at in [0, MIB] {
            for size in [usize::MAX, isize::MAX as usize, 1 << 50] {
                out.lend(size).map(drop).unwrap_err();
            }
            send(&mut out, How::Both, at as u64, MIB).unwrap();
        }
        if let Some(reuse) = setting.reuse {
            uses_method(&out.report(), reuse, setting.name);
        }
        drop(out);
        let got = reading.join().unwrap();
        assert_eq!(got.len(), 2 * MIB);
        check(&got, 0).unwrap();
    }
}

#[test]
fn no_byte_is_lost_around_the_first_128_kib() {
    for setting in drained_settings().into_iter().chain(settings()) {
        for off in [-1, 0, 1] {
            let len = COPIED_FIRST.saturating_add_signed(off) as usize;
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = read_all(reader, vec![4096]);
            let mut out = setting.builder.open(writer).unwrap();
            send(&mut out, How::Write, 0, len).unwrap();
            send(&mut out, How::Both, len as u64, 300_000).unwrap();
            drop(out);
            let got = reading.join().unwrap();
            assert_eq!(got.len(), len + 300_000);
            check(&got, 0).unwrap();
        }
    }
}
