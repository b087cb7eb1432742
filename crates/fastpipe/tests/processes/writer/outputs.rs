//! Writers to outputs of every kind.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::common;
use crate::common::ends::terminal;
use crate::common::process::{command, in_own_process, is_child};
use crate::common::writers::{
    How, KIB, MIB, Setting, check, expect_all, expecting, fresh, send, settings, stream,
};
use crate::common::{ALL_WAITS, Directory, WAITS, pipe_of};
use fastpipe::wait::Wait;
use fastpipe::writer::{CopyReason, Report, Writer};

/// Sends `len` bytes and finishes.
fn send_all<F: AsFd>(setting: Setting, wait: Wait, fd: F, len: usize) -> Report {
    let mut out = setting.builder.wait(wait).open(fd).unwrap();
    send(&mut out, How::Both, 0, len).unwrap();
    out.wait_drained().unwrap();
    let report = out.finish().unwrap();
    assert_eq!(report.counts.bytes, len as u64);
    report
}

fn is_copied(report: Report, reason: CopyReason) {
    assert_eq!(report.reason(), Some(reason));
    assert_eq!(report.zero_copy_bytes, 0);
}

#[test]
fn a_file_gets_every_byte_at_its_position_or_end() {
    let directory = Directory::new();
    for setting in settings() {
        for wait in ALL_WAITS {
            let mut file = directory.file("at its position", b"");
            file.write_all(b"head").unwrap();
            let report = send_all(setting, wait, &file, 2 * MIB + 3);
            is_copied(report, CopyReason::File);
            let got = std::fs::read(directory.path("at its position")).unwrap();
            assert_eq!(got.len(), 2 * MIB + 7);
            assert_eq!(&got[..4], b"head");
            check(&got[4..], 0).unwrap();
        }
        drop(directory.file("at its end", b"old "));
        let path = directory.path("at its end");
        let file = File::options().append(true).open(&path).unwrap();
        send_all(setting, Wait::Block, file, MIB);
        let got = std::fs::read(path).unwrap();
        assert_eq!(&got[..4], b"old ");
        check(&got[4..], 0).unwrap();
    }
}

#[test]
fn a_fifo_opened_to_append_gets_every_byte() {
    let directory = Directory::new();
    for (n, setting) in settings().into_iter().enumerate() {
        for wait in WAITS {
            let name = format!("fifo {n} {wait:?}");
            let (mut reader, writer) = directory.fifo(&name);
            let path = directory.path(&name);
            let append = File::options().append(true).open(path).unwrap();
            let reading = std::thread::spawn(move || expect_all(&mut reader, 0, &[70_000, 4096]));
            let mut out = setting.builder.wait(wait).open(writer).unwrap();
            send(&mut out, How::Both, 0, 3 * MIB).unwrap();
            drop(out);
            let mut out = setting.builder.wait(wait).open(append).unwrap();
            send(&mut out, How::Both, 3 * MIB as u64, 3 * MIB).unwrap();
            let report = out.finish().unwrap();
            if setting.reuse.is_some() {
                is_copied(report, CopyReason::Append);
            }
            assert_eq!(reading.join().unwrap(), 6 * MIB as u64, "{setting:?}");
        }
    }
}

#[test]
fn block_waits_even_if_somebody_made_the_pipe_non_blocking() {
    for setting in settings() {
        let (reader, writer) = pipe_of(16 * KIB);
        let flags = common::flags(&writer) | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&writer, flags).unwrap();
        let reading = expecting(reader, &[10_000]);
        for wait in WAITS {
            let mut out = setting.builder.wait(wait).open(&writer).unwrap();
            // The same file each time, so the stream continues at its end.
            let at = WAITS.iter().position(|w| *w == wait).unwrap() * MIB;
            send(&mut out, How::Both, at as u64, MIB).unwrap();
        }
        assert_eq!(common::flags(&writer), flags);
        drop(writer);
        assert_eq!(reading.join().unwrap(), 4 * MIB as u64);
    }
}

#[test]
fn a_socket_gets_every_byte() {
    for setting in settings() {
        for wait in WAITS {
            let (here, mut there) = UnixStream::pair().unwrap();
            let reading = std::thread::spawn(move || expect_all(&mut there, 0, &[50_000, 333]));
            let report = send_all(setting, wait, here, 2 * MIB);
            is_copied(report, CopyReason::Socket);
            assert_eq!(reading.join().unwrap(), 2 * MIB as u64);
        }
    }
}

#[test]
fn a_terminal_gets_every_byte() {
    for setting in settings() {
        for wait in WAITS {
            let (master, slave) = terminal();
            let reading = std::thread::spawn(move || {
                let mut file = File::from(master);
                common::writers::expect(&mut file, 0, 300_000);
            });
            let mut out = setting.builder.wait(wait).open(slave).unwrap();
            send(&mut out, How::Both, 0, 300_000).unwrap();
            let report = out.report();
            let slave = out.into_inner().unwrap();
            is_copied(report, CopyReason::CharacterDevice);
            // Closing the last descriptor would lose unread bytes.
            reading.join().unwrap();
            drop(slave);
        }
    }
}

#[test]
fn a_full_device_is_an_error_with_no_byte_sent() {
    for setting in settings() {
        for wait in ALL_WAITS {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut out = setting.builder.wait(wait).open(full).unwrap();
            let mut loan = out.lend(100_000).unwrap();
            loan[..100_000].copy_from_slice(&stream(0, 100_000));
            let kind = loan.commit(100_000).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::StorageFull);
            assert_eq!(out.queued(), 100_000);
            for _ in 0..3 {
                assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::StorageFull);
                let lent = out.lend(1).map(drop);
                assert_eq!(lent.unwrap_err().kind(), ErrorKind::StorageFull);
            }
            assert_eq!(out.queued(), 100_000);
            assert_eq!(out.report().counts.bytes, 0);
            let failed = out.finish().unwrap_err();
            assert_eq!(failed.error().kind(), ErrorKind::StorageFull);
        }
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut out = setting.builder.open(full).unwrap();
        let mut taken = 0;
        let error = loop {
            match out.write(&[b'x'; 30_000]) {
                Ok(n) => taken += n,
                Err(error) => break error,
            }
            assert!(taken < 64 * MIB, "an error is never told");
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(out.queued(), taken as u128);
    }
}

#[test]
fn a_standard_output_that_is_closed_is_an_error() {
    in_own_process(|| {
        let kept = std::io::stdout().as_fd().try_clone_to_owned().unwrap();
        // SAFETY: nothing here relies on the standard output being open.
        assert_eq!(unsafe { libc::close(1) }, 0);
        for setting in settings() {
            let mut out = setting.builder.stdout().unwrap();
            out.write_all(b"to nobody").unwrap();
            let error = out.flush().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{setting:?}");
            assert_eq!(out.queued(), 9);
        }
        // SAFETY: this process owns both descriptors.
        assert_eq!(unsafe { libc::dup2(kept.as_raw_fd(), 1) }, 1);
    });
}

/// What the child of a test writes to its standard output.
fn printed_by(test: &str) -> Vec<u8> {
    let mut child = command(test, test);
    let output = child.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn earlier_printed_bytes_come_first() {
    const NAME: &str = "earlier_printed_bytes_come_first";
    const MARK: &str = "<printed, and not yet sent>";
    if is_child(NAME) {
        print!("{MARK}");
        let mut out = fresh().stdout().unwrap();
        send(&mut out, How::Both, 0, 3 * MIB).unwrap();
        drop(out);
        println!("{MARK}");
        return;
    }
    let got = printed_by(NAME);
    // The harness prints before and after the mark.
    let begin = got.windows(MARK.len()).position(|w| w == MARK.as_bytes());
    let got = &got[begin.unwrap() + MARK.len()..];
    check(&got[..3 * MIB], 0).unwrap();
    assert!(got[3 * MIB..].starts_with(MARK.as_bytes()));
}

#[test]
fn other_threads_can_print_beside_an_unlocked_writer() {
    const NAME: &str = "other_threads_can_print_beside_an_unlocked_writer";
    const MARK: &str = "<printed>";
    if is_child(NAME) {
        let mut out = Writer::builder().stdout_unlocked().unwrap();
        out.write_all(b"before ").unwrap();
        out.flush().unwrap();
        let printing = std::thread::spawn(|| {
            print!("{MARK}");
            std::io::stdout().flush().unwrap();
        });
        printing.join().unwrap();
        out.write_all(b" after").unwrap();
        out.finish().unwrap();
        return;
    }
    let got = printed_by(NAME);
    let got = String::from_utf8_lossy(&got);
    assert!(got.contains("before <printed> after"), "{got}");
}
