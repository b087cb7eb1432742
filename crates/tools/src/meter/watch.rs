//! Watching the positions of another process in its files.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::descriptor::{self, FileState};
use super::display::Display;
use super::json::{Beside, Ending};
use super::options::{Options, Show, Target};
use super::progress::{History, Snapshot};
use super::rows;
use super::status::Status;

/// Paths are shortened to their last characters.
const MAX_PATH_CHARS: usize = 30;

/// Watches until the process ends or the chosen descriptor no longer refers to
/// the same file.
pub fn run(options: &Options, target: Target) -> Status {
    let mut display = Display::new(options);
    let failed = |display: &mut Display<'_>, what: &str| {
        display.print_error(&format!("process {}: {what}", target.pid));
        Status::ACCESS
    };
    let process = match open(target.pid) {
        Ok(process) => process,
        Err(error) => return failed(&mut display, &error.to_string()),
    };
    if let Err(error) = descriptor::list(target.pid) {
        return failed(&mut display, &error.to_string());
    }
    let mut watch = Watch {
        options,
        target,
        begun: Instant::now(),
        files: Vec::new(),
        drawn: 0,
    };
    match target.fd {
        None => watch.update_all(),
        Some(fd) => match descriptor::read(target.pid, fd) {
            Ok(Some(seen)) => watch.files.push(Watched::new(fd, seen, Duration::ZERO)),
            Ok(None) => {
                let what = format!("descriptor {fd} is neither a file nor a block device");
                return failed(&mut display, &what);
            }
            Err(error) => return failed(&mut display, &format!("descriptor {fd}: {error}")),
        },
    }
    let end = watch.run(&process, &mut display);
    watch.show(&mut display, Some(end));
    Status::default()
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// The watched process.
#[derive(Debug)]
struct Watch<'o> {
    options: &'o Options,
    target: Target,
    begun: Instant,
    files: Vec<Watched>,
    /// Rows drawn above the cursor.
    drawn: usize,
}

/// A watched file.
#[derive(Debug)]
struct Watched {
    fd: i32,
    state: FileState,
    /// Time and position when it was first seen.
    since: Duration,
    begun_at: u64,
    history: History,
    beats: u64,
}

impl Watch<'_> {
    /// Draws until the end of the process or descriptor. Returns the reason.
    fn run(&mut self, process: &OwnedFd, display: &mut Display<'_>) -> &'static str {
        loop {
            let timeout = display.until_next(self.begun.elapsed());
            // Times out of range mean no timeout.
            let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                // If poll fails, the end could not be detected later.
                Ok(_) | Err(_) => return "process ended",
            }
            if !display.take_due(self.begun.elapsed()) {
                continue;
            }
            if let Some(fd) = self.target.fd {
                if !self.update(fd) {
                    return "descriptor closed";
                }
            } else {
                self.update_all();
            }
            self.show(display, None);
        }
    }

    /// Updates the position of the only file. False if the descriptor no longer
    /// refers to it.
    fn update(&mut self, fd: i32) -> bool {
        let now = self.begun.elapsed();
        match (
            descriptor::read(self.target.pid, fd),
            self.files.first_mut(),
        ) {
            (Ok(Some(state)), Some(file)) if state.identity == file.state.identity => {
                file.update(state, now);
                true
            }
            _ => false,
        }
    }

    /// Updates the list of files and their positions.
    fn update_all(&mut self) {
        let now = self.begun.elapsed();
        let mut before = std::mem::take(&mut self.files);
        // The list is unreadable while the process ends.
        for fd in descriptor::list(self.target.pid).unwrap_or_default() {
            let Ok(Some(state)) = descriptor::read(self.target.pid, fd) else {
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
    }

    /// Shows all files, for the last time if there is a reason for the end.
    fn show(&mut self, display: &mut Display<'_>, end: Option<&'static str>) {
        let now = self.begun.elapsed();
        let one = self.target.fd.is_some();
        let last = end.is_some();
        let snapshots: Vec<(Snapshot, Beside)> = self
            .files
            .iter()
            .map(|file| {
                let snapshot = file.snapshot(now, self.options.size.filter(|_| one), last);
                let name = match (one, &self.options.name) {
                    (true, name) => name.clone(),
                    (false, _) => Some(file.name()),
                };
                let beside = Beside {
                    name,
                    bytes: snapshot.done,
                    unread: None,
                    technique: None,
                };
                (snapshot, beside)
            })
            .collect();
        if let (Show::Line(_), false) = (&self.options.show, one) {
            self.draw_rows(display, &snapshots);
            return;
        }
        for (snapshot, beside) in &snapshots {
            match end {
                None => display.show(snapshot, beside),
                Some(end) => {
                    let ending = Ending {
                        end,
                        status: 0,
                        passed_over: Vec::new(),
                    };
                    display.show_last(snapshot, beside, &ending);
                }
            }
        }
    }

    fn draw_rows(&mut self, display: &mut Display<'_>, snapshots: &[(Snapshot, Beside)]) {
        let Show::Line(format) = &self.options.show else {
            return;
        };
        if !display.shows() || !display.may_draw() {
            return;
        }
        let lines: Vec<String> = snapshots
            .iter()
            .map(|(snapshot, beside)| display.line(format, snapshot, beside.name.as_deref()).0)
            .collect();
        let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        if display.write(&rows::drawing(self.drawn, &lines, display.size().1)) {
            self.drawn = lines.len();
        }
    }
}

impl Watched {
    fn new(fd: i32, state: FileState, now: Duration) -> Self {
        let mut history = History::new();
        history.restart(Duration::ZERO, state.position);
        Watched {
            fd,
            since: now,
            begun_at: state.position,
            history,
            beats: 0,
            state,
        }
    }

    fn update(&mut self, state: FileState, now: Duration) {
        let since = now.saturating_sub(self.since);
        if state.position < self.state.position {
            // A seek backwards gives no rate.
            self.history.restart(since, state.position);
            self.begun_at = self.begun_at.min(state.position);
        } else {
            self.history.add(since, state.position);
        }
        self.beats += u64::from(state.position != self.state.position);
        self.state = state;
    }

    fn snapshot(&self, now: Duration, size: Option<u64>, last: bool) -> Snapshot {
        Snapshot {
            done: self.state.position,
            begun_at: self.begun_at,
            size: size.or(self.state.size),
            elapsed: now.saturating_sub(self.since),
            rate: self.history.rate(),
            fill: None,
            beats: self.beats,
            last,
        }
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
