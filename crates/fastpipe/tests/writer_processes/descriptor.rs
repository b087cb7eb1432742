//! The output's descriptor is replaced, or there is none left for a duplicate.

use std::fs::File;
use std::io::{Write, stdout};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use crate::common::pipe_of;
use crate::common::process::in_own_process;
use crate::common::state::{until_asleep, until_unread};
use crate::common::writers::{How, KIB, MIB, expect, expect_all, send, stream};
use fastpipe::pipe;
use fastpipe::reuse::{AssertReaderCopies, Reuse};
use fastpipe::writer::{FinishError, Frozen, Path, PipeWriter, Reason};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::stdio::dup2_stdout;

/// Runs `body` with standard output on a file that nobody needs, to be
/// replaced.
fn with_stdout_of_its_own(body: impl FnOnce()) {
    stdout().flush().unwrap();
    let usual = stdout().as_fd().try_clone_to_owned().unwrap();
    body();
    dup2_stdout(usual).unwrap();
}

/// A pipe with bytes in it, of which standard output becomes the read end.
fn become_a_read_end() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe_of(64 * KIB);
    rustix::io::write(&writer, &[b'?'; 5000]).unwrap();
    dup2_stdout(&reader).unwrap();
    (reader, writer)
}

#[test]
fn stdout_replaced_while_vmsplice_sleeps_changes_neither_stream_nor_frozen_bytes() {
    const NAME: &str =
        "stdout_replaced_while_vmsplice_sleeps_changes_neither_stream_nor_frozen_bytes";
    const LEN: usize = MIB;
    in_own_process(NAME, || {
        with_stdout_of_its_own(|| {
            let (reader, writer) = pipe_of(64 * KIB);
            let capacity = pipe::capacity(&reader).unwrap();
            dup2_stdout(&writer).unwrap();
            drop(writer);
            let frozen = Frozen::new(&stream(0, LEN)).unwrap();
            let sent = frozen.clone();
            let (tell, told) = std::sync::mpsc::channel();
            let writing = thread::spawn(move || {
                tell.send(rustix::thread::gettid()).unwrap();
                let builder = PipeWriter::builder().at_once().keep_capacity();
                let mut out = builder.stdout().unwrap();
                out.repeat(&sent, 1).unwrap();
                out.finish().map_err(FinishError::abandon).unwrap().1
            });
            let writer = told.recv().unwrap();
            until_unread(&reader, capacity);
            until_asleep(writer);
            let replaced = become_a_read_end();
            // It goes on with the rest of the piece.
            let mut reader = File::from(reader);
            expect(&mut reader, 0, LEN);
            let report = writing.join().unwrap();
            assert_eq!(report.counts.bytes, LEN as u64);
            assert!(frozen.as_bytes() == stream(0, LEN), "written to");
            assert_eq!(pipe::unread(&replaced.0).unwrap(), 5000);
            // Everything that was open for writing is closed.
            assert_eq!(expect_all(&mut reader, LEN as u64, &[1]), LEN as u64);
        });
    });
}

#[test]
fn drained_asks_the_pipe_it_writes_to_after_stdout_was_replaced() {
    const NAME: &str = "drained_asks_the_pipe_it_writes_to_after_stdout_was_replaced";
    const LEN: usize = 24 * MIB;
    in_own_process(NAME, || {
        with_stdout_of_its_own(|| {
            let (reader, writer) = pipe_of(MIB);
            dup2_stdout(&writer).unwrap();
            drop(writer);
            let drained = Reuse::Drained(AssertReaderCopies);
            let builder = PipeWriter::builder().reuse(drained).region(4 * MIB);
            let mut out = builder.at_once().stdout().unwrap();
            send(&mut out, How::Lend, 0, 256 * KIB).unwrap();
            let (_empty, other) = pipe_of(64 * KIB);
            dup2_stdout(&other).unwrap();
            let reading = thread::spawn(move || expect_all(&mut File::from(reader), 0, &[9000]));
            send(&mut out, How::Lend, 256 * KIB as u64, LEN).unwrap();
            drop(out);
            assert_eq!(reading.join().unwrap(), (256 * KIB + LEN) as u64);
        });
    });
}

#[test]
fn a_read_end_is_refused_and_not_read_from() {
    let frozen = Frozen::new(&[b'.'; 300_000]).unwrap();
    let (reader, writer) = pipe_of(64 * KIB);
    rustix::io::write(&writer, &[b'?'; 5000]).unwrap();
    let mut out = PipeWriter::builder().at_once().open(&reader).unwrap();
    let error = out.repeat(&frozen, 1).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    assert_eq!(pipe::unread(&reader).unwrap(), 5000);
    assert!(frozen.as_bytes().iter().all(|byte| *byte == b'.'));
}

#[test]
fn without_a_descriptor_for_a_duplicate_everything_is_copied() {
    const NAME: &str = "without_a_descriptor_for_a_duplicate_everything_is_copied";
    in_own_process(NAME, || {
        let (reader, writer) = pipe_of(64 * KIB);
        // What the kernel does is found out once, with pipes of its own.
        fastpipe::writer::vmsplice_refers().unwrap();
        let reading = thread::spawn(move || expect_all(&mut File::from(reader), 0, &[9000]));
        let all = getrlimit(Resource::Nofile);
        let current = Some(64);
        setrlimit(Resource::Nofile, Rlimit { current, ..all }).unwrap();
        let mut taken = Vec::new();
        while let Ok(one) = writer.try_clone() {
            taken.push(one);
        }
        let mut out = PipeWriter::builder().at_once().open(&writer).unwrap();
        send(&mut out, How::Both, 0, 3 * MIB).unwrap();
        assert_eq!(out.path(), Path::Write(Reason::NoDescriptor));
        drop(out);
        taken.clear();
        drop(writer);
        assert_eq!(reading.join().unwrap(), 3 * MIB as u64);
    });
}

#[test]
fn frozen_bytes_lie_in_read_only_pages() {
    let frozen = Frozen::new(b"as it was").unwrap();
    let address = frozen.as_bytes().as_ptr().addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(from)..number(to)).contains(&address)
    };
    let line = maps.lines().find(holds).unwrap();
    assert!(line.contains(" r--p "), "{line}");
}

#[test]
fn the_duplicate_is_no_standard_descriptor_and_closed_by_finish() {
    const NAME: &str = "the_duplicate_is_no_standard_descriptor_and_closed_by_finish";
    in_own_process(NAME, || {
        let (reader, writer) = pipe_of(64 * KIB);
        let ours = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let pipe = std::fs::read_link(ours).unwrap();
        // Of the pipe, by number.
        let open = || {
            let mut numbers = Vec::new();
            for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
                let path = entry.unwrap().path();
                if std::fs::read_link(&path).is_ok_and(|link| link == pipe) {
                    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                    numbers.push(name.parse::<i32>().unwrap());
                }
            }
            numbers
        };
        let before = open().len();
        // SAFETY: nothing here reads from standard input.
        unsafe { libc::close(0) };
        let mut out = PipeWriter::builder().at_once().open(writer).unwrap();
        send(&mut out, How::Lend, 0, 16 * KIB).unwrap();
        let path = out.path();
        if !path.is_zero_copy() {
            return eprintln!("skipped: nothing is handed over here: {path}");
        }
        assert_eq!(open().len(), before + 1);
        assert!(open().iter().all(|number| *number > 2));
        let _writer = out.finish().unwrap().0;
        assert_eq!(open().len(), before);
        drop(reader);
    });
}
