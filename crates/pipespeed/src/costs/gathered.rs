//! Single wake-ups of all rounds, put in order once for all predictions.

use std::sync::Arc;

use super::Cost;
use super::model::{Spread, WakeUp, WakeUps};
use super::sleeps::{Before, Woken, names};
use crate::stats;

/// A single wake-up that took so many times as long as the longest usual one was
/// kept from its processor: it counts as so long.
const MOST_OF_USUAL: f64 = 5.0;

/// A wake-up whose call took so many times as long as the longest usual one was
/// interrupted, which is rare.
const INTERRUPTED: f64 = 2.0;

/// No round has more of these than so many times what is usual: a host that was
/// busy then is no chance of every wake-up.
const MOST_OF_RARE: f64 = 2.0;

/// A sleep that was so many times as long as those of ends that sleep in turns
/// may be one of them.
const AS_IN_TURNS: f64 = 0.5;

/// The wake-ups of both ends.
#[derive(Debug)]
pub struct Gathered {
    /// The writer's, and the reader's.
    ends: [Kept; 2],
    rounds: usize,
}

/// Those of one end.
#[derive(Debug)]
struct Kept {
    by_kind: Vec<(Before, Kind)>,
    in_turns_least_ns: f64,
}

/// Those after one thing.
#[derive(Debug)]
struct Kind {
    /// The usual ones of each round.
    usual: Vec<Arc<[WakeUp]>>,
    /// The same of all rounds.
    all_usual: Arc<[WakeUp]>,
    /// The rare ones of all rounds, of which one round sees too few.
    rare: Arc<[WakeUp]>,
}

impl Gathered {
    /// Those that were measured; none where any is missing.
    pub fn new(costs: &[Cost]) -> Option<Self> {
        let [reader, writer] = Woken::ALL.map(|woken| Measured::new(costs, woken));
        let (reader, writer) = (reader?, writer?);
        Some(Gathered {
            rounds: reader.rounds()?,
            ends: [writer.kept(&reader)?, reader.kept(&writer)?],
        })
    }

    /// The usual ones of one round, or of all, and the rare ones of all, each as
    /// often as it was: the writer's wake-ups, and the reader's. None where that
    /// round was not measured.
    pub fn wake_ups(&self, round: Option<usize>) -> Option<[WakeUps; 2]> {
        let [writer, reader] = &self.ends;
        Some([
            writer.wake_ups(round, self.rounds)?,
            reader.wake_ups(round, self.rounds)?,
        ])
    }
}

impl Kept {
    fn wake_ups(&self, round: Option<usize>, rounds: usize) -> Option<WakeUps> {
        let mut all = WakeUps {
            awake: Vec::new(),
            in_turns: Vec::new(),
            in_turns_least_ns: self.in_turns_least_ns,
        };
        for (before, kind) in &self.by_kind {
            let (usual, times) = match round {
                None => (&kind.all_usual, 1),
                // In place of the other rounds'.
                Some(round) => (kind.usual.get(round)?, rounds),
            };
            let spread = |ns: u64| Spread {
                after_ns: ns as f64,
                usual: Arc::clone(usual),
                times,
                rare: Arc::clone(&kind.rare),
            };
            match *before {
                Before::Asleep(ns) => all.awake.push(spread(ns)),
                Before::InTurns(ns) => all.in_turns.push(spread(ns)),
            }
        }
        Some(all)
    }
}

/// The costs of one end's wake-ups: until it runs, and its caller's part.
struct Measured<'a>(Vec<(Before, [&'a Cost; 2])>);

impl<'a> Measured<'a> {
    fn new(costs: &'a [Cost], woken: Woken) -> Option<Self> {
        let find = |name: &str| costs.iter().find(|cost| cost.kind.name == name);
        let both = |before| {
            let [until, call] = names(woken, before);
            Some((before, [find(&until)?, find(&call)?]))
        };
        Before::all().map(both).collect::<Option<_>>().map(Measured)
    }

    fn rounds(&self) -> Option<usize> {
        let (_, [until, _]) = self.0.first()?;
        Some(until.spreads.len())
    }

    /// What a wake-up usually took in a round, and its caller, after that for which
    /// it is most.
    fn longest_usual(&self, round: usize) -> Option<[f64; 2]> {
        let mut longest = [0.0_f64; 2];
        for (_, costs) in &self.0 {
            for (longest, cost) in longest.iter_mut().zip(costs) {
                *longest = longest.max(*cost.samples.get(round)?);
            }
        }
        Some(longest)
    }

    /// How long those sleep at least that sleep in turns with this end: until it
    /// runs, less the call by which they woke it, and while it works.
    fn others_sleep_ns(&self) -> Option<f64> {
        let sleep = |(before, [until, call]): &(Before, [&Cost; 2])| match *before {
            Before::InTurns(work_ns) => Some(until.median? + work_ns as f64 - call.median?),
            Before::Asleep(_) => None,
        };
        self.0.iter().filter_map(sleep).reduce(f64::min)
    }

    fn kept(&self, other: &Measured<'_>) -> Option<Kept> {
        let longest: Option<Vec<[f64; 2]>> = (0..self.rounds()?)
            .map(|round| self.longest_usual(round))
            .collect();
        let longest = longest?;
        let kind = |(before, costs): &(Before, [&Cost; 2])| Some((*before, kind(costs, &longest)?));
        let by_kind: Option<_> = self.0.iter().map(kind).collect();
        Some(Kept {
            by_kind: by_kind?,
            in_turns_least_ns: AS_IN_TURNS * other.others_sleep_ns()?,
        })
    }
}

fn kind([until, call]: &[&Cost; 2], longest: &[[f64; 2]]) -> Option<Kind> {
    let (mut usual, mut rare) = (Vec::new(), Vec::new());
    for (round, [longest_until, longest_call]) in longest.iter().enumerate() {
        let both = until.spreads.get(round)?.iter();
        let both = both.zip(call.spreads.get(round)?);
        let seen = both.map(|(until_ns, call_ns)| WakeUp {
            until_ns: until_ns.min(MOST_OF_USUAL * longest_until),
            call_ns: *call_ns,
        });
        let (of_round, interrupted): (Vec<WakeUp>, Vec<WakeUp>) =
            seen.partition(|wake_up| wake_up.call_ns <= INTERRUPTED * longest_call);
        usual.push(Arc::from(of_round));
        rare.push(interrupted);
    }
    let all_usual = usual
        .iter()
        .flat_map(|of_round: &Arc<[_]>| of_round.iter().copied());
    Some(Kind {
        all_usual: all_usual.collect(),
        rare: no_bursts(&rare).into(),
        usual,
    })
}

/// All rare ones, of each round at most so many as is said above.
fn no_bursts(rare: &[Vec<WakeUp>]) -> Vec<WakeUp> {
    let counts: Vec<f64> = rare.iter().map(|of_round| of_round.len() as f64).collect();
    let usual = stats::median(&counts).unwrap_or(0.0).max(1.0);
    let most = (MOST_OF_RARE * usual) as usize;
    let mut kept = Vec::new();
    for of_round in rare {
        let every = of_round.len().div_ceil(most).max(1);
        kept.extend(of_round.iter().step_by(every).copied());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic::{WAKE_CALL, WAKE_UP, costs};

    const BEFORE: Before = Before::Asleep(8000);

    fn set(costs: &mut [Cost], woken: Woken, until: Vec<Vec<f64>>, call: Vec<Vec<f64>>) {
        for (name, spreads) in names(woken, BEFORE).iter().zip([until, call]) {
            let cost = costs.iter_mut().find(|cost| cost.kind.name == *name);
            cost.unwrap().spreads = spreads;
        }
    }

    fn spread(gathered: &Gathered, round: Option<usize>) -> Spread {
        let [_, reader] = gathered.wake_ups(round).unwrap();
        let mut awake = reader.awake.into_iter();
        awake.find(|known| known.after_ns == 8000.0).unwrap()
    }

    fn wake_ups(each: &[(f64, f64)]) -> Arc<[WakeUp]> {
        let wake_up = |&(until_ns, call_ns): &(f64, f64)| WakeUp { until_ns, call_ns };
        each.iter().map(wake_up).collect()
    }

    #[test]
    fn usual_ones_are_those_of_the_round_and_rare_ones_of_all() {
        let mut costs = costs(3);
        let until = [[500.0, 21_000.0], [22_000.0, 23_000.0], [3e6, 24_000.0]];
        let call = [[300.0, 8500.0], [45_000.0, 7000.0], [9000.0, 9500.0]];
        let [until, call] = [until, call].map(|each| each.map(|each| each.to_vec()).to_vec());
        set(&mut costs, Woken::Reader, until, call);
        let gathered = Gathered::new(&costs).unwrap();
        let most = MOST_OF_USUAL * WAKE_UP;
        let usual = [
            vec![(500.0, 300.0), (21_000.0, 8500.0)],
            vec![(23_000.0, 7000.0)],
            vec![(most, 9000.0), (24_000.0, 9500.0)],
        ];
        for (round, usual) in usual.iter().enumerate() {
            let spread = spread(&gathered, Some(round));
            assert_eq!((spread.usual, spread.times), (wake_ups(usual), 3));
            assert_eq!(spread.rare, wake_ups(&[(22_000.0, 45_000.0)]));
        }
        let all = spread(&gathered, None);
        assert_eq!((all.usual, all.times), (wake_ups(&usual.concat()), 1));
        assert!(gathered.wake_ups(Some(3)).is_none());
    }

    #[test]
    fn a_burst_of_rare_ones_counts_for_twice_what_is_usual() {
        let mut costs = costs(7);
        let of = |usual: f64, times: usize, rare: usize| {
            [vec![usual; times], vec![50_000.0; rare]].concat()
        };
        let spreads = |usual| {
            let mut spreads = vec![of(usual, 60, 2); 7];
            spreads[3] = of(usual, 2, 60);
            spreads
        };
        set(
            &mut costs,
            Woken::Reader,
            spreads(WAKE_UP),
            spreads(WAKE_CALL),
        );
        let gathered = Gathered::new(&costs).unwrap();
        for round in [None, Some(0), Some(3)] {
            assert_eq!(spread(&gathered, round).rare.len(), 6 * 2 + 4);
        }
    }

    #[test]
    fn each_end_has_its_own() {
        let mut costs = costs(2);
        let (until, call) = (vec![vec![1000.0]; 2], vec![vec![2000.0]; 2]);
        set(&mut costs, Woken::Writer, until, call);
        let gathered = Gathered::new(&costs).unwrap();
        let [writer, reader] = gathered.wake_ups(Some(1)).unwrap();
        assert_ne!(writer.awake, reader.awake);
        assert_eq!(writer.in_turns, reader.in_turns);
        // Woken after 20 us, 8 of which the other was awake, it works for 1.
        let sleep = WAKE_UP - WAKE_CALL + 1000.0;
        assert_eq!(writer.in_turns_least_ns, AS_IN_TURNS * sleep);
    }

    #[test]
    fn where_one_is_missing_there_are_none() {
        let mut costs = costs(2);
        costs.retain(|cost| cost.kind.name != names(Woken::Writer, BEFORE)[1]);
        assert!(Gathered::new(&costs).is_none());
    }
}
