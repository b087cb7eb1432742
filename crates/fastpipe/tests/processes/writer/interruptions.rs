//! Writers whose waits a signal ends.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::process::in_own_process;
use crate::common::state::{until_asleep, until_unread};
use crate::common::storm::{Storm, until_interrupted};
use crate::common::writers::{KIB, MIB, SLEEPING, check, stream};
use fastpipe::Method;
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::{Frozen, Writer};
use rustix::fs::{OFlags, fcntl_setfl};

/// Fills a pipe, except for `free` bytes.
fn full_pipe(free: usize) -> (PipeReader, PipeWriter, usize) {
    let (mut reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let mut there = 0;
    while let Ok(n) = writer.write(&[0; 4 * KIB]) {
        there += n;
    }
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    reader.read_exact(&mut vec![0; free]).unwrap();
    (reader, writer, there - free)
}

/// An interruptible writer. It only writes, so that the pipe stays as small as it is.
fn interruptible(wait: Wait, writer: PipeWriter) -> Writer<PipeWriter> {
    let settings = Writer::builder().wait(wait).interruptible(true);
    settings.keep_capacity().open(writer).unwrap()
}

#[track_caller]
fn is_interrupted<T>(answer: io::Result<T>) {
    assert_eq!(answer.map(drop).unwrap_err().kind(), ErrorKind::Interrupted);
}

/// Has `write` or `repeat` accept bytes and then be interrupted. Returns how many it accepted.
fn accept(out: &mut Writer<PipeWriter>, how: &str) -> usize {
    let bytes = stream(0, MIB);
    match how {
        "buffered" => {
            out.write_all(&bytes[..100]).unwrap();
            100 + out.write(&bytes[100..]).unwrap()
        }
        "written at once" => out.write(&bytes).unwrap(),
        _ => {
            let data = Frozen::new(&bytes[..300 * KIB]).unwrap();
            out.repeat(&data, 1).unwrap();
            300 * KIB
        }
    }
}

#[test]
fn the_call_after_bytes_were_accepted_reports_the_interruption_once() {
    in_own_process(|| {
        for wait in SLEEPING {
            for (how, free) in [
                ("buffered", 0),
                ("written at once", 16 * KIB),
                ("repeated", 0),
            ] {
                for call in ["write", "lend", "repeat", "flush", "drained", "finish"] {
                    let (mut reader, writer, before) = full_pipe(free);
                    let storm = Storm::begin();
                    let mut out = interruptible(wait, writer);
                    let accepted = accept(&mut out, how);
                    // From here on nothing else would end a wait.
                    drop(storm);
                    let more = Frozen::new(b"more").unwrap();
                    match call {
                        "write" => is_interrupted(out.write(b"more")),
                        "lend" => is_interrupted(out.lend(4).map(drop)),
                        "repeat" => is_interrupted(out.repeat(&more, 1)),
                        "flush" => is_interrupted(out.flush()),
                        "drained" => is_interrupted(out.wait_drained()),
                        _ => {
                            let (error, same) = out.finish().unwrap_err().into_parts();
                            is_interrupted::<()>(Err(error));
                            out = same;
                        }
                    }
                    let reading = std::thread::spawn(move || {
                        let mut got = Vec::new();
                        reader.read_to_end(&mut got).unwrap();
                        got
                    });
                    out.write_all(&stream(accepted as u64, 10_000)).unwrap();
                    out.finish().unwrap();
                    let got = reading.join().unwrap();
                    assert_eq!(got.len(), before + accepted + 10_000, "{how}, {call}");
                    check(&got[before..], 0).unwrap();
                }
            }
        }
    });
}

#[test]
fn an_interrupted_writer_is_dropped_while_its_reader_takes_nothing() {
    in_own_process(|| {
        for how in ["finish", "write"] {
            let (mut reader, writer, before) = full_pipe(0);
            let storm = Storm::begin();
            let mut out = interruptible(Wait::Block, writer);
            if how == "finish" {
                out.write_all(&stream(0, 100)).unwrap();
                let failed = out.finish().unwrap_err();
                drop(storm);
                is_interrupted::<()>(Err(failed.into()));
                continue;
            }
            accept(&mut out, "buffered");
            drop(storm);
            // There is room for a page, which is sent.
            let mut page = [0; 4 * KIB];
            reader.read_exact(&mut page).unwrap();
            drop(out);
            let there = pipe::unread(&reader).unwrap();
            assert!(there > before - page.len(), "nothing was sent");
        }
    });
}

#[test]
fn an_interrupted_writer_that_is_dropped_sends_all_to_a_reader_that_goes_on() {
    in_own_process(|| {
        for how in ["not yet interrupted", "buffered", "repeated"] {
            let (mut reader, writer, before) = full_pipe(0);
            let storm = Storm::begin();
            let mut out = interruptible(Wait::Block, writer);
            let accepted = if how == "not yet interrupted" {
                out.write_all(&stream(0, 100)).unwrap();
                100
            } else {
                accept(&mut out, how)
            };
            // A page is free only once its last byte was read.
            let reading = std::thread::spawn(move || {
                let mut got = vec![0; 3 * KIB];
                reader.read_exact(&mut got).unwrap();
                until_interrupted();
                reader.read_to_end(&mut got).unwrap();
                got
            });
            drop(out);
            drop(storm);
            let got = reading.join().unwrap();
            assert_eq!(got.len(), before + accepted, "{how}");
            check(&got[before..], 0).unwrap();
        }
    });
}

/// So many bytes are spliced from pipes that hold them.
#[test]
fn one_signal_ends_a_repetition_of_many_bytes() {
    in_own_process(|| {
        // It leaves its handler.
        drop(Storm::begin());
        let (reader, writer) = io::pipe().unwrap();
        let thread = rustix::thread::gettid();
        let (ended, end) = mpsc::channel::<()>();
        let signals = std::thread::spawn(move || {
            until_unread(&reader, 64 * KIB);
            until_asleep(thread);
            let [process, thread] =
                [rustix::process::getpid(), thread].map(|id| id.as_raw_nonzero().get());
            // SAFETY: takes numbers only.
            let sent = unsafe { libc::tgkill(process, thread, libc::SIGALRM) };
            assert_eq!(sent, 0);
            // Without a reader every call ends.
            let _ = end.recv_timeout(Duration::from_secs(20));
        });
        let settings = Writer::builder().method(Method::Fresh).at_once();
        let settings = settings.keep_capacity().interruptible(true);
        let mut out = settings.open(writer).unwrap();
        let data = Frozen::new(&stream(0, MIB)).unwrap();
        out.repeat(&data, 200).unwrap();
        is_interrupted(out.flush());
        ended.send(()).unwrap();
        signals.join().unwrap();
    });
}

#[test]
fn bytes_accepted_after_an_interruption_are_sent_by_dropping_the_writer() {
    in_own_process(|| {
        for wait in SLEEPING {
            let (mut reader, writer, before) = full_pipe(0);
            let storm = Storm::begin();
            let mut out = interruptible(wait, writer);
            out.write_all(&stream(0, 100)).unwrap();
            is_interrupted(out.flush());
            drop(storm);
            out.write_all(&stream(100, 100)).unwrap();
            let reading = std::thread::spawn(move || {
                let mut got = Vec::new();
                reader.read_to_end(&mut got).unwrap();
                got
            });
            drop(out);
            let got = reading.join().unwrap();
            assert_eq!(got.len(), before + 200);
            check(&got[before..], 0).unwrap();
        }
    });
}
