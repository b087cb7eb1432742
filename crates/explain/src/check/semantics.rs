//! Checks of reading, writing, closing and waiting.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;

use anyhow::Context;
use fastpipe::pipe::{self, ATOMIC_WRITE};
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags};

use super::pipes::{Moved, Pipe, Process, at, read, ready, write};
use super::{Check, Group, Outcome};
use pipespeed_base::signal_name;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "short-read",
        group: Group::Semantics,
        statement: "read(2) returns the available bytes, even fewer than asked for",
        explanation: "Three writes make 3000 bytes. A read of 65536 returns all of them and does \
                      not wait for more. A pipe is a stream without message boundaries.",
        reference: "POSIX.1-2024, read(); pipe(7)",
        run: short_read,
    },
    Check {
        name: "unread-bytes",
        group: Group::Semantics,
        statement: "FIONREAD counts the unread bytes, at either end",
        explanation: "Counted after writes and partial reads. Only this shows how much is still in \
                      the pipe. Spliced bytes count as read.",
        reference: "ioctl_pipe(2), FIONREAD; pipe_ioctl() in fs/pipe.c",
        run: unread_bytes,
    },
    Check {
        name: "end-of-file",
        group: Group::Semantics,
        statement: "the stream ends once every copy of the write end is closed",
        explanation: "The empty pipe is read with three copies of the write end open, then two, then \
                      one: EAGAIN. The last copy writes a few bytes and is closed: they are read, \
                      then 0. A forgotten copy, the commonest bug with pipes, makes the reader wait \
                      forever.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; pipe_read() in fs/pipe.c",
        run: end_of_file,
    },
    Check {
        name: "end-of-file-child",
        group: Group::Semantics,
        statement: "a write end that a child inherited keeps the stream open",
        explanation: "A shell has the write end as its standard output and writes nothing. The \
                      reader sees the end of file when the shell has ended. Open pipes with \
                      O_CLOEXEC, and close the end that you don't use.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"",
        run: end_of_file_child,
    },
    Check {
        name: "epipe",
        group: Group::Semantics,
        statement: "a write without a reader is EPIPE if SIGPIPE is ignored",
        explanation: "The read end is closed and a byte is written. The bytes in the pipe are lost, \
                      and the writer can't learn how many were read.",
        reference: "pipe(7), \"I/O on pipes and FIFOs\"; POSIX.1-2024, write(), EPIPE",
        run: epipe,
    },
    Check {
        name: "sigpipe",
        group: Group::Semantics,
        statement: "a write without a reader kills a program by SIGPIPE otherwise",
        explanation: "A shell writes a line to a pipe that nobody reads. That is how `yes | head -1` \
                      ends. A program that ignores the signal must check the errors of write(2).",
        reference: "signal(7); pipe(7), \"I/O on pipes and FIFOs\"",
        run: sigpipe,
    },
    Check {
        name: "poll-room",
        group: Group::Semantics,
        statement: "after POLLOUT, PIPE_BUF bytes go in at once",
        explanation: "A pipe is filled by writes of 1000 bytes and of PIPE_BUF in turn, each after \
                      POLLOUT, until poll(2) does not report it any more. No write may fail. Longer \
                      writes may have to wait.",
        reference: "POSIX.1-2024, poll() and write(); pipe_poll() in fs/pipe.c",
        run: poll_room,
    },
    Check {
        name: "poll-hang-up",
        group: Group::Semantics,
        statement: "without a writer POLLHUP, with POLLIN while bytes are left",
        explanation: "Bytes are written and the write end is closed. A loop that ends at POLLHUP \
                      without looking at POLLIN loses the last bytes of the stream.",
        reference: "poll(2), POLLHUP; pipe_poll() in fs/pipe.c",
        run: poll_hang_up,
    },
    Check {
        name: "poll-no-reader",
        group: Group::Semantics,
        statement: "without a reader the write end shows POLLERR",
        explanation: "The read end is closed. This is how an idle producer learns that \
                      the reader has gone.",
        reference: "poll(2), POLLERR; pipe_poll() in fs/pipe.c",
        run: poll_no_reader,
    },
    Check {
        name: "nonblock-shared",
        group: Group::Semantics,
        statement: "all copies of a descriptor share O_NONBLOCK",
        explanation: "The flag belongs to the open file: set through one descriptor, it shows at a \
                      copy made by dup(2), and so in every process that inherited one. Never set it \
                      on a descriptor that you did not open: your shell reads from the same file.",
        reference: "open(2), \"Open file descriptions\"; fcntl(2), F_SETFL",
        run: nonblock_shared,
    },
    Check {
        name: "nonblock-reopened",
        group: Group::Semantics,
        statement: "a pipe reopened through /proc/self/fd has flags of its own",
        explanation: "The write end is opened again by its name in /proc, with O_NONBLOCK. The first \
                      descriptor must stay without the flag, and bytes written to the second must \
                      come out.",
        reference: "proc_pid_fd(5); open(2); fifo_open() in fs/pipe.c",
        run: nonblock_reopened,
    },
    Check {
        name: "nowait-calls",
        group: Group::Semantics,
        statement: "a single call can be non-blocking (RWF_NOWAIT)",
        explanation: "preadv2(2) and pwritev2(2) take the flag for one call, without O_NONBLOCK. \
                      Pipes have it since Linux 6.4 or so; FIFOs answer EOPNOTSUPP.",
        reference: "readv(2), RWF_NOWAIT; FMODE_NOWAIT in create_pipe_files(), fs/pipe.c",
        run: nowait_calls,
    },
];

fn short_read() -> anyhow::Result<Outcome> {
    let pipe = Pipe::new()?;
    for _ in 0..3 {
        pipe.write(1000)?;
    }
    let got = pipe.read(65_536)?;
    let seen = format!("{got} of 65536 bytes, from three writes");
    Ok(Outcome::pass_if(got == Moved::Bytes(3000), seen))
}

fn unread_bytes() -> anyhow::Result<Outcome> {
    let pipe = Pipe::new()?;
    let mut unread = vec![pipe.unread()?];
    pipe.write(3000)?;
    unread.push(pipe.unread()?);
    pipe.read(1)?;
    unread.push(at("ioctl(2) FIONREAD", pipe::unread(&pipe.write))?);
    pipe.read(2999)?;
    unread.push(pipe.unread()?);
    let seen: Vec<String> = unread.iter().map(usize::to_string).collect();
    let holds = unread == [0, 3000, 2999, 0];
    Ok(Outcome::pass_if(holds, seen.join(", ")))
}

fn end_of_file() -> anyhow::Result<Outcome> {
    let pipe = Pipe::new()?;
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
    let (last, end) = (read(&pipe.read, 64)?, read(&pipe.read, 64)?);
    let waited = while_open.iter().all(|got| *got == Moved::WouldBlock);
    let holds = waited && (last, end) == (Moved::Bytes(10), Moved::Bytes(0));
    let open: Vec<String> = while_open.iter().map(Moved::to_string).collect();
    let open = open.join(", ");
    let seen = format!("{open} with 3, 2 and 1 open; then {last} bytes and {end}");
    Ok(Outcome::pass_if(holds, seen))
}

fn end_of_file_child() -> anyhow::Result<Outcome> {
    let Pipe { read: ours, write } = Pipe::new()?;
    // The shell ends with its standard input.
    let stdin = Pipe::blocking()?;
    let mut shell = Process::shell("read line", stdin.read, write)?;
    let during = read(&ours, 1)?;
    drop(stdin.write);
    shell.wait()?;
    let after = read(&ours, 1)?;
    let holds = (during, after) == (Moved::WouldBlock, Moved::Bytes(0));
    let seen = format!("{during} while it runs, {after} when it has ended");
    Ok(Outcome::pass_if(holds, seen))
}

fn epipe() -> anyhow::Result<Outcome> {
    // Rust programs start with SIGPIPE ignored, and this one keeps it so.
    let Pipe { read, write } = Pipe::new()?;
    drop(read);
    Ok(match rustix::io::write(&write, b"x") {
        Err(Errno::PIPE) => Outcome::pass("EPIPE"),
        Ok(bytes) => Outcome::fail(format!("{bytes} byte written")),
        Err(errno) => at("write(2)", Err(errno))?,
    })
}

fn sigpipe() -> anyhow::Result<Outcome> {
    let (stdin, Pipe { read, write }) = (Pipe::blocking()?, Pipe::new()?);
    drop(read);
    // Children start with SIGPIPE at its default, and not blocked.
    let status = Process::shell("echo a line", stdin.read, write)?.wait()?;
    Ok(match status.signal() {
        Some(signal) => {
            let seen = format!("killed by {}", signal_name(signal));
            Outcome::pass_if(signal == libc::SIGPIPE, seen)
        }
        None => Outcome::fail(status.to_string()),
    })
}

const BOTH: PollFlags = PollFlags::IN.union(PollFlags::OUT);

/// The names of the events that poll(2) reported.
fn names(events: PollFlags) -> String {
    let names = events.iter_names().map(|(name, _)| format!("POLL{name}"));
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(" and ")
    }
}

fn poll_room() -> anyhow::Result<Outcome> {
    let pipe = Pipe::new()?;
    let mut times = 0;
    for bytes in [1000, ATOMIC_WRITE].into_iter().cycle() {
        if !ready(&pipe.write, BOTH)?.contains(PollFlags::OUT) {
            break;
        }
        let taken = pipe.write(bytes)?;
        if taken != Moved::Bytes(bytes) {
            let seen = format!("POLLOUT, then {taken} for {bytes} bytes");
            return Ok(Outcome::fail(seen));
        }
        times += 1;
    }
    let seen = format!("{times} of {times} times, up to {} bytes", pipe.unread()?);
    Ok(Outcome::pass_if(times > 0, seen))
}

fn poll_hang_up() -> anyhow::Result<Outcome> {
    let pipe = Pipe::new()?;
    pipe.write(4)?;
    drop(pipe.write);
    let with = ready(&pipe.read, BOTH)?;
    read(&pipe.read, 16)?;
    let without = ready(&pipe.read, BOTH)?;
    let holds = with == PollFlags::IN | PollFlags::HUP && without == PollFlags::HUP;
    let (with, without) = (names(with), names(without));
    let seen = format!("{with} with bytes left, {without} without");
    Ok(Outcome::pass_if(holds, seen))
}

fn poll_no_reader() -> anyhow::Result<Outcome> {
    let Pipe { read, write } = Pipe::new()?;
    drop(read);
    // Errors are reported unasked.
    let events = ready(&write, PollFlags::empty())?;
    Ok(Outcome::pass_if(events == PollFlags::ERR, names(events)))
}

fn is_nonblocking(end: &impl std::os::fd::AsFd) -> anyhow::Result<bool> {
    let flags = at("fcntl(2) F_GETFL", fcntl_getfl(end))?;
    Ok(flags.contains(OFlags::NONBLOCK))
}

fn shown(set: bool) -> &'static str {
    if set { "set" } else { "not set" }
}

fn nonblock_shared() -> anyhow::Result<Outcome> {
    let pipe = Pipe::blocking()?;
    let copy = at("dup(2)", pipe.read.try_clone())?;
    let before = is_nonblocking(&copy)?;
    fcntl_setfl(&pipe.read, OFlags::NONBLOCK).context("fcntl(2) F_SETFL")?;
    let after = is_nonblocking(&copy)?;
    let seen = format!("{}, then {} at the copy", shown(before), shown(after));
    Ok(Outcome::pass_if(!before && after, seen))
}

fn nonblock_reopened() -> anyhow::Result<Outcome> {
    let pipe = Pipe::blocking()?;
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
    Ok(Outcome::pass_if(holds, seen))
}

fn nowait_calls() -> anyhow::Result<Outcome> {
    // With this offset the calls are like read and write.
    const NO_OFFSET: u64 = u64::MAX;
    let flag = ReadWriteFlags::NOWAIT;
    let pipe = Pipe::blocking()?;
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    let read = rustix::io::preadv2(&pipe.read, &mut into, NO_OFFSET, flag);
    let written = rustix::io::pwritev2(&pipe.write, &[IoSlice::new(b"x")], NO_OFFSET, flag);
    Ok(match (read, written) {
        (Err(Errno::AGAIN), Ok(1)) => Outcome::seen("yes"),
        (Err(Errno::OPNOTSUPP), _) | (_, Err(Errno::OPNOTSUPP)) => {
            Outcome::seen("no (EOPNOTSUPP): Linux 6.4 or so has it")
        }
        (Err(errno), _) if errno != Errno::AGAIN => at("preadv2(2)", Err(errno))?,
        (_, Err(errno)) => at("pwritev2(2)", Err(errno))?,
        (read, written) => Outcome::fail(format!(
            "read {read:?}, written {written:?} of an empty pipe"
        )),
    })
}
