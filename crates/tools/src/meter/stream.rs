//! Passes all inputs on, one after another, by relay.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastpipe::relay::{self, End, RelayError, Relayed, Side, relay, relay_inspecting};
use fastpipe::wait::Wait;
use pipespeed_base::failure::with_remedy;
use pipespeed_base::process::is_any_ready;
use pipespeed_base::standard;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, stat, tell};

use super::format::sanitize;
use super::options::MeterOptions;
use super::progress::Unit;
use super::session::{CONSUMER_GONE, MeterSession};
use super::{ACCESS, SAME_FILE, TRANSFER};

/// Reason for the end: the size to stop at was reached.
const SIZE_REACHED: &str = "size reached";
/// Reason for the end: the output can't be written.
const OUTPUT_FAILED: &str = "output failed";

/// Passes all inputs on to standard output, and prints errors on standard error. Returns the
/// exit status: 0, or the sum of the bits.
pub fn run(options: &MeterOptions) -> u8 {
    let stdout = io::stdout();
    let files = if options.files.is_empty() {
        &[PathBuf::from("-")][..]
    } else {
        &options.files
    };
    let mut options = options.clone();
    let mut size = options.size;
    let mut fills_device = false;
    if size.is_none() && options.unit == Unit::Bytes {
        size = total(files);
        if size.is_none()
            && let Ok(about) = fstat(&stdout)
            && has_type(&about, FileType::BlockDevice)
        {
            // The output is a disk to fill.
            size = size_of(&about);
            fills_device = size.is_some() && !options.stop_at_size;
            options.stop_at_size |= size.is_some();
        }
    }
    let mut session = MeterSession::new(&options, size);
    let mut ends = files
        .iter()
        .filter_map(|path| pass_file(path, stdout.as_fd(), fills_device, &mut session));
    let end = match ends.next() {
        Some(end) => end,
        None if session.has_failed() => "input failed",
        None => "end of data",
    };
    session.finish(end)
}

/// Passes one input on. Returns the reason to end, if any. Where the output is a device to fill, more input than it
/// holds is an error.
fn pass_file(
    path: &Path,
    output: BorrowedFd<'_>,
    fills_device: bool,
    session: &mut MeterSession<'_>,
) -> Option<&'static str> {
    let name = printable(path);
    let opened = open(path, session);
    let input = match opened.and_then(|input| Ok((is_same_file(&input, output)?, input))) {
        Ok((false, input)) => input,
        Ok((true, _)) => {
            session.fail(SAME_FILE, &format!("{name}: the input is the output"));
            return None;
        }
        Err(error) => {
            session.fail(ACCESS, &format!("{name}: {}", with_remedy(&error)));
            return None;
        }
    };
    match pass(input.as_fd(), output, session) {
        Ok(done) => {
            let beyond = done.undelivered.len();
            if beyond > 0 {
                let message = format!(
                    "{name}: {beyond} bytes after the size had been read already, and are lost (of a \
                     pipe: splice is refused, or no descriptor is free)"
                );
                session.fail(TRANSFER, &message);
            }
            let is_reached = done.end == End::Stopped || session.remaining() == Some(0);
            if !is_reached || !fills_device {
                return is_reached.then_some(SIZE_REACHED);
            }
            match has_more(&input, session) {
                Ok(true) => {
                    let message = format!("standard output: the device is full, {name} has more");
                    session.fail(TRANSFER, &message);
                    Some(OUTPUT_FAILED)
                }
                // The next one may have more.
                Ok(false) => None,
                // There is always more of /dev/zero.
                Err(_) => Some(SIZE_REACHED),
            }
        }
        Err(error) if error.reader_is_gone() => Some(CONSUMER_GONE),
        Err(error) if error.side == Side::Output => {
            session.fail(TRANSFER, &format!("standard output: {}", error.source));
            Some(OUTPUT_FAILED)
        }
        Err(error) => {
            session.fail(TRANSFER, &format!("{name}: {}", error.source));
            None
        }
    }
}

/// Passes `input` on to `output`.
fn pass(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    session: &mut MeterSession<'_>,
) -> Result<Relayed, RelayError> {
    session.next_input();
    let requested = session.options;
    let mut options = relay::Options::new()
        .interval(session.interval())
        // A large pipe would add bursts to a limited rate.
        .raise_capacity(requested.rate_limit.is_none())
        .raise_input_capacity(requested.resize_input);
    if requested.copy || requested.block.is_some() || may_change_in(input, output) {
        options = options.copy();
    }
    if let Some(bytes) = requested.block {
        options = options.block(bytes);
    }
    if requested.rate_limit.is_none() {
        // Avoids most wake-ups if writer and reader are equally fast.
        options = options.wait(Wait::Adaptive);
    }
    let in_bytes = requested.unit == Unit::Bytes;
    if let Some(limit) = session.remaining_bytes() {
        options = options.limit(limit);
    }
    let result = if in_bytes {
        relay(input, output, &options, |progress| {
            session.on_progress(progress)
        })
    } else {
        // Relay never runs both callbacks at once.
        let session = RefCell::new(&mut *session);
        relay_inspecting(
            input,
            output,
            &options,
            |bytes| session.borrow_mut().on_bytes(bytes),
            |progress| session.borrow_mut().on_progress(progress),
        )
    };
    session.set_passed_over(match &result {
        Ok(done) => &done.passed_over,
        Err(error) => &error.passed_over,
    });
    result
}

/// Whether more can be read from an input. Waits for data or the end.
///
/// # Errors
/// Those of ioctl(2): the input is a device without an end.
fn has_more(input: &File, session: &mut MeterSession<'_>) -> io::Result<bool> {
    rustix::io::ioctl_fionread(input)?;
    while !wait_until_readable(input, session.draw_idle())? {}
    Ok(rustix::io::ioctl_fionread(input)? > 0)
}

/// Whether what was sent from a file changes with it while it is in a socket's buffers, after the end, too.
/// Of what is in a pipe at the end this is prevented.
fn may_change_in(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> bool {
    let has = |fd, kinds: &[FileType]| {
        fstat(fd).is_ok_and(|about| kinds.iter().any(|kind| has_type(&about, *kind)))
    };
    has(output, &[FileType::Socket]) && has(input, &[FileType::RegularFile, FileType::BlockDevice])
}

/// Opens an input. For a FIFO without a writer, draws while it waits for one.
fn open(path: &Path, session: &mut MeterSession<'_>) -> io::Result<File> {
    if path == Path::new("-") {
        if standard::is_closed(0) {
            return Err(io::Error::other("it is closed"));
        }
        return Ok(io::stdin().as_fd().try_clone_to_owned()?.into());
    }
    if !std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
        return File::open(path);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // There is no event until the first writer has opened the FIFO.
    while !wait_until_readable(&file, session.draw_idle())? {}
    Ok(file)
}

/// Waits until a descriptor is readable or at its end. False after the time or a signal.
///
/// # Errors
/// Those of poll(2).
fn wait_until_readable(fd: impl AsFd, within: Option<Duration>) -> io::Result<bool> {
    // A time out of range means no timeout.
    let within = within.and_then(|time| Timespec::try_from(time).ok());
    is_any_ready(&mut [PollFd::new(&fd, PollFlags::IN)], within.as_ref())
}

fn printable(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string().chars().map(sanitize).collect(),
    }
}

/// The total size of all files; `None` if one is unknown. Missing files count as
/// empty, since the others are passed on.
fn total(files: &[PathBuf]) -> Option<u64> {
    let mut total: u64 = 0;
    for path in files {
        let bytes = if path == Path::new("-") {
            let stdin = io::stdin();
            // Without the part that was read before.
            size_of(&fstat(&stdin).ok()?)?.saturating_sub(tell(&stdin).ok()?)
        } else {
            match stat(path) {
                Ok(about) => size_of(&about)?,
                Err(_) => 0,
            }
        };
        total = total.checked_add(bytes)?;
    }
    // 0 may also mean unknown: files in /proc have this size.
    (total > 0).then_some(total)
}

fn has_type(about: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(about.st_mode) == kind
}

/// The size of a regular file or block device in bytes.
fn size_of(about: &Stat) -> Option<u64> {
    if has_type(about, FileType::RegularFile) {
        return u64::try_from(about.st_size).ok();
    }
    if !has_type(about, FileType::BlockDevice) {
        return None;
    }
    let device = about.st_rdev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // In units of 512 bytes, whatever the device's sector size.
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    sectors.trim().parse::<u64>().ok()?.checked_mul(512)
}

/// Whether both are the same regular file: reading it would never end, since it grows.
fn is_same_file(input: &File, output: BorrowedFd<'_>) -> io::Result<bool> {
    let (input, output) = (fstat(input)?, fstat(output)?);
    Ok(has_type(&input, FileType::RegularFile)
        && (input.st_dev, input.st_ino) == (output.st_dev, output.st_ino))
}
