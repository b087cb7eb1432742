//! What it takes to wake the other end, by where the two run.
//!
//! A message goes to another process and comes back, both asleep until it
//! arrives; each carries the time it was sent. A wake-up lasts from the call
//! that causes it until the other process runs: the scheduler, the interrupt
//! where it takes one, the other processor's way out of idleness, and the
//! switch. The write and the read of a message that nobody sleeps for are taken
//! off.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::calls::each;
use super::clock::now_ns;
use super::echo::{self, Message, decode, encode};
use super::processors::on_processor;
use super::sleeps::SETTLING_NS;
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};
use crate::endpoint::process::SUBCOMMAND;
use crate::machine::topology::{Relation, Topology};

/// Round trips of a sample.
const TRIPS: u32 = 50;

/// One for each way two processors lie to each other here.
pub(super) fn probes(topology: &Topology) -> Vec<Prepared> {
    pairs(topology)
        .into_iter()
        .map(|(relation, cpus)| {
            let what = relation.to_string();
            let kinds = vec![Kind::new(Group::WakeUps, Per::WakeUp, name(relation), what)];
            prepared(kinds.clone(), PingPong::new(kinds, cpus))
        })
        .collect()
}

/// The first pair of processors of each relation, the nearest relations first.
fn pairs(topology: &Topology) -> Vec<(Relation, (usize, usize))> {
    let mut pairs: Vec<(Relation, (usize, usize))> = Vec::new();
    let Some(first) = topology.cpus.first() else {
        return pairs;
    };
    for other in &topology.cpus {
        let relation = first.relation(other);
        if pairs.iter().all(|(known, _)| *known != relation) {
            pairs.push((relation, (first.number, other.number)));
        }
    }
    pairs
}

/// The name of a wake-up's cost.
pub fn name(relation: Relation) -> String {
    match relation {
        Relation::One => "wake_up_same".to_owned(),
        Relation::Siblings => "wake_up_sibling".to_owned(),
        Relation::SharedCache(level) => format!("wake_up_shared_l{level}"),
        Relation::Package => "wake_up_package".to_owned(),
        Relation::Packages => "wake_up_packages".to_owned(),
        Relation::Unknown => "wake_up_other".to_owned(),
    }
}

struct PingPong {
    kinds: Vec<Kind>,
    child: Child,
    to: Option<PipeWriter>,
    from: PipeReader,
    /// A pipe to nobody else.
    own: (PipeReader, PipeWriter),
    cpu: usize,
    settling_ns: u64,
}

impl PingPong {
    fn new(kinds: Vec<Kind>, (here, there): (usize, usize)) -> io::Result<Self> {
        let (echo_from, to) = io::pipe()?;
        let (from, echo_to) = io::pipe()?;
        let child = on_processor(there, || {
            Command::new(std::env::current_exe()?)
                .args([SUBCOMMAND, echo::ROLE])
                .stdin(echo_from)
                .stdout(echo_to)
                .stderr(Stdio::null())
                // A terminal's signals are for us; it ends when its input does.
                .process_group(0)
                .spawn()
        })?;
        Ok(PingPong {
            kinds,
            child,
            to: Some(to),
            from,
            own: io::pipe()?,
            cpu: here,
            // A processor that switches between the two is never idle.
            settling_ns: if here == there { 0 } else { SETTLING_NS },
        })
    }

    fn trips(&mut self) -> io::Result<Vec<Value>> {
        let mut took = Vec::new();
        let mut message = Message::default();
        let Some(to) = &mut self.to else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let settled = now_ns() + self.settling_ns;
        while took.len() < 2 * TRIPS as usize {
            let counts = now_ns() >= settled;
            to.write_all(&encode(now_ns(), 0))?;
            self.from.read_exact(&mut message)?;
            let (sent, there) = decode(message);
            if counts {
                took.push(there as f64);
                took.push(now_ns().saturating_sub(sent) as f64);
            }
        }
        let started = Instant::now();
        for _ in 0..TRIPS {
            self.own.1.write_all(&message)?;
            self.own.0.read_exact(&mut message)?;
        }
        Ok(vec![Value::of_many(took, each(started, TRIPS))])
    }
}

impl Probe for PingPong {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        on_processor(self.cpu, || self.trips())
    }
}

/// The echo ends when its input does.
impl Drop for PingPong {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}
