//! Packet mode: pipes whose writes stay apart.

use fastpipe::pipe::{self, page_size};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::check::pipes::{Ends, Moved};
use crate::check::{Check, Group, Outcome};

pub(in crate::check) const CHECKS: &[Check] = &[
    Check {
        name: "packet-boundaries",
        group: Group::Semantics,
        statement: "with O_DIRECT each write is read by itself",
        explanation: "pipe2(2) with O_DIRECT makes a pipe in packet mode. Packets of 10 and 20 bytes \
                      are read into a large buffer, one by each read(2).",
        reference: "pipe(2), O_DIRECT",
        run: || with_packets(boundaries),
    },
    Check {
        name: "packet-rest",
        group: Group::Semantics,
        statement: "what a reader leaves of a packet is lost",
        explanation: "10 bytes are read of a packet of 100. The next read(2) returns the next \
                      packet: so read with a buffer of PIPE_BUF bytes.",
        reference: "pipe(2), O_DIRECT",
        run: || with_packets(rest),
    },
    Check {
        name: "packet-split",
        group: Group::Semantics,
        statement: "the packets that a longer write is cut into",
        explanation: "Two pages and a bit are written in one go. pipe(2) promises packets of at most \
                      PIPE_BUF bytes; the kernel cuts by pages, which are larger than that on some \
                      machines.",
        reference: "pipe(2), O_DIRECT; pipe_write() in fs/pipe.c",
        run: || with_packets(split),
    },
    Check {
        name: "packet-slots",
        group: Group::Semantics,
        statement: "how many packets of one byte fill a pipe",
        explanation: "A packet takes a slot, however small it is: nothing is appended to it.",
        reference: "pipe(2), O_DIRECT; pipe_write() in fs/pipe.c",
        run: || with_packets(slots),
    },
];

/// Tries something on a pipe in packet mode, if there is such a thing.
fn with_packets(run: fn(&Ends) -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    match Ends::with(PipeFlags::DIRECT) {
        Ok(ends) => run(&ends),
        Err(error) if error.downcast_ref::<Errno>() == Some(&Errno::INVAL) => {
            Ok(Outcome::refused("EINVAL: pipe2(2) knows no O_DIRECT here"))
        }
        Err(error) => Err(error),
    }
}

fn boundaries(ends: &Ends) -> anyhow::Result<Outcome> {
    ends.write(10)?;
    ends.write(20)?;
    let got = [ends.read(65_536)?, ends.read(65_536)?];
    let seen = format!("{}, then {} bytes", got[0], got[1]);
    Ok(match got {
        [Moved::Bytes(10), Moved::Bytes(20)] => Outcome::pass(seen),
        _ => Outcome::fail(seen),
    })
}

fn rest(ends: &Ends) -> anyhow::Result<Outcome> {
    ends.write(100)?;
    ends.write(20)?;
    let got = [ends.read(10)?, ends.read(65_536)?];
    let seen = format!(
        "{} of 100 bytes, then {} of the next packet",
        got[0], got[1]
    );
    Ok(match got {
        [Moved::Bytes(10), Moved::Bytes(20)] => Outcome::pass(seen),
        _ => Outcome::fail(format!("{} of 100 bytes, then {}, not 20", got[0], got[1])),
    })
}

fn split(ends: &Ends) -> anyhow::Result<Outcome> {
    // Whatever the limits on pipes have left.
    pipe::set_capacity(&ends.write, 4 * page_size())?;
    let written = ends.write(2 * page_size() + 100)?;
    let mut packets = Vec::new();
    while let Moved::Bytes(bytes) = ends.read(4 * page_size())? {
        packets.push(bytes.to_string());
    }
    Ok(Outcome::seen(format!(
        "{} of {written} bytes",
        packets.join(", ")
    )))
}

fn slots(ends: &Ends) -> anyhow::Result<Outcome> {
    let slots = pipe::slots(&ends.write)?;
    let packets = ends.fill(1)?;
    Ok(Outcome::seen(format!("{packets}, of {slots} slots")))
}
