//! Watches the file positions of another process in /proc (proc_pid_fd(5),
//! proc_pid_fdinfo(5)).

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

use pipespeed_base::failure::with_remedy;
use pipespeed_base::process::{Process, require_own_proc};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use super::ACCESS;
use super::display::Display;
use super::options::{Options, Show, Target};
use super::progress::{Ending, History, Snapshot};
use super::stream::size_of;

/// Longer paths are shortened to their end.
const MAX_PATH_CHARS: usize = 30;

/// Watches until the process ends or the chosen descriptor no longer refers to
/// the same file. Returns the exit status.
pub fn run(options: &Options, target: Target) -> u8 {
    let mut display = Display::new(options);
    match Watch::begin(options, target) {
        Ok(mut watch) => {
            if watch.files.is_empty() && options.show != Show::Nothing {
                let what = "has no file open, only pipes, terminals or the like; waiting for one";
                display.print_error(&format!("process {} {what}", target.pid));
            }
            let end = watch.run(&mut display);
            watch.show(&mut display, Some(end));
            display.status
        }
        Err(error) => {
            display.print_error(&format!("process {}: {}", target.pid, with_remedy(&error)));
            ACCESS
        }
    }
}

/// The watched process.
#[derive(Debug)]
struct Watch<'o> {
    options: &'o Options,
    target: Target,
    process: Process,
    begun: Instant,
    files: Vec<Watched>,
}

/// A watched file.
#[derive(Debug)]
struct Watched {
    fd: i32,
    state: FileState,
    /// Time when the file was first seen, and the position then.
    since: Duration,
    begun_at: u64,
    history: History,
    beats: u64,
}

impl<'o> Watch<'o> {
    /// Finds the process and its files.
    fn begin(options: &'o Options, target: Target) -> io::Result<Self> {
        let pid = Pid::from_raw(target.pid).ok_or(Errno::SRCH)?;
        require_own_proc().map_err(io::Error::other)?;
        let process = Process::open(pid)?;
        list(target.pid)?;
        if let Some(fd) = target.fd {
            let problem = match read(target.pid, fd) {
                Ok(Some(_)) => None,
                Ok(None) => Some(format!(
                    "descriptor {fd} is neither a file nor a block device"
                )),
                Err(error) => Some(format!("descriptor {fd}: {error}")),
            };
            if let Some(problem) = problem {
                return Err(io::Error::other(problem));
            }
        }
        let mut watch = Watch {
            options,
            target,
            process,
            begun: Instant::now(),
            files: Vec::new(),
        };
        watch.update();
        Ok(watch)
    }

    /// Draws until the process ends or the chosen descriptor is closed. Returns the reason.
    fn run(&mut self, display: &mut Display<'_>) -> &'static str {
        loop {
            let within = display.until_next(self.begun.elapsed());
            if self.process.ends_within(within.unwrap_or(Duration::MAX)) {
                return "process ended";
            }
            if !display.take_due(self.begun.elapsed()) {
                continue;
            }
            if !self.update() {
                return "descriptor closed";
            }
            self.show(display, None);
        }
    }

    /// Updates the list of files and their positions. False if the chosen
    /// descriptor no longer refers to the same file.
    fn update(&mut self) -> bool {
        let now = self.begun.elapsed();
        let mut before = std::mem::take(&mut self.files);
        let fds = match self.target.fd {
            Some(fd) => vec![fd],
            // The list can't be read while the process ends.
            None => list(self.target.pid).unwrap_or_default(),
        };
        for fd in fds {
            let Ok(Some(state)) = read(self.target.pid, fd) else {
                continue;
            };
            let same = |file: &Watched| file.fd == fd && file.state.identity == state.identity;
            self.files.push(match before.iter().position(same) {
                Some(place) => {
                    let mut file = before.swap_remove(place);
                    file.update(state, now);
                    file
                }
                None => Watched::new(fd, state, now),
            });
        }
        let is_closed = !before.is_empty() || self.files.is_empty();
        if self.target.fd.is_some() && is_closed {
            self.files = before;
            return false;
        }
        true
    }

    /// Shows all files; for the last time if `end`, the reason for the end, is given.
    fn show(&self, display: &mut Display<'_>, end: Option<&'static str>) {
        let now = self.begun.elapsed();
        let chosen = self.target.fd.is_some();
        let snapshot = |file: &Watched| Snapshot {
            name: if chosen {
                self.options.name.clone()
            } else {
                Some(file.name())
            },
            done: file.state.position,
            begun_at: file.begun_at,
            size: self.options.size.filter(|_| chosen).or(file.state.size),
            elapsed: now.saturating_sub(file.since),
            rate: file.history.rate(),
            bytes: file.state.position,
            beats: file.beats,
            ending: end.map(|end| Ending {
                end,
                ..Ending::default()
            }),
            ..Snapshot::default()
        };
        let snapshots: Vec<Snapshot> = self.files.iter().map(snapshot).collect();
        if chosen {
            snapshots.iter().for_each(|snapshot| display.show(snapshot));
        } else {
            display.show_all(&snapshots);
        }
    }
}

impl Watched {
    fn new(fd: i32, state: FileState, now: Duration) -> Self {
        Watched {
            fd,
            since: now,
            begun_at: state.position,
            history: History::begin(Duration::ZERO, state.position),
            beats: 0,
            state,
        }
    }

    fn update(&mut self, state: FileState, now: Duration) {
        let since = now.saturating_sub(self.since);
        if state.position < self.state.position {
            // After a backward seek, the rate starts anew.
            self.history = History::begin(since, state.position);
            self.begun_at = self.begun_at.min(state.position);
        } else {
            self.history.sample(since, state.position);
        }
        self.beats += u64::from(state.position != self.state.position);
        self.state = state;
    }

    /// The descriptor and the end of the path.
    fn name(&self) -> String {
        let (fd, path) = (self.fd, &self.state.path);
        match path.char_indices().nth_back(MAX_PATH_CHARS - 1) {
            Some((start, _)) if start > 0 => format!("{fd:>4}:...{}", &path[start..]),
            _ => format!("{fd:>4}:{path}"),
        }
    }
}

/// Identifies an open file, since a descriptor's number may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    /// Access mode (O_ACCMODE).
    access: u32,
}

/// State of a descriptor of a regular file or a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    /// The open file.
    identity: Identity,
    /// Its position in bytes.
    position: u64,
    /// The file's size, if it is open only for reading: otherwise it may grow.
    size: Option<u64>,
    /// Its path, as far as known.
    path: String,
}

/// Lists all descriptors of a process.
///
/// # Errors
/// Those of reading /proc: no such process, or no permission.
fn list(pid: i32) -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the state of a descriptor. `None` if it is neither a regular file nor a
/// block device.
///
/// # Errors
/// Those of reading /proc: the descriptor or the process does not exist.
fn read(pid: i32, fd: i32) -> io::Result<Option<FileState>> {
    let link = format!("/proc/{pid}/fd/{fd}");
    // Following the link also works for deleted files.
    let about = fs::metadata(&link)?;
    if !about.is_file() && !about.file_type().is_block_device() {
        return Ok(None);
    }
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}"))?;
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let malformed = io::ErrorKind::InvalidData;
    let position = field("pos:")
        .and_then(|text| text.parse().ok())
        .ok_or(malformed)?;
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok());
    let access = flags.ok_or(malformed)? & OFlags::ACCMODE.bits();
    let size = if access != OFlags::RDONLY.bits() {
        None
    } else {
        rustix::fs::stat(&link).ok().and_then(|stat| size_of(&stat))
    };
    Ok(Some(FileState {
        identity: Identity {
            device: about.dev(),
            inode: about.ino(),
            access,
        },
        position,
        size: size.filter(|size| *size > 0),
        path: fs::read_link(&link)?.to_string_lossy().into_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn positions_of_our_own_descriptors_are_read() {
        let pid = std::process::id() as i32;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0; 5000]).unwrap();
        let mut reading = fs::File::open(file.path()).unwrap();
        reading.seek(SeekFrom::Start(1234)).unwrap();
        let seen = read(pid, reading.as_raw_fd()).unwrap().unwrap();
        assert_eq!((seen.position, seen.size), (1234, Some(5000)));
        assert_eq!(seen.path, file.path().to_str().unwrap());
        // No size, since a file that is open for writing may grow.
        let written = read(pid, file.as_raw_fd()).unwrap().unwrap();
        assert_eq!((written.position, written.size), (5000, None));
        assert_ne!(written.identity, seen.identity);
        assert!(list(pid).unwrap().contains(&reading.as_raw_fd()));
    }

    #[test]
    fn pipes_are_none_and_missing_descriptors_errors() {
        let pid = std::process::id() as i32;
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(read(pid, reader.as_raw_fd()).unwrap(), None);
        assert!(read(pid, 1_000_000).is_err());
        assert!(list(-1).is_err());
    }
}
