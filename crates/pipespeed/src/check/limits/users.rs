//! What all pipes of a user may hold.

use std::os::fd::OwnedFd;

use anyhow::Context;
use fastpipe::pipe::{self, Limits, page_size};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

use crate::check::pipes::NoPipe;
use crate::check::{Check, Group, Outcome};
use crate::machine::Root;
use crate::report::counted;
use crate::size;

pub(in crate::check) const CHECKS: &[Check] = &[Check {
    name: "user-page-limits",
    group: Group::Limits,
    statement: "what all pipes of a user may hold",
    explanation: "Past fs.pipe-user-pages-soft a user's new pipes get few slots and can't be \
                  enlarged; past fs.pipe-user-pages-hard there are no new pipes (ENFILE); 0 is no \
                  limit. Neither holds for processes with CAP_SYS_RESOURCE or CAP_SYS_ADMIN, but \
                  within a user namespace these do not count. The check --soft-limit shows it.",
    reference: "pipe(7), /proc/sys/fs/pipe-user-pages-soft and -hard; alloc_pipe_info() in fs/pipe.c",
    run: page_limits,
}];

/// Run only where asked for: it starves this user's other pipes for a moment.
pub const SOFT_LIMIT: Check = Check {
    name: "soft-limit",
    group: Group::Limits,
    statement: "what a new pipe gets past pipe-user-pages-soft",
    explanation: "Pipes are made as large as may be until a new one gets fewer slots than the \
                  first; then all are closed. Any program of this user can bring that about, and \
                  every pipeline started meanwhile runs on small pipes. Only with --soft-limit, \
                  since it does so for a moment.",
    reference: "pipe(7), /proc/sys/fs/pipe-user-pages-soft; alloc_pipe_info() in fs/pipe.c",
    run: soft_limit,
};

/// The slots of a new pipe (PIPE_DEF_BUFFERS).
const USUAL: usize = 16;

/// What this process is allowed; nothing where that can't be found out.
pub(in crate::check) fn capabilities() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// What is noted where a capability is there and does not count.
pub(super) const WITHIN_ONLY: &str =
    "its capabilities count within its user namespace only, not for this";

/// The capability by which the limits do not hold for this process.
fn exempt() -> Option<&'static str> {
    match Root::default().in_first_user_namespace() {
        true => exempting(capabilities()),
        false => None,
    }
}

fn exempting(capabilities: CapabilitySet) -> Option<&'static str> {
    [
        (CapabilitySet::SYS_RESOURCE, "CAP_SYS_RESOURCE"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ]
    .into_iter()
    .find(|(capability, _)| capabilities.contains(*capability))
    .map(|(_, name)| name)
}

fn page_limits() -> anyhow::Result<Outcome> {
    let limits = Limits::read();
    let (Some(soft), Some(hard)) = (limits.user_pages_soft, limits.user_pages_hard) else {
        return Ok(Outcome::refused(
            "/proc/sys/fs/pipe-user-pages-soft and -hard can't be read",
        ));
    };
    let outcome = Outcome::seen(format!("soft {}, hard {}", pages(soft), pages(hard)));
    Ok(match (exempt(), exempting(capabilities())) {
        (Some(capability), _) => {
            outcome.noting(format!("not for this process, which has {capability}"))
        }
        (None, Some(_)) => outcome.noting(format!("for this process, too: {WITHIN_ONLY}")),
        (None, None) => outcome,
    })
}

fn pages(count: usize) -> String {
    match count {
        0 => "none".to_owned(),
        _ => {
            let bytes = count as u64 * page_size() as u64;
            format!("{} ({})", counted(count, "page"), size::format(bytes))
        }
    }
}

/// How making pipes came to an end.
enum End {
    /// A new one had so many slots, and could be enlarged or not.
    Few(usize, bool),
    /// More pages than the limit, and still none is smaller.
    NotLimited,
    /// No more could be made.
    NoMore(Errno),
}

fn soft_limit() -> anyhow::Result<Outcome> {
    let limits = Limits::read();
    let Some(soft) = limits.user_pages_soft else {
        return Ok(Outcome::refused(
            "/proc/sys/fs/pipe-user-pages-soft can't be read",
        ));
    };
    if soft == 0 {
        return Ok(Outcome::seen("no limit (0)"));
    }
    let descriptors = Descriptors::raise();
    let mut held = Held::default();
    let end = held.grow(soft, limits.max_size.unwrap_or(0))?;
    let (pipes, pages) = (counted(held.pipes.len(), "pipe"), held.pages);
    drop(held);
    drop(descriptors);
    Ok(match end {
        End::Few(slots, _) if pages == 0 => Outcome::seen(format!("{}, at once", slots_of(slots)))
            .noting("other processes of this user hold the pages that the limit allows"),
        End::Few(slots, enlarged) => Outcome::seen(format!(
            "{} {}, once {pipes} held {} of {soft}",
            slots_of(slots),
            match enlarged {
                true => "that can be enlarged",
                false => "and can't be enlarged (EPERM)",
            },
            counted(pages, "page"),
        )),
        End::NotLimited => {
            let outcome = Outcome::seen(format!(
                "as before: {pipes} held {}, the limit is {soft}",
                counted(pages, "page")
            ));
            outcome.noting(match exempt() {
                Some(capability) => {
                    format!("the limit does not hold for this process, which has {capability}")
                }
                None => "the limit does not hold here".to_owned(),
            })
        }
        End::NoMore(errno) => {
            let outcome = Outcome::refused(format!(
                "{errno} after {pipes} with {} of {soft}",
                counted(pages, "page")
            ));
            outcome.noting(match errno {
                Errno::MFILE => "the limit on descriptors comes first: raise it (ulimit -n)",
                _ => {
                    "the system's limit on files (fs.file-max), or fs.pipe-user-pages-hard, comes \
                      first"
                }
            })
        }
    })
}

fn slots_of(count: usize) -> String {
    counted(count, "slot")
}

/// Pipes that hold pages for nothing: an end of each.
#[derive(Default)]
struct Held {
    pipes: Vec<OwnedFd>,
    pages: usize,
}

impl Held {
    fn grow(&mut self, soft: usize, max_size: usize) -> anyhow::Result<End> {
        let usual = USUAL * page_size();
        loop {
            let (read_end, write_end) = match pipe_with(PipeFlags::CLOEXEC) {
                Ok(ends) => ends,
                Err(errno @ (Errno::MFILE | Errno::NFILE)) => return Ok(End::NoMore(errno)),
                Err(errno) => return Err(errno).context(NoPipe),
            };
            let slots = pipe::slots(&read_end)?;
            if slots < USUAL {
                let enlarged = pipe::set_capacity(&write_end, usual).is_ok();
                return Ok(End::Few(slots, enlarged));
            }
            if self.pages > soft {
                return Ok(End::NotLimited);
            }
            // Large ones take fewer descriptors.
            let granted = pipe::set_capacity_up_to(&read_end, max_size.max(usual))?;
            self.pages += granted / page_size();
            self.pipes.push(read_end);
        }
    }
}

/// The limit on descriptors, raised as far as it may be; as it was when this is
/// dropped.
struct Descriptors(Rlimit);

impl Descriptors {
    fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        // Where it fails, what lacks them says so.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: before.maximum,
                ..before
            },
        );
        Descriptors(before)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}
