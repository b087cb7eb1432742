//! Outputs on a disk that becomes full, and then has space again.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::common::Directory;
use crate::common::process::in_own_process;
use crate::common::writers::{MIB, check, fill, fresh, settings, stream};
use crate::common::{ALL_WAITS, assert_same};
use fastpipe::wait::Wait;
use fastpipe::writer::{Frozen, Writer, WriterBuilder};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LEN: usize = 3 * MIB + 17;

/// Whether the error is a lack of space.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EFBIG))
}

/// Sends the stream to `path`, and calls `make_room` when there is no space. No byte may be
/// accepted twice or lost.
fn send(builder: WriterBuilder, path: &Path, lend: bool, mut make_room: impl FnMut()) {
    let file = File::create(path).unwrap();
    let mut out = builder.open(file).unwrap();
    let (mut at, mut failures) = (0, 0);
    let mut room = |out: &Writer<File>, at: usize, error: &io::Error| {
        assert!(is_no_room(error), "{error}");
        let there = std::fs::metadata(path).unwrap().len();
        // All accepted bytes are in the file or queued.
        assert_eq!(u128::from(there) + out.queued(), at as u128);
        assert_eq!(out.report().counts.bytes, there);
        failures += 1;
        if failures % 2 == 0 {
            make_room();
        }
    };
    while at < LEN {
        let n = [70_001, 4096, 300_000][at % 3].min(LEN - at);
        if lend {
            match out.lend(n) {
                Ok(mut loan) => {
                    fill(&mut loan[..n], at as u64);
                    at += n;
                    if let Err(error) = loan.commit(n) {
                        room(&out, at, &error);
                    }
                }
                Err(error) => room(&out, at, &error),
            }
        } else {
            match out.write(&stream(at as u64, n)) {
                Ok(n) => at += n,
                Err(error) => room(&out, at, &error),
            }
        }
    }
    while let Err(error) = out.flush() {
        room(&out, at, &error);
    }
    let report = out.finish().unwrap();
    assert_eq!(report.counts.bytes, LEN as u64);
    assert!(failures > 0, "the disk was never full");
    let got = std::fs::read(path).unwrap();
    assert_eq!(got.len(), LEN);
    check(&got, 0).unwrap();
}

fn each(mut test: impl FnMut(WriterBuilder, bool)) {
    for (n, setting) in settings().into_iter().enumerate() {
        for lend in [false, true] {
            let wait = ALL_WAITS[n % ALL_WAITS.len()];
            test(setting.builder.wait(wait), lend);
        }
    }
}

fn limit_files_to(bytes: u64) {
    let current = Some(bytes);
    let all = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current, ..all }).unwrap();
}

#[test]
fn file_gets_every_byte_after_its_size_limit_is_raised() {
    in_own_process(|| {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let directory = Directory::new();
        each(|builder, lend| {
            let mut limit = 100_001;
            limit_files_to(limit);
            send(builder, &directory.path("out"), lend, || {
                limit += 700_000;
                limit_files_to(limit);
            });
        });
    });
}

#[test]
fn a_repetition_resumes_after_its_size_limit_is_raised() {
    in_own_process(|| {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let directory = Directory::new();
        let path = directory.path("out");
        for length in [2, 3, 7, 4097, 100_000] {
            let data = stream(1, length);
            let times = (MIB / length) as u64;
            let mut limit = 100_001;
            limit_files_to(limit);
            let builder = fresh().wait(Wait::Block);
            let mut out = builder.open(File::create(&path).unwrap()).unwrap();
            // Of two, the second is accepted once the first is sent.
            let frozen = Frozen::new(&data).unwrap();
            out.repeat(&frozen, times).unwrap();
            let mut sent = out.repeat(&frozen, 1);
            while let Err(error) = sent {
                assert!(is_no_room(&error), "{error}");
                limit += 99_999;
                limit_files_to(limit);
                sent = out.repeat(&frozen, 1);
            }
            limit_files_to(limit + 99_999);
            out.finish().unwrap();
            let all = data.repeat(times as usize + 1);
            assert_same(&std::fs::read(&path).unwrap(), &all);
        }
    });
}
