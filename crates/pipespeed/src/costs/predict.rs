//! The model applied to what was measured.

use super::gathered::Gathered;
use super::model::{self, Interruptions, Pipeline, Waiting};
use super::through::{self, Technique, Turns};
use super::{Cost, interruptions, wakeups};
use crate::machine::topology::Relation;
use crate::results::GIB;
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

/// What all predictions of a run are made of.
#[derive(Debug)]
pub struct Basis<'a> {
    costs: &'a [Cost],
    wake_ups: Option<Gathered>,
    interruptions: Option<Interruptions>,
}

impl<'a> Basis<'a> {
    /// Of these costs.
    pub fn new(costs: &'a [Cost]) -> Self {
        Basis {
            costs,
            wake_ups: Gathered::new(costs),
            interruptions: interruptions::seen(costs),
        }
    }

    /// The costs.
    pub fn costs(&self) -> &'a [Cost] {
        self.costs
    }

    /// Their medians.
    pub fn medians(&self) -> Figures<'_> {
        Figures {
            basis: self,
            round: None,
        }
    }

    /// Those of one round.
    pub fn of_round(&self, round: usize) -> Figures<'_> {
        Figures {
            basis: self,
            round: Some(round),
        }
    }
}

/// The figures of one round, or the medians of all.
#[derive(Debug)]
pub struct Figures<'a> {
    basis: &'a Basis<'a>,
    round: Option<usize>,
}

impl Figures<'_> {
    fn ns(&self, name: &str) -> Option<f64> {
        let mut costs = self.basis.costs.iter();
        let cost = costs.find(|cost| cost.kind.name == name)?;
        match self.round {
            None => cost.median,
            Some(round) => cost.samples.get(round).copied(),
        }
    }

    /// The rate in GiB/s that the costs let expect of trials of so many seconds; none
    /// where one of them is missing.
    pub fn rate(&self, scenario: &Scenario, trial_s: f64) -> Option<f64> {
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
        Some(page as f64 / model::ns_per_page(&pipeline, trial_s * 1e9, seed) * 1e9 / GIB)
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
        let wake_ups = self.basis.wake_ups.as_ref()?.wake_ups(self.round)?;
        let interruptions = self.basis.interruptions.clone()?;
        let [cold_in_ns, cold_out_ns] = self.through(scenario, Turns::Sleeping)?;
        Some(Waiting::SleepOnTwo {
            cold_in_ns,
            cold_out_ns,
            wake_ups,
            interruptions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::sleeps::{self, Before, Woken};
    use crate::costs::synthetic::{SWITCH, WAKE_UP, WOULD_BLOCK, costs, per_page};

    const TRIAL_S: f64 = 0.1;

    /// The names of all wake-ups' costs.
    fn all_wake_ups() -> Vec<[String; 2]> {
        let of = |woken| Before::all().map(move |before| sleeps::names(woken, before));
        Woken::ALL.into_iter().flat_map(of).collect()
    }

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
        let rate = Basis::new(costs).medians().rate(scenario, TRIAL_S).unwrap();
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
        let rate = |round| {
            Basis::new(&costs)
                .of_round(round)
                .rate(&scenario, TRIAL_S)
                .unwrap()
        };
        assert_eq!(
            rate(2),
            Basis::new(&costs)
                .medians()
                .rate(&scenario, TRIAL_S)
                .unwrap()
        );
        let (into, out) = per_page(Technique::WriteRead);
        let beside = 2.0 * WOULD_BLOCK / ((64 << 10) as f64 / page_size() as f64);
        let expected = (3.0 * into + out - beside) / (into + out - beside);
        assert!((rate(2) / rate(3) - expected).abs() < 0.02);
    }

    #[test]
    fn each_round_has_chances_of_its_own() {
        let mut costs = costs(3);
        for names in all_wake_ups() {
            for (name, values) in names.iter().zip([[100.0, 40_000.0], [8000.0; 2]]) {
                let cost = costs.iter_mut().find(|cost| cost.kind.name == *name);
                cost.unwrap().spreads.fill(values.to_vec());
            }
        }
        let scenario = scenario(false, Relation::Siblings);
        let rate = |round| {
            Basis::new(&costs)
                .of_round(round)
                .rate(&scenario, TRIAL_S)
                .unwrap()
        };
        assert_eq!(rate(0), rate(0));
        assert_ne!(rate(0), rate(1));
    }

    #[test]
    fn a_round_with_dear_wake_ups_is_predicted_to_be_slow() {
        let mut costs = costs(9);
        for name in all_wake_ups().into_iter().flatten() {
            let cost = costs.iter_mut().find(|cost| cost.kind.name == name);
            let cost = cost.unwrap();
            for round in 5..9 {
                cost.samples[round] *= 10.0;
                cost.spreads[round].iter_mut().for_each(|ns| *ns *= 10.0);
            }
        }
        let scenario = scenario(false, Relation::Siblings);
        let rate = |round| {
            Basis::new(&costs)
                .of_round(round)
                .rate(&scenario, TRIAL_S)
                .unwrap()
        };
        assert!(rate(4) > 3.0 * rate(5), "{} {}", rate(4), rate(5));
    }

    #[test]
    fn where_a_cost_is_missing_nothing_is_predicted() {
        let mut costs = costs(7);
        let scenario = scenario(false, Relation::Siblings);
        assert!(
            Basis::new(&costs)
                .medians()
                .rate(&scenario, TRIAL_S)
                .is_some()
        );
        assert_eq!(
            Basis::new(&costs).of_round(7).rate(&scenario, TRIAL_S),
            None
        );
        let [until, _] = sleeps::names(Woken::Reader, Before::Asleep(8000));
        costs.retain(|cost| cost.kind.name != until);
        assert_eq!(Basis::new(&costs).medians().rate(&scenario, TRIAL_S), None);
    }
}
