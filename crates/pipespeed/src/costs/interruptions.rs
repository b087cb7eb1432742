//! What takes the processor from a process that wants nothing but to run: the
//! clock's tick and other interrupts, kernel threads, and on a guest the host.
//!
//! They cost little by themselves. But an end of a pipeline that sleeps and
//! wakes may fall in step with the other and out of it again, and it is they
//! that push it.

use std::io;

use super::clock::now_ns;
use super::processors::on_processor;
use super::{Cost, Group, Kind, Per, Prepared, Probe, Value, prepared};

/// The names of the costs: one interruption, and the time from one to the next.
pub const NAMES: [&str; 2] = ["interruption", "between_interruptions"];

/// One sample takes so long.
const SAMPLE_NS: u64 = 20_000_000;

/// Two looks at the clock that lie so far apart had something between them: a
/// look takes some tens of nanoseconds.
const GAP_NS: u64 = 1000;

/// Lengths that are kept of a round.
const KEPT: usize = 64;

/// The share of the time that interruptions took, of 1; none where it was not
/// measured.
pub fn share(costs: &[Cost]) -> Option<f64> {
    let mean = |name: &str| {
        let cost = costs.iter().find(|cost| cost.kind.name == name)?;
        cost.median
    };
    let [one, between] = NAMES;
    Some(mean(one)? / mean(between)?)
}

pub(super) fn probes(cpu: Option<usize>) -> Vec<Prepared> {
    let [one, between] = NAMES;
    let kind = |name, what| Kind::new(Group::Calls, Per::Call, name, what);
    let kinds = vec![
        kind(one, "an interruption of a process that never waits"),
        kind(between, "    from one to the next"),
    ];
    let probe = cpu.map(|cpu| Interruptions {
        kinds: kinds.clone(),
        cpu,
    });
    vec![prepared(
        kinds,
        probe.ok_or_else(|| io::ErrorKind::Unsupported.into()),
    )]
}

struct Interruptions {
    kinds: Vec<Kind>,
    cpu: usize,
}

impl Probe for Interruptions {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let gaps = on_processor(self.cpu, || Ok(gaps()))?;
        let sum: f64 = gaps.iter().sum();
        // None is as good as one in twice the time.
        let between = SAMPLE_NS as f64 / (gaps.len() as f64).max(0.5);
        Ok(vec![
            Value {
                value: sum / gaps.len().max(1) as f64,
                spread: Some(gaps.into_iter().take(KEPT).collect()),
            },
            between.into(),
        ])
    }
}

fn gaps() -> Vec<f64> {
    let mut gaps = Vec::new();
    let end = now_ns() + SAMPLE_NS;
    let mut before = now_ns();
    while before < end {
        let now = now_ns();
        if now - before >= GAP_NS {
            gaps.push((now - before) as f64);
        }
        before = now;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic::cost;

    #[test]
    fn the_share_is_of_the_time_between_them() {
        let [one, between] = NAMES;
        let costs = [cost(one, 50.0, 1), cost(between, 1000.0, 1)];
        assert_eq!(share(&costs), Some(0.05));
        assert_eq!(share(&costs[..1]), None);
    }
}
