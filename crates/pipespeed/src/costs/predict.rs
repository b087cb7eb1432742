//! The model applied to what was measured.

use super::model::{self, Interruptions, Pipeline, Waiting, WakeUps};
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
/// processor, which is counted as an interruption.
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
        let [one, between] = interruptions::NAMES;
        let interruptions = Interruptions {
            every_ns: self.cost(between)?.median?,
            // There are few in a round.
            lengths_ns: self.cost(one)?.spreads.concat(),
        };
        let [cold_in_ns, cold_out_ns] = self.through(scenario, Turns::Sleeping)?;
        Some(Waiting::SleepOnTwo {
            cold_in_ns,
            cold_out_ns,
            wake_ups,
            interruptions,
            lock_kept: self.ns(&lock::name(scenario.technique))? / 100.0,
        })
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
