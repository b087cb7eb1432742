//! How processes, descriptors and links are called.

use pipespeed_pipeline::diagnosis::Who;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::LinkId;

use super::size_and_fill;

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
