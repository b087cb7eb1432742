//! What it takes to wake the other end, by where the two run.
//!
//! A byte goes to another process and comes back, both asleep until it arrives.
//! Half of that, less a write and a read of one byte that nobody sleeps for, is
//! a wake-up: the call of the scheduler, the interrupt where it takes one, the
//! other processor's way out of idleness, and the switch.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::calls::each;
use super::{Group, Kind, Per, Prepared, Probe, echo, prepared};
use crate::endpoint::process::SUBCOMMAND;
use crate::machine::topology::{Relation, Topology};

/// Round trips of a sample.
const TRIPS: u32 = 50;

/// One for each way two processors lie to each other here.
pub(super) fn probes(topology: &Topology) -> Vec<Prepared> {
    pairs(topology)
        .into_iter()
        .map(|(relation, cpus)| {
            let (name, what) = words(relation);
            let kinds = vec![Kind::new(Group::WakeUps, Per::WakeUp, name, what)];
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

fn words(relation: Relation) -> (String, String) {
    let name = match relation {
        Relation::One => "wake_up_same".to_owned(),
        Relation::Siblings => "wake_up_sibling".to_owned(),
        Relation::SharedCache(level) => format!("wake_up_shared_l{level}"),
        Relation::Package => "wake_up_package".to_owned(),
        Relation::Packages => "wake_up_packages".to_owned(),
        Relation::Unknown => "wake_up_other".to_owned(),
    };
    (name, relation.to_string())
}

struct PingPong {
    kinds: Vec<Kind>,
    child: Child,
    to: Option<PipeWriter>,
    from: PipeReader,
    /// A pipe to nobody else.
    own: (PipeReader, PipeWriter),
    cpu: usize,
}

impl PingPong {
    fn new(kinds: Vec<Kind>, (here, there): (usize, usize)) -> io::Result<Self> {
        let (echo_from, to) = io::pipe()?;
        let (from, echo_to) = io::pipe()?;
        let before = sched_getaffinity(None)?;
        stay_on(there)?;
        let child = Command::new(std::env::current_exe()?)
            .args([SUBCOMMAND, echo::ROLE])
            .stdin(echo_from)
            .stdout(echo_to)
            .stderr(Stdio::null())
            .spawn();
        sched_setaffinity(None, &before)?;
        Ok(PingPong {
            kinds,
            child: child?,
            to: Some(to),
            from,
            own: io::pipe()?,
            cpu: here,
        })
    }

    fn trips(&mut self) -> io::Result<Vec<f64>> {
        let mut byte = [b'x'];
        let started = Instant::now();
        for _ in 0..TRIPS {
            if let Some(to) = &mut self.to {
                to.write_all(&byte)?;
            }
            self.from.read_exact(&mut byte)?;
        }
        let trip = each(started, TRIPS);
        let started = Instant::now();
        for _ in 0..TRIPS {
            self.own.1.write_all(&byte)?;
            self.own.0.read_exact(&mut byte)?;
        }
        let calls = each(started, TRIPS);
        Ok(vec![(trip / 2.0 - calls).max(0.0)])
    }
}

impl Probe for PingPong {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<f64>> {
        let before = sched_getaffinity(None)?;
        stay_on(self.cpu)?;
        let values = self.trips();
        sched_setaffinity(None, &before)?;
        values
    }
}

/// The echo ends when its input does.
impl Drop for PingPong {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}

fn stay_on(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
