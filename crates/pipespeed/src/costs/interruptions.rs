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

/// Lengths that are kept of a round, of all processors together.
const KEPT: usize = 64;

/// What the names of the costs begin with that are each processor's share.
const TAKEN: &str = "taken_of_processor_";

/// The share of each processor's time that interruptions took, of 1, by the
/// processor's number; nothing where it was not measured.
pub fn shares(costs: &[Cost]) -> Vec<(usize, f64)> {
    let share = |cost: &Cost| {
        let cpu = cost.kind.name.strip_prefix(TAKEN)?.parse().ok()?;
        Some((cpu, cost.median? / 100.0))
    };
    costs.iter().filter_map(share).collect()
}

/// On each of these processors, which the ends of pipes are measured on.
pub(super) fn probes(mut cpus: Vec<usize>) -> Vec<Prepared> {
    cpus.sort_unstable();
    cpus.dedup();
    let [one, between] = NAMES;
    let kind = |name, what| Kind::new(Group::Calls, Per::Call, name, what);
    let mut kinds = vec![
        kind(one, "an interruption of a process that never waits"),
        kind(between, "    from one to the next"),
    ];
    kinds.extend(cpus.iter().map(|cpu| {
        let (name, what) = (format!("{TAKEN}{cpu}"), format!("of processor {cpu}"));
        Kind::new(Group::Taken, Per::Percent, name, what)
    }));
    let probe = match cpus.is_empty() {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Ok(Interruptions {
            kinds: kinds.clone(),
            cpus,
        }),
    };
    vec![prepared(kinds, probe)]
}

struct Interruptions {
    kinds: Vec<Kind>,
    cpus: Vec<usize>,
}

impl Probe for Interruptions {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        // In turns: both at once would be a load of our own.
        let each: io::Result<Vec<Vec<f64>>> = self
            .cpus
            .iter()
            .map(|cpu| on_processor(*cpu, || Ok(gaps())))
            .collect();
        Ok(values(&each?))
    }
}

/// What the gaps on each processor come to: those of all together, then the
/// share of each in percent.
fn values(each: &[Vec<f64>]) -> Vec<Value> {
    let sum = |gaps: &Vec<f64>| gaps.iter().sum::<f64>();
    let count: usize = each.iter().map(Vec::len).sum();
    // None is as good as one in twice the time.
    let between = (each.len() as u64 * SAMPLE_NS) as f64 / (count as f64).max(0.5);
    let kept = KEPT / each.len().max(1);
    let of_all = [
        Value {
            value: each.iter().map(sum).sum::<f64>() / count.max(1) as f64,
            spread: Some(
                each.iter()
                    .flat_map(|gaps| gaps.iter().take(kept).copied())
                    .collect(),
            ),
        },
        between.into(),
    ];
    let shares = each
        .iter()
        .map(|gaps| (100.0 * sum(gaps) / SAMPLE_NS as f64).min(100.0).into());
    of_all.into_iter().chain(shares).collect()
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
    fn each_processor_has_its_own_share() {
        let sample = SAMPLE_NS as f64;
        let values = values(&[vec![0.25 * sample, 0.25 * sample], Vec::new()]);
        let figures: Vec<f64> = values.iter().map(|value| value.value).collect();
        // One in a whole sample, as there are two of each.
        assert_eq!(figures, [0.25 * sample, sample, 50.0, 0.0]);
        assert_eq!(values[0].spread.as_ref().map(Vec::len), Some(2));
    }

    #[test]
    fn shares_are_found_again_by_processor() {
        let costs = [
            cost("interruption", 50.0, 1),
            cost("taken_of_processor_0", 1.5, 1),
            cost("taken_of_processor_12", 40.0, 1),
        ];
        assert_eq!(shares(&costs), [(0, 0.015), (12, 0.4)]);
        let Ok(probe) = &probes(vec![12, 0, 12])[0] else {
            panic!("none");
        };
        let names: Vec<&str> = probe.kinds().iter().map(|kind| &*kind.name).collect();
        assert_eq!(
            names[2..],
            ["taken_of_processor_0", "taken_of_processor_12"]
        );
    }
}
