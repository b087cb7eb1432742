//! What F_SETPIPE_SZ grants, and when it refuses.

use fastpipe::pipe::{self, CapacityError, Limits, page_size};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::users::{WITHIN_ONLY, capabilities};
use crate::check::pipes::{Ends, Moved};
use crate::check::{Check, Group, Outcome};
use crate::machine::Root;

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "capacity-rounding",
        group: Group::Limits,
        statement: "F_SETPIPE_SZ grants at least what is asked for",
        explanation: "Sizes that are no power of two of pages are asked for. The kernel rounds up, \
                      so read the granted capacity back before counting on it.",
        reference: "fcntl(2), F_SETPIPE_SZ; round_pipe_size() in fs/pipe.c",
        run: rounding,
    },
    Check {
        name: "capacity-smallest",
        group: Group::Limits,
        statement: "less than a page is rounded up to one page",
        explanation: "One byte is asked for. A pipe of one slot is the smallest there is, and the \
                      slowest: its two ends take turns page by page.",
        reference: "fcntl(2), F_SETPIPE_SZ; round_pipe_size() in fs/pipe.c",
        run: smallest,
    },
    Check {
        name: "largest-capacity",
        group: Group::Limits,
        statement: "the largest pipe that this process is granted",
        explanation: "The capacity of a pipe is doubled until the kernel refuses. Without \
                      CAP_SYS_RESOURCE the limit is fs.pipe-max-size, 1 MiB by default; with it \
                      the doubling is ended at 16 MiB. A larger pipe means fewer sleeps and \
                      wake-ups.",
        reference: "fcntl(2), F_SETPIPE_SZ; pipe(7), /proc/sys/fs/pipe-max-size; pipe_set_size() in \
                    fs/pipe.c",
        run: largest,
    },
    Check {
        name: "capacity-above-limit",
        group: Group::Limits,
        statement: "more than pipe-max-size is EPERM, but with CAP_SYS_RESOURCE",
        explanation: "Twice fs.pipe-max-size is asked for. Being root is not enough where the \
                      capability was taken away, as in most containers.",
        reference: "fcntl(2), F_SETPIPE_SZ, EPERM; pipe_set_size() in fs/pipe.c",
        run: above_limit,
    },
    Check {
        name: "capacity-busy",
        group: Group::Limits,
        statement: "a pipe can't be made smaller than what is in it",
        explanation: "A full pipe is to become one page large. That must be refused and change \
                      nothing: no byte is lost, and the capacity is as before.",
        reference: "fcntl(2), F_SETPIPE_SZ, EBUSY; pipe_resize_ring() in fs/pipe.c",
        run: busy,
    },
    Check {
        name: "capacity-keeps-data",
        group: Group::Limits,
        statement: "resizing keeps what is in the pipe",
        explanation: "Bytes are written, the pipe is made larger and smaller again, and the bytes \
                      are read: they must be the same, in the same order.",
        reference: "fcntl(2), F_SETPIPE_SZ; pipe_resize_ring() in fs/pipe.c",
        run: keeps_data,
    },
    Check {
        name: "capacity-either-end",
        group: Group::Limits,
        statement: "either end resizes the pipe for both",
        explanation: "The reader may resize the pipe as the writer may, at any time: so a writer \
                      must never conclude from \"one pipeful was written since\" that its earlier \
                      pages were read.",
        reference: "fcntl(2), F_SETPIPE_SZ",
        run: either_end,
    },
];

/// The largest pipe asked for where nothing limits it, in bytes.
const MOST: usize = 16 << 20;

fn rounding() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let page = page_size();
    let (mut seen, mut short) = (Vec::new(), false);
    for asked in [page, page + 1, 3 * page, 5 * page + 123] {
        let granted = pipe::set_capacity(&ends.write, asked)?;
        short |= granted < asked || granted != pipe::capacity(&ends.read)?;
        seen.push(format!("{granted} for {asked}"));
    }
    let seen = seen.join(", ");
    Ok(match short {
        false => Outcome::pass(seen),
        true => Outcome::fail(seen),
    })
}

fn smallest() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let granted = pipe::set_capacity(&ends.write, 1)?;
    let taken = ends.fill(page_size())?;
    let seen = format!("{granted} granted for 1, {taken} taken");
    Ok(match granted == page_size() && taken == granted {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn largest() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let mut granted = pipe::capacity(&ends.write)?;
    let limit = match Limits::read().max_size {
        Some(limit) => format!("pipe-max-size is {limit}"),
        None => "pipe-max-size can't be read".to_owned(),
    };
    while granted < MOST {
        match pipe::set_capacity(&ends.write, 2 * granted) {
            Ok(more) => granted = more,
            Err(error) => {
                let outcome =
                    Outcome::seen(format!("{granted} bytes, then {}; {limit}", named(&error)));
                return Ok(match error.limit.is_some_and(|limit| 2 * granted <= limit) {
                    false => outcome,
                    true => outcome.noting(
                        "less than pipe-max-size allows: this user's pipes hold as many pages as \
                         /proc/sys/fs/pipe-user-pages-soft allows",
                    ),
                });
            }
        }
    }
    Ok(Outcome::seen(format!("{granted} bytes or more; {limit}")))
}

fn above_limit() -> anyhow::Result<Outcome> {
    let Some(limit) = Limits::read().max_size else {
        return Ok(Outcome::refused("/proc/sys/fs/pipe-max-size can't be read"));
    };
    let asked = limit.saturating_mul(2);
    if asked > MOST.max(2 << 20) {
        return Ok(Outcome::seen(format!(
            "pipe-max-size is {limit}: not tried, to spare the memory"
        )));
    }
    let ends = Ends::new()?;
    let capable = capabilities().contains(CapabilitySet::SYS_RESOURCE);
    let entitled = capable && Root::default().in_first_user_namespace();
    let granted = pipe::set_capacity(&ends.write, asked);
    let refused = |error: &CapacityError| Errno::from_io_error(&error.source) == Some(Errno::PERM);
    Ok(match (granted, entitled) {
        (Ok(granted), true) => {
            Outcome::pass(format!("{granted} bytes granted, with CAP_SYS_RESOURCE"))
        }
        (Ok(granted), false) => {
            Outcome::fail(format!("{granted} bytes granted without CAP_SYS_RESOURCE"))
        }
        (Err(error), false) if refused(&error) && capable => {
            Outcome::pass(format!("EPERM for {asked} bytes")).noting(WITHIN_ONLY)
        }
        (Err(error), false) if refused(&error) => {
            Outcome::pass(format!("EPERM for {asked} bytes, without CAP_SYS_RESOURCE"))
        }
        (Err(error), true) => {
            Outcome::seen(format!("{} in spite of CAP_SYS_RESOURCE", named(&error)))
        }
        (Err(error), false) => Outcome::fail(format!("{} for {asked} bytes", named(&error))),
    })
}

fn busy() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    // Two slots at least, whatever the soft limit leaves.
    let before = match pipe::capacity(&ends.write)? {
        one if one == page_size() => pipe::set_capacity(&ends.write, 2 * page_size())?,
        more => more,
    };
    let filled = ends.fill(page_size())?;
    let shrunk = pipe::set_capacity(&ends.write, page_size());
    let (after, unread) = (pipe::capacity(&ends.write)?, ends.unread()?);
    Ok(match shrunk {
        Err(error) if error.source.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            match (after, unread) == (before, filled) {
                true => Outcome::pass(format!("EBUSY with {unread} bytes in it, none lost")),
                false => Outcome::fail(format!(
                    "EBUSY, yet {before} bytes of capacity became {after}, and {filled} unread \
                     bytes {unread}"
                )),
            }
        }
        Err(error) => Outcome::fail(format!("{}, not EBUSY", named(&error))),
        Ok(granted) => Outcome::fail(format!("{granted} granted with {filled} bytes in it")),
    })
}

fn keeps_data() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let before = pipe::capacity(&ends.write)?;
    // Every byte differs from its neighbours, and the first and last page are not full.
    let bytes: Vec<u8> = (0..before - 1).map(|at| (at % 251) as u8).collect();
    crate::check::pipes::write(&ends.write, &bytes)?;
    ends.read(7)?;
    let larger = pipe::set_capacity(&ends.write, 4 * before)?;
    let again = pipe::set_capacity(&ends.write, before)?;
    let mut got = vec![0; bytes.len()];
    let read = rustix::io::read(&ends.read, &mut got)?;
    let seen = format!("{read} bytes through {before}, {larger}, {again}");
    Ok(match got[..read] == bytes[7..] {
        true => Outcome::pass(seen),
        false => Outcome::fail(format!("{seen}: not the same bytes")),
    })
}

fn either_end() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let granted = pipe::set_capacity(&ends.read, 2 * page_size())?;
    let told = pipe::capacity(&ends.write)?;
    let taken = ends.write(4 * page_size())?;
    let seen = format!("{granted} set by the reader, {told} told to the writer, {taken} taken");
    Ok(match (told, taken) == (granted, Moved::Bytes(granted)) {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

/// The error's name, or its words.
fn named(error: &CapacityError) -> String {
    match Errno::from_io_error(&error.source) {
        Some(Errno::PERM) => "EPERM".to_owned(),
        Some(Errno::BUSY) => "EBUSY".to_owned(),
        Some(Errno::INVAL) => "EINVAL".to_owned(),
        Some(Errno::NOMEM) => "ENOMEM".to_owned(),
        _ => error.source.to_string(),
    }
}
