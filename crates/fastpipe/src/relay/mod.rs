//! [`relay`]: moves bytes between any two descriptors, by the fastest technique
//! that the kernel offers.
//!
//! A relay runs until the input ends, a limit is reached, or its callback stops
//! it. The types of the two ends determine its [`Technique`]. If the kernel refuses
//! that, at the start or in mid-stream, the relay falls back to another one without
//! losing or repeating a byte.
//!
//! ```
//! use fastpipe::relay::{Flow, Options, Technique, relay};
//!
//! let (reader, writer) = std::io::pipe()?;
//! let manifest = std::fs::File::open("Cargo.toml")?;
//! let options = Options::new().limit(9);
//! let done = relay(&manifest, &writer, &options, |progress| {
//!     eprintln!("{} bytes by {}", progress.given, progress.technique);
//!     Flow::Continue
//! })?;
//! assert_eq!((done.given, done.technique), (9, Technique::Splice));
//! # let mut got = [0; 9];
//! # std::io::Read::read_exact(&mut { reader }, &mut got)?;
//! # assert_eq!(&got, b"[package]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting
//! A relay sleeps only in poll(2). The callback is therefore called on time
//! whatever the two ends do, and an idle relay wakes up only for the callback.
//! While it waits for the input it notices when the output has no reader any
//! more, and ends with `BrokenPipe` (`ConnectionReset` if it is a socket that was reset), even if everything
//! so far was read. (A TCP
//! peer that has only shut down its own sending may still read, so it counts as
//! a reader until it resets the connection.)
//!
//! Exceptions: reads and writes of files take as long as the disk takes, which
//! is why each call is [bounded](Options::block). Special files that look regular
//! but block, such as trace_pipe of tracefs, block the relay. /proc/kmsg does not, nor does
//! trace_pipe under [`Wait::Never`](crate::wait::Wait::Never), with the exceptions that
//! [`Wait`](crate::wait::Wait) names.
//!
//! The descriptors are not changed. O_NONBLOCK belongs to the open file, which
//! other processes may share; SPLICE_F_NONBLOCK, RWF_NOWAIT and MSG_DONTWAIT
//! apply to one call. A FIFO or terminal that supports none of these is opened
//! again. Masters of pseudo-terminals are polled and then written to in pieces of at most 512 bytes,
//! and devices other than terminals in pieces of at most 4096. Such a write may block if there is
//! room for less.
//!
//! # Choice of the technique
//! | from | to | technique |
//! |---|---|---|
//! | anything but a terminal | a pipe | [`Splice`](Technique::Splice) |
//! | a pipe | /dev/null, a non-blocking Unix socket | [`Splice`](Technique::Splice) |
//! | a regular file | a regular file | [`CopyFileRange`](Technique::CopyFileRange) |
//! | a file | /dev/null, a non-blocking socket | [`Sendfile`](Technique::Sendfile) |
//! | a socket | a file, /dev/null | [`SpliceThroughPipe`](Technique::SpliceThroughPipe) |
//! | a pipe | a file, a TCP socket | [`Copy`](Technique::Copy), measured as fast or faster |
//! | a TCP socket | a non-blocking TCP socket | [`SpliceThroughPipe`](Technique::SpliceThroughPipe) |
//! | a Unix socket | a socket | [`Copy`](Technique::Copy), measured as fast |
//! | anything | a blocking socket, a terminal | [`Copy`](Technique::Copy); the others could block |
//!
//! [`Options::technique`] selects another one. [`Progress::passed_over`] lists the
//! techniques not used, with reasons.
//!
//! Splicing passes on pages, not copies of them. A write to such a page before it
//! is read from the output changes what is read. That concerns input files that
//! are being modified, and writers that used vmsplice(2) on the input pipe.
//!
//! A file that is changed or truncated while it is relayed to a pipe may therefore
//! change bytes that were given already. Not after the relay: the last pipeful, and
//! at least 1 MiB, of a regular file or a block device is copied, so that nothing but
//! copies is in the pipe at the end ([`End::EndOfData`], [`End::Limit`]). Pages of a
//! file sent to a socket may still change after it.
//!
//! Among the writers that use vmsplice(2), programs with double buffering assume that a page has been read
//! after one more pipeful was sent; behind a relay this is wrong for every pipe
//! size, since the pages may be unread in the output. Use [`Options::copy`] for
//! such inputs. A [`Writer`](crate::writer::Writer) is safe, except with
//! [`Method::Drained`](crate::Method::Drained), which asserts that its reader
//! copies.
//!
//! # Undelivered bytes
//! If the output fails or the callback stops the relay, bytes may have been taken
//! from the input and not given to the output. If the input is a file its
//! position is set back; otherwise the bytes are returned in
//! [`RelayError::undelivered`] or [`Relayed::undelivered`]. Direct splicing takes
//! no byte that it does not give.
//!
//! # Messages
//! From a socket that preserves message boundaries (datagrams, SOCK_SEQPACKET)
//! each message is taken as a whole, by [`Technique::Copy`], regardless of
//! [`Options::block`] and [`Flow::AtMost`]; only [`Options::limit`] can truncate
//! one. The buffer grows to the longest message, which the sender's SO_SNDBUF
//! limits. To another such socket each message is sent as one message, except
//! empty ones, which are skipped. An empty message is not taken as the end.
//! Datagrams have no end, unless receiving is shut down (shutdown(2)). If another
//! process takes messages from the same socket, a longer one may come in between
//! and be truncated; the relay then ends with EMSGSIZE.
//!
//! Each write to a pipe may be a packet (O_DIRECT; pipe(2)), of which a short read loses
//! the rest. So all bytes in the pipe are read at once, whatever [`Options::block`] is.
//! Where [`Options::limit`] or an allowance cuts them, the part is taken by splice(2),
//! which leaves the rest in the pipe. Only if splice(2) is refused, or no descriptor is
//! available, all are read: those beyond the allowance count as taken when the next one
//! allows them, and those beyond the limit are undelivered bytes. If other processes
//! read from the same pipe, a limit or an allowance below its capacity may still cut a
//! packet.
//!
//! splice(2) would pass packets on to an output pipe as packets, of which a short read
//! there loses the rest. So an input that begins with a packet is copied, which makes it
//! a stream of bytes. If packets may follow other bytes, use [`Options::copy`].
//!
//! # Capacity
//! A pipe can hold more than its capacity if pieces came from a socket, since each
//! slot may then refer to 32 KiB. [`Progress::unread`] shows the actual number.

mod copy;
mod direct;
mod ends;
mod engine;
mod messages;
mod options;
mod plan;
#[cfg(feature = "tokio")]
pub(crate) mod polled;
mod private;
mod report;
#[cfg(feature = "tokio")]
mod spare;
mod step;
mod waiting;

pub use self::options::{Flow, INTERVAL, Options};
pub use self::report::{
    Activity, End, PassedOver, Progress, Reason, RelayError, Relayed, Side, Technique,
};

use std::io::{self, Error, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use self::ends::Endpoint;
use self::engine::Engine;

/// Moves bytes from `input` to `output` until the input ends, as [`std::io::copy`] does, by the
/// fastest technique for the two ends. Returns their number.
///
/// Enlarges the output if it is a pipe. [`relay`] has options, and tells how far it is. Interrupted
/// calls are repeated.
///
/// ```
/// # use std::io::{Read, Seek, Write};
/// # let mut input = std::fs::File::open("Cargo.toml")?;
/// let (mut reader, writer) = std::io::pipe()?;
/// let bytes = fastpipe::copy(&input, &writer)?;
/// # drop(writer);
/// # let (mut got, mut expected) = (Vec::new(), Vec::new());
/// # reader.read_to_end(&mut got)?;
/// # input.rewind()?;
/// # input.read_to_end(&mut expected)?;
/// # assert!(got == expected && bytes == got.len() as u64);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// That of the end that failed. If bytes were taken from the input that the output did not get, the
/// error is a [`RelayError`], which has them ([`io::Error::downcast`]).
pub fn copy(input: impl AsFd, output: impl AsFd) -> io::Result<u64> {
    let options = Options::new().interval(Duration::MAX);
    bytes_moved(relay(input, output, &options, |_| Flow::Continue))
}

/// Number of bytes given. An error has those that would be lost.
fn bytes_moved(outcome: Result<Relayed, RelayError>) -> io::Result<u64> {
    match outcome {
        Ok(relayed) => Ok(relayed.given),
        Err(error) if error.undelivered.is_empty() => Err(error.source),
        Err(error) => Err(Error::new(error.source.kind(), error)),
    }
}

/// Moves bytes from `input` to `output` until the input ends. See the
/// [module](self).
///
/// Calls `progress` at the start, every [`Options::interval`] whatever the two
/// ends do, and once at the end, also after an error; the last return value is
/// ignored.
///
/// The disposition of SIGPIPE is not changed. Unless the signal is ignored, as in
/// Rust programs, it is raised before the error if a call finds that the output
/// has no reader. It is not raised if poll(2) finds that first, or by send(2) to a
/// socket ([`Technique::Copy`]).
///
/// # Errors
/// [`RelayError`], which names the end that failed and the bytes moved.
///
/// `InvalidInput` of the output, before the first call of `progress`, if both
/// ends are the same regular file and the relay would read its own output without
/// end: if the output appends, or is written at or behind the input's position.
/// Not if the input is at its end, or if the relay reaches [`Options::limit`] first.
pub fn relay(
    input: impl AsFd,
    output: impl AsFd,
    options: &Options,
    mut progress: impl FnMut(&Progress<'_>) -> Flow,
) -> Result<Relayed, RelayError> {
    let (input, output) = ends(&input, &output, options)?;
    let look = None::<fn(&[u8]) -> Flow>;
    Engine::new(input, output, options, look).run(&mut progress)
}

/// As [`relay`], and passes each byte to `look` once, in order, directly after it
/// was given to the output.
///
/// Uses [`Technique::Copy`], whatever the options are, since the bytes must pass
/// through this process. They are still in the processor's cache then.
///
/// The return value of `look` takes effect at once: [`Flow::Stop`] ends the relay
/// normally, after the rest of a message, [`Flow::AtMost`] and [`Flow::CallAfter`] replace the allowance until
/// the next call of `progress`, and [`Flow::Continue`] changes nothing. Bytes are
/// taken only after all bytes taken before have been given, so `look` can limit
/// the relay exactly: to relay at most `n` more lines, allow `n` bytes at a time.
///
/// ```
/// use fastpipe::relay::{Flow, Options, relay_inspecting};
///
/// let (reader, writer) = std::io::pipe()?;
/// let manifest = std::fs::File::open("Cargo.toml")?;
/// let mut lines = 0;
/// let look = |bytes: &[u8]| {
///     lines += bytes.iter().filter(|byte| **byte == b'\n').count();
///     Flow::Continue
/// };
/// relay_inspecting(&manifest, &writer, &Options::new(), look, |_| Flow::Continue)?;
/// assert!(lines > 1);
/// # drop(reader);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`relay`]. Undelivered bytes have not been passed to `look`.
pub fn relay_inspecting(
    input: impl AsFd,
    output: impl AsFd,
    options: &Options,
    look: impl FnMut(&[u8]) -> Flow,
    mut progress: impl FnMut(&Progress<'_>) -> Flow,
) -> Result<Relayed, RelayError> {
    let (input, output) = ends(&input, &output, options)?;
    Engine::new(input, output, options, Some(look)).run(&mut progress)
}

/// Examines the two ends, and whether the relay would read its own output.
fn ends<'a>(
    input: &'a impl AsFd,
    output: &'a impl AsFd,
    options: &Options,
) -> Result<(Endpoint<'a>, Endpoint<'a>), RelayError> {
    let input =
        Endpoint::examine(input.as_fd()).map_err(|e| RelayError::before_start(Side::Input, e))?;
    let output =
        Endpoint::examine(output.as_fd()).map_err(|e| RelayError::before_start(Side::Output, e))?;
    check_ends(&input, &output, options)?;
    Ok((input, output))
}

/// Whether the relay would read its own output.
fn check_ends(
    input: &Endpoint<'_>,
    output: &Endpoint<'_>,
    options: &Options,
) -> Result<(), RelayError> {
    let max = options.limit.unwrap_or(u64::MAX);
    match input.would_read_back_from(output, max) {
        Ok(false) => Ok(()),
        Ok(true) => {
            let reason = "the output is also the input, which would never end";
            let error = Error::new(ErrorKind::InvalidInput, reason);
            Err(RelayError::before_start(Side::Output, error))
        }
        Err(error) => Err(RelayError::before_start(Side::Input, error)),
    }
}
