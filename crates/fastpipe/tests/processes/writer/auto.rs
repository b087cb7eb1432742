//! [`Method::Auto`] on streams that are long enough for its trials, with readers of
//! several kinds, also in a process with a single thread, as `CowChecked` requires.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::onward::splice;
use crate::common::process::{Forked, in_own_process, set_huge_pages};
use crate::common::seccomp::refuse;
use crate::common::skip::skip;
use crate::common::writers::{KIB, MIB, is_excused};
use crate::common::{assert_same, pattern, pipe_of};
use crate::common::{smaps, vmsplice};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::method::Method;
use fastpipe::probe::cow_check_works;
use fastpipe::writer::{CopyReason, Report, Trial, Writer};

const LOAN: usize = 256 * KIB;
/// Sent after the wanted trial.
const MORE: usize = 48 * MIB;
/// Sent in wait for the wanted trial.
const MAX_SENT: usize = 4096 * MIB;
/// An emulated processor takes minutes for that.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Mean rate, in bytes per second, above which a trial must have ended before
/// [`MAX_SENT`]. It is twice the rate below which there are no trials.
const FAST: f64 = (400 << 20) as f64;

/// Repeated bytes, which are made and checked quickly.
struct Cycle(Vec<u8>);

impl Cycle {
    /// Prime, so that bytes displaced by whole pages are wrong.
    const LEN: usize = 1_000_003;
    const MAX_PIECE: usize = MIB;

    fn new() -> Self {
        let mut bytes = pattern(Self::LEN);
        bytes.extend_from_within(..);
        bytes.extend_from_within(..Self::MAX_PIECE - Self::LEN);
        Cycle(bytes)
    }

    /// The `len` bytes of the stream at offset `at`.
    fn piece(&self, at: usize, len: usize) -> &[u8] {
        &self.0[at % Self::LEN..][..len]
    }

    /// Reads and checks `len` bytes, or up to the end, in pieces of this size. Returns
    /// the offset where it stopped.
    fn expect(&self, from: &mut File, at: usize, len: usize, piece: usize) -> usize {
        let mut chunk = vec![0; piece];
        let end = at.saturating_add(len);
        let mut at = at;
        while at < end {
            let n = from.read(&mut chunk[..piece.min(end - at)]).unwrap();
            if n == 0 {
                break;
            }
            assert_same(&chunk[..n], self.piece(at, n));
            at += n;
        }
        at
    }
}

/// Reads and checks the whole stream. Returns its length.
type Reading = fn(OwnedFd, &Cycle) -> usize;

const READINGS: [Reading; 4] = [copy, hold, resize, read_little];

fn copy(reader: OwnedFd, cycle: &Cycle) -> usize {
    cycle.expect(&mut File::from(reader), 0, usize::MAX, 64 * KIB)
}

/// Splices some bytes onward, and looks at them after more than a region has been sent.
fn hold(reader: OwnedFd, cycle: &Cycle) -> usize {
    let (held, onward) = pipe_of(512 * KIB);
    let (mut file, mut held) = (File::from(reader), File::from(held));
    let mut at = 0;
    loop {
        let n = splice(&file, &onward, 200_000 + at % 77_777);
        if n == 0 {
            return at;
        }
        let end = cycle.expect(&mut file, at + n, 20 * MIB, 256 * KIB);
        assert_eq!(cycle.expect(&mut held, at, n, 64 * KIB), at + n);
        at = end;
    }
}

fn resize(reader: OwnedFd, cycle: &Cycle) -> usize {
    let mut file = File::from(reader);
    let mut at = 0;
    for capacity in [1 << 20, 64 << 10, 256 << 10, 512 << 10].iter().cycle() {
        // Refused if more is queued.
        let _ = rustix::pipe::fcntl_setpipe_size(&file, *capacity);
        let end = cycle.expect(&mut file, at, MIB, 100_001);
        if end == at {
            break;
        }
        at = end;
    }
    at
}

/// Slow because of its small pieces.
fn read_little(reader: OwnedFd, cycle: &Cycle) -> usize {
    cycle.expect(&mut File::from(reader), 0, usize::MAX, 999)
}

fn is_tried(report: &Report, way: Method) -> bool {
    report.trials.iter().any(|trial| trial.challenger == way)
}

/// Whether the writer has found a reason to copy for good.
fn is_given_up(report: &Report) -> bool {
    use CopyReason::{FewBytes, NothingFaster};
    let reason = report.reason();
    reason.is_some_and(|reason| !matches!(reason, FewBytes | NothingFaster))
}

/// Sends the stream from offset `at` on until `is_done`, at most up to [`MAX_SENT`], or for [`MAX_TIME`].
/// Returns the offset of the end.
fn send_until(
    out: &mut Writer<OwnedFd>,
    cycle: &Cycle,
    mut at: usize,
    is_done: impl Fn(&Report) -> bool,
) -> usize {
    let started = Instant::now();
    while at < MAX_SENT && started.elapsed() < MAX_TIME && !is_done(&out.report()) {
        let mut loan = out.lend(LOAN).unwrap();
        loan[..LOAN].copy_from_slice(cycle.piece(at, LOAN));
        loan.commit(LOAN).unwrap();
        at += LOAN;
    }
    at
}

/// Sends until `way` was tried, and then some more. Reports a skipped test if it can't
/// be tried here.
fn send(writer: OwnedFd, way: Method) -> usize {
    let cycle = Cycle::new();
    let settings = Writer::builder().allow_clone(way == Method::CowChecked);
    let mut out = settings.open(writer).unwrap();
    let started = Instant::now();
    let at = send_until(&mut out, &cycle, 0, |report| {
        is_tried(report, way) || is_given_up(report)
    });
    let end = (at + MORE) as u64;
    let at = send_until(&mut out, &cycle, at, |report| report.counts.bytes >= end);
    let rate = at as f64 / started.elapsed().as_secs_f64();
    let report = out.finish().unwrap();
    assert_eq!(report.counts.bytes, at as u64);
    if is_tried(&report, way) {
        return at;
    }
    if is_given_up(&report) {
        assert!(is_excused(&report), "{report:?}");
        skip(format_args!("{way:?} can't be tried here: {report}"));
    } else {
        assert!(rate < FAST, "{way:?} was not tried: {report:?}");
        skip(format_args!("too slow for trials: {rate:.0} B/s"));
    }
    at
}

#[test]
fn auto_tries_fresh_pages_and_every_reader_gets_every_byte() {
    let cycle = Cycle::new();
    for reading in READINGS {
        let (reader, writer) = pipe_of(64 * KIB);
        let cycle = &cycle;
        thread::scope(|scope| {
            let got = scope.spawn(move || reading(reader, cycle));
            assert_eq!(send(writer, Method::Fresh), got.join().unwrap());
        });
    }
}

#[test]
fn auto_tries_cow_checked_pages_in_process_of_one_thread() {
    in_own_process(|| {
        if !cow_check_works().unwrap_or(false) {
            return skip("the copy-on-write check does not work here");
        }
        let cycle = Cycle::new();
        for reading in READINGS {
            let (reader, writer) = pipe_of(64 * KIB);
            let mut own = Some(writer);
            let mut other = Some(reader);
            // A forked child has one thread.
            let child = Forked::running(|| {
                drop(other.take());
                let writer = own.take();
                let sent =
                    AssertUnwindSafe(|| writer.map(|writer| send(writer, Method::CowChecked)));
                catch_unwind(sent).is_ok_and(|sent| sent.is_some())
            });
            drop(own.take());
            let reader = other.take().unwrap();
            let got = reading(reader, &cycle);
            assert!(child.join());
            assert!(got >= MORE, "{got}");
        }
    });
}

/// clone(2) shows in audits, uses up process ids, and ends a process whose filter forbids it.
#[test]
fn auto_does_not_clone_unless_it_may_nor_under_a_seccomp_filter() {
    in_own_process(|| {
        for (allowed, filtered) in [(false, false), (true, true)] {
            let (reader, writer) = pipe_of(64 * KIB);
            let (mut own, mut other) = (Some(writer), Some(reader));
            // A forked child has one thread, as the check requires.
            let child = Forked::running(|| {
                drop(other.take());
                if filtered && !refuse(&[libc::SYS_getuid], libc::EPERM) {
                    return true;
                }
                let settings = Writer::builder().allow_clone(allowed);
                let mut out = settings.open(own.take().unwrap()).unwrap();
                let cycle = Cycle::new();
                let is_enough = |report: &Report| {
                    let fresh = |trial: &&Trial| trial.challenger == Method::Fresh;
                    report.trials.iter().filter(fresh).count() >= 3 || is_given_up(report)
                };
                send_until(&mut out, &cycle, 0, is_enough);
                !is_tried(&out.finish().unwrap(), Method::CowChecked)
            });
            drop(own.take());
            copy(other.take().unwrap(), &Cycle::new());
            assert!(child.join(), "{allowed}, {filtered}");
        }
    });
}

#[test]
fn auto_tries_again_once_there_are_huge_pages() {
    in_own_process(|| {
        if !set_huge_pages(false) {
            return skip("huge pages can't be disabled here");
        }
        if !vmsplice::is_allowed() {
            return;
        }
        let cycle = Cycle::new();
        let (reader, writer) = pipe_of(64 * KIB);
        thread::scope(|scope| {
            let got = scope.spawn(|| copy(reader, &cycle));
            let mut out = Writer::builder().method(Method::Auto).open(writer).unwrap();
            let at = send_until(&mut out, &cycle, 0, is_given_up);
            let first = out.report();
            assert!(set_huge_pages(true));
            let started = Instant::now();
            let end = send_until(&mut out, &cycle, at, |report| {
                first.reason() != Some(CopyReason::NoHugePages) || is_tried(report, Method::Fresh)
            });
            let rate = (end - at) as f64 / started.elapsed().as_secs_f64();
            let report = out.finish().unwrap();
            assert_eq!(got.join().unwrap(), end);
            if first.reason() != Some(CopyReason::NoHugePages) {
                skip(format_args!(
                    "no trial ends for lack of huge pages: {first}"
                ));
            } else if !is_tried(&report, Method::Fresh) {
                assert!(rate < FAST || !has_huge_pages(), "{report:?}");
                skip(format_args!("no trial of huge pages at {rate:.0} B/s"));
            }
        });
    });
}

/// Whether this system grants huge pages at the moment.
fn has_huge_pages() -> bool {
    let buffer = Buffer::builder().len(4 * MIB).pages(Pages::Huge).map();
    smaps::huge(&buffer.unwrap()) > 0
}
