//! What takes the processor from a process that wants nothing but to run: the
//! clock's tick and other interrupts, kernel threads, and on a guest the host.
//!
//! They cost little by themselves. But an end of a pipeline that sleeps and
//! wakes may fall in step with the other and out of it again, and it is they
//! that push it: here two in three times the clock's tick, every 4 ms. The
//! kernel's tick comes to all processors at once (unless it is started with
//! skew_tick=1), so both ends' are looked at together, and what was seen is kept
//! as it came.
//!
//! In an interrupt a process stays on its processor, for all that others can
//! see; when another process has its turn it does not. The thread's count of
//! involuntary switches tells the two apart (getrusage(2)).

use std::io;
use std::thread;

use nix::sys::resource::{UsageWho, getrusage};

use super::clock::{now_ns, work_until};
use super::model::{Interruption, Interruptions};
use super::processors::{joined, on_processor};
use super::{Cost, Group, Kind, Per, Prepared, Probe, Value};

/// Whose processors are looked at together.
const ENDS: [&str; 2] = ["writer", "reader"];

/// The names of the costs of an end's processor: one interruption, the time from
/// one to the next, and the share of them in percent in which another process had
/// its turn. Their spreads are each one's length, when it began after the sample
/// had, both in nanoseconds, and whether it was such a turn (1) or not (0).
pub fn names(end: &str) -> [String; 3] {
    [
        format!("interruption_of_{end}"),
        format!("between_interruptions_of_{end}"),
        format!("interruptions_by_a_process_of_{end}"),
    ]
}

/// One sample takes so long.
const SAMPLE_NS: u64 = 80_000_000;

/// Until both threads are there.
const START_NS: u64 = 500_000;

/// Two looks at the clock that lie so far apart had something between them, or so
/// many times as far as they usually do: a look takes some tens of nanoseconds, or
/// a microsecond where the clock has to be asked for by a system call.
const GAP_NS: u64 = 300;
const GAP_OF_USUAL: u64 = 10;

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

/// What was seen on both ends' processors, in all rounds; none where it was not
/// measured.
pub fn seen(costs: &[Cost]) -> Option<Interruptions> {
    let cost = |name: &str| costs.iter().find(|cost| cost.kind.name == name);
    let of_end = |end: &str| {
        let [length, between, turns] = names(end);
        Some([cost(&length)?, cost(&between)?, cost(&turns)?])
    };
    let ends = [of_end(ENDS[0])?, of_end(ENDS[1])?];
    let rounds = ends[0][0].spreads.len();
    if rounds == 0 {
        return None;
    }
    let of_round = |[lengths, begun, turns]: &[&Cost; 3], round: usize| {
        let begun = begun.spreads.get(round)?.iter();
        let all = begun.zip(lengths.spreads.get(round)?);
        let all = all.zip(turns.spreads.get(round)?);
        let each = all.map(|((at_ns, ns), turn)| Interruption {
            at_ns: *at_ns,
            ns: *ns,
            is_turn: *turn > 0.0,
        });
        Some(each.collect())
    };
    let sample = |round| Some([of_round(&ends[0], round)?, of_round(&ends[1], round)?]);
    Some(Interruptions {
        sample_ns: SAMPLE_NS as f64,
        samples: (0..rounds).map(sample).collect::<Option<_>>()?,
    })
}

/// On these processors, the writer's first, then the reader's if it has another;
/// on all others only what they take.
pub(super) fn probes(cpus: Vec<usize>, ends: usize) -> Vec<Prepared> {
    let kind = |per, name, what| Kind::new(Group::Calls, per, name, what);
    let of_end = |end: &str| {
        let [length, between, turns] = names(end);
        let whose = format!("an interruption on the {end}'s processor");
        let next = "    from one to the next".to_owned();
        let turn = "    another process's turn, in % of them".to_owned();
        [
            kind(Per::Call, length, whose),
            kind(Per::Call, between, next),
            kind(Per::Percent, turns, turn),
        ]
    };
    let ends = ends.min(cpus.len()).min(ENDS.len());
    let mut kinds: Vec<Kind> = ENDS[..ends].iter().flat_map(|end| of_end(end)).collect();
    kinds.extend(cpus.iter().map(|cpu| {
        let (name, what) = (format!("{TAKEN}{cpu}"), format!("of processor {cpu}"));
        Kind::new(Group::Taken, Per::Percent, name, what)
    }));
    match cpus.is_empty() {
        true => Vec::new(),
        false => vec![Ok(Box::new(Interrupted { kinds, cpus, ends }))],
    }
}

struct Interrupted {
    kinds: Vec<Kind>,
    cpus: Vec<usize>,
    /// So many of the processors are looked at together.
    ends: usize,
}

impl Probe for Interrupted {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let (ends, others) = self.cpus.split_at(self.ends);
        let mut each = together(ends)?;
        // In turns: all at once would be a load of our own.
        for cpu in others {
            each.extend(together(&[*cpu])?);
        }
        Ok(values(&each, self.ends))
    }
}

/// What takes these processors, looked at from the same moment on.
fn together(cpus: &[usize]) -> io::Result<Vec<Vec<Gap>>> {
    let start = now_ns() + START_NS;
    thread::scope(|scope| {
        let look = |cpu: usize| move || on_processor(cpu, || Ok(gaps(start)));
        let spawn = |cpu: &usize| thread::Builder::new().spawn_scoped(scope, look(*cpu));
        let threads = cpus.iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        threads.into_iter().map(joined).collect()
    })
}

/// What the gaps on the ends' processors come to, and the share of each one's time
/// in percent.
fn values(each: &[Vec<Gap>], ends: usize) -> Vec<Value> {
    let sum = |gaps: &[Gap]| gaps.iter().map(|gap| gap.ns).sum::<f64>();
    let of_end = |gaps: &Vec<Gap>| {
        let turns = gaps.iter().filter(|gap| gap.is_turn).count();
        let share = |part: f64| part / gaps.len().max(1) as f64;
        // None is as good as one in twice the time.
        let between = SAMPLE_NS as f64 / (gaps.len() as f64).max(0.5);
        let each = |of: fn(&Gap) -> f64| Some(gaps.iter().map(of).collect());
        [
            Value {
                value: share(sum(gaps)),
                spread: each(|gap| gap.ns),
            },
            Value {
                value: between,
                spread: each(|gap| gap.at_ns),
            },
            Value {
                value: 100.0 * share(turns as f64),
                spread: each(|gap| f64::from(gap.is_turn)),
            },
        ]
    };
    // The last gap may end after the sample.
    let shares = each
        .iter()
        .map(|gaps| (100.0 * sum(gaps) / SAMPLE_NS as f64).min(100.0).into());
    each[..ends].iter().flat_map(of_end).chain(shares).collect()
}

struct Gap {
    at_ns: f64,
    ns: f64,
    is_turn: bool,
}

/// From that time on.
fn gaps(start: u64) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let gap_ns = GAP_NS.max(GAP_OF_USUAL * usual_look());
    work_until(start);
    let mut switches = involuntary_switches();
    let mut before = now_ns();
    while before < start + SAMPLE_NS {
        let mut now = now_ns();
        if now - before >= gap_ns {
            let switched = involuntary_switches();
            gaps.push(Gap {
                at_ns: (before - start) as f64,
                // A process that was stopped is no chance of every pipeline.
                ns: (now - before).min(SAMPLE_NS) as f64,
                is_turn: switched > switches,
            });
            switches = switched;
            now = now_ns();
        }
        before = now;
    }
    gaps
}

/// From one look at the clock to the next.
fn usual_look() -> u64 {
    let mut looks = [0; 101];
    looks.fill_with(now_ns);
    let mut between: Vec<u64> = looks.windows(2).map(|two| two[1] - two[0]).collect();
    *between.select_nth_unstable(50).1
}

/// Of this thread so far; where they are not told, there are none.
fn involuntary_switches() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic::cost;

    fn gap(at_ns: f64, ns: f64) -> Gap {
        Gap {
            at_ns,
            ns,
            is_turn: false,
        }
    }

    #[test]
    fn each_processor_has_its_own_share() {
        let sample = SAMPLE_NS as f64;
        let gaps = |each: &[f64]| -> Vec<Gap> {
            let each = each.iter().enumerate();
            each.map(|(at, part)| gap(at as f64 * 0.5 * sample, part * sample))
                .collect()
        };
        let values = values(&[gaps(&[0.25, 0.25]), Vec::new(), gaps(&[0.125])], 2);
        let figures: Vec<f64> = values.iter().map(|value| value.value).collect();
        let of_writer = [0.25 * sample, 0.5 * sample, 0.0];
        let of_reader = [0.0, 2.0 * sample, 0.0];
        let shares = [50.0, 0.0, 12.5];
        assert_eq!(figures, [of_writer, of_reader, shares].concat());
        assert_eq!(values[1].spread, Some(vec![0.0, 0.5 * sample]));
    }

    #[test]
    fn shares_are_found_again_by_processor() {
        let costs = [
            cost("interruption_of_writer", 50.0, 1),
            cost("taken_of_processor_0", 1.5, 1),
            cost("taken_of_processor_12", 40.0, 1),
        ];
        assert_eq!(shares(&costs), [(0, 0.015), (12, 0.4)]);
        let Ok(probe) = &probes(vec![0, 12], 2)[0] else {
            panic!("none");
        };
        let names = probe.kinds().iter().map(|kind| &*kind.name);
        let names: Vec<&str> = names.filter(|name| name.starts_with(TAKEN)).collect();
        assert_eq!(names, ["taken_of_processor_0", "taken_of_processor_12"]);
    }

    #[test]
    fn what_was_seen_is_found_again_as_it_came() {
        let each = [
            [gap(1000.0, 20_000.0), gap(4e6, 5000.0)].into(),
            [gap(1500.0, 9000.0)].into(),
        ];
        let Ok(probe) = &probes(vec![0, 1], 2)[0] else {
            panic!("none");
        };
        let mut costs = Vec::new();
        for (kind, value) in probe.kinds().iter().zip(values(&each, 2)) {
            let mut cost = cost(kind.name.clone(), value.value, 1);
            cost.spreads = value.spread.into_iter().collect();
            costs.push(cost);
        }
        let [lengths, _, turns] = names("writer");
        let find = |name: &str| costs.iter().position(|cost| cost.kind.name == name);
        let (lengths, turns) = (find(&lengths).unwrap(), find(&turns).unwrap());
        costs[turns].spreads[0][1] = 1.0;
        let seen = seen(&costs).unwrap();
        let interruption = |at_ns, ns, is_turn| Interruption { at_ns, ns, is_turn };
        assert_eq!(
            seen.samples,
            [[
                vec![
                    interruption(1000.0, 20_000.0, false),
                    interruption(4e6, 5000.0, true)
                ],
                vec![interruption(1500.0, 9000.0, false)],
            ]]
        );
        costs.remove(lengths);
        assert!(super::seen(&costs).is_none());
    }

    #[test]
    fn processors_are_looked_at_from_the_same_moment_on() {
        // One thread beside the other even where there is one processor only.
        let each = together(&[0, 0]).unwrap();
        assert_eq!(each.len(), 2);
        for gaps in each {
            // The other's turns at least.
            let sorted = gaps
                .windows(2)
                .all(|two| two[0].at_ns + two[0].ns <= two[1].at_ns);
            assert!(sorted && gaps.iter().any(|gap| gap.is_turn));
        }
    }
}
