//! Passing all inputs on, one after another.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::format::visible;
use super::options::Options;
use super::session::{CONSUMER_GONE, Session};
use super::status::Status;
use super::transfer::{Ended, pass};
use super::units::Unit;
use pipespeed_base::standard;

/// After a read error, the rest of the sector of this many bytes is skipped.
const SECTOR: u64 = 512;

/// Passes all inputs on to standard output.
pub fn run(options: &Options) -> Status {
    let stdout = io::stdout();
    let output = stdout.as_fd();
    let files = if options.files.is_empty() {
        &[PathBuf::from("-")][..]
    } else {
        &options.files
    };
    let mut options = options.clone();
    let in_bytes = options.unit == Unit::Bytes;
    let mut size = options
        .size
        .or_else(|| in_bytes.then(|| total(files)).flatten());
    if size.is_none() && in_bytes {
        // The output is a disk to fill.
        size = size_of_device(output);
        options.stop_at_size |= size.is_some();
    }
    let mut session = Session::new(&options, size);
    let mut status = Status::default();
    let mut end = "end of data";
    for path in files {
        let (ended, failure) = pass_file(path, output, &mut session);
        status.add(failure);
        if let Some(why) = ended {
            end = why;
            break;
        }
    }
    session.finish(end, status.code());
    status
}

/// Passes one input on. Returns the reason to end, if any, and the failures.
fn pass_file(
    path: &Path,
    output: BorrowedFd<'_>,
    session: &mut Session<'_>,
) -> (Option<&'static str>, Status) {
    let name = printable(path);
    let (stdin, file);
    let input = if path == Path::new("-") {
        if standard::is_closed(0) {
            session.print_error("standard input is closed");
            return (None, Status::ACCESS);
        }
        stdin = io::stdin();
        stdin.as_fd()
    } else {
        match open(path, session) {
            Ok(opened) => file = opened,
            Err(error) => {
                session.print_error(&format!("{name}: {error}"));
                return (None, Status::ACCESS);
            }
        }
        file.as_fd()
    };
    match is_same_file(input, output) {
        Ok(false) => {}
        Ok(true) => {
            session.print_error(&format!("{name}: the input is the output"));
            return (None, Status::SAME_FILE);
        }
        Err(error) => {
            session.print_error(&format!("{name}: {error}"));
            return (None, Status::ACCESS);
        }
    }
    let mut failure = Status::default();
    let mut reported = false;
    loop {
        match pass(input, output, None, session) {
            Ended::Input => return (None, failure),
            Ended::Enough => return (Some("size reached"), failure),
            Ended::ReaderGone => return (Some(CONSUMER_GONE), failure),
            Ended::OutputFailed(error) => {
                session.print_error(&format!("standard output: {error}"));
                failure.add(Status::TRANSFER);
                return (Some("output failed"), failure);
            }
            Ended::InputFailed(error) => {
                if !reported {
                    session.print_error(&format!("{name}: {error}"));
                }
                reported = true;
                failure.add(Status::TRANSFER);
                if !session.options().skip_errors || !has_sectors(input) {
                    return (None, failure);
                }
                match skip_sector(input, output, session) {
                    Some(Ended::Input) => {}
                    Some(Ended::Enough) => return (Some("size reached"), failure),
                    Some(Ended::ReaderGone) => return (Some(CONSUMER_GONE), failure),
                    _ => return (None, failure),
                }
            }
        }
    }
}

/// Opens a file. For a FIFO without a writer, draws while it waits for one.
fn open(path: &Path, session: &mut Session<'_>) -> io::Result<File> {
    if !std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
        return File::open(path);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    loop {
        let within = session.draw_idle();
        let within = within.and_then(|within| Timespec::try_from(within).ok());
        let mut fds = [PollFd::new(&file, PollFlags::IN)];
        // No event before the first writer has opened the FIFO.
        match rustix::event::poll(&mut fds, within.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(file),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a part of the input can be skipped.
fn has_sectors(input: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(input).is_ok_and(|stat| {
        let kind = FileType::from_raw_mode(stat.st_mode);
        matches!(kind, FileType::RegularFile | FileType::BlockDevice)
    })
}

/// Skips to the next sector of the input, and passes zeros on instead. `None` on
/// failure.
fn skip_sector(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    session: &mut Session<'_>,
) -> Option<Ended> {
    let place = rustix::fs::tell(input).ok()?;
    let bytes = SECTOR - place % SECTOR;
    let zeros = File::open("/dev/zero").ok()?;
    let passed = pass(zeros.as_fd(), output, Some(bytes), session);
    rustix::fs::seek(input, rustix::fs::SeekFrom::Start(place + bytes)).ok()?;
    Some(passed)
}

fn printable(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string().chars().map(visible).collect(),
    }
}

/// The total size of all files; `None` if one is unknown. Missing files count as
/// empty, since the others are passed on.
fn total(files: &[PathBuf]) -> Option<u64> {
    let mut total: u64 = 0;
    for path in files {
        let bytes = if path == Path::new("-") {
            size_of_stdin()
        } else {
            match std::fs::metadata(path) {
                Ok(about) if about.is_file() => Some(about.len()),
                Ok(about) if about.file_type().is_block_device() => File::open(path)
                    .and_then(|mut file| file.seek(SeekFrom::End(0)))
                    .ok(),
                Ok(_) => None,
                Err(_) => Some(0),
            }
        };
        total = total.checked_add(bytes?)?;
    }
    // 0 is unknown: files of /proc have this size.
    (total > 0).then_some(total)
}

/// Remaining bytes of standard input, if it is a file or a block device.
fn size_of_stdin() -> Option<u64> {
    let stdin = io::stdin();
    let stat = rustix::fs::fstat(&stdin).ok()?;
    let size = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => u64::try_from(stat.st_size).ok()?,
        _ => size_of_device(stdin.as_fd())?,
    };
    let place = rustix::fs::tell(&stdin).ok()?;
    Some(size.saturating_sub(place))
}

/// The size of a block device in bytes.
pub(super) fn size_of_device(fd: BorrowedFd<'_>) -> Option<u64> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::BlockDevice {
        return None;
    }
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    // In units of 512 bytes, whatever the device's sector size.
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    sectors.trim().parse::<u64>().ok()?.checked_mul(SECTOR)
}

/// Whether both are the same regular file: reading what is being written would
/// never end.
fn is_same_file(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<bool> {
    let (input, output) = (rustix::fs::fstat(input)?, rustix::fs::fstat(output)?);
    let is_file = FileType::from_raw_mode(input.st_mode) == FileType::RegularFile;
    Ok(is_file && (input.st_dev, input.st_ino) == (output.st_dev, output.st_ino))
}
