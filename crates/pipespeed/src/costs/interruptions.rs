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
use super::model::{Interruption, Interruptions};
use super::processors::on_processor;
use super::{Cost, Group, Kind, Per, Prepared, Probe, Value, prepared};

/// The names of the costs: one interruption, and the time from one to the next.
/// Their spreads, in nanoseconds and in the order in which they came, are how
/// long each took, and how long after the end of the one before it came.
pub const NAMES: [&str; 2] = ["interruption", "between_interruptions"];

/// The name of the share of them, in percent, in which another process had its
/// turn. Its spreads are 1 for each of these, and 0 for each other.
pub const TURNS: &str = "interruptions_by_a_process";

/// One sample takes so long.
const SAMPLE_NS: u64 = 40_000_000;

/// Two looks at the clock that lie so far apart had something between them: a
/// look takes some tens of nanoseconds.
const GAP_NS: u64 = 1000;

/// So many are kept of a round.
const KEPT: usize = 512;

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

/// All that came, round by round; none where it was not measured.
pub fn seen(costs: &[Cost]) -> Option<Interruptions> {
    let cost = |name: &str| costs.iter().find(|cost| cost.kind.name == name);
    let [one, between] = NAMES;
    let (one, between, turns) = (cost(one)?, cost(between)?, cost(TURNS)?);
    let each = one.spreads.iter().zip(&between.spreads).zip(&turns.spreads);
    let rounds = each.map(|((lengths, after), turns)| {
        let each = lengths.iter().zip(after).zip(turns);
        each.map(|((ns, after_ns), turn)| Interruption {
            after_ns: *after_ns,
            ns: *ns,
            is_turn: *turn > 0.0,
        })
        .collect()
    });
    Some(Interruptions {
        watched_ns: SAMPLE_NS as f64,
        rounds: rounds.collect(),
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
    let of_each = |what: fn(&Gap) -> f64| gaps.iter().take(KEPT).map(what).collect();
    let turns = gaps.iter().filter(|gap| gap.is_turn).count();
    let share = |part: f64| part / gaps.len().max(1) as f64;
    // None is as good as one in twice the time.
    let between = SAMPLE_NS as f64 / (gaps.len() as f64).max(0.5);
    let of_first = [
        Value {
            value: share(sum(gaps)),
            spread: Some(of_each(|gap| gap.ns)),
        },
        Value {
            value: between,
            spread: Some(of_each(|gap| gap.after_ns)),
        },
        Value {
            value: 100.0 * share(turns as f64),
            spread: Some(of_each(|gap| f64::from(u8::from(gap.is_turn)))),
        },
    ];
    // The last gap may end after the sample.
    let shares = each
        .iter()
        .map(|gaps| (100.0 * sum(gaps) / SAMPLE_NS as f64).min(100.0).into());
    of_first.into_iter().chain(shares).collect()
}

struct Gap {
    /// Since the end of the one before.
    after_ns: f64,
    ns: f64,
    is_turn: bool,
}

fn gaps() -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut switches = involuntary_switches();
    let mut before = now_ns();
    let end = before + SAMPLE_NS;
    let mut last = before;
    while before < end {
        let mut now = now_ns();
        if now - before >= GAP_NS {
            let switched = involuntary_switches();
            gaps.push(Gap {
                after_ns: (before - last) as f64,
                ns: (now - before) as f64,
                is_turn: switched > switches,
            });
            switches = switched;
            last = now;
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
                after_ns: 0.1 * sample,
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
    fn they_are_found_again_as_they_came() {
        let gap = |after_ns, ns, is_turn| Gap {
            after_ns,
            ns,
            is_turn,
        };
        let gaps = vec![gap(5000.0, 1500.0, false), gap(90.0, 40_000.0, true)];
        let values = values(&[gaps]);
        let mut costs = [NAMES[0], NAMES[1], TURNS].map(|name| cost(name, 0.0, 1));
        for (cost, value) in costs.iter_mut().zip(values) {
            cost.spreads = value.spread.into_iter().collect();
        }
        let of = |after_ns, ns, is_turn| Interruption {
            after_ns,
            ns,
            is_turn,
        };
        let expected = vec![of(5000.0, 1500.0, false), of(90.0, 40_000.0, true)];
        assert_eq!(seen(&costs).unwrap().rounds, [expected]);
    }
}
