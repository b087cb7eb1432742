//! Memory use of a writer, including locked memory and a lack of huge pages.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::{self, scope};

use crate::common::onward::{Onward, hold_and_read_on, splice};
use crate::common::process::{become_ordinary, in_own_process, set_huge_pages};
use crate::common::skip::skip;
use crate::common::vmsplice;
use crate::common::writers::{
    How, KIB, MIB, check, expect, expect_all, expecting, fill, fresh, safe_settings, send,
    settings, stays_sane, uses_method,
};
use crate::common::{pipe_of, read_all};
use fastpipe::buffer::{Pages, huge_page_size};
use fastpipe::method::Method;
use fastpipe::writer::{CopyReason, Frozen, Writer};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The shortest length that is handed over rather than copied.
const PIECE: usize = 8 * KIB;

/// Sends `pieces` pieces of [`PIECE`] bytes, each from a loan of `ask` bytes, to a reader
/// that splices them onward and holds them all. Returns the maximum number of huge
/// pages held; `None` if nothing was handed over.
fn hold_pieces(builder: fastpipe::writer::WriterBuilder, ask: usize, pieces: usize) -> Option<u64> {
    let (reader, writer) = pipe_of(64 * KIB);
    let mut out = builder.at_once().open(writer).unwrap();
    let mut held: Vec<(OwnedFd, OwnedFd)> = Vec::new();
    for n in 0..pieces {
        let mut loan = out.lend(ask).unwrap();
        fill(&mut loan[..PIECE], (PIECE * n) as u64);
        loan.commit(PIECE).unwrap();
        if n % (MIB / PIECE) == 0 {
            held.push(pipe_of(MIB));
        }
        let capacity = fastpipe::pipe::capacity(&held[0].0).unwrap();
        if capacity < MIB {
            skip("no pipe of a mebibyte is available");
            return None;
        }
        assert_eq!(splice(&reader, &held.last().unwrap().1, PIECE), PIECE);
    }
    let (path, report) = (out.report(), out.report());
    drop(out);
    for (n, (reader, writer)) in held.into_iter().enumerate() {
        drop(writer);
        let at = (n * MIB) as u64;
        let end = expect_all(&mut File::from(reader), at, &[65_536]);
        assert_eq!(end, ((n + 1) * MIB).min(pieces * PIECE) as u64);
    }
    if !path.is_zero_copy() {
        skip(format_args!("pages are not handed over here: {path}"));
        return None;
    }
    (report.zero_copy_bytes > 0).then_some(report.slabs_renewed + 1)
}

#[test]
fn hundreds_of_small_held_pieces_pin_little_memory() {
    const PIECES: usize = 1000;
    for ask in [0, PIECE, 64 * KIB, MIB] {
        let bytes = match ask {
            // The end of a slab, where another loan does not fit, remains unused.
            MIB => 2 * PIECES * PIECE,
            _ => PIECES * PIECE,
        };
        let bound = bytes.div_ceil(huge_page_size()) as u64 + 1;
        if let Some(slabs) = hold_pieces(fresh(), ask, PIECES) {
            assert!(slabs <= bound, "{slabs} huge pages for loans of {ask}");
        }
    }
}

/// Each would pin a whole huge page.
#[test]
fn small_pieces_of_long_loans_are_copied() {
    for ask in [MIB + 1, 2 * MIB - 4096, 2 * MIB, 3 * MIB] {
        assert_eq!(hold_pieces(fresh(), ask, 300), None, "loans of {ask}");
    }
}

/// A slot that refers to one base page keeps its huge page in memory.
#[test]
fn reader_that_holds_many_huge_pages_makes_the_writer_copy() {
    const LEN: u64 = 128 << 20;
    // Less than one region: the checks of later rounds may be paused for their cost.
    const MAX_HELD: u64 = 8 << 20;
    const PIECE: usize = 4 * KIB;
    in_own_process(|| {
        let (reader, writer) = pipe_of(64 * KIB);
        let (held, onward) = pipe_of(MIB);
        let builder = Writer::builder().method(Method::CowChecked).at_once();
        let mut out = builder.max_held(MAX_HELD).open(writer).unwrap();
        let mut file = File::from(reader);
        let mut first = None;
        for at in (0..LEN).step_by(64 * KIB) {
            let mut loan = out.lend(64 * KIB).unwrap();
            fill(&mut loan[..64 * KIB], at);
            loan.commit(64 * KIB).unwrap();
            first = first.or(Some(out.report()));
            let mut len = 64 * KIB;
            if at.is_multiple_of(2 * MIB as u64) {
                assert_eq!(splice(&file, &onward, PIECE), PIECE);
                len -= PIECE;
            }
            expect(&mut file, at + (64 * KIB - len) as u64, len);
        }
        drop(onward);
        let mut held = File::from(held);
        for at in (0..LEN).step_by(2 * MIB) {
            expect(&mut held, at, PIECE);
        }
        if let Some(reason @ CopyReason::Refused(_)) = out.report().reason() {
            return skip(format_args!("vmsplice is refused: {reason}"));
        }
        if uses_method(&first.unwrap(), Method::CowChecked, "each huge page held") {
            assert_eq!(out.report().reason(), Some(CopyReason::PagesHeld));
            let held_bytes = out.report().held_bytes;
            assert!(
                held_bytes <= MAX_HELD + huge_page_size() as u64,
                "{held_bytes}"
            );
        }
    });
}

fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn memory_stays_within_the_region_during_a_long_stream() {
    in_own_process(|| {
        for setting in settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = expecting(reader, &[256 * KIB]);
            let before = kib("VmRSS:");
            let mut out = setting.builder.open(writer).unwrap();
            send(&mut out, How::Both, 0, 48 * MIB).unwrap();
            let during = kib("VmRSS:");
            out.finish().unwrap();
            assert_eq!(reading.join().unwrap(), 48 * MIB as u64);
            // A region of 4 MiB, pieces of up to 1 MiB, and a margin.
            assert!(
                during < before + 10 * 1024,
                "{setting:?}: {before} to {during} KiB"
            );
        }
    });
}

/// MADV_DONTNEED fails with EINVAL under mlockall, and the old bytes would stay.
#[test]
fn under_mlockall_pages_are_replaced_by_new_mappings() {
    in_own_process(|| {
        // SAFETY: plain numbers; the memory is unlocked when the process ends.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            return skip("this process may not lock all its memory");
        }
        for setting in safe_settings() {
            for onward in [Onward::Spliced, Onward::Teed] {
                let (reader, writer) = pipe_of(64 * KIB);
                let reading = std::thread::spawn(move || hold_and_read_on(reader, onward));
                let mut out = setting.builder.open(writer).unwrap();
                send(&mut out, How::Both, 0, 30 * MIB).unwrap();
                out.finish().unwrap();
                let (bytes, wrong) = reading.join().unwrap();
                assert_eq!((bytes, wrong), (30 * MIB as u64, 0), "{setting:?}");
            }
        }
    });
}

/// With limits around the usual 8 MiB of containers: there is no memory for a region, or
/// for its replacement.
#[test]
fn without_lockable_memory_the_rest_is_copied() {
    const SMALL: usize = 64 * KIB;
    const LEN: usize = 20 * MIB;
    in_own_process(|| {
        let limit = |mebibytes: u64| {
            let all = getrlimit(Resource::Memlock);
            let current = Some(mebibytes * MIB as u64);
            setrlimit(Resource::Memlock, Rlimit { current, ..all }).is_ok()
        };
        if !become_ordinary() {
            return;
        }
        if let Err(error) = mlockall(MlockAllFlags::FUTURE) {
            return skip(format_args!("mlockall: {error}"));
        }
        let hands_over = vmsplice::is_allowed() && vmsplice::is_by_reference();
        for mebibytes in [6, 7, 8] {
            for setting in settings() {
                if !limit(mebibytes) {
                    return skip(format_args!("may not lock {mebibytes} MiB here"));
                }
                let (reader, writer) = pipe_of(64 * KIB);
                let reading = expecting(reader, &[64 * KIB]);
                let mut out = setting.builder.open(writer).unwrap();
                for at in (0..LEN).step_by(SMALL) {
                    let mut loan = out.lend(SMALL).unwrap();
                    fill(&mut loan[..SMALL], at as u64);
                    loan.commit(SMALL).unwrap();
                }
                let report = out.finish().unwrap();
                assert_eq!(report.counts.bytes, LEN as u64);
                assert_eq!(reading.join().unwrap(), LEN as u64, "{setting:?}");
                if hands_over && setting.reuse.is_some() && !setting.name.contains("base") {
                    assert_eq!(report.reason(), Some(CopyReason::NoMemory), "{setting:?}");
                }
            }
        }
    });
}

/// Sets the limit of the address space to what is in use, and this many bytes. Returns the limit before.
fn limit_space(more: usize) -> Rlimit {
    let before = getrlimit(Resource::As);
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let current = Some(pages * fastpipe::pipe::page_size() as u64 + more as u64);
    setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
    before
}

/// Pages that are handed over may need twice the memory of a loan, or another region beside the old one.
#[test]
fn a_loan_with_memory_for_one_copy_only_is_copied() {
    const LONG: usize = 512 * MIB;
    in_own_process(|| {
        for setting in settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = expecting(reader, &[64 * KIB]);
            let mut out = setting.builder.at_once().open(writer).unwrap();
            let unlimited = limit_space(LONG + LONG / 2);
            let mut at = 0;
            for (ask, len) in [(KIB, KIB), (LONG, MIB), (KIB, KIB), (MIB, MIB)] {
                let lent = out.lend(ask);
                let mut loan = lent.unwrap_or_else(|error| panic!("{setting:?}: {error}"));
                fill(&mut loan[..len], at as u64);
                loan.commit(len).unwrap();
                at += len;
            }
            setrlimit(Resource::As, unlimited).unwrap();
            assert_eq!(out.finish().unwrap().counts.bytes, at as u64);
            assert_eq!(reading.join().unwrap(), at as u64, "{setting:?}");
        }
    });
}

/// Reads lines of "y" to the end, and returns the number of bytes.
fn expect_lines(mut from: File) -> u64 {
    let lines = b"y\n".repeat(32 * KIB);
    let mut got = vec![0; lines.len()];
    let mut bytes = 0;
    while from.read_exact(&mut got).is_ok() {
        assert!(got == lines, "after {bytes} bytes");
        bytes += got.len() as u64;
    }
    bytes
}

/// The layout of a repeated line is 1 MiB of huge pages, which takes more than 4 MiB to reserve.
#[test]
fn a_repeated_line_is_sent_many_at_a_time_with_little_memory() {
    const LINES: u64 = 100 * MIB as u64;
    in_own_process(|| {
        for free in [3 * MIB, 1000 * KIB] {
            let (reader, writer) = pipe_of(64 * KIB);
            let (started, has_started) = mpsc::channel();
            let reading = thread::spawn(move || {
                // The first allocation of a thread reserves address space.
                started.send(()).unwrap();
                expect_lines(File::from(reader))
            });
            has_started.recv().unwrap();
            let mut out = Writer::builder().open(writer).unwrap();
            let line = Frozen::new(b"y\n").unwrap();
            let unlimited = limit_space(free);
            out.repeat(&line, LINES).unwrap();
            setrlimit(Resource::As, unlimited).unwrap();
            let report = out.finish().unwrap();
            assert_eq!(reading.join().unwrap(), 2 * LINES);
            let calls = report.counts.moving_calls;
            assert!(
                calls <= 2 * LINES / (32 * KIB as u64),
                "{free}: {calls} calls"
            );
        }
    });
}

#[test]
fn losing_huge_pages_shortens_no_loan_and_loses_no_byte() {
    in_own_process(|| {
        for setting in settings() {
            for ask in [1, 300_000, 3 * MIB] {
                let (reader, writer) = pipe_of(64 * KIB);
                let mut out = setting.builder.at_once().open(writer).unwrap();
                scope(|scope| {
                    let reading = scope.spawn(|| read_all(reader, vec![256 * KIB]).join().unwrap());
                    send(&mut out, How::Lend, 0, 5 * MIB).unwrap();
                    let hands_over = out.report().is_zero_copy();
                    assert!(set_huge_pages(false));
                    let mut at = 5 * MIB as u64;
                    for _ in 0..4 {
                        let mut loan = out.lend(ask).unwrap();
                        assert!(
                            loan.len() >= ask,
                            "{setting:?}: a loan of {} bytes for {ask}",
                            loan.len()
                        );
                        fill(&mut loan[..ask], at);
                        loan.commit(ask).unwrap();
                        at += ask as u64;
                    }
                    send(&mut out, How::Both, at, 5 * MIB).unwrap();
                    assert!(set_huge_pages(true));
                    if setting.name == "fresh, at once" && hands_over {
                        assert_eq!(out.report().reason(), Some(CopyReason::NoHugePages));
                    }
                    drop(out);
                    let got = reading.join().unwrap();
                    assert_eq!(got.len() as u64, at + 5 * MIB as u64);
                    check(&got, 0).unwrap();
                });
            }
        }
    });
}

/// A released page does not return to the pool while a pipe holds it.
#[test]
fn reserved_huge_pages_that_run_out_do_not_kill_process() {
    in_own_process(|| {
        let free = || {
            let text = std::fs::read_to_string("/proc/meminfo").unwrap();
            let line = text
                .lines()
                .find(|line| line.starts_with("HugePages_Free:"));
            let count = line.and_then(|line| line.split_ascii_whitespace().nth(1));
            count
                .and_then(|count| count.parse::<usize>().ok())
                .unwrap_or(0)
        };
        if !(1..=32).contains(&free()) {
            return skip("no small pool of reserved huge pages here");
        }
        for method in [Method::Fresh, Method::CowChecked] {
            let (reader, writer) = pipe_of(64 * KIB);
            let (late, onward) = pipe_of(MIB);
            let builder = Writer::builder().method(method).pages(Pages::HugeTlb);
            let mut out = builder.region(2).at_once().open(writer).unwrap();
            let pieces = free() + 4;
            for n in 0..pieces {
                let mut loan = out.lend(huge_page_size()).unwrap();
                fill(&mut loan[..4096], 4096 * n as u64);
                loan.commit(4096).unwrap();
                assert_eq!(splice(&reader, &onward, 4096), 4096);
            }
            drop((out, onward));
            let end = expect_all(&mut File::from(late), 0, &[65_536]);
            assert_eq!(end, 4096 * pieces as u64);
        }
    });
}

#[test]
fn an_impossibly_large_region_does_no_harm() {
    // In its own process, which it may end.
    in_own_process(|| stays_sane(usize::MAX, 64 * KIB));
}
