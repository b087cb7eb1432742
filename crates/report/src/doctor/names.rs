//! How processes, descriptors and links are called.

use pipespeed_pipeline::diagnosis::{ActiveStage, Finding, LeakedWriteEnd, Who};
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::LinkId;
use pipespeed_pipeline::sample::{Observed, Shares};

use super::table::size_and_fill;
pub(super) use crate::format::full;
use crate::format::{list, significant};

/// A child that works for this share of the time is waited for with reason.
const MIN_WORKING: f64 = 0.5;

/// A stage, or the children for which it waits.
pub(super) fn full_of_active(stage: &ActiveStage) -> String {
    let name = full(&stage.who);
    if stage.are_children {
        format!("the children of {name}")
    } else {
        name
    }
}

/// Whether that is one process.
pub(super) fn is_one(stages: &[ActiveStage]) -> bool {
    matches!(stages, [only] if !only.are_children)
}

pub(super) fn descriptor(fd: i32) -> String {
    match fd {
        0 => "standard input".to_owned(),
        1 => "standard output".to_owned(),
        2 => "standard error".to_owned(),
        fd => format!("descriptor {fd}"),
    }
}

/// The descriptor that says what a process writes to a link; `None` if it is both its standard output
/// and its standard error, and so of the shells above it: `>&2` and `2>&1` look alike.
pub(super) fn written_as(observation: &Observation, link: LinkId, writer: &Who) -> Option<i32> {
    let writer = observation.find(writer.pid)?;
    let above = writer.ancestors.iter();
    let above = above.filter_map(|pid| observation.find(*pid));
    let family: Vec<&Observed> = std::iter::once(writer).chain(above).collect();
    let outputs = |process: &Observed| -> Vec<i32> {
        let ends = process.process.ends.iter();
        ends.filter(|end| end.pipe == link && end.writes)
            .map(|end| end.fd)
            .collect()
    };
    let is_standard = |fd: &i32| matches!(fd, 1 | 2);
    // A shell keeps copies under higher numbers.
    let only = family.iter().find_map(|process| {
        let fds = outputs(process).into_iter().filter(is_standard);
        match fds.collect::<Vec<i32>>()[..] {
            [only] => Some(only),
            _ => None,
        }
    });
    let own = outputs(writer);
    if only.is_some() || !own.iter().any(is_standard) {
        return only.or_else(|| own.into_iter().min());
    }
    None
}

/// What a process writes there: `standard error`, `output (descriptor 5)`.
pub(super) fn stream(fd: Option<i32>) -> String {
    match fd {
        Some(fd @ 0..=2) => descriptor(fd),
        Some(fd) => format!("output ({})", descriptor(fd)),
        None => "standard output and error".to_owned(),
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
    let pipe = observation.link(id);
    let name = match pipe.and_then(|pipe| pipe.path.as_deref()) {
        Some(path) => format!("FIFO {path}"),
        None if id.is_socket() => format!("socket {}", id.inode()),
        None if id.is_terminal() => format!("terminal /dev/pts/{}", id.inode()),
        None => format!("pipe {}", id.inode()),
    };
    match pipe.and_then(size_and_fill) {
        Some(state) => format!("{name} ({state})"),
        None => name,
    }
}

/// The child for which the holder of a write end waits, without that end, if it works for most of the
/// time, and the share in which it does.
pub(super) fn working_child(
    observation: &Observation,
    leaked: &LeakedWriteEnd,
) -> Option<(String, f64)> {
    let works = |shares: &Shares| shares.runs + shares.queued + shares.disk;
    let children = leaked.waits_for.iter();
    let named = children.filter_map(|child| {
        let observed = observation.find(child.pid)?;
        Some((full(child), works(&observed.shares)))
    });
    let sampled = observation.find(leaked.holder.pid).and_then(|holder| {
        let children = holder.children.as_ref()?;
        Some((children.names.first()?.clone(), works(&children.shares)))
    });
    let mut all = named.chain(sampled);
    all.find(|(_, share)| *share >= MIN_WORKING)
}

/// Which others wait as a process does, if any do.
pub(super) fn others_alike(finding: &Finding, alike: &[&Finding]) -> String {
    const MAX: usize = 3;
    let others = alike.iter().filter(|other| !std::ptr::eq(**other, finding));
    let others: Vec<&Who> = others.flat_map(|other| other.named()).collect();
    let does = if others.len() == 1 { "does" } else { "do" };
    match others.len() {
        0 => String::new(),
        1..=MAX => format!(" So {does} {}.", list(others.into_iter().map(full))),
        count => format!(" So do {count} others of that name."),
    }
}
