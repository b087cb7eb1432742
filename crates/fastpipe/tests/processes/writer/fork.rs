//! Writers and readers of the parent in a forked child.

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::thread;

use crate::common::pipe_of;
use crate::common::process::{Forked, end_if_it_hangs, in_child, in_own_process};
use crate::common::seccomp::{Gate, refuse};
use crate::common::skip::skip;
use crate::common::writers::{How, KIB, MIB, expect_all, expecting, fresh, send, settings, stream};
use fastpipe::buffer::Buffer;
use fastpipe::method::Method;
use fastpipe::probe::vmsplice_refers;
use fastpipe::reader::Reader;
use fastpipe::writer::{CopyReason, Frozen, Writer};

/// Whether, in a child, every call of the parent's writer that lends, accepts or sends
/// bytes fails, and dropping the writer sends nothing.
fn is_unusable(out: &mut Option<Writer<OwnedFd>>) -> bool {
    let Some(mut parents) = out.take() else {
        return false;
    };
    parents.write(b"x").is_err()
        && parents.write(&[b'x'; 300_000]).is_err()
        && parents.flush().is_err()
        && parents.lend(1).is_err()
        && parents.wait_drained().is_err()
        && parents
            .finish()
            .is_err_and(|error| error.error().kind() == std::io::ErrorKind::Other)
}

#[test]
fn a_writer_fails_in_a_forked_child_which_sends_nothing() {
    in_own_process(|| {
        // With few and with many bytes sent so far.
        for before in [10_000, 3 * MIB + 10_000] {
            for setting in settings() {
                let (reader, writer) = pipe_of(64 * KIB);
                let reading = expecting(reader, &[9000]);
                let mut out = Some(setting.builder.open(writer).unwrap());
                let send = |out: &mut Option<Writer<_>>, at, len| {
                    let out = out.as_mut().unwrap();
                    send(out, How::Lend, at, len).unwrap();
                    out.write_all(&stream(at + len as u64, 100)).unwrap();
                };
                send(&mut out, 0, before);
                assert!(in_child(|| is_unusable(&mut out)), "{setting:?}");
                // Nor is it usable once the child has used one of its own.
                assert!(in_child(|| write_to_null() && is_unusable(&mut out)));
                send(&mut out, before as u64 + 100, MIB);
                drop(out);
                let end = reading.join().unwrap();
                assert_eq!(end, (before + MIB + 200) as u64, "{setting:?}");
            }
        }
    });
}

#[test]
fn a_forked_child_sends_through_a_writer_of_its_own() {
    in_own_process(|| {
        for setting in settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = expecting(reader, &[9000]);
            let mut out = setting.builder.open(&writer).unwrap();
            send(&mut out, How::Both, 0, MIB).unwrap();
            out.flush().unwrap();
            let sent = in_child(|| {
                let mut own = setting.builder.open(&writer).unwrap();
                let sent = send(&mut own, How::Both, MIB as u64, MIB);
                sent.is_ok() && own.finish().is_ok()
            });
            assert!(sent, "{setting:?}");
            send(&mut out, How::Both, 2 * MIB as u64, MIB).unwrap();
            drop(out);
            drop(writer);
            assert_eq!(reading.join().unwrap(), 3 * MIB as u64, "{setting:?}");
        }
    });
}

#[test]
fn bytes_gathered_before_a_fork_are_sent_by_the_parent_only() {
    in_own_process(|| {
        for setting in settings() {
            let (mut reader, writer) = std::io::pipe().unwrap();
            let mut out = Some(setting.builder.open(writer.into()).unwrap());
            out.as_mut().unwrap().write_all(b"gathered ").unwrap();
            // The child's writer is dropped with the bytes.
            assert!(in_child(|| out
                .take()
                .is_some_and(|parents| !parents.is_ours())));
            assert!(in_child(|| is_unusable(&mut out)), "{setting:?}");
            out.as_mut().unwrap().write_all(b"once").unwrap();
            assert!(out.take().unwrap().finish().is_ok());
            let mut got = String::new();
            reader.read_to_string(&mut got).unwrap();
            assert_eq!(got, "gathered once", "{setting:?}");
        }
    });
}

#[test]
fn reader_in_a_forked_child_returns_the_parents_buffered_bytes() {
    in_own_process(|| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"one\ntwo\nthree\n").unwrap();
        drop(writer);
        let mut input = Reader::builder().open(reader).unwrap();
        let mut line = String::new();
        input.read_line(&mut line).unwrap();
        assert!(in_child(|| {
            let mut rest = String::new();
            input.read_to_string(&mut rest).is_ok() && rest == "two\nthree\n"
        }));
    });
}

/// As before Linux 4.14, or in a sandbox that does not know MADV_WIPEONFORK.
#[test]
fn without_wipe_on_fork_the_writer_copies_and_reports_it() {
    in_own_process(|| {
        if !refuse(&[libc::SYS_madvise], libc::EINVAL) {
            return;
        }
        for setting in settings() {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = thread::spawn(move || {
                let mut reader = Reader::builder().open(reader).unwrap();
                expect_all(&mut reader, 0, &[9000])
            });
            let mut out = Some(setting.builder.open(writer).unwrap());
            send(out.as_mut().unwrap(), How::Lend, 0, 3 * MIB).unwrap();
            let report = out.as_ref().unwrap().report();
            if setting.reuse.is_some() {
                assert_eq!(
                    report.reason(),
                    Some(CopyReason::NoWipeOnFork),
                    "{setting:?}"
                );
            } else {
                assert!(!report.is_zero_copy(), "{setting:?}");
            }
            // Detected by the process id.
            assert!(in_child(|| is_unusable(&mut out)), "{setting:?}");
            let mut out = out.unwrap();
            let frozen = Frozen::new(&stream(3 * MIB as u64, MIB)).unwrap();
            out.repeat(&frozen, 1).unwrap();
            out.finish().unwrap();
            assert_eq!(reading.join().unwrap(), 4 * MIB as u64, "{setting:?}");
        }
    });
}

#[test]
fn child_that_drops_writer_does_not_keep_the_pipe_open() {
    in_own_process(|| {
        // If the child kept the pipe open, the reader would wait until the child ends.
        end_if_it_hangs();
        let (reader, writer) = pipe_of(64 * KIB);
        let reading = expecting(reader, &[9000]);
        let mut out = Some(fresh().at_once().open(writer).unwrap());
        send(out.as_mut().unwrap(), How::Lend, 0, MIB).unwrap();
        let (mut stay, until) = std::io::pipe().unwrap();
        let mut parents = Some(until);
        let child = Forked::running(|| {
            out.take();
            parents.take();
            stay.read(&mut [0]).is_ok_and(|n| n == 0)
        });
        drop(out);
        assert_eq!(reading.join().unwrap(), MIB as u64);
        drop(parents);
        assert!(child.join());
    });
}

fn write_to_null() -> bool {
    let null = File::create("/dev/null").unwrap();
    let mut out = fresh().open(null).unwrap();
    out.write_all(b"x").is_ok() && out.finish().is_ok()
}

#[test]
fn child_forked_while_first_writer_is_created_creates_its_own() {
    in_own_process(|| {
        let (tell, told) = channel();
        let first = thread::spawn(move || {
            tell.send(Gate::close(&[libc::SYS_madvise])).unwrap();
            write_to_null()
        });
        let Some(gate) = told.recv().unwrap() else {
            return;
        };
        let call = gate.pass_until(|arguments| arguments[2] == libc::MADV_WIPEONFORK as u64);
        assert!(in_child(write_to_null));
        // This thread creates one too, before the delayed thread has done so.
        assert!(write_to_null());
        gate.pass_last(call);
        assert!(first.join().unwrap());
    });
}

#[test]
fn child_forked_while_copies_are_laid_out_repeats_same_bytes() {
    in_own_process(|| {
        let frozen = Frozen::new(b"again").unwrap();
        // Copying, so that only the copies laid out use huge pages.
        let repeat = |frozen: &Frozen| {
            let null = File::create("/dev/null").unwrap();
            let mut out = Writer::builder()
                .method(Method::Copy { piece: 8 << 10 })
                .open(null)
                .unwrap();
            out.repeat(frozen, 100_000).is_ok() && out.finish().is_ok()
        };
        let (tell, told) = channel();
        let same = frozen.clone();
        let first = thread::spawn(move || {
            tell.send(Gate::close(&[libc::SYS_madvise])).unwrap();
            repeat(&same)
        });
        let Some(gate) = told.recv().unwrap() else {
            return;
        };
        let call = gate.pass_until(|arguments| arguments[2] == libc::MADV_HUGEPAGE as u64);
        assert!(in_child(|| repeat(&frozen)));
        gate.pass_last(call);
        assert!(first.join().unwrap());
    });
}

#[test]
fn fork_by_another_thread_does_not_affect_the_vmsplice_probe() {
    in_own_process(|| {
        // In a child, since this process would remember the answer.
        if !in_child(|| vmsplice_refers().is_ok()) {
            return skip("vmsplice is refused here");
        }
        let (tell, told) = channel();
        let trying = thread::spawn(move || {
            tell.send(Gate::close(&[libc::SYS_vmsplice])).unwrap();
            vmsplice_refers().is_ok_and(|refers| refers)
        });
        let Some(gate) = told.recv().unwrap() else {
            return;
        };
        let call = gate.pass_until(|_| true);
        let (mut stay, until) = std::io::pipe().unwrap();
        let mut parents = Some(until);
        let child = Forked::running(|| {
            parents.take();
            // Without interference, the probe gives the correct answer.
            stay.read(&mut [0]).is_ok() && vmsplice_refers().is_ok_and(|refers| refers)
        });
        gate.pass_last(call);
        let found = trying.join().unwrap();
        drop(parents);
        assert_eq!(found, child.join());
    });
}

/// A writer that relies on the process id queries it before each write.
#[test]
fn failure_to_mark_the_process_is_forgotten_with_its_writer() {
    in_own_process(|| {
        if let Err(error) = Buffer::builder().len(8).wiped_on_fork(true).map() {
            return skip(error);
        }
        let failing = thread::spawn(|| {
            if refuse(&[libc::SYS_madvise], libc::ENOMEM) {
                assert!(write_to_null());
            }
        });
        failing.join().unwrap();
        let null = File::create("/dev/null").unwrap();
        let mut out = fresh().open(null).unwrap();
        refuse(&[libc::SYS_getpid], libc::EPERM);
        out.write_all(b"x").unwrap();
    });
}
