//! The model applied to what was measured.

use super::model::{self, Interruptions, Pipeline, Waiting, WakeUps};
use super::through::{self, Technique};
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
        let crosses = scenario.relation != Relation::One;
        let names = through::names(scenario.technique, scenario.pipe, scenario.piece, crosses);
        let pipeline = Pipeline {
            capacity: scenario.pipe / page,
            piece: scenario.piece / page,
            in_ns: self.ns(&names[0])?,
            out_ns: self.ns(&names[1])?,
            writes_all: matches!(
                scenario.technique,
                Technique::WriteRead | Technique::WriteReadHuge
            ),
            waiting: self.waiting(scenario)?,
        };
        Some(page as f64 / model::ns_per_page(&pipeline) * 1e9 / GIB)
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
        Some(Waiting::SleepOnTwo {
            wake_ups,
            interruptions,
            lock_kept: self.ns(lock::NAME)? / 100.0,
        })
    }

    fn wake_ups(&self, slept_ns: u64) -> Option<WakeUps> {
        let [until, call] = sleeps::names(slept_ns);
        Some(WakeUps {
            slept_ns: slept_ns as f64,
            until_ns: self.spread(&until)?,
            call_ns: self.spread(&call)?,
        })
    }

    fn spread(&self, name: &str) -> Option<Vec<f64>> {
        let spreads = &self.cost(name)?.spreads;
        match self.round {
            None => Some(spreads.concat()),
            Some(round) => spreads.get(round).cloned(),
        }
    }
}
