//! Costs that were never measured, for tests: round figures, of which one can
//! say what they must come to.

use super::sleeps::{Before, Woken};
use super::through::{self, Technique, Turns};
use super::{Cost, Group, Kind, Per, advice, cells, interruptions, sleeps, wakeups};
use crate::machine::Root;
use crate::machine::placement::{Chosen, Placement};
use crate::machine::topology::{Relation, Topology};

/// A wake-up on another processor, in nanoseconds.
pub const WAKE_UP: f64 = 20_000.0;
/// What it takes the caller.
pub const WAKE_CALL: f64 = 8000.0;
/// A switch on one processor.
pub const SWITCH: f64 = 2000.0;

/// A call that would block.
pub const WOULD_BLOCK: f64 = 200.0;

/// A cost of the same value in each of so many rounds.
pub fn cost(name: impl Into<String>, value: f64, rounds: usize) -> Cost {
    Cost {
        kind: Kind::new(Group::Calls, Per::Call, name, ""),
        median: Some(value),
        low: None,
        high: None,
        refused: None,
        samples: vec![value; rounds],
        spreads: vec![vec![value]; rounds],
    }
}

/// Nanoseconds a page, in and out.
pub fn per_page(technique: Technique) -> (f64, f64) {
    match technique {
        Technique::WriteRead | Technique::WriteReadHuge => (400.0, 400.0),
        Technique::VmspliceRead => (60.0, 100.0),
        Technique::VmspliceReadHuge => (20.0, 100.0),
        Technique::VmspliceSplice => (60.0, 50.0),
        Technique::VmspliceSpliceHuge => (20.0, 50.0),
    }
}

/// All that predictions for pieces of 64 KiB take.
pub fn costs(rounds: usize) -> Vec<Cost> {
    let cost = |name: String, value| cost(name, value, rounds);
    let mut all = vec![
        cost("would_block".to_owned(), WOULD_BLOCK),
        cost(wakeups::name(Relation::One), SWITCH),
    ];
    let sizes = [cells::sizes(), advice::sizes(64 << 10)].concat();
    for technique in Technique::ALL {
        let (into, out) = per_page(technique);
        for (pipe, piece) in &sizes {
            for turns in [Turns::Alone, Turns::Spinning, Turns::Sleeping] {
                let names = through::names(technique, *pipe, *piece, turns);
                let [name_in, name_out] = names;
                all.extend([cost(name_in, into), cost(name_out, out)]);
            }
        }
    }
    for woken in Woken::ALL {
        for before in Before::all() {
            let [until, call] = sleeps::names(woken, before);
            all.extend([cost(until, WAKE_UP), cost(call, WAKE_CALL)]);
        }
    }
    for end in ["writer", "reader"] {
        for name in interruptions::names(end) {
            let mut none = cost(name, 0.0);
            none.spreads = vec![Vec::new(); rounds];
            all.push(none);
        }
    }
    all
}

/// The cells of two processors of which nothing is known, not measured yet.
pub fn some_cells() -> Vec<cells::Cell> {
    let topology = Topology::read(&Root("/nonexistent".into()));
    let chosen = Chosen {
        writer: Some(0),
        reader: Some(1),
        relation: String::new(),
        warning: None,
    };
    cells::all(&[(Placement::Different, chosen)], &topology)
}
