//! Watching another process move through its files.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::descriptor::{self, Seen};
use super::display::Display;
use super::json::{Beside, Ending};
use super::options::{Options, Show, Target};
use super::progress::{History, Snapshot};
use super::rows;
use super::status::Status;

/// The last so many characters of a path are shown.
const PATH: usize = 30;

/// Watches until the process ends, or its one descriptor is closed or leads
/// elsewhere.
pub fn run(options: &Options, target: Target) -> Status {
    let mut display = Display::new(options);
    let failed = |display: &mut Display<'_>, what: &str| {
        display.complain(&format!("process {}: {what}", target.pid));
        Status::ACCESS
    };
    let process = match open(target.pid) {
        Ok(process) => process,
        Err(error) => return failed(&mut display, &error.to_string()),
    };
    if let Err(error) = descriptor::all(target.pid) {
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
        None => {
            watch.look_at_all();
        }
        Some(fd) => match descriptor::look(target.pid, fd) {
            Ok(Some(seen)) => watch.files.push(Watched::new(fd, seen, Duration::ZERO)),
            Ok(None) => {
                let what = format!("descriptor {fd} is neither a file nor a block device");
                return failed(&mut display, &what);
            }
            Err(error) => return failed(&mut display, &format!("descriptor {fd}: {error}")),
        },
    }
    let end = watch.go(&process, &mut display);
    watch.show(&mut display, Some(end));
    Status::default()
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// The files of a process under way.
#[derive(Debug)]
struct Watch<'o> {
    options: &'o Options,
    target: Target,
    begun: Instant,
    files: Vec<Watched>,
    /// Rows drawn above the cursor.
    drawn: usize,
}

/// One of them.
#[derive(Debug)]
struct Watched {
    fd: i32,
    seen: Seen,
    /// When it was first seen, and where it was then.
    since: Duration,
    begun_at: u64,
    history: History,
    beats: u64,
}

impl Watch<'_> {
    /// Draws until there is nothing left to watch. Returns why.
    fn go(&mut self, process: &OwnedFd, display: &mut Display<'_>) -> &'static str {
        loop {
            let timeout = display.until_next(self.begun.elapsed());
            // Out of range is as good as never.
            let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                // It has ended; or nobody can tell, and it would never end.
                Ok(_) | Err(_) => return "process ended",
            }
            if !display.is_due(self.begun.elapsed()) {
                continue;
            }
            let is_there = match self.target.fd {
                Some(fd) => self.look_at(fd),
                None => self.look_at_all(),
            };
            if !is_there {
                return "descriptor closed";
            }
            self.show(display, None);
        }
    }

    /// Looks where the one file is now. False if the descriptor leads elsewhere.
    fn look_at(&mut self, fd: i32) -> bool {
        let now = self.begun.elapsed();
        match (
            descriptor::look(self.target.pid, fd),
            self.files.first_mut(),
        ) {
            (Ok(Some(seen)), Some(file)) if seen.identity == file.seen.identity => {
                file.moved(seen, now);
                true
            }
            _ => false,
        }
    }

    /// Looks where all files are now, which are new and which are gone. True: as
    /// long as the process lives it may open more.
    fn look_at_all(&mut self) -> bool {
        let now = self.begun.elapsed();
        let mut before = std::mem::take(&mut self.files);
        // Nobody may look at a process that is about to end.
        for fd in descriptor::all(self.target.pid).unwrap_or_default() {
            let Ok(Some(seen)) = descriptor::look(self.target.pid, fd) else {
                continue;
            };
            let same = |file: &Watched| file.fd == fd && file.seen.identity == seen.identity;
            self.files.push(match before.iter().position(same) {
                Some(place) => {
                    let mut file = before.swap_remove(place);
                    file.moved(seen, now);
                    file
                }
                None => Watched::new(fd, seen, now),
            });
        }
        true
    }

    /// Shows all files; how it ended, if it has.
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
    fn new(fd: i32, seen: Seen, now: Duration) -> Self {
        let mut history = History::new();
        history.begin(Duration::ZERO, seen.position);
        Watched {
            fd,
            since: now,
            begun_at: seen.position,
            history,
            beats: 0,
            seen,
        }
    }

    fn moved(&mut self, seen: Seen, now: Duration) {
        let since = now.saturating_sub(self.since);
        if seen.position < self.seen.position {
            // Back to somewhere: no rate follows from that.
            self.history.begin(since, seen.position);
            self.begun_at = self.begun_at.min(seen.position);
        } else {
            self.history.add(since, seen.position);
        }
        self.beats += u64::from(seen.position != self.seen.position);
        self.seen = seen;
    }

    fn snapshot(&self, now: Duration, size: Option<u64>, last: bool) -> Snapshot {
        Snapshot {
            done: self.seen.position,
            begun_at: self.begun_at,
            size: size.or(self.seen.size),
            elapsed: now.saturating_sub(self.since),
            rate: self.history.rate(),
            fill: None,
            beats: self.beats,
            last,
        }
    }

    /// The descriptor, and the end of the path.
    fn name(&self) -> String {
        let letters: Vec<char> = self.seen.path.chars().collect();
        let end: String = letters[letters.len().saturating_sub(PATH)..]
            .iter()
            .collect();
        if letters.len() > PATH {
            format!("{:>4}:...{end}", self.fd)
        } else {
            format!("{:>4}:{end}", self.fd)
        }
    }
}
