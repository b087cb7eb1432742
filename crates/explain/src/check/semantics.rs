//! Checks of reading, writing, closing and waiting.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;

use anyhow::Context;
use fastpipe::pipe::{self, PIPE_BUF, page_size};
use fastpipe::probe::copy_piece;
use itertools::Itertools;
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags};

use super::pipes::{
    ChildGuard, MoveOutcome, PipePair, at, read, ready, wait_for_last_close, write,
};
use super::{CheckGroup, CheckResult};
use pipespeed_base::signal_name;

checks! {
    CHECKS, CheckGroup::Semantics;

    /// Writes 1000 bytes three times, then reads up to 65536. read(2) returns all 3000 and does
    /// not wait for more. A pipe is a stream of bytes without message boundaries.
    "short-read" => short_read {
        statement: "read(2) returns the available bytes, even fewer than asked for",
        reference: "POSIX.1-2024, read(); pipe(7)",
    }

    /// Compares FIONREAD with the expected number after writes and partial reads. No other call
    /// tells the number without moving or copying bytes. Bytes that were spliced out count as
    /// read.
    "unread-bytes" => unread_bytes {
        statement: "FIONREAD counts the unread bytes, at either end",
        reference: "ioctl_pipe(2), FIONREAD; pipe_ioctl() in fs/pipe.c",
    }

    /// Reads from an empty pipe while three, two and one copies of the write end are open: EAGAIN
    /// each time. The last copy writes a few bytes and is closed: the reader gets these bytes,
    /// then 0. A forgotten copy of the write end, the most common bug with pipes, makes the
    /// reader wait forever.
    "end-of-file" => end_of_file {
        statement: "the stream ends once every copy of the write end is closed",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; pipe_read() in fs/pipe.c",
    }

    /// Starts a shell whose standard output is the write end and which writes nothing. The reader
    /// gets the end of file only after the shell has ended. Open pipes with O_CLOEXEC, and close
    /// the end that you don't use.
    "end-of-file-child" => end_of_file_child {
        statement: "a write end that a child inherited keeps the stream open",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"",
    }

    /// Closes the read end and writes a byte. Bytes that were still in the pipe are lost, and the
    /// writer can't learn how many were read.
    "epipe" => epipe {
        statement: "a write without a reader fails with EPIPE if SIGPIPE is ignored",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; POSIX.1-2024, write(), EPIPE",
    }

    /// Starts a shell that writes a line to a pipe without a reader. This is how `yes | head -1`
    /// ends. A program that ignores SIGPIPE must check the errors of write(2).
    "sigpipe" => sigpipe {
        statement: "a write without a reader kills the program by SIGPIPE by default",
        reference: "signal(7); pipe(7), \"I/O on pipes and FIFOs\"",
    }

    /// Times one write(2) and read(2) of two pages against two of one page. A pipe keeps pages
    /// that were read for the next write; longer writes have new pages allocated. fastpipe copies
    /// in pieces of the length found.
    "kept-pages" => kept_pages {
        statement: "a pipe keeps two pages for the next write",
        reference: "fs/pipe.c, tmp_page",
    }

    /// Writes 1000 bytes and PIPE_BUF bytes in turn, each after poll(2) reported POLLOUT, until
    /// it no longer does. Every write must succeed completely. Longer writes may block even after
    /// POLLOUT.
    "poll-room" => poll_room {
        statement: "after POLLOUT, PIPE_BUF bytes can be written without blocking",
        reference: "POSIX.1-2024, poll() and write(); pipe_poll() in fs/pipe.c",
    }

    /// Writes some bytes, closes the write end and polls the read end before and after reading
    /// them. A loop that ends at POLLHUP without checking POLLIN loses the last bytes of the
    /// stream.
    "poll-hang-up" => poll_hang_up {
        statement: "poll without a writer: POLLHUP, and POLLIN while data is left",
        reference: "poll(2), POLLHUP; pipe_poll() in fs/pipe.c",
    }

    /// Closes the read end and polls the write end. An idle writer can learn this way that its
    /// reader has gone.
    "poll-no-reader" => poll_no_reader {
        statement: "poll of the write end without a reader: POLLERR",
        reference: "poll(2), POLLERR; pipe_poll() in fs/pipe.c",
    }

    /// Sets O_NONBLOCK through one descriptor and reads it through a copy made by dup(2). The
    /// flag belongs to the open file description, which all processes that inherited the
    /// descriptor share. Never set it on a descriptor that you did not open: your shell may read
    /// from the same one.
    "nonblock-shared" => nonblock_shared {
        statement: "all copies of a descriptor share O_NONBLOCK",
        reference: "open(2), \"Open file descriptions\"; fcntl(2), F_SETFL",
    }

    /// Opens the write end again through /proc/self/fd, with O_NONBLOCK. The first descriptor
    /// must stay blocking, and bytes written to the second must arrive in the pipe.
    "nonblock-reopened" => nonblock_reopened {
        statement: "a pipe reopened through /proc/self/fd has flags of its own",
        reference: "proc_pid_fd(5); open(2); fifo_open() in fs/pipe.c",
    }

    /// Calls preadv2(2) and pwritev2(2) with RWF_NOWAIT, which makes that one call non-blocking
    /// without O_NONBLOCK. Pipes support it since about Linux 6.4; FIFOs fail with EOPNOTSUPP.
    "nowait-calls" => nowait_calls {
        statement: "a single call can be non-blocking (RWF_NOWAIT)",
        reference: "readv(2), RWF_NOWAIT; FMODE_NOWAIT in create_pipe_files(), fs/pipe.c",
    }
}

fn short_read() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    for _ in 0..3 {
        pipe.write(1000)?;
    }
    let got = pipe.read(65_536)?;
    let seen = format!("{got} of 65536 bytes, from three writes");
    Ok(CheckResult::pass_if(got == MoveOutcome::Bytes(3000), seen))
}

fn unread_bytes() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let mut unread = vec![pipe.unread()?];
    pipe.write(3000)?;
    unread.push(pipe.unread()?);
    pipe.read(1)?;
    unread.push(at("ioctl(2) FIONREAD", pipe::unread(&pipe.write))?);
    pipe.read(2999)?;
    unread.push(pipe.unread()?);
    let holds = unread == [0, 3000, 2999, 0];
    Ok(CheckResult::pass_if(holds, unread.iter().join(", ")))
}

fn end_of_file() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let mut copies = vec![pipe.write];
    for _ in 0..2 {
        copies.push(at("dup(2)", copies[0].try_clone())?);
    }
    let mut while_open = Vec::new();
    while let Some(copy) = copies.pop() {
        while_open.push(read(&pipe.read, 1)?);
        if copies.is_empty() {
            write(&copy, b"last words")?;
        }
    }
    wait_for_last_close(&pipe.read)?;
    let (last, end) = (read(&pipe.read, 64)?, read(&pipe.read, 64)?);
    let waited = while_open.iter().all(|got| *got == MoveOutcome::WouldBlock);
    let holds = waited && (last, end) == (MoveOutcome::Bytes(10), MoveOutcome::Bytes(0));
    let open = while_open.iter().join(", ");
    let seen = format!("{open} with 3, 2 and 1 open; then {last} bytes and {end}");
    Ok(CheckResult::pass_if(holds, seen))
}

fn end_of_file_child() -> anyhow::Result<CheckResult> {
    let PipePair { read: ours, write } = PipePair::new()?;
    // The shell ends with its standard input.
    let stdin = PipePair::blocking()?;
    let mut shell = ChildGuard::shell("read line", stdin.read, write)?;
    let during = read(&ours, 1)?;
    drop(stdin.write);
    shell.wait()?;
    wait_for_last_close(&ours)?;
    let after = read(&ours, 1)?;
    let holds = (during, after) == (MoveOutcome::WouldBlock, MoveOutcome::Bytes(0));
    let seen = format!("{during} while it runs, {after} when it has ended");
    Ok(CheckResult::pass_if(holds, seen))
}

fn epipe() -> anyhow::Result<CheckResult> {
    // Rust programs ignore SIGPIPE by default, and this one does not change that.
    let PipePair { read, write } = PipePair::new()?;
    drop(read);
    wait_for_last_close(&write)?;
    Ok(match rustix::io::write(&write, b"x") {
        Err(Errno::PIPE) => CheckResult::pass("EPIPE"),
        Ok(bytes) => CheckResult::fail(format!("{bytes} byte written")),
        Err(errno) => at("write(2)", Err(errno))?,
    })
}

fn sigpipe() -> anyhow::Result<CheckResult> {
    let (stdin, PipePair { read, write }) = (PipePair::blocking()?, PipePair::new()?);
    drop(read);
    wait_for_last_close(&write)?;
    // Children start with SIGPIPE at its default, and not blocked.
    let status = ChildGuard::shell("echo a line", stdin.read, write)?.wait()?;
    Ok(match status.signal() {
        Some(signal) => {
            let seen = format!("killed by {}", signal_name(signal));
            CheckResult::pass_if(signal == libc::SIGPIPE, seen)
        }
        None => CheckResult::fail(status.to_string()),
    })
}

const BOTH: PollFlags = PollFlags::IN.union(PollFlags::OUT);

/// The names of the events that poll(2) reported.
fn names(events: PollFlags) -> String {
    if events.is_empty() {
        return "nothing".to_owned();
    }
    let mut names = events.iter_names().map(|(name, _)| format!("POLL{name}"));
    names.join(" and ")
}

fn poll_room() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let mut times = 0;
    for bytes in [1000, PIPE_BUF].into_iter().cycle() {
        if !ready(&pipe.write, BOTH)?.contains(PollFlags::OUT) {
            break;
        }
        let taken = pipe.write(bytes)?;
        if taken != MoveOutcome::Bytes(bytes) {
            let seen = format!("POLLOUT, then {taken} for {bytes} bytes");
            return Ok(CheckResult::fail(seen));
        }
        times += 1;
    }
    let seen = format!("{times} of {times} times, up to {} bytes", pipe.unread()?);
    Ok(CheckResult::pass_if(times > 0, seen))
}

fn poll_hang_up() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    pipe.write(4)?;
    drop(pipe.write);
    wait_for_last_close(&pipe.read)?;
    let with = ready(&pipe.read, BOTH)?;
    read(&pipe.read, 16)?;
    let without = ready(&pipe.read, BOTH)?;
    let holds = with == PollFlags::IN | PollFlags::HUP && without == PollFlags::HUP;
    let (with, without) = (names(with), names(without));
    let seen = format!("{with} with bytes left, {without} without");
    Ok(CheckResult::pass_if(holds, seen))
}

fn poll_no_reader() -> anyhow::Result<CheckResult> {
    let PipePair { read, write } = PipePair::new()?;
    drop(read);
    wait_for_last_close(&write)?;
    // Errors are reported unasked.
    let events = ready(&write, PollFlags::empty())?;
    Ok(CheckResult::pass_if(
        events == PollFlags::ERR,
        names(events),
    ))
}

fn is_nonblocking(end: &impl std::os::fd::AsFd) -> anyhow::Result<bool> {
    let flags = at("fcntl(2) F_GETFL", fcntl_getfl(end))?;
    Ok(flags.contains(OFlags::NONBLOCK))
}

fn shown(set: bool) -> &'static str {
    if set { "set" } else { "not set" }
}

fn kept_pages() -> anyhow::Result<CheckResult> {
    let piece = copy_piece();
    Ok(CheckResult::seen(if piece > page_size() {
        format!("yes: pieces of {piece} bytes are the fastest to copy")
    } else {
        format!("no, or it does not show: pieces of {piece} bytes are the fastest to copy")
    }))
}

fn nonblock_shared() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::blocking()?;
    let copy = at("dup(2)", pipe.read.try_clone())?;
    let before = is_nonblocking(&copy)?;
    fcntl_setfl(&pipe.read, OFlags::NONBLOCK).context("fcntl(2) F_SETFL")?;
    let after = is_nonblocking(&copy)?;
    let seen = format!("{}, then {} at the copy", shown(before), shown(after));
    Ok(CheckResult::pass_if(!before && after, seen))
}

fn nonblock_reopened() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::blocking()?;
    let path = format!("/proc/self/fd/{}", pipe.write.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let again = rustix::fs::open(&path, flags, Mode::empty());
    let again = at("open(2) in /proc/self/fd", again)?;
    write(&again, b"through")?;
    let unread = pipe.unread()?;
    let (first, second) = (is_nonblocking(&pipe.write)?, is_nonblocking(&again)?);
    let holds = !first && second && unread == 7;
    let (first, second) = (shown(first), shown(second));
    let seen = format!("{first} at the first, {second} at the second; {unread} of 7 bytes");
    Ok(CheckResult::pass_if(holds, seen))
}

fn nowait_calls() -> anyhow::Result<CheckResult> {
    // With this offset the calls are like read and write.
    const NO_OFFSET: u64 = u64::MAX;
    let flag = ReadWriteFlags::NOWAIT;
    let pipe = PipePair::blocking()?;
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    let read = rustix::io::preadv2(&pipe.read, &mut into, NO_OFFSET, flag);
    let written = rustix::io::pwritev2(&pipe.write, &[IoSlice::new(b"x")], NO_OFFSET, flag);
    Ok(match (read, written) {
        (Err(Errno::AGAIN), Ok(1)) => CheckResult::seen("yes"),
        (Err(Errno::OPNOTSUPP), _) | (_, Err(Errno::OPNOTSUPP)) => {
            CheckResult::seen("no (EOPNOTSUPP): supported since about Linux 6.4")
        }
        (Err(errno), _) if errno != Errno::AGAIN => at("preadv2(2)", Err(errno))?,
        (_, Err(errno)) => at("pwritev2(2)", Err(errno))?,
        (read, written) => CheckResult::fail(format!(
            "read {read:?}, written {written:?} of an empty pipe"
        )),
    })
}
