//! Errors as other languages have them: a number and a message.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

/// What happened, and why, if the error has a cause.
pub fn message(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(number) = error.raw_os_error() {
        // The number is passed on beside it.
        let suffix = format!(" (os error {number})");
        text.truncate(text.strip_suffix(&suffix).map_or(text.len(), str::len));
    }
    match error.get_ref().and_then(|inner| inner.source()) {
        Some(source) => format!("{text}: {source}"),
        None => text,
    }
}

/// The error number that is closest.
pub fn errno(error: &io::Error) -> i32 {
    if let Some(number) = error.raw_os_error() {
        return number;
    }
    let errno = match error.kind() {
        ErrorKind::BrokenPipe => Errno::PIPE,
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        ErrorKind::ConnectionReset => Errno::CONNRESET,
        ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        ErrorKind::UnexpectedEof => Errno::CONNABORTED,
        ErrorKind::InvalidInput => Errno::INVAL,
        ErrorKind::InvalidData => Errno::PROTO,
        ErrorKind::Unsupported => Errno::OPNOTSUPP,
        ErrorKind::OutOfMemory => Errno::NOMEM,
        ErrorKind::ResourceBusy => Errno::BUSY,
        ErrorKind::Interrupted => Errno::INTR,
        ErrorKind::NotFound => Errno::SRCH,
        _ => Errno::IO,
    };
    errno.raw_os_error()
}
