//! The model applied to what was measured.

use super::model::{self, Pipeline, Waiting, WakeUps};
use super::through::{self, Technique, Turns};
use super::{Cost, interruptions, sleeps, wakeups};
use crate::machine::topology::Relation;
use crate::results::GIB;
use crate::stats;
use fastpipe::pipe::page_size;

/// What one might do with a pipe. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scenario {
    /// The way through.
    pub technique: Technique,
    /// The pipe's size.
    pub pipe: usize,
    /// What one call moves at most.
    pub piece: usize,
    /// Whether the ends spin while they wait.
    pub spins: bool,
    /// How the ends' processors lie to each other.
    pub relation: Relation,
}

/// A single wake-up that took so many times as long as the longest usual one was
/// kept from its processor: it counts as so long.
const MOST_OF_USUAL: f64 = 5.0;

/// A wake-up whose call took so many times as long as the longest usual one was
/// interrupted, which is rare.
const INTERRUPTED: f64 = 2.0;

/// No round has more of these than so many times what is usual: a host that was
/// busy then is no chance of every wake-up.
const MOST_OF_RARE: f64 = 2.0;

/// The figures of one round, or the medians of all.
pub struct Figures<'a> {
    costs: &'a [Cost],
    round: Option<usize>,
}

impl<'a> Figures<'a> {
    /// The medians.
    pub fn medians(costs: &'a [Cost]) -> Self {
        Figures { costs, round: None }
    }

    /// Those of one round.
    pub fn of_round(costs: &'a [Cost], round: usize) -> Self {
        Figures {
            costs,
            round: Some(round),
        }
    }

    fn cost(&self, name: &str) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.kind.name == name)
    }

    fn ns(&self, name: &str) -> Option<f64> {
        let cost = self.cost(name)?;
        match self.round {
            None => cost.median,
            Some(round) => cost.samples.get(round).copied(),
        }
    }

    /// The rate in GiB/s that the costs let expect; none where one of them is
    /// missing.
    pub fn rate(&self, scenario: &Scenario) -> Option<f64> {
        let page = page_size();
        let turns = match scenario.relation {
            Relation::One => Turns::Alone,
            _ => Turns::Spinning,
        };
        let [in_ns, out_ns] = self.through(scenario, turns)?;
        let pipeline = Pipeline {
            capacity: (scenario.pipe / page).max(1),
            piece: (scenario.piece / page).max(1),
            in_ns,
            out_ns,
            outside_ns: match turns {
                // What one end does the other waits for.
                Turns::Alone => 0.0,
                _ => self.ns("would_block")?,
            },
            writes_all: matches!(
                scenario.technique,
                Technique::WriteRead | Technique::WriteReadHuge
            ),
            wakes_locked: matches!(
                scenario.technique,
                Technique::VmspliceSplice | Technique::VmspliceSpliceHuge
            ),
            waiting: self.waiting(scenario)?,
        };
        let seed = self.round.map_or(0, |round| round as u64 + 1);
        Some(page as f64 / model::ns_per_page(&pipeline, seed) * 1e9 / GIB)
    }

    /// Nanoseconds a page, in and out.
    fn through(&self, scenario: &Scenario, turns: Turns) -> Option<[f64; 2]> {
        let names = through::names(scenario.technique, scenario.pipe, scenario.piece, turns);
        Some([self.ns(&names[0])?, self.ns(&names[1])?])
    }

    fn waiting(&self, scenario: &Scenario) -> Option<Waiting> {
        if scenario.spins {
            return Some(Waiting::Spin(self.ns("would_block")?));
        }
        if scenario.relation == Relation::One {
            let switch = self.ns(&wakeups::name(Relation::One))?;
            return Some(Waiting::SleepOnOne(switch));
        }
        let wake_ups = self.wake_ups()?;
        let interruptions = interruptions::usual(self.costs)?;
        let [cold_in_ns, cold_out_ns] = self.through(scenario, Turns::Sleeping)?;
        Some(Waiting::SleepOnTwo {
            cold_in_ns,
            cold_out_ns,
            wake_ups,
            interruptions,
        })
    }

    /// What single wake-ups took after each length of sleep, the shortest first:
    /// the usual ones of this round, the rare ones of all, of which one round sees
    /// too few, each as often as it was.
    fn wake_ups(&self) -> Option<Vec<WakeUps>> {
        let names = sleeps::SLEEPS_NS.map(sleeps::names);
        let mut each = Vec::new();
        for [until, call] in &names {
            each.push([self.cost(until)?, self.cost(call)?]);
        }
        let rounds = each.first()?[0].spreads.len();
        let longest: Option<Vec<[f64; 2]>> = (0..rounds)
            .map(|round| longest_usual(&each, round))
            .collect();
        let longest = longest?;
        let mut all = Vec::new();
        for (slept_ns, [until, call]) in sleeps::SLEEPS_NS.into_iter().zip(&each) {
            // Each round's usual ones, and its rare ones.
            let mut by_round = Vec::new();
            for (round, [longest_until, longest_call]) in longest.iter().enumerate() {
                let both = until.spreads.get(round)?.iter();
                let both = both.zip(call.spreads.get(round)?);
                let seen = both
                    .map(|(until, call)| (until.min(MOST_OF_USUAL * longest_until), *call))
                    .partition::<Vec<(f64, f64)>, _>(|(_, call)| {
                        *call <= INTERRUPTED * longest_call
                    });
                by_round.push(seen);
            }
            let counts: Vec<f64> = by_round.iter().map(|(_, r)| r.len() as f64).collect();
            let usual = stats::median(&counts).unwrap_or(0.0).max(1.0);
            let most = (MOST_OF_RARE * usual) as usize;
            let mut ns: Vec<(f64, f64)> = Vec::new();
            for (round, (usual, rare)) in by_round.iter().enumerate() {
                let times = match self.round {
                    None => 1,
                    // In place of the other rounds' usual ones.
                    Some(this) if this == round => rounds,
                    Some(_) => 0,
                };
                for _ in 0..times {
                    ns.extend(usual);
                }
                let every = rare.len().div_ceil(most).max(1);
                ns.extend(rare.iter().step_by(every));
            }
            all.push(WakeUps {
                slept_ns: slept_ns as f64,
                ns,
            });
        }
        Some(all)
    }
}

/// What a wake-up usually took in a round, and its caller, after the sleep for
/// which that is most.
fn longest_usual(each: &[[&Cost; 2]], round: usize) -> Option<[f64; 2]> {
    let mut longest = [0.0_f64; 2];
    for costs in each {
        for (longest, cost) in longest.iter_mut().zip(costs) {
            *longest = longest.max(*cost.samples.get(round)?);
        }
    }
    Some(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::sleeps::SLEEPS_NS;
    use crate::costs::synthetic::{SWITCH, WAKE_UP, WOULD_BLOCK, costs, per_page};

    fn scenario(spins: bool, relation: Relation) -> Scenario {
        Scenario {
            technique: Technique::WriteRead,
            pipe: 64 << 10,
            piece: 256 << 10,
            spins,
            relation,
        }
    }

    fn ns_per_page(costs: &[Cost], scenario: &Scenario) -> f64 {
        let rate = Figures::medians(costs).rate(scenario).unwrap();
        page_size() as f64 * 1e9 / GIB / rate
    }

    #[test]
    fn a_pipeful_takes_both_ends_and_what_waiting_takes() {
        let costs = costs(7);
        let (into, out) = per_page(Technique::WriteRead);
        let slots = (64 << 10) as f64 / page_size() as f64;
        let two = Relation::SharedCache(3);
        for (scenario, waiting) in [
            // The ways into the kernel and out of it go on at once.
            (scenario(true, two), -2.0 * WOULD_BLOCK),
            (scenario(false, Relation::One), 2.0 * SWITCH),
            (scenario(false, two), 2.0 * WAKE_UP),
        ] {
            let expected = into + out + waiting / slots;
            let ns = ns_per_page(&costs, &scenario);
            assert!((ns / expected - 1.0).abs() < 0.02, "{ns}: {scenario:?}");
        }
    }

    #[test]
    fn a_round_s_prediction_is_of_its_own_costs() {
        let mut costs = costs(7);
        let names = through::names(Technique::WriteRead, 64 << 10, 256 << 10, Turns::Spinning);
        let cost = costs.iter_mut().find(|cost| cost.kind.name == names[0]);
        cost.unwrap().samples[3] *= 3.0;
        let scenario = scenario(true, Relation::Siblings);
        let rate = |round| Figures::of_round(&costs, round).rate(&scenario).unwrap();
        assert_eq!(rate(2), Figures::medians(&costs).rate(&scenario).unwrap());
        let (into, out) = per_page(Technique::WriteRead);
        let beside = 2.0 * WOULD_BLOCK / ((64 << 10) as f64 / page_size() as f64);
        let expected = (3.0 * into + out - beside) / (into + out - beside);
        assert!((rate(2) / rate(3) - expected).abs() < 0.02);
    }

    #[test]
    fn each_round_has_chances_of_its_own() {
        let mut costs = costs(3);
        for slept_ns in SLEEPS_NS {
            let names = sleeps::names(slept_ns);
            for (name, values) in names.iter().zip([[100.0, 40_000.0], [8000.0; 2]]) {
                let cost = costs.iter_mut().find(|cost| cost.kind.name == *name);
                cost.unwrap().spreads.fill(values.to_vec());
            }
        }
        let scenario = scenario(false, Relation::Siblings);
        let rate = |round| Figures::of_round(&costs, round).rate(&scenario).unwrap();
        assert_eq!(rate(0), rate(0));
        assert_ne!(rate(0), rate(1));
    }

    #[test]
    fn usual_wake_ups_are_those_of_the_round_and_rare_ones_of_all() {
        let mut costs = costs(3);
        let [until, call] = sleeps::names(8000);
        let mut set = |name: &str, each: [[f64; 2]; 3]| {
            let cost = costs.iter_mut().find(|cost| cost.kind.name == name);
            cost.unwrap().spreads = each.map(|each| each.to_vec()).to_vec();
        };
        // Usual are 20 and 8 us, after each sleep.
        set(
            &until,
            [[500.0, 21_000.0], [22_000.0, 23_000.0], [3e6, 24_000.0]],
        );
        set(
            &call,
            [[300.0, 8500.0], [45_000.0, 7000.0], [9000.0, 9500.0]],
        );
        let rare = (22_000.0, 45_000.0);
        let most = MOST_OF_USUAL * WAKE_UP;
        let of = |figures: Figures<'_>| {
            let all = figures.wake_ups().unwrap();
            let mut wake_ups = all.into_iter().find(|known| known.slept_ns == 8000.0);
            let mut ns = std::mem::take(&mut wake_ups.as_mut().unwrap().ns);
            ns.sort_by(|a, b| a.0.total_cmp(&b.0));
            ns
        };
        let (first, second) = ((500.0, 300.0), (21_000.0, 8500.0));
        let mut expected = [vec![first; 3], vec![second; 3], vec![rare]].concat();
        assert_eq!(of(Figures::of_round(&costs, 0)), expected);
        expected = [vec![rare], vec![(23_000.0, 7000.0); 3]].concat();
        assert_eq!(of(Figures::of_round(&costs, 1)), expected);
        expected = [
            vec![rare],
            vec![(24_000.0, 9500.0); 3],
            vec![(most, 9000.0); 3],
        ]
        .concat();
        assert_eq!(of(Figures::of_round(&costs, 2)), expected);
        assert_eq!(of(Figures::medians(&costs)).len(), 6);
    }

    #[test]
    fn a_burst_of_rare_wake_ups_counts_for_twice_what_is_usual() {
        let mut costs = costs(7);
        let [until, call] = sleeps::names(8000);
        for (name, usual) in [(until, WAKE_UP), (call, 8000.0)] {
            let cost = costs.iter_mut().find(|cost| cost.kind.name == name);
            let spreads = &mut cost.unwrap().spreads;
            spreads.fill([vec![usual; 60], vec![50_000.0; 2]].concat());
            spreads[3] = [vec![usual; 2], vec![50_000.0; 60]].concat();
        }
        let rare = |figures: Figures<'_>| {
            let all = figures.wake_ups().unwrap();
            let known = all.iter().find(|known| known.slept_ns == 8000.0);
            let rare = known
                .unwrap()
                .ns
                .iter()
                .filter(|(_, call)| *call > 16_000.0);
            rare.count()
        };
        assert_eq!(rare(Figures::medians(&costs)), 6 * 2 + 4);
        assert_eq!(rare(Figures::of_round(&costs, 0)), 6 * 2 + 4);
    }

    #[test]
    fn a_round_with_dear_wake_ups_is_predicted_to_be_slow() {
        let mut costs = costs(9);
        for name in SLEEPS_NS.into_iter().flat_map(sleeps::names) {
            let cost = costs.iter_mut().find(|cost| cost.kind.name == name);
            let cost = cost.unwrap();
            for round in 5..9 {
                cost.samples[round] *= 10.0;
                cost.spreads[round].iter_mut().for_each(|ns| *ns *= 10.0);
            }
        }
        let scenario = scenario(false, Relation::Siblings);
        let rate = |round| Figures::of_round(&costs, round).rate(&scenario).unwrap();
        assert!(rate(4) > 3.0 * rate(5), "{} {}", rate(4), rate(5));
    }

    #[test]
    fn where_a_cost_is_missing_nothing_is_predicted() {
        let mut costs = costs(7);
        let scenario = scenario(false, Relation::Siblings);
        assert!(Figures::medians(&costs).rate(&scenario).is_some());
        assert_eq!(Figures::of_round(&costs, 7).rate(&scenario), None);
        costs.retain(|cost| !cost.kind.name.starts_with("wake_up_after_8000"));
        assert_eq!(Figures::medians(&costs).rate(&scenario), None);
    }
}
