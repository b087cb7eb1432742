//! From any descriptor to any other, by the fastest way the kernel offers.
//!
//! [`relay`] moves bytes from one descriptor to another until the input ends, a
//! limit is reached, or the callback says stop. It picks a [`Technique`] by what
//! the two ends are, and falls back when one is refused, at the start or in
//! mid-stream, without losing or repeating a byte.
//!
//! ```
//! use fastpipe::pipe;
//! use fastpipe::relay::{Flow, Options, Technique, relay};
//!
//! let (reader, writer) = pipe::create()?;
//! let manifest = std::fs::File::open("Cargo.toml")?;
//! let options = Options::new().limit(9);
//! let done = relay(&manifest, &writer, &options, |progress| {
//!     eprintln!("{} bytes by {}", progress.given, progress.technique);
//!     Flow::Continue
//! })?;
//! assert_eq!((done.given, done.technique), (9, Technique::Splice));
//! # let mut got = [0; 9];
//! # std::io::Read::read_exact(&mut std::fs::File::from(reader), &mut got)?;
//! # assert_eq!(&got, b"[package]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # It never sleeps in a call
//! It waits in poll(2) and nowhere else, so the callback is called on time
//! whatever the two ends do, and an idle relay wakes up for the callback only.
//! While it waits for the input it notices when nobody reads the output any
//! more, and ends with `BrokenPipe`, even if everything so far was read. (A TCP
//! peer that has only shut down its own sending may still read: it is not gone
//! until it says so.)
//!
//! (Reading and writing files on a disk takes as long as the disk takes,
//! which is why each call is [bounded](Options::block). A file that is regular by
//! name only, and whose read waits for something to happen, as trace_pipe of
//! tracefs and /proc/kmsg, sleeps in that read.)
//!
//! Nothing is done to the descriptors to that end: O_NONBLOCK belongs to the
//! open file, which strangers may share. SPLICE_F_NONBLOCK, RWF_NOWAIT and
//! MSG_DONTWAIT are per call. A FIFO or a terminal that knows none of them is
//! opened again. What is left is a character device that is no terminal, and the
//! master of a pseudo-terminal: they are polled first and then written to in
//! small pieces, and could sleep where they have room for less than 512 bytes.
//!
//! # Which technique
//! | from | to | technique |
//! |---|---|---|
//! | anything but a terminal | a pipe | [`Splice`](Technique::Splice) |
//! | a pipe | /dev/null, a non-blocking Unix socket | [`Splice`](Technique::Splice) |
//! | a regular file | a regular file | [`CopyFileRange`](Technique::CopyFileRange) |
//! | a file | /dev/null, a non-blocking socket | [`Sendfile`](Technique::Sendfile) |
//! | a socket | a file, /dev/null | [`SpliceThroughPipe`](Technique::SpliceThroughPipe) |
//! | a pipe | a file, a TCP socket | [`Copy`](Technique::Copy): measured as fast or faster |
//! | a socket | a socket | [`Copy`](Technique::Copy): measured as fast |
//! | anything | a blocking socket, a terminal | [`Copy`](Technique::Copy): all else could sleep |
//!
//! [`Options::technique`] asks for another, [`Progress::passed_over`] tells why
//! the others are not used.
//!
//! Splicing passes pages on, not copies of them. Whoever writes to such a page
//! before it is read from the output changes what is read: to a file that is the
//! input, or to memory that was handed to the input pipe by vmsplice(2). A writer
//! of the latter kind that takes its pages for read once a pipeful was sent after
//! them, as the published double buffering does, is wrong about that, whatever the
//! pipes' sizes: they may be unread in the output. Use [`Options::copy`] for such
//! inputs; a [`Writer`](crate::writer::Writer) is none, unless told to
//! assert that its reader copies.
//!
//! # What becomes of bytes that can't be delivered
//! Where the input is a file its position is put back. Else bytes that were
//! taken, and could not be given since the output broke or the callback said
//! stop, are handed back: [`RelayError::undelivered`], [`Relayed::undelivered`].
//! Direct splicing takes nothing that it has not given.
//!
//! # Messages
//! From a socket that keeps messages apart (datagrams, SOCK_SEQPACKET) each is
//! taken whole, by [`Technique::Copy`], whatever [`Options::block`] and
//! [`Flow::AtMost`] say; only [`Options::limit`] cuts one. The buffer grows to
//! the longest, which SO_SNDBUF of its sender bounds. To another such socket each
//! is sent as one again, but those without bytes are passed over: they are not
//! the end. Datagrams have no end, unless receiving is shut down (shutdown(2)).
//! Where others take messages from the same socket at the same time and a longer
//! one comes in between, it may be cut: that ends the relay with EMSGSIZE.
//!
//! # Smaller things
//! A pipe holds more than its capacity where pieces came from a socket: each slot
//! may then refer to 32 KiB. [`Progress::unread`] tells.

mod copy;
mod direct;
mod ends;
mod engine;
mod in_kernel;
mod messages;
mod options;
mod plan;
mod private;
mod report;
mod sink;
mod step;
mod waiting;

pub use self::options::{Flow, INTERVAL, Options};
pub use self::report::{
    Activity, End, PassedOver, Progress, RelayError, Relayed, Side, Technique, Why,
};

use std::io::{Error, ErrorKind};
use std::os::fd::AsFd;

use self::ends::Place;
use self::engine::Engine;

/// Moves bytes from `input` to `output` until the input ends. See the
/// [module](self).
///
/// `progress` is called at the beginning, then every [`Options::interval`]
/// whatever the two ends do, and once at the end, also when it fails; its last
/// answer is not heeded.
///
/// SIGPIPE is left alone: unless it is ignored, as Rust programs do, it comes
/// before the error where a call finds that nobody reads the output any more.
/// It does not come where poll(2) finds that first, and not from send(2) to a
/// socket ([`Technique::Copy`]), which is told not to send it.
///
/// # Errors
/// [`RelayError`], which tells whose error it was and what was moved.
///
/// `InvalidInput` of the output, before the first call of `progress` and with
/// nothing done, if both ends are the same regular file and the output appends,
/// or writes at or after the place where the input reads: it would read what it
/// wrote, without end. Not where the input is at its end, or where
/// [`Options::limit`] is reached before that.
pub fn relay(
    input: impl AsFd,
    output: impl AsFd,
    options: &Options,
    mut progress: impl FnMut(&Progress<'_>) -> Flow,
) -> Result<Relayed, RelayError> {
    let (input, output) = ends(&input, &output, options)?;
    Engine::new(input, output, options, None).run(&mut progress)
}

/// As [`relay`], and shows each byte to `look` once, in order, as soon as it
/// has been given to the output.
///
/// It uses [`Technique::Copy`], whatever the options say: the bytes must pass
/// through this process. They are looked at while they are still in the cache.
///
/// What `look` answers holds from then on: [`Flow::Stop`] ends it in good order,
/// [`Flow::AtMost`] and [`Flow::CallAfter`] replace what may still be taken until
/// the next call of `progress`, and [`Flow::Continue`] changes nothing. Since nothing is taken
/// before all that was taken has been given, `look` can find out how much may
/// be taken without a byte too many: where at most `n` lines are wanted, `n`
/// bytes hold no more than that.
///
/// ```
/// use fastpipe::pipe;
/// use fastpipe::relay::{Flow, Options, relay_inspecting};
///
/// let (reader, writer) = pipe::create()?;
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
/// Those of [`relay`]. What could not be delivered has not been looked at.
pub fn relay_inspecting(
    input: impl AsFd,
    output: impl AsFd,
    options: &Options,
    mut look: impl FnMut(&[u8]) -> Flow,
    mut progress: impl FnMut(&Progress<'_>) -> Flow,
) -> Result<Relayed, RelayError> {
    let (input, output) = ends(&input, &output, options)?;
    Engine::new(input, output, options, Some(&mut look)).run(&mut progress)
}

/// Looks at the two ends, and whether one may go to the other.
fn ends<'a>(
    input: &'a impl AsFd,
    output: &'a impl AsFd,
    options: &Options,
) -> Result<(Place<'a>, Place<'a>), RelayError> {
    let input = Place::look_at(input.as_fd()).map_err(|e| RelayError::at_once(Side::Input, e))?;
    let output =
        Place::look_at(output.as_fd()).map_err(|e| RelayError::at_once(Side::Output, e))?;
    let most = options.limit.unwrap_or(u64::MAX);
    match input.feeds_on(&output, most) {
        Ok(false) => Ok((input, output)),
        Ok(true) => {
            let why = "the input is the output too, and would be read without end";
            let error = Error::new(ErrorKind::InvalidInput, why);
            Err(RelayError::at_once(Side::Output, error))
        }
        Err(error) => Err(RelayError::at_once(Side::Input, error)),
    }
}
