//! What takes the processor from a process that wants nothing but to run: the
//! clock's tick and other interrupts, kernel threads, and on a guest the host.
//!
//! They cost little by themselves. But an end of a pipeline that sleeps and
//! wakes may fall in step with the other and out of it again, and it is they
//! that push it: here two in three times the clock's tick, every 4 ms.
//!
//! In an interrupt a process stays on its processor, for all that others can
//! see; when another process has its turn it does not. The thread's count of
//! involuntary switches tells the two apart (getrusage(2)).

use std::io;

use nix::sys::resource::{UsageWho, getrusage};

use super::clock::now_ns;
use super::model::Interruptions;
use super::processors::on_processor;
use super::{Cost, Group, Kind, Per, Prepared, Probe, Value, prepared};

/// The names of the costs: one interruption, and the time from one to the next.
pub const NAMES: [&str; 2] = ["interruption", "between_interruptions"];

/// The name of the share of them, in percent, in which another process had its
/// turn. Its spreads are how long those took, in nanoseconds; those of the
/// interruption itself are without them.
pub const TURNS: &str = "interruptions_by_a_process";

/// One sample takes so long.
const SAMPLE_NS: u64 = 80_000_000;

/// Two looks at the clock that lie so far apart had something between them: a
/// look takes some tens of nanoseconds.
const GAP_NS: u64 = 1000;

/// Lengths that are kept of a round.
const KEPT: usize = 128;

/// So many times the usual number of interruptions make a round a busy one.
const MOST_OF_USUAL: f64 = 2.0;

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

/// What the costs let expect; none where they were not measured.
pub fn usual(costs: &[Cost]) -> Option<Interruptions> {
    let cost = |name: &str| costs.iter().find(|cost| cost.kind.name == name);
    let [one, between] = NAMES;
    let between = cost(between)?;
    let sample_ns = SAMPLE_NS as f64;
    // There are few in a round, so all rounds count. One in which somebody
    // else was busy saw many, and weighs no more than twice what is usual.
    let most = MOST_OF_USUAL * sample_ns / between.median?;
    let seen = between.samples.iter().map(|ns| (sample_ns / ns).min(most));
    let every_ns = sample_ns * between.samples.len() as f64 / seen.sum::<f64>();
    let most = most.ceil() as usize;
    let (mut lengths_ns, mut turns_ns) = (Vec::new(), Vec::new());
    for (interrupts, turns) in cost(one)?.spreads.iter().zip(&cost(TURNS)?.spreads) {
        let seen = interrupts.len() + turns.len();
        let kept = seen.min(most);
        let kept_turns = kept * turns.len() / seen.max(1);
        lengths_ns.extend(&interrupts[..kept - kept_turns]);
        turns_ns.extend(&turns[..kept_turns]);
    }
    Some(Interruptions {
        every_ns,
        lengths_ns,
        turns_ns,
    })
}

/// On these processors, which the ends of pipes are measured on: interruptions
/// as such on the first, what they take on each.
pub(super) fn probes(cpus: Vec<usize>) -> Vec<Prepared> {
    let [one, between] = NAMES;
    let kind = |per, name, what| Kind::new(Group::Calls, per, name, what);
    let mut kinds = vec![
        kind(
            Per::Call,
            one,
            "an interruption of a process that never waits",
        ),
        kind(Per::Call, between, "    from one to the next"),
        kind(
            Per::Percent,
            TURNS,
            "    of them, another process's turn, in %",
        ),
    ];
    kinds.extend(cpus.iter().map(|cpu| {
        let (name, what) = (format!("{TAKEN}{cpu}"), format!("of processor {cpu}"));
        Kind::new(Group::Taken, Per::Percent, name, what)
    }));
    let probe = match cpus.is_empty() {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => Ok(Interrupted {
            kinds: kinds.clone(),
            cpus,
        }),
    };
    vec![prepared(kinds, probe)]
}

struct Interrupted {
    kinds: Vec<Kind>,
    cpus: Vec<usize>,
}

impl Probe for Interrupted {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        // In turns: all at once would be a load of our own.
        let each = self
            .cpus
            .iter()
            .map(|cpu| on_processor(*cpu, || Ok(gaps())));
        Ok(values(&each.collect::<io::Result<Vec<_>>>()?))
    }
}

/// What the gaps on the first processor come to, and the share of each one's time
/// in percent.
fn values(each: &[Vec<Gap>]) -> Vec<Value> {
    let sum = |gaps: &[Gap]| gaps.iter().map(|gap| gap.ns).sum::<f64>();
    let gaps = each.first().map_or(&[][..], |gaps| gaps);
    let lengths = |turn: bool| -> Vec<f64> {
        let kept = gaps.iter().take(KEPT);
        let those = kept.filter(|gap| gap.is_turn == turn);
        those.map(|gap| gap.ns).collect()
    };
    let turns = gaps.iter().filter(|gap| gap.is_turn).count();
    let share = |part: f64| part / gaps.len().max(1) as f64;
    // None is as good as one in twice the time.
    let between = SAMPLE_NS as f64 / (gaps.len() as f64).max(0.5);
    let of_first = [
        Value {
            value: share(sum(gaps)),
            spread: Some(lengths(false)),
        },
        between.into(),
        Value {
            value: 100.0 * share(turns as f64),
            spread: Some(lengths(true)),
        },
    ];
    // The last gap may end after the sample.
    let shares = each
        .iter()
        .map(|gaps| (100.0 * sum(gaps) / SAMPLE_NS as f64).min(100.0).into());
    of_first.into_iter().chain(shares).collect()
}

struct Gap {
    ns: f64,
    is_turn: bool,
}

fn gaps() -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut switches = involuntary_switches();
    let end = now_ns() + SAMPLE_NS;
    let mut before = now_ns();
    while before < end {
        let mut now = now_ns();
        if now - before >= GAP_NS {
            let switched = involuntary_switches();
            gaps.push(Gap {
                ns: (now - before) as f64,
                is_turn: switched > switches,
            });
            switches = switched;
            now = now_ns();
        }
        before = now;
    }
    gaps
}

/// Of this thread so far; where they are not told, there are none.
fn involuntary_switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic::cost;

    #[test]
    fn each_processor_has_its_own_share() {
        let sample = SAMPLE_NS as f64;
        let gaps = |each: &[f64]| -> Vec<Gap> {
            let gap = |part| Gap {
                ns: part * sample,
                is_turn: false,
            };
            each.iter().copied().map(gap).collect()
        };
        let values = values(&[gaps(&[0.25, 0.25]), Vec::new(), gaps(&[0.125])]);
        let figures: Vec<f64> = values.iter().map(|value| value.value).collect();
        let of_first = [0.25 * sample, 0.5 * sample, 0.0];
        assert_eq!(figures, [&of_first[..], &[50.0, 0.0, 12.5]].concat());
    }

    #[test]
    fn shares_are_found_again_by_processor() {
        let costs = [
            cost("interruption", 50.0, 1),
            cost("taken_of_processor_0", 1.5, 1),
            cost("taken_of_processor_12", 40.0, 1),
        ];
        assert_eq!(shares(&costs), [(0, 0.015), (12, 0.4)]);
        let Ok(probe) = &probes(vec![0, 12])[0] else {
            panic!("none");
        };
        let names = probe.kinds().iter().map(|kind| &*kind.name);
        let names: Vec<&str> = names.filter(|name| name.starts_with(TAKEN)).collect();
        assert_eq!(names, ["taken_of_processor_0", "taken_of_processor_12"]);
    }

    #[test]
    fn a_busy_round_weighs_no_more_than_twice_the_usual() {
        let [one, between] = NAMES;
        // One in a sample.
        let mut costs = [
            cost(one, 20_000.0, 3),
            cost(between, SAMPLE_NS as f64, 3),
            cost(TURNS, 0.0, 3),
        ];
        costs[1].samples[1] = SAMPLE_NS as f64 / 100.0;
        costs[0].spreads[1] = vec![90_000.0; 64];
        costs[2].spreads = vec![vec![], vec![50_000.0; 64], vec![]];
        let usual = usual(&costs).unwrap();
        // One in each quiet round, and two in the busy one, half of them turns.
        assert!((usual.every_ns - 0.75 * SAMPLE_NS as f64).abs() < 1.0);
        assert_eq!(usual.lengths_ns, [20_000.0, 90_000.0, 20_000.0]);
        assert_eq!(usual.turns_ns, [50_000.0]);
    }
}
