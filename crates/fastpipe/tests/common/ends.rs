//! Inputs and outputs of every kind that a relay supports.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fastpipe::relay::{Flow, Options, RelayError, Relayed, Technique, relay};
use rustix::process::Pid;
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, OutputModes};
use rustix::thread::CpuSet;

use super::skip::skip;
use super::state::until;
use super::{Directory, assert_same, pipe_of, state};

/// What a relay does that is stopped when the condition no longer holds.
pub fn going_on_while(condition: bool) -> Flow {
    if condition {
        Flow::Continue
    } else {
        Flow::Stop
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    File,
    Pipe,
    Fifo,
    Unix,
    Tcp,
    Terminal,
}

pub const FROM: [From; 6] = [
    From::File,
    From::Pipe,
    From::Fifo,
    From::Unix,
    From::Tcp,
    From::Terminal,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    File,
    Append,
    Pipe,
    Fifo,
    Unix,
    UnixNonblocking,
    Tcp,
    TcpNonblocking,
    Terminal,
}

pub const TO: [To; 9] = [
    To::File,
    To::Append,
    To::Pipe,
    To::Fifo,
    To::Unix,
    To::UnixNonblocking,
    To::Tcp,
    To::TcpNonblocking,
    To::Terminal,
];

pub const TECHNIQUES: [Technique; 5] = [
    Technique::Splice,
    Technique::SpliceThroughPipe,
    Technique::Sendfile,
    Technique::CopyFileRange,
    Technique::Copy,
];

/// Creates an input with `bytes`. If the input can't store them, a thread writes them in
/// pieces of odd sizes and then closes its end, except a terminal's, since closing
/// would lose unread bytes. Returns the input, and the thread with the other end.
pub fn input(from: From, directory: &Directory, bytes: &[u8]) -> (OwnedFd, JoinHandle<OwnedFd>) {
    state::watch();
    let (ours, theirs) = match from {
        From::File => {
            let file = directory.file("in", bytes);
            let other = file.try_clone().unwrap();
            return (file.into(), std::thread::spawn(|| other.into()));
        }
        From::Pipe => fastpipe::pipe::create().unwrap(),
        From::Fifo => {
            let (reader, writer) = directory.fifo("in-fifo");
            (reader.into(), writer.into())
        }
        From::Unix => unix(),
        From::Tcp => tcp(),
        From::Terminal => {
            let (master, slave) = terminal();
            (slave, master)
        }
    };
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || {
        let mut file = File::from(theirs);
        let mut rest = &bytes[..];
        for size in [1, 4095, 70_000, 3, 8192, 12_345].iter().cycle() {
            let (piece, left) = rest.split_at((*size).min(rest.len()));
            file.write_all(piece).unwrap();
            rest = left;
            if rest.is_empty() {
                break;
            }
        }
        match from {
            From::Terminal => file.into(),
            // The end is closed; /dev/null only fills the return value.
            _ => File::open("/dev/null").unwrap().into(),
        }
    });
    (ours, writing)
}

/// Collects the bytes from an output until it is closed, or a given number of bytes from
/// a terminal.
type Collector = JoinHandle<Vec<u8>>;

/// Creates an output, and a collector of the `len` bytes that will be written to it.
pub fn output(to: To, directory: &Directory, len: usize) -> (OwnedFd, Collector) {
    state::watch();
    let (ours, theirs) = match to {
        To::File | To::Append => {
            let path = directory.path("out");
            std::fs::write(&path, b"").unwrap();
            let file = match to {
                To::Append => File::options().append(true).open(&path),
                _ => File::options().write(true).open(&path),
            };
            // Read when it is complete: see `collected`.
            let file: OwnedFd = file.unwrap().into();
            let collecting = std::thread::spawn(Vec::new);
            return (file, collecting);
        }
        To::Pipe => {
            let (reader, writer) = fastpipe::pipe::create().unwrap();
            (writer, reader)
        }
        To::Fifo => {
            let (reader, writer) = directory.fifo("out-fifo");
            (writer.into(), reader.into())
        }
        To::Unix => unix(),
        To::UnixNonblocking => nonblocking(unix()),
        To::Tcp => tcp(),
        To::TcpNonblocking => nonblocking(tcp()),
        To::Terminal => {
            let (master, slave) = terminal();
            (slave, master)
        }
    };
    let collecting = std::thread::spawn(move || {
        let mut got = Vec::new();
        let mut file = File::from(theirs);
        if to == To::Terminal {
            got.resize(len, 0);
            file.read_exact(&mut got).unwrap();
        } else {
            file.read_to_end(&mut got).unwrap();
        }
        got
    });
    (ours, collecting)
}

/// Closes the output, and returns the bytes written to it.
pub fn collected(to: To, directory: &Directory, ours: OwnedFd, collector: Collector) -> Vec<u8> {
    // A terminal's master would report a hang-up before the bytes are read.
    let _open = (to == To::Terminal).then(|| ours.as_fd().try_clone_to_owned().unwrap());
    drop(ours);
    let got = collector.join().unwrap();
    match to {
        To::File | To::Append => std::fs::read(directory.path("out")).unwrap(),
        _ => got,
    }
}

/// Lets `body` relay `bytes` between two ends, and checks what arrives.
pub fn between<T>(
    from: From,
    to: To,
    bytes: &[u8],
    body: impl FnOnce(&OwnedFd, &OwnedFd) -> T,
) -> T {
    let directory = Directory::new();
    let (reader, writing) = input(from, &directory, bytes);
    let (writer, collector) = output(to, &directory, bytes.len());
    let done = body(&reader, &writer);
    assert_same(&collected(to, &directory, writer, collector), bytes);
    writing.join().unwrap();
    done
}

pub fn unix() -> (OwnedFd, OwnedFd) {
    let (a, b) = UnixStream::pair().unwrap();
    (a.into(), b.into())
}

pub fn tcp() -> (OwnedFd, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (b, _) = listener.accept().unwrap();
    (a.into(), b.into())
}

/// Makes the first descriptor non-blocking, which only this test uses.
pub fn nonblocking(pair: (OwnedFd, OwnedFd)) -> (OwnedFd, OwnedFd) {
    rustix::io::ioctl_fionbio(&pair.0, true).unwrap();
    pair
}

/// Makes poll(2) report POLLERR for a healthy TCP socket, by the completion of a send
/// with MSG_ZEROCOPY in its error queue. Returns false if that is not possible.
pub fn noticed(socket: &OwnedFd) -> bool {
    let (fd, on) = (socket.as_raw_fd(), 1_i32);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
    // SAFETY: the pointer refers to a live value of this length.
    let set = unsafe { libc::setsockopt(fd, level, name, (&raw const on).cast(), 4) };
    // SAFETY: the data is static.
    let sent = unsafe { libc::send(fd, b"!".as_ptr().cast(), 1, libc::MSG_ZEROCOPY) };
    if (set, sent) != (0, 1) {
        skip("no MSG_ZEROCOPY here");
        return false;
    }
    until("the notice", || {
        let flags = rustix::event::PollFlags::empty();
        let mut fds = [rustix::event::PollFd::new(socket, flags)];
        rustix::event::poll(&mut fds, Some(&Default::default())).unwrap() == 1
    });
    true
}

/// Opens a pseudo-terminal in raw mode. Returns master and slave.
pub fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut how = rustix::termios::tcgetattr(&slave).unwrap();
    how.make_raw();
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &how).unwrap();
    (master, slave)
}

/// As [`terminal`], which writes new lines as two characters.
pub fn cooked_terminal() -> (OwnedFd, OwnedFd) {
    let (master, slave) = terminal();
    let mut how = rustix::termios::tcgetattr(&slave).unwrap();
    how.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &how).unwrap();
    (master, slave)
}

/// A trace of the kernel of our own (Documentation/trace/ftrace.rst): a regular file whose read waits.
pub struct Trace(PathBuf);

impl Trace {
    /// `None`, and reports a skipped test, if there is none here.
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fastpipe-test-{}-{number}", std::process::id());
        let path = Path::new("/sys/kernel/tracing/instances").join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => Some(Trace(path)),
            Err(error) => {
                skip(format_args!("no trace_pipe here: {error}"));
                None
            }
        }
    }

    /// Opens it for reading. It is empty.
    pub fn open(&self) -> File {
        File::open(self.0.join("trace_pipe")).unwrap()
    }

    /// Opens the part of it that `processor` writes.
    pub fn open_part(&self, processor: usize) -> File {
        File::open(self.0.join(format!("per_cpu/cpu{processor}/trace_pipe"))).unwrap()
    }

    /// Writes an entry with `text`. Returns the processor, to which this thread is then bound.
    pub fn write(&self, text: &str) -> usize {
        let processor = rustix::thread::sched_getcpu();
        let mut only = CpuSet::new();
        only.set(processor);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        // The kernel reads pages that are there only: those of a constant may not be.
        let touched = text.as_bytes().to_vec();
        std::fs::write(self.0.join("trace_marker"), &touched).unwrap();
        processor
    }

    /// Turns it off.
    pub fn stop(&self) {
        std::fs::write(self.0.join("tracing_on"), "0").unwrap();
    }
}

/// A regular file for which poll(2) reports each change once, and whose read never waits. `None`, and
/// reports a skipped test, if there is none here.
pub fn file_that_reports_changes() -> Option<File> {
    let path = "/proc/bus/input/devices";
    File::open(path)
        .inspect_err(|error| skip(format_args!("no {path}: {error}")))
        .ok()
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Refused while it is open.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Named pairs of a descriptor for the relay and its other end.
pub type Pairs = Vec<(&'static str, OwnedFd, OwnedFd)>;

/// Inputs without data, and the descriptors that keep them open.
pub fn idle_inputs(directory: &Directory) -> Pairs {
    let (pipe, pipe_writer) = pipe_of(65_536);
    let (fifo, fifo_writer) = directory.fifo("idle");
    let (unix, unix_peer) = unix();
    let (tcp, tcp_peer) = tcp();
    let (master, slave) = terminal();
    let (other_master, other_slave) = terminal();
    vec![
        ("pipe", pipe, pipe_writer),
        ("FIFO", fifo.into(), fifo_writer.into()),
        ("Unix", unix, unix_peer),
        ("TCP", tcp, tcp_peer),
        ("terminal", slave, master),
        ("master", other_master, other_slave),
    ]
}

/// Outputs, and the descriptors to read from.
pub fn outputs(directory: &Directory) -> Pairs {
    let (pipe_reader, pipe) = pipe_of(65_536);
    let (fifo_reader, fifo) = directory.fifo("out");
    let (unix_out, unix_peer) = unix();
    let (unix_nonblocking, other_peer) = nonblocking(unix());
    let (tcp_out, tcp_peer) = tcp();
    let (tcp_nonblocking, other_tcp_peer) = nonblocking(tcp());
    let (master, slave) = terminal();
    vec![
        ("pipe", pipe, pipe_reader),
        ("FIFO", fifo.into(), fifo_reader.into()),
        ("Unix", unix_out, unix_peer),
        ("non-blocking Unix", unix_nonblocking, other_peer),
        ("TCP", tcp_out, tcp_peer),
        ("non-blocking TCP", tcp_nonblocking, other_tcp_peer),
        ("terminal", slave, master),
    ]
}

/// Starts a relay without callbacks in its own thread.
pub fn in_a_thread(
    input: OwnedFd,
    output: OwnedFd,
    options: Options,
) -> (Pid, JoinHandle<Result<Relayed, RelayError>>) {
    let (tell, told): (_, Receiver<Pid>) = channel();
    let relaying = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        let options = options.interval(Duration::MAX);
        relay(&input, &output, &options, |_| Flow::Continue)
    });
    (told.recv().unwrap(), relaying)
}
