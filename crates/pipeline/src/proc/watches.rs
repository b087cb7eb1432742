//! Which other processes and files a process has descriptors of, or traces.

use std::collections::BTreeSet;
use std::fs;

use super::files::ProcessFiles;
use super::{Language, Proc, Target};

impl Proc {
    /// The processes that a process has opened ([`pipespeed_base::process`]). Empty without
    /// permission, and without a [pipe_probe](Self::with_pipe_probe).
    pub(crate) fn opened_processes(&self, pid: i32) -> Vec<i32> {
        let listing = self.reading(pid);
        let descriptors = self.numbers_in(&format!("proc/{pid}/fdinfo"));
        if listing.is_none() {
            return Vec::new();
        }
        drop(listing);
        let by_pidfd = |fd: i32| {
            let text = ProcessFiles::new(self, pid).fdinfo(fd)?;
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok())
        };
        let by_directory = |fd: i32| {
            let _reading = self.reading(pid)?;
            let path = fs::read_link(self.path(&format!("proc/{pid}/fd/{fd}"))).ok()?;
            path.strip_prefix("/proc").ok()?.to_str()?.parse().ok()
        };
        descriptors
            .unwrap_or_default()
            .into_iter()
            .filter_map(|fd| by_pidfd(fd).or_else(|| by_directory(fd)))
            .collect()
    }

    /// Whether a process has a descriptor by which it learns of what others do: of files, of processes but these, or an
    /// eventfd(2), which others may have, too. The runtimes of some languages wake themselves by one.
    pub(crate) fn watches_others(&self, pid: i32, own: &BTreeSet<i32>, language: Language) -> bool {
        let fds = self.numbers_in(&format!("proc/{pid}/fdinfo"));
        let has_eventfd = matches!(
            language,
            Language::JavaScript | Language::Java | Language::Go
        );
        let watches = |fd: i32| match ProcessFiles::new(self, pid).target(fd) {
            Some(Target::Anonymous(kind)) => match kind.as_str() {
                "eventfd" => !has_eventfd,
                // These are known by what a thread waits for. pidfds are looked at above.
                "eventpoll" | "timerfd" | "signalfd" | "io_uring" | "pidfd" => false,
                // inotify(7), fanotify(7), perf_event_open(2).
                _ => true,
            },
            _ => false,
        };
        let opened = self.opened_processes(pid).into_iter();
        opened.filter(|pid| *pid > 0).any(|pid| !own.contains(&pid))
            || fds.unwrap_or_default().into_iter().any(watches)
    }

    /// Whether a process traces another one (ptrace(2)).
    pub(crate) fn is_tracer(&self, pid: i32) -> bool {
        let tracer = |traced: i32| {
            let text = self.text(&format!("proc/{traced}/status"))?;
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix("TracerPid:"))?;
            value.trim().parse::<i32>().ok()
        };
        self.processes()
            .into_iter()
            .any(|traced| tracer(traced) == Some(pid))
    }
}
