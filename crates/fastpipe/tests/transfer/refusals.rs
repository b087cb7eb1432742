//! Calls that the kernel refuses, and harmful calls that the library refuses.

use std::cell::Cell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::common::vmsplice;
use crate::common::{ALL_WAITS, Directory, WAITS, assert_same, buffer_with, pattern, pipe_of};
use fastpipe::transfer::{Incomplete, Input, Output};
use fastpipe::wait::Wait;
use rustix::io::Errno;

fn is_refused(result: Result<impl Sized, Incomplete>, errno: Errno) {
    let Err(refused) = result else {
        panic!("not refused");
    };
    assert_eq!(refused.source.raw_os_error(), Some(errno.raw_os_error()));
    assert_eq!(refused.moved, 0);
}

#[test]
fn vmsplice_from_write_end_is_refused_and_pipe_stays_empty() {
    let (_reader, writer) = pipe_of(65_536);
    let mut pages = buffer_with(&[7; 4096], 0);
    for wait in ALL_WAITS {
        let got = Input::new(&writer, wait).vmsplice(&mut pages);
        is_refused(got, Errno::BADF);
    }
    assert_eq!(fastpipe::pipe::unread(&writer).unwrap(), 0);
}

#[test]
fn vmsplice_asks_for_descriptor_once_and_refuses_a_read_end() {
    if !vmsplice::is_allowed() {
        return;
    }
    /// Returns a different end at each call: the write end if the next bit of the number is
    /// set, lowest bit first, else the read end.
    struct Turncoat(OwnedFd, OwnedFd, Cell<u32>);
    impl AsFd for Turncoat {
        fn as_fd(&self) -> BorrowedFd<'_> {
            match self.2.replace(self.2.get() / 2) % 2 {
                0 => self.0.as_fd(),
                _ => self.1.as_fd(),
            }
        }
    }
    for answers in 0..4 {
        let (reader, writer) = pipe_of(65_536);
        rustix::io::write(&writer, &pattern(4096)).unwrap();
        let pages = buffer_with(&[7; 4096], 0);
        let turncoat = Turncoat(reader, writer, Cell::new(answers));
        let mut out = Output::new(turncoat, Wait::Never);
        // After the first write end, the descriptor is not queried again.
        let sent_from = answers.trailing_zeros().min(7);
        for attempt in 0..7 {
            let result = out.vmsplice(&[pages.slice(..)], Default::default());
            assert_same(&pages, &[7; 4096]);
            if attempt < sent_from {
                is_refused(result, Errno::BADF);
            } else {
                result.unwrap();
            }
        }
    }
}

/// poll(2) would never report it.
#[test]
fn the_wrong_end_of_a_pipe_is_refused_under_every_wait() {
    for wait in ALL_WAITS {
        let (reader, writer) = pipe_of(65_536);
        is_refused(Input::new(&writer, wait).read(&mut [0]), Errno::BADF);
        is_refused(Output::new(&reader, wait).write(b"x"), Errno::BADF);
    }
}

#[test]
fn vmsplice_to_anything_but_a_pipe_is_refused() {
    if !vmsplice::is_allowed() {
        return;
    }
    let directory = Directory::new();
    let file = directory.file("file", b"");
    let (socket, _peer) = UnixStream::pair().unwrap();
    let null = File::options().write(true).open("/dev/null").unwrap();
    let pages = buffer_with(b"abc", 0);
    for fd in [file.as_fd(), socket.as_fd(), null.as_fd()] {
        for wait in ALL_WAITS {
            let mut out = Output::new(fd, wait);
            is_refused(
                out.vmsplice(&[pages.slice(..)], Default::default()),
                Errno::BADF,
            );
        }
    }
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn splice_and_tee_without_a_pipe_are_refused() {
    let directory = Directory::new();
    let from = directory.file("from", b"abc");
    let to = directory.file("to", b"");
    for wait in ALL_WAITS {
        let mut input = Input::new(&from, wait);
        is_refused(input.splice(&to, 3, Default::default()), Errno::INVAL);
        is_refused(input.tee(&to, 3), Errno::INVAL);
    }
}

#[test]
fn splice_to_an_appending_file_is_refused_without_loss() {
    let directory = Directory::new();
    let path = directory.path("log");
    let log = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    for wait in ALL_WAITS {
        let (reader, writer) = pipe_of(65_536);
        rustix::io::write(&writer, b"abc").unwrap();
        let mut input = Input::new(&reader, wait);
        is_refused(input.splice(&log, 3, Default::default()), Errno::INVAL);
        let mut got = [0; 3];
        input.read(&mut got).unwrap();
        Output::new(&log, wait).write(&got).unwrap();
    }
    assert_eq!(std::fs::read(path).unwrap(), b"abc".repeat(ALL_WAITS.len()));
}

#[test]
fn a_full_disk_is_reported_without_spinning() {
    for wait in ALL_WAITS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        is_refused(Output::new(&full, wait).write(b"abc"), Errno::NOSPC);
        let (reader, writer) = pipe_of(65_536);
        rustix::io::write(&writer, b"abc").unwrap();
        let mut input = Input::new(&reader, wait);
        // EINVAL on newer kernels, since /dev/full does not support splice.
        let refused = input.splice(&full, u64::MAX, Default::default());
        assert_eq!(refused.unwrap_err().moved, 0);
        assert_eq!(fastpipe::pipe::unread(&reader).unwrap(), 3);
    }
}

#[test]
fn files_transfer_everything_under_every_wait() {
    let directory = Directory::new();
    let bytes = pattern(300_001);
    for wait in ALL_WAITS {
        let path = directory.path("file");
        let mut out = Output::new(File::create(&path).unwrap(), wait);
        for piece in bytes.chunks(70_000) {
            out.write(piece).unwrap();
        }
        assert_eq!(out.counts().bytes, 300_001);
        assert!(
            out.counts().syscalls <= 20,
            "whole pieces: {:?}",
            out.counts()
        );
        let file = out.into_inner();
        // Drop the file from the page cache if possible: RWF_NOWAIT would then fail.
        file.sync_all().unwrap();
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        // Write again, which updates the timestamps.
        let mut again = Output::new(File::options().write(true).open(&path).unwrap(), wait);
        again.write(&bytes[..10]).unwrap();

        let mut input = Input::new(File::open(&path).unwrap(), wait);
        let mut got = vec![0; 300_002];
        assert_eq!(input.read(&mut got).unwrap(), 300_001, "{wait:?}");
        assert_same(&got[..300_001], &bytes);
        assert_eq!(input.counts().would_blocks, 0, "a file makes nobody wait");
    }
}

#[test]
fn devices_transfer_everything_under_every_wait() {
    for wait in ALL_WAITS {
        let null = File::options().write(true).open("/dev/null").unwrap();
        Output::new(null, wait).write(&pattern(300_000)).unwrap();
        let null = File::open("/dev/null").unwrap();
        assert_eq!(Input::new(null, wait).read(&mut [0; 9]).unwrap(), 0);
        let zero = File::open("/dev/zero").unwrap();
        let mut got = vec![1; 100_000];
        assert_eq!(Input::new(zero, wait).read(&mut got).unwrap(), 100_000);
        assert_same(&got, &[0; 100_000]);
    }
}

#[test]
fn a_socket_transfers_everything_under_every_wait() {
    let bytes = pattern(1 << 20);
    for wait in WAITS {
        let (one, other) = UnixStream::pair().unwrap();
        let mut got = vec![0; bytes.len() + 1];
        let n = std::thread::scope(|scope| {
            scope.spawn(|| Output::new(one, wait).write(&bytes).unwrap());
            Input::new(&other, wait).read(&mut got).unwrap()
        });
        assert_same(&got[..n], &bytes);
    }
    let (one, other) = UnixStream::pair().unwrap();
    let mut out = Output::new(&one, Wait::Never);
    let full = out.write(&bytes).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    let mut got = vec![0; bytes.len()];
    let empty = Input::new(&other, Wait::Never).read(&mut got).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::WouldBlock);
    assert_eq!(empty.moved, full.moved);
    assert_same(&got[..full.moved as usize], &bytes[..full.moved as usize]);
}
