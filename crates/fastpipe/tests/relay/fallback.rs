//! Techniques refused by the kernel, at the start and in mid-stream.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common::ends::{From, To, between, collected, going_on_while, output};
use crate::common::seccomp::{filters_work, refuse};
use crate::common::{Directory, assert_same, flags, pattern, pipe_of};
use fastpipe::relay::{End, Flow, Options, PassedOver, Progress, Reason, Technique, relay};
use fastpipe::transfer::Output;
use fastpipe::wait::Wait;
use rustix::fs::OFlags;

/// More than two pipefuls of a file: the last one is copied in any case.
const LEN: usize = 3_000_001;

/// More than the last pipeful; twice as much leaves a pipeful of LEN.
const LIMIT: u64 = 1_400_000;

/// Small blocks, and a call of the callback before each step.
fn step_by_step(technique: Technique) -> Options {
    Options::new()
        .technique(technique)
        .block(10_000)
        .interval(Duration::ZERO)
}

fn reason(technique: Technique, passed_over: &[PassedOver]) -> Reason {
    let found = passed_over.iter().find(|p| p.technique == technique);
    found.expect("it was passed over").reason
}

/// Relays LEN bytes, and calls `trouble` once after half of them were taken, while the
/// technique holds some if it can. Checks that every byte arrives, and that the relay
/// fell back to copying.
fn troubled(
    technique: Technique,
    from: From,
    to: To,
    mut trouble: impl FnMut(&OwnedFd),
) -> (Reason, u64) {
    let holds = technique == Technique::SpliceThroughPipe;
    let mut troubled_at = None;
    let done = between(from, to, &pattern(LEN), |reader, writer| {
        relay(reader, writer, &step_by_step(technique), |progress| {
            let now =
                progress.taken >= LEN as u64 / 2 && (!holds || progress.taken > progress.given);
            if now && troubled_at.is_none() {
                assert_eq!(progress.technique, technique);
                trouble(writer);
                troubled_at = Some(progress.given);
            }
            Flow::Continue
        })
        .unwrap()
    });
    assert_eq!((done.taken, done.given), (LEN as u64, LEN as u64));
    assert_eq!(done.end, End::EndOfData);
    assert_eq!(done.technique, Technique::Copy);
    (
        reason(technique, &done.passed_over),
        troubled_at.expect("there was trouble"),
    )
}

/// Techniques, and inputs and outputs between which they move bytes.
const CASES: [(Technique, From, To); 6] = [
    (Technique::Splice, From::Pipe, To::Pipe),
    (Technique::Splice, From::File, To::Pipe),
    (Technique::Splice, From::Pipe, To::File),
    (Technique::SpliceThroughPipe, From::Unix, To::File),
    (Technique::Sendfile, From::File, To::File),
    (Technique::CopyFileRange, From::File, To::File),
];

#[test]
fn output_set_to_append_in_mid_stream_loses_no_byte() {
    for (technique, from, to) in CASES {
        if to != To::File {
            continue;
        }
        let (reason, at) = troubled(technique, from, to, |writer| {
            let appending = flags(writer) | OFlags::APPEND;
            rustix::fs::fcntl_setfl(writer, appending).unwrap();
        });
        let Reason::Refused { errno, after } = reason else {
            panic!("{reason:?}");
        };
        assert_eq!(after, at);
        let expected = match technique {
            Technique::CopyFileRange => libc::EBADF,
            _ => libc::EINVAL,
        };
        assert_eq!(errno, expected);
    }
}

#[test]
fn socket_made_blocking_in_mid_stream_is_not_spliced_to() {
    for (technique, from) in [
        (Technique::Splice, From::Pipe),
        (Technique::SpliceThroughPipe, From::Tcp),
        (Technique::Sendfile, From::File),
    ] {
        let (reason, at) = troubled(technique, from, To::UnixNonblocking, |writer| {
            let blocking = flags(writer) - OFlags::NONBLOCK;
            rustix::fs::fcntl_setfl(writer, blocking).unwrap();
        });
        let errno = libc::EWOULDBLOCK;
        assert_eq!(reason, Reason::Refused { errno, after: at });
    }
}

/// The system calls that move bytes without read and write.
const MOVING: [libc::c_long; 3] = [
    libc::SYS_splice,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
];

#[test]
fn every_byte_arrives_with_all_fast_calls_refused() {
    if !filters_work() {
        return;
    }
    for (technique, from, to) in CASES {
        for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            // In its own thread, since a filter can't be removed.
            let filtered = std::thread::spawn(move || {
                between(from, to, &pattern(LEN), |reader, writer| {
                    assert!(refuse(&MOVING, errno));
                    for options in [step_by_step(technique), Options::new()] {
                        let options = options.limit(LIMIT);
                        let done = relay(reader, writer, &options, |_| Flow::Continue).unwrap();
                        assert_eq!(done.given, LIMIT);
                        assert_eq!(done.technique, Technique::Copy);
                        // From a pipe what is in it was read.
                        let mut output = Output::new(writer, Wait::Block);
                        output.write(&done.undelivered).unwrap();
                    }
                    relay(reader, writer, &Options::new(), |_| Flow::Continue).unwrap();
                });
            });
            filtered.join().unwrap();
        }
    }
}

#[test]
fn filter_set_in_mid_stream_loses_and_repeats_no_byte() {
    if !filters_work() {
        return;
    }
    for (technique, from, to) in CASES {
        let filtered = std::thread::spawn(move || {
            let (reason, at) = troubled(technique, from, to, |_| {
                assert!(refuse(&MOVING, libc::EPERM));
            });
            let errno = libc::EPERM;
            assert_eq!(reason, Reason::Refused { errno, after: at });
        });
        filtered.join().unwrap();
    }
}

#[test]
fn a_technique_stuck_with_both_ends_ready_is_abandoned() {
    if !filters_work() {
        return;
    }
    for (technique, from, to) in CASES {
        // Files are always ready: no call between them would block.
        if (from, to) == (From::File, To::File) {
            continue;
        }
        let filtered = std::thread::spawn(move || {
            let options = Options::new().technique(technique);
            let done = between(from, to, &pattern(LEN), |reader, writer| {
                assert!(refuse(&MOVING, libc::EAGAIN));
                relay(reader, writer, &options, |_| Flow::Continue).unwrap()
            });
            assert_eq!(
                reason(technique, &done.passed_over),
                Reason::Stuck { after: 0 }
            );
        });
        filtered.join().unwrap();
    }
}

#[test]
fn spinning_does_not_make_a_technique_count_as_stuck() {
    let (input, _input_writer) = pipe_of(65_536);
    let (_reader, output) = pipe_of(65_536);
    let mut calls = 0;
    let options = Options::new().wait(Wait::Spin).interval(Duration::ZERO);
    let done = relay(&input, &output, &options, |_| {
        // One call per spin.
        calls += 1;
        going_on_while(calls < 1000)
    })
    .unwrap();
    assert_eq!(
        (done.end, done.technique),
        (End::Stopped, Technique::Splice)
    );
}

#[test]
fn every_byte_arrives_without_preadv2_and_pwritev2() {
    if !filters_work() {
        return;
    }
    let filtered = std::thread::spawn(|| {
        let calls = [libc::SYS_preadv2, libc::SYS_pwritev2];
        assert!(refuse(&calls, libc::ENOSYS));
        for (from, to) in [(From::Pipe, To::Pipe), (From::Tcp, To::Fifo)] {
            between(from, to, &pattern(LEN), |reader, writer| {
                relay(reader, writer, &Options::new().copy(), |_| Flow::Continue).unwrap()
            });
        }
    });
    filtered.join().unwrap();
}

#[test]
fn bytes_appended_after_an_early_end_are_relayed_too() {
    for technique in [
        Technique::Sendfile,
        Technique::CopyFileRange,
        Technique::Splice,
    ] {
        let to = match technique {
            Technique::Splice => To::Pipe,
            _ => To::File,
        };
        let directory = Directory::new();
        let bytes = pattern(LEN);
        let file = directory.file("in", &bytes[..LEN / 2]);
        let mut appending = File::options()
            .append(true)
            .open(directory.path("in"))
            .unwrap();
        let (writer, collector) = output(to, &directory, LEN);
        let mut calls_at_the_end = 0;
        let options = step_by_step(technique);
        let done = relay(&file, &writer, &options, |progress: &Progress| {
            if progress.taken == LEN as u64 / 2 {
                calls_at_the_end += 1;
                // The first call comes before the technique has returned 0.
                if calls_at_the_end == 2 {
                    appending.write_all(&bytes[LEN / 2..]).unwrap();
                }
            }
            Flow::Continue
        })
        .unwrap();
        assert_same(&collected(to, &directory, writer, collector), &bytes);
        // The last pipeful is copied, and so is what follows.
        if technique == Technique::Splice {
            continue;
        }
        assert_eq!(done.technique, Technique::Copy);
        let reason = reason(technique, &done.passed_over);
        assert!(matches!(reason, Reason::EndedEarly { .. }), "{reason:?}");
    }
}
