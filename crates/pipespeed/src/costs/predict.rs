//! The model applied to what was measured.

use super::model::{self, Pipeline, Waiting, WakeUps};
use super::through::{self, Technique, Turns};
use super::{Cost, interruptions, lock, sleeps, wakeups};
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

/// A round in which wake-ups took so many times as long as usual was disturbed
/// as a whole.
const DISTURBED: f64 = 2.0;

/// And a single one that took so many times as long was kept from its
/// processor, which is counted as an interruption. A round in which the lock
/// was kept so much more often than usual was disturbed, too.
const MOST_OF_USUAL: f64 = 5.0;

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
        Some(page as f64 / model::ns_per_page(&pipeline) * 1e9 / GIB)
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
        // The shortest first.
        let wake_ups: Option<Vec<WakeUps>> = sleeps::SLEEPS_NS
            .iter()
            .map(|&slept_ns| self.wake_ups(slept_ns))
            .collect();
        let wake_ups = wake_ups?;
        let interruptions = interruptions::usual(self.costs)?;
        let [cold_in_ns, cold_out_ns] = self.through(scenario, Turns::Sleeping)?;
        Some(Waiting::SleepOnTwo {
            cold_in_ns,
            cold_out_ns,
            wake_ups,
            interruptions,
            lock_kept: self.lock_kept(scenario.technique)?,
        })
    }

    /// A round sees a handful at most, so it is the mean of all of them that
    /// tells how often it happens.
    fn lock_kept(&self, technique: Technique) -> Option<f64> {
        let cost = self.cost(&lock::name(technique))?;
        let most = match cost.median? {
            usual if usual > 0.0 => MOST_OF_USUAL * usual,
            _ => f64::INFINITY,
        };
        let sum: f64 = cost.samples.iter().map(|percent| percent.min(most)).sum();
        Some(sum / cost.samples.len().max(1) as f64 / 100.0)
    }

    fn wake_ups(&self, slept_ns: u64) -> Option<WakeUps> {
        let [until, call] = sleeps::names(slept_ns);
        Some(WakeUps {
            slept_ns: slept_ns as f64,
            ns: self.spread(&until)?.zip(self.spread(&call)?).collect(),
        })
    }

    /// What single wake-ups took, of all rounds, since the rare ones matter
    /// too; moved to where this round's lie.
    fn spread(&self, name: &str) -> Option<impl Iterator<Item = f64>> {
        let cost = self.cost(name)?;
        let (here, usual) = (self.ns(name)?, cost.median?);
        let scale = match usual > 0.0 {
            true => (here / usual).min(DISTURBED),
            false => 1.0,
        };
        let all = cost.spreads.iter().flatten();
        // What hit a whole round is no chance of single wake-ups.
        let most = MOST_OF_USUAL * usual;
        Some(all.map(move |ns| ns.min(most) * scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::synthetic::{SWITCH, WAKE_UP, costs, per_page};

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
            (scenario(true, two), 0.0),
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
        assert!((rate(2) / rate(3) - 2.0).abs() < 0.02);
    }

    #[test]
    fn how_often_the_lock_is_kept_is_a_mean_and_disturbed_rounds_hardly_count() {
        let mut costs = costs(7);
        let name = lock::name(Technique::WriteRead);
        let cost = costs.iter_mut().find(|cost| cost.kind.name == name);
        let cost = cost.unwrap();
        cost.samples = vec![0.0, 1.0, 1.0, 2.0, 1.0, 0.0, 90.0];
        cost.median = Some(1.0);
        let kept = Figures::of_round(&costs, 2).lock_kept(Technique::WriteRead);
        assert!((kept.unwrap() - 0.1 / 7.0).abs() < 1e-9, "{kept:?}");
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
