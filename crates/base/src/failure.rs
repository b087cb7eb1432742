//! Failures of a command: exit statuses, and one-line messages on standard error.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::net::getpeername;
use rustix::net::sockopt::socket_acceptconn;
use rustix::termios::tcgetwinsize;

pub use crate::interrupt::Interrupted;
use crate::limits::{Resource, soft_limit};
use crate::orphan::namespace_has_ended;
use crate::patient::{ended_by, print_on_stderr};
use crate::text::{escape, without_error_numbers, wrap};
use crate::{size, standard};

/// The command line is wrong or incomplete: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The reader of standard output has closed it, which ends a producer normally.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub struct Closed;

/// The failure has been printed already; the process only exits with this status.
#[derive(Debug, thiserror::Error)]
#[error("failed with status {0}")]
pub struct AlreadyReported(pub u8);

/// Whether writing failed since the reader has left, which ends a producer normally. Only pipes,
/// FIFOs and sockets have one: EPIPE of a file is an error of its file system.
pub fn is_reader_gone(error: &io::Error, output: impl AsFd) -> bool {
    let kind = fstat(output).map(|found| FileType::from_raw_mode(found.st_mode));
    error.kind() == io::ErrorKind::BrokenPipe
        && matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

/// Adds "standard output" to an error of writing to it.
///
/// # Errors
/// [`Closed`] if its reader has closed it, else the error in context.
pub fn to_stdout(written: io::Result<()>) -> anyhow::Result<()> {
    written.map_err(|error| {
        if is_reader_gone(&error, io::stdout()) {
            Closed.into()
        } else {
            anyhow::Error::new(error).context("standard output")
        }
    })
}

/// Returns an error if standard output is closed or can only be read: data written there would
/// be lost, since the standard library ignores EBADF. Likewise if it is a socket that was never
/// connected: EPIPE would look as if a reader had left, and one that listens never has room.
///
/// # Errors
/// Wrong usage: the shell was told to close it, or to open it for reading (`1< file`).
pub fn require_stdout() -> anyhow::Result<()> {
    if standard::is_closed(1) {
        return Err(usage("standard output is closed"));
    }
    let flags = fcntl_getfl(io::stdout()).context("standard output")?;
    if flags & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(usage("standard output is open for reading only"));
    }
    if is_never_connected(io::stdout()) {
        return Err(usage("standard output: the socket is not connected"));
    }
    Ok(())
}

/// Whether this is a stream socket that listens, or that has no peer and never had one. After a
/// connection has ended, getpeername(2) may find no peer either, but poll(2) then reports POLLRDHUP.
/// One that is being connected can be waited for.
fn is_never_connected(output: impl AsFd) -> bool {
    if getpeername(&output) != Err(Errno::NOTCONN) {
        return false;
    }
    let mut fds = [PollFd::new(&output, PollFlags::RDHUP)];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    let events = fds[0].revents();
    let is_idle = events.contains(PollFlags::HUP) && !events.contains(PollFlags::RDHUP);
    socket_acceptconn(&output) == Ok(true) || (polled.is_ok() && is_idle)
}

/// Returns an error if the process may have less address space, or private memory, than that many bytes. Rust
/// aborts where memory is refused, so commands that need much of it ask first. A thread alone reserves up
/// to 128 MiB of address space for its allocations (`new_heap()` in glibc's malloc).
///
/// # Errors
/// A limit is lower; the message names it.
pub fn require_memory(address_space: u64, private: u64) -> anyhow::Result<()> {
    require_limit(Resource::RLIMIT_AS, "address space", 'v', address_space)?;
    require_limit(Resource::RLIMIT_DATA, "private memory", 'd', private)
}

/// Returns an error if the process may have a stack of less than `needed` bytes: an overflow
/// ends it by SIGABRT.
///
/// # Errors
/// The limit is lower; the message names it.
pub fn require_stack(needed: u64) -> anyhow::Result<()> {
    require_limit(Resource::RLIMIT_STACK, "stack", 's', needed)
}

/// Compares a limit in bytes, which `ulimit` has by this letter.
fn require_limit(resource: Resource, what: &str, letter: char, needed: u64) -> anyhow::Result<()> {
    match soft_limit(resource) {
        Some(allowed) if allowed < needed => Err(anyhow!(
            "{} of {what} are needed, {} are allowed; raise the limit (ulimit -{letter}, now {})",
            size::format(needed),
            size::format(allowed),
            allowed / 1024
        )),
        _ => Ok(()),
    }
}

/// Prints text on standard error, [escaped](escape), since it may contain names of files and
/// commands, and without the numbers of errors; on a terminal, breaks its long lines at spaces.
/// A failure to do so is ignored: it could not be reported anywhere.
pub fn say(text: &str) {
    let text = without_error_numbers(text);
    let text = escape(&text);
    let columns = tcgetwinsize(io::stderr()).map(|size| usize::from(size.ws_col));
    let mut lines = String::new();
    for line in text.split('\n') {
        match columns {
            Ok(columns @ 1..) if line.chars().count() > columns => {
                lines.push_str(&wrap(line, columns, "  "));
            }
            _ => lines.push_str(line),
        }
        lines.push('\n');
    }
    let _ = print_on_stderr(lines);
}

/// Formats an error with its causes, separated by `: `, without the numbers of errors.
/// Omits a cause that the text before it already ends with.
pub fn full_message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    without_error_numbers(&text)
}

/// Returns the error for a failed start of `program`, usually /proc/self/exe, in a role
/// such as `writer`.
pub fn start_error(role: &str, program: &Path, error: io::Error) -> anyhow::Error {
    let what = format!("can't start the {role}");
    let missing = Errno::from_io_error(&error) == Some(Errno::NOENT);
    if missing && program.starts_with("/proc") && !program.exists() {
        let name = program.display();
        return anyhow!("{what}: {name} does not exist: is /proc mounted?");
    }
    // It becomes a standard descriptor of the program.
    if missing && standard::lacks_null() {
        return anyhow!("{what}: /dev/null does not exist");
    }
    match out_of_descriptors(&error) {
        Some(hint) => anyhow!("{what}: {hint}"),
        None => anyhow::Error::new(fork_error(error)).context(what),
    }
}

/// Adds the limits to raise to EAGAIN of fork(2), or of a new thread, for which there may be no stack, and the cause to
/// ENOMEM in a PID namespace that has ended. Returns other errors as they are.
pub fn fork_error(error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) == Some(Errno::NOMEM) && namespace_has_ended() {
        let message = format!(
            "{error}: process 1 of the PID namespace of its children has ended (unshare --pid without --fork)"
        );
        return io::Error::new(error.kind(), message);
    }
    if Errno::from_io_error(&error) != Some(Errno::AGAIN) {
        return error;
    }
    let limit = current_limit(Resource::RLIMIT_NPROC);
    let of_memory = [(Resource::RLIMIT_DATA, 'd'), (Resource::RLIMIT_AS, 'v')].into_iter();
    let of_memory = of_memory.filter_map(|(resource, letter)| {
        let limit = soft_limit(resource)?;
        Some(format!(
            ", or that of memory (ulimit -{letter}, now {limit})"
        ))
    });
    let of_memory: String = of_memory.collect();
    let message = format!(
        "no more processes are allowed: {error}; raise the limit (ulimit -u{limit}), or pids.max \
         of the control group{of_memory}"
    );
    io::Error::new(error.kind(), message)
}

/// Returns a message for EMFILE (too many open files) that names the limit to raise.
/// `None` for other errors.
pub fn out_of_descriptors(error: &io::Error) -> Option<String> {
    let too_many = Errno::from_io_error(error) == Some(Errno::MFILE);
    too_many.then(|| {
        format!(
            "no file descriptor is left: {error}; {}",
            descriptor_remedy()
        )
    })
}

/// Formats an error of the system; [`out_of_descriptors`] with the limit to raise.
pub fn with_remedy(error: &io::Error) -> String {
    out_of_descriptors(error).unwrap_or_else(|| error.to_string())
}

fn descriptor_remedy() -> String {
    let limit = current_limit(Resource::RLIMIT_NOFILE);
    format!("raise the limit (ulimit -n{limit})")
}

/// Returns the soft value of a limit as an addition to its name; empty if there is none.
fn current_limit(resource: Resource) -> String {
    let limit = soft_limit(resource);
    limit.map_or_else(String::new, |limit| format!(", now {limit}"))
}

/// Formats an error as [`full_message`] does. Adds the limit to raise to one about too many
/// open files that does not name it.
pub fn message_with_remedy(error: &anyhow::Error) -> String {
    let mut text = full_message(error);
    let is_too_many = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref().and_then(Errno::from_io_error);
        io.or(cause.downcast_ref().copied()) == Some(Errno::MFILE)
    };
    if error.chain().any(is_too_many) && !text.contains("ulimit -n") {
        text = format!("{text}; {}", descriptor_remedy());
    }
    text
}

/// Returns a [`UsageError`] error.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// Turns the outcome of `program` into an exit status and prints an error as one
/// line on standard error. [`Closed`] is a success. If a signal has ended the wait for a reader of
/// standard output, say, the status is that of the signal.
pub fn exit_code(program: &str, outcome: anyhow::Result<()>) -> ExitCode {
    let status = match outcome {
        Ok(()) => 0,
        Err(error) => report(program, &error),
    };
    // What was not written to its end is not done, whatever became of the error.
    let status = ended_by().map_or(status, status_of_signal);
    ExitCode::from(status)
}

/// Prints an error, unless it is none or was printed before. Returns the exit status.
fn report(program: &str, error: &anyhow::Error) -> u8 {
    if error.is::<Closed>() {
        return 0;
    }
    if let Some(AlreadyReported(code)) = error.downcast_ref() {
        return *code;
    }
    // Names of files and arguments may contain line breaks.
    let message = message_with_remedy(error).replace('\n', "\\n");
    say(&format!("{program}: {message}"));
    if error.is::<UsageError>() {
        2
    } else if let Some(Interrupted(signal)) = error.downcast_ref() {
        status_of_signal(*signal)
    } else {
        1
    }
}

/// The exit status that shells give to a signal.
fn status_of_signal(signal: i32) -> u8 {
    128u8.wrapping_add(signal as u8)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    #[test]
    fn sockets_without_a_peer_are_found() {
        let name = format!("pipespeed-failure-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        assert!(is_never_connected(
            UnixListener::bind_addr(&address).unwrap()
        ));
        assert!(is_never_connected(
            TcpListener::bind("127.0.0.1:0").unwrap()
        ));
        for family in [AddressFamily::UNIX, AddressFamily::INET] {
            let new = socket(family, SocketType::STREAM, None).unwrap();
            assert!(is_never_connected(new), "{family:?}");
        }
    }

    #[test]
    fn a_socket_whose_peer_has_left_is_not_one_without() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(!is_never_connected(&ours));
        drop(theirs);
        assert!(!is_never_connected(ours));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!is_never_connected(&ours));
        drop(listener.accept().unwrap());
        // The answer to the first bytes is a reset.
        while rustix::io::write(&ours, b"x").is_ok() {}
        assert_eq!(getpeername(&ours), Err(Errno::NOTCONN));
        assert!(!is_never_connected(ours));
        let (_, pipe) = io::pipe().unwrap();
        assert!(!is_never_connected(pipe));
    }

    #[test]
    fn a_cause_is_not_repeated() {
        let cause = || io::Error::from(Errno::NOMEM);
        let plain = anyhow::Error::new(cause()).context("mmap");
        assert_eq!(full_message(&plain), "mmap: Cannot allocate memory");
        let repeated = anyhow::Error::new(cause()).context(format!("no memory: {}", cause()));
        assert_eq!(full_message(&repeated), "no memory: Cannot allocate memory");
    }

    #[test]
    fn too_many_open_files_name_the_limit_once() {
        let plain = anyhow::Error::new(io::Error::from(Errno::MFILE));
        let errno = anyhow::Error::new(Errno::MFILE).context("pipe");
        for error in [plain, errno] {
            let text = message_with_remedy(&error);
            assert!(
                text.contains("; raise the limit (ulimit -n, now "),
                "{text}"
            );
        }
        let cause = io::Error::from(Errno::MFILE);
        let hint = out_of_descriptors(&cause).unwrap();
        let text = message_with_remedy(&anyhow::Error::new(cause).context(hint));
        assert_eq!(text.matches("ulimit -n").count(), 1, "{text}");
        let other = anyhow::Error::new(io::Error::from(Errno::NFILE));
        assert!(!message_with_remedy(&other).contains("ulimit"));
    }

    #[test]
    fn too_many_processes_name_the_limits() {
        let error = start_error("writer", Path::new("/x"), Errno::AGAIN.into());
        let text = full_message(&error);
        for words in ["can't start the writer: ", "(ulimit -u", "pids.max"] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn a_program_missing_from_proc_suggests_mounting_proc() {
        let message = |program: &str| {
            let error = start_error("echo", Path::new(program), Errno::NOENT.into());
            full_message(&error)
        };
        let missing = "can't start the echo: /proc/self/none does not exist: is /proc mounted?";
        assert_eq!(message("/proc/self/none"), missing);
        assert!(!message("/proc/self/exe").contains("mounted"));
        assert!(!message("/bin/x").contains("/proc"));
    }
}
