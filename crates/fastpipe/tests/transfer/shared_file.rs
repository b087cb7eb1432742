//! The open file of a descriptor may be shared, so its flags are never changed. FIFOs
//! without RWF_NOWAIT are opened again instead.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use crate::common::vmsplice;
use crate::common::{
    ALL_WAITS, Directory, WAITS, assert_same, buffer_with, flags, pattern, pipe_of,
};
use fastpipe::transfer::{Incomplete, Input, Output};
use fastpipe::wait::Wait;
use rustix::fs::OFlags;

const CAPACITY: usize = 4 * 4096;
const BYTES: usize = 10 * CAPACITY + 17;

/// Makes the open file non-blocking, as another process that shares it may do.
fn make_nonblocking(fd: impl AsFd) {
    let stranger = fd.as_fd().try_clone_to_owned().unwrap();
    rustix::fs::fcntl_setfl(&stranger, flags(&stranger) | OFlags::NONBLOCK).unwrap();
}

#[test]
fn transfers_work_on_pipes_made_non_blocking_by_another_process() {
    let bytes = pattern(BYTES);
    let pages = buffer_with(&bytes, 0);
    for wait in WAITS {
        for by_reference in [false, true] {
            if by_reference && !vmsplice::is_allowed() {
                continue;
            }
            let (first_reader, first_writer) = pipe_of(CAPACITY);
            let (second_reader, second_writer) = pipe_of(CAPACITY / 4);
            let ends = [&first_reader, &first_writer, &second_reader, &second_writer];
            ends.into_iter().for_each(make_nonblocking);
            let before = flags(&second_reader);
            let mut got = vec![0; BYTES + 1];
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut out = Output::new(first_writer, wait);
                    if by_reference {
                        out.vmsplice(&[pages.slice(..)], Default::default())
                    } else {
                        out.write(&bytes)
                    }
                    .unwrap();
                });
                scope.spawn(|| {
                    let mut input = Input::new(first_reader, wait);
                    let moved = input.splice(second_writer, u64::MAX, Default::default());
                    assert_eq!(moved.unwrap(), BYTES as u64);
                });
                let mut input = Input::new(&second_reader, wait);
                let some = input.read_some(&mut got).unwrap();
                let rest = input.read(&mut got[some..]).unwrap();
                assert_same(&got[..some + rest], &bytes);
            });
            assert_eq!(flags(&second_reader), before, "not ours to undo");
        }
    }
}

#[test]
fn no_transfer_ever_changes_the_flags_of_the_open_file() {
    let pages = buffer_with(b"0123456789", 0);
    for wait in ALL_WAITS {
        let (reader, writer) = pipe_of(CAPACITY);
        let (out_reader, out_writer) = pipe_of(CAPACITY);
        let all = || [&reader, &writer, &out_reader, &out_writer].map(flags);
        let before = all();
        let unchanged = |what| assert_eq!(all(), before, "{wait:?} {what}");
        let mut out = Output::new(&writer, wait);
        let mut input = Input::new(&reader, wait);
        out.write(b"0123456789").unwrap();
        unchanged("write");
        if vmsplice::is_allowed() {
            out.vmsplice(&[pages.slice(..)], Default::default())
                .unwrap();
            unchanged("vmsplice");
        } else {
            out.write(&pages).unwrap();
        }
        input.read(&mut [0; 5]).unwrap();
        unchanged("read");
        input.tee(&out_writer, 5).unwrap();
        unchanged("tee");
        input.splice(&out_writer, 5, Default::default()).unwrap();
        unchanged("splice");
        input.read_some(&mut [0; 10]).unwrap();
        unchanged("read_some");
        if wait == Wait::Never {
            input.read(&mut [0; 5]).unwrap_err();
            out.write(&[0; 2 * CAPACITY]).unwrap_err();
            unchanged("would block");
        }
    }
}

#[test]
fn a_fifo_is_written_and_read_completely() {
    let directory = Directory::new();
    let bytes = pattern(BYTES);
    for wait in WAITS {
        let (reader, writer) = directory.fifo(&format!("{wait:?}"));
        fastpipe::pipe::set_capacity_up_to(&writer, CAPACITY).unwrap();
        let before = (flags(&reader), flags(&writer));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut out = Output::new(writer, wait);
                for piece in bytes.chunks(30_001) {
                    out.write(piece).unwrap();
                }
                assert_eq!(flags(out.get_ref()), before.1);
            });
            // It waits for one more when the end comes.
            let mut got = vec![0; BYTES + 1];
            let mut input = Input::new(&reader, wait);
            assert_eq!(input.read(&mut got).unwrap(), BYTES, "{wait:?}");
            assert_eq!(flags(&reader), before.0);
            assert_same(&got[..BYTES], &bytes);
            assert_eq!(input.read(&mut [0; 9]).unwrap(), 0, "{wait:?}");
        });
    }
}

#[test]
fn a_writer_to_a_fifo_notices_that_its_reader_closed() {
    let directory = Directory::new();
    for wait in WAITS {
        let (reader, writer) = directory.fifo(&format!("{wait:?}"));
        let reading = std::thread::spawn(move || {
            // Including the file that it opened again.
            let mut input = Input::new(reader, wait);
            input.read(&mut [0; 100]).unwrap();
        });
        let end = Output::new(&writer, wait).write(&pattern(1 << 20));
        let end = end.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::BrokenPipe, "{wait:?}");
        assert!(end.moved >= 100, "{wait:?}: {end}");
        reading.join().unwrap();
    }
}

#[test]
fn wait_never_does_not_wait_for_a_fifo() {
    let directory = Directory::new();
    let (mut reader, writer) = directory.fifo("fifo");
    let would_block = |incomplete: Incomplete| {
        assert_eq!(incomplete.kind(), ErrorKind::WouldBlock);
        incomplete.moved as usize
    };
    let mut input = Input::new(reader.as_fd().try_clone_to_owned().unwrap(), Wait::Never);
    assert_eq!(would_block(input.read(&mut [0; 9]).unwrap_err()), 0);

    let capacity = fastpipe::pipe::capacity(&writer).unwrap();
    let bytes = pattern(capacity + 5000);
    let mut out = Output::new(writer, Wait::Never);
    assert_eq!(would_block(out.write(&bytes).unwrap_err()), capacity);
    assert_eq!(out.counts().polls, 0, "it has an open file of its own");
    let mut got = vec![0; capacity];
    reader.read_exact(&mut got).unwrap();
    out.write(&bytes[capacity..]).unwrap();
    let mut rest = vec![0; 6000];
    let end = would_block(input.read(&mut rest).unwrap_err());
    got.extend_from_slice(&rest[..end]);
    assert_same(&got, &bytes);
    drop(out);
    assert_eq!(input.read(&mut rest).unwrap(), 0, "the end");
}

#[test]
fn a_deleted_fifo_still_works() {
    let directory = Directory::new();
    for wait in ALL_WAITS {
        let (reader, writer) = directory.fifo("fifo");
        std::fs::remove_file(directory.path("fifo")).unwrap();
        Output::new(&writer, wait).write(b"abc").unwrap();
        let mut got = [0; 3];
        Input::new(&reader, wait).read(&mut got).unwrap();
        assert_eq!(&got, b"abc");
    }
}

#[test]
fn vmsplice_to_a_read_write_fifo_leaves_the_buffer_unchanged() {
    if !vmsplice::is_allowed() {
        return;
    }
    let directory = Directory::new();
    drop(directory.fifo("fifo"));
    let path = directory.path("fifo");
    let both = File::options().read(true).write(true).open(path).unwrap();
    let pages = buffer_with(b"abc", 0);
    for wait in ALL_WAITS {
        let mut out = Output::new(&both, wait);
        out.vmsplice(&[pages.slice(..)], Default::default())
            .unwrap();
        let mut got = [0; 3];
        Input::new(&both, wait).read(&mut got).unwrap();
        assert_eq!((&got, &pages[..]), (b"abc", &b"abc"[..]));
    }
}
