//! How processes, descriptors and links are called.

use pipespeed_pipeline::diagnosis::Who;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::LinkId;
use pipespeed_pipeline::sample::Observed;

use super::size_and_fill;
use crate::format::significant;

pub(super) fn full(who: &Who) -> String {
    format!("{} (pid {})", who.name, who.pid)
}

pub(super) fn descriptor(fd: i32) -> String {
    match fd {
        0 => "standard input".to_owned(),
        1 => "standard output".to_owned(),
        2 => "standard error".to_owned(),
        fd => format!("descriptor {fd}"),
    }
}

/// The descriptor that says what a process writes to a link. Of one that has it as both standard output
/// and error, as after `>&2`, the others from which it was inherited tell which.
pub(super) fn written_as(observation: &Observation, link: LinkId, writer: &Who) -> Option<i32> {
    let fds = |observed: &Observed| -> Vec<i32> {
        let ends = observed.process.ends.iter();
        ends.filter(|end| end.pipe == link && end.writes)
            .map(|end| end.fd)
            .collect()
    };
    let own = fds(observation.find(writer.pid)?);
    let mut above = observation.living().filter(|process| {
        let child = observation.find(writer.pid);
        child.is_some_and(|child| child.ancestors.contains(&process.process.id.pid))
    });
    // A shell keeps copies under higher numbers.
    let inherited = above.find_map(|process| {
        let mut fds = fds(process);
        fds.retain(|fd| matches!(fd, 1 | 2));
        match fds[..] {
            [only] => Some(only),
            _ => None,
        }
    });
    inherited.or_else(|| own.into_iter().min())
}

/// What a process writes there: `standard error`, `output (descriptor 5)`.
pub(super) fn stream(fd: Option<i32>) -> String {
    match fd {
        Some(fd @ 0..=2) => descriptor(fd),
        Some(fd) => format!("output ({})", descriptor(fd)),
        None => "output".to_owned(),
    }
}

/// For how long a process has waited: since it last ran, if that is known, else for the whole
/// observation.
pub(super) fn duration(observation: &Observation, who: &Who) -> String {
    let process = observation.find(who.pid);
    let idle = process.and_then(|process| process.idle_s);
    let seconds = idle.unwrap_or(0.0).max(observation.seconds);
    match seconds {
        0.0..120.0 => format!("{} s", significant(seconds)),
        120.0..7200.0 => format!("{:.0} minutes", seconds / 60.0),
        _ => format!("{} hours", significant(seconds / 3600.0)),
    }
}

/// `pipe 131780 (64KiB, 97 % full)`, or `FIFO /tmp/x`.
pub(super) fn pipe_name(observation: &Observation, id: LinkId) -> String {
    let pipe = observation.pipes.iter().find(|pipe| pipe.id == id);
    let name = match pipe.and_then(|pipe| pipe.path.as_deref()) {
        Some(path) => format!("FIFO {path}"),
        None if id.is_socket() => format!("socket {}", id.inode()),
        None => format!("pipe {}", id.inode()),
    };
    match pipe.and_then(size_and_fill) {
        Some(state) => format!("{name} ({state})"),
        None => name,
    }
}
