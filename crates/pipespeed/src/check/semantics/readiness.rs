//! What poll(2) promises.

use fastpipe::pipe::{ATOMIC_WRITE, page_size};
use rustix::event::PollFlags;

use crate::check::pipes::{Ends, Moved, names, ready};
use crate::check::{Check, Group, Outcome};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "poll-empty",
        group: Group::Semantics,
        statement: "an empty pipe can be written to and not read",
        explanation: "poll(2) is asked for POLLIN at the read end and POLLOUT at the write end of a \
                      new pipe.",
        reference: "POSIX.1-2024, poll(); pipe_poll() in fs/pipe.c",
        run: empty,
    },
    Check {
        name: "poll-one-byte",
        group: Group::Semantics,
        statement: "one byte in the pipe is POLLIN",
        explanation: "There is no mark below which a reader is left asleep: each byte wakes it, so \
                      that a writer of small pieces pays for many wake-ups.",
        reference: "POSIX.1-2024, poll(); pipe_poll() in fs/pipe.c",
        run: one_byte,
    },
    Check {
        name: "poll-room",
        group: Group::Semantics,
        statement: "where poll(2) reports POLLOUT, PIPE_BUF bytes go in at once",
        explanation: "A pipe is filled by turns of 1000 bytes and of PIPE_BUF, each after POLLOUT \
                      was seen, until poll(2) does not report it any more. The pipe must not be \
                      found without room before. Longer writes may have to wait all the same.",
        reference: "POSIX.1-2024, poll() and write(); pipe_poll() in fs/pipe.c",
        run: room,
    },
    Check {
        name: "poll-slots",
        group: Group::Semantics,
        statement: "POLLOUT where all slots are in use, the last one hardly",
        explanation: "All slots of the pipe are in use, but the last holds one byte. poll(2) looks \
                      for a free slot only, while a short write goes into the page in the last \
                      one.",
        reference: "pipe_poll() and pipe_write() in fs/pipe.c",
        run: slots,
    },
    Check {
        name: "poll-hang-up",
        group: Group::Semantics,
        statement: "when the last writer has closed: POLLHUP, and POLLIN while bytes are left",
        explanation: "A loop that ends at POLLHUP without looking for POLLIN loses the last bytes of \
                      the stream.",
        reference: "poll(2), POLLHUP; pipe_poll() in fs/pipe.c",
        run: hang_up,
    },
    Check {
        name: "poll-no-reader",
        group: Group::Semantics,
        statement: "when the last reader has closed the write end shows POLLERR",
        explanation: "A producer that has nothing to write just now can learn by this that nobody \
                      wants more.",
        reference: "poll(2), POLLERR; pipe_poll() in fs/pipe.c",
        run: no_reader,
    },
];

const BOTH: PollFlags = PollFlags::IN.union(PollFlags::OUT);

/// Passes if the flags are those that they must be.
fn compare(flags: &[PollFlags], wanted: &[PollFlags], seen: String) -> anyhow::Result<Outcome> {
    Ok(match flags == wanted {
        true => Outcome::pass(seen),
        false => Outcome::fail(seen),
    })
}

fn empty() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let flags = [ready(&ends.read, BOTH)?, ready(&ends.write, BOTH)?];
    let seen = format!(
        "{} at the read end, {} at the write end",
        names(flags[0]),
        names(flags[1])
    );
    compare(&flags, &[PollFlags::empty(), PollFlags::OUT], seen)
}

fn one_byte() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    ends.write(1)?;
    let with = ready(&ends.read, BOTH)?;
    ends.read(1)?;
    let without = ready(&ends.read, BOTH)?;
    let seen = format!("{}; {} once it was read", names(with), names(without));
    compare(&[with, without], &[PollFlags::IN, PollFlags::empty()], seen)
}

fn room() -> anyhow::Result<Outcome> {
    let ends = Ends::new()?;
    let mut times = 0;
    // A pipe that always claims room is found out by the write that fails.
    for bytes in [1000, ATOMIC_WRITE].into_iter().cycle() {
        if !ready(&ends.write, BOTH)?.contains(PollFlags::OUT) {
            break;
        }
        let taken = ends.write(bytes)?;
        if taken != Moved::Bytes(bytes) {
            return Ok(Outcome::fail(format!(
                "POLLOUT, then {taken} for {bytes} bytes, with {} in the pipe",
                ends.unread()?
            )));
        }
        times += 1;
    }
    let seen = format!("{times} of {times} times, up to {} bytes", ends.unread()?);
    Ok(match times {
        0 => Outcome::fail("never POLLOUT"),
        _ => Outcome::pass(seen),
    })
}

fn slots() -> anyhow::Result<Outcome> {
    let ends = Ends::full()?;
    ends.read(page_size())?;
    ends.write(1)?;
    let flags = ready(&ends.write, PollFlags::OUT)?;
    let taken = ends.write(100)?;
    Ok(Outcome::seen(format!(
        "{} with room for {} bytes, and write(2) takes {taken} of 100",
        match flags.is_empty() {
            true => "not reported".to_owned(),
            false => names(flags),
        },
        page_size() - 1
    )))
}

fn hang_up() -> anyhow::Result<Outcome> {
    let Ends { read, write } = Ends::new()?;
    crate::check::pipes::write(&write, b"last")?;
    drop(write);
    let with = ready(&read, BOTH)?;
    rustix::io::read(&read, &mut [0; 16])?;
    let without = ready(&read, BOTH)?;
    let seen = format!(
        "{} with bytes left, {} without",
        names(with),
        names(without)
    );
    let wanted = [PollFlags::IN | PollFlags::HUP, PollFlags::HUP];
    compare(&[with, without], &wanted, seen)
}

fn no_reader() -> anyhow::Result<Outcome> {
    let Ends { read, write } = Ends::new()?;
    drop(read);
    // Asked for nothing: errors are told all the same.
    let flags = ready(&write, PollFlags::empty())?;
    compare(&[flags], &[PollFlags::ERR], names(flags))
}
