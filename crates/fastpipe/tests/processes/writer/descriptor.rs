//! The output's descriptor is replaced, or none is available for a duplicate.

use std::fs::File;
use std::io::{ErrorKind, Write, stdout};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;

use crate::common::pipe_of;
use crate::common::process::{end_if_it_hangs, in_own_process};
use crate::common::seccomp::refuse;
use crate::common::skip::skip;
use crate::common::state::{until_asleep, until_unread};
use crate::common::vmsplice;
use crate::common::writers::{
    How, KIB, MIB, expect, expect_all, expecting, fill, fresh, send, stream,
};
use fastpipe::buffer::Pages;
use fastpipe::method::{AssertReaderCopies, Method};
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::{CopyReason, Frozen, Report, Writer};
use rustix::event::epoll;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::stdio::dup2_stdout;

/// Runs `body`, which may replace standard output, and restores it. Only for tests in
/// their own process: a watchdog kills it if output goes to the wrong place and is never
/// read.
fn with_stdout_of_its_own(body: impl FnOnce()) {
    end_if_it_hangs();
    stdout().flush().unwrap();
    let usual = stdout().as_fd().try_clone_to_owned().unwrap();
    body();
    dup2_stdout(usual).unwrap();
}

/// Makes standard output the only write end of a pipe of this capacity. Returns the read end.
fn become_a_pipe(capacity: usize) -> OwnedFd {
    let (reader, writer) = pipe_of(capacity);
    dup2_stdout(&writer).unwrap();
    reader
}

/// Creates a pipe with bytes in it, and makes standard output its read end.
fn become_a_read_end() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe_of(64 * KIB);
    rustix::io::write(&writer, &[b'?'; 5000]).unwrap();
    dup2_stdout(&reader).unwrap();
    (reader, writer)
}

/// Repeats `frozen` to standard output, and calls `replace` once its pipe is full. Returns the
/// read end, and the thread that writes.
fn repeating(
    frozen: &Frozen,
    times: usize,
    replace: impl FnOnce(),
) -> (File, thread::JoinHandle<Report>) {
    let reader = become_a_pipe(64 * KIB);
    let sent = frozen.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let writing = thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        let mut out = fresh().at_once().keep_capacity().stdout().unwrap();
        out.repeat(&sent, times as u64).unwrap();
        out.finish().unwrap()
    });
    until_unread(&reader, pipe::capacity(&reader).unwrap());
    until_asleep(told.recv().unwrap());
    replace();
    (reader.into(), writing)
}

#[test]
fn replacing_stdout_during_vmsplice_changes_no_sent_bytes() {
    in_own_process(|| {
        with_stdout_of_its_own(|| {
            // The rest of a piece, and many more.
            for (len, times) in [(MIB, 1), (64 * KIB, 160 * MIB / (64 * KIB))] {
                if times > 1 && !vmsplice::is_by_reference() {
                    continue;
                }
                let frozen = Frozen::new(&stream(0, len)).unwrap();
                let mut replaced = None;
                let (mut reader, writing) =
                    repeating(&frozen, times, || replaced = Some(become_a_read_end()));
                for _ in 0..times {
                    expect(&mut reader, 0, len);
                }
                let report = writing.join().unwrap();
                assert_eq!(report.counts.bytes, (len * times) as u64);
                assert!(frozen.as_bytes() == stream(0, len), "written to");
                assert_eq!(pipe::unread(replaced.unwrap().0).unwrap(), 5000);
                // All write ends are closed.
                assert_eq!(expect_all(&mut reader, 0, &[1]), 0);
            }
        });
    });
}

#[test]
fn drained_queries_its_own_pipe_after_stdout_was_replaced() {
    const LOAN: usize = 64 * KIB;
    const LEN: usize = 24 * MIB;
    in_own_process(|| {
        if !vmsplice::is_by_reference() {
            return;
        }
        with_stdout_of_its_own(|| {
            let reader = become_a_pipe(MIB);
            // The pipe can hold more than the slabs.
            let drained = Writer::builder()
                .method(Method::Drained(AssertReaderCopies))
                .pages(Pages::Base)
                .loan(LOAN)
                .region(2 * LOAN);
            let mut out = drained.at_once().stdout().unwrap();
            let mut lend = |at: usize| {
                let mut loan = out.lend(LOAN).unwrap();
                fill(&mut loan[..LOAN], at as u64);
                loan.commit(LOAN).unwrap();
            };
            lend(0);
            let (_empty, other) = pipe_of(64 * KIB);
            dup2_stdout(&other).unwrap();
            let reading = expecting(reader, &[9000]);
            (LOAN..LEN).step_by(LOAN).for_each(lend);
            // Sent by write(2).
            out.write_all(&stream(LEN as u64, 100)).unwrap();
            drop(out);
            assert_eq!(reading.join().unwrap(), LEN as u64 + 100);
        });
    });
}

#[test]
fn wait_drained_keeps_its_own_pipe_after_stdout_was_replaced() {
    in_own_process(|| {
        with_stdout_of_its_own(|| {
            let reader = become_a_pipe(64 * KIB);
            let builder = fresh().wait(Wait::Never).at_once();
            let mut out = builder.stdout().unwrap();
            send(&mut out, How::Lend, 0, 16 * KIB).unwrap();
            let path = out.report();
            if !path.is_zero_copy() {
                return skip(format_args!("pages are not handed over here: {path}"));
            }
            let (_empty, other) = pipe_of(64 * KIB);
            dup2_stdout(&other).unwrap();
            let kind = |waited: std::io::Result<()>| waited.unwrap_err().kind();
            assert_eq!(kind(out.wait_drained()), ErrorKind::WouldBlock);
            let mut reader = File::from(reader);
            expect(&mut reader, 0, 16 * KIB);
            out.wait_drained().unwrap();
            send(&mut out, How::Lend, 16 * KIB as u64, KIB).unwrap();
            drop(reader);
            assert_eq!(kind(out.wait_drained()), ErrorKind::BrokenPipe);
        });
    });
}

/// Also if RWF_NOWAIT is refused and the writer uses another open file of the pipe.
#[test]
fn the_output_follows_stdout_until_it_is_duplicated() {
    in_own_process(|| {
        with_stdout_of_its_own(|| {
            let first = become_a_pipe(64 * KIB);
            if !refuse(&[libc::SYS_pwritev2], libc::EPERM) {
                return;
            }
            let builder = fresh().wait(Wait::Never).keep_capacity();
            let mut out = builder.stdout().unwrap();
            out.write_all(&stream(0, 10_000)).unwrap();
            out.flush().unwrap();
            let second = become_a_pipe(64 * KIB);
            // A long loan. The committed part fits into the pipe, and ends with a partial
            // page, which is copied.
            let mut loan = out.lend(100_000).unwrap();
            fill(&mut loan[..50_001], 10_000);
            loan.commit(50_001).unwrap();
            let path = out.report();
            if !path.is_zero_copy() {
                return skip(format_args!("pages are not handed over here: {path}"));
            }
            assert_eq!(out.queued(), 0);
            assert_eq!(pipe::unread(&first).unwrap(), 10_000);
            expect(&mut File::from(second), 10_000, 50_001);
        });
    });
}

#[test]
fn the_registered_descriptor_stays_the_same() {
    let (reader, writer) = pipe_of(64 * KIB);
    let reading = expecting(reader, &[9000]);
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let flags = epoll::EventFlags::OUT;
    let mut out = fresh().open(writer).unwrap();
    epoll::add(&poller, &out, epoll::EventData::new_u64(1), flags).unwrap();
    send(&mut out, How::Both, 0, MIB).unwrap();
    epoll::modify(&poller, &out, epoll::EventData::new_u64(2), flags).unwrap();
    let writer = out.into_inner().unwrap();
    epoll::delete(&poller, &writer).unwrap();
    drop(writer);
    assert_eq!(reading.join().unwrap(), MIB as u64);
}

#[test]
fn without_a_descriptor_for_a_duplicate_everything_is_copied() {
    in_own_process(|| {
        // The probe of the kernel runs once, and needs descriptors.
        if !vmsplice::is_by_reference() {
            return;
        }
        let all = getrlimit(Resource::Nofile);
        // With a limit of 3, F_DUPFD fails with EINVAL rather than EMFILE.
        for limit in [64, 3] {
            let (reader, writer) = pipe_of(64 * KIB);
            let reading = expecting(reader, &[9000]);
            let current = Some(limit);
            setrlimit(Resource::Nofile, Rlimit { current, ..all }).unwrap();
            let mut taken = Vec::new();
            while let Ok(one) = writer.try_clone() {
                taken.push(one);
            }
            let mut out = fresh().at_once().open(&writer).unwrap();
            send(&mut out, How::Both, 0, 3 * MIB).unwrap();
            assert_eq!(out.report().reason(), Some(CopyReason::NoDescriptor));
            drop(out);
            taken.clear();
            drop(writer);
            assert_eq!(reading.join().unwrap(), 3 * MIB as u64);
            setrlimit(Resource::Nofile, all).unwrap();
        }
    });
}

#[test]
fn with_duplicating_refused_everything_is_copied() {
    in_own_process(|| {
        let (reader, writer) = pipe_of(64 * KIB);
        let reading = expecting(reader, &[9000]);
        if !refuse(&[libc::SYS_fcntl], libc::EPERM) {
            return;
        }
        let mut out = fresh().at_once().open(writer).unwrap();
        send(&mut out, How::Both, 0, 3 * MIB).unwrap();
        assert_eq!(
            out.report().reason(),
            Some(CopyReason::NoDuplicate(libc::EPERM))
        );
        drop(out);
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
    in_own_process(|| {
        let (reader, writer) = pipe_of(64 * KIB);
        let ours = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let pipe = std::fs::read_link(ours).unwrap();
        // The numbers of the descriptors of the pipe.
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
        let mut out = fresh().at_once().open(writer).unwrap();
        send(&mut out, How::Lend, 0, 16 * KIB).unwrap();
        let path = out.report();
        if !path.is_zero_copy() {
            return skip(format_args!("pages are not handed over here: {path}"));
        }
        assert_eq!(open().len(), before + 1);
        assert!(open().iter().all(|number| *number > 2));
        let _writer = out.into_inner().unwrap();
        assert_eq!(open().len(), before);
        drop(reader);
    });
}
